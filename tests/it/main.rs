//! One integration binary, a module a topic.
#![allow(clippy::print_stdout, reason = "tests print the numbers they judge")]

mod allocations;
mod bad_input;
mod catalogue;
mod check;
mod cli;
mod cluster_files;
mod evaluate_cli;
mod fixtures;
mod fuzz;
mod lab_compute;
mod lab_ddp;
mod lab_ps;
mod lab_rows;
mod laws;
mod learning;
mod observations;
mod places;
mod planning;
mod protocol;
mod ps_exact;
mod purity;
mod reproduce;
mod ring_laws;
mod serve;
mod serve_fuzz;
mod sim;
mod sprint;
