//! The search space: every plan that could be built, in canonical order. Each divisibility rule is stated once.
//!
//! Left out, because a search has better things to do, are plans that no goal of ours prefers:
//!
//! - Half precision where the GPUs multiply brain floats as fast: those need the same time and memory and no loss
//!   scaling.
//! - Gradients that are shared out but summed once a step after several micro-batches: they are whole until then.
//! - Ranks that share a sample's tokens, unless each keeps thousands of them.
//! - What changes the training itself or rarely pays: weights of two versions (2bw), compressed gradients, state shared
//!   out among some replicas, other placements and algorithms of collectives. They are there when they are held.
//! - GPipe, which takes as long as 1F1B and holds more; ZB-V and more than two runs of layers on a stage, which ZB-H1 and
//!   two runs come close to. They would double the search, and are there when they are held.
//! - Offloading, which is tried when nothing fits without it.

use crate::fix::Fixed;
use crate::problem::{Place, Problem};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use trainyard_hardware_profiles::{Cluster, Device, Gpu, Rate};
use trainyard_plan::operators::{OperatorGraph, Pass};
use trainyard_plan::{
    Architecture, BatchSpec, Collectives, EXECUTABLE, GradientCompression, GradientReduction, Offload, ParallelSpec,
    Placement, Plan, PlanSpec, Precision, Recompute, ScheduleName, StageSpec, StateSharding, StepSize, divisors,
    greatest_common_divisor,
};
use trainyard_sim::Machine;

/// What decides how long a layer takes, and how often: plans that share a candidate share their coarse bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Which type of machine of the place.
    pub(crate) choice: usize,
    pub(crate) instances: u32,
    pub(crate) parallel: ParallelSpec,
    pub(crate) batch: BatchSpec,
    pub(crate) precision: Precision,
    pub(crate) recompute: Recompute,
    /// How many variants it has.
    pub(crate) plans: u32,
}

/// The rest of a plan: everything but the cut into stages, which follows from costs and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) schedule: ScheduleName,
    pub(crate) virtual_stages: u32,
    pub(crate) state_sharding: StateSharding,
    pub(crate) gradient_reduction: GradientReduction,
}

/// The largest micro-batches that are considered: so many samples, or, of models that compute less for each, so many
/// that their arithmetic forward takes a third of a second on an A100. Beyond that a GPU is long saturated.
const MICRO_MAX: u64 = 256;
const MICRO_FLOPS_MAX: f64 = 1e14;

/// Runs of layers on a stage that are considered: more of them shorten the bubble by less and less.
const RUNS_MAX: u32 = 4;

/// The fewest tokens of a sample that a rank keeps for itself: with fewer, passing keys and values round takes longer
/// than attention on them. A stated default.
const CONTEXT_TOKENS_MIN: u64 = 4096;

/// All plans of a problem that have the held fields.
pub(crate) struct Space<'a> {
    problem: &'a Problem,
    fixed: Fixed,
    architecture: Arc<Architecture>,
    /// The largest micro-batch that is considered.
    largest_micro_batch: u64,
    /// Machines by type and number, which many candidates share.
    machines: Mutex<BTreeMap<(usize, u32), Arc<Machine>>>,
}

impl<'a> Space<'a> {
    pub(crate) fn new(problem: &'a Problem, fixed: &Fixed) -> Self {
        let architecture = Architecture::new(problem.model.clone());
        let largest_micro_batch = largest_micro_batch(&architecture);
        Self { problem, fixed: fixed.clone(), architecture, largest_micro_batch, machines: Mutex::default() }
    }

