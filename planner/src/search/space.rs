//! The search space: every plan that could be built, in canonical order. Each divisibility rule is stated once.
//!
//! Left out, because a search has better things to do, are plans that no goal of ours prefers:
//!
//! - Half precision where the GPUs multiply brain floats as fast: those need the same time and memory and no loss
//!   scaling.
//! - Gradients that are shared out but summed once a step after several micro-batches: they are whole until then.
//! - Context parallelism with less than thousands of tokens for each rank.
//! - What changes the training itself or rarely pays: weights of two versions (2bw), gradients compressed to less than half
//!   precision, state shared out among some replicas, other placements and algorithms of collectives. They are there when
//!   they are held.
//! - GPipe where there is 1F1B, which takes as long and holds less; ZB-V, and more than four chunks of layers on a stage.
//!
//! What the stack of a choice does not run is not in the space at all.

use crate::problem::{Place, Problem, software_of, with_chosen_attention};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use trainyard_hardware_profiles::{Cluster, Gpu, Rate};
use trainyard_models::Divisible;
use trainyard_plan::operators::{LayerRole, OperatorGraph, Pass};
use trainyard_plan::{
    Architecture, BatchSpec, Executable, Fixed, GradientCompression, GradientReduction, Offload, ParallelSpec,
    Placement, Plan, PlanSpec, Precision, Recompute, ScheduleName, Sought, StageSpec, StateSharding, StepSize,
    divisors, greatest_common_divisor,
};
use trainyard_sim::Machine;

/// The largest micro-batches that are considered: so many samples, or, of models that compute less for each, so many
/// that their arithmetic forward takes a third of a second on an A100. Beyond that a GPU is long saturated.
const MICRO_MAX: u64 = 256;

const MICRO_FLOPS_MAX: f64 = 1e14;

/// Chunks of layers on a stage that are considered: more of them shorten the bubble by less and less.
const CHUNKS_MAX: u32 = 4;

/// The fewest tokens of a sample that a rank keeps for itself: with fewer, passing keys and values round takes longer
/// than attention on them. A stated default.
const CONTEXT_TOKENS_MIN: u64 = 4096;

/// The part of a plan that decides how long a layer takes, and how often it runs. Plans that share a candidate share
/// its coarse bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Index among the choices of the place: a type of machine with a stack.
    pub(crate) choice: usize,
    pub(crate) instances: u32,
    pub(crate) parallel: ParallelSpec,
    pub(crate) batch: BatchSpec,
    pub(crate) precision: Precision,
    pub(crate) recompute: Recompute,
    /// Number of variants.
    pub(crate) plans: u32,
}

/// The other fields of a plan, except the cut into stages, which follows from software, costs and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) schedule: ScheduleName,
    pub(crate) virtual_stages: u32,
    pub(crate) state_sharding: StateSharding,
    /// Number of replicas over which the state is sharded, if not all.
    pub(crate) sharding_ranks: Option<u32>,
    pub(crate) gradient_reduction: GradientReduction,
    pub(crate) gradient_compression: GradientCompression,
    pub(crate) offload: Offload,
}

impl Variant {
    /// No pipeline, no sharding, no offload.
    pub(crate) const PLAIN: Self = Self {
        schedule: ScheduleName::None,
        virtual_stages: 1,
        state_sharding: StateSharding::None,
        sharding_ranks: None,
        gradient_reduction: GradientReduction::Step,
        gradient_compression: GradientCompression::None,
        offload: Offload::NONE,
    };

    /// Returns `true` if the replicas share their state out.
    pub(crate) fn shares_out(&self) -> bool {
        self.state_sharding != StateSharding::None
    }
}

/// All plans of a problem that have the held fields.
pub(crate) struct Space<'a> {
    problem: &'a Problem,
    fixed: Fixed,
    /// The same without what is held of the input pipeline, which follows from the plan.
    held: Fixed,
    /// The model as computed on each choice.
    architectures: Vec<Arc<Architecture>>,
    /// The plans that the stack of each choice can run.
    software: Vec<Executable>,
    /// One machine of each choice, or all of a mixed cluster.
    alone: Vec<Machine>,
    /// The largest micro-batch that is considered.
    largest_micro_batch: u64,
    /// Machines by type and number, which many candidates share.
    machines: Mutex<BTreeMap<(usize, u32), Arc<Machine>>>,
}

