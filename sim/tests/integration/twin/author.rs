//! What each rank does in a step, written down from the definition of the plan: passes of micro-batches, what they hand
//! on, and what of them is kept on the machine. What the holders of the same parameters do is in `holders`.

use super::ranks::Ranks;
use super::schedules::{Pass, program, steps};
use super::script::{Draft, Name, Script, Stream, What};
use std::collections::BTreeMap;
use std::ops::Range;
use trainyard_hardware_profiles::UpdatedWeights;
use trainyard_plan::{
    Activity, CopyDirection, GradientReduction, ParameterCounts, Plan, Rank, Recompute, Segment, StageId, StagePass,
    StateSharding, Store, Work,
};
use trainyard_sim::{Costs, Machine, Placed};
use trainyard_units::Bytes;

/// A plan's step, or several in a row, written out.
pub(crate) struct Written {
    pub(crate) script: Script,
    /// The stage of each rank.
    pub(crate) stages: Vec<StageId>,
    /// What ends each step on the first rank, which is of the first stage.
    pub(crate) ends: Vec<usize>,
}

/// What all ranks do.
pub(crate) fn write(plan: &Plan, machine: &Machine, costs: &Costs<'_>) -> Written {
    let mut author = Author::new(plan, machine, costs);
    let stages: Vec<StageId> = author.ranks.seats.iter().map(|seat| StageId(seat.stage)).collect();
    let mut ends: Vec<Vec<usize>> = (0..stages.len()).map(|rank| author.rank(rank)).collect();
    Written { script: author.draft.finish(), stages, ends: ends.swap_remove(0) }
}

pub(crate) struct Author<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) ranks: Ranks,
    pub(crate) stages: u32,
    pub(crate) runs: u32,
    pub(crate) micro_batches: u32,
    /// Layers of each run, in the order of the model.
    pub(crate) cut: Vec<Range<usize>>,
    /// Gradients are summed beside backward in pieces of so many bytes.
    pub(crate) bucket: Option<u64>,
    /// A sender does nothing else until its bytes have left.
    sends_block: bool,
    pub(crate) keeps_gradients_there: bool,
    /// Weights that are not on the device come beside other layers' kernels, or between them.
    pub(crate) gathers_beside: bool,
    /// When updated weights come back that every sharer has updated a part of.
    pub(crate) updated: UpdatedWeights,
    /// The kind of machine that each device belongs to, one machine after another.
    kinds: Vec<usize>,
    costs: &'a Costs<'a>,
    draft: Draft,
    /// What communications ask of links, as given.
    asked: BTreeMap<Work, Vec<Placed>>,
}

/// What a rank has written so far.
#[derive(Default)]
pub(crate) struct Own {
    pub(crate) rank: usize,
    pub(crate) stage: u32,
    /// Kernels of passes, in order.
    pub(crate) kernels: Vec<usize>,
    /// Those of them that need weights.
    pub(crate) with_weights: Vec<usize>,
    /// Copies of activations to the machine, in order.
    copied: Vec<usize>,
    /// The same by run of layers, micro-batch and first layer.
    kept: BTreeMap<(u32, u32, usize), usize>,
    /// Reductions of this step.
    pub(crate) reductions: Vec<usize>,
    /// What ended each step.
    pub(crate) ends: Vec<usize>,
}

impl Own {
    /// Kernels of the last part of a pass but `back`.
    pub(crate) fn kernels_before(&self, back: usize) -> Option<usize> {
        self.kernels.len().checked_sub(back + 1).map(|index| self.kernels[index])
    }
}

