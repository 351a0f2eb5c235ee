//! Lowering: from a plan to the work of one step.

use crate::partition::StageId;
use crate::schedule::{Slot, program};
use crate::spec::Recompute;
use crate::task::{Activity, Segment, StreamKind, TaskGraph, TaskId, Work};
use crate::valid::Plan;
use std::collections::BTreeMap;
use std::ops::Range;
use trainyard_models::Pass;
use trainyard_units::Bytes;

/// Bytes of a gradient when it is reduced: gradients are kept in single precision whatever computes them.
const GRADIENT_BYTES: u64 = 4;

/// How the software that will run the plan handles communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lowering {
    /// Gradients are reduced in buckets of this size while the last backward goes on; nothing: in one piece after it.
    pub bucket: Option<Bytes>,
    /// A stage that sends waits until the bytes have left.
    pub blocking_transfers: bool,
}

/// The work of one optimizer step of `plan`.
///
/// Tasks are added in an order in which they could run, so that a task's id is larger than those it waits for, and
/// so that equal plans give equal graphs.
pub fn lower(plan: &Plan, lowering: Lowering) -> TaskGraph {
    let mut builder = Builder {
        plan,
        lowering,
        graph: TaskGraph::default(),
        forwards: BTreeMap::new(),
        backwards: BTreeMap::new(),
        last_backwards: BTreeMap::new(),
        reductions: BTreeMap::new(),
    };
    builder.passes();
    builder.remaining_reductions();
    builder.updates();
    builder.graph
}

struct Builder<'a> {
    plan: &'a Plan,
    lowering: Lowering,
    graph: TaskGraph,
    /// What a stage's forward of a micro-batch waits for: the transfer into it.
    forwards: BTreeMap<(StageId, u32), TaskId>,
    /// What a stage's backward of a micro-batch waits for: the transfer into it.
    backwards: BTreeMap<(StageId, u32), TaskId>,
    /// The task that ends a stage's passes.
    last_backwards: BTreeMap<StageId, TaskId>,
    /// All reductions of a stage so far.
    reductions: BTreeMap<StageId, Vec<TaskId>>,
}

