//! Steps whose loss or gradients are not numbers: skipped, counted, and after too many in a row the end of the run.

use trainyard_checkpoint::Progress;

/// The outcome of a step's checks, the same on every rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Finding {
    /// The mean loss of the global batch, in nats.
    pub(crate) loss: f32,
    /// `true` if parameters were updated: every gradient was a number.
    pub(crate) updated: bool,
    /// `true` if gradients were multiplied by a loss scale that can still be lowered. Such a scale overflows now and
    /// then by intent: it is raised until it does (Micikevicius et al., arXiv:1710.03740, section 3.2).
    pub(crate) scale_can_fall: bool,
}

/// The guard's judgement of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It updated the parameters.
    Updated,
    /// It left them, and only found the loss scale too high.
    Rescaled,
    /// It left them, which the user should know.
    Skipped,
    /// It left them, as too many before: going on would skip for ever.
    Hopeless,
}

/// Counts the steps without update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    /// Number of steps in a row that may be skipped.
    max_skipped: u32,
    skipped: u64,
    in_a_row: u32,
}

impl Guard {
    /// Makes a guard that lets `max_skipped` steps in a row be skipped, including those that `progress` counts.
    pub(crate) fn new(max_skipped: u32, progress: &Progress) -> Self {
        Self { max_skipped, skipped: progress.skipped_steps, in_a_row: progress.skipped_in_a_row }
    }

    /// Judges a step.
    pub(crate) fn judge(&mut self, Finding { loss, updated, scale_can_fall }: Finding) -> Verdict {
        if updated {
            self.in_a_row = 0;
            return Verdict::Updated;
        }
        self.skipped += 1;
        if loss.is_finite() && scale_can_fall {
            return Verdict::Rescaled;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.in_a_row > self.max_skipped { Verdict::Hopeless } else { Verdict::Skipped }
    }

    /// Returns the number of steps without update, over the whole training.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns the number of skipped steps in a row up to now, not counting those that only lowered the loss scale.
    pub(crate) fn in_a_row(&self) -> u32 {
        self.in_a_row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Finding = Finding { loss: 2.5, updated: true, scale_can_fall: false };
    const BAD_LOSS: Finding = Finding { loss: f32::NAN, updated: false, scale_can_fall: true };
    const BAD_GRADIENT: Finding = Finding { loss: 2.5, updated: false, scale_can_fall: false };
    const OVERFLOW: Finding = Finding { loss: 2.5, updated: false, scale_can_fall: true };

    #[test]
    fn only_too_many_in_a_row_end_the_run() {
        use Verdict::{Hopeless, Skipped, Updated};
        let mut guard = Guard::new(2, &Progress::start(1));
        let found = [GOOD, BAD_LOSS, BAD_GRADIENT, GOOD, BAD_LOSS, BAD_LOSS, BAD_LOSS];
        let verdicts = found.map(|finding| guard.judge(finding));
        assert_eq!(verdicts, [Updated, Skipped, Skipped, Updated, Skipped, Skipped, Hopeless]);
        assert_eq!((guard.skipped(), guard.in_a_row()), (5, 3));
        assert_eq!(Guard::new(0, &Progress::start(1)).judge(BAD_LOSS), Hopeless);
        let infinite = Finding { loss: f32::INFINITY, ..BAD_LOSS };
        assert_eq!(Guard::new(1, &Progress::start(1)).judge(infinite), Skipped);
    }

    #[test]
    fn a_loss_scale_may_fall_as_often_as_it_must() {
        let mut guard = Guard::new(1, &Progress::start(1));
        assert!((0..20).all(|_| guard.judge(OVERFLOW) == Verdict::Rescaled));
        assert_eq!((guard.skipped(), guard.in_a_row()), (20, 0));
        // An overflow between two bad losses does not make them start anew.
        assert_eq!([BAD_LOSS, OVERFLOW, BAD_LOSS].map(|found| guard.judge(found))[2], Verdict::Hopeless);
    }

    #[test]
    fn a_resumed_run_counts_on() {
        let progress = Progress { skipped_steps: 4, skipped_in_a_row: 2, ..Progress::start(1) };
        let mut guard = Guard::new(2, &progress);
        assert_eq!(guard.judge(BAD_LOSS), Verdict::Hopeless);
        assert_eq!(guard.skipped(), 5);
    }
}
