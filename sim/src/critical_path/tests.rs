//! Closed forms of small programs, and plans on machines.

use super::*;
use trainyard_hardware_profiles::catalog;
use trainyard_plan::{
    BatchSpec, ClusterSpec, ParallelSpec, PlanSpec, Precision, Recompute, ScheduleName, Stages, StateSharding,
};

/// Forward and backward times without a common divisor, so that a length tells how many of each there are.
const FORWARD: u64 = 1_000_003;
const BACKWARD: u64 = 2_000_029;

/// 1F1B on equal stages without communication: kernels in the order of each stage's program.
fn one_forward_one_backward(stages: u32, micro_batches: u32) -> (Program, Vec<u64>) {
    let mut program = Program { actors: stages, ..Program::default() };
    let mut lengths = Vec::new();
    let id =
        |stage: u32, forward: bool, micro_batch: u32| 2 * (stage * micro_batches + micro_batch) + u32::from(!forward);
    for stage in 0..stages {
        for _ in 0..micro_batches {
            for length in [FORWARD, BACKWARD] {
                program.nodes.push(Node::Kernel { actor: stage, span: Span::from_nanoseconds(length) });
                lengths.push(length);
            }
        }
        let ahead = (stages - stage).min(micro_batches);
        let mut order: Vec<u32> = (0..ahead).map(|m| id(stage, true, m)).collect();
        for m in 0..micro_batches {
            order.push(id(stage, false, m));
            order.extend((m + ahead < micro_batches).then(|| id(stage, true, m + ahead)));
        }
        program.edges.extend(order.windows(2).map(|pair| (pair[0], pair[1])));
        for m in 0..micro_batches {
            if stage > 0 {
                program.edges.push((id(stage - 1, true, m), id(stage, true, m)));
                program.edges.push((id(stage, false, m), id(stage - 1, false, m)));
            } else if stage + 1 == stages {
                program.edges.push((id(stage, true, m), id(stage, false, m)));
            }
        }
    }
    (program, lengths)
}

#[test]
fn the_path_of_a_pipeline_has_as_many_passes_as_micro_batches_and_stages_less_one() {
    for (stages, micro_batches) in [(1, 1), (2, 4), (4, 8), (4, 4), (8, 3)] {
        let (program, lengths) = one_forward_one_backward(stages, micro_batches);
        let ran = run(&program);
        let latest = ran.iter().map(|ran| ran.end).max().expect("something ran");
        let last = ran.iter().position(|ran| ran.end == latest).expect("it is there") as u32;
        let path = walk(&program, &ran, last, Instant::START);
        let of = |length| path.iter().filter(|hop| lengths[hop.node as usize] == length).count() as u32;
        let expected = micro_batches + stages - 1;
        assert_eq!((of(FORWARD), of(BACKWARD)), (expected, expected), "p {stages}, m {micro_batches}");
        assert_eq!(path.iter().map(|hop| hop.counted).sum::<Span>(), latest.since(Instant::START));
    }
}

#[test]
fn of_what_ends_together_kernels_are_on_the_path() {
    for (latency, expected) in [(5, vec![2, 0]), (6, vec![2, 1])] {
        let span = Span::from_nanoseconds;
        let operation = crate::engine::CommProgram {
            stretches: vec![crate::engine::Stretch {
                latency: span(latency),
                volume: 0.0,
                demand: crate::network::Demand { limit: f64::INFINITY, uses: Vec::new() },
            }],
            slows: Vec::new(),
        };
        let kernel = |actor, length| Node::Kernel { actor, span: span(length) };
        let program = Program {
            nodes: vec![kernel(0, 5), Node::Operation(0), kernel(1, 3)],
            operations: vec![operation],
            edges: vec![(0, 2), (1, 2)],
            actors: 2,
            ..Program::default()
        };
        let path = walk(&program, &run(&program), 2, Instant::START);
        assert_eq!(path.iter().map(|hop| hop.node).collect::<Vec<_>>(), expected);
    }
}

fn machine(instance: &str, instances: u32, stack: &str) -> Machine {
    let cluster = catalog().cluster(instance, instances).expect("in the catalog");
    Machine { cluster, stack: catalog().stack(stack).expect("in the catalog").clone() }
}

fn plan(parallel: ParallelSpec, schedule: ScheduleName, accumulation: u64, change: impl Fn(&mut PlanSpec)) -> Plan {
    let model = &trainyard_models::find("gpt2-medium").expect("in the catalog").model;
    let layers = model.graph().len();
    let mut spec = PlanSpec::plain(model.spec(), ClusterSpec::of("p3.16xlarge", 2), layers);
    let runs = if schedule == ScheduleName::ZeroBubbleV { 2 } else { 1 };
    spec.stages = Stages::balanced(&vec![1.0; layers], parallel.pipeline * runs).expect("enough layers").specs();
    (spec.parallel, spec.schedule, spec.virtual_stages) = (parallel, schedule, runs);
    spec.batch = BatchSpec { global: 2 * accumulation * u64::from(parallel.data), micro: 2, accumulation };
    spec.precision = Precision::Fp16Mixed;
    change(&mut spec);
    Plan::try_from(spec).expect("a valid plan")
}

fn degrees(data: u32, tensor: u32, pipeline: u32) -> ParallelSpec {
    ParallelSpec { data, tensor, pipeline, ..ParallelSpec::default() }
}

fn time_of(parts: &[PathPart], kind: PathKind) -> f64 {
    parts.iter().filter(|part| part.kind == kind).map(|part| part.time_s).sum()
}

