//! Steps, evaluations and checkpoints from a restart on, without anything that interrupts them.

/// The work from a restart to the end. After each step, an evaluation comes before a checkpoint if both are
/// due; the last step is followed by a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// Steps that were done before.
    pub(super) from: u64,
    /// Steps to do.
    pub(super) steps: u64,
    /// Seconds of one.
    pub(super) step: f64,
    /// Steps from a checkpoint to the next.
    pub(super) between: u64,
    /// Seconds of writing a checkpoint.
    pub(super) write: f64,
    /// Steps from an evaluation to the next, counted from the first step of all.
    pub(super) evaluate_every: u64,
    /// Seconds of an evaluation.
    pub(super) evaluate: f64,
}

/// The point that a stretch reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Progress {
    /// Whole steps.
    pub(super) steps: u64,
    /// Of them, those before the last complete checkpoint.
    pub(super) saved: u64,
    /// Seconds in a step that was not completed.
    pub(super) partial: f64,
    /// Seconds of evaluation.
    pub(super) evaluating: f64,
    /// Seconds of writing checkpoints.
    pub(super) writing: f64,
}

impl Stretch {
    fn writes(&self, steps: u64) -> u64 {
        let last = steps == self.steps && !steps.is_multiple_of(self.between);
        steps / self.between + u64::from(last)
    }

    pub(super) fn evaluations(&self, steps: u64) -> u64 {
        (self.from + steps) / self.evaluate_every - self.from / self.evaluate_every
    }

    /// Seconds until so many steps are done, with what follows them.
    fn until(&self, steps: u64) -> f64 {
        steps as f64 * self.step
            + self.evaluations(steps) as f64 * self.evaluate
            + self.writes(steps) as f64 * self.write
    }

    /// The point that it reaches in so many seconds; its end if they suffice.
    pub(super) fn after(&self, seconds: f64) -> Progress {
        let done = self.done(seconds);
        let mut progress = Progress {
            steps: done,
            saved: if done == self.steps { done } else { done / self.between * self.between },
            partial: 0.0,
            evaluating: self.evaluations(done) as f64 * self.evaluate,
            writing: self.writes(done) as f64 * self.write,
        };
        if done == self.steps {
            return progress;
        }
        let rest = seconds - self.until(done);
        if rest < self.step {
            progress.partial = rest;
            return progress;
        }
        progress.steps += 1;
        let due = self.evaluations(done + 1) > self.evaluations(done);
        let evaluating = (rest - self.step).min(if due { self.evaluate } else { 0.0 });
        progress.evaluating += evaluating;
        progress.writing += rest - self.step - evaluating;
        progress
    }

    /// Returns the steps that a job does in so many seconds until it is signalled, and the seconds until the checkpoint after
    /// them is written; `None` if they suffice for all steps.
    pub(super) fn cut(&self, seconds: f64) -> Option<(u64, f64)> {
        if self.until(self.steps) <= seconds {
            return None;
        }
        let done = self.done(seconds);
        let due = done.is_multiple_of(self.between);
        Some((done, self.until(done) + if due { 0.0 } else { self.write }))
    }

    /// Steps that are done in so many seconds, with what follows them.
    fn done(&self, seconds: f64) -> u64 {
        if self.until(self.steps) <= seconds {
            return self.steps;
        }
        let (mut done, mut not_done) = (0, self.steps);
        while not_done - done > 1 {
            let middle = u64::midpoint(done, not_done);
            if self.until(middle) <= seconds { done = middle } else { not_done = middle }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same, step by step.
    fn walked(stretch: &Stretch, seconds: f64) -> Progress {
        let mut progress = Progress { steps: 0, saved: 0, partial: 0.0, evaluating: 0.0, writing: 0.0 };
        let mut left = seconds;
        while progress.steps < stretch.steps {
            if left < stretch.step {
                progress.partial = left;
                return progress;
            }
            left -= stretch.step;
            progress.steps += 1;
            if (stretch.from + progress.steps).is_multiple_of(stretch.evaluate_every) {
                progress.evaluating += left.min(stretch.evaluate);
                if left < stretch.evaluate {
                    return progress;
                }
                left -= stretch.evaluate;
            }
            if progress.steps.is_multiple_of(stretch.between) || progress.steps == stretch.steps {
                progress.writing += left.min(stretch.write);
                if left < stretch.write {
                    return progress;
                }
                left -= stretch.write;
                progress.saved = progress.steps;
            }
        }
        progress
    }

    proptest! {
        // Times are multiples of a power of two, so that sums are exact in any order.
        #[test]
        fn arithmetic_gets_as_far_as_walking(
            from in 0u64..50, steps in 1u64..60, between in 1u64..70, evaluate_every in 1u64..40,
            step in 1u32..8, write in 0u32..20, evaluate in 0u32..20, seconds in 0u32..3000,
        ) {
            let quarter = |count: u32| f64::from(count) / 4.0;
            let stretch = Stretch {
                from, steps, between, evaluate_every,
                step: quarter(step), write: quarter(write), evaluate: quarter(evaluate),
            };
            prop_assert_eq!(stretch.after(quarter(seconds)), walked(&stretch, quarter(seconds)));
        }
    }
}
