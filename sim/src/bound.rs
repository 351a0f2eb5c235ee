//! A closed form that no simulation beats.
//!
//! All of it follows from four facts. Streams are in order, so that a longest path with the least duration of each task
//! is a lower bound. A communication takes at least what it takes alone. Kernels that go on beside a collective for
//! `c` seconds lose `c · s / (1 + s)` of them, where `s` is by how much they are slowed, so that kernels of `k` seconds
//! beside collectives of `c` seconds take at least `k + c · s / (1 + s)`. And stages that stand on machines alike pay
//! the same.

use crate::cost::{Costs, LayerTable};
use crate::machine::{Machine, MachineError};
use std::collections::BTreeMap;
use std::ops::Range;
use trainyard_plan::{
    Collective, Content, CopyDirection, Exchange, GradientReduction, ParameterCounts, Plan, Recompute, Segment,
    StageId, StagePass, StateSharding, StepBound, Store, Work,
};
use trainyard_units::{Bytes, Seconds};

/// Layers whose weights may be gathered before the stage computes at all: the first and the one that is fetched ahead.
const GATHERED_AHEAD: f64 = 2.0;

/// Kinds of stages that are remembered: in a plan of few kinds the first ones are all there are.
const KINDS_MAX: usize = 16;

/// A lower bound on the step time of `plan` on `machine`.
///
/// A stage computes all its micro-batches one after another; before the first one reaches it, and after its last
/// backward, that micro-batch goes through all earlier stages and the links between them. Its gradients are reduced
/// after the last micro-batch's forward at the earliest, and then its parameters are updated. Weights that are shared
/// out are gathered for every pass; a forward pass takes at least as long as the gathering of what it needs. Where steps follow each other without draining the pipeline, filling and draining
/// count as far as the first stage waits for them.
///
/// # Errors
///
/// When the machine does not admit the plan or was not measured for it.
pub fn step_time_bound(plan: &Plan, machine: &Machine) -> Result<Seconds, MachineError> {
    step_time_bound_with(plan, machine, &LayerTable::new(plan, machine)?, &mut Communications::default())
}

/// The least time of communication, which plans with the same ranks, number formats and micro-batch share that gather
/// weights alike.
#[derive(Clone, Debug, Default)]
pub struct Communications(BTreeMap<Work, Passing>);

/// The least time from the first rank that begins a communication, or several that follow each other, to the last that
/// ends it (`all`), and of any rank by itself (`any`).
#[derive(Clone, Copy, Debug, Default)]
struct Passing {
    any: Seconds,
    all: Seconds,
}

impl Passing {
    /// This, and then `next`. Who waits longest for the one is not who waits longest for the other, and has the links
    /// to itself by then: only one of them takes as long as all ranks need for it together.
    fn then(self, next: Self) -> Self {
        Self { any: self.any + next.any, all: (self.any + next.all).max(self.all + next.any) }
    }

    /// Both at once.
    fn beside(self, other: Self) -> Self {
        Self { any: self.any.max(other.any), all: self.all.max(other.all) }
    }

    /// Returns the time that all ranks add to any one.
    fn more(self) -> Seconds {
        self.all - self.any
    }
}

impl From<Seconds> for Passing {
    fn from(seconds: Seconds) -> Self {
        Self { any: seconds, all: seconds }
    }
}

/// The same where layers are priced already, and communication as far as it is `known`.
///
/// # Errors
///
/// As [`step_time_bound`].
pub fn step_time_bound_with(
    plan: &Plan,
    machine: &Machine,
    layers: &LayerTable,
    known: &mut Communications,
) -> Result<Seconds, MachineError> {
    let costs = Costs::with_layers(plan, machine, layers.clone())?;
    let slowdown = machine.overlap_slowdown();
    let lost = slowdown / (1.0 + slowdown);
    let mut least = Least { plan, machine, costs: &costs, lost, known };
    let stages = least.stages()?;
    Ok(match plan.schedule().bound() {
        StepBound::Busiest => stages.iter().map(|stage| stage.kernels).fold(Seconds::ZERO, Seconds::max),
        StepBound::Staggered => staggered(&stages, plan.batch().accumulation as f64),
        StepBound::Drained => drained(&stages),
    })
}

