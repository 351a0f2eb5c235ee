//! Lowering: from a plan to the work of one step.

mod host;
mod replicas;
mod shortened;

pub(crate) use host::COPIES_UNDER_WAY;
pub use shortened::{Repetition, Shortened, lower_shortened};

use crate::mesh::Group;
use crate::schedules::StageId;
use crate::schedules::{BetweenSteps, Pipeline, Slot, StagePass};
use crate::spec::{GradientReduction, Recompute};
use crate::task::{Activity, Segment, SegmentId, StreamId, StreamKind, TaskGraph, TaskId, Work};
use crate::valid::Plan;
use std::collections::BTreeMap;
use std::ops::Range;
use trainyard_units::Bytes;

/// Number of steps lowered in a row where the pipeline never drains: the first fills it, the second is counted, and the
/// third lets the second end as if training went on.
const UNDRAINED_STEPS: u32 = 3;

/// Number of steps lowered where each step drains the pipeline, but stages that are done begin the next one: the second
/// is counted.
const STAGGERED_STEPS: u32 = 2;

/// Number of layers by which weights are gathered or fetched, and activations brought back, ahead of their use: one,
/// while the layer before computes, as PyTorch's FSDP does by default.
const PREFETCH: usize = 1;

/// Options of the software that will run the plan, for its communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each says what software does, whatever the others say")]
pub struct Lowering {
    /// Size of the buckets in which gradients are reduced during the last backward pass; `None` to reduce them in one
    /// piece after it.
    pub bucket: Option<Bytes>,
    /// Size of these buckets for each rank that holds the same parameters, where it is more than `bucket`.
    pub bucket_per_rank: Bytes,
    /// `true` if a stage that sends waits until the bytes have left.
    pub blocking_transfers: bool,
    /// `true` if sharded weights are gathered, and their gradients scattered, while other layers compute.
    pub sharded_overlap: bool,
    /// When updated weights are gathered of which optimizer state and gradients alone are sharded.
    pub updated_weights: UpdatedWeights,
    /// `true` if gradients are kept in main memory where the processor updates.
    pub gradients_on_host: bool,
    /// `true` if all ranks agree on a step before any of them updates, so that no stage begins the next one early.
    pub agrees_on_steps: bool,
}

/// When ranks gather updated weights of which they share out optimizer state, or that and gradients (ZeRO-1 and 2):
/// `Stack::updated_weights` of a software stack states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdatedWeights {
    /// In one piece after the update.
    AfterUpdate,
    /// Beside the first forward pass of the next step, bucket by bucket.
    FirstForward,
    /// Beside every forward pass: each backward pass lets go of them.
    EachForward,
}

impl Lowering {
    /// Returns `true` if updated weights are gathered beside the forward pass of this micro-batch of a step.
    pub fn gathers_in_forward(self, plan: &Plan, micro_batch: u32) -> bool {
        let is_time = match self.updated_weights {
            UpdatedWeights::AfterUpdate => false,
            UpdatedWeights::FirstForward => micro_batch == 0,
            UpdatedWeights::EachForward => true,
        };
        is_time && plan.may_gather_in_forward()
    }
}

/// Returns the work of one optimizer step of `plan`.
///
/// Tasks are added in an order in which they could run, so that a task's id is larger than those it waits for, and
/// so that equal plans give equal graphs.
pub fn lower(plan: &Plan, lowering: Lowering) -> TaskGraph {
    let mut builder = Builder::new(plan, plan.pipeline(), lowering);
    builder.run_programs();
    builder.graph
}

struct Builder<'a> {
    plan: &'a Plan,
    lowering: Lowering,
    graph: TaskGraph,
    /// Micro-batches of one step.
    micro_batches: u32,
    /// Number of steps in which the gradients of the shared embedding table have been summed so far.
    shared_sums: u32,
    stages: Vec<StageBuilder>,
    /// Runs of layers, in the order of the model.
    chunks: Vec<Chunk>,
}

