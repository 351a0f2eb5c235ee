//! The outcome of a queue, and its sums.

use super::{InstanceTime, Queue};
use crate::queue::WarmEnd;
use trainyard_units::{Instant, Seconds, Span};

/// The outcome of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueOutcome {
    /// Each job, in the order of the queue.
    pub(crate) runs: Vec<Run>,
    /// Stretches in which instances were kept without a job, in the order in which they began.
    pub(crate) kept: Vec<Kept>,
    /// The states of the pool, in the order of time.
    pub(crate) states: Vec<State>,
}

/// The outcome of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// When it got its instances.
    pub(crate) start: Instant,
    /// From when on they are paid for.
    pub(crate) paid: Instant,
    /// When it began to train.
    pub(crate) ready: Instant,
    /// When it ended.
    pub(crate) end: Instant,
    /// Set if another job had its instances before.
    pub(crate) warm: bool,
    /// Places of the quota that it held.
    pub(crate) places: Vec<u32>,
}

/// A stretch in which instances were kept without a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Places of the quota.
    pub(crate) places: Vec<u32>,
    /// From here.
    pub(crate) since: Instant,
    /// To here.
    pub(crate) until: Instant,
    /// The reason for its end.
    pub(crate) ended: WarmEnd,
}

/// The state of the pool from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) at: Instant,
    /// Jobs that wait.
    pub(crate) waiting: u32,
    /// Instances that start.
    pub(crate) starting: u32,
    /// Instances that train.
    pub(crate) busy: u32,
    /// Instances that are kept without a job.
    pub(crate) idle: u32,
}

/// Time of instances, by its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// They started.
    pub(crate) startup: InstanceTime,
    /// They trained.
    pub(crate) busy: InstanceTime,
    /// They were kept without a job.
    pub(crate) idle: InstanceTime,
}

impl Usage {
    pub(crate) fn held(&self) -> InstanceTime {
        self.startup + self.busy + self.idle
    }
}

impl QueueOutcome {
    /// From the first submission to the end of the last job; no time for no jobs.
    pub(crate) fn makespan(&self, queue: &Queue) -> Span {
        let first = queue.jobs.iter().map(|job| job.submit).min().unwrap_or_default();
        self.runs.iter().map(|run| run.end).max().unwrap_or_default().since(first)
    }

    /// The time that each job waited for its instances, in the order of the queue.
    pub(crate) fn waiting(&self, queue: &Queue) -> Vec<Span> {
        queue.jobs.iter().zip(&self.runs).map(|(job, run)| run.start.since(job.submit)).collect()
    }

    /// Returns the same without the instances that were kept for nobody: whoever knows all jobs that come gives up those of a job that
    /// no other takes over. Nobody waits for longer, for kept instances never keep a job waiting.
    pub(crate) fn without_unused(mut self) -> Self {
        let is_unused = |kept: &Kept| kept.ended != WarmEnd::Reused;
        let unused = self.kept.iter().filter(|kept| is_unused(kept));
        let mut fewer: Vec<(Instant, bool, u32)> = unused
            .flat_map(|kept| {
                let instances = kept.places.len() as u32;
                [(kept.since, false, instances), (kept.until, true, instances)]
            })
            .collect();
        if !fewer.is_empty() {
            fewer.sort_unstable();
            self.states = with_fewer_idle(&self.states, &fewer);
            self.kept.retain(|kept| !is_unused(kept));
        }
        self
    }

    /// Time of instances, by its use.
    pub(crate) fn usage(&self) -> Usage {
        let time = |run: &Run, span| InstanceTime::of(run.places.len() as u32, span);
        Usage {
            startup: self.runs.iter().map(|run| time(run, run.ready.since(run.start))).sum(),
            busy: self.runs.iter().map(|run| time(run, run.end.since(run.ready))).sum(),
            idle: self.kept.iter().map(Kept::time).sum(),
        }
    }

    /// Instances times seconds of all jobs as they are billed.
    pub(crate) fn billed_jobs(&self) -> Seconds {
        self.runs.iter().map(Run::billed).sum()
    }

    /// The same of all instances that were kept.
    pub(crate) fn billed_warm(&self) -> Seconds {
        self.kept.iter().map(|kept| billed(kept.places.len(), kept.until.since(kept.since))).sum()
    }
}

/// Returns states in which fewer instances are kept: by so many fewer from an instant on, or again by so many more.
fn with_fewer_idle(states: &[State], fewer: &[(Instant, bool, u32)]) -> Vec<State> {
    let mut instants: Vec<Instant> = states.iter().map(|state| state.at).chain(fewer.iter().map(|own| own.0)).collect();
    instants.sort_unstable();
    instants.dedup();
    let (mut states, mut fewer) = (states.iter().peekable(), fewer.iter().peekable());
    let (mut now, mut unused) = (None, 0);
    let mut all: Vec<State> = Vec::new();
    for at in instants {
        now = states.next_if(|state| state.at == at).or(now);
        while let Some((_, again, instances)) = fewer.next_if(|own| own.0 == at) {
            unused = if *again { unused - instances } else { unused + instances };
        }
        let Some(state) = now else { continue };
        let state = State { at, idle: state.idle - unused, ..*state };
        if all.last().is_none_or(|last| State { at, ..*last } != state) {
            all.push(state);
        }
    }
    all
}

impl Run {
    /// Instances times seconds as they are billed: whole ones, begun ones in full.
    pub(crate) fn billed(&self) -> Seconds {
        billed(self.places.len(), self.end.since(self.paid))
    }
}

impl Kept {
    fn time(&self) -> InstanceTime {
        InstanceTime::of(self.places.len() as u32, self.until.since(self.since))
    }
}

/// Sums of whole numbers in floats are exact in any order.
fn billed(instances: usize, span: Span) -> Seconds {
    Seconds(span.seconds().0.ceil() * instances as f64)
}