    /// All candidates, each with at least one variant.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let sites: Vec<(usize, u32)> = self
            .problem
            .place
            .choices()
            .into_iter()
            .enumerate()
            .filter(|(choice, (name, _))| {
                self.fixed.instance.as_ref().is_none_or(|held| held == name) && self.refusal(*choice).is_none()
            })
            .flat_map(|(choice, (_, most))| {
                let mut counts = machine_counts(&self.problem.place, self.fixed.instances, most);
                if self.problem.enough.is_some() && self.fixed.instances.is_none() {
                    counts.retain(|count| *count == most || is_round(*count));
                }
                counts.into_iter().map(move |instances| (choice, instances))
            })
            .collect();
        sites.into_par_iter().flat_map_iter(|site| self.candidates_on(site)).collect()
    }

    /// Those on so many machines of a type.
    fn candidates_on(&self, (choice, instances): (usize, u32)) -> Vec<Candidate> {
        let machine = self.machine_of(choice, instances);
        let precisions = self.precisions(&machine);
        let devices = devices_of_each(&machine.cluster);
        let mut all = Vec::new();
        for ranks in rank_counts(&machine.cluster) {
            for parallel in self.degrees(ranks, devices) {
                self.push(&mut all, (choice, instances), parallel, &precisions);
            }
        }
        all
    }

    /// Why no plan with the held fields goes onto a type of machine, whatever its degrees.
    pub(crate) fn refusal(&self, choice: usize) -> Option<String> {
        let machine = self.problem.place.machine(choice, 1, None);
        let cluster = self.problem.place.spec_of(&machine.cluster);
        let spec = PlanSpec {
            offload: self.offload(),
            placement: self.placement(),
            gradient_compression: self.compression(),
            ..PlanSpec::plain(self.problem.model.spec(), cluster, self.graph().len())
        };
        let plan = Plan::try_from(spec).map_err(|error| error.to_string());
        let admitted = plan.and_then(|plan| machine.admits(&plan).map_err(|error| error.to_string()));
        let precision = self.fixed.precision.map_or(Ok(()), |held| machine.has_units(held));
        let input = self.input_refusal(&machine);
        admitted.and(precision.map_err(|error| error.to_string())).and(input.map_or(Ok(()), Err)).err()
    }

    fn input_refusal(&self, machine: &Machine) -> Option<String> {
        match &self.problem.data {
            Some(data) => data.refusal(&self.fixed, machine).map(|error| error.to_string()),
            None if self.fixed.holds_input() => {
                Some("what is held of `input` needs `data.bytes_per_sample` in the job".into())
            }
            None => None,
        }
    }

    pub(crate) fn graph(&self) -> &OperatorGraph {
        self.architecture.graph()
    }

    /// Layers of the model, the first and the last included.
    pub(crate) fn layers(&self) -> usize {
        self.graph().len()
    }

    pub(crate) fn problem(&self) -> &Problem {
        self.problem
    }

    pub(crate) fn fixed(&self) -> &Fixed {
        &self.fixed
    }

    pub(crate) fn offload(&self) -> Offload {
        self.fixed.offload.unwrap_or(Offload::NONE)
    }

    pub(crate) fn placement(&self) -> Placement {
        self.fixed.placement.unwrap_or_default()
    }

    pub(crate) fn compression(&self) -> GradientCompression {
        self.fixed.gradient_compression.unwrap_or_default()
    }

    /// The machines of a candidate.
    pub(crate) fn machine(&self, candidate: &Candidate) -> Arc<Machine> {
        self.machine_of(candidate.choice, candidate.instances)
    }

    fn machine_of(&self, choice: usize, instances: u32) -> Arc<Machine> {
        let mut machines = self.machines.lock().expect("nobody panics while machines are looked up");
        let made = || Arc::new(self.problem.place.machine(choice, instances, self.fixed.encrypted));
        machines.entry((choice, instances)).or_insert_with(made).clone()
    }

    /// A plan as it is written, with its model cut into these runs of layers.
    fn spec(&self, candidate: &Candidate, variant: &Variant, stages: Vec<StageSpec>, machine: &Machine) -> PlanSpec {
        let shared_out = variant.state_sharding != StateSharding::None;
        PlanSpec {
            model: self.problem.model.spec(),
            cluster: self.problem.place.spec_of(&machine.cluster),
            parallel: candidate.parallel,
            batch: candidate.batch,
            schedule: variant.schedule,
            virtual_stages: variant.virtual_stages,
            stages,
            precision: candidate.precision,
            recompute: candidate.recompute,
            state_sharding: variant.state_sharding,
            sharding_ranks: self.fixed.sharding_ranks.filter(|_| shared_out),
            gradient_reduction: variant.gradient_reduction,
            gradient_compression: self.compression(),
            offload: self.offload(),
            placement: self.placement(),
            collectives: self.fixed.collectives.unwrap_or(Collectives::Nccl),
            optimizer: self.problem.optimizer,
            input: None,
            pricing: self.problem.place.pricing(),
            service: self.problem.place.service().map(|service| service.name().into()),
        }
    }

    /// The plan of a variant with these runs of layers; nothing where a count is beyond what plans take for meant.
    pub(crate) fn plan(
        &self,
        candidate: &Candidate,
        variant: &Variant,
        stages: Vec<StageSpec>,
        machine: &Machine,
    ) -> Option<Plan> {
        Plan::of(self.architecture.clone(), self.spec(candidate, variant, stages, machine)).ok()
    }

    fn measured(&self) -> bool {
        self.problem.place.is_measured()
    }

    /// Whether plans with something may be searched: on a measured machine only if the executor has it `built`.
    fn runs(&self, built: bool) -> bool {
        built || !self.measured()
    }

    /// The number formats of the job that all GPUs have units for.
    fn precisions(&self, machine: &Machine) -> Vec<Precision> {
        let held = self.fixed.precision;
        let wanted = self.problem.precisions.iter().copied().filter(|own| held.is_none_or(|held| held == *own));
        let mut all: Vec<Precision> = wanted.filter(|precision| machine.has_units(*precision).is_ok()).collect();
        if all.contains(&Precision::Bf16Mixed) && gpus(machine).all(|gpu| gpu.peak(Rate::Bf16) >= gpu.peak(Rate::Fp16))
        {
            all.retain(|precision| *precision != Precision::Fp16Mixed);
        }
        all
    }

    /// Degrees whose product is `ranks`. A tensor-parallel group stays inside a machine and splits the heads evenly; a
    /// stage has at least one layer; tokens and experts are shared evenly.
    fn degrees(&self, ranks: u32, devices: u32) -> Vec<ParallelSpec> {
        let mut all = Vec::new();
        for tensor in divisors_of(ranks).filter(|tensor| self.splits_heads(*tensor, devices)) {
            for pipeline in divisors_of(ranks / tensor).filter(|pipeline| *pipeline as usize <= self.graph().len()) {
                let rest = ranks / tensor / pipeline;
                for context in divisors_of(rest).filter(|context| self.splits_tokens(*context)) {
                    let data = rest / context;
                    for expert in divisors_of(data).filter(|expert| self.splits_experts(*expert)) {
                        let plain = ParallelSpec { data, tensor, pipeline, context, expert, sequence: false };
                        all.push(plain);
                        if tensor > 1 && self.splits_sequence(tensor) {
                            all.push(ParallelSpec { sequence: true, ..plain });
                        }
                    }
                }
            }
        }
        all
    }

    fn splits_heads(&self, tensor: u32, devices: u32) -> bool {
        let heads = self.problem.model.tensor_heads();
        let evenly = || heads.is_some_and(|heads| heads.is_multiple_of(u64::from(tensor)));
        tensor == 1 || (self.runs(EXECUTABLE.tensor) && devices.is_multiple_of(tensor) && evenly())
    }

    /// Whether the ranks of a tensor group can share the tokens of what each would otherwise compute in full: the
    /// executor gives each as many.
    fn splits_sequence(&self, tensor: u32) -> bool {
        let tokens = || self.graph().tokens_shared_by_context();
        !self.measured() || tokens().is_none_or(|tokens| tokens.is_multiple_of(u64::from(tensor)))
    }

    fn splits_tokens(&self, context: u32) -> bool {
        if context == 1 {
            return true;
        }
        let Some(tokens) = self.graph().tokens_shared_by_context() else { return false };
        let parts = u64::from(context);
        let sensible = self.fixed.context == Some(context) || tokens / parts >= CONTEXT_TOKENS_MIN;
        self.runs(EXECUTABLE.context) && tokens.is_multiple_of(parts) && sensible
    }

    fn splits_experts(&self, expert: u32) -> bool {
        let admitted = || self.graph().divisible().is_some_and(|divisible| divisible.admits(u64::from(expert)));
        expert == 1 || (self.runs(EXECUTABLE.expert) && admitted())
    }

    fn push(
        &self,
        all: &mut Vec<Candidate>,
        (choice, instances): (usize, u32),
        parallel: ParallelSpec,
        precisions: &[Precision],
    ) {
        let batches = self.problem.global_batches.iter().copied();
        let most = self.largest_micro_batch;
        let hasty = self.problem.enough.is_some() && self.fixed.micro.is_none() && self.fixed.accumulation.is_none();
        for global in batches.filter(|global| global.is_multiple_of(u64::from(parallel.data))) {
            let replica = global / u64::from(parallel.data);
            let mut sizes = divisors(replica);
            sizes.retain(|micro| *micro <= most && (!hasty || micro.is_power_of_two()));
            for micro in sizes {
                let batch = BatchSpec { global, micro, accumulation: replica / micro };
                let plans = self.variants(parallel, batch).len() as u32;
                if plans == 0 {
                    continue;
                }
                for (precision, recompute) in self.formats(precisions) {
                    let candidate = Candidate { choice, instances, parallel, batch, precision, recompute, plans };
                    if self.fixed.admits(&candidate) {
                        all.push(candidate);
                    }
                }
            }
        }
    }

    fn formats(&self, precisions: &[Precision]) -> impl Iterator<Item = (Precision, Recompute)> {
        let recompute = |kind: &Recompute| self.runs(EXECUTABLE.recompute.contains(kind));
        let kinds: Vec<Recompute> = Recompute::ALL.iter().copied().filter(recompute).collect();
        precisions.iter().flat_map(move |precision| kinds.clone().into_iter().map(move |kind| (*precision, kind)))
    }

    /// The variants with these degrees and batch: for each schedule, those that share out more after those that share
    /// out less.
    pub(crate) fn variants(&self, parallel: ParallelSpec, batch: BatchSpec) -> Vec<Variant> {
        let mut all = Vec::new();
        for (schedule, virtual_stages) in self.schedules(parallel.pipeline, batch.accumulation) {
            for (state_sharding, gradient_reduction) in self.shardings(parallel, batch.accumulation) {
                let variant = Variant { schedule, virtual_stages, state_sharding, gradient_reduction };
                if self.fixed.admits_variant(&variant) && self.is_simulable(&variant, parallel, batch) {
                    all.push(variant);
                }
            }
        }
        all
    }

    fn is_simulable(&self, variant: &Variant, parallel: ParallelSpec, batch: BatchSpec) -> bool {
        let gathers = variant.state_sharding == StateSharding::Parameters || self.offload().parameters.is_some();
        let size = StepSize {
            schedule: variant.schedule,
            accumulation: batch.accumulation,
            runs: u64::from(parallel.pipeline) * u64::from(variant.virtual_stages),
            gathered_layers: if gathers { self.graph().len() as u64 } else { 0 },
        };
        size.is_simulable()
    }

    /// Schedules with the runs of layers on each stage: every run has a layer, and interleaving takes micro-batches in
    /// groups of as many as there are stages.
    fn schedules(&self, pipeline: u32, accumulation: u64) -> Vec<(ScheduleName, u32)> {
        use ScheduleName::{GPipe, Interleaved, OneForwardOneBackward, TwoBufferedWeights, ZeroBubbleH1, ZeroBubbleV};
        if pipeline == 1 {
            return vec![(ScheduleName::None, 1)];
        }
        let held = |schedule| self.fixed.schedule == Some(schedule);
        let mut all = vec![(OneForwardOneBackward, 1)];
        if self.measured() || held(GPipe) {
            all.push((GPipe, 1));
        }
        all.push((ZeroBubbleH1, 1));
        if held(TwoBufferedWeights) && accumulation >= u64::from(pipeline) {
            all.push((TwoBufferedWeights, 1));
        }
        let has_layers = |runs: u32| u64::from(pipeline) * u64::from(runs) <= self.graph().len() as u64;
        if held(ZeroBubbleV) && has_layers(2) {
            all.push((ZeroBubbleV, 2));
        }
        if accumulation.is_multiple_of(u64::from(pipeline)) {
            let most = if held(Interleaved) { RUNS_MAX } else { 2 };
            let runs = self.fixed.virtual_stages.map_or(2..=most, |held| held.max(2)..=held);
            all.extend(runs.filter(|runs| has_layers(*runs)).map(|runs| (Interleaved, runs)));
        }
        all.retain(|(schedule, _)| self.runs(EXECUTABLE.schedules.contains(schedule)));
        all
    }

    /// What replicas share out and how often they sum gradients, from the least shared.
    fn shardings(&self, parallel: ParallelSpec, accumulation: u64) -> Vec<(StateSharding, GradientReduction)> {
        use GradientReduction::{MicroBatch, Step};
        let copies = u64::from(parallel.data) * u64::from(parallel.context);
        let mut all = vec![(StateSharding::None, Step)];
        if copies > 1 || self.fixed.state_sharding.is_some() {
            let several = accumulation > 1;
            all.push((StateSharding::Optimizer, Step));
            all.push((StateSharding::Gradients, if several { MicroBatch } else { Step }));
            all.push((StateSharding::Parameters, Step));
            if several {
                all.push((StateSharding::Parameters, MicroBatch));
            }
        }
        if let Some(held) = self.fixed.gradient_reduction {
            for (_, reduction) in &mut all {
                *reduction = held;
            }
            all.dedup();
        }
        all.retain(|(sharding, _)| self.shares_evenly(*sharding, copies, parallel.expert));
        all.retain(|(sharding, reduction)| {
            let built = EXECUTABLE.state_sharding.contains(sharding);
            self.runs(built && EXECUTABLE.gradient_reduction.contains(reduction))
        });
        all
    }

    /// What is shared out goes in equal parts to a held number of ranks, and with experts to all that hold copies.
    fn shares_evenly(&self, sharding: StateSharding, copies: u64, expert: u32) -> bool {
        self.fixed.sharding_ranks.map(u64::from).is_none_or(|ranks| {
            sharding != StateSharding::None && copies.is_multiple_of(ranks) && (expert == 1 || ranks == copies)
        })
    }
}

