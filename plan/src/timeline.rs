//! What happened when: the same form for a simulated step and for a measured one.

use crate::schedules::StageId;
use crate::task::{Activity, StreamKind};
use std::collections::BTreeMap;
use trainyard_units::{Instant, Seconds, Span};

/// An activity on a stream, with its start and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub activity: Activity,
    pub stream: StreamKind,
    /// The start time.
    pub start: Instant,
    /// The end time.
    pub end: Instant,
}

/// The intervals of a step, simulated or measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// All activities that took time, those of each stream in order.
    pub intervals: Vec<Interval>,
    /// Start and end of the step that is counted, where steps follow each other without draining the pipeline and
    /// several were recorded.
    pub window: Option<(Instant, Instant)>,
}

/// The use of a stage's compute stream during a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageUse {
    pub stage: StageId,
    /// Seconds in kernels.
    pub busy: Seconds,
    /// Fraction of the step spent in kernels, from 0 to 1.
    pub utilisation: f64,
}

/// An activity as far as it lies in the step that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    pub activity: Activity,
    pub stream: StreamKind,
    /// The start time; of an activity that stands for several, that of the first.
    pub start: Instant,
    /// The end time; of an activity that stands for several, that of the last.
    pub end: Instant,
    /// Time within the step, of all of them together.
    pub time: Span,
}

/// What a step's time is used for: a [`Timeline`] summed up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The activities, one or several of a kind at a time, in any order.
    pub counted: Vec<Counted>,
    /// As in [`Timeline::window`].
    pub window: Option<(Instant, Instant)>,
}

impl Timeline {
    /// Returns the seconds from the start to the end of the last activity, or of the step that is counted.
    pub fn step_time(&self) -> Seconds {
        step_time(self.window, self.intervals.iter().map(|interval| interval.end))
    }

    /// Returns the part of an interval that lies in the step that is counted.
    pub fn counted(&self, interval: &Interval) -> Span {
        counted(self.window, interval)
    }

    /// Returns the use of each stage's compute stream, in order of stages.
    pub fn stage_use(&self) -> Vec<StageUse> {
        self.usage().stage_use()
    }

    /// Returns the pipeline bubble, see [`Usage::bubble`].
    pub fn bubble(&self) -> f64 {
        self.usage().bubble()
    }

    fn usage(&self) -> Usage {
        let of_interval = |interval: &Interval| {
            let Interval { activity, stream, start, end } = *interval;
            Counted { activity, stream, start, end, time: self.counted(interval) }
        };
        Usage { counted: self.intervals.iter().map(of_interval).collect(), window: self.window }
    }
}

/// Returns the part of an interval that lies within a window.
pub fn counted(window: Option<(Instant, Instant)>, interval: &Interval) -> Span {
    let (start, end) = window.unwrap_or((Instant::START, interval.end));
    let (from, to) = (interval.start.max(start), interval.end.min(end));
    if from < to { to.since(from) } else { Span::ZERO }
}

fn step_time(window: Option<(Instant, Instant)>, ends: impl Iterator<Item = Instant>) -> Seconds {
    match window {
        Some((start, end)) => end.since(start).seconds(),
        None => ends.max().unwrap_or(Instant::START).seconds(),
    }
}

impl Usage {
    /// Returns [`Timeline::step_time`].
    pub fn step_time(&self) -> Seconds {
        step_time(self.window, self.counted.iter().map(|counted| counted.end))
    }

    /// Returns the use of each stage's compute stream, in order of stages.
    pub fn stage_use(&self) -> Vec<StageUse> {
        let step = self.step_time().0;
        let mut stages: BTreeMap<StageId, Span> = BTreeMap::new();
        for counted in self.counted.iter().filter(|counted| !counted.activity.is_communication()) {
            if let StreamKind::Compute(stage) = counted.stream {
                let busy = stages.entry(stage).or_default();
                *busy = *busy + counted.time;
            }
        }
        stages
            .into_iter()
            .map(|(stage, busy)| StageUse {
                stage,
                busy: busy.seconds(),
                utilisation: if step > 0.0 { busy.seconds().0 / step } else { 0.0 },
            })
            .collect()
    }

    /// Returns the pipeline bubble: idle time over ideal time of the stages' forward and backward work. For equal
    /// stages under GPipe or 1F1B it is (p − 1)/m (Narayanan et al., arXiv:2104.04473, section 2.2). Transfers and
    /// reductions count as idle, so it is meant for a timeline without communication.
    pub fn bubble(&self) -> f64 {
        let passes = || self.counted.iter().filter(|counted| counted.activity.is_pass());
        let (Some(start), Some(end)) = (passes().map(|i| i.start).min(), passes().map(|i| i.end).max()) else {
            return 0.0;
        };
        let (start, end) = self.window.unwrap_or((start, end));
        let stages = self.stage_use().len() as f64;
        let busy: Span = passes().map(|counted| counted.time).sum();
        let ideal = busy.seconds().0 / stages;
        if ideal > 0.0 { (end.since(start).seconds().0 / ideal - 1.0).max(0.0) } else { 0.0 }
    }

    /// Returns the time within the step of activities of a kind.
    pub fn time_of(&self, kind: impl Fn(&Counted) -> bool) -> Span {
        self.counted.iter().filter(|counted| kind(counted)).map(|counted| counted.time).sum()
    }
}
