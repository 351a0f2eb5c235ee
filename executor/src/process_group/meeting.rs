//! How the ranks of one process wait for each other.

use super::failure::{FAILURE_CHECK, Failure};
use super::{GroupError, UNPOISONED, lock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

/// Number of turns that a rank spins at a barrier before it gives up its processor: partners that arrive within
/// microseconds are then met without a system call. Ranks that outnumber processors must not spin.
const SPINS: u32 = 2_000;

/// Returns the number of turns that a rank may spin, where `ranks` share `processors`.
pub(super) fn spins(ranks: usize, processors: usize) -> u32 {
    if ranks <= processors { SPINS } else { 0 }
}

/// A meeting point that all ranks reach before any leaves.
#[derive(Default)]
pub(super) struct Barrier {
    /// Meetings that were completed.
    generation: AtomicUsize,
    waiting: Mutex<usize>,
    complete: Condvar,
}

impl Barrier {
    /// Waits until `size` ranks are here.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub(super) fn wait(&self, size: usize, spins: u32, failure: &Failure) -> Result<(), GroupError> {
        failure.check()?;
        if size == 1 {
            return Ok(());
        }
        let generation = self.generation.load(Ordering::Acquire);
        {
            let mut waiting = lock(&self.waiting);
            *waiting += 1;
            if *waiting == size {
                *waiting = 0;
                self.generation.store(generation.wrapping_add(1), Ordering::Release);
                self.complete.notify_all();
                return Ok(());
            }
        }
        for _ in 0..spins {
            if self.generation.load(Ordering::Acquire) != generation {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let mut waiting = lock(&self.waiting);
        while self.generation.load(Ordering::Acquire) == generation {
            failure.check()?;
            waiting = self.complete.wait_timeout(waiting, FAILURE_CHECK).expect(UNPOISONED).0;
        }
        Ok(())
    }

    /// Returns the number of ranks that wait now.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        *lock(&self.waiting)
    }
}
