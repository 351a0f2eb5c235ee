//! What happened when: the same form for a simulated step and for a measured one.

use crate::partition::StageId;
use crate::task::{Activity, StreamKind};
use trainyard_units::{Instant, Seconds, Span};

/// One activity on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// What.
    pub activity: Activity,
    /// Where.
    pub stream: StreamKind,
    /// From.
    pub start: Instant,
    /// To.
    pub end: Instant,
}

/// A step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Everything that took time, in canonical order.
    pub intervals: Vec<Interval>,
    /// From when to when one step is counted, where steps follow each other without draining the pipeline and several
    /// were recorded.
    pub window: Option<(Instant, Instant)>,
}

/// How a stage spent a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageUse {
    /// Which stage.
    pub stage: StageId,
    /// Time in kernels.
    pub busy: Seconds,
    /// Kernels' share of the step.
    pub utilisation: f64,
}

impl Timeline {
    /// From the start to the end of the last activity, or of the step that is counted.
    pub fn step_time(&self) -> Seconds {
        if let Some((start, end)) = self.window {
            return end.since(start).seconds();
        }
        self.intervals.iter().map(|interval| interval.end).max().unwrap_or(Instant::START).seconds()
    }

    /// The part of an interval that lies in the step that is counted.
    pub fn counted(&self, interval: &Interval) -> Span {
        let (start, end) = self.window.unwrap_or((Instant::START, interval.end));
        let (from, to) = (interval.start.max(start), interval.end.min(end));
        if from < to { to.since(from) } else { Span::ZERO }
    }

    /// How each stage's compute stream was used, in order of stages.
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

    /// Idle time over ideal time of the stages' forward and backward work. For equal stages under GPipe or 1F1B it
    /// is (p − 1)/m (Narayanan et al., arXiv:2104.04473, section 2.2). Transfers and reductions count as idle, so it
    /// is meant for a timeline without communication.
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
