//! Files as people write them. Text becomes a [`Tree`], a tree is read field
//! by field, and every problem is kept, so that a file is mended in one go.

mod problem;
mod reader;
mod tree;

pub use problem::{Problem, Problems, near};
pub use reader::{Field, Object, Reader};
pub use tree::{Number, Tree, parse};
