//! What the operating system tells about this machine.

use std::fs;
use std::time::UNIX_EPOCH;
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

/// Today's date in UTC, `2026-11-21`, as the file system tells it: only the executor reads the clock.
pub(crate) fn today() -> Option<String> {
    let modified = tempfile::tempfile().ok()?.metadata().ok()?.modified().ok()?;
    let days = modified.duration_since(UNIX_EPOCH).ok()?.as_secs() / 86_400;
    Some(date(days))
}

/// The date so many days after 1970-01-01.
///
/// # Source
///
/// Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`, for days that are not negative.
fn date(days: u64) -> String {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_778), "2026-11-21");
    }
}
