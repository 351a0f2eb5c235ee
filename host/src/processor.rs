//! The processor that ranks share.

use std::fs;

/// Returns the processor's name, where the system reports it.
pub fn processor_name() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// Returns the number of processor threads of this machine.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the seconds of processor time that this process has had; `None` where the system does not tell.
pub fn processor_time() -> Option<f64> {
    // Linux counts them in hundredths of a second (`USER_HZ`), behind the program's name in parentheses.
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}

/// Returns the number of processor threads of each of `ranks` ranks on `cores`.
pub fn threads_per_rank(cores: usize, ranks: usize) -> usize {
    (cores / ranks).max(1)
}