/// The state of a stage while its tasks are added.
struct StageBuilder {
    compute: StreamId,
    program: Vec<Piece>,
    next: usize,
    /// Forward and backward tasks so far, for which prefetching copies, and gathers that do not overlap, wait.
    passes: Vec<TaskId>,
    /// For each gather of weights so far, the task that used them, for which prefetching gathers wait.
    gathered_for: Vec<TaskId>,
    /// Copies of activations to the machine so far.
    copied_out: Vec<TaskId>,
    /// The last pass of the current step.
    last_pass: Option<TaskId>,
    /// Reductions of gradients in the current step.
    reductions: Vec<TaskId>,
    /// The task that the next step's passes, and the gathers of their weights, wait for: the update, or the arrival of
    /// the updated weights where these come from elsewhere.
    renewed: Option<TaskId>,
    /// Places in the program at which the number of tasks of the graph is noted, ascending, and these numbers.
    noted_at: Vec<usize>,
    noted: Vec<u32>,
}

/// The state of a chunk of layers while tasks are added.
struct Chunk {
    stage: StageId,
    layers: Range<usize>,
    /// Per micro-batch, the transfer into the stage that forward waits for.
    activations: Vec<Option<TaskId>>,
    /// Per micro-batch, the transfer into the stage that backward waits for.
    gradients: Vec<Option<TaskId>>,
    /// For each micro-batch and first layer of a part, the copy of its activations to the machine.
    kept: BTreeMap<(u32, usize), TaskId>,
    /// Ids of the kinds of compute work so far.
    segments: BTreeMap<SegmentKey, SegmentId>,
}

/// Key of a kind of compute work within a chunk of layers: the pass, its first layer, the layer after its last, and
/// whether gradients are added to earlier ones.
type SegmentKey = (StagePass, usize, usize, bool);

/// One piece of a stage's program over all steps in the graph.
#[derive(Clone, Copy, Debug)]
enum Piece {
    /// A pass of a micro-batch; micro-batches are numbered through all steps.
    Pass(Slot),
    /// Reductions that did not overlap with the passes of a step.
    Reduce,
    /// The end of a step.
    Update(u32),
}

impl<'a> Builder<'a> {
    /// `pipeline` is the plan's, or the same with another number of micro-batches.
    fn new(plan: &'a Plan, pipeline: Pipeline, lowering: Lowering) -> Self {
        let steps = steps(plan, lowering);
        let micro_batches = pipeline.micro_batches;
        let mut graph = TaskGraph::default();
        let programs = pieces(pipeline, steps);
        let stages = plan
            .stages()
            .ids()
            .zip(programs)
            .map(|(stage, program)| StageBuilder {
                compute: graph.stream(StreamKind::Compute(stage)),
                program,
                next: 0,
                passes: Vec::new(),
                gathered_for: Vec::new(),
                copied_out: Vec::new(),
                last_pass: None,
                reductions: Vec::new(),
                renewed: None,
                noted_at: Vec::new(),
                noted: Vec::new(),
            })
            .collect();
        let none = vec![None; (micro_batches * steps) as usize];
        let chunks = (0..plan.stages().chunks())
            .map(|position| Chunk {
                stage: plan.stages().at(position).0,
                layers: plan.stages().layers_at(position),
                activations: none.clone(),
                gradients: none.clone(),
                kept: BTreeMap::new(),
                segments: BTreeMap::new(),
            })
            .collect();
        Self { plan, lowering, graph, micro_batches, shared_sums: 0, stages, chunks }
    }

    fn stage(&mut self, stage: StageId) -> &mut StageBuilder {
        &mut self.stages[stage.0 as usize]
    }

    /// Adds the programs of all stages, each in order, adding a piece as soon as everything it waits for is in the
    /// graph.
    fn run_programs(&mut self) {
        let total: usize = self.stages.iter().map(|stage| stage.program.len()).sum();
        let mut added = 0;
        while added < total {
            let before = added;
            for stage in self.plan.stages().ids() {
                while let Some(piece) = self.next_piece(stage) {
                    match piece {
                        Piece::Pass(slot) => self.pass(stage, slot),
                        Piece::Reduce => self.remaining_reductions(stage),
                        Piece::Update(step) => self.end_of_step(stage, step),
                    }
                    self.note(stage);
                    added += 1;
                }
            }
            assert!(added > before, "a schedule's programs never wait for each other in a circle");
        }
    }

    /// Goes on to a stage's next piece, and notes how many tasks there are if that is to be noted.
    fn note(&mut self, stage: StageId) {
        let tasks = self.graph.tasks().len() as u32;
        let known = self.stage(stage);
        known.next += 1;
        while known.noted_at.get(known.noted.len()) == Some(&known.next) {
            known.noted.push(tasks);
        }
    }

