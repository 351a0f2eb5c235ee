use super::*;
use trainyard_plan::{
    Activity, BatchSpec, ClusterSpec, Collective, CopyDirection, Direction, Group, Interval, Message, ParallelSpec,
    PlanSpec, Rank, Seat, StageId, StreamKind, Timeline, TraceDetail, TracedKernels, TracedPart, TracedTask,
    TracedWork,
};
use trainyard_units::{Bytes, Instant, Seconds};

fn events(text: &str) -> (Value, Vec<Value>) {
    let value: Value = serde_json::from_str(text).expect("JSON");
    let events = value["traceEvents"].as_array().expect("a list of events").clone();
    (value, events)
}

fn of<'a>(events: &'a [Value], category: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["ph"] == "X" && event["cat"] == category).collect()
}

fn interval(activity: Activity, stream: StreamKind, start: u64, end: u64) -> Interval {
    let at = Instant::from_nanoseconds;
    Interval { activity, stream, start: at(start), end: at(end) }
}

/// Returns a plan of two stages, each shared by two ranks.
fn plan() -> Plan {
    let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
    let layers = model.graph().len();
    let parallel = ParallelSpec { data: 4, pipeline: 1, tensor: 2, ..ParallelSpec::default() };
    let spec = PlanSpec {
        parallel,
        batch: BatchSpec { global: 4, micro: 1, accumulation: 1 },
        precision: Precision::Bf16Mixed,
        ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 1), layers)
    };
    Plan::try_from(spec).expect("a valid plan")
}

/// Returns a rank that computes, sums inside a layer, copies and sums gradients.
fn step() -> StepTrace {
    let stage = StageId(0);
    let kernels = TracedKernels {
        operator: "linear".into(),
        layer: Some((3, "block".into())),
        direction: Direction::Forward,
        flops: 1e9,
        bytes: 1e6,
    };
    let message = |group, bytes| {
        TracedWork::Message(Message {
            kind: Collective::AllReduce,
            between: Between::Group(group),
            bytes: Some(Bytes(bytes)),
            element: 2,
        })
    };
    let parts = |parts: Vec<(TracedWork, f64)>| -> Vec<TracedPart> {
        parts.into_iter().map(|(what, share)| TracedPart { what, share }).collect()
    };
    let works = vec![
        parts(vec![(TracedWork::Kernels(kernels), 0.75), (message(Group::Tensor, 4096), 0.25)]),
        parts(vec![(message(Group::Gradient, 1 << 20), 1.0)]),
        parts(vec![(TracedWork::Copy { way: CopyDirection::DeviceToHost, bytes: Bytes(1 << 20) }, 1.0)]),
    ];
    let at = Instant::from_nanoseconds;
    let task = |work, activity, stream, start, end| TracedTask {
        activity,
        stream,
        receives: false,
        start: at(start),
        end: at(end),
        work,
        meeting: None,
        after: Vec::new(),
    };
    let tasks = vec![
        task(0, Activity::Forward { stage, micro_batch: 0 }, StreamKind::Compute(stage), 0, 40_000),
        task(0, Activity::Forward { stage, micro_batch: 1 }, StreamKind::Compute(stage), 40_000, 80_000),
        task(2, Activity::Copy { stage, way: CopyDirection::DeviceToHost }, StreamKind::CopyOut(stage), 50_000, 60_000),
        task(1, Activity::ReduceGradients { stage, bucket: 0 }, StreamKind::Reduce(stage), 80_000, 100_000),
    ];
    let seat = Seat { device: "NVIDIA A100-SXM4-40GB".into(), memory: Bytes(40 << 30), instance: 0, slot: 1 };
    let stands_for = vec![Rank(1), Rank(3), Rank(5), Rank(7)];
    StepTrace {
        step_time: Seconds(100e-6),
        window: None,
        launch: Seconds(10e-6),
        detail: TraceDetail::Operators,
        works,
        ranks: vec![RankTrace { rank: Rank(1), stage, stands_for, seat, tasks }],
    }
}

