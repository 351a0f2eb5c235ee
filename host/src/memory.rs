//! Main memory: what is free of it, and what this process takes. Linux tells; elsewhere nothing is known.

use std::fs;
use std::path::{Path, PathBuf};
use trainyard_units::Bytes;

/// Returns the main memory that this process may still take: what is free of the machine, or less where a container
/// limits it.
pub fn available_memory() -> Option<Bytes> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| told(&text, "MemAvailable:"));
    machine.into_iter().chain(containers()).min().map(Bytes)
}

/// Returns the main memory that this process may take when nothing else does: that of the machine, or less where a
/// container limits it.
pub fn total_memory() -> Option<Bytes> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| told(&text, "MemTotal:"));
    machine.into_iter().chain(limits()).min().map(Bytes)
}

/// Returns the bytes of a field that the system reports (`proc(5)`): `MemAvailable` is what it would give without
/// swapping.
fn told(report: &str, field: &str) -> Option<u64> {
    let line = report.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The names of a control group's files.
struct GroupFiles {
    limit: &'static str,
    usage: &'static str,
    /// The entries of the group's statistics that count memory the system gives back when it runs short.
    cached: [&'static str; 2],
}

/// Sources: Linux `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst`.
const SECOND: GroupFiles =
    GroupFiles { limit: "memory.max", usage: "memory.current", cached: ["active_file", "inactive_file"] };
const FIRST: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cached: ["total_active_file", "total_inactive_file"],
};

/// Returns the memory left in the control groups around this process, one number for each that has a limit.
fn containers() -> Vec<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    group_folders(&groups)
        .iter()
        .filter_map(|(folder, files)| {
            let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
            left(files, &read(files.limit)?, &read(files.usage)?, &read("memory.stat").unwrap_or_default())
        })
        .collect()
}

/// Returns the limits of the control groups around this process, one number for each that has a limit.
fn limits() -> Vec<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = |(folder, files): &(PathBuf, &GroupFiles)| {
        fs::read_to_string(folder.join(files.limit)).ok()?.trim().parse().ok()
    };
    group_folders(&groups).iter().filter_map(limit).collect()
}

/// Returns the folders of the groups that a process is in, as `/proc/self/cgroup` tells, and of those around them.
/// Inside a container the path may be that of the host, where only the root is to be seen.
fn group_folders(groups: &str) -> Vec<(PathBuf, &'static GroupFiles)> {
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, files) = match controllers {
            "" => ("/sys/fs/cgroup", &SECOND),
            _ if controllers.split(',').any(|controller| controller == "memory") => ("/sys/fs/cgroup/memory", &FIRST),
            _ => continue,
        };
        let inside = Path::new(path.trim_start_matches('/'));
        folders.extend(inside.ancestors().map(|inside| (Path::new(root).join(inside), files)));
    }
    folders
}

/// Returns the memory left below a group's limit; `None` if it has no limit.
fn left(files: &GroupFiles, limit: &str, usage: &str, statistics: &str) -> Option<u64> {
    let limit: u64 = limit.trim().parse().ok()?;
    let usage: u64 = usage.trim().parse().ok()?;
    let cached = statistics.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        files.cached.contains(&name).then(|| value.trim().parse::<u64>().ok())?
    });
    Some(limit.saturating_sub(usage.saturating_sub(cached.sum())))
}

/// Returns the bytes of this process that are in main memory now.
pub fn resident_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

/// Forgets the peak so far, so that [`peak_bytes`] tells that of what follows. Returns whether the system did so.
pub fn reset_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Returns the most bytes of this process that were in main memory since [`reset_peak`].
pub fn peak_bytes() -> Option<u64> {
    status_bytes("VmHWM:")
}

fn status_bytes(field: &str) -> Option<u64> {
    told(&fs::read_to_string("/proc/self/status").ok()?, field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_tells_is_understood() {
        let both = "MemTotal:  100 kB\nMemAvailable:      24 kB\n";
        assert_eq!(told(both, "MemAvailable:"), Some(24 * 1024));
        assert_eq!(told(both, "MemTotal:"), Some(100 * 1024));
        assert_eq!(told("MemTotal:  100 kB\n", "MemAvailable:"), None);
        let statistics = "anon 500\nactive_file 30\ninactive_file 70\ntotal_active_file 1\n";
        assert_eq!(left(&SECOND, "1000\n", "600\n", statistics), Some(500));
        assert_eq!(left(&SECOND, "max\n", "600\n", statistics), None);
        assert_eq!(left(&FIRST, "1000\n", "1200\n", ""), Some(0));
        let folders = |groups: &str| {
            let found = group_folders(groups).into_iter().map(|(folder, _)| folder.display().to_string());
            found.collect::<Vec<_>>()
        };
        assert_eq!(folders("0::/a/b\n"), ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup/"]);
        assert_eq!(folders("5:cpu:/x\n4:cpu,memory:/x\n"), ["/sys/fs/cgroup/memory/x", "/sys/fs/cgroup/memory/"]);
        assert_eq!(folders("0::/\n"), ["/sys/fs/cgroup/"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn something_is_free_here() {
        assert!(available_memory().is_some_and(|bytes| bytes.0 > 1 << 20));
    }
}
