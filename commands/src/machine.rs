//! What the operating system tells about this machine.

use trainyard_history::UtcTime;
use trainyard_host::{Clock, total_memory};
use trainyard_units::Bytes;

/// Main memory that is assumed where the system does not tell.
const UNKNOWN_MEMORY: Bytes = Bytes(8 << 30);

/// Returns the main memory that this process may use.
pub(crate) fn memory() -> Bytes {
    total_memory().unwrap_or(UNKNOWN_MEMORY)
}

/// Returns the current time in UTC, or that of `SOURCE_DATE_EPOCH` where it is set, so that results are reproducible.
///
/// # Source
///
/// Reproducible Builds, "SOURCE_DATE_EPOCH specification", version 1.0.
pub(crate) fn now() -> UtcTime {
    let told = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    UtcTime::of_unix_seconds(told.unwrap_or_else(Clock::unix_seconds))
}

/// Returns today's date in UTC: `2026-11-21`.
pub(crate) fn today() -> String {
    now().date()
}