/// Steps that drain the pipeline. The first stage's backward ends it; a later stage may update while earlier ones still
/// compute.
fn drained(stages: &[StageLeast]) -> Seconds {
    let (mut before, mut first_reaches, mut bound) = (Seconds::ZERO, Seconds::ZERO, Seconds::ZERO);
    let after_last = stages[0].behind_passes + stages[0].ended;
    for (index, stage) in stages.iter().enumerate() {
        bound = bound.max(first_reaches + stage.reduced + stage.ended);
        if index > 0 {
            // The gradients of the last micro-batch leave before the stage is done with sending them.
            bound = bound.max(before + stage.computed - stage.sent_back + after_last);
        }
        first_reaches += stage.forward + stage.sent_on;
        before += stage.forward + stage.backward + stage.sent_on + stage.returned;
    }
    bound
}

/// Steps of which the next begins on the stages that are done: from the end of one on the first stage to the end of the
/// next. A stage puts the gradients of weights off by as many micro-batches as there are stages before it.
fn staggered(stages: &[StageLeast], micro_batches: f64) -> Seconds {
    let (mut before, mut first_reaches, mut bound) = (Seconds::ZERO, Seconds::ZERO, Seconds::ZERO);
    let after_last = stages[0].weights_reduced + stages[0].ended;
    for (index, stage) in (0..).zip(stages) {
        let put_off = (micro_batches - 1.0 - f64::from(index)).max(0.0);
        let first = if put_off > 0.0 { stage.first_weights } else { Seconds::ZERO };
        let weights = first + stage.weights * (put_off - 1.0).max(0.0);
        let kernels = (stage.forward + stage.backward) * micro_batches + weights;
        let gathered = stage.gathered_for(2.0 * micro_batches);
        let busy = stage.beside(kernels, gathered) + stage.sent_back * (micro_batches - 1.0);
        bound = bound.max(before + busy + after_last).max(stage.kernels);
        first_reaches += stage.forward + stage.sent_on;
        before += stage.forward + stage.backward + stage.sent_on + stage.returned;
    }
    bound = bound.max(stages[0].reduced_each + stages[0].ended);
    // The last stage's copy of a shared table has its gradients before the first stage's is updated.
    let last = &stages[stages.len() - 1];
    let reaches = first_reaches - last.forward - last.sent_on;
    if stages.len() > 1 && last.shared > Seconds::ZERO {
        bound.max(reaches + last.computed + stages[0].ended)
    } else {
        bound
    }
}

/// The least time of one stage.
#[derive(Clone, Copy, Debug)]
struct StageLeast {
    /// One micro-batch forward through its first run.
    forward: Seconds,
    /// The last micro-batch backward through its first run, as far as the stage before waits for it.
    backward: Seconds,
    /// The gradients of a micro-batch's weights, where they are apart, and of the first, which are added to nothing.
    weights: Seconds,
    first_weights: Seconds,
    /// A micro-batch's activations to the next stage.
    sent_on: Seconds,
    /// A micro-batch's gradients from the next stage.
    returned: Seconds,
    /// A micro-batch's gradients to the stage before, where the stage waits for that.
    sent_back: Seconds,
    /// Gathering the weights of all its layers for one pass, and the largest of them.
    gathered: [Seconds; 2],
    /// Set if weights are gathered beside the layers before.
    gathers_beside: bool,
    /// The share of a collective by which it delays the kernels beside it.
    lost: f64,
    /// All passes of all micro-batches.
    kernels: Seconds,
    /// The same with what they wait for.
    computed: Seconds,
    /// From the first pass to the end of the reduction.
    reduced: Seconds,
    /// The same where every micro-batch's gradients are reduced by themselves; else nothing.
    reduced_each: Seconds,
    /// From the stage's last pass to the end of the reduction.
    behind_passes: Seconds,
    /// From the start of its last gradients of weights to the end of the reduction.
    weights_reduced: Seconds,
    /// The sum over the two holders of a shared table.
    shared: Seconds,
    /// From the reduction to the end of the step: that sum, the update, weights gathered and kept anew.
    ended: Seconds,
}

impl StageLeast {
    /// Gatherings of all weights that the kernels of so many passes wait for.
    fn gathered_for(&self, passes: f64) -> Seconds {
        let [all, largest] = self.gathered;
        let ahead = if self.gathers_beside { largest * GATHERED_AHEAD } else { Seconds::ZERO };
        (all * passes - ahead).max(Seconds::ZERO)
    }