#[test]
fn the_parts_are_the_step() {
    let sharded = |spec: &mut PlanSpec| spec.state_sharding = StateSharding::Parameters;
    let again = |spec: &mut PlanSpec| spec.recompute = Recompute::Full;
    let plans = [
        plan(degrees(1, 1, 1), ScheduleName::None, 2, |_| ()),
        plan(degrees(16, 1, 1), ScheduleName::None, 1, sharded),
        plan(degrees(8, 2, 1), ScheduleName::None, 2, again),
        plan(degrees(2, 1, 8), ScheduleName::OneForwardOneBackward, 8, again),
        plan(degrees(2, 2, 4), ScheduleName::GPipe, 4, |_| ()),
        plan(degrees(4, 1, 4), ScheduleName::TwoBufferedWeights, 8, |_| ()),
        plan(degrees(4, 1, 4), ScheduleName::ZeroBubbleH1, 8, |_| ()),
        plan(degrees(4, 1, 4), ScheduleName::ZeroBubbleV, 8, |_| ()),
    ];
    for stack in ["pytorch", "alpa"] {
        let machine = machine("p3.16xlarge", 2, stack);
        for plan in &plans {
            let parts = critical_path(plan, &machine).expect("a GPU prices everything");
            let step = crate::step_time(plan, &machine).expect("a GPU prices everything").0;
            let sum: f64 = parts.iter().map(|part| part.time_s).sum();
            assert!((sum - step).abs() < 1e-9 * step, "{stack}, {:?}: {sum} of {step}", plan.mesh().parallel());
            assert!(parts.iter().all(|part| part.time_s > 0.0) && parts.is_sorted_by_key(|part| part.kind));
        }
    }
}

#[test]
fn each_part_is_there_where_its_cause_is() {
    let machine = machine("p3.16xlarge", 2, "pytorch");
    let path = |plan: Plan| critical_path(&plan, &machine).expect("a GPU prices everything");
    let alone = path(plan(degrees(1, 1, 1), ScheduleName::None, 2, |_| ()));
    for kind in [PathKind::Recompute, PathKind::LayerCollectives, PathKind::FillAndDrain, PathKind::GradientReduction] {
        assert!(time_of(&alone, kind) <= 0.0, "{kind}");
    }
    assert!(time_of(&alone, PathKind::Backward) > time_of(&alone, PathKind::Forward));
    let replicas = path(plan(degrees(16, 1, 1), ScheduleName::None, 1, |_| ()));
    assert!(replicas.iter().any(|part| part.kind == PathKind::GradientReduction && part.between_machines));
    let split = path(plan(degrees(1, 8, 1), ScheduleName::None, 2, |spec| spec.recompute = Recompute::Full));
    assert!(split.iter().any(|part| part.kind == PathKind::LayerCollectives && !part.between_machines));
    assert!(time_of(&split, PathKind::Recompute) > 0.0);
    // Two stages with four micro-batches: a fifth of the passes on the path fills and drains.
    let piped = path(plan(degrees(1, 1, 2), ScheduleName::OneForwardOneBackward, 4, |_| ()));
    let share = time_of(&piped, PathKind::FillAndDrain) / piped.iter().map(|part| part.time_s).sum::<f64>();
    assert!((0.1..0.3).contains(&share), "{share}");
}

/// GPT-2 XL with its optimizer in main memory: copies of gradients take a hair longer than the passes that hide them.
#[test]
fn copies_that_computation_hides_are_told_as_computation() {
    let model = &trainyard_models::find("gpt2-xl").expect("in the catalog").model;
    let mut spec = PlanSpec::plain(model.spec(), ClusterSpec::of("p3.2xlarge", 1), model.graph().len());
    spec.batch = BatchSpec { global: 256, micro: 2, accumulation: 128 };
    (spec.precision, spec.state_sharding) = (Precision::Fp16Mixed, StateSharding::Optimizer);
    spec.offload.optimizer = Some(trainyard_plan::Store::Host);
    let plan = Plan::try_from(spec).expect("a valid plan");
    let mut machine = machine("p3.2xlarge", 1, "deepspeed");
    let shares = |machine: &Machine| {
        let path = critical_path(&plan, machine).expect("a GPU prices everything");
        let step: f64 = path.iter().map(|part| part.time_s).sum();
        let outcome = crate::simulate(&plan, machine).expect("a GPU prices everything");
        assert!((step - outcome.step_time.0).abs() < 1e-9 * step);
        let passes = (outcome.phases.forward_s + outcome.phases.backward_s) / step;
        (time_of(&path, PathKind::HostCopies) / step, passes, crate::bottleneck(&plan, machine, &outcome))
    };
    let (copies, passes, limit) = shares(&machine);
    assert!(copies < 0.15 && passes > 0.5 && limit != trainyard_plan::Bottleneck::Offload, "{copies} {passes} {limit}");
    let gpu = machine.cluster.pools[0].device.gpu_mut().expect("it is one");
    gpu.host_bandwidth.value.0 /= 4.0;
    let (copies, passes, limit) = shares(&machine);
    assert!(copies > 0.5 && passes < 0.4 && limit == trainyard_plan::Bottleneck::Offload, "{copies} {passes} {limit}");
}

#[test]
fn groups_that_stand_on_several_machines_are_known() {
    let machine = machine("p3.16xlarge", 2, "pytorch");
    let of = |data, tensor, pipeline, schedule| {
        spread(&plan(degrees(data, tensor, pipeline), schedule, 4, |_| ()), &machine)
    };
    let none = Spread { tensor: false, context: false, expert: false, pipeline: false, gradient: false };
    assert_eq!(of(8, 1, 1, ScheduleName::None), none);
    assert_eq!(of(16, 1, 1, ScheduleName::None), Spread { gradient: true, ..none });
    assert_eq!(of(1, 16, 1, ScheduleName::None), Spread { tensor: true, ..none });
    assert_eq!(of(4, 2, 2, ScheduleName::GPipe), Spread { pipeline: true, ..none });
}
