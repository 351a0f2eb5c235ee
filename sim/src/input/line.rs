//! Batches on their way: read, decoded, copied, used.

use std::collections::VecDeque;
use trainyard_units::{Instant, Span};

/// Stages of loading, before the step: read, decode, copy.
pub(super) const LOADING: usize = 3;

/// One batch: how long each machine loads its part of it, and the step that uses all parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// Per machine, the stages of loading.
    pub(super) loading: Vec<[Span; LOADING]>,
    pub(super) step: Span,
}

/// When the step of each batch ends. A stage works on one batch at a time, in order, and begins when the batch has left
/// the stage before and the stage after has begun all but the last `ahead` batches; the step begins when every machine
/// has its part. With nothing ahead a batch is loaded once the step before is over.
///
/// The longest path through the graph of these conditions, batch after batch (Baccelli et al., "Synchronization and
/// Linearity", Wiley 1992, section 2.5: a line of machines with bounded buffers is linear in the max-plus algebra). Of
/// batches before, only those that are `ahead` are kept: there may be very many machines.
pub(super) fn step_ends(batches: impl IntoIterator<Item = Batch>, ahead: usize) -> impl Iterator<Item = Instant> {
    let mut line = Line::default();
    batches.into_iter().map(move |batch| line.take(&batch, ahead))
}

/// Instants of the batches that a line has taken.
#[derive(Default)]
struct Line {
    /// When each machine began each stage, and the step, of the last batches.
    begun: VecDeque<Vec<[Instant; LOADING + 1]>>,
    /// Per machine, when each stage is done with the last batch.
    free: Vec<[Instant; LOADING]>,
    /// When the last step ends.
    end: Instant,
}

impl Line {
    /// When the step of the next batch ends.
    fn take(&mut self, batch: &Batch, ahead: usize) -> Instant {
        let machines = batch.loading.len();
        self.free.resize(machines, [Instant::START; LOADING]);
        let earlier = if ahead > 0 && self.begun.len() == ahead { self.begun.pop_front() } else { None };
        let mut begins = vec![[Instant::START; LOADING + 1]; machines];
        let mut loaded = Instant::START;
        for (machine, spans) in batch.loading.iter().enumerate() {
            let mut ready = if ahead == 0 { self.end } else { Instant::START };
            for (stage, span) in spans.iter().enumerate() {
                let room = earlier.as_ref().map_or(Instant::START, |begun| begun[machine][stage + 1]);
                let begin = ready.max(self.free[machine][stage]).max(room);
                begins[machine][stage] = begin;
                ready = begin.after_span(*span);
                self.free[machine][stage] = ready;
            }
            loaded = loaded.max(ready);
        }
        let begin = loaded.max(self.end);
        for machine in &mut begins {
            machine[LOADING] = begin;
        }
        if ahead > 0 {
            self.begun.push_back(begins);
        }
        self.end = begin.after_span(batch.step);
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(nanoseconds: u64) -> Span {
        Span::from_nanoseconds(nanoseconds)
    }

    /// The slow twin: queues with so many places, and a clock that goes from one end of work to the next.
    struct Floor<'a> {
        batches: &'a [Batch],
        ahead: usize,
        now: u64,
        /// Per machine and stage, the batch at work and when it is done.
        busy: Vec<[Option<(usize, u64)>; LOADING]>,
        /// Per machine, what each stage has put down for the next.
        shelves: Vec<[VecDeque<usize>; LOADING]>,
        next: Vec<usize>,
        stepping: Option<(usize, u64)>,
        ends: Vec<Instant>,
    }

    impl Floor<'_> {
        fn run(mut self) -> Vec<Instant> {
            while self.ends.len() < self.batches.len() {
                while self.begin_something() {}
                let stages = self.busy.iter().flatten().chain([&self.stepping]);
                self.now = stages.flatten().map(|(_, end)| *end).min().expect("something is at work");
                self.put_down();
            }
            self.ends
        }

        fn put_down(&mut self) {
            for (machine, stages) in self.busy.iter_mut().enumerate() {
                for (stage, busy) in stages.iter_mut().enumerate() {
                    if let Some((batch, _)) = busy.take_if(|(_, end)| *end == self.now) {
                        self.shelves[machine][stage].push_back(batch);
                    }
                }
            }
            if self.stepping.take_if(|(_, end)| *end == self.now).is_some() {
                self.ends.push(Instant::from_nanoseconds(self.now));
            }
        }

