//! A timeline that is kept with what recurs in it once: a step of a thousand micro-batches as short as the one that it
//! was told from.

use crate::recurrence::Again;
use std::borrow::Cow;
use trainyard_plan::{Interval, Timeline};
use trainyard_units::Instant;

/// A timeline in stretches, of which some are repeated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stretches {
    /// Every interval at its first time.
    first: Timeline,
    /// How many of the intervals, one after another, are repeated how often.
    again: Vec<(usize, Again)>,
}

impl Stretches {
    /// Intervals one stream after another, each in the order of its work; of each, what tells the stretch that it is in
    /// from the one before, and how often that is repeated.
    pub(crate) fn new<K: PartialEq>(
        window: Option<(Instant, Instant)>,
        intervals: impl Iterator<Item = (K, Interval, Again)>,
    ) -> Self {
        let mut first = Timeline { intervals: Vec::new(), window };
        let mut again: Vec<(usize, Again)> = Vec::new();
        let mut last = None;
        for (stretch, interval, repeated) in intervals {
            first.intervals.push(interval);
            match again.last_mut() {
                Some((length, _)) if last.as_ref() == Some(&stretch) => *length += 1,
                _ => again.push((1, repeated)),
            }
            last = Some(stretch);
        }
        Self { first, again }
    }

    /// The memory of the intervals, which is nearly all.
    pub(crate) fn bytes(&self) -> usize {
        self.first.intervals.len() * size_of::<Interval>()
    }

    /// The timeline with everything as often as it happens.
    pub(crate) fn timeline(&self) -> Cow<'_, Timeline> {
        if self.again.iter().all(|(_, again)| again.times == 0) {
            return Cow::Borrowed(&self.first);
        }
        let all = self.again.iter().map(|(length, again)| length * (1 + again.times as usize)).sum();
        let mut intervals = Vec::with_capacity(all);
        let mut rest = self.first.intervals.as_slice();
        for (length, again) in &self.again {
            let (stretch, behind) = rest.split_at(*length);
            intervals
                .extend((0..=again.times).flat_map(|time| stretch.iter().map(move |own| later(own, *again, time))));
            rest = behind;
        }
        Cow::Owned(Timeline { intervals, window: self.first.window })
    }
}

/// An interval after so many recurrences.
fn later(interval: &Interval, again: Again, times: u32) -> Interval {
    let Interval { activity, stream, start, end } = *interval;
    let span = again.span * u64::from(times);
    Interval {
        activity: activity.later(times * again.micro_batches),
        stream,
        start: start.after_span(span),
        end: end.after_span(span),
    }
}