#[test]
fn a_rank_is_written_as_the_profiler_writes_it() {
    let trace = step();
    let text = rank_trace(&trace, &plan(), &trace.ranks[0]);
    // Holistic Trace Analysis finds the rank by lines, with a space behind the colon.
    assert!(text.lines().take(8).any(|line| line.trim() == "\"rank\": 1,"), "{text}");
    let (whole, events) = events(&text);
    assert_eq!(whole["schemaVersion"], 1);
    assert_eq!(whole["distributedInfo"]["world_size"], 8);
    assert_eq!(whole["distributedInfo"]["backend"], "nccl");
    assert_eq!(whole["deviceProperties"][0]["name"], "NVIDIA A100-SXM4-40GB");
    assert_eq!(whole["trainyard"]["stands_for"]["1"], json!([1, 3, 5, 7]));
    let kernels = of(&events, "kernel");
    let named = |name: &str| -> Vec<&Value> {
        kernels.iter().copied().filter(|kernel| kernel["name"].as_str().is_some_and(|n| n.starts_with(name))).collect()
    };
    let linear = named("linear forward")[0];
    assert_eq!((&linear["ts"], &linear["dur"], &linear["tid"]), (&json!(0.0), &json!(30.0), &json!(7)));
    assert_eq!((&linear["args"]["stream"], &linear["args"]["layer"]), (&json!(7), &json!("3 block")));
    let sums = named("ncclDevKernel_AllReduce_Sum_bf16");
    assert_eq!(sums.len(), 3);
    let inside = &sums[0]["args"];
    assert_eq!((&inside["Collective name"], &inside["In msg nelems"]), (&json!("allreduce"), &json!(2048)));
    assert_eq!((&inside["Group size"], &inside["dtype"]), (&json!(2), &json!("BFloat16")));
    assert_eq!((&inside["Process Group Name"], &inside["Process Group Ranks"]), (&json!("tensor"), &json!("[0, 1]")));
    assert_eq!(sums[2]["args"]["Group size"], 4);
    let copy = of(&events, "gpu_memcpy")[0];
    assert_eq!((&copy["name"], &copy["args"]["bytes"]), (&json!("Memcpy DtoH (Device -> Pinned)"), &json!(1 << 20)));
}

#[test]
fn everything_on_a_stream_was_launched_before_and_rows_do_not_overlap() {
    let trace = step();
    let (_, events) = events(&rank_trace(&trace, &plan(), &trace.ranks[0]));
    let launches = of(&events, "cuda_runtime");
    let device: Vec<&Value> = [of(&events, "kernel"), of(&events, "gpu_memcpy")].concat();
    for work in &device {
        let launch = launches.iter().find(|launch| launch["args"]["correlation"] == work["args"]["correlation"]);
        let launch = launch.expect("it was launched");
        assert!(launch["ts"].as_f64() <= work["ts"].as_f64(), "{launch} {work}");
        assert_eq!(launch["args"]["External id"], work["args"]["External id"]);
    }
    assert_eq!(launches.len(), device.len() + 1, "and in the end the host waits");
    let mut rows: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    for event in device.iter().copied().chain(launches) {
        let number = |field: &str| event[field].as_u64().expect("a number");
        let (start, length) = (event["ts"].as_f64().expect("a time"), event["dur"].as_f64().expect("a time"));
        rows.entry((number("pid"), number("tid"))).or_default().push((start, start + length));
    }
    for spans in rows.values_mut() {
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 1e-9), "{spans:?}");
    }
    let steps = of(&events, "user_annotation");
    assert_eq!((&steps[0]["name"], &steps[0]["dur"]), (&json!("ProfilerStep#0"), &json!(100.0)));
    let arrows = |ph: &str| events.iter().filter(|event| event["cat"] == "ac2g" && event["ph"] == ph).count();
    assert_eq!((arrows("s"), arrows("f")), (device.len(), device.len()));
}

#[test]
fn a_rank_that_stands_for_others_says_so() {
    let trace = step();
    let (_, events) = events(&step_trace(&trace, &plan()));
    let labels = events.iter().find(|event| event["name"] == "process_labels").expect("labels");
    assert_eq!(labels["args"]["labels"], "GPU 1, instance 0, stage 0, stands for 3 more: 3 5 7");
    let names: Vec<&Value> = events.iter().filter(|event| event["name"] == "process_name").collect();
    assert_eq!((&names[0]["args"]["name"], &names[1]["args"]["name"]), (&json!("rank 1"), &json!("rank 1 host")));
}

#[test]
fn a_timeline_has_the_same_form() {
    let stage = StageId(0);
    let forward = |micro_batch, start, end| {
        interval(Activity::Forward { stage, micro_batch }, StreamKind::Compute(stage), start, end)
    };
    let predicted = Timeline { intervals: vec![forward(1, 2500, 4000), forward(0, 0, 2500)], window: None };
    let wait = Activity::Wait { stage, micro_batch: Some(1) };
    let reduce = Activity::ReduceGradients { stage, bucket: 0 };
    let intervals =
        vec![interval(wait, StreamKind::Wait(stage), 0, 500), interval(reduce, StreamKind::Reduce(stage), 500, 900)];
    let measured = Timeline { intervals, window: None };
    let text = trace(&[
        Process { name: "predicted", timeline: &predicted },
        Process { name: "measured, rank 0", timeline: &measured },
    ]);
    let (_, events) = events(&text);
    let kernels = of(&events, "kernel");
    assert_eq!((&kernels[0]["name"], &kernels[0]["ts"]), (&json!("forward"), &json!(0.0)));
    assert_eq!((&kernels[1]["ts"], &kernels[1]["dur"]), (&json!(2.5), &json!(1.5)));
    assert_eq!(kernels[1]["args"]["micro_batch"], 1);
    assert!(kernels[2]["name"].as_str().is_some_and(|name| name.starts_with("ncclDevKernel_AllReduce")));
    let waits = of(&events, "user_annotation");
    assert_eq!((&waits[0]["pid"], &waits[0]["name"]), (&json!(1), &json!("wait for micro-batch 1")));
    assert!(of(&events, "cuda_runtime").is_empty(), "nothing is known of launches");
}