    /// Kernels with gatherings beside them, or between them.
    fn beside(&self, kernels: Seconds, gathered: Seconds) -> Seconds {
        if self.gathers_beside { gathered.max(kernels + gathered * self.lost) } else { kernels + gathered }
    }
}

/// Kernels of a stage.
#[derive(Clone, Copy, Debug, Default)]
struct Kernels {
    forward: Seconds,
    backward: Seconds,
    weights: Seconds,
    first_weights: Seconds,
    /// All passes of all micro-batches.
    all: Seconds,
    /// The most time that the last micro-batch's gradients take before their reduction can be under way.
    last: Seconds,
}

/// The least that everything of a plan takes.
struct Least<'a> {
    plan: &'a Plan,
    machine: &'a Machine,
    costs: &'a Costs<'a>,
    lost: f64,
    /// Communication of stages that stand on machines alike.
    known: &'a mut Communications,
}

/// Everything in which stages of a plan may differ.
#[derive(PartialEq)]
struct StageKind<'a> {
    /// Kinds of the layers of each run.
    runs: Vec<&'a [usize]>,
    /// Stages that stand on their machines as this one does, and as the one before it.
    alike: [StageId; 2],
    /// Whether it is the first stage, and the last.
    ends: [bool; 2],
    /// What each of its runs receives and hands on for a micro-batch.
    boundaries: Vec<[Bytes; 2]>,
}

/// Returns the micro-batches whose backward passes may follow the last one's on a run of layers: where a stage has several
/// runs, the last gradients of one come before those of the other runs' last group of micro-batches.
fn following(plan: &Plan) -> f64 {
    if plan.stages().chunks_per_stage() > 1 { f64::from(plan.stages().count()) } else { 1.0 }
}

impl<'a> Least<'a> {
    /// Every stage, those that are alike once.
    fn stages(&mut self) -> Result<Vec<StageLeast>, MachineError> {
        let mut known: Vec<(StageKind<'a>, StageLeast)> = Vec::new();
        let mut all = Vec::new();
        for stage in self.plan.stages().ids() {
            let kind = self.kind(stage);
            if let Some((_, least)) = known.iter().find(|(other, _)| *other == kind) {
                all.push(*least);
                continue;
            }
            let least = self.stage(stage)?;
            all.push(least);
            if known.len() < KINDS_MAX {
                known.push((kind, least));
            }
        }
        Ok(all)
    }

    fn kind(&self, stage: StageId) -> StageKind<'a> {
        let (stages, order) = (self.plan.stages(), self.plan.graph().order());
        let previous = StageId(stage.0.saturating_sub(1));
        let boundaries =
            |run: Range<usize>| [run.start.saturating_sub(1), run.end - 1].map(|layer| self.plan.boundary_bytes(layer));
        StageKind {
            runs: stages.chunks_of(stage).map(|run| &order[run]).collect(),
            alike: [self.alike(stage), self.alike(previous)],
            ends: [stage.0 == 0, stage.0 + 1 == stages.count()],
            boundaries: stages.chunks_of(stage).map(boundaries).collect(),
        }
    }

