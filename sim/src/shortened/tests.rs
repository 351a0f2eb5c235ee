//! The oracle: a step with all its micro-batches laid out.

use super::*;
use crate::engine::Timing;
use crate::variation::Variation;
use proptest::prelude::*;
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{Host, PcieTree, SwitchLevel, catalog};
use trainyard_plan::{
    BatchSpec, ClusterSpec, GradientReduction, Offload, ParallelSpec, PlanSpec, Precision, Rank, Recompute,
    ScheduleName, Stages, StateSharding, StreamKind, Timeline,
};
use trainyard_units::{Bytes, BytesPerSecond};

/// When each rank that is simulated does what on each stream.
type Times = BTreeMap<(StreamKind, Rank), Vec<(u64, u64)>>;

/// Whether a step was told from its repetition; when everything happens in it, and the same in silence; and the timeline
/// of the first ranks.
fn times(plan: &Plan, machine: &Machine, options: Options) -> (bool, ([Times; 2], Timeline)) {
    let costs = Step::costs(plan, machine, options).expect("a GPU prices everything");
    let told = |InTime { step, ensemble, course, silent }: InTime<'_>| {
        let silent = silent.expect("it is wanted");
        let timeline = ensemble.timeline(&course, &step.first_ranks()).timeline().into_owned();
        let recurs = (0..ensemble.program.nodes.len() as u32).any(|node| course.first(node).1.times > 0);
        (recurs, ([&course, &silent].map(|course| of_course(step, ensemble, course)), timeline))
    };
    in_time((plan, machine), options, &costs, Wanted::Silent, told).expect("a GPU prices everything")
}

fn of_course(step: &Step<'_>, ensemble: &Ensemble<'_>, course: &Course) -> Times {
    let graph = &step.graph;
    let mut times = Times::new();
    for (actor, rank) in (0..).zip(&step.fold.ranks) {
        for (index, task) in (0..).zip(graph.tasks()) {
            let Some(node) = ensemble.node(index, actor) else { continue };
            let of_stream = times.entry((graph.streams()[task.stream.0 as usize], *rank)).or_default();
            let tick = |Timing { start, end }: Timing| (start.nanoseconds(), end.nanoseconds());
            of_stream.extend(course.all(node).map(tick));
        }
    }
    for of_stream in times.values_mut() {
        of_stream.sort_unstable();
    }
    times
}

/// A plan for a small model with so many micro-batches; what is left out is as plain as can be.
fn spec(parallel: ParallelSpec, micro_batches: u64, schedule: ScheduleName, runs: u32) -> PlanSpec {
    let model = &trainyard_models::find("gpt2-medium").expect("in the catalog").model;
    let layers = model.graph().len();
    let several = parallel.pipeline > 1;
    let plain = PlanSpec::plain(model.spec(), ClusterSpec::of("p3.16xlarge", 8), layers);
    let runs = runs.clamp(*schedule.chunks().start(), *schedule.chunks().end());
    let cut = || Stages::balanced(&vec![1.0; layers], parallel.pipeline * runs).expect("enough layers").specs();
    let grouped = several && schedule.accumulation() == trainyard_plan::Accumulation::GroupsOfStages;
    let micro_batches = if grouped { micro_batches.next_multiple_of(parallel.pipeline.into()) } else { micro_batches };
    PlanSpec {
        parallel,
        batch: BatchSpec { global: micro_batches * u64::from(parallel.data), micro: 1, accumulation: micro_batches },
        schedule: if several { schedule } else { ScheduleName::None },
        virtual_stages: if several { runs } else { 1 },
        stages: if several { cut() } else { plain.stages.clone() },
        precision: Precision::Fp16Mixed,
        ..plain
    }
}

fn machine(instance: &str, stack: &str) -> Machine {
    let mut cluster = catalog().cluster(instance, 8).expect("in the catalog");
    cluster.pools[0].host = Some(Host {
        memory: Bytes(1 << 40),
        memory_bandwidth: BytesPerSecond(1e11),
        disk: Bytes(1 << 42),
        disk_bandwidth: BytesPerSecond(4e9),
        pcie: PcieTree { devices_per_switch: 2, uplink: BytesPerSecond(12e9) },
        processors: None,
        remote: None,
    });
    Machine { cluster, stack: catalog().stack(stack).expect("in the catalog").clone() }
}

fn parallel(data: u32, tensor: u32, pipeline: u32) -> ParallelSpec {
    ParallelSpec { data, tensor, pipeline, ..ParallelSpec::default() }
}

