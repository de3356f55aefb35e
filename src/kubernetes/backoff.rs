//! Waits between tries: longer each time, and never all at once.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(20);

/// The next wait.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// Waits so long now, and up to twice as long next time.
    pub(super) fn wait(&mut self) -> Duration {
        // Hashing with fresh keys is random enough to part replicas.
        let random = RandomState::new().hash_one(0_u8) as f64 / u64::MAX as f64;
        let wait = self.next.mul_f64(0.5 + random);
        self.next = (self.next * 2).min(LONGEST);
        wait
    }

    /// All is well again.
    pub(super) const fn reset(&mut self) {
        self.next = FIRST;
    }
}