    fn stage(&mut self, stage: StageId) -> Result<StageLeast, MachineError> {
        let plan = self.plan;
        let micro_batches = plan.batch().accumulation as f64;
        let kernels = self.kernels(stage)?;
        let held = plan.held_by(stage);
        let [sent_on, returned] = self.sent_to_next(stage)?;
        let blocking = self.machine.lowering().blocking_transfers;
        let sent_back = if blocking { self.sent_to_previous(stage)? } else { Seconds::ZERO };
        let own_sends = if blocking { self.sends(stage)? } else { Seconds::ZERO };
        let gathered = self.gathered(stage)?;
        let each = plan.gradient_reduction() == GradientReduction::MicroBatch;
        let reduced = self.reduction(stage, held)?;
        let shared = self.shared(stage)?;
        let updated = shared.then(self.update(stage, held)?).then(self.gathered_anew(stage, held)?);
        let ended = updated.then(self.kept_anew(stage, held)?);
        // One follows the other.
        let (reduction, ended) =
            if reduced.more() > ended.more() { (reduced.all, ended.any) } else { (reduced.any, ended.all) };
        let mut least = StageLeast {
            forward: kernels.forward,
            backward: kernels.backward,
            weights: kernels.weights,
            first_weights: kernels.first_weights,
            sent_on,
            returned,
            sent_back,
            gathered,
            gathers_beside: self.machine.lowering().sharded_overlap,
            lost: self.lost,
            kernels: kernels.all,
            computed: Seconds::ZERO,
            reduced: Seconds::ZERO,
            reduced_each: Seconds::ZERO,
            behind_passes: Seconds::ZERO,
            weights_reduced: kernels.weights,
            shared: shared.all,
            ended,
        };
        let gathering = least.gathered_for(2.0 * micro_batches);
        let waited = self.waits_for_updated(stage, held, kernels.forward)?;
        least.computed = least.beside(kernels.all, gathering) + own_sends * micro_batches + waited;
        least.reduced = least.computed;
        if each {
            // One reduction after another, beside everything else.
            let reductions = reduced.any * (micro_batches - 1.0) + reduction;
            least.reduced = least.reduced.max(reductions).max(kernels.all + reductions * self.lost);
            least.reduced_each = least.reduced;
            return Ok(least);
        }
        let gathers = plan.gathers_weights();
        let beside = self.machine.lowering().bucket.is_some() || gathers;
        // Gradients of the last micro-batches of several runs may be reduced while these are sent on.
        let sent_before = own_sends * (micro_batches - following(plan)).max(0.0);
        let before_sums = least.beside(kernels.all, gathering) + sent_before + waited;
        // Kernels beside a gathering and a reduction at once are slowed once, and the gathering counts already.
        let lost = if gathers { 0.0 } else { self.lost };
        let behind = |last: Seconds| if beside { reduction.max(last + reduction * lost) - last } else { reduction };
        if gathers {
            let before_last = least
                .beside((kernels.all - kernels.last).max(Seconds::ZERO), least.gathered_for(2.0 * micro_batches - 1.0));
            least.reduced = least.reduced.max(before_last + kernels.last + behind(kernels.last));
        } else {
            least.reduced = least.reduced.max(before_sums + behind(kernels.last));
        }
        least.weights_reduced += behind(kernels.weights);
        // Where a stage has several runs, the reductions of the others may long be done.
        least.behind_passes =
            if plan.stages().chunks_per_stage() == 1 || !beside { behind(kernels.last) } else { Seconds::ZERO };
        Ok(least)
    }

    fn kernels(&self, stage: StageId) -> Result<Kernels, MachineError> {
        let plan = self.plan;
        let micro_batches = plan.batch().accumulation as f64;
        let splits = plan.schedule().splits_backward();
        let mut kernels = Kernels::default();
        for (run, layers) in plan.stages().chunks_of(stage).enumerate() {
            let price = |pass, accumulate| {
                let recompute = if pass == StagePass::Forward || pass == StagePass::BackwardWeight {
                    Recompute::None
                } else {
                    plan.recompute()
                };
                let segment = Segment { stage, layers: layers.clone(), pass, recompute, accumulate };
                self.fastest_kind(|pool| self.costs.segment(&segment, pool))
            };
            let forward = price(StagePass::Forward, false)?;
            let (first, again) = (price(StagePass::Backward, false)?, price(StagePass::Backward, true)?);
            kernels.all += forward * micro_batches + first + again * (micro_batches - 1.0);
            let of_run = if plan.batch().accumulation > 1 { again } else { first };
            kernels.last += of_run * following(plan);
            if run == 0 {
                kernels.forward = forward;
                kernels.backward = of_run;
                if splits {
                    kernels.backward = price(StagePass::BackwardInput, false)?;
                    kernels.weights = price(StagePass::BackwardWeight, plan.batch().accumulation > 1)?;
                    kernels.first_weights = price(StagePass::BackwardWeight, false)?;
                }
            }
        }
        Ok(kernels)
    }

    /// The price on the kind of machine where it is lowest.
    fn fastest_kind(&self, price: impl Fn(usize) -> Result<Seconds, MachineError>) -> Result<Seconds, MachineError> {
        let mut fastest = Seconds(f64::INFINITY);
        for pool in 0..self.machine.cluster.pools.len() {
            let seconds = price(pool)?;
            if seconds.0 < fastest.0 {
                fastest = seconds;
            }
        }
        Ok(fastest)
    }