        fn begin_something(&mut self) -> bool {
            let ready = self.shelves.iter().all(|shelves| !shelves[LOADING - 1].is_empty());
            if self.stepping.is_none() && ready && self.ends.len() < self.batches.len() {
                let taken: Vec<usize> =
                    self.shelves.iter_mut().filter_map(|shelves| shelves[LOADING - 1].pop_front()).collect();
                let batch = taken[0];
                assert!(taken.iter().all(|own| *own == batch), "machines keep step");
                self.stepping = Some((batch, self.now + self.batches[batch].step.nanoseconds()));
                return true;
            }
            (0..self.busy.len()).any(|machine| (0..LOADING).any(|stage| self.begins(machine, stage)))
        }

        fn begins(&mut self, machine: usize, stage: usize) -> bool {
            let room = self.ahead == 0 || self.shelves[machine][stage].len() < self.ahead;
            if self.busy[machine][stage].is_some() || !room {
                return false;
            }
            let batch = if stage == 0 {
                let waits = self.ahead == 0 && self.ends.len() < self.next[machine];
                let batch = self.next[machine];
                if batch == self.batches.len() || waits {
                    return false;
                }
                self.next[machine] += 1;
                batch
            } else {
                let Some(batch) = self.shelves[machine][stage - 1].pop_front() else { return false };
                batch
            };
            let end = self.now + self.batches[batch].loading[machine][stage].nanoseconds();
            self.busy[machine][stage] = Some((batch, end));
            true
        }
    }

    fn slowly(batches: &[Batch], ahead: usize) -> Vec<Instant> {
        let machines = batches[0].loading.len();
        let shelves = (0..machines).map(|_| std::array::from_fn(|_| VecDeque::new())).collect();
        let busy = vec![[None; LOADING]; machines];
        Floor { batches, ahead, now: 0, busy, shelves, next: vec![0; machines], stepping: None, ends: Vec::new() }.run()
    }

    fn alike(machines: usize, loading: [u64; LOADING], step: u64, count: usize) -> Vec<Batch> {
        vec![Batch { loading: vec![loading.map(span); machines], step: span(step) }; count]
    }

    #[test]
    fn batches_come_one_by_one() {
        let endless = std::iter::repeat_n(alike(2, [1, 2, 3], 4, 1), usize::MAX).flatten();
        // The first step ends after all of 1, 2, 3 and 4, each that follows after another 4.
        assert_eq!(step_ends(endless, 2).nth(99).map(Instant::nanoseconds), Some(10 + 99 * 4));
    }

    proptest! {
        #[test]
        fn the_recursion_is_what_queues_do(
            ahead in 0usize..4,
            batches in (1usize..4).prop_flat_map(|machines| {
                let loading = proptest::collection::vec([1u64..9, 1u64..9, 1u64..9], machines);
                proptest::collection::vec((loading, 1u64..9), 1..40)
            }),
        ) {
            let batches: Vec<Batch> = batches
                .into_iter()
                .map(|(loading, step)| Batch {
                    loading: loading.into_iter().map(|spans| spans.map(span)).collect(),
                    step: span(step),
                })
                .collect();
            let slow = slowly(&batches, ahead);
            prop_assert_eq!(step_ends(batches, ahead).collect::<Vec<_>>(), slow);
        }

        #[test]
        fn batches_that_are_alike_follow_each_other_at_the_pace_of_the_slowest_stage(
            ahead in 1usize..5, loading in [1u64..99, 1u64..99, 1u64..99], step in 1u64..99, count in 1usize..60,
        ) {
            let last = step_ends(alike(2, loading, step, count), ahead).last().expect("there are some");
            let slowest = loading.into_iter().chain([step]).max().unwrap_or(0);
            let all: u64 = loading.iter().sum::<u64>() + step;
            prop_assert_eq!(last.nanoseconds(), all + (count as u64 - 1) * slowest);
        }

        #[test]
        fn with_nothing_ahead_loading_and_steps_take_turns(
            loading in [1u64..99, 1u64..99, 1u64..99], step in 1u64..99, count in 1usize..60,
        ) {
            let last = step_ends(alike(1, loading, step, count), 0).last().expect("there are some");
            let all: u64 = loading.iter().sum::<u64>() + step;
            prop_assert_eq!(last.nanoseconds(), all * count as u64);
        }

        #[test]
        fn more_room_ahead_is_never_slower(
            spans in proptest::collection::vec(([1u64..99, 1u64..99, 1u64..99], 1u64..99), 1..60),
        ) {
            let batches: Vec<Batch> = spans
                .into_iter()
                .map(|(loading, step)| Batch { loading: vec![loading.map(span)], step: span(step) })
                .collect();
            let last = |ahead| step_ends(batches.clone(), ahead).last();
            prop_assert!((0..6).all(|ahead| last(ahead + 1) <= last(ahead)));
        }
    }
}
