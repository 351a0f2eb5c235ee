//! Steps in detail: the same step as a timeline, part by part.

use trainyard_hardware_profiles::catalog;
use trainyard_plan::{
    BatchSpec, ClusterSpec, ParallelSpec, Plan, PlanSpec, Precision, Recompute, ScheduleName, Stages, TraceDetail,
    TracedWork,
};
use trainyard_sim::{Machine, Options, rank_timelines, simulate, step_trace};

fn machine() -> Machine {
    let cluster = catalog().cluster("p4d.24xlarge", 2).expect("in the catalog");
    Machine { cluster, stack: catalog().stack("megatron").expect("in the catalog").clone() }
}

fn plan(parallel: ParallelSpec, schedule: ScheduleName, recompute: Recompute) -> Plan {
    let model = &trainyard_models::find("gpt2-medium").expect("in the catalog").model;
    let layers = model.graph().len();
    let stages = Stages::balanced(&vec![1.0; layers], parallel.pipeline).expect("enough layers").specs();
    let spec = PlanSpec {
        parallel,
        batch: BatchSpec { global: 4 * u64::from(parallel.data), micro: 1, accumulation: 4 },
        schedule,
        stages,
        precision: Precision::Bf16Mixed,
        recompute,
        ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 2), layers)
    };
    Plan::try_from(spec).expect("a valid plan")
}

#[test]
fn a_step_in_detail_is_the_step() {
    let machine = machine();
    for (schedule, recompute) in [
        (ScheduleName::OneForwardOneBackward, Recompute::None),
        (ScheduleName::OneForwardOneBackward, Recompute::Full),
        (ScheduleName::ZeroBubbleH1, Recompute::Selective),
    ] {
        let plan =
            plan(ParallelSpec { data: 2, tensor: 2, pipeline: 4, ..ParallelSpec::default() }, schedule, recompute);
        let trace = step_trace(&plan, &machine, Options::default()).expect("it goes onto the machine");
        let outcome = simulate(&plan, &machine).expect("it goes onto the machine");
        assert_eq!(trace.step_time, outcome.step_time);
        assert_eq!(trace.detail, TraceDetail::Operators);
        let timelines = rank_timelines(&plan, &machine, Options::default()).expect("as before");
        let mut all: Vec<_> = trace.ranks.iter().flat_map(|rank| rank.stands_for.clone()).collect();
        all.sort_unstable();
        assert_eq!(all.len(), 16, "every rank is shown once, by itself or by another");
        for rank in &trace.ranks {
            let mut own: Vec<_> = rank.tasks.iter().filter(|task| task.stream.stage() == rank.stage).collect();
            own.sort_by_key(|task| task.stream);
            let timeline = &timelines[rank.rank.0 as usize];
            assert_eq!(own.len(), timeline.intervals.len());
            for (task, interval) in own.iter().zip(&timeline.intervals) {
                assert_eq!((task.activity, task.start, task.end), (interval.activity, interval.start, interval.end));
            }
            for task in &rank.tasks {
                let shares: f64 = trace.parts(task).iter().map(|part| part.share).sum();
                assert!((shares - 1.0).abs() < 1e-9, "{:?}: {shares}", task.activity);
                assert!(task.after.iter().all(|before| rank.tasks[*before as usize].end <= task.start));
            }
        }
    }
}

#[test]
fn the_kernels_of_a_trace_do_the_arithmetic_of_the_model() {
    let machine = machine();
    let plan = plan(ParallelSpec { data: 2, ..ParallelSpec::default() }, ScheduleName::None, Recompute::None);
    let trace = step_trace(&plan, &machine, Options::default()).expect("it goes onto the machine");
    let flops: f64 = trace.ranks[0]
        .tasks
        .iter()
        .flat_map(|task| trace.parts(task))
        .map(|part| match &part.what {
            TracedWork::Kernels(kernels) => kernels.flops,
            _ => 0.0,
        })
        .sum();
    let expected = plan.graph().training_flops().0 * 4.0;
    assert!((flops / expected - 1.0).abs() < 1e-9, "{flops} {expected}");
}