impl<'a> Space<'a> {
    pub(crate) fn new(problem: &'a Problem, fixed: &Fixed) -> Self {
        let choices = 0..problem.place.choices().len();
        let machine = |choice| problem.place.machine(choice, 1, fixed.encrypted);
        let alone: Vec<Machine> = choices.map(machine).collect();
        let architectures = architectures(problem, &alone);
        let largest_micro_batch = largest_micro_batch(&architectures[0]);
        let software = alone.iter().map(|machine| software_of(problem.trained(), machine));
        Self {
            problem,
            fixed: fixed.clone(),
            held: fixed.clone().without_input(),
            architectures,
            software: software.collect(),
            alone,
            largest_micro_batch,
            machines: Mutex::default(),
        }
    }

    /// All candidates, each with at least one variant.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        self.sites().into_par_iter().flat_map_iter(|site| self.candidates_on(site)).collect()
    }

    /// Returns `true` if there is a plan at all.
    pub(crate) fn has_plans(&self) -> bool {
        self.sites().into_par_iter().any(|site| !self.candidates_on(site).is_empty())
    }

    /// Lists the choices with the numbers of their machines that are considered.
    pub(crate) fn sites(&self) -> Vec<(usize, u32)> {
        self.problem
            .place
            .choices()
            .into_iter()
            .enumerate()
            .filter(|(choice, (name, _))| {
                self.fixed.instance.as_ref().is_none_or(|held| held == name)
                    && self.refusal(*choice).is_none()
                    && self.software(*choice).refused_model(&self.problem.model).is_none()
            })
            .flat_map(|(choice, (_, most))| {
                let mut counts = machine_counts(&self.problem.place, &self.alone[choice], self.fixed.instances, most);
                if self.problem.effort.is_some() && self.fixed.instances.is_none() {
                    counts.retain(|count| *count == most || is_round(*count));
                }
                counts.into_iter().map(move |instances| (choice, instances))
            })
            .collect()
    }

    /// Lists the candidates on this many machines of a type.
    pub(super) fn candidates_on(&self, (choice, instances): (usize, u32)) -> Vec<Candidate> {
        let alone = &self.alone[choice];
        let precisions = self.precisions(choice, alone);
        let devices = devices_of_each(&alone.cluster);
        let software = self.software(choice);
        let mut all = Vec::new();
        for ranks in rank_counts(&alone.cluster, instances) {
            for parallel in self.degrees(software, ranks, devices) {
                self.push(&mut all, (choice, instances), parallel, &precisions);
            }
        }
        all
    }

    /// Returns the model's layers, with the attention kernel of the first choice: the number of layers and their
    /// divisibility are the same for all choices.
    pub(crate) fn graph(&self) -> &OperatorGraph {
        self.architectures[0].graph()
    }

    /// Returns the model as a choice computes it.
    pub(crate) fn graph_of(&self, choice: usize) -> &OperatorGraph {
        self.architectures[choice].graph()
    }

    /// Returns the plans that the stack of a choice can run.
    pub(crate) fn software(&self, choice: usize) -> &Executable {
        &self.software[choice]
    }

    /// Counts the layers of the model, including the first and the last.
    pub(crate) fn layers(&self) -> usize {
        self.graph().len()
    }

    pub(crate) fn problem(&self) -> &Problem {
        self.problem
    }

    pub(crate) fn fixed(&self) -> &Fixed {
        &self.fixed
    }

    pub(crate) fn placement(&self) -> Placement {
        self.fixed.placement.unwrap_or_default()
    }

    pub(crate) fn machine(&self, candidate: &Candidate) -> Arc<Machine> {
        self.machine_of(candidate.choice, candidate.instances)
    }

    /// Numbers the types of machine under each of the stacks.
    pub(super) fn choices(&self) -> Range<usize> {
        0..self.alone.len()
    }

    /// Finds for each choice the first one with the same model, software and kind of device that is also the `same`.
    pub(super) fn first_alike(&self, same: impl Fn(&Machine, &Machine) -> bool) -> Vec<usize> {
        let both_gpus = |one: &Machine, other: &Machine| {
            [one, other].iter().all(|machine| machine.cluster.first().device.gpu().is_some())
        };
        let alike = |a: usize, b: usize| {
            let (one, other) = (&self.alone[a], &self.alone[b]);
            let computed = Arc::ptr_eq(&self.architectures[a], &self.architectures[b]);
            both_gpus(one, other) && computed && one.stack == other.stack && same(one, other)
        };
        let mut kinds: Vec<usize> = Vec::new();
        let first = |choice: usize| {
            let known = kinds.iter().copied().find(|known| alike(*known, choice));
            known.unwrap_or_else(|| {
                kinds.push(choice);
                choice
            })
        };
        self.choices().map(first).collect()
    }

    /// Returns `true` if the software of a choice has models of its own, whose stages have as many blocks each unless
    /// it is given a list of them.
    pub(super) fn cuts_evenly(&self, choice: usize) -> bool {
        self.alone[choice].stack.runs.own_models
    }

    /// Returns `true` if weights can be brought into such stages: a converter of checkpoints makes those of as many
    /// blocks each, with one run of layers.
    fn loads_into(&self, choice: usize, pipeline: u32, virtual_stages: u32) -> bool {
        let converted = self.problem.loads_weights && self.cuts_evenly(choice) && pipeline > 1;
        !converted || (virtual_stages == 1 && self.blocks().is_multiple_of(pipeline))
    }

    /// Returns the model as computed on each choice.
    pub(super) fn architectures(&self) -> &[Arc<Architecture>] {
        &self.architectures
    }

    /// Returns a plan with everything that all plans of the space have in common.
    pub(super) fn common(&self) -> PlanSpec {
        let parallel = ParallelSpec::default();
        let batch = BatchSpec { global: 1, micro: 1, accumulation: 1 };
        let (precision, recompute) = (Precision::Fp32, Recompute::None);
        let any = Candidate { choice: 0, instances: 1, parallel, batch, precision, recompute, plans: 1 };
        self.spec(&any, &Variant::PLAIN, Vec::new(), &self.alone[0])
    }

    /// Returns one machine of a choice, or all of a mixed cluster.
    pub(super) fn alone(&self, choice: usize) -> &Machine {
        &self.alone[choice]
    }

    pub(super) fn machine_of(&self, choice: usize, instances: u32) -> Arc<Machine> {
        let known = || self.machines.lock().expect("nobody panics while machines are looked up");
        if let Some(machine) = known().get(&(choice, instances)) {
            return machine.clone();
        }
        let machine = Arc::new(self.problem.place.machine(choice, instances, self.fixed.encrypted));
        known().entry((choice, instances)).or_insert(machine).clone()
    }

    /// Builds a plan in its written form, with its model cut into these runs of layers.
    /// What neither candidate nor variant decides is as it is held, or plain.
    fn spec(&self, candidate: &Candidate, variant: &Variant, stages: Vec<StageSpec>, machine: &Machine) -> PlanSpec {
        let model = self.architectures[candidate.choice].model().spec();
        let cluster = self.problem.place.spec_of(&machine.cluster);
        let mut held = PlanSpec::plain(model, cluster.clone(), 0);
        self.held.write(&mut held).expect("nothing of how samples are brought in is held");
        PlanSpec {
            cluster,
            parallel: candidate.parallel,
            batch: candidate.batch,
            schedule: variant.schedule,
            virtual_stages: variant.virtual_stages,
            stages,
            stack: self.named_stack(candidate.choice),
            precision: candidate.precision,
            recompute: candidate.recompute,
            state_sharding: variant.state_sharding,
            sharding_ranks: variant.sharding_ranks,
            gradient_reduction: variant.gradient_reduction,
            gradient_compression: variant.gradient_compression,
            offload: variant.offload,
            optimizer: self.problem.optimizer,
            fine_tuning: self.problem.fine_tuning.clone(),
            pricing: self.problem.place.pricing(),
            service: self.problem.place.service().map(|service| service.name().into()),
            ..held
        }
    }

    /// Builds the plan of a variant with these runs of layers; `None` if a count exceeds the limits of plans.
    pub(crate) fn plan(
        &self,
        candidate: &Candidate,
        variant: &Variant,
        stages: Vec<StageSpec>,
        machine: &Machine,
    ) -> Option<Plan> {
        Plan::of(self.architectures[candidate.choice].clone(), self.spec(candidate, variant, stages, machine)).ok()
    }

    fn measured(&self) -> bool {
        self.problem.place.is_measured()
    }

    /// Returns the stack as plans name it; `None` for a measured machine, which has only its own.
    fn named_stack(&self, choice: usize) -> Option<String> {
        (!self.measured()).then(|| self.problem.place.software(choice).name.clone())
    }

    /// Lists the number formats of the job that all GPUs have units for.
    fn precisions(&self, choice: usize, machine: &Machine) -> Vec<Precision> {
        let (held, runs) = (self.fixed.precision, &self.software(choice).precisions);
        let wanted = self.problem.precisions.iter().copied().filter(|own| held.is_none_or(|held| held == *own));
        let open = |own: &Precision| held.is_some() || self.problem.unless_named(*own).is_none();
        let wanted = wanted.filter(|own| runs.contains(own) && open(own));
        let mut all: Vec<Precision> = wanted.filter(|precision| machine.has_units(*precision).is_ok()).collect();
        if all.contains(&Precision::Bf16Mixed) && gpus(machine).all(|gpu| gpu.peak(Rate::Bf16) >= gpu.peak(Rate::Fp16))
        {
            all.retain(|precision| *precision != Precision::Fp16Mixed);
        }
        all
    }

    /// Lists degrees whose product is `ranks`. A tensor-parallel group stays inside a machine and splits the heads
    /// evenly; a stage has at least one layer; tokens and experts are divided evenly.
    fn degrees(&self, software: &Executable, ranks: u32, devices: u32) -> Vec<ParallelSpec> {
        let pipelined = software.schedules.iter().any(|name| name.is_pipelined());
        let stages = if pipelined { self.most_stages() } else { 1 };
        let has_experts = matches!(self.graph().divisible(), Some(Divisible::Experts(_)));
        let needs_sequence = software.experts_need_sequence && has_experts;
        let mut all = Vec::new();
        for tensor in divisors_of(ranks).filter(|tensor| self.splits_heads(software, *tensor, devices)) {
            for pipeline in divisors_of(ranks / tensor).filter(|pipeline| *pipeline as usize <= stages) {
                let rest = ranks / tensor / pipeline;
                for context in divisors_of(rest).filter(|context| self.splits_tokens(software, *context)) {
                    let data = rest / context;
                    let folded_experts = software.folds_experts && has_experts && tensor * context > 1;
                    let plain =
                        ParallelSpec { data, tensor, pipeline, context, folded_experts, ..ParallelSpec::default() };
                    let copies = if folded_experts { data * context } else { data };
                    let all_experts = divisors_of(copies).map(|expert| ParallelSpec { expert, ..plain });
                    for plain in all_experts.filter(|parallel| self.splits_experts(software, *parallel)) {
                        if tensor == 1 || !needs_sequence {
                            all.push(plain);
                        }
                        if tensor > 1 && software.sequence && self.splits_sequence(tensor * context) {
                            all.push(ParallelSpec { sequence: true, ..plain });
                        }
                    }
                }
            }
        }
        all
    }

    /// Returns the most stages of a pipeline: on GPUs a stage has at least one block, since one that only embeds or
    /// only scores tokens would idle.
    fn most_stages(&self) -> usize {
        let blocks = self.blocks() as usize;
        if self.measured() || blocks == 0 { self.graph().len() } else { blocks }
    }

    pub(super) fn blocks(&self) -> u32 {
        blocks(self.graph())
    }

    fn splits_heads(&self, software: &Executable, tensor: u32, devices: u32) -> bool {
        let heads = self.problem.model.tensor_heads();
        let evenly = || heads.is_some_and(|heads| heads.is_multiple_of(u64::from(tensor)));
        tensor == 1 || (software.tensor && devices.is_multiple_of(tensor) && evenly())
    }

    /// Returns `true` if so many ranks, those of a tensor group and those that have other tokens, can split the tokens of
    /// what each would compute in full without sequence parallelism. The executor gives each rank equally many tokens.
    fn splits_sequence(&self, ranks: u32) -> bool {
        let tokens = || self.graph().tokens_shared_by_context();
        !self.measured() || tokens().is_none_or(|tokens| tokens.is_multiple_of(u64::from(ranks)))
    }

    fn splits_tokens(&self, software: &Executable, context: u32) -> bool {
        if context == 1 {
            return true;
        }
        let Some(tokens) = self.graph().tokens_shared_by_context() else { return false };
        let parts = u64::from(context);
        let sensible = self.fixed.context == Some(context) || tokens / parts >= CONTEXT_TOKENS_MIN;
        software.context && tokens.is_multiple_of(parts) && sensible
    }

    fn splits_experts(&self, software: &Executable, parallel: ParallelSpec) -> bool {
        let (divisible, ranks) = (self.graph().divisible(), parallel.expert_ranks());
        let admitted = || divisible.is_some_and(|divisible| divisible.admits(u64::from(ranks)));
        ranks == 1 || (software.distributes(divisible) && admitted())
    }

    fn push(
        &self,
        all: &mut Vec<Candidate>,
        (choice, instances): (usize, u32),
        parallel: ParallelSpec,
        precisions: &[Precision],
    ) {
        let most = self.largest_micro_batch;
        let hasty = self.problem.effort.is_some() && self.fixed.micro.is_none() && self.fixed.accumulation.is_none();
        let replicas = u64::from(parallel.data);
        for global in self.global_batches(replicas) {
            let replica = global / replicas;
            let mut sizes = divisors(replica);
            sizes.retain(|micro| *micro <= most && (!hasty || micro.is_power_of_two()));
            for micro in sizes {
                let batch = BatchSpec { global, micro, accumulation: replica / micro };
                let variants = self.variants(choice, parallel, batch);
                for (precision, recompute) in self.formats(choice, parallel, precisions) {
                    let runs = |variant: &&Variant| self.runs(choice, variant, (precision, recompute));
                    let plans = variants.iter().filter(runs).count() as u32;
                    let candidate = Candidate { choice, instances, parallel, batch, precision, recompute, plans };
                    if plans > 0 && candidate.has(&self.fixed) {
                        all.push(candidate);
                    }
                }
            }
        }
    }

    /// Lists the global batches of so many replicas: the one that is held, or those that are tried.
    fn global_batches(&self, replicas: u64) -> Vec<u64> {
        let allowed = self.problem.global_batches;
        match self.fixed.global.filter(|held| allowed.allow(*held)) {
            Some(held) => Some(held).filter(|held| held.is_multiple_of(replicas)).into_iter().collect(),
            None => allowed.over(replicas),
        }
    }

    fn formats(
        &self,
        choice: usize,
        parallel: ParallelSpec,
        precisions: &[Precision],
    ) -> impl Iterator<Item = (Precision, Recompute)> {
        let software = self.software(choice);
        let formats = precisions
            .iter()
            .filter(move |own| parallel.expert_ranks() == 1 || software.expert_precisions.contains(own));
        formats.flat_map(|precision| software.recompute.iter().map(|kind| (*precision, *kind)))
    }

    /// Lists the variants of a candidate: for each schedule, the less sharded ones first.
    pub(crate) fn variants_of(&self, candidate: &Candidate) -> Vec<Variant> {
        let mut all = self.variants(candidate.choice, candidate.parallel, candidate.batch);
        all.retain(|variant| self.runs(candidate.choice, variant, (candidate.precision, candidate.recompute)));
        all
    }

    /// Returns `true` if a variant is there in a number format and with what is recomputed.
    fn runs(&self, choice: usize, variant: &Variant, (precision, recompute): (Precision, Recompute)) -> bool {
        self.software(choice).offloads_with(variant.offload, recompute)
            && (self.fixed.gradient_compression.is_some() || variant.gradient_compression.suits(precision))
    }

    /// Lists the variants with these degrees and batch, whatever the number format and what is recomputed.
    fn variants(&self, choice: usize, parallel: ParallelSpec, batch: BatchSpec) -> Vec<Variant> {
        let mut all = Vec::new();
        let states = self.states(choice, parallel, batch.accumulation);
        let schedules = self.schedules(choice, parallel.pipeline, batch.accumulation).into_iter();
        for (schedule, virtual_stages) in
            schedules.filter(|(_, runs)| self.loads_into(choice, parallel.pipeline, *runs))
        {
            for states in &states {
                let variant = Variant { schedule, virtual_stages, ..*states };
                if variant.has(&self.fixed) && self.is_simulable(&variant, parallel, batch) {
                    all.push(variant);
                }
            }
        }
        all
    }

    fn is_simulable(&self, variant: &Variant, parallel: ParallelSpec, batch: BatchSpec) -> bool {
        let gathers = variant.state_sharding == StateSharding::Parameters || variant.offload.parameters.is_some();
        let size = StepSize {
            schedule: variant.schedule,
            accumulation: batch.accumulation,
            chunks: u64::from(parallel.pipeline) * u64::from(variant.virtual_stages),
            gathered_layers: if gathers { self.graph().len() as u64 } else { 0 },
        };
        size.is_simulable()
    }

    /// Lists the schedules with the number of chunks on each stage, single chunks first. Every chunk has a layer, and
    /// the step as many micro-batches as the schedule needs.
    fn schedules(&self, choice: usize, pipeline: u32, accumulation: u64) -> Vec<(ScheduleName, u32)> {
        if pipeline == 1 {
            return vec![(ScheduleName::None, 1)];
        }
        let runs = &self.software(choice).schedules;
        let instead = self.measured() || !runs.contains(&ScheduleName::OneForwardOneBackward);
        let sought = |schedule: &ScheduleName| {
            self.fixed.schedule == Some(*schedule)
                || match schedule.sought() {
                    Sought::Always => true,
                    Sought::InsteadOf1F1B => instead,
                    Sought::Held => false,
                }
        };
        let admitted = |schedule: &ScheduleName| {
            schedule.is_pipelined() && schedule.accumulation().admits(accumulation, u64::from(pipeline))
        };
        let most = self.most_stages() as u64;
        let has_layers = |chunks: &u32| u64::from(pipeline) * u64::from(*chunks) <= most;
        let ours = |own: &ScheduleName| runs.contains(own) && admitted(own) && sought(own);
        let mut all: Vec<ScheduleName> = ScheduleName::ALL.iter().copied().filter(ours).collect();
        all.sort_unstable_by_key(|schedule| (*schedule.chunks().start(), schedule.sought(), *schedule));
        let chunks = |schedule: ScheduleName| {
            let (fewest, most) = schedule.chunks().into_inner();
            let chunks = match self.fixed.virtual_stages {
                Some(held) if schedule.is_interleaved() => held.max(fewest)..=held,
                _ => fewest..=most.min(CHUNKS_MAX),
            };
            chunks.filter(has_layers).map(move |chunks| (schedule, chunks))
        };
        all.into_iter().flat_map(chunks).collect()
    }

    /// Lists the variants of state sharding, sharding group, gradient reduction, form of gradients and offload, the least
    /// sharded first.
    fn states(&self, choice: usize, parallel: ParallelSpec, accumulation: u64) -> Vec<Variant> {
        let (software, copies) = (self.software(choice), parallel.data * parallel.context);
        let mut all = Vec::new();
        let shardings = software.state_sharding.iter().copied();
        for state_sharding in shardings.filter(|sharding| software.shards(*sharding, parallel.expert)) {
            let alone = copies == 1;
            for sharding_ranks in self.sharding_groups(choice, state_sharding, parallel) {
                for gradient_reduction in self.reductions(software, state_sharding, accumulation) {
                    let offloads = software.offloads.iter().filter(|(_, least)| state_sharding >= *least);
                    // A single rank has nobody to shard its state with, though some software calls it sharded if it
                    // offloads it. What a measured machine keeps in main memory stays there.
                    let sensible = |offload: &Offload| {
                        let kept = *offload != Offload::NONE;
                        (!alone || state_sharding == StateSharding::None || kept)
                            && (!kept || !self.measured() || self.fixed.offload.is_some())
                    };
                    let compressions = self.compressions(choice, state_sharding, copies);
                    let offloads = offloads.map(|(offload, _)| *offload).filter(sensible);
                    all.extend(offloads.flat_map(|offload| {
                        compressions.iter().map(move |gradient_compression| Variant {
                            state_sharding,
                            sharding_ranks,
                            gradient_reduction,
                            gradient_compression: *gradient_compression,
                            offload,
                            ..Variant::PLAIN
                        })
                    }));
                }
            }
        }
        all
    }

    /// Lists the forms in which replicas sum gradients: as the software does it and, where that is in single precision and it
    /// has a hook for it, in a format of two bytes, which other software takes of its own.
    fn compressions(&self, choice: usize, sharding: StateSharding, copies: u32) -> Vec<GradientCompression> {
        if let Some(held) = self.fixed.gradient_compression {
            return vec![held];
        }
        let stack = &self.alone[choice].stack;
        let is_wide = !stack.compute_precision_gradients.value && stack.runs.gradient_compression.is_some();
        if self.measured() || copies == 1 || sharding != StateSharding::None || !is_wide {
            return vec![GradientCompression::None];
        }
        let runs = &self.software(choice).gradient_compression;
        let sought = [GradientCompression::None, GradientCompression::Fp16, GradientCompression::Bf16];
        sought.into_iter().filter(|form| runs.contains(form)).collect()
    }

    /// Lists the offloads that plans of a choice may use.
    pub(crate) fn offloads(&self, choice: usize) -> Vec<Offload> {
        if let Some(held) = self.fixed.offload {
            return vec![held];
        }
        let all = self.software(choice).offloads.iter().map(|(offload, _)| *offload);
        all.filter(|offload| *offload == Offload::NONE || !self.measured()).collect()
    }

    /// Lists the numbers of replicas over which a state may be sharded: all, or those of each machine where there are
    /// several.
    fn sharding_groups(&self, choice: usize, sharding: StateSharding, parallel: ParallelSpec) -> Vec<Option<u32>> {
        let copies = parallel.data * parallel.context;
        let divides = |ranks: u32| {
            sharding != StateSharding::None && copies.is_multiple_of(ranks) && (parallel.expert == 1 || ranks == copies)
        };
        if let Some(held) = self.fixed.sharding_ranks {
            let software = self.software(choice);
            let of_machine =
                software.hybrid_sharding && held == self.alone[choice].cluster.first().devices_per_instance;
            let grouped = self.measured() || software.any_sharding_groups || of_machine;
            return if grouped && divides(held) { vec![Some(held)] } else { Vec::new() };
        }
        let neighbours = Some(self.alone[choice].cluster.first().devices_per_instance).filter(|devices| {
            let ordinary = self.software(choice).hybrid_sharding && !self.measured() && *devices > 1;
            let alone = parallel.tensor == 1 && parallel.pipeline == 1 && parallel.context == 1;
            ordinary && alone && copies > *devices && divides(*devices)
        });
        std::iter::once(None).chain(neighbours.map(Some)).collect()
    }

    fn reductions(&self, software: &Executable, sharding: StateSharding, accumulation: u64) -> Vec<GradientReduction> {
        use GradientReduction::{MicroBatch, Step};
        let runs = |reduction: &GradientReduction| software.reduces(*reduction, sharding, accumulation);
        if let Some(held) = self.fixed.gradient_reduction {
            return if runs(&held) { vec![held] } else { Vec::new() };
        }
        if accumulation == 1 {
            return vec![Step];
        }
        // Whole gradients are summed after each micro-batch for nothing.
        let sharded = |reduction: &GradientReduction| sharding >= StateSharding::Gradients || *reduction == Step;
        [Step, MicroBatch].into_iter().filter(runs).filter(sharded).collect()
    }
}

