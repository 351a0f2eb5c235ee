//! Time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A point in time from which others are measured.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts to count.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Returns the seconds since the start.
    pub fn seconds(self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Returns whole seconds since 1970, UTC; 0 on a machine whose clock stands before that.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
    pub fn unix_seconds() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}
