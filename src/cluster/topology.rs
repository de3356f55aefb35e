//! Where a node stands, and what the links between places carry.

use crate::units::BytesPerSecond;
use std::sync::Arc;

/// Where a node stands, as far as its labels say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Zone of the cloud or the building.
    pub zone: Option<Arc<str>>,
    /// Rack, leaf switch or placement block.
    pub rack: Option<Arc<str>>,
    /// Accelerators of one domain reach each other over `NVLink`.
    pub nvlink_domain: Option<Arc<str>>,
}

/// What one node gets of the links between places, where that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Links {
    /// Between nodes of different zones.
    pub between_zones: Option<BytesPerSecond>,
    /// Between nodes of different racks of a zone.
    pub between_racks: Option<BytesPerSecond>,
}

impl Links {
    /// Whether nothing is known.
    pub const fn is_empty(&self) -> bool {
        self.between_zones.is_none() && self.between_racks.is_none()
    }

    /// What traffic between two places is held to.
    pub fn between(&self, a: &Place, b: &Place) -> Option<BytesPerSecond> {
        let apart = |x: &Option<Arc<str>>, y: &Option<Arc<str>>| match (x, y) {
            (Some(x), Some(y)) => x != y,
            _ => false,
        };
        if apart(&a.zone, &b.zone) {
            self.between_zones
        } else if apart(&a.rack, &b.rack) {
            self.between_racks
        } else {
            None
        }
    }
}
