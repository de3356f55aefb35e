//! Several evaluations, as one page.

use crate::calibration::Calibration;
use crate::cli::files::Failure;
use std::path::Path;

pub(super) fn run(_suite: &Path, _page: &Path, _calibration: &Calibration) -> Result<(), Failure> {
    Err("not yet".into())
}
