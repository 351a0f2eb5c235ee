//! Lowering: from a plan to the work of one step.

use crate::parameters::Held;
use crate::partition::StageId;
use crate::schedule::{Slot, program};
use crate::spec::Recompute;
use crate::task::{Activity, Segment, SegmentId, StreamId, StreamKind, TaskGraph, TaskId, Work};
use crate::valid::Plan;
use std::ops::Range;
use trainyard_models::Pass;
use trainyard_units::Bytes;

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
    let mut builder = Builder::new(plan, lowering);
    builder.passes();
    builder.remaining_reductions();
    builder.updates();
    builder.graph
}

struct Builder<'a> {
    plan: &'a Plan,
    lowering: Lowering,
    graph: TaskGraph,
    stages: Vec<StageBuilder>,
}

/// What is known of a stage while its tasks are added.
struct StageBuilder {
    compute: StreamId,
    forward: SegmentId,
    /// Backward of the first micro-batch, whose gradients are the first.
    backward_first: SegmentId,
    /// Backward of the others, whose gradients are added.
    backward_again: SegmentId,
    /// Per micro-batch, what forward waits for: the transfer into the stage.
    activations: Vec<Option<TaskId>>,
    /// Per micro-batch, what backward waits for: the transfer into the stage.
    gradients: Vec<Option<TaskId>>,
    /// The task that ends the passes.
    last_backward: Option<TaskId>,
    /// All reductions so far.
    reductions: Vec<TaskId>,
}

impl<'a> Builder<'a> {
    fn new(plan: &'a Plan, lowering: Lowering) -> Self {
        let mut builder = Self { plan, lowering, graph: TaskGraph::default(), stages: Vec::new() };
        let micro_batches = builder.micro_batches() as usize;
        for stage in plan.stages().ids() {
            let layers = plan.stages().layers(stage);
            let built = StageBuilder {
                compute: builder.graph.stream(StreamKind::Compute(stage)),
                forward: builder.segment(stage, layers.clone(), Pass::Forward, false),
                backward_first: builder.segment(stage, layers.clone(), Pass::Backward, false),
                backward_again: builder.segment(stage, layers, Pass::Backward, true),
                activations: vec![None; micro_batches],
                gradients: vec![None; micro_batches],
                last_backward: None,
                reductions: Vec::new(),
            };
            builder.stages.push(built);
        }
        builder
    }

    fn stage(&mut self, stage: StageId) -> &mut StageBuilder {
        &mut self.stages[stage.0 as usize]
    }

    fn micro_batches(&self) -> u32 {
        u32::try_from(self.plan.batch().accumulation).expect("a step has fewer than 2^32 micro-batches")
    }

    /// Adds forwards and backwards of all stages, each stage's in the order of its program, as soon as what a slot
    /// waits for is there.
    fn passes(&mut self) {
        let stages = self.plan.stages().count();
        let micro_batches = self.micro_batches();
        let programs: Vec<Vec<Slot>> =
            self.plan.stages().ids().map(|stage| program(self.plan.schedule(), stage, stages, micro_batches)).collect();
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
        let known = &self.stages[stage.0 as usize];
        match slot {
            Slot::Forward(m) => stage.0 == 0 || known.activations[m as usize].is_some(),
            Slot::Backward(m) => stage.0 + 1 == self.plan.stages().count() || known.gradients[m as usize].is_some(),
        }
    }

    fn slot(&mut self, stage: StageId, slot: Slot) {
        match slot {
            Slot::Forward(m) => self.forward(stage, m),
            Slot::Backward(m) => self.backward(stage, m),
        }
    }

    fn forward(&mut self, stage: StageId, micro_batch: u32) {
        let StageBuilder { compute, forward, ref activations, .. } = self.stages[stage.0 as usize];
        let waits: Vec<TaskId> = activations[micro_batch as usize].into_iter().collect();
        let task = self.graph.add(Activity::Forward { stage, micro_batch }, Work::Compute(forward), compute, &waits);
        if stage.0 + 1 < self.plan.stages().count() {
            let next = StageId(stage.0 + 1);
            let activity = Activity::SendActivations { stage, micro_batch };
            let sent = self.send(activity, StreamKind::SendForward(stage), stage, next, task);
            self.stage(next).activations[micro_batch as usize] = Some(sent);
        }
    }

