//! What Ctrl-C is to the programs that a test starts.

/// `-INT`; `-TERM` where this process was started with Ctrl-C ignored, as a shell does beside its script: the programs
/// that it starts then ignore it too, and shall.
pub(crate) fn interrupt() -> &'static str {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    if ignored & 0b10 == 0 { "-INT" } else { "-TERM" }
}
