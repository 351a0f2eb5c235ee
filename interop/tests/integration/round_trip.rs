//! A simulated step as execution traces, and these simulated again.

use trainyard_hardware_profiles::catalog;
use trainyard_interop::chakra;
use trainyard_plan::{
    BatchSpec, ClusterSpec, ParallelSpec, Plan, PlanSpec, Precision, RankGraph, ScheduleName, Stages,
};
use trainyard_sim::{Machine, Options, replay, simulate, step_trace};

/// How far a step that was written and read may be from the one that was simulated: a transfer's second half, the
/// copies around collectives and what kernels beside them cost are parts of times or are left out.
const TOLERANCE: f64 = 0.05;

fn machine(instances: u32) -> Machine {
    let cluster = catalog().cluster("p4d.24xlarge", instances).expect("in the catalog");
    Machine { cluster, stack: catalog().stack("pytorch").expect("in the catalog").clone() }
}

fn plan(parallel: ParallelSpec) -> Plan {
    let model = &trainyard_models::find("gpt2-medium").expect("in the catalog").model;
    let layers = model.graph().len();
    let stages = Stages::balanced(&vec![1.0; layers], parallel.pipeline).expect("enough layers").specs();
    let schedule = if parallel.pipeline > 1 { ScheduleName::OneForwardOneBackward } else { ScheduleName::None };
    let spec = PlanSpec {
        parallel,
        batch: BatchSpec { global: 16 * u64::from(parallel.data), micro: 2, accumulation: 8 },
        schedule,
        stages,
        precision: Precision::Bf16Mixed,
        ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 2), layers)
    };
    Plan::try_from(spec).expect("a valid plan")
}

#[test]
fn what_is_written_takes_as_long_as_what_was_simulated() {
    let machine = machine(2);
    for (data, tensor, pipeline) in [(16, 1, 1), (8, 2, 1), (4, 1, 4), (2, 2, 4), (1, 1, 1)] {
        let plan = plan(ParallelSpec { data, tensor, pipeline, ..ParallelSpec::default() });
        let trace = step_trace(&plan, &machine, Options::default()).expect("it goes onto the machine");
        let written = chakra::write(&trace, &plan).expect("few nodes");
        let (groups, ranks) = written.files.split_last().expect("the groups come last");
        let groups = chakra::groups(std::str::from_utf8(&groups.1).expect("text")).expect("groups");
        let mut graphs = vec![RankGraph::default(); ranks.len()];
        for (name, content) in ranks {
            let rank: usize = name.split('.').nth(1).and_then(|rank| rank.parse().ok()).expect("a rank");
            graphs[rank] = chakra::read(content.as_slice()).expect("a trace");
        }
        let again = replay(&graphs, &groups, &machine).expect("it fits");
        let step = simulate(&plan, &machine).expect("it goes onto the machine").step_time;
        let error = again.step_time.0 / step.0 - 1.0;
        assert!(error.abs() < TOLERANCE, "data {data} tensor {tensor} pipeline {pipeline}: {error:+.4}");
        assert_eq!(again.estimated, 0);
    }
}
