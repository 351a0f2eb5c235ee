//! What happened when: the same form for a simulated step and for a measured one.

use crate::schedules::StageId;
use crate::task::{Activity, StreamKind};
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
    /// All activities that took time, in canonical order.
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

impl Timeline {
    /// Returns the seconds from the start to the end of the last activity, or of the step that is counted.
    pub fn step_time(&self) -> Seconds {
        if let Some((start, end)) = self.window {
            return end.since(start).seconds();
        }
        self.intervals.iter().map(|interval| interval.end).max().unwrap_or(Instant::START).seconds()
    }

    /// Returns the part of an interval that lies in the step that is counted.
    pub fn counted(&self, interval: &Interval) -> Span {
        let (start, end) = self.window.unwrap_or((Instant::START, interval.end));
        let (from, to) = (interval.start.max(start), interval.end.min(end));
        if from < to { to.since(from) } else { Span::ZERO }
    }

    /// Returns the use of each stage's compute stream, in order of stages.
    pub fn stage_use(&self) -> Vec<StageUse> {
        let step = self.step_time().0;
        let mut stages: Vec<(StageId, Span)> = Vec::new();
        for interval in &self.intervals {
            let (StreamKind::Compute(stage), false) = (interval.stream, interval.activity.is_communication()) else {
                continue;
            };
            let length = self.counted(interval);
            match stages.iter_mut().find(|(id, _)| *id == stage) {
                Some((_, busy)) => *busy = *busy + length,
                None => stages.push((stage, length)),
            }
        }
        stages.sort_by_key(|(stage, _)| *stage);
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
        let passes = || self.intervals.iter().filter(|interval| interval.activity.is_pass());
        let (Some(start), Some(end)) = (passes().map(|i| i.start).min(), passes().map(|i| i.end).max()) else {
            return 0.0;
        };
        let (start, end) = self.window.unwrap_or((start, end));
        let stages = self.stage_use().len() as f64;
        let busy: Span = passes().map(|interval| self.counted(interval)).sum();
        let ideal = busy.seconds().0 / stages;
        if ideal > 0.0 { (end.since(start).seconds().0 / ideal - 1.0).max(0.0) } else { 0.0 }
    }
}
