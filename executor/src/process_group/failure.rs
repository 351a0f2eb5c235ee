//! Failures of ranks, as the other ranks of the job learn of them.

use super::GroupError;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval at which a waiting rank checks whether another has failed. Only failures wait this long.
pub(super) const FAILURE_CHECK: Duration = Duration::from_millis(20);

/// The error message of the first rank that failed; shared by all groups of a process.
#[derive(Default)]
pub(super) struct Failure {
    happened: AtomicBool,
    first: Mutex<Option<(usize, String)>>,
}

impl Failure {
    /// Returns an error once a rank has failed.
    pub(super) fn check(&self) -> Result<(), GroupError> {
        if !self.happened() {
            return Ok(());
        }
        let (rank, reason) = super::lock(&self.first).clone().expect("a failure is noted before it is announced");
        Err(GroupError::RankFailed { rank, reason })
    }

    /// Returns `true` if a rank has failed.
    pub(super) fn happened(&self) -> bool {
        self.happened.load(Ordering::Acquire)
    }

    /// Notes why `rank`, numbered in the whole job, failed. Returns whether it is the first to do so.
    pub(super) fn note(&self, rank: usize, reason: &str) -> bool {
        let mut first = super::lock(&self.first);
        let is_first = first.is_none();
        first.get_or_insert_with(|| (rank, reason.to_owned()));
        drop(first);
        self.happened.store(true, Ordering::Release);
        is_first
    }
}
