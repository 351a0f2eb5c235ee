//! Where memory comes from, and how much there was at most.
#![allow(
    unsafe_code,
    reason = "an allocator is handed addresses, and that of the C library takes its settings through a C function; see the arguments below"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Counts allocations from a moment on, so that a run can tell how much memory training takes.
#[cfg_attr(feature = "run", global_allocator)]
pub(crate) static ALLOCATOR: Counting =
    Counting { counts: AtomicBool::new(false), current: AtomicI64::new(0), peak: AtomicI64::new(0) };

/// The system's allocator. Until it is asked to count it costs what that costs: planning and serving allocate much.
pub(crate) struct Counting {
    counts: AtomicBool,
    /// Bytes since the start: below zero once more was freed of what had been there before.
    current: AtomicI64,
    peak: AtomicI64,
}

#[cfg_attr(not(feature = "run"), allow(dead_code, reason = "only runs are measured"))]
impl Counting {
    /// Counts from now on.
    pub(crate) fn start(&self) {
        self.current.store(0, Ordering::Relaxed);
        self.peak.store(0, Ordering::Relaxed);
        self.counts.store(true, Ordering::Relaxed);
    }

    /// Returns the most bytes since the start beyond those that were there then.
    pub(crate) fn peak(&self) -> u64 {
        u64::try_from(self.peak.load(Ordering::Relaxed)).unwrap_or(0)
    }

    fn add(&self, bytes: i64) {
        if self.counts.load(Ordering::Relaxed) {
            let current = self.current.fetch_add(bytes, Ordering::Relaxed) + bytes;
            self.peak.fetch_max(current, Ordering::Relaxed);
        }
    }
}

fn bytes(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

// SAFETY: every call goes to the system's allocator as it came; what is counted beside it touches no memory of theirs.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the system's.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.add(bytes(layout.size()));
        // SAFETY: the caller's promises are those that it asks for.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as the system's.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.add(bytes(layout.size()));
        // SAFETY: the caller's promises are those that it asks for.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: as the system's.
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.add(bytes(size) - bytes(layout.size()));
        // SAFETY: the caller's promises are those that it asks for.
        unsafe { System.realloc(place, layout, size) }
    }

    // SAFETY: as the system's.
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        self.add(-bytes(layout.size()));
        // SAFETY: the caller's promises are those that it asks for.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Keeps freed memory for the next step instead of returning it to the system.
///
/// A training step allocates the same buffers as the one before. glibc returns large ones at once, so that every step's
/// pages are mapped and zeroed again: a tenth of its time for a model of 13 million parameters. From this call on,
/// buffers up to 32 MiB, the most that glibc allows, stay with the process. Other C libraries are not affected.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn keep_freed_memory() {
    const MAPPED_FROM: libc::c_int = 32 << 20;
    const GROWS_BY: libc::c_int = 64 << 20;
    for (setting, value) in
        [(libc::M_MMAP_THRESHOLD, MAPPED_FROM), (libc::M_TRIM_THRESHOLD, libc::c_int::MAX), (libc::M_TOP_PAD, GROWS_BY)]
    {
        // SAFETY: `mallopt` takes two numbers and locks the allocator's own state while it changes it; no memory of
        // ours is touched. A refused setting leaves the previous one.
        unsafe { libc::mallopt(setting, value) };
    }
}

/// Does nothing: there is no setting for it.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn keep_freed_memory() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_counted_from_the_start_on() {
        let own = Counting { counts: AtomicBool::new(false), current: AtomicI64::new(0), peak: AtomicI64::new(0) };
        own.add(100);
        assert_eq!(own.peak(), 0);
        own.start();
        own.add(1000);
        // Of what was there before.
        own.add(-1100);
        own.add(90);
        assert_eq!(own.peak(), 1000);
        own.start();
        own.add(-100);
        assert_eq!(own.peak(), 0);
    }
}