    /// Returns the next piece of a stage's program, if everything it waits for has been added.
    fn next_piece(&self, stage: StageId) -> Option<Piece> {
        let known = &self.stages[stage.0 as usize];
        let piece = *known.program.get(known.next)?;
        let ready = match piece {
            Piece::Pass(slot) => {
                let position = self.plan.stages().position(stage, slot.chunk);
                let known = &self.chunks[position as usize];
                match slot.pass {
                    StagePass::Forward => position == 0 || known.activations[slot.micro_batch as usize].is_some(),
                    StagePass::BackwardWeight => true,
                    StagePass::Backward | StagePass::BackwardInput => {
                        position + 1 == self.plan.stages().chunks()
                            || known.gradients[slot.micro_batch as usize].is_some()
                    }
                }
            }
            Piece::Reduce => true,
            Piece::Update(step) => self.shared_gradients_are_there(stage, step),
        };
        ready.then_some(piece)
    }

    fn pass(&mut self, stage: StageId, slot: Slot) {
        let position = self.plan.stages().position(stage, slot.chunk);
        let mut waits = self.arrivals(position, slot);
        waits.extend(self.stages[stage.0 as usize].renewed);
        let task = self.compute(stage, position, slot, waits);
        self.stage(stage).last_pass = Some(task);
        match slot.pass {
            StagePass::Forward if position + 1 < self.plan.stages().chunks() => {
                let activity = Activity::SendActivations { stage, micro_batch: slot.micro_batch };
                let sent = self.send(activity, StreamKind::SendForward(stage), position, position + 1, task);
                self.chunks[position as usize + 1].activations[slot.micro_batch as usize] = Some(sent);
            }
            StagePass::Backward | StagePass::BackwardInput if position > 0 => {
                let activity = Activity::SendGradients { stage, micro_batch: slot.micro_batch };
                let sent = self.send(activity, StreamKind::SendBackward(stage), position, position - 1, task);
                self.chunks[position as usize - 1].gradients[slot.micro_batch as usize] = Some(sent);
            }
            _ => {}
        }
    }

    /// Returns the transfers from neighbouring stages that a pass needs.
    fn arrivals(&self, position: u32, slot: Slot) -> Vec<TaskId> {
        let known = &self.chunks[position as usize];
        let arrived = match slot.pass {
            StagePass::Forward => known.activations[slot.micro_batch as usize],
            StagePass::Backward | StagePass::BackwardInput => known.gradients[slot.micro_batch as usize],
            StagePass::BackwardWeight => None,
        };
        arrived.into_iter().collect()
    }

    /// Adds the kernels of a pass, in one piece or in parts where something happens between them. Returns the last
    /// part.
    fn compute(&mut self, stage: StageId, position: u32, slot: Slot, mut waits: Vec<TaskId>) -> TaskId {
        let (reduces, leaves) = (self.reduces_after(slot), self.keeps_gradients_of(slot));
        let activity = activity(stage, slot);
        let compute = self.stages[stage.0 as usize].compute;
        let gathers = self.brings_weights(slot);
        let parts = self.parts(position, slot, reduces || leaves || gathers);
        let mut last = None;
        for (number, layers) in parts.into_iter().enumerate() {
            if gathers {
                let begins = number == 0;
                waits.extend(self.gather(stage, &layers, slot.pass, begins));
            }
            waits.extend(self.room_or_return(stage, position, slot, &layers));
            let segment = self.segment(position, slot, layers.clone());
            let part = self.graph.add(activity, Work::Compute(segment), compute, &waits);
            waits.clear();
            self.stage(stage).passes.push(part);
            self.keep_activations(stage, position, slot, &layers, part);
            if gathers {
                self.stage(stage).gathered_for.push(part);
            }
            if reduces {
                self.reduce(stage, number as u32, &layers, part);
            }
            if leaves {
                self.keep_gradients(stage, slot, &layers, part);
            }
            last = Some(part);
        }
        last.expect("a chunk has layers")
    }