fn any_spec() -> impl Strategy<Value = PlanSpec> {
    let knobs = (
        prop::sample::select(ScheduleName::ALL),
        prop::sample::select(StateSharding::ALL),
        prop::sample::select(GradientReduction::ALL),
        prop::sample::select(Recompute::ALL),
        prop::sample::select(vec!["none", "optimizer", "activations@nvme", "parameters"]),
    );
    ((1u32..4, 0u32..3, 1u32..6, 2u32..4), knobs, 60u64..260).prop_map(
        |((data, tensor, pipeline, runs), knobs, count)| {
            let (schedule, state_sharding, gradient_reduction, recompute, offload) = knobs;
            let offload = offload.parse::<Offload>().expect("a valid offload");
            let plain = spec(parallel(data, 1 << tensor, pipeline), count, schedule, runs);
            let sharding = if pipeline > 1 && state_sharding > StateSharding::Optimizer {
                StateSharding::Optimizer
            } else {
                state_sharding
            };
            PlanSpec { state_sharding: sharding, gradient_reduction, recompute, offload, ..plain }
        },
    )
}

fn machines() -> impl Strategy<Value = (&'static str, &'static str)> {
    (
        prop::sample::select(vec!["p3.16xlarge", "p4d.24xlarge", "g4dn.12xlarge", "p3dn.24xlarge"]),
        prop::sample::select(vec!["pytorch", "megatron", "alpa"]),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_step_told_from_its_repetition_is_that_laid_out_in_full_to_the_tick(
        spec in any_spec(), (instance, stack) in machines(), unfold: bool, oversubscribed: bool, varied: bool,
    ) {
        let Ok(plan) = Plan::try_from(spec) else { return Ok(()) };
        let mut machine = machine(instance, stack);
        prop_assume!(plan.mesh().ranks() <= machine.cluster.devices().min(24));
        if oversubscribed {
            machine.cluster.switches = vec![SwitchLevel { ports: 2, oversubscription: 3.0 }];
        }
        let variation = varied.then_some(Variation { spread: 0.05, seed: 7 });
        let options = Options { unfold, variation, in_full: false };
        let (told, found) = times(&plan, &machine, options);
        if told {
            let (_, expected) = times(&plan, &machine, Options { in_full: true, ..options });
            prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn pipelines_that_settle_are_told_from_their_repetition() {
    let cases = [
        (ScheduleName::None, 1, parallel(2, 1, 1), GradientReduction::Step),
        (ScheduleName::None, 1, parallel(2, 1, 1), GradientReduction::MicroBatch),
        (ScheduleName::OneForwardOneBackward, 1, parallel(1, 2, 4), GradientReduction::Step),
        (ScheduleName::OneForwardOneBackward, 1, parallel(2, 4, 3), GradientReduction::Step),
        (ScheduleName::Interleaved, 2, parallel(1, 8, 4), GradientReduction::Step),
        (ScheduleName::TwoBufferedWeights, 1, parallel(1, 8, 4), GradientReduction::Step),
        (ScheduleName::ZeroBubbleH1, 1, parallel(1, 8, 4), GradientReduction::Step),
    ];
    let machine = machine("p4d.24xlarge", "pytorch");
    for (schedule, runs, parallel, gradient_reduction) in cases {
        let plan = Plan::try_from(PlanSpec { gradient_reduction, ..spec(parallel, 240, schedule, runs) });
        let plan = plan.expect("a valid plan");
        let (told, found) = times(&plan, &machine, Options::default());
        assert!(told, "{schedule} {parallel:?}");
        let (_, expected) = times(&plan, &machine, Options { in_full: true, ..Options::default() });
        assert!(found == expected, "{schedule} {parallel:?}");
    }
}

#[test]
fn schedules_without_a_middle_are_laid_out_in_full() {
    let plan = Plan::try_from(spec(parallel(1, 1, 4), 240, ScheduleName::GPipe, 1)).expect("a valid plan");
    assert!(!times(&plan, &machine("p4d.24xlarge", "pytorch"), Options::default()).0);
}

/// The oracle of the oracle: an attempt whose step is longer than it need be tells the same.
#[test]
fn it_does_not_matter_how_many_micro_batches_are_left_out() {
    let plan = spec(parallel(1, 2, 4), 300, ScheduleName::OneForwardOneBackward, 1);
    let (plan, machine) = (Plan::try_from(plan).expect("a valid plan"), machine("p4d.24xlarge", "pytorch"));
    let costs = Step::costs(&plan, &machine, Options::default()).expect("a GPU prices everything");
    let told = |length| {
        let options = Options::default();
        let attempt = Attempt { plan: &plan, machine: &machine, options, costs: &costs, wanted: Wanted::One };
        let told = attempt.run(length, &|put: InTime<'_>| of_course(put.step, put.ensemble, &put.course));
        told.expect("a GPU prices everything").expect("it recurs")
    };
    let all: Vec<Times> = [40, 41, 97, 299].map(told).into();
    assert!(all.iter().all(|times| *times == all[0]));
}
