//! The papers' tables, recomputed beside what is printed and measured.

mod liu_figures;
mod ours;
mod zeng_data;
mod zeng_tables;

pub use liu_figures::{CHOSEN, Chosen, Scaling, figures, replacement};
pub use ours::{Fitted, ServerFit, fit_server_terms};
pub use zeng_tables::{Cell, FlopRow, Table, flops, tables};

/// Mean of absolute relative errors.
pub(crate) fn mean_error(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (sum, count) = pairs.fold((0.0, 0.0), |(sum, count), (predicted, truth)| {
        (sum + (predicted / truth - 1.0).abs(), count + 1.0)
    });
    sum / count
}
