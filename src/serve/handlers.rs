//! The services. Each handler reads one snapshot and waits for nobody.

mod calibration;
mod inventory;
mod observations;
mod predictor;
mod scores;

use super::access::Access;
use super::reports::Reports;
use super::state::State;
use std::sync::Arc;

/// What all services share.
#[derive(Clone)]
pub(crate) struct Handlers {
    pub(crate) state: Arc<State>,
    pub(crate) access: Arc<Access>,
    pub(crate) reports: Arc<Reports>,
}
