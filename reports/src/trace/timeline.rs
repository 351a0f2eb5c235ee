//! Timelines, which tell passes and messages and no more, as steps in detail.

use trainyard_plan::{
    Activity, Between, Collective, CopyDirection, Direction, Group, Interval, Message, Rank, RankTrace, Seat, StageId,
    StepTrace, Timeline, TraceDetail, TracedKernels, TracedPart, TracedTask, TracedWork,
};
use trainyard_units::{Bytes, Seconds};

/// A timeline with the name under which it appears.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    /// The name: `predicted`, `measured, rank 0`.
    pub name: &'a str,
    /// The recorded intervals.
    pub timeline: &'a Timeline,
}

impl Process<'_> {
    /// Converts each of its stages to a rank of its own.
    pub(super) fn recorded(self) -> Vec<(String, StepTrace)> {
        let mut stages: Vec<StageId> = self.timeline.intervals.iter().map(|interval| interval.stream.stage()).collect();
        stages.sort_unstable();
        stages.dedup();
        let named = |stage: StageId| match stages.len() {
            1 => self.name.to_owned(),
            _ => format!("{}, stage {}", self.name, stage.0),
        };
        stages.iter().map(|stage| (named(*stage), of_stage(self.timeline, *stage))).collect()
    }
}

fn of_stage(timeline: &Timeline, stage: StageId) -> StepTrace {
    let own = timeline.intervals.iter().filter(|interval| interval.stream.stage() == stage);
    let mut tasks = Vec::new();
    let mut works = Vec::new();
    for Interval { activity, stream, start, end } in own {
        works.push(vec![TracedPart { what: what(*activity), share: 1.0 }]);
        tasks.push(TracedTask {
            activity: *activity,
            stream: *stream,
            receives: false,
            start: *start,
            end: *end,
            work: works.len() - 1,
            meeting: None,
            after: Vec::new(),
        });
    }
    let rank = RankTrace { rank: Rank(0), stage, stands_for: vec![Rank(0)], seat: Seat::default(), tasks };
    StepTrace {
        step_time: timeline.step_time(),
        window: timeline.window,
        launch: Seconds::ZERO,
        detail: TraceDetail::Passes,
        works,
        ranks: vec![rank],
    }
}

fn what(activity: Activity) -> TracedWork {
    let kernels = |operator: &'static str, direction| {
        TracedWork::Kernels(TracedKernels { operator: operator.into(), layer: None, direction, flops: 0.0, bytes: 0.0 })
    };
    let message = |kind, between| TracedWork::Message(Message { kind, between, bytes: None, element: 4 });
    let (data, pipeline) = (Between::Group(Group::Gradient), |stage| Between::Stages { from: stage, to: stage });
    match activity {
        Activity::Forward { .. } => kernels("forward", Direction::Forward),
        Activity::Backward { .. } => kernels("backward", Direction::Backward),
        Activity::BackwardWeights { .. } => kernels("backward of weights", Direction::Backward),
        Activity::Update { .. } => kernels("optimizer update", Direction::Neither),
        Activity::SendActivations { stage, .. }
        | Activity::SendGradients { stage, .. }
        | Activity::Message { stage, .. } => message(Collective::Transfer, pipeline(stage)),
        Activity::ReduceGradients { .. } | Activity::ReduceShared => message(Collective::AllReduce, data),
        Activity::GatherWeights { .. } => message(Collective::AllGather, data),
        Activity::Copy { way, .. } => copied(way),
        Activity::Wait { .. } => TracedWork::Host,
    }
}

fn copied(way: CopyDirection) -> TracedWork {
    TracedWork::Copy { way, bytes: Bytes(0) }
}