    /// Communication, priced once for stages that stand on machines alike. Where the step is counted on one rank, that
    /// one may be among the fastest.
    fn communication(&mut self, work: Work) -> Result<Passing, MachineError> {
        let known = if let Some(known) = self.known.0.get(&work) {
            *known
        } else {
            let (any, all) = self.costs.at_least(work)?;
            *self.known.0.entry(work).or_insert(Passing { any, all })
        };
        Ok(if self.plan.schedule().flushes() { known } else { known.any.into() })
    }

    fn alike(&self, stage: StageId) -> StageId {
        StageId(self.costs.layout().alike(stage.0))
    }

    /// The transfer of a rank across the boundary behind a run.
    fn transfer(&mut self, from: StageId, to: StageId, layer: usize) -> Result<Seconds, MachineError> {
        let bytes = self.plan.boundary_bytes(layer);
        let alike = self.alike(StageId(from.0.min(to.0)));
        let shifted = |stage: StageId| StageId(alike.0 + stage.0 - from.0.min(to.0));
        Ok(self.communication(Work::Transfer { from: shifted(from), to: shifted(to), bytes })?.any)
    }

    /// From the first run of a stage to that of the next, and back.
    fn sent_to_next(&mut self, stage: StageId) -> Result<[Seconds; 2], MachineError> {
        let next = StageId(stage.0 + 1);
        if next.0 == self.plan.stages().count() {
            return Ok([Seconds::ZERO; 2]);
        }
        let behind = self.plan.stages().chunk(stage, 0).end - 1;
        Ok([self.transfer(stage, next, behind)?, self.transfer(next, stage, behind)?])
    }

    fn sent_to_previous(&mut self, stage: StageId) -> Result<Seconds, MachineError> {
        let Some(previous) = stage.0.checked_sub(1).map(StageId) else { return Ok(Seconds::ZERO) };
        let behind = self.plan.stages().chunk(previous, 0).end - 1;
        self.transfer(stage, previous, behind)
    }

    /// Everything that a stage sends for a micro-batch: what each of its runs hands on, and gradients of what it received.
    fn sends(&mut self, stage: StageId) -> Result<Seconds, MachineError> {
        let stages = self.plan.stages();
        let mut sent = Seconds::ZERO;
        for run in 0..stages.chunks_per_stage() {
            let position = stages.position(stage, run);
            let before = position.checked_sub(1).map(|before| (before, before));
            let behind = (position + 1 < stages.chunks()).then_some((position + 1, position));
            for (other, boundary) in before.into_iter().chain(behind) {
                let to = stages.at(other).0;
                // At the turn of a V the next run is on the same device.
                if to != stage {
                    sent += self.transfer(stage, to, stages.layers_at(boundary).end - 1)?;
                }
            }
        }
        Ok(sent)
    }

    /// Weights of all layers for one pass, and the largest of them.
    fn gathered(&mut self, stage: StageId) -> Result<[Seconds; 2], MachineError> {
        let (mut all, mut largest) = (Seconds::ZERO, Seconds::ZERO);
        if !self.plan.shards(StateSharding::Parameters) {
            return Ok([all, largest]);
        }
        let layers: Vec<usize> = self.plan.stages().chunks_of(stage).flatten().collect();
        for layer in layers {
            let gathered = self.gather(stage, self.plan.held(&(layer..layer + 1)))?.any;
            all += gathered;
            largest = largest.max(gathered);
        }
        Ok([all, largest])
    }

    fn gather(&mut self, stage: StageId, held: ParameterCounts) -> Result<Passing, MachineError> {
        let stage = self.alike(stage);
        let mut gathered = Passing::default();
        for (group, held) in self.plan.gather_groups(held) {
            let exchange =
                Exchange { collective: Collective::AllGather, stage, group, content: Content::Weights, held };
            gathered = gathered.then(self.communication(Work::Exchange(exchange))?);
        }
        Ok(gathered)
    }