fn largest_micro_batch(architecture: &Architecture) -> u64 {
    let saturating = (MICRO_FLOPS_MAX / architecture.graph().flops(Pass::Forward).0.max(1.0)) as u64;
    saturating.max(MICRO_MAX).min(architecture.micro_batch_max())
}

fn gpus(machine: &Machine) -> impl Iterator<Item = &Gpu> {
    machine.cluster.pools.iter().filter_map(|pool| match &pool.device {
        Device::Gpu(gpu) => Some(gpu),
        Device::Measured(_) => None,
    })
}

/// Numbers of machines to choose from, at most `most`. A mixed cluster is used whole; what is rented may be held at any
/// number.
fn machine_counts(place: &Place, held: Option<u32>, most: u32) -> Vec<u32> {
    match (place, held) {
        (Place::Rented(_), Some(held)) => vec![held],
        (Place::Owned { machine, .. }, _) if machine.cluster.is_mixed() => {
            Some(most).filter(|all| held.is_none_or(|held| held == *all)).into_iter().collect()
        }
        _ => (1..=most).filter(|count| held.is_none_or(|held| held == *count)).collect(),
    }
}

/// Whether a number of machines has at most two binary digits before its zeros: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32. Where
/// no proof is wanted yet, numbers between these can wait for it: replicas and stages seldom divide evenly by others.
fn is_round(count: u32) -> bool {
    count.ilog2() - count.trailing_zeros() < 2
}