impl<'a> Author<'a> {
    fn new(plan: &'a Plan, machine: &'a Machine, costs: &'a Costs<'a>) -> Self {
        let spec = plan.spec();
        let pools = machine.cluster.pools.iter().enumerate();
        Self {
            plan,
            ranks: Ranks::new(spec.parallel, spec.placement, spec.sharding_ranks),
            stages: spec.parallel.pipeline,
            runs: spec.virtual_stages,
            micro_batches: u32::try_from(spec.batch.accumulation).expect("few micro-batches"),
            cut: spec.stages.iter().map(|run| run.first..run.first + run.layers).collect(),
            bucket: Some(machine.stack.bucket.value.0).filter(|bytes| *bytes > 0).map(|least| {
                let of_each = machine.stack.bucket_per_rank.as_ref().map_or(0, |size| size.value.0);
                least.max(of_each * u64::from(spec.parallel.data * spec.parallel.context))
            }),
            sends_block: machine.stack.blocking_transfers.value,
            keeps_gradients_there: machine.stack.gradients_on_host.as_ref().is_some_and(|kept| kept.value),
            gathers_beside: machine.stack.sharded_overlap.value,
            updated: machine.stack.updated_weights.as_ref().map(|gathered| gathered.value).unwrap_or_default(),
            kinds: pools.flat_map(|(kind, pool)| (0..pool.devices()).map(move |_| kind)).collect(),
            costs,
            draft: Draft::default(),
            asked: BTreeMap::new(),
        }
    }

    /// Everything that one rank does. Returns what ends each step on it.
    fn rank(&mut self, rank: usize) -> Vec<usize> {
        let stage = self.ranks.seats[rank].stage;
        let mut own = Own { rank, stage, ..Own::default() };
        let passes = program(self.plan.schedule(), stage, self.stages, self.runs, self.micro_batches);
        for (index, pass) in passes.iter().enumerate() {
            self.pass(&mut own, *pass);
            // A step ends with the last of its gradients.
            let step = pass.micro_batch / self.micro_batches;
            let of_step = |other: &Pass| other.gives_gradients() && other.micro_batch / self.micro_batches == step;
            if of_step(pass) && !passes[index + 1..].iter().any(of_step) {
                self.end_of_step(&mut own);
            }
        }
        assert_eq!(own.ends.len() as u32, steps(self.plan.schedule()));
        own.ends
    }

    fn pass(&mut self, own: &mut Own, pass: Pass) {
        let place = pass.run * self.stages + own.stage;
        // A step computes with the weights that the step before has left on the device.
        let mut after: Vec<usize> = own.ends.last().copied().into_iter().collect();
        after.extend(self.arrival(own, pass, place));
        let reduces = self.reduces_beside(pass);
        for (part, layers) in
            (0..).zip(self.parts(pass, place, reduces || self.leaves(pass) || self.weights_return(pass)))
        {
            // By the chain rule a weight's gradient is its input times its output's gradient.
            let with_weights = pass.kind != StagePass::BackwardWeight;
            let comes = with_weights && (self.weights_come() || self.weights_return(pass));
            if comes {
                after.push(self.weights(own, &layers, part == 0));
            }
            after.extend(self.room_or_return(own, pass, place, &layers));
            let seconds = self.slowest(own.rank, |kind| self.seconds(own.stage, pass, &layers, kind));
            let kernels = self.kernels(own, label(StageId(own.stage), pass), &after, seconds);
            own.kernels.push(kernels);
            own.with_weights.extend(Some(kernels).filter(|_| comes));
            after.clear();
            self.keep(own, pass, place, &layers);
            if reduces {
                self.reduce(own, part, &layers, kernels);
            }
            if self.leaves(pass) {
                self.leave(own, pass, &layers, kernels);
            }
        }
        self.send(own, pass, place);
    }

    /// Whether gradients of a pass are summed over replicas beside the kernels that follow.
    fn reduces_beside(&self, pass: Pass) -> bool {
        let is_last = (pass.micro_batch + 1).is_multiple_of(self.micro_batches);
        let each = self.plan.gradient_reduction() == GradientReduction::MicroBatch;
        pass.gives_gradients() && self.ranks.copies() > 1 && (each || is_last && self.overlaps_reductions())
    }

    /// What a pass gets from the run of layers before it, or after it.
    fn arrival(&mut self, own: &Own, pass: Pass, place: u32) -> Option<usize> {
        let from = match pass.kind {
            StagePass::Forward => place.checked_sub(1)?,
            StagePass::Backward | StagePass::BackwardInput => {
                Some(place + 1).filter(|next| *next < self.stages * self.runs)?
            }
            StagePass::BackwardWeight => return None,
        };
        let sender = self.ranks.partner(own.rank, from % self.stages);
        let (from_place, to_place, micro_batch) = (from, place, pass.micro_batch);
        Some(self.draft.number(Name::Send { from: sender, from_place, to: own.rank, to_place, micro_batch }))
    }

