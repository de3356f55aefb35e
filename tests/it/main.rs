//! One integration binary, a module a topic.

mod catalogue;
mod fixtures;
mod lab_compute;
mod lab_rows;
