//! What a simulation must equal or obey, whatever the numbers in the catalogs are.

use crate::twin::plans::host;
use proptest::prelude::*;
use std::sync::Arc;
use trainyard_hardware_profiles::{Cluster, Fabric, Interconnect, SwitchLevel, catalog};
use trainyard_plan::{
    Activity, BatchSpec, ClusterSpec, Collectives, CopyDirection, GradientCompression, GradientReduction, Offload,
    ParallelSpec, Placement, Plan, PlanSpec, Precision, Recompute, ScheduleName, Stages, StateSharding, Task, TaskId,
    Work, lower,
};
use trainyard_sim::{
    Machine, Options, Variation, evaluation_time, rank_timelines, simulate, simulate_with, step_time, step_time_bound,
};
use trainyard_units::BytesPerSecond;

/// Stacks that differ in what communicates beside kernels: buckets, sends, weights that are gathered.
const STACKS: [&str; 5] = ["pytorch", "megatron", "alpa", "megatron-core", "pytorch-fsdp"];

fn machine(instance: &str, instances: u32, stack: &str) -> Machine {
    let mut cluster = catalog().cluster(instance, instances).expect("in the catalog");
    cluster.pools[0].host = Some(host());
    Machine { cluster, stack: catalog().stack(stack).expect("in the catalog").clone() }
}

/// A plan for a small model; what is left out is as plain as can be.
fn spec(parallel: ParallelSpec, micro: u64, accumulation: u64, schedule: ScheduleName) -> PlanSpec {
    let model = &trainyard_models::find("gpt2-medium").expect("in the catalog").model;
    let layers = model.graph().len();
    let runs = *schedule.chunks().start();
    let stages = Stages::balanced(&vec![1.0; layers], parallel.pipeline * runs).expect("enough layers").specs();
    PlanSpec {
        parallel,
        batch: BatchSpec { global: micro * accumulation * u64::from(parallel.data), micro, accumulation },
        schedule: if parallel.pipeline == 1 { ScheduleName::None } else { schedule },
        virtual_stages: if parallel.pipeline == 1 { 1 } else { runs },
        stages: if parallel.pipeline == 1 { PlanSpec::plain(model.spec(), cluster(), layers).stages } else { stages },
        precision: Precision::Fp16Mixed,
        ..PlanSpec::plain(model.spec(), cluster(), layers)
    }
}

fn cluster() -> ClusterSpec {
    ClusterSpec::of("p3.16xlarge", 2)
}

fn plan(spec: PlanSpec) -> Plan {
    Plan::try_from(spec).expect("a valid plan")
}

fn parallel(data: u32, tensor: u32, pipeline: u32) -> ParallelSpec {
    ParallelSpec { data, tensor, pipeline, ..ParallelSpec::default() }
}

/// No vocabulary to speak of, and as many blocks as the stages share evenly: 24, besides both ends.
fn even_plan(stages: u32, micro_batches: u64, schedule: ScheduleName) -> Plan {
    let mut spec = spec(parallel(1, 1, stages), 4, micro_batches, schedule);
    spec.model.vocab = Some(8);
    let runs = stages * spec.virtual_stages;
    spec.stages = Stages::balanced(&[&[0.0][..], &[1.0; 24], &[0.0]].concat(), runs).expect("24").specs();
    plan(spec)
}

#[test]
fn the_bubble_of_nearly_equal_stages_is_p_minus_one_over_m() {
    for (stages, micro_batches) in [(2, 4), (4, 8), (4, 32), (4, 4)] {
        let expected = f64::from(stages - 1) / micro_batches as f64;
        for schedule in [ScheduleName::OneForwardOneBackward, ScheduleName::GPipe] {
            let plan = even_plan(stages, micro_batches, schedule);
            let bubble = simulate(&plan, &machine("p3.16xlarge", 2, "alpa")).expect("priced").bubble;
            assert!((bubble - expected).abs() < 0.1 * expected, "{schedule}, p {stages}, m {micro_batches}: {bubble}");
        }
    }
}