    /// What a pass hands on. It is the sender's stream that does it, beside kernels or between them.
    fn send(&mut self, own: &Own, pass: Pass, place: u32) {
        let (stage, micro_batch) = (StageId(own.stage), pass.micro_batch);
        let last = self.stages * self.runs - 1;
        let (to_place, boundary, stream, label) = match pass.kind {
            StagePass::Forward if place < last => {
                let label = Activity::SendActivations { stage, micro_batch };
                (place + 1, place, Stream::SendForward, label)
            }
            StagePass::Backward | StagePass::BackwardInput if place > 0 => {
                let label = Activity::SendGradients { stage, micro_batch };
                (place - 1, place - 1, Stream::SendBackward, label)
            }
            _ => return,
        };
        let to = self.ranks.partner(own.rank, to_place % self.stages);
        let bytes = self.plan.boundary_bytes(self.cut[boundary as usize].end - 1);
        let work = Work::Transfer { from: stage, to: StageId(to_place % self.stages), bytes };
        let what = self.communication(work, &[own.rank, to]);
        let name = Name::Send { from: own.rank, from_place: place, to, to_place, micro_batch };
        let stream = if self.sends_block { Stream::Compute } else { stream };
        let after: Vec<usize> = own.kernels_before(0).into_iter().collect();
        self.draft.put((own.rank, stream), name, label, &after, what);
    }

    /// What of a run of layers is computed in one go, in the order in which it is.
    fn parts(&self, pass: Pass, place: u32, reduces: bool) -> Vec<Range<usize>> {
        let layers = self.cut[place as usize].clone();
        if self.weights_come() || self.plan.offload().activations.is_some() {
            let mut one_by_one: Vec<Range<usize>> = layers.map(|layer| layer..layer + 1).collect();
            if pass.kind != StagePass::Forward {
                one_by_one.reverse();
            }
            return one_by_one;
        }
        let Some(bucket) = self.bucket.filter(|_| reduces) else { return vec![layers] };
        // Buckets fill up from the last layer on, whole layers at a time.
        let (mut parts, mut bytes) = (Vec::<Range<usize>>::new(), 0);
        for layer in layers.rev() {
            if let Some(open) = parts.last_mut().filter(|_| bytes < bucket) {
                open.start = layer;
            } else {
                parts.push(layer..layer + 1);
                bytes = 0;
            }
            bytes += self.plan.held(&(layer..layer + 1)).gradient_bytes().0;
        }
        if pass.kind == StagePass::Forward {
            parts.reverse();
        }
        parts
    }

    /// How long layers take, as given. Gradients of the first micro-batch of a step are not added to anything.
    fn seconds(&self, stage: u32, pass: Pass, layers: &Range<usize>, kind: usize) -> f64 {
        let recomputes = matches!(pass.kind, StagePass::Backward | StagePass::BackwardInput);
        let segment = Segment {
            stage: StageId(stage),
            layers: layers.clone(),
            pass: pass.kind,
            recompute: if recomputes { self.plan.recompute() } else { Recompute::None },
            accumulate: pass.gives_gradients() && !pass.micro_batch.is_multiple_of(self.micro_batches),
        };
        self.costs.segment(&segment, kind).expect("a GPU prices everything").0
    }

    /// How long an update takes, as given.
    pub(crate) fn update_seconds(&self, held: ParameterCounts, kind: usize) -> f64 {
        self.costs.update(held, kind).expect("a GPU prices everything").0
    }

    /// What those that share a rank's layers take: as long as the slowest of them, for which they wait in every layer.
    pub(crate) fn slowest(&self, rank: usize, seconds: impl Fn(usize) -> f64) -> f64 {
        let sharers = self.ranks.sharers_of_layers(rank);
        sharers.into_iter().map(|sharer| seconds(self.kinds[sharer])).fold(0.0, f64::max)
    }