/// Returns the model as each choice of a problem computes it; choices that compute it alike share it.
fn architectures(problem: &Problem, machines: &[Machine]) -> Vec<Arc<Architecture>> {
    let mut known: Vec<Arc<Architecture>> = vec![problem.architecture(problem.model.clone())];
    let on = |machine: &Machine| {
        if problem.states_attention {
            return known[0].clone();
        }
        let model = with_chosen_attention(&problem.model, machine);
        if let Some(own) = known.iter().find(|own| *own.model() == model) {
            return own.clone();
        }
        known.push(problem.architecture(model));
        known[known.len() - 1].clone()
    };
    machines.iter().map(on).collect()
}

/// Tells of each layer of a model whether it is one of those that repeat.
pub(crate) fn repeated(graph: &OperatorGraph) -> Vec<bool> {
    graph.layers().map(|layer| layer.role == LayerRole::Block).collect()
}

/// Counts the repeated layers of a model.
pub(super) fn blocks(graph: &OperatorGraph) -> u32 {
    let is_block = |kind: &&usize| graph.distinct()[**kind].role == LayerRole::Block;
    graph.order().iter().filter(is_block).count() as u32
}

fn largest_micro_batch(architecture: &Architecture) -> u64 {
    let saturating = (MICRO_FLOPS_MAX / architecture.graph().flops(Pass::Forward).0.max(1.0)) as u64;
    saturating.max(MICRO_MAX).min(architecture.micro_batch_max())
}

