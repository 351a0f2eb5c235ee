//! Which processor threads a search uses.
//!
//! A thread that waits for a part of its search takes up whatever else its pool has to do. Of many searches in one pool
//! each therefore waits for others that came later. So only a search that is alone gets all threads.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A group of searches with a common limit: quick ones never wait for thorough ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// What needs no search: the history, and launch files.
    Light,
    /// Drafts and simulations.
    Quick,
    /// Proofs, also those of varied jobs and of fleets.
    Thorough,
}

/// The threads of all searches.
#[derive(Default)]
pub(crate) struct Threads {
    /// Number of quick searches that are under way.
    quick: AtomicUsize,
    /// One thread each, for quick searches that are not alone.
    single: Mutex<Vec<ThreadPool>>,
    /// As many as there are processors, for the thorough search, beside which quick ones get their share.
    thorough: OnceLock<Option<ThreadPool>>,
}

impl Threads {
    /// Searches, and returns what was found.
    pub(crate) fn run<T: Send>(&self, lane: Lane, search: impl FnOnce() -> T + Send) -> T {
        match lane {
            Lane::Light => search(),
            Lane::Thorough => match self.thorough.get_or_init(|| pool(rayon::current_num_threads())) {
                Some(pool) => pool.install(search),
                None => search(),
            },
            Lane::Quick => {
                let under_way = UnderWay::new(&self.quick);
                if under_way.is_alone { search() } else { self.on_one_thread(search) }
            }
        }
    }

    fn on_one_thread<T: Send>(&self, search: impl FnOnce() -> T + Send) -> T {
        let single = || self.single.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = single().pop();
        // Where the system gives no more threads, those of all searches do.
        let Some(pool) = idle.or_else(|| pool(1)) else { return search() };
        let found = pool.install(search);
        single().push(pool);
        found
    }
}

fn pool(threads: usize) -> Option<ThreadPool> {
    ThreadPoolBuilder::new().num_threads(threads).build().ok()
}

/// A quick search that is counted until it ends, also by a panic.
struct UnderWay<'a> {
    all: &'a AtomicUsize,
    is_alone: bool,
}

impl<'a> UnderWay<'a> {
    fn new(all: &'a AtomicUsize) -> Self {
        Self { all, is_alone: all.fetch_add(1, Ordering::Relaxed) == 0 }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn only_a_search_that_is_alone_gets_all_threads() {
        let threads = Threads::default();
        let own = || rayon::current_num_threads();
        assert_eq!(threads.run(Lane::Quick, own), own());
        let inner = threads.run(Lane::Quick, || threads.run(Lane::Quick, own));
        assert_eq!(inner, 1);
        assert_eq!(threads.run(Lane::Thorough, own), own());
        let panicked = catch_unwind(AssertUnwindSafe(|| threads.run(Lane::Quick, || panic!("meant by a test"))));
        assert!(panicked.is_err());
        assert_eq!(threads.run(Lane::Quick, own), own(), "what has panicked is not under way any more");
    }
}