    fn backward(&mut self, stage: StageId, micro_batch: u32) {
        let is_last = micro_batch + 1 == self.micro_batches();
        let bucket = self.lowering.bucket.filter(|_| is_last && self.plan.mesh().data() > 1);
        let waits: Vec<TaskId> = self.stage(stage).gradients[micro_batch as usize].into_iter().collect();
        let task = match bucket {
            None => {
                let StageBuilder { compute, backward_first, backward_again, .. } = self.stages[stage.0 as usize];
                let backward = if micro_batch == 0 { backward_first } else { backward_again };
                self.graph.add(Activity::Backward { stage, micro_batch }, Work::Compute(backward), compute, &waits)
            }
            Some(bucket) => self.backward_in_buckets(stage, micro_batch, bucket, waits),
        };
        if stage.0 > 0 {
            let previous = StageId(stage.0 - 1);
            let activity = Activity::SendGradients { stage, micro_batch };
            let sent = self.send(activity, StreamKind::SendBackward(stage), stage, previous, task);
            self.stage(previous).gradients[micro_batch as usize] = Some(sent);
        }
        if is_last {
            self.stage(stage).last_backward = Some(task);
        }
    }

    /// Backward in parts, each followed by the reduction of its gradients beside the next part. Returns the last part.
    fn backward_in_buckets(
        &mut self,
        stage: StageId,
        micro_batch: u32,
        bucket: Bytes,
        mut waits: Vec<TaskId>,
    ) -> TaskId {
        let stream = self.stage(stage).compute;
        let parts = self.buckets(self.plan.stages().layers(stage), bucket);
        for (number, layers) in parts.into_iter().enumerate() {
            let segment = self.segment(stage, layers.clone(), Pass::Backward, micro_batch > 0);
            let activity = Activity::Backward { stage, micro_batch };
            let part = self.graph.add(activity, Work::Compute(segment), stream, &waits);
            self.reduce(stage, number as u32, layers, part);
            waits = vec![part];
        }
        waits[0]
    }

    fn segment(&mut self, stage: StageId, layers: Range<usize>, pass: Pass, accumulate: bool) -> SegmentId {
        let recompute = pass == Pass::Backward && self.plan.recompute() == Recompute::Full;
        self.graph.add_segment(Segment { stage, layers, pass, recompute, accumulate })
    }

    fn send(&mut self, activity: Activity, own: StreamKind, from: StageId, to: StageId, after: TaskId) -> TaskId {
        let boundary = self.plan.stages().layers(from.min(to)).end - 1;
        let layer = self.plan.graph().layer(boundary);
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
            gathered += self.plan.held(&(layer..layer + 1)).gradient_bytes().0;
            if gathered >= bucket.0 && layer > layers.start {
                parts.push(layer..end);
                end = layer;
                gathered = 0;
            }
        }
        parts.push(layers.start..end);
        parts
    }

    fn reduce(&mut self, stage: StageId, bucket: u32, layers: Range<usize>, after: TaskId) {
        let stream = self.graph.stream(StreamKind::Reduce(stage));
        let held = self.plan.held(&layers);
        let work = Work::ReduceGradients { stage, held };
        let task = self.graph.add(Activity::ReduceGradients { stage, bucket }, work, stream, &[after]);
        self.stage(stage).reductions.push(task);
    }

    fn last_backward(&self, stage: StageId) -> TaskId {
        self.stages[stage.0 as usize].last_backward.expect("every stage has ended its passes")
    }

    /// Reductions that do not overlap with backward, then that of the shared table.
    fn remaining_reductions(&mut self) {
        let replicated = self.plan.mesh().data() > 1;
        if replicated && self.lowering.bucket.is_none() {
            for stage in self.plan.stages().ids() {
                let after = self.last_backward(stage);
                self.reduce(stage, 0, self.plan.stages().layers(stage), after);
            }
        }
        let shared = Held { parameters: self.plan.shared_on_rank(), tensors: 1 };
        let last = StageId(self.plan.stages().count() - 1);
        if shared.parameters > 0 && last.0 > 0 {
            let mut waits = vec![self.last_backward(StageId(0)), self.last_backward(last)];
            for stage in [StageId(0), last] {
                waits.extend(&self.stages[stage.0 as usize].reductions);
            }
            let stream = self.graph.stream(StreamKind::Reduce(StageId(0)));
            let work = Work::ReduceShared { held: shared };
            let task = self.graph.add(Activity::ReduceShared, work, stream, &waits);
            for stage in [StageId(0), last] {
                self.stage(stage).reductions.push(task);
            }
        }
    }

    fn updates(&mut self) {
        for stage in self.plan.stages().ids() {
            let mut waits = self.stage(stage).reductions.clone();
            waits.push(self.last_backward(stage));
            let held = self.plan.held(&self.plan.stages().layers(stage));
            let stream = self.stage(stage).compute;
            let work = Work::Update { stage, held };
            self.graph.add(Activity::Update { stage }, work, stream, &waits);
        }
    }
}