    /// Gradients of a stage summed over the holders of copies, for one micro-batch or a step.
    fn reduction(&mut self, stage: StageId, held: ParameterCounts) -> Result<Passing, MachineError> {
        if !self.plan.goes_by_layer() {
            return self.reduce(stage, held);
        }
        let layers: Vec<usize> = self.plan.stages().chunks_of(stage).flatten().collect();
        let mut all = Passing::default();
        for layer in layers {
            all = all.then(self.reduce(stage, self.plan.held(&(layer..layer + 1)))?);
        }
        Ok(all)
    }

    fn reduce(&mut self, stage: StageId, held: ParameterCounts) -> Result<Passing, MachineError> {
        let stage = self.alike(stage);
        let mut longest = Passing::default();
        for chain in self.plan.reductions(held) {
            let mut chained = Passing::default();
            for (collective, group, held) in chain {
                let exchange = Exchange { collective, stage, group, content: Content::Gradients, held };
                chained = chained.then(self.communication(Work::Exchange(exchange))?);
            }
            longest = longest.beside(chained);
        }
        Ok(longest)
    }

    /// The sum over both holders of a table, for the stages that hold it.
    fn shared(&mut self, stage: StageId) -> Result<Passing, MachineError> {
        let (stages, parameters) = (self.plan.stages(), self.plan.shared_on_rank());
        let ends = [stages.at(0).0, stages.at(stages.chunks() - 1).0];
        if parameters == 0 || ends[0] == ends[1] || !ends.contains(&stage) {
            return Ok(Passing::default());
        }
        let held = ParameterCounts { parameters, tensors: 1, matrices: 1, ..ParameterCounts::default() };
        self.communication(Work::ReduceShared { held })
    }

    fn update(&mut self, stage: StageId, held: ParameterCounts) -> Result<Passing, MachineError> {
        let plan = self.plan;
        let held = if plan.shards(StateSharding::Optimizer) { plan.shard_of(held) } else { held };
        let Some(store) = plan.offload().optimizer else {
            return Ok(self.fastest_kind(|pool| self.costs.update(held, pool))?.into());
        };
        let update = self.communication(Work::HostUpdate { stage, store, held })?;
        if self.machine.lowering().gradients_on_host && plan.may_keep_gradients_on_host() {
            return Ok(update);
        }
        let bytes = plan.changed_bytes(held, plan.precision().element_bytes());
        let out =
            self.communication(Work::Copy { stage, way: CopyDirection::DeviceToHost, store: Store::Host, bytes })?;
        Ok(out.then(update))
    }

    /// Updated weights, brought together again where only state and gradients are shared out and no forward pass does it.
    fn gathered_anew(&mut self, stage: StageId, held: ParameterCounts) -> Result<Passing, MachineError> {
        if !self.plan.gathers_updated() || self.gatherings_in_forward() > 0 {
            return Ok(Passing::default());
        }
        self.gather(stage, held.trained())
    }

    /// Forward passes of a step in which updated weights are gathered.
    fn gatherings_in_forward(&self) -> usize {
        let micro_batches = u32::try_from(self.plan.batch().accumulation).unwrap_or(u32::MAX);
        let lowering = self.machine.lowering();
        let [first, second] = [0, 1].map(|micro_batch| lowering.gathers_in_forward(self.plan, micro_batch));
        if second { micro_batches as usize } else { usize::from(first) }
    }

    /// The time that forward passes wait for updated weights, at least: none of them ends before the last of these is
    /// there, and none of these is asked for before the pass begins.
    fn waits_for_updated(
        &mut self,
        stage: StageId,
        held: ParameterCounts,
        forward: Seconds,
    ) -> Result<Seconds, MachineError> {
        let gatherings = self.gatherings_in_forward();
        if gatherings == 0 {
            return Ok(Seconds::ZERO);
        }
        let gathered = self.gather(stage, held.trained())?.any;
        Ok((gathered - forward).max(Seconds::ZERO) * gatherings as f64)
    }

    /// Updated weights, where they are kept elsewhere.
    fn kept_anew(&mut self, stage: StageId, held: ParameterCounts) -> Result<Passing, MachineError> {
        let plan = self.plan;
        let Some(store) = plan.updated_to() else { return Ok(Passing::default()) };
        let bytes = plan.changed_bytes(plan.kept_weights(held), plan.precision().element_bytes());
        self.communication(Work::Copy { stage, way: CopyDirection::DeviceToHost, store, bytes })
    }
}