impl Builder<'_> {
    fn micro_batches(&self) -> u32 {
        u32::try_from(self.plan.batch().accumulation).expect("a step has fewer than 2^32 micro-batches")
    }

    /// Adds forwards and backwards of all stages, each stage's in the order of its program, as soon as what a slot
    /// waits for is there.
    fn passes(&mut self) {
        let stages = self.plan.stages().count();
        let micro_batches = self.micro_batches();
        let programs: Vec<Vec<Slot>> = self
            .plan
            .stages()
            .ids()
            .map(|stage| program(self.plan.schedule(), stage, stages, micro_batches))
            .collect();
        let mut next = vec![0; programs.len()];
        let total: usize = programs.iter().map(Vec::len).sum();
        let mut added = 0;
        while added < total {
            let before = added;
            for stage in self.plan.stages().ids() {
                let index = stage.0 as usize;
                while let Some(slot) = programs[index].get(next[index]).copied() {
                    if !self.ready(stage, slot) {
                        break;
                    }
                    self.slot(stage, slot);
                    next[index] += 1;
                    added += 1;
                }
            }
            assert!(added > before, "a schedule's programs never wait for each other in a circle");
        }
    }

    fn ready(&self, stage: StageId, slot: Slot) -> bool {
        let last = stage.0 + 1 == self.plan.stages().count();
        match slot {
            Slot::Forward(m) => stage.0 == 0 || self.forwards.contains_key(&(stage, m)),
            Slot::Backward(m) => last || self.backwards.contains_key(&(stage, m)),
        }
    }

    fn slot(&mut self, stage: StageId, slot: Slot) {
        match slot {
            Slot::Forward(m) => self.forward(stage, m),
            Slot::Backward(m) => self.backward(stage, m),
        }
    }

    fn forward(&mut self, stage: StageId, micro_batch: u32) {
        let segment = self.segment(stage, self.plan.stages().layers(stage), Pass::Forward);
        let stream = self.graph.stream(StreamKind::Compute(stage));
        let waits: Vec<TaskId> = self.forwards.get(&(stage, micro_batch)).copied().into_iter().collect();
        let task =
            self.graph.add(Activity::Forward { stage, micro_batch }, Work::Compute(segment), stream, &waits);
        if stage.0 + 1 < self.plan.stages().count() {
            let next = StageId(stage.0 + 1);
            let activity = Activity::SendActivations { stage, micro_batch };
            let sent = self.send(activity, StreamKind::SendForward(stage), stage, next, task);
            self.forwards.insert((next, micro_batch), sent);
        }
    }

    fn backward(&mut self, stage: StageId, micro_batch: u32) {
        let is_last = micro_batch + 1 == self.micro_batches();
        let bucket = self.lowering.bucket.filter(|_| is_last && self.plan.mesh().data() > 1);
        let whole = self.plan.stages().layers(stage);
        let parts = bucket.map_or_else(|| vec![whole.clone()], |bucket| self.buckets(whole.clone(), bucket));
        let stream = self.graph.stream(StreamKind::Compute(stage));
        let mut waits: Vec<TaskId> = self.backwards.get(&(stage, micro_batch)).copied().into_iter().collect();
        for (number, layers) in parts.into_iter().enumerate() {
            let segment = self.segment(stage, layers.clone(), Pass::Backward);
            let activity = Activity::Backward { stage, micro_batch };
            let task = self.graph.add(activity, Work::Compute(segment), stream, &waits);
            waits = vec![task];
            if bucket.is_some() {
                self.reduce(stage, number as u32, layers, task);
            }
        }
        let task = waits[0];
        if stage.0 > 0 {
            let previous = StageId(stage.0 - 1);
            let activity = Activity::SendGradients { stage, micro_batch };
            let sent = self.send(activity, StreamKind::SendBackward(stage), stage, previous, task);
            self.backwards.insert((previous, micro_batch), sent);
        }
        if is_last {
            self.last_backwards.insert(stage, task);
        }
    }

    fn segment(&mut self, stage: StageId, layers: Range<usize>, pass: Pass) -> crate::task::SegmentId {
        let backward = pass == Pass::Backward;
        self.graph.segment(Segment {
            stage,
            layers,
            pass,
            recompute: backward && self.plan.recompute() == Recompute::Full,
            accumulate: backward && self.plan.batch().accumulation > 1,
        })
    }

    fn send(&mut self, activity: Activity, own: StreamKind, from: StageId, to: StageId, after: TaskId) -> TaskId {
        let boundary = self.plan.stages().layers(from.min(to)).end - 1;
        let layer = self.plan.graph().layers().nth(boundary).expect("stages cover existing layers");
        let elements = layer.output_elements * self.plan.batch().micro;
        let bytes = Bytes(elements * self.plan.precision().element_bytes());
        let kind = if self.lowering.blocking_transfers { StreamKind::Compute(from) } else { own };
        let stream = self.graph.stream(kind);
        self.graph.add(activity, Work::Transfer { from, to, bytes }, stream, &[after])
    }

    /// Runs of layers, last layer first, each with at least `bucket` bytes of gradients except the last run.
    fn buckets(&self, layers: Range<usize>, bucket: Bytes) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut end = layers.end;
        let mut gathered = 0;
        for layer in layers.clone().rev() {
            gathered += self.gradient_bytes(&(layer..layer + 1)).0;
            if gathered >= bucket.0 && layer > layers.start {
                parts.push(layer..end);
                end = layer;
                gathered = 0;
            }
        }
        parts.push(layers.start..end);
        parts
    }

    fn gradient_bytes(&self, layers: &Range<usize>) -> Bytes {
        Bytes(self.parameters(layers) * GRADIENT_BYTES)
    }

    fn parameters(&self, layers: &Range<usize>) -> u64 {
        let tensor = u64::from(self.plan.mesh().tensor());
        self.layers(layers).map(|layer| layer.parameters(tensor)).sum::<u64>() + self.shared_copy(layers)
    }

    fn tensors(&self, layers: &Range<usize>) -> u32 {
        self.layers(layers).map(trainyard_models::Layer::parameter_tensors).sum::<u32>()
            + u32::from(self.shared_copy(layers) > 0)
    }

    /// Parameters of the last stage's copy of a table that it shares with the first, if `layers` hold that copy.
    fn shared_copy(&self, layers: &Range<usize>) -> u64 {
        let holds_copy = self.plan.stages().count() > 1 && layers.end == self.plan.graph().len();
        if holds_copy { self.plan.graph().shared_parameters().div_ceil(u64::from(self.plan.mesh().tensor())) } else { 0 }
    }

    fn layers(&self, layers: &Range<usize>) -> impl Iterator<Item = &trainyard_models::Layer> {
        self.plan.graph().layers().skip(layers.start).take(layers.len())
    }

    fn reduce(&mut self, stage: StageId, bucket: u32, layers: Range<usize>, after: TaskId) {
        let stream = self.graph.stream(StreamKind::Reduce(stage));
        let bytes = self.gradient_bytes(&layers);
        let tensors = self.tensors(&layers);
        let task = self.graph.add(
            Activity::ReduceGradients { stage, bucket },
            Work::ReduceGradients { stage, bytes, tensors },
            stream,
            &[after],
        );
        self.reductions.entry(stage).or_default().push(task);
    }

    /// Reductions that do not overlap with backward, then that of the shared table.
    fn remaining_reductions(&mut self) {
        let replicated = self.plan.mesh().data() > 1;
        if replicated && self.lowering.bucket.is_none() {
            for stage in self.plan.stages().ids() {
                let after = self.last_backwards[&stage];
                self.reduce(stage, 0, self.plan.stages().layers(stage), after);
            }
        }
        let shared = self.plan.graph().shared_parameters();
        let last = StageId(self.plan.stages().count() - 1);
        if shared > 0 && last.0 > 0 {
            let mut waits = vec![self.last_backwards[&StageId(0)], self.last_backwards[&last]];
            for stage in [StageId(0), last] {
                waits.extend(self.reductions.get(&stage).into_iter().flatten().copied());
            }
            let bytes = Bytes(shared.div_ceil(u64::from(self.plan.mesh().tensor())) * GRADIENT_BYTES);
            let stream = self.graph.stream(StreamKind::Reduce(StageId(0)));
            let task = self.graph.add(Activity::ReduceShared, Work::ReduceShared { bytes }, stream, &waits);
            for stage in [StageId(0), last] {
                self.reductions.entry(stage).or_default().push(task);
            }
        }
    }

    fn updates(&mut self) {
        for stage in self.plan.stages().ids() {
            let mut waits = self.reductions.get(&stage).cloned().unwrap_or_default();
            waits.push(self.last_backwards[&stage]);
            let layers = self.plan.stages().layers(stage);
            let (parameters, tensors) = (self.parameters(&layers), self.tensors(&layers));
            let stream = self.graph.stream(StreamKind::Compute(stage));
            self.graph.add(Activity::Update { stage }, Work::Update { stage, parameters, tensors }, stream, &waits);
        }
    }
}