/// Devices of a machine, or, where machines differ, the most that divides those of each.
fn devices_of_each(cluster: &Cluster) -> u32 {
    let devices = cluster.pools.iter().map(|pool| u64::from(pool.devices_per_instance));
    devices.fold(0, greatest_common_divisor) as u32
}

/// Machines are used whole; one that was measured may stay partly idle, each rank then having more threads.
fn rank_counts(cluster: &Cluster) -> std::ops::RangeInclusive<u32> {
    match cluster.first().device {
        Device::Measured(_) => 1..=cluster.devices(),
        Device::Gpu(_) => cluster.devices()..=cluster.devices(),
    }
}

/// The divisors of a degree.
fn divisors_of(number: u32) -> impl Iterator<Item = u32> {
    divisors(u64::from(number)).into_iter().map(|divisor| divisor as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spaces(model: &str, fixed: &[&str], check: impl Fn(&Space<'_>)) {
        let mut job = trainyard_plan::JobSpec::default();
        job.model.name = Some(model.into());
        job.data.samples = Some(1000);
        job.training.global_batch = Some(trainyard_plan::GlobalBatch::Exactly(64));
        let problem = crate::problem(&job, crate::Resources::default()).expect("a solvable job");
        let fixed: Vec<String> = fixed.iter().map(ToString::to_string).collect();
        check(&Space::new(&problem, &Fixed::parse(&fixed).expect("fields of a plan")));
    }

    #[test]
    fn degrees_multiply_to_the_ranks_and_divide_the_heads() {
        spaces("gpt2-xl", &[], |space| {
            let all = space.degrees(16, 8);
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
                let mut contexts: Vec<u32> = space.degrees(16, 8).iter().map(|p| p.context).collect();
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
                    for variant in space.variants(candidate.parallel, candidate.batch) {
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