/// When the last forward pass of a step ends.
fn last_forward(plan: &Plan, machine: &Machine) -> f64 {
    let timelines = rank_timelines(plan, machine, Options::default()).expect("a GPU prices everything");
    let intervals = timelines.into_iter().flat_map(|timeline| timeline.intervals);
    let ends = intervals.filter(|own| matches!(own.activity, Activity::Forward { .. })).map(|own| own.end);
    ends.max().expect("there are forward passes").seconds().0
}

#[test]
fn an_evaluation_takes_what_the_forward_passes_of_a_step_take() {
    // All forward passes of GPipe are done before any backward pass; without communication beside them an evaluation of as
    // many samples ends with the last of them.
    let machine = machine("p3.16xlarge", 2, "alpa");
    for (stages, micro_batches) in [(1, 1), (2, 4), (4, 4), (4, 8)] {
        let plan = even_plan(stages, micro_batches, ScheduleName::GPipe);
        let each = evaluation_time(&plan, &machine, plan.batch().global).expect("priced").0;
        let simulated = last_forward(&plan, &machine);
        assert!((each / simulated - 1.0).abs() < 0.01, "p {stages}, m {micro_batches}: {each} and {simulated}");
        let twice = evaluation_time(&plan, &machine, 2 * plan.batch().global).expect("priced").0;
        assert!((twice / each - 2.0).abs() < 1e-9);
    }
}

#[test]
fn replicas_share_the_samples_of_an_evaluation() {
    let machine = machine("p3.16xlarge", 1, "pytorch");
    let time = |data, samples| {
        let plan = plan(spec(parallel(data, 1, 1), 4, 1, ScheduleName::None));
        evaluation_time(&plan, &machine, samples).expect("priced").0
    };
    // 4 replicas of micro-batch 4: 16 samples at once, and 17 samples are two of these.
    let once = time(4, 16);
    assert!((time(4, 1) / once - 1.0).abs() < 1e-9 && (time(4, 17) / once - 2.0).abs() < 1e-9);
    assert!((time(4, 1600) / once - 100.0).abs() < 1e-6);
    // Four devices wait for the slowest of them.
    let alone = time(1, 1600) / time(4, 1600);
    assert!(alone > 3.0 && alone <= 4.0, "{alone}");
}

#[test]
fn weights_that_are_shared_out_are_gathered_for_every_evaluated_micro_batch() {
    let mut sharded = machine("p3.16xlarge", 2, "pytorch");
    let time = |machine: &Machine, state_sharding, micro| {
        let whole = spec(parallel(16, 1, 1), micro, 1, ScheduleName::None);
        evaluation_time(&plan(PlanSpec { state_sharding, ..whole }), machine, 1600).expect("priced").0
    };
    let whole = time(&sharded, StateSharding::Gradients, 1);
    // Over two machines' network, beside a forward pass of one sample.
    let gathered = time(&sharded, StateSharding::Parameters, 1);
    assert!(gathered > 2.0 * whole, "{gathered} {whole}");
    Arc::make_mut(&mut sharded.stack).sharded_overlap.value = false;
    let in_turn = time(&sharded, StateSharding::Parameters, 1);
    assert!(in_turn >= gathered && in_turn <= gathered + whole * 1.001, "{in_turn} {gathered} {whole}");
}

#[test]
fn schedules_rank_as_published() {
    let step = |schedule| {
        let machine = machine("p3.16xlarge", 1, "alpa");
        simulate(&even_plan(4, 8, schedule), &machine).expect("priced").step_time.0
    };
    let plain = step(ScheduleName::OneForwardOneBackward);
    for better in [
        ScheduleName::Interleaved,
        ScheduleName::TwoBufferedWeights,
        ScheduleName::ZeroBubbleH1,
        ScheduleName::ZeroBubbleV,
    ] {
        assert!(step(better) < plain, "{better}: {} against {plain}", step(better));
    }
}

