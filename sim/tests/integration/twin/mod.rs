//! The engine's twin: an independent, slow and plain simulator of a training step, which must find what the engine finds.
//!
//! It simulates every rank by itself. `author` writes down what each rank does on each of its streams and what that
//! waits for, from the definition of the plan; `clock` puts this in time by looking at everything at every event. It
//! knows neither the task graph nor the fold of ranks, the event queue, the incremental shares of links or the engine.
//!
//! # What is covered
//!
//! - Schedules: none, gpipe, 1f1b, interleaved-1f1b, 2bw, zb-h1; cuts of any kind; sends beside kernels or between them.
//! - Data, tensor, sequence, context and expert parallelism; every placement, groups that straddle machines among them;
//!   machines of two kinds.
//! - Reductions in buckets, or in one piece after the passes; once in a step, or after every micro-batch.
//! - State that is shared out: ZeRO-1, 2 and 3, over all holders of the same parameters or over groups of them.
//! - Activations, optimizer and weights that are kept on the machine, in memory or on disk.
//! - The table that the first and the last stage share.
//! - Links that are shared by whatever is under way, and kernels that are slower beside collectives.
//!
//! Not covered: zb-v, whose order is a list schedule of this program's own; tables that ranks divide; devices of different
//! speed; measured machines, which have no links.
//!
//! # What is given
//!
//! - How long layers and updates take ([`Costs::segment`], [`Costs::update`]).
//! - What each communication asks of links, and what links carry ([`Costs::communications`], [`Costs::capacities`]).
//!   Who takes part in it is not taken from there: it is looked up by its members.
//! - What a rank holds of some layers, and the bytes between two layers ([`Plan::held`], [`Plan::boundary_bytes`]).
//!
//! # How near
//!
//! To the nanosecond: every start and every end of everything on every stream of every rank. Time is whole nanoseconds
//! in both (`clock` says why), and the shares of links are fractions of the same numbers.

mod author;
mod clock;
mod holders;
pub(crate) mod plans;
mod ranks;
mod schedules;
mod script;
mod shares;

use self::clock::Timing;
use self::script::{Script, Stream};
use proptest::prelude::*;
use std::collections::BTreeMap;
use trainyard_plan::{Activity, Plan, StageId, StreamKind, Timeline};
use trainyard_sim::{Costs, Machine, Options, rank_timelines, step_time};
use trainyard_units::Span;

/// What streams do: in order, with start and end in nanoseconds.
type Done = BTreeMap<StreamKind, Vec<(Activity, u64, u64)>>;

/// What the twin says of a plan's step.
struct Twin {
    script: Script,
    ran: Vec<Timing>,
    /// Per rank.
    stages: Vec<StageId>,
    /// What ends each step on the first rank.
    ends: Vec<usize>,
}

impl Twin {
    fn new(plan: &Plan, machine: &Machine) -> Self {
        let costs = Costs::new(plan, machine).expect("a GPU prices everything");
        let author::Written { script, stages, ends } = author::write(plan, machine, &costs);
        let ran = clock::play(&script, costs.capacities(), machine.stack.overlap_slowdown.value);
        Self { script, ran, stages, ends }
    }

    /// What a rank does.
    fn done(&self, rank: usize) -> Done {
        let stage = self.stages[rank];
        let mut done = Done::new();
        for ((_, stream), ids) in self.script.streams.iter().filter(|((owner, _), _)| *owner == rank) {
            let kind = match stream {
                Stream::Compute => StreamKind::Compute(stage),
                Stream::SendForward => StreamKind::SendForward(stage),
                Stream::SendBackward => StreamKind::SendBackward(stage),
                Stream::Reduce => StreamKind::Reduce(stage),
                Stream::Gather => StreamKind::Gather(stage),
                Stream::CopyOut => StreamKind::CopyOut(stage),
                Stream::CopyIn => StreamKind::CopyIn(stage),
            };
            for id in ids {
                let (label, Timing { start, end }) = (self.script.doings[*id].label, self.ran[*id]);
                // The engine tells of a table that two stages share on the first of them.
                if label != Activity::ReduceShared || stage == StageId(0) {
                    done.entry(kind).or_default().push((label, start, end));
                }
            }
        }
        done
    }

    /// Nanoseconds of a step; of several in a row, from the end of the first to the end of the second.
    fn step_time(&self) -> u64 {
        match self.ends[..] {
            [first, second, ..] => self.ran[second].end - self.ran[first].end,
            _ => self.ran.iter().map(|ran| ran.end).max().expect("something is done"),
        }
    }
}

/// What the engine says that a rank does.
fn done_in(timeline: &Timeline) -> Done {
    let mut done = Done::new();
    for interval in &timeline.intervals {
        let (start, end) = (interval.start.nanoseconds(), interval.end.nanoseconds());
        done.entry(interval.stream).or_default().push((interval.activity, start, end));
    }
    done
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_engine_agrees_with_its_twin((spec, place) in plans::any_plan(), unfold: bool) {
        let (plan, machine) = (plans::plan(spec), place.machine());
        let twin = Twin::new(&plan, &machine);
        let options = Options { unfold, ..Options::default() };
        let timelines = rank_timelines(&plan, &machine, options).expect("a GPU prices everything");
        prop_assert_eq!(timelines.len(), twin.stages.len());
        for (rank, timeline) in timelines.iter().enumerate() {
            prop_assert_eq!(twin.done(rank), done_in(timeline), "twin and engine on rank {}", rank);
        }
        let step_time = step_time(&plan, &machine).expect("a GPU prices everything");
        prop_assert_eq!(Span::from_nanoseconds(twin.step_time()), Span::from_seconds(step_time));
    }
}