    /// Where activations are kept on the machine, forward waits until those of the layer before the last have left;
    /// those of backward come back while the layer before computes.
    fn room_or_return(&mut self, own: &Own, pass: Pass, place: u32, layers: &Range<usize>) -> Option<usize> {
        let store = self.plan.offload().activations?;
        match pass.kind {
            StagePass::Forward => own.copied.len().checked_sub(2).map(|index| own.copied[index]),
            StagePass::Backward | StagePass::BackwardInput => {
                let kept = own.kept[&(place, pass.micro_batch, layers.start)];
                let after: Vec<usize> = own.kernels_before(1).into_iter().chain([kept]).collect();
                let bytes = self.plan.kept_activations(layers);
                Some(self.copy(own, (CopyDirection::HostToDevice, store), bytes, &after))
            }
            StagePass::BackwardWeight => None,
        }
    }

    fn keep(&mut self, own: &mut Own, pass: Pass, place: u32, layers: &Range<usize>) {
        let Some(store) = self.plan.offload().activations.filter(|_| pass.kind == StagePass::Forward) else { return };
        let after: Vec<usize> = own.kernels_before(0).into_iter().collect();
        let copied = self.copy(own, (CopyDirection::DeviceToHost, store), self.plan.kept_activations(layers), &after);
        own.copied.push(copied);
        own.kept.insert((place, pass.micro_batch, layers.start), copied);
    }

    /// Bytes between a rank and its machine.
    pub(crate) fn copy(
        &mut self,
        own: &Own,
        (way, store): (CopyDirection, Store),
        bytes: Bytes,
        after: &[usize],
    ) -> usize {
        let stage = StageId(own.stage);
        let stream = if way == CopyDirection::DeviceToHost { Stream::CopyOut } else { Stream::CopyIn };
        let work = Work::Copy { stage, way, store, bytes };
        self.communicate(own, stream, work, &[own.rank], Activity::Copy { stage, way }, after)
    }

    /// Kernels of a rank.
    pub(crate) fn kernels(&mut self, own: &Own, label: Activity, after: &[usize], seconds: f64) -> usize {
        let what = What::Kernels { rank: own.rank, seconds };
        self.draft.call((own.rank, Stream::Compute), &[own.rank], label, after, what)
    }

    /// What a rank does with these others, itself among them.
    pub(crate) fn communicate(
        &mut self,
        own: &Own,
        stream: Stream,
        work: Work,
        members: &[usize],
        label: Activity,
        after: &[usize],
    ) -> usize {
        let what = self.communication(work, members);
        self.draft.call((own.rank, stream), members, label, after, what)
    }

    /// What a communication of these ranks asks of links, as given.
    fn communication(&mut self, work: Work, members: &[usize]) -> What {
        let costs = self.costs;
        let asked = self.asked.entry(work).or_insert_with(|| costs.communications(work).expect("priced"));
        let sorted = |ranks: &mut dyn Iterator<Item = usize>| {
            let mut ranks: Vec<usize> = ranks.collect();
            ranks.sort_unstable();
            ranks
        };
        let wanted = sorted(&mut members.iter().copied());
        let numbers = |placed: &Placed| sorted(&mut placed.0.iter().map(|Rank(rank)| *rank as usize));
        let found = asked.iter().find(|placed| numbers(placed) == wanted);
        let (_, operation) = found.unwrap_or_else(|| panic!("nobody says what {work:?} of {members:?} asks for"));
        let is_collective = matches!(work, Work::Exchange(_) | Work::ReduceShared { .. });
        What::Communication { members: members.to_vec(), operation: operation.clone(), is_collective }
    }

    /// Whether the holders of copies share out this state, or more.
    pub(crate) fn shares_out(&self, state: StateSharding) -> bool {
        self.plan.state_sharding() >= state && self.ranks.shard() > 1
    }
}

fn label(stage: StageId, pass: Pass) -> Activity {
    let micro_batch = pass.micro_batch;
    match pass.kind {
        StagePass::Forward => Activity::Forward { stage, micro_batch },
        StagePass::Backward | StagePass::BackwardInput => Activity::Backward { stage, micro_batch },
        StagePass::BackwardWeight => Activity::BackwardWeights { stage, micro_batch },
    }
}