#[test]
fn buckets_hide_reductions_behind_backward() {
    let plan = plan(spec(parallel(8, 1, 1), 4, 1, ScheduleName::None));
    let mut overlapped = machine("p3.16xlarge", 1, "pytorch");
    let with = simulate(&plan, &overlapped).expect("a GPU prices everything");
    Arc::make_mut(&mut overlapped.stack).bucket.value.0 = 0;
    let without = simulate(&plan, &overlapped).expect("a GPU prices everything");
    assert!(with.exposed_communication.0 < 0.7 * without.exposed_communication.0);
}

#[test]
fn kernels_beside_collectives_run_slower() {
    let plan = plan(spec(parallel(8, 1, 1), 4, 1, ScheduleName::None));
    let mut machine = machine("p3.16xlarge", 1, "pytorch");
    let slowed = simulate(&plan, &machine).expect("a GPU prices everything").step_time;
    Arc::make_mut(&mut machine.stack).overlap_slowdown.value = 0.0;
    assert!(slowed > simulate(&plan, &machine).expect("a GPU prices everything").step_time);
}

/// Any plan that could be meant, on few ranks.
fn any_spec() -> impl Strategy<Value = PlanSpec> {
    let degrees = (1u32..5, 0u32..3, 1u32..5, 1u32..3, any::<bool>(), any::<bool>());
    let knobs = (
        prop::sample::select(ScheduleName::ALL),
        prop::sample::select(StateSharding::ALL),
        prop::sample::select(GradientReduction::ALL),
        prop::sample::select(GradientCompression::ALL),
        prop::sample::select(Recompute::ALL),
        prop::sample::select(Collectives::ALL),
        prop::sample::select(Placement::all().collect::<Vec<_>>()),
        prop::sample::select(vec![
            "none",
            "optimizer",
            "activations@nvme",
            "parameters",
            "parameters@nvme+optimizer@nvme",
        ]),
    );
    (degrees, knobs, 1u64..3, 1u64..4).prop_map(|(degrees, knobs, micro, groups)| {
        let (data, tensor, pipeline, context, sequence, halves) = degrees;
        let (schedule, sharding, reduction, compression, recompute, collectives, placement, offload) = knobs;
        let tensor = 1 << tensor;
        let parallel = ParallelSpec {
            data,
            tensor,
            pipeline,
            context,
            sequence: sequence && tensor > 1,
            ..ParallelSpec::default()
        };
        let plain = spec(parallel, micro, groups * u64::from(pipeline), schedule);
        PlanSpec {
            schedule: if pipeline > 1 && plain.schedule == ScheduleName::None {
                ScheduleName::GPipe
            } else {
                plain.schedule
            },
            state_sharding: sharding,
            sharding_ranks: (halves && sharding != StateSharding::None && data % 2 == 0).then_some(2),
            gradient_reduction: reduction,
            gradient_compression: compression,
            recompute,
            collectives,
            placement,
            offload: offload.parse::<Offload>().expect("a valid offload"),
            ..plain
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The oracle of rank folding: every rank simulated by itself gives the same step and the same timeline to the tick.
    #[test]
    fn folded_and_unfolded_are_the_same_to_the_tick(
        spec in any_spec(), stack in prop::sample::select(STACKS.to_vec()), oversubscribed: bool,
    ) {
        let plan = plan(spec);
        prop_assume!(plan.mesh().ranks() <= 64);
        let mut machine = machine("p3.16xlarge", 8, stack);
        if oversubscribed {
            machine.cluster.switches = vec![SwitchLevel { ports: 2, oversubscription: 3.0 }];
        }
        let folded = Options::default();
        let unfolded = Options { unfold: true, ..folded };
        let outcome = simulate_with(&plan, &machine, folded).expect("a GPU prices everything");
        let oracle = simulate_with(&plan, &machine, unfolded).expect("a GPU prices everything");
        prop_assert_eq!(oracle.actors, plan.mesh().ranks());
        prop_assert!(outcome.actors <= oracle.actors);
        prop_assert_eq!(outcome.step_time, oracle.step_time);
        let timelines = |options| rank_timelines(&plan, &machine, options).expect("a GPU prices everything");
        prop_assert_eq!(timelines(folded), timelines(unfolded));
    }

    #[test]
    fn a_step_never_beats_its_bounds(
        spec in any_spec(), stack in prop::sample::select(STACKS.to_vec()),
        instance in prop::sample::select(vec!["p3.16xlarge", "p4d.24xlarge", "g4dn.12xlarge"]),
    ) {
        let plan = plan(spec);
        prop_assume!(plan.mesh().ranks() <= 16);
        let machine = machine(instance, 4, stack);
        let outcome = simulate(&plan, &machine).expect("a GPU prices everything");
        let bound = step_time_bound(&plan, &machine).expect("a GPU prices everything");
        prop_assert!(outcome.step_time.0 >= bound.0 * (1.0 - 1e-6), "{} below {}", outcome.step_time.0, bound.0);
        prop_assert_eq!(outcome.step_time, step_time(&plan, &machine).expect("a GPU prices everything"));
        let step = outcome.step_time.0;
        for stage in &outcome.stages {
            prop_assert!(stage.busy.0 <= step * (1.0 + 1e-9));
        }
        prop_assert!(outcome.mfu.is_some_and(|mfu| mfu > 0.0 && mfu <= 1.0));
        prop_assert!(outcome.exposed_communication.0 >= 0.0 && outcome.bubble >= 0.0);
    }

    /// The oracle of steps told from their repetition: all micro-batches laid out give the same report.
    #[test]
    fn a_step_laid_out_in_full_has_the_same_report(
        data in 1u32..3, tensor in 0u32..2, pipeline in 1u32..5, accumulation in 70u64..200,
        schedule in prop::sample::select(ScheduleName::ALL), stack in prop::sample::select(STACKS.to_vec()),
        state_sharding in prop::sample::select(vec![StateSharding::None, StateSharding::Optimizer]),
    ) {
        let grouped = accumulation.next_multiple_of(pipeline.into());
        let plain = PlanSpec {
            state_sharding,
            ..spec(parallel(data, 1 << tensor, pipeline), 1, grouped, schedule)
        };
        let Ok(plan) = Plan::try_from(plain) else { return Ok(()) };
        let machine = machine("p4d.24xlarge", 2, stack);
        let simulated = |in_full| {
            let options = Options { in_full, ..Options::default() };
            simulate_with(&plan, &machine, options).expect("a GPU prices everything")
        };
        let (outcome, oracle) = (simulated(false), simulated(true));
        prop_assert_eq!(outcome.step_time, step_time(&plan, &machine).expect("a GPU prices everything"));
        prop_assert_eq!(outcome.step_time, oracle.step_time);
        prop_assert_eq!(&outcome.stages, &oracle.stages);
        prop_assert_eq!(outcome.bubble.to_bits(), oracle.bubble.to_bits());
        prop_assert_eq!(outcome.exposed_communication, oracle.exposed_communication);
        prop_assert_eq!(outcome.phases, oracle.phases);
        prop_assert_eq!(outcome.mfu.map(f64::to_bits), oracle.mfu.map(f64::to_bits));
        prop_assert_eq!(outcome.actors, oracle.actors);
        prop_assert_eq!(outcome.timeline(), oracle.timeline());
    }

    #[test]
    fn faster_links_never_slow_a_step(
        data in 1u32..5, tensor in 0u32..3, pipeline in 1u32..3, accumulation in 1u64..5,
    ) {
        let parallel = parallel(data, 1 << tensor, pipeline);
        prop_assume!(data * (1 << tensor) * pipeline <= 16);
        let plan = plan(spec(parallel, 2, accumulation, ScheduleName::OneForwardOneBackward));
        let slow = machine("p3.16xlarge", 2, "pytorch");
        let fast = Machine { cluster: with_links_twice_as_fast(&slow.cluster), ..slow.clone() };
        let time = |machine| simulate(&plan, machine).expect("a GPU prices everything").step_time.0;
        prop_assert!(time(&fast) <= time(&slow));
    }

    #[test]
    fn gradients_are_reduced_once_whatever_the_buckets(spec in any_spec()) {
        let plan = plan(PlanSpec { gradient_reduction: GradientReduction::Step, offload: Offload::NONE, ..spec });
        prop_assume!(plan.mesh().copies() > 1 && plan.schedule().flushes());
        let reduced = |stack: &str| -> u64 {
            let graph = lower(&plan, machine("p3.16xlarge", 2, stack).lowering());
            let values = |work| match work {
                trainyard_plan::Work::Exchange(exchange)
                    if exchange.content == trainyard_plan::Content::Gradients
                        && exchange.group != trainyard_plan::Group::ShardReplicas => exchange.held.parameters,
                _ => 0,
            };
            graph.tasks().iter().map(|task| values(task.work)).sum()
        };
        let all: u64 = plan.stages().ids().map(|stage| plan.held_by(stage).parameters).sum();
        prop_assert_eq!((reduced("pytorch"), reduced("megatron")), (all, all));
    }
}

/// Steps of a zero-bubble schedule follow each other, and the weights of the next are gathered ahead of its passes.
#[test]
fn weights_are_not_gathered_before_they_are_updated() {
    let plan = plan(PlanSpec {
        state_sharding: StateSharding::Parameters,
        ..spec(parallel(2, 1, 2), 1, 2, ScheduleName::ZeroBubbleH1)
    });
    let graph = lower(&plan, machine("p3.16xlarge", 1, "pytorch").lowering());
    for stage in plan.stages().ids() {
        let numbered = || (0..).map(TaskId).zip(graph.tasks());
        let (updated, _) = numbered()
            .find(|(_, task)| task.activity == Activity::Update { stage })
            .expect("the first of two steps ends");
        let gathers = |task: &Task| matches!(task.activity, Activity::GatherWeights { stage: of, .. } if of == stage);
        let later: Vec<TaskId> =
            numbered().filter(|(id, task)| *id > updated && gathers(task)).map(|(id, _)| id).collect();
        assert!(!later.is_empty());
        assert!(later.iter().all(|id| graph.dependencies(*id).contains(&updated)), "{later:?}");
        // Forward and backward of two micro-batches in each step. Gradients of weights are computed without weights.
        let layers: usize = plan.stages().chunks_of(stage).map(|layers| layers.len()).sum();
        assert_eq!(graph.tasks().iter().filter(|task| gathers(task)).count(), layers * 2 * 2 * 2);
    }
}

/// Where only optimizer state is shared out, each rank needs whole weights, and none sends it those of the others in a
/// pass.
#[test]
fn weights_that_are_not_shared_out_are_fetched_whole() {
    let fetched = |state_sharding| -> u64 {
        let plan = plan(PlanSpec {
            state_sharding,
            offload: "parameters+optimizer".parse().expect("a valid offload"),
            ..spec(parallel(4, 1, 1), 1, 1, ScheduleName::None)
        });
        let graph = lower(&plan, machine("p3.16xlarge", 1, "pytorch").lowering());
        let bytes = |work| match work {
            Work::Copy { way: CopyDirection::HostToDevice, bytes, .. } => bytes.0,
            _ => 0,
        };
        graph.tasks().iter().map(|task| bytes(task.work)).sum()
    };
    let whole = fetched(StateSharding::None);
    // For two passes, and once the quarter that a rank's processor updated, which goes to the others.
    let updated = whole / 2 / 4;
    assert_eq!([StateSharding::Optimizer, StateSharding::Gradients].map(fetched), [whole + updated; 2]);
    assert!(fetched(StateSharding::Parameters) < whole / 3);
}

#[test]
fn slow_devices_unfold_what_they_touch_and_slow_the_step() {
    let plan = plan(spec(parallel(4, 1, 2), 2, 4, ScheduleName::OneForwardOneBackward));
    let machine = machine("p4d.24xlarge", 1, "pytorch");
    let with = |variation| {
        let folded = Options { variation, ..Options::default() };
        let outcome = simulate_with(&plan, &machine, folded).expect("priced");
        let unfolded = simulate_with(&plan, &machine, Options { unfold: true, ..folded }).expect("priced");
        assert_eq!(outcome.step_time, unfolded.step_time);
        outcome
    };
    let even = with(None);
    let uneven = with(Some(Variation { spread: 0.05, seed: 7 }));
    assert!(even.actors < 8 && uneven.actors == 8, "{} and {}", even.actors, uneven.actors);
    assert!(uneven.step_time > with(Some(Variation { spread: 0.0, seed: 7 })).step_time);
    assert_eq!(uneven.step_time, with(Some(Variation { spread: 0.05, seed: 7 })).step_time);
    assert_ne!(uneven.step_time, with(Some(Variation { spread: 0.05, seed: 8 })).step_time);
}

#[test]
fn machines_of_two_kinds_go_at_the_pace_of_the_slower() {
    let plan = plan(spec(parallel(16, 1, 1), 2, 2, ScheduleName::None));
    let mut mixed = machine("p3.16xlarge", 1, "pytorch");
    let alone = simulate(&plan, &machine("p3.16xlarge", 2, "pytorch")).expect("priced");
    mixed.cluster.pools.extend(machine("p4d.24xlarge", 1, "pytorch").cluster.pools);
    let folded = simulate(&plan, &mixed).expect("priced");
    let unfolded = simulate_with(&plan, &mixed, Options { unfold: true, ..Options::default() }).expect("priced");
    assert_eq!(folded.step_time, unfolded.step_time);
    assert!(folded.actors >= 2 && folded.actors < 16);
    // Half of the devices wait for the other half.
    assert!((folded.step_time.0 / alone.step_time.0 - 1.0).abs() < 0.1);
}

#[test]
fn tensor_groups_across_two_kinds_of_machines_are_kept_apart() {
    let plan = plan(spec(parallel(3, 4, 1), 2, 2, ScheduleName::None));
    let mut mixed = machine("p3.8xlarge", 1, "pytorch");
    mixed.cluster.pools.extend(machine("p4d.24xlarge", 1, "pytorch").cluster.pools);
    // Two slow devices of four, then eight fast ones, and two more slow ones: groups of four straddle.
    mixed.cluster.pools[0].devices_per_instance = 2;
    mixed.cluster.pools.push(mixed.cluster.pools[0].clone());
    let timelines = |unfold| rank_timelines(&plan, &mixed, Options { unfold, ..Options::default() }).expect("priced");
    assert_eq!(timelines(false), timelines(true));
}

fn with_links_twice_as_fast(cluster: &Cluster) -> Cluster {
    let mut faster = cluster.clone();
    let twice = |rate: &mut BytesPerSecond| rate.0 *= 2.0;
    if let Fabric::Wired { interconnect, network } = &mut faster.pools[0].fabric {
        twice(&mut network.baseline.value);
        match interconnect {
            Interconnect::Pcie { bandwidth } => twice(&mut bandwidth.value),
            Interconnect::Nvswitch { port, .. } => twice(&mut port.value),
            Interconnect::NvlinkMesh { link, pcie_bandwidth, .. } => {
                twice(&mut link.value);
                twice(&mut pcie_bandwidth.value);
            }
        }
    }
    faster
}

/// Of replicas that straddle machines some reduce their gradients later than the others, and then have the machine's
/// links and memory to themselves: what all together take bounds the step from the first of them, not from the last.
#[test]
fn late_replicas_bring_their_gradients_to_the_machine_alone() {
    let straddling = PlanSpec {
        placement: "DPT".parse().expect("an order"),
        offload: "optimizer".parse().expect("a valid offload"),
        ..spec(parallel(3, 4, 1), 1, 1, ScheduleName::None)
    };
    let (plan, machine) = (plan(straddling), machine("p3.16xlarge", 2, "pytorch"));
    let bound = step_time_bound(&plan, &machine).expect("priced").0;
    assert!(simulate(&plan, &machine).expect("priced").step_time.0 >= bound);
}