fn gpus(machine: &Machine) -> impl Iterator<Item = &Gpu> {
    machine.cluster.pools.iter().filter_map(|pool| pool.device.gpu())
}

/// Lists the numbers of machines to choose from, at most `most`. A mixed cluster is used whole; rented machines may be
/// held at any number.
fn machine_counts(place: &Place, alone: &Machine, held: Option<u32>, most: u32) -> Vec<u32> {
    match (place, held) {
        (Place::Rented(_), Some(held)) => vec![held],
        (Place::Owned { .. }, _) if alone.cluster.is_mixed() => {
            Some(most).filter(|all| *all > 0 && held.is_none_or(|held| held == *all)).into_iter().collect()
        }
        _ => (1..=most).filter(|count| held.is_none_or(|held| held == *count)).collect(),
    }
}

/// Returns `true` if a number of machines has at most two binary digits before its zeros: 1, 2, 3, 4, 6, 8, 12, 16, 24,
/// 32. While no proof is wanted, other numbers can wait: replicas and stages seldom divide evenly by them.
fn is_round(count: u32) -> bool {
    count.ilog2() - count.trailing_zeros() < 2
}

/// Devices of a machine, or, where machines differ, the most that divides those of each.
fn devices_of_each(cluster: &Cluster) -> u32 {
    let devices = cluster.pools.iter().map(|pool| u64::from(pool.devices_per_instance));
    devices.fold(0, greatest_common_divisor) as u32
}

