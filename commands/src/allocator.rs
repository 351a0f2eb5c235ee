//! Where memory comes from, and how much there was at most.
#![allow(
    unsafe_code,
    reason = "the C library's allocator takes its settings through a C function; see the argument below"
)]

use peak_alloc::PeakAlloc;

/// Counts allocations, so that a run can tell how much memory training takes.
#[cfg_attr(feature = "run", global_allocator)]
pub(crate) static ALLOCATOR: PeakAlloc = PeakAlloc;

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
