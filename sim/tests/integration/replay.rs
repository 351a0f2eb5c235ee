//! A simulated step as execution traces, and these simulated again.

use std::collections::BTreeMap;
use trainyard_hardware_profiles::catalog;
use trainyard_plan::chakra::{self, GraphNode, GraphWork, RankGraph};
use trainyard_plan::{
    BatchSpec, ClusterSpec, Collective, ParallelSpec, Plan, PlanSpec, Precision, ScheduleName, Stages,
};
use trainyard_sim::{Machine, Options, ReplayError, replay, simulate, step_trace};
use trainyard_units::{Bytes, Seconds};

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
            graphs[rank] = chakra::read(content).expect("a trace");
        }
        let again = replay(&graphs, &groups, &machine).expect("it fits");
        let step = simulate(&plan, &machine).expect("it goes onto the machine").step_time;
        let error = again.step_time.0 / step.0 - 1.0;
        assert!(error.abs() < TOLERANCE, "data {data} tensor {tensor} pipeline {pipeline}: {error:+.4}");
        assert_eq!(again.estimated, 0);
    }
}

fn node(id: u64, work: GraphWork, after: Vec<u32>) -> GraphNode {
    GraphNode { id, name: format!("n{id}"), work, after }
}

fn graph(nodes: Vec<GraphNode>) -> RankGraph {
    RankGraph { nodes }
}

fn compute(milliseconds: f64) -> GraphWork {
    GraphWork::Compute { time: Some(Seconds(milliseconds * 1e-3)), flops: 0.0, bytes: 0.0, on_host: false }
}

fn sum(bytes: u64, group: Option<&str>) -> GraphWork {
    GraphWork::Collective { kind: Collective::AllReduce, bytes: Bytes(bytes), group: group.map(Into::into) }
}

#[test]
fn ranks_wait_for_the_last_of_a_group() {
    let early =
        graph(vec![node(1, compute(1.0), vec![]), node(2, sum(4, None), vec![0]), node(3, compute(1.0), vec![1])]);
    let late =
        graph(vec![node(1, compute(5.0), vec![]), node(2, sum(4, None), vec![0]), node(3, compute(1.0), vec![1])]);
    let found = replay(&[early, late], &BTreeMap::new(), &machine(1)).expect("it fits");
    assert!((6e-3..6.2e-3).contains(&found.step_time.0), "{found:?}");
    assert!(found.exposed_communication.0 < 0.2e-3 && found.messages == 1, "{found:?}");
}

#[test]
fn what_was_not_measured_is_as_fast_as_the_device() {
    let work = GraphWork::Compute { time: None, flops: 312e12, bytes: 1.0, on_host: false };
    let found = replay(&[graph(vec![node(1, work, vec![])])], &BTreeMap::new(), &machine(1)).expect("it fits");
    assert!((1.0..2.0).contains(&found.step_time.0) && found.estimated == 1, "{found:?}");
}

#[test]
fn ranks_that_do_not_meet_are_told() {
    let groups: BTreeMap<String, Vec<u32>> = [("1".into(), vec![0, 1])].into();
    let send = GraphWork::Send { peer: 1, bytes: Bytes(8), tag: 0 };
    let receive = GraphWork::Receive { peer: 0, bytes: Bytes(8), tag: 0 };
    let one = |work: GraphWork| graph(vec![node(1, work, vec![])]);
    let two = |a: GraphWork, b: GraphWork| graph(vec![node(1, a, vec![]), node(2, b, vec![0])]);
    for (ranks, part) in [
        (vec![one(sum(4, Some("1"))), one(compute(1.0))], "1 of 2 ranks do it"),
        (vec![one(sum(4, Some("2"))), one(sum(4, Some("2")))], "no group is called `2`"),
        (vec![one(send.clone()), one(compute(1.0))], "1 of 2 ranks"),
        (vec![one(send.clone())], "there is no rank 1"),
        (vec![one(receive.clone())], "it sends to itself"),
        (vec![one(compute(1e12))], "more than three years"),
        (
            vec![two(sum(4, None), send.clone()), two(receive.clone(), sum(4, None))],
            "ranks wait for each other: 2 nodes never start",
        ),
        (vec![one(compute(1.0)); 9], "9 ranks for 8 devices"),
    ] {
        let error: ReplayError = replay(&ranks, &groups, &machine(1)).expect_err("refused");
        assert!(error.to_string().contains(part), "`{part}` is not in: {error}");
    }
}
