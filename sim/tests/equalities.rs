//! What a simulation must equal or obey, whatever the numbers in the catalogs are.

use proptest::prelude::*;
use trainyard_hardware_profiles::{Cluster, Device, Fabric, Interconnect, catalog};
use trainyard_plan::{
    Activity, BatchSpec, ClusterSpec, Collectives, Optimizer, ParallelSpec, Plan, PlanSpec, Precision, Pricing,
    Recompute, ScheduleName, Stages, StreamKind, TaskId, Work, lower,
};
use trainyard_sim::{Machine, Prices, run, simulate, step_time_bound};
use trainyard_units::{BytesPerSecond, Instant, Seconds, Span};

fn machine(instance: &str, instances: u32, stack: &str) -> Machine {
    Machine {
        cluster: catalog().cluster(instance, instances).expect("in the catalog"),
        stack: catalog().stack(stack).expect("in the catalog").clone(),
    }
}

fn spec(parallel: ParallelSpec, micro: u64, accumulation: u64, schedule: ScheduleName) -> PlanSpec {
    let model = &trainyard_models::find("gpt2-medium").expect("in the catalog").model;
    let layers = model.graph().len();
    PlanSpec {
        model: model.spec(),
        cluster: ClusterSpec { instance: "p3.16xlarge".into(), instances: 2, profile: None },
        parallel,
        batch: BatchSpec { global: micro * accumulation * u64::from(parallel.data), micro, accumulation },
        schedule,
        stages: Stages::balanced(&vec![1.0; layers], parallel.pipeline).expect("enough layers").specs(),
        precision: Precision::Fp16Mixed,
        recompute: Recompute::None,
        collectives: Collectives::Nccl,
        optimizer: Optimizer::AdamW,
        pricing: Pricing::OnDemand,
    }
}

fn plan(parallel: ParallelSpec, micro: u64, accumulation: u64, schedule: ScheduleName) -> Plan {
    Plan::try_from(spec(parallel, micro, accumulation, schedule)).expect("a valid plan")
}

fn schedule_of(pipeline: u32, gpipe: bool) -> ScheduleName {
    match (pipeline, gpipe) {
        (1, _) => ScheduleName::None,
        (_, true) => ScheduleName::GPipe,
        (_, false) => ScheduleName::OneForwardOneBackward,
    }
}

/// The recurrence that a step without contention must equal: ids are a topological order.
fn longest_path(plan: &Plan, machine: &Machine) -> Instant {
    let graph = lower(plan, machine.lowering());
    let prices = Prices::new(plan, machine).expect("a GPU prices everything");
    let mut free = vec![Instant::START; graph.streams().len()];
    let mut ends: Vec<Instant> = Vec::new();
    for (index, task) in graph.tasks().iter().enumerate() {
        let waits = graph.dependencies(TaskId(index as u32)).iter().map(|before| ends[before.0 as usize]);
        let start = waits.max().unwrap_or_default().max(free[task.stream.0 as usize]);
        let end = start.after(prices.work(&graph, task.work).expect("a GPU prices everything"));
        free[task.stream.0 as usize] = end;
        ends.push(end);
    }
    ends.into_iter().max().unwrap_or_default()
}

/// Bubble of a pipeline whose stages all take the same time, without transfers.
fn bubble_of_equal_stages(stages: u32, micro_batches: u64, schedule: ScheduleName) -> f64 {
    let parallel = ParallelSpec { data: 1, tensor: 1, pipeline: stages };
    let graph = lower(&plan(parallel, 1, micro_batches, schedule), machine("p3.16xlarge", 2, "alpa").lowering());
    let durations: Vec<Span> = graph
        .tasks()
        .iter()
        .map(|task| match task.activity {
            Activity::Forward { .. } => Span::from_seconds(Seconds(1.0)),
            Activity::Backward { .. } => Span::from_seconds(Seconds(2.0)),
            _ => Span::ZERO,
        })
        .collect();
    run(&graph, &durations).bubble()
}

#[test]
fn the_bubble_of_equal_stages_is_p_minus_one_over_m() {
    for (stages, micro_batches) in [(2, 4), (4, 8), (8, 32), (4, 4), (8, 2)] {
        let expected = f64::from(stages - 1) / micro_batches as f64;
        for schedule in [ScheduleName::OneForwardOneBackward, ScheduleName::GPipe] {
            let bubble = bubble_of_equal_stages(stages, micro_batches, schedule);
            assert!((bubble - expected).abs() < 1e-12, "{schedule}, p {stages}, m {micro_batches}: {bubble}");
        }
    }
}

