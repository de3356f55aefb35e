//! What a user measured of a machine of their own, in tables.

mod csv;
pub mod elements;
pub mod gemm;

pub use elements::{Coefficients, Element, ElementTime, FitError, Linear, fit};
pub use gemm::{GemmTable, Product};
