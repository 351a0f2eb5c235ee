use super::proto::{Attribute, Metadata, Node, Value};
use super::*;
use prost::Message;
use trainyard_plan::{
    Activity, BatchSpec, Between, ClusterSpec, Collective, Direction, GraphWork, Group, Message as Sent, ParallelSpec,
    Plan, PlanSpec, Rank, RankTrace, Seat, StageId, StepTrace, StreamKind, TraceDetail, TracedKernels, TracedPart,
    TracedTask, TracedWork,
};
use trainyard_units::{Bytes, Instant, Seconds};

fn file(nodes: &[Node]) -> Vec<u8> {
    let mut bytes = Metadata { version: "0.0.4".into(), attr: Vec::new() }.encode_length_delimited_to_vec();
    for node in nodes {
        node.encode_length_delimited(&mut bytes).expect("room");
    }
    bytes
}

fn node(id: u64, kind: i32, data: &[u64], attributes: &[(&str, i64)]) -> Node {
    let attr = attributes.iter().map(|(name, value)| Attribute::new(name, Value::Int64(*value))).collect();
    Node { id, name: format!("n{id}"), kind, data: data.to_vec(), attr, ..Node::default() }
}

/// Two replicas, of which the first stands for the second: it computes and sums.
fn step() -> (StepTrace, Plan) {
    let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
    let layers = model.graph().len();
    let spec = PlanSpec {
        parallel: ParallelSpec { data: 2, ..ParallelSpec::default() },
        batch: BatchSpec { global: 2, micro: 1, accumulation: 1 },
        ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 1), layers)
    };
    let plan = Plan::try_from(spec).expect("a valid plan");
    let stage = StageId(0);
    let kernels = |operator: &'static str| {
        let direction = Direction::Forward;
        TracedWork::Kernels(TracedKernels { operator: operator.into(), layer: None, direction, flops: 8.0, bytes: 4.0 })
    };
    let sum = Sent {
        kind: Collective::AllReduce,
        between: Between::Group(Group::Gradient),
        bytes: Some(Bytes(1000)),
        element: 4,
    };
    let task = |activity, stream, start, end, work, after| TracedTask {
        activity,
        stream,
        receives: false,
        start: Instant::from_nanoseconds(start),
        end: Instant::from_nanoseconds(end),
        work,
        meeting: None,
        after,
    };
    let forward = Activity::Forward { stage, micro_batch: 0 };
    let reduce = Activity::ReduceGradients { stage, bucket: 0 };
    let tasks = vec![
        task(forward, StreamKind::Compute(stage), 0, 2500, 0, Vec::new()),
        task(reduce, StreamKind::Reduce(stage), 2500, 4000, 1, vec![0]),
    ];
    let part = |what, share| TracedPart { what, share };
    let trace = StepTrace {
        step_time: Seconds(4e-6),
        window: None,
        launch: Seconds::ZERO,
        detail: TraceDetail::Operators,
        works: vec![
            vec![part(kernels("linear"), 0.75), part(kernels("attention"), 0.25)],
            vec![part(TracedWork::Message(sum), 1.0)],
        ],
        ranks: vec![RankTrace {
            rank: Rank(0),
            stage,
            stands_for: vec![Rank(0), Rank(1)],
            seat: Seat::default(),
            tasks,
        }],
    };
    (trace, plan)
}

#[test]
fn what_is_written_is_read_again() {
    let (trace, plan) = step();
    let written = write(&trace, &plan).expect("few nodes");
    let names: Vec<&str> = written.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names, written.nodes), (vec!["step.0.et", "step.1.et", "groups.json"], 6));
    let known = groups(std::str::from_utf8(&written.files[2].1).expect("text")).expect("groups");
    assert_eq!(known["1"], [0, 1]);
    let graph = read(written.files[1].1.as_slice()).expect("a trace");
    let compute = |nanoseconds: f64| GraphWork::Compute {
        time: Some(Seconds(nanoseconds * 1e-9)),
        flops: 8.0,
        bytes: 4.0,
        on_host: false,
    };
    assert_eq!((&graph.nodes[0].work, &graph.nodes[1].work), (&compute(1875.0), &compute(625.0)));
    let sum = GraphWork::Collective { kind: Collective::AllReduce, bytes: Bytes(1000), group: Some("1".into()) };
    assert_eq!(graph.nodes[2].work, sum);
    assert_eq!((&graph.nodes[1].after, &graph.nodes[2].after), (&vec![0], &vec![1]));
}

#[test]
fn nodes_are_put_into_an_order_in_which_they_could_run() {
    let nodes = [node(7, proto::COMPUTE, &[9], &[]), node(9, proto::COMPUTE, &[], &[]), node(8, 1, &[7, 9, 9], &[])];
    let graph = read(file(&nodes).as_slice()).expect("a trace");
    let ids: Vec<u64> = graph.nodes.iter().map(|node| node.id).collect();
    assert_eq!(ids, [9, 7, 8]);
    assert_eq!(graph.nodes[2].after, [0, 1]);
}

#[test]
fn whatever_is_wrong_with_a_node_is_said() {
    for (nodes, part) in [
        (vec![node(1, 4, &[2], &[])], "waits for node 2, which there is not"),
        (vec![node(1, 4, &[2], &[]), node(2, 4, &[1], &[])], "waits for itself"),
        (vec![node(1, 4, &[], &[]), node(1, 4, &[], &[])], "the same number"),
        (vec![node(1, 7, &[], &[])], "needs the attribute `comm_type`"),
        (vec![node(1, 7, &[], &[("comm_type", 99), ("comm_size", 1)])], "type 99 are not known"),
        (vec![node(1, 7, &[], &[("comm_type", 0), ("comm_size", -1)])], "`comm_size` is -1"),
        (vec![node(1, 5, &[], &[("comm_dst", -4), ("comm_size", 1)])], "`comm_dst` is -4"),
        (vec![node(1, 9, &[], &[])], "nodes of type 9"),
        (vec![node(1, 4, &[], &[("runtime_ns", i64::MAX)])], "more than a day"),
        (Vec::new(), "there are no nodes"),
    ] {
        let said = read(file(&nodes).as_slice()).expect_err("refused").to_string();
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
}

#[test]
fn a_file_that_is_cut_short_or_hostile_is_refused() {
    let (trace, plan) = step();
    let whole = write(&trace, &plan).expect("few nodes").files.swap_remove(0).1;
    let nodes = |bytes: &[u8]| read(bytes).map_or(0, |graph| graph.nodes.len());
    for length in 0..whole.len() {
        assert!(nodes(&whole[..length]) < 3, "cut at {length}");
    }
    for place in 0..whole.len() {
        let mut changed = whole.clone();
        changed[place] ^= 0xff;
        // It may still be a trace; it must not be a panic.
        let _ = read(changed.as_slice());
    }
    assert!(
        read([0xff; 64].as_slice()).is_err() && read(b"no trace".as_slice()).is_err() && read([].as_slice()).is_err()
    );
    assert!(groups("[1]").is_err() && groups("{\"1\": [-1]}").is_err());
}
