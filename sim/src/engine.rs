//! The engine: priced tasks put in time.

use crate::des::EventQueue;
use trainyard_plan::{Interval, TaskGraph, TaskId, Timeline};
use trainyard_units::{Instant, Span};

/// When each task of `graph` runs if it takes as long as `durations` says.
///
/// Tasks of a stream run in order; a task starts when its stream is free and all it waits for has ended. At each
/// instant all completions are applied before anything starts, so that the result depends on the graph alone and
/// not on the order in which equal events were made.
///
/// # Panics
///
/// When `durations` has not one entry per task.
pub fn run(graph: &TaskGraph, durations: &[Span]) -> Timeline {
    assert_eq!(durations.len(), graph.tasks().len(), "every task has a duration");
    let mut waiting = Waiting::new(graph);
    let mut ends = vec![Instant::START; durations.len()];
    let mut starts = ends.clone();
    let mut queue = EventQueue::with_capacity(graph.streams().len() + 1);
    let mut ready = waiting.ready_at_start();
    let mut now = Instant::START;
    let mut finished = Vec::new();
    loop {
        ready.sort_unstable();
        for task in ready.drain(..) {
            starts[task as usize] = now;
            ends[task as usize] = now.after_span(durations[task as usize]);
            queue.schedule(ends[task as usize], task);
        }
        let Some(next) = queue.next_instant(&mut finished) else { break };
        now = next;
        for task in finished.drain(..) {
            waiting.complete(task, &mut ready);
        }
    }
    let intervals = graph
        .tasks()
        .iter()
        .zip(starts.into_iter().zip(ends))
        .map(|(task, (start, end))| Interval {
            activity: task.activity,
            stream: graph.streams()[task.stream.0 as usize],
            start,
            end,
        })
        .collect();
    Timeline { intervals }
}

/// For each task, how many others it still waits for and who waits for it, in compressed rows.
struct Waiting {
    missing: Vec<u32>,
    successors: Vec<u32>,
    offsets: Vec<u32>,
}

impl Waiting {
    fn new(graph: &TaskGraph) -> Self {
        let count = graph.tasks().len();
        let mut edges: Vec<(u32, u32)> = Vec::with_capacity(2 * count);
        let mut previous: Vec<Option<u32>> = vec![None; graph.streams().len()];
        for (id, task) in (0..count as u32).zip(graph.tasks()) {
            if let Some(before) = previous[task.stream.0 as usize].replace(id) {
                edges.push((before, id));
            }
            edges.extend(graph.dependencies(TaskId(id)).iter().map(|before| (before.0, id)));
        }
        let mut missing = vec![0; count];
        let mut offsets = vec![0; count + 1];
        for (before, after) in &edges {
            missing[*after as usize] += 1;
            offsets[*before as usize + 1] += 1;
        }
        for index in 0..count {
            offsets[index + 1] += offsets[index];
        }
        let mut fill = offsets.clone();
        let mut successors = vec![0; edges.len()];
        for (before, after) in edges {
            let slot = &mut fill[before as usize];
            successors[*slot as usize] = after;
            *slot += 1;
        }
        Self { missing, successors, offsets }
    }

    fn ready_at_start(&self) -> Vec<u32> {
        (0..self.missing.len() as u32).filter(|task| self.missing[*task as usize] == 0).collect()
    }

    fn complete(&mut self, task: u32, ready: &mut Vec<u32>) {
        let range = self.offsets[task as usize] as usize..self.offsets[task as usize + 1] as usize;
        for successor in &self.successors[range] {
            let missing = &mut self.missing[*successor as usize];
            *missing -= 1;
            if *missing == 0 {
                ready.push(*successor);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trainyard_plan::{Activity, Held, StageId, StreamKind, Work};

    /// The oracle: ids are a topological order, so one pass finds every end.
    fn longest_path(graph: &TaskGraph, durations: &[Span]) -> Vec<Instant> {
        let mut free = vec![Instant::START; graph.streams().len()];
        let mut ends: Vec<Instant> = Vec::new();
        for (id, task) in graph.tasks().iter().enumerate() {
            let waits = graph.dependencies(TaskId(id as u32)).iter().map(|before| ends[before.0 as usize]);
            let start = waits.max().unwrap_or_default().max(free[task.stream.0 as usize]);
            let end = start.after_span(durations[id]);
            free[task.stream.0 as usize] = end;
            ends.push(end);
        }
        ends
    }

    proptest! {
        #[test]
        fn without_contention_the_simulation_is_the_longest_path(
            tasks in prop::collection::vec((0u32..4, 0u64..50, prop::collection::vec(0usize..100, 0..3)), 1..60),
        ) {
            let mut graph = TaskGraph::default();
            let mut durations = Vec::new();
            for (index, (stream, nanoseconds, waits)) in tasks.iter().enumerate() {
                let stream = graph.stream(StreamKind::Compute(StageId(*stream)));
                let mut waits: Vec<TaskId> =
                    waits.iter().filter(|_| index > 0).map(|w| TaskId((w % index) as u32)).collect();
                waits.dedup();
                graph.add(Activity::ReduceShared, Work::ReduceShared { held: Held { parameters: 0, tensors: 0 } }, stream, &waits);
                durations.push(Instant::from_nanoseconds(*nanoseconds).since(Instant::START));
            }
            let ends: Vec<Instant> = run(&graph, &durations).intervals.iter().map(|i| i.end).collect();
            prop_assert_eq!(ends, longest_path(&graph, &durations));
        }
    }
}
