//! How much memory the process holds, where the system tells (Linux).

mod room;

pub use room::MemoryShortage;
pub(crate) use room::{check_memory, fits};

use trainyard_host::{peak_bytes, reset_peak, resident_bytes};

/// Callbacks by which a program that counts its own allocations reports them. The system counts pages, which an
/// allocator keeps after the program has freed memory: after a calibration in the same process, that hides what a run
/// takes.
#[derive(Clone, Copy, Debug)]
pub struct AllocationMeter {
    /// Starts to count.
    pub start: fn(),
    /// Returns the most bytes since then beyond those that were there.
    pub peak_bytes: fn() -> u64,
}

/// Watches the memory that a run takes beyond what the process had before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryWatch {
    meter: Option<AllocationMeter>,
    before: Option<u64>,
}

impl MemoryWatch {
    /// Starts to watch, by `meter` where there is one, else by what the system tells.
    pub(crate) fn start(meter: Option<AllocationMeter>) -> Self {
        let before = match meter {
            Some(meter) => {
                (meter.start)();
                Some(0)
            }
            None => resident_bytes().filter(|_| reset_peak()),
        };
        Self { meter, before }
    }

    /// Returns the most bytes so far beyond those at the start; `None` where nothing reports them.
    pub(crate) fn peak(self) -> Option<u64> {
        let peak = self.meter.map_or_else(peak_bytes, |meter| Some((meter.peak_bytes)()))?;
        Some(peak.saturating_sub(self.before?))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const ALONE: &str = "memory::tests::the_peak_of_a_process_follows_what_it_touches";

    /// Ignored because the peak is the whole process's: other tests allocate and free beside it.
    #[test]
    #[ignore = "runs alone, in the process that the_peak_follows_what_is_touched starts"]
    fn the_peak_of_a_process_follows_what_it_touches() {
        let watch = MemoryWatch::start(None);
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        let peak = watch.peak().expect("Linux tells");
        assert!((60 << 20..80 << 20).contains(&peak), "{peak} {}", block.len());
    }

    #[test]
    fn the_peak_follows_what_is_touched() {
        let program = std::env::current_exe().expect("a path");
        let output = std::process::Command::new(program)
            .args(["--exact", ALONE, "--ignored"])
            .output()
            .expect("the program of the tests starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn a_meter_is_believed_before_the_system() {
        let meter = AllocationMeter { start: || {}, peak_bytes: || 350 };
        assert_eq!(MemoryWatch::start(Some(meter)).peak(), Some(350));
    }
}
