//! What the operating system tells about this machine.

use std::fs;
use trainyard_executor::Clock;
use trainyard_history::UtcTime;
use trainyard_units::Bytes;

/// What is assumed where the system does not tell.
const UNKNOWN_MEMORY: Bytes = Bytes(8 << 30);

/// The processor's name.
pub(crate) fn processor() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// Main memory that this process may use: that of the machine, or less where a container limits it.
pub(crate) fn memory() -> Bytes {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
    });
    let container = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(container).min().map_or(UNKNOWN_MEMORY, Bytes)
}

/// Now, UTC. As `SOURCE_DATE_EPOCH` says where it is set, so that what is made twice is the same twice.
///
/// # Source
///
/// Reproducible Builds, "SOURCE_DATE_EPOCH specification", version 1.0.
pub(crate) fn now() -> UtcTime {
    let told = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    UtcTime::of_unix_seconds(told.unwrap_or_else(Clock::unix_seconds))
}

/// Today's date in UTC, `2026-11-21`.
pub(crate) fn today() -> String {
    now().date()
}
