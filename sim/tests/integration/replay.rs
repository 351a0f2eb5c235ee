//! Execution graphs, put in time on machines of the catalog; `interop/tests/integration/round_trip.rs` does so with
//! those of a simulated step.

use std::collections::BTreeMap;
use trainyard_hardware_profiles::catalog;
use trainyard_plan::{Collective, GraphNode, GraphWork, RankGraph};
use trainyard_sim::{Machine, replay};
use trainyard_units::{Bytes, Seconds};

fn machine(instances: u32) -> Machine {
    let cluster = catalog().cluster("p4d.24xlarge", instances).expect("in the catalog");
    Machine { cluster, stack: catalog().stack("pytorch").expect("in the catalog").clone() }
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
        (vec![one(compute(1.0)); 9], "`ranks` is 9, but the machines have 8 devices"),
    ] {
        let error = replay(&ranks, &groups, &machine(1)).expect_err("refused");
        assert!(error.to_string().contains(part), "`{part}` is not in: {error}");
    }
}