    /// Returns `true` if a pass's gradients are summed over replicas right after they are computed.
    fn reduces_after(&self, slot: Slot) -> bool {
        let weights = matches!(slot.pass, StagePass::Backward | StagePass::BackwardWeight);
        let ends = self.ends_step(slot) && (self.lowering.bucket.is_some() || self.plan.gathers_weights());
        let each = self.plan.gradient_reduction() == GradientReduction::MicroBatch;
        weights && self.plan.mesh().copies() > 1 && (ends || each)
    }

    /// Returns `true` if weights are brought to the device for a pass.
    fn brings_weights(&self, slot: Slot) -> bool {
        match slot.pass {
            // Gradients of weights follow from inputs and from gradients of outputs, without the weights.
            StagePass::BackwardWeight => false,
            StagePass::Forward if self.gathers_updated_for(slot) => true,
            _ => self.plan.gathers_weights(),
        }
    }

    fn gathers_updated_for(&self, slot: Slot) -> bool {
        self.lowering.gathers_in_forward(self.plan, slot.micro_batch % self.micro_batches)
    }

    fn ends_step(&self, slot: Slot) -> bool {
        (slot.micro_batch + 1).is_multiple_of(self.micro_batches)
    }

    /// Returns the chunks of layers between which something happens, in the order in which they compute.
    fn parts(&self, position: u32, slot: Slot, in_buckets: bool) -> Vec<Range<usize>> {
        let layers = self.chunks[position as usize].layers.clone();
        let forward = slot.pass == StagePass::Forward;
        match self.lowering.bucket {
            _ if self.plan.goes_by_layer() => {
                let each = layers.map(|layer| layer..layer + 1);
                if forward { each.collect() } else { each.rev().collect() }
            }
            Some(bucket) if in_buckets => {
                let mut parts = self.buckets(layers, bucket);
                if forward {
                    parts.reverse();
                }
                parts
            }
            _ => vec![layers],
        }
    }

    /// Splits layers into gradient buckets, last layer first, each with at least `bucket` bytes of gradients, or as many
    /// as the ranks ask for, except the last.
    fn buckets(&self, layers: Range<usize>, bucket: Bytes) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut end = layers.end;
        let mut gathered = 0;
        let ranks = u64::from(self.plan.mesh().group_size(Group::Gradient));
        let bucket = bucket.0.max(self.lowering.bucket_per_rank.0.saturating_mul(ranks));
        for layer in layers.clone().rev() {
            gathered += self.plan.held(&(layer..layer + 1)).gradient_bytes().0;
            if gathered >= bucket && layer > layers.start {
                parts.push(layer..end);
                end = layer;
                gathered = 0;
            }
        }
        parts.push(layers.start..end);
        parts
    }

    fn segment(&mut self, position: u32, slot: Slot, layers: Range<usize>) -> SegmentId {
        let again = matches!(slot.pass, StagePass::Backward | StagePass::BackwardInput);
        let weights = matches!(slot.pass, StagePass::Backward | StagePass::BackwardWeight);
        let accumulate = weights && !slot.micro_batch.is_multiple_of(self.micro_batches);
        let known = &mut self.chunks[position as usize];
        let graph = &mut self.graph;
        *known.segments.entry((slot.pass, layers.start, layers.end, accumulate)).or_insert_with(|| {
            graph.add_segment(Segment {
                stage: known.stage,
                layers,
                pass: slot.pass,
                recompute: if again { self.plan.recompute() } else { Recompute::None },
                accumulate,
            })
        })
    }

    fn send(&mut self, activity: Activity, own: StreamKind, from: u32, to: u32, after: TaskId) -> TaskId {
        let boundary = self.chunks[from.min(to) as usize].layers.end - 1;
        let (from, to) = (self.chunks[from as usize].stage, self.chunks[to as usize].stage);
        if from == to {
            // At the turn of a V the next run is on the same device.
            return after;
        }
        let bytes = self.plan.boundary_bytes(boundary);
        let kind = if self.lowering.blocking_transfers { StreamKind::Compute(from) } else { own };
        let stream = self.graph.stream(kind);
        self.graph.add(activity, Work::Transfer { from, to, bytes }, stream, &[after])
    }
}

fn activity(stage: StageId, slot: Slot) -> Activity {
    let micro_batch = slot.micro_batch;
    match slot.pass {
        StagePass::Forward => Activity::Forward { stage, micro_batch },
        StagePass::Backward | StagePass::BackwardInput => Activity::Backward { stage, micro_batch },
        StagePass::BackwardWeight => Activity::BackwardWeights { stage, micro_batch },
    }
}

