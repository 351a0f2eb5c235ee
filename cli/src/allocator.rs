//! Where memory comes from, and how much there was at most.
#![allow(
    unsafe_code,
    reason = "the C library's allocator takes its settings through a C function; see the argument below"
)]

use peak_alloc::PeakAlloc;

/// Counts what is allocated, so that a run can tell how much memory training takes.
#[global_allocator]
pub(crate) static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Keeps memory that was freed for the next step instead of giving it back to the system.
///
/// A training step allocates the same buffers as the one before. glibc gives large ones back at once, so that every
/// step's pages are mapped and filled with zeros again: a tenth of its time for a model of 13 million parameters. Up to
/// 32 MiB, the most that glibc allows, they stay with the process from here on. Other libraries do as they always do.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn keep_freed_memory() {
    const MAPPED_FROM: libc::c_int = 32 << 20;
    const GROWS_BY: libc::c_int = 64 << 20;
    for (setting, value) in
        [(libc::M_MMAP_THRESHOLD, MAPPED_FROM), (libc::M_TRIM_THRESHOLD, libc::c_int::MAX), (libc::M_TOP_PAD, GROWS_BY)]
    {
        // SAFETY: `mallopt` takes two numbers and locks the allocator's own state while it changes it; no memory of
        // ours is touched. A setting that is refused stays as it was.
        unsafe { libc::mallopt(setting, value) };
    }
}

/// Nothing can be set.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn keep_freed_memory() {}
