//! Timelines as Chrome trace JSON, which Perfetto and chrome://tracing open.
//!
//! # Source
//!
//! "Trace Event Format", Google, 2016: complete events (`X`) and metadata (`M`); times in microseconds.

use serde_json::{Value, json};
use trainyard_plan::{Activity, StreamKind, Timeline};

/// A timeline with the name under which it appears.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    /// `predicted`, `measured`.
    pub name: &'a str,
    /// What happened.
    pub timeline: &'a Timeline,
}

/// Timelines one above the other, each a process with a thread for every stream.
pub fn trace(processes: &[Process<'_>]) -> Value {
    let events: Vec<Value> =
        processes.iter().enumerate().flat_map(|(index, process)| events(index, *process)).collect();
    json!({
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "traceName": "trainyard",
        "traceEvents": events,
    })
}

fn events(pid: usize, process: Process<'_>) -> Vec<Value> {
    let mut streams: Vec<StreamKind> = process.timeline.intervals.iter().map(|interval| interval.stream).collect();
    streams.sort_by_key(|stream| order(*stream));
    streams.dedup();
    let metadata =
        |name: &str, tid: usize, args: Value| json!({ "ph": "M", "name": name, "pid": pid, "tid": tid, "args": args });
    let mut events = vec![
        metadata("process_name", 0, json!({ "name": process.name })),
        metadata("process_sort_index", 0, json!({ "sort_index": pid })),
    ];
    for (tid, stream) in streams.iter().enumerate() {
        events.push(metadata("thread_name", tid, json!({ "name": stream_name(*stream) })));
        events.push(metadata("thread_sort_index", tid, json!({ "sort_index": tid })));
    }
    let mut intervals: Vec<_> = process.timeline.intervals.iter().collect();
    intervals.sort_by_key(|interval| (interval.start, interval.end));
    events.extend(intervals.into_iter().map(|interval| {
        let tid = streams.iter().position(|stream| *stream == interval.stream).unwrap_or_default();
        let category = match interval.activity {
            Activity::Wait { .. } => "wait",
            activity if activity.is_communication() => "communication",
            _ => "kernel",
        };
        json!({
            "ph": "X",
            "name": interval.activity.to_string(),
            "cat": category,
            "pid": pid,
            "tid": tid,
            "ts": microseconds(interval.start.nanoseconds()),
            "dur": microseconds(interval.end.since(interval.start).nanoseconds()),
        })
    }));
    events
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// Stage by stage, compute first.
fn order(stream: StreamKind) -> (u32, u32) {
    match stream {
        StreamKind::Compute(stage) => (stage.0, 0),
        StreamKind::SendForward(stage) => (stage.0, 1),
        StreamKind::SendBackward(stage) => (stage.0, 2),
        StreamKind::Reduce(stage) => (stage.0, 3),
        StreamKind::Gather(stage) => (stage.0, 4),
        StreamKind::CopyOut(stage) => (stage.0, 5),
        StreamKind::CopyIn(stage) => (stage.0, 6),
        StreamKind::Wait(stage) => (stage.0, 7),
    }
}

fn stream_name(stream: StreamKind) -> String {
    match stream {
        StreamKind::Compute(stage) => format!("stage {} compute", stage.0),
        StreamKind::SendForward(stage) => format!("stage {} sends activations", stage.0),
        StreamKind::SendBackward(stage) => format!("stage {} sends gradients", stage.0),
        StreamKind::Reduce(stage) => format!("stage {} all-reduce", stage.0),
        StreamKind::Gather(stage) => format!("stage {} gathers weights", stage.0),
        StreamKind::CopyOut(stage) => format!("stage {} copies to its machines", stage.0),
        StreamKind::CopyIn(stage) => format!("stage {} copies from its machines", stage.0),
        StreamKind::Wait(stage) => format!("stage {} waits", stage.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_plan::{Interval, StageId};
    use trainyard_units::Instant;

    #[test]
    fn a_trace_holds_every_interval_in_order_of_time() {
        let at = Instant::from_nanoseconds;
        let forward = |micro_batch, start, end| Interval {
            activity: Activity::Forward { stage: StageId(0), micro_batch },
            stream: StreamKind::Compute(StageId(0)),
            start: at(start),
            end: at(end),
        };
        let timeline = Timeline { intervals: vec![forward(1, 2500, 4000), forward(0, 0, 2500)], window: None };
        let value = trace(&[Process { name: "predicted", timeline: &timeline }]);
        let events = value["traceEvents"].as_array().expect("a list of events");
        let spans: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!(spans.len(), 2);
        assert_eq!((&spans[0]["name"], &spans[0]["ts"]), (&json!("forward 0"), &json!(0.0)));
        assert_eq!((&spans[1]["ts"], &spans[1]["dur"]), (&json!(2.5), &json!(1.5)));
        assert!(spans.iter().all(|span| span["cat"] == "kernel"));
        let waiting = Interval {
            activity: Activity::Wait { stage: StageId(0), micro_batch: Some(1) },
            stream: StreamKind::Wait(StageId(0)),
            start: at(0),
            end: at(500),
        };
        let measured = Timeline { intervals: vec![waiting], window: None };
        let both = trace(&[
            Process { name: "predicted", timeline: &timeline },
            Process { name: "measured, rank 0", timeline: &measured },
        ]);
        let wait = both["traceEvents"].as_array().expect("events").iter().find(|event| event["cat"] == "wait");
        let wait = wait.expect("it waited");
        assert_eq!((&wait["pid"], &wait["name"]), (&json!(1), &json!("wait for micro-batch 1")));
        let names: Vec<&Value> = events.iter().filter(|event| event["name"] == "thread_name").collect();
        assert_eq!(names[0]["args"]["name"], "stage 0 compute");
    }
}