/// Machines are used whole; one that was measured may stay partly idle, each rank then having more threads.
fn rank_counts(alone: &Cluster, instances: u32) -> std::ops::RangeInclusive<u32> {
    let devices = alone.devices() * if alone.is_mixed() { 1 } else { instances };
    if alone.first().device.measured().is_some() { 1..=devices } else { devices..=devices }
}

/// The divisors of a degree.
fn divisors_of(number: u32) -> impl Iterator<Item = u32> {
    divisors(u64::from(number)).into_iter().map(|divisor| divisor as u32)
}

impl Candidate {
    /// Returns `true` if the candidate has the held fields.
    pub(crate) fn has(&self, fixed: &Fixed) -> bool {
        let (parallel, batch) = (self.parallel, self.batch);
        is_held(fixed.data, parallel.data)
            && is_held(fixed.tensor, parallel.tensor)
            && is_held(fixed.pipeline, parallel.pipeline)
            && is_held(fixed.context, parallel.context)
            && is_held(fixed.expert, parallel.expert)
            && is_held(fixed.sequence, parallel.sequence)
            && is_held(fixed.global, batch.global)
            && is_held(fixed.micro, batch.micro)
            && is_held(fixed.accumulation, batch.accumulation)
            && is_held(fixed.precision, self.precision)
            && is_held(fixed.recompute, self.recompute)
    }
}