/// Returns the number of steps lowered in a row.
fn steps(plan: &Plan, lowering: Lowering) -> u32 {
    match plan.schedule().between_steps() {
        BetweenSteps::Flush => 1,
        BetweenSteps::Staggered if lowering.agrees_on_steps => 1,
        BetweenSteps::Staggered => STAGGERED_STEPS,
        BetweenSteps::Continuous => UNDRAINED_STEPS,
    }
}

/// Returns each stage's program over `steps` steps, with the ends of steps.
fn pieces(step: Pipeline, steps: u32) -> Vec<Vec<Piece>> {
    let micro_batches = step.micro_batches;
    if step.schedule.between_steps() == BetweenSteps::Continuous {
        // One long program: a step ends where the last of its gradients is there, and the next is under way.
        let long = Pipeline { micro_batches: micro_batches * steps, ..step };
        return long.programs().into_iter().map(|slots| with_updates(slots, micro_batches)).collect();
    }
    let later = |slot: Slot, step: u32| Slot { micro_batch: slot.micro_batch + step * micro_batches, ..slot };
    step.programs()
        .into_iter()
        .map(|slots| {
            (0..steps)
                .flat_map(|step| {
                    let passes = slots.iter().map(move |slot| Piece::Pass(later(*slot, step)));
                    passes.chain([Piece::Reduce, Piece::Update(step)])
                })
                .collect()
        })
        .collect()
}

fn with_updates(slots: Vec<Slot>, micro_batches: u32) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(slots.len() + slots.len() / micro_batches as usize);
    for slot in slots {
        pieces.push(Piece::Pass(slot));
        if slot.pass == StagePass::Backward && (slot.micro_batch + 1).is_multiple_of(micro_batches) {
            pieces.extend([Piece::Reduce, Piece::Update(slot.micro_batch / micro_batches)]);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedules::ScheduleName;
    use crate::spec::{BatchSpec, ClusterSpec, ParallelSpec, PlanSpec, StageSpec, StateSharding};

    pub(super) const LOWERING: Lowering = Lowering {
        bucket: None,
        bucket_per_rank: Bytes(0),
        blocking_transfers: false,
        sharded_overlap: true,
        updated_weights: UpdatedWeights::AfterUpdate,
        gradients_on_host: false,
        agrees_on_steps: false,
    };

    #[test]
    fn stages_that_agree_on_a_step_end_it_together() {
        let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
        let half = model.graph().len() / 2;
        let plan = Plan::try_from(PlanSpec {
            parallel: ParallelSpec { pipeline: 2, ..ParallelSpec::default() },
            batch: BatchSpec { global: 8, micro: 1, accumulation: 8 },
            schedule: ScheduleName::ZeroBubbleH1,
            stages: vec![StageSpec { first: 0, layers: half }, StageSpec { first: half, layers: half }],
            ..PlanSpec::plain(model.spec(), ClusterSpec::of("p3.8xlarge", 1), 2 * half)
        })
        .expect("a valid plan");
        let ends = |agrees_on_steps| lower(&plan, Lowering { agrees_on_steps, ..LOWERING }).step_ends().len();
        assert_eq!((ends(false), ends(true)), (2, 1));
    }

    #[test]
    fn equal_work_is_one_segment() {
        let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
        let layers = model.graph().len();
        let plan = Plan::try_from(PlanSpec {
            parallel: ParallelSpec { data: 2, ..ParallelSpec::default() },
            batch: BatchSpec { global: 8, micro: 1, accumulation: 4 },
            state_sharding: StateSharding::Parameters,
            ..PlanSpec::plain(model.spec(), ClusterSpec::of("p3.8xlarge", 1), layers)
        })
        .expect("a valid plan");
        let graph = lower(&plan, LOWERING);
        let segments = graph.segments();
        // Forward of each layer, its backward, and its backward that adds to gradients of earlier micro-batches.
        assert_eq!(segments.len(), 3 * layers);
        assert!(segments.iter().enumerate().all(|(number, segment)| !segments[..number].contains(segment)));
        let computed = graph.tasks().iter().filter(|task| matches!(task.work, Work::Compute(_)));
        assert_eq!(computed.count(), 4 * 2 * layers);
    }
}