#[test]
fn gradients_are_reduced_once_whatever_the_buckets() {
    let plan = plan(ParallelSpec { data: 4, tensor: 1, pipeline: 2 }, 1, 2, ScheduleName::GPipe);
    let reduced = |stack: &str| -> u64 {
        let graph = lower(&plan, machine("p3.16xlarge", 2, stack).lowering());
        let parameters = |work: &Work| match work {
            Work::ReduceGradients { held, .. } => held.parameters,
            _ => 0,
        };
        graph.tasks().iter().map(|task| parameters(&task.work)).sum()
    };
    let all: u64 = plan.stages().ids().map(|stage| plan.held(&plan.stages().layers(stage)).parameters).sum();
    assert_eq!((reduced("pytorch"), reduced("megatron")), (all, all));
    assert_eq!(all, plan.graph().parameters() + plan.graph().shared_parameters());
}

#[test]
fn buckets_hide_reductions_behind_backward() {
    let plan = plan(ParallelSpec { data: 8, tensor: 1, pipeline: 1 }, 4, 1, ScheduleName::None);
    let mut overlapped = machine("p3.16xlarge", 1, "pytorch");
    let with = simulate(&plan, &overlapped).expect("a GPU prices everything");
    overlapped.stack.bucket.value.0 = 0;
    let without = simulate(&plan, &overlapped).expect("a GPU prices everything");
    assert!(with.exposed_communication.0 < 0.5 * without.exposed_communication.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_step_is_the_longest_path_and_never_beats_its_bounds(
        data in 1u32..4, tensor in 0u32..3, pipeline in 1u32..5, micro in 1u64..4, accumulation in 1u64..6,
        gpipe: bool, stack in prop::sample::select(vec!["pytorch", "megatron", "alpa"]),
    ) {
        let parallel = ParallelSpec { data, tensor: 1 << tensor, pipeline };
        prop_assume!(data * (1 << tensor) * pipeline <= 16);
        let plan = plan(parallel, micro, accumulation, schedule_of(pipeline, gpipe));
        let machine = machine("p3.16xlarge", 2, stack);
        let outcome = simulate(&plan, &machine).expect("a GPU prices everything");
        prop_assert_eq!(outcome.step_time, longest_path(&plan, &machine).seconds());
        let bound = step_time_bound(&plan, &machine).expect("a GPU prices everything");
        prop_assert!(outcome.step_time.0 >= bound.0 * (1.0 - 1e-6), "{} below {}", outcome.step_time.0, bound.0);
        let step = outcome.step_time.0;
        for stage in &outcome.stages {
            prop_assert!(stage.busy.0 <= step * (1.0 + 1e-9));
        }
        prop_assert!(outcome.mfu.is_some_and(|mfu| mfu > 0.0 && mfu <= 1.0));
        prop_assert!(outcome.exposed_communication.0 >= 0.0 && outcome.bubble >= -1e-12);
    }

    #[test]
    fn faster_links_never_slow_a_step(
        data in 1u32..5, tensor in 0u32..3, pipeline in 1u32..3, accumulation in 1u64..5,
    ) {
        let parallel = ParallelSpec { data, tensor: 1 << tensor, pipeline };
        prop_assume!(data * (1 << tensor) * pipeline <= 16);
        let plan = plan(parallel, 2, accumulation, schedule_of(pipeline, false));
        let slow = machine("p3.16xlarge", 2, "pytorch");
        let fast = Machine { cluster: with_links_twice_as_fast(&slow.cluster), ..slow.clone() };
        let time = |machine| simulate(&plan, machine).expect("a GPU prices everything").step_time.0;
        prop_assert!(time(&fast) <= time(&slow));
    }

    #[test]
    fn equal_plans_give_equal_timelines(data in 1u32..3, pipeline in 1u32..4, accumulation in 1u64..5) {
        let plan = plan(ParallelSpec { data, tensor: 1, pipeline }, 1, accumulation, schedule_of(pipeline, true));
        let machine = machine("p3.16xlarge", 2, "pytorch");
        let timeline = || simulate(&plan, &machine).expect("a GPU prices everything").timeline;
        prop_assert_eq!(timeline(), timeline());
    }
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
    assert!(matches!(faster.first().device, Device::Gpu(_)));
    faster
}

#[test]
fn every_stage_sends_and_receives_each_micro_batch_once() {
    let plan = plan(ParallelSpec { data: 1, tensor: 1, pipeline: 4 }, 1, 6, ScheduleName::OneForwardOneBackward);
    let graph = lower(&plan, machine("p3.16xlarge", 2, "alpa").lowering());
    let sent = |wanted: fn(&StreamKind) -> bool| {
        graph.tasks().iter().filter(|task| wanted(&graph.streams()[task.stream.0 as usize])).count()
    };
    assert_eq!(sent(|stream| matches!(stream, StreamKind::SendForward(_))), 3 * 6);
    assert_eq!(sent(|stream| matches!(stream, StreamKind::SendBackward(_))), 3 * 6);
}