impl Variant {
    /// Returns `true` if the variant has the held fields.
    pub(crate) fn has(&self, fixed: &Fixed) -> bool {
        is_held(fixed.schedule, self.schedule)
            && is_held(fixed.virtual_stages, self.virtual_stages)
            && is_held(fixed.state_sharding, self.state_sharding)
            && is_held(fixed.gradient_reduction, self.gradient_reduction)
            && is_held(fixed.gradient_compression, self.gradient_compression)
            && is_held(fixed.offload, self.offload)
            && fixed.sharding_ranks.is_none_or(|held| self.sharding_ranks == Some(held))
    }
}

fn is_held<T: PartialEq + Copy>(fixed: Option<T>, value: T) -> bool {
    fixed.is_none_or(|fixed| fixed == value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking;

    fn spaces(model: &str, fixed: &[&str], check: impl Fn(&Space<'_>)) {
        let mut job = asking::training(model, 64);
        // Any plan that can be priced.
        job.cluster.stack = Some("pytorch".into());
        job.data.samples = Some(1000);
        let problem = asking::solvable(&job);
        check(&Space::new(&problem, &asking::held(fixed)));
    }

    #[test]
    fn degrees_multiply_to_the_ranks_and_divide_the_heads() {
        spaces("gpt2-xl", &[], |space| {
            let all = space.degrees(&space.software[0], 16, 8);
            assert!(all.iter().all(|p| p.data * p.tensor * p.pipeline == 16));
            // 25 heads have no even divisor.
            assert!(all.iter().all(|p| p.tensor == 1));
            assert_eq!(all.len(), 5);
        });
    }

    #[test]
    fn tokens_are_shared_by_ranks_only_when_that_is_held_or_there_are_many() {
        let contexts = |fixed: &[&str], wanted: &[u32]| {
            spaces("gpt2-large", fixed, |space| {
                let mut contexts: Vec<u32> =
                    space.degrees(&space.software[0], 16, 8).iter().map(|p| p.context).collect();
                contexts.sort_unstable();
                contexts.dedup();
                assert_eq!(contexts, wanted);
            });
        };
        contexts(&[], &[1]);
        contexts(&["parallel.context=4"], &[1, 4]);
    }

    #[test]
    fn every_variant_of_every_candidate_is_a_valid_plan() {
        for fixed in [
            &["instances=2", "instance=p3.8xlarge"][..],
            &["instances=2", "instance=p3.8xlarge", "sharding_ranks=2", "schedule=interleaved-1f1b"],
            &["instances=1", "instance=p3.8xlarge", "schedule=2bw", "gradient_reduction=micro-batch"],
            &["instances=2", "instance=p3.8xlarge", "parallel.context=4", "virtual_stages=6"],
        ] {
            spaces("gpt2-large", fixed, |space| {
                let candidates = space.candidates();
                assert!(!candidates.is_empty(), "{fixed:?}");
                for candidate in candidates {
                    for variant in space.variants_of(&candidate) {
                        let runs = (candidate.parallel.pipeline * variant.virtual_stages) as usize;
                        let layers = space.graph().len();
                        let ends = (0..=runs).map(|run| run * layers / runs).collect::<Vec<_>>();
                        let stages = ends.windows(2);
                        let stages = stages.map(|ends| StageSpec { first: ends[0], layers: ends[1] - ends[0] });
                        let machine = space.machine(&candidate);
                        let spec = space.spec(&candidate, &variant, stages.collect(), &machine);
                        Plan::try_from(spec).unwrap_or_else(|error| panic!("{candidate:?} {variant:?}: {error}"));
                    }
                }
            });
        }
    }
}
