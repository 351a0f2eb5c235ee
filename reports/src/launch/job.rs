//! A plan with the machines it was made for, as launchers see both.

use super::error::LaunchError;
use super::software::Attention;
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{
    Cluster, Fabric, Gpu, Instance, Network, Pool, SlurmSpec, Stack, Transport, catalog,
};
use trainyard_models::{Attention as Computed, Image, Operator, OperatorKind};
use trainyard_plan::document::{PlanDocument, PriceUsed};
use trainyard_plan::{
    CHECKPOINT_MARGIN, CampaignSpec, Decay, HyperParameters, LearningRate, Optimizer, Plan, Pricing, StageSpec,
    TrainingSpec, TuningKind,
};
use trainyard_planner::{DEFAULT_REGION, Evaluations, OnEveryRank, checkpoint_time, forward_passes, stored_bytes};
use trainyard_units::{Bytes, Seconds, human_duration};

/// Default time between checkpoints, where neither the job nor the prediction states one: an interruption then costs
/// half an hour on average.
const CHECKPOINT_INTERVAL: Seconds = Seconds(3600.0);

/// Checkpoints that are kept: so many of the newest, or about so many besides the newest where software keeps those of an
/// interval. A stated default.
pub(super) const CHECKPOINTS_KEPT: u64 = 3;

/// Time of writing a checkpoint where a prediction has none. A stated default.
const CHECKPOINT_UNKNOWN: Seconds = Seconds(120.0);

/// Greatest gradient norm where the job states none: the default of Megatron-LM and of transformers' Trainer. Without a
/// mean of squares nothing is clipped, as networks for images are trained (Goyal et al., arXiv:1706.02677).
const CLIP_NORM: f64 = 1.0;

/// Decay of the learning rate where the job states none: as language models are trained (Brown et al., arXiv:2005.14165,
/// appendix B; Touvron et al., arXiv:2307.09288, section 2.2) and fine-tuned (section 3.1 of the latter).
const DECAY: Decay = Decay::Cosine;

/// Percentage of steps over which the learning rate rises where the job states none. A stated default, as the next one.
const WARM_UP_PERCENT: u64 = 1;
/// The share of steps for optimizers without a mean of squares: 5 of 90 epochs (Goyal et al., section 2.2).
const PLAIN_WARM_UP: [u64; 2] = [5, 90];
/// The same for weights that are trained further, whose trainings are short.
const FINE_TUNING_WARM_UP_PERCENT: u64 = 3;
/// The least such steps from random weights, as Trainyard's own runs have, and the most: 2000 (Touvron et al.).
const WARM_UP_STEPS: [u64; 2] = [10, 2000];

/// Time below which not each step is logged, nor followed by a question to all ranks.
const SHORT_STEP: Seconds = Seconds(1.0);

/// The most steps from one such question to the next.
const STOP_STEPS_MAX: f64 = 100.0;

/// Bytes per second of a network card from which one TCP connection does not fill it, 40 Gbit/s: one processor copies what a
/// connection carries. A stated default.
const FAST_CARD: f64 = 5e9;

/// A plan with the machines it was made for.
#[derive(Clone, Debug)]
pub(super) struct Job<'a> {
    document: &'a PlanDocument,
    plan: Plan,
    /// The software of the plan, if the plan names it.
    stack: Option<&'a Stack>,
    /// The machines, of one kind or of kinds on which the same is started.
    pools: &'a [Pool],
    /// What jobs on any machine of the cluster ask Slurm for.
    slurm: &'a SlurmSpec,
    /// Environment variables of all ranks, as the cluster file has them.
    environment: &'a BTreeMap<String, String>,
    /// Number of machines on which there are ranks.
    machines: u32,
    /// Number of ranks on each machine.
    processes: u32,
}

impl<'a> Job<'a> {
    /// Creates the job of a document, with the machines and the software that its plan names.
    pub(super) fn new(
        document: &'a PlanDocument,
        cluster: &'a Cluster,
        stack: Option<&'a Stack>,
    ) -> Result<Self, LaunchError> {
        let plan = Plan::try_from(document.plan.clone())?;
        let refused = |why: String| {
            let value = format!("{} × {}", plan.cluster().instances, cluster.instance);
            Err(LaunchError::Inexpressible { field: "plan.cluster", value, why, others: Vec::new() })
        };
        if let Some(what) = cluster.unlike() {
            let value = format!("{} × {}", plan.cluster().instances, cluster.instance);
            return Err(LaunchError::Mixed { value, what });
        }
        let (devices, ranks) = (cluster.first().devices_per_instance, plan.mesh().ranks());
        let Some((machines, processes)) = filled(ranks, devices) else {
            return refused(format!(
                "its machines have {devices} devices each, and launchers cannot start {ranks} ranks that leave the last machine half full"
            ));
        };
        let Cluster { pools, slurm, environment, .. } = cluster;
        Ok(Self { document, plan, stack, pools, slurm, environment, machines, processes })
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the software of the plan, if the plan names it.
    pub(super) fn stack(&self) -> Option<&'a Stack> {
        self.stack
    }

    /// Returns `true` if the stack compiles the model.
    pub(super) fn is_compiled(&self) -> bool {
        self.stack.is_some_and(|stack| stack.runs.compiled)
    }

    /// Returns `true` if the stack's optimizer updates all tensors in one fused kernel.
    pub(super) fn has_fused_optimizer(&self) -> bool {
        self.stack.is_some_and(|stack| stack.runs.fused_optimizer)
    }

    /// Returns the attention that the stack computes on these GPUs, as it was priced; `None` for models without attention,
    /// and where no stack states it.
    pub(super) fn attention(&self) -> Option<Attention<'a>> {
        let stack = self.stack.filter(|stack| !stack.runs.attention.is_empty())?;
        let first = self.attentions().next()?;
        Some(Attention::of(stack, self.generation()?, first.kernel))
    }

    /// Returns the generation of the GPUs, `Ampere`; `None` of processors.
    pub(super) fn generation(&self) -> Option<&'a str> {
        self.gpu().map(|gpu| gpu.generation.as_str())
    }

    /// Returns `true` if scores are bounded, or have sinks beside them, which PyTorch's fused attention does not compute.
    ///
    /// # Source
    ///
    /// transformers 5.24, `_supports_sdpa` in `models/gemma2/modeling_gemma2.py` and `models/gpt_oss/modeling_gpt_oss.py`.
    pub(super) fn changes_scores(&self) -> bool {
        self.attentions().any(|attention| attention.soft_cap || attention.sinks)
    }

    /// Iterates over the attentions of the model.
    pub(super) fn attentions(&self) -> impl Iterator<Item = &Computed> {
        self.plan.graph().layers().flat_map(|layer| &layer.operators).filter_map(|operator| match &operator.kind {
            OperatorKind::Attention(attention) => Some(attention),
            _ => None,
        })
    }

    pub(super) fn document(&self) -> &PlanDocument {
        self.document
    }

    pub(super) fn training(&self) -> &TrainingSpec {
        &self.document.job.training
    }

    /// Returns `true` if trained weights are trained further.
    pub(super) fn is_fine_tuning(&self) -> bool {
        self.training().method.is_some() || self.plan.tuning_kind() != TuningKind::FULL
    }

    pub(super) fn campaign(&self) -> Option<&CampaignSpec> {
        self.document.job.campaign.as_ref()
    }

    /// Returns the number of machines on which there are ranks.
    pub(super) fn machines(&self) -> u32 {
        self.machines
    }

    /// Returns the number of ranks on each machine.
    pub(super) fn processes(&self) -> u32 {
        self.processes
    }

    /// Returns `true` if ranks compute on GPUs.
    pub(super) fn has_gpus(&self) -> bool {
        self.gpu().is_some()
    }

    /// Returns the GPU that ranks compute on.
    pub(super) fn gpu(&self) -> Option<&'a Gpu> {
        self.pools[0].device.gpu()
    }

    /// Returns what the job asks Slurm for as the cluster file says, of kinds of machines that in which they are alike.
    pub(super) fn slurm(&self) -> SlurmSpec {
        let of_kinds = self.pools.iter().map(|pool| pool.slurm.clone().or(self.slurm.clone()));
        of_kinds.reduce(SlurmSpec::common).unwrap_or_default()
    }

    /// Returns `true` if the cluster file says by what Slurm knows machines of the first kind alone.
    pub(super) fn has_slurm_of_its_own(&self) -> bool {
        let SlurmSpec { partition, constraint, gpu_type, .. } = &self.pools[0].slurm;
        [partition, constraint, gpu_type].into_iter().any(Option::is_some)
    }

    /// Returns the environment variables that the cluster file has for all ranks.
    pub(super) fn environment(&self) -> &'a BTreeMap<String, String> {
        self.environment
    }

    /// Returns `true` if the machines are of several kinds.
    pub(super) fn has_kinds(&self) -> bool {
        self.pools.len() > 1
    }

    /// Returns the networks of the kinds of machines, where there are several machines.
    pub(super) fn networks(&self) -> Vec<&'a Network> {
        let pools = self.pools.iter().filter(|_| self.machines > 1);
        let wired = pools.map(|pool| match &pool.fabric {
            Fabric::Wired { network, .. } => Some(network),
            Fabric::Measured => None,
        });
        wired.flatten().collect()
    }

    /// Returns the network cards that each machine has, if several machines use one of these transports, which all kinds of
    /// machines have in common.
    fn cards(&self, transports: [Transport; 2]) -> Option<u32> {
        let of = |network: &&Network| transports.contains(&network.transport);
        self.networks().into_iter().filter(of).map(|network| network.interfaces).min()
    }

    /// Returns the instance type of the catalog, if the plan names one.
    pub(super) fn instance(&self) -> Option<&'static Instance> {
        let named = self.plan.cluster();
        let rented = named.profile.is_none() && named.file.is_none();
        if rented { catalog().instance(&named.instance).ok() } else { None }
    }

    /// Returns the number of network cards of a machine if collectives go through the Elastic Fabric Adapter.
    pub(super) fn efa_cards(&self) -> Option<u32> {
        self.cards([Transport::Efa, Transport::EfaGpudirect])
    }

    /// Returns `true` if the Elastic Fabric Adapter reads GPU memory (GPUDirect).
    pub(super) fn efa_reads_gpus(&self) -> bool {
        self.networks().iter().any(|network| network.transport == Transport::EfaGpudirect)
    }

    /// Returns the number of network cards of a machine if collectives go through InfiniBand, or RDMA over Ethernet.
    pub(super) fn rdma_cards(&self) -> Option<u32> {
        self.cards([Transport::Infiniband, Transport::Roce]).filter(|_| !self.forces_sockets())
    }

    /// Returns the number of TCP connections to a peer with which several machines of one's own were priced, where the
    /// network limits each; NCCL opens as many by itself on rented ones.
    pub(super) fn priced_connections(&self) -> Option<u32> {
        let priced = |network: &&Network| {
            network.flow_limit.as_ref().filter(|_| network.transport == Transport::Tcp)?;
            network.messaging.connections.as_ref().map(|connections| connections.value)
        };
        let most = self.networks().iter().filter_map(priced).max();
        most.filter(|connections| self.instance().is_none() && *connections > 1)
    }

    /// Returns `true` if several machines of one's own were priced with TCP over a card that is too fast for one connection, and
    /// nothing else limits each.
    pub(super) fn needs_several_sockets(&self) -> bool {
        let is_fast = |network: &&Network| {
            let card = network.baseline.value.0 / f64::from(network.interfaces.max(1));
            network.transport == Transport::Tcp && network.flow_limit.is_none() && card >= FAST_CARD
        };
        self.instance().is_none() && self.networks().iter().any(is_fast)
    }

    /// Returns `true` if several machines send over sockets of their own network devices.
    pub(super) fn uses_host_sockets(&self) -> bool {
        self.networks().iter().any(|network| network.transport == Transport::Tcp)
    }

    /// Returns `true` if the plan names sockets for machines that would use something else.
    pub(super) fn forces_sockets(&self) -> bool {
        let named = self.plan.cluster().transport.as_deref().and_then(Transport::named);
        named.is_some_and(Transport::is_sockets)
    }

    /// Returns the main memory in GiB that each machine has, where it is known.
    pub(super) fn memory_gib(&self) -> Option<f64> {
        let of = |pool: &Pool| pool.host.as_ref().map_or(0, |host| host.memory.0);
        let least = self.pools.iter().map(of).min()?;
        (least > 0).then(|| least as f64 / (1_u64 << 30) as f64)
    }

    /// Returns what the ranks of a machine hold while they build or load the model, where that is more than its main memory.
    pub(super) fn on_every_rank(&self) -> Option<OnEveryRank> {
        let (stack, kind) = (self.stack?, self.plan.tuning_kind());
        let beyond = |pool: &Pool| OnEveryRank::beyond_memory(stack, pool, self.plan.graph(), kind);
        self.pools.iter().filter_map(beyond).min_by_key(|own| own.memory.0)
    }

    /// Returns the virtual processors that each machine has, where they are known.
    pub(super) fn vcpus(&self) -> Option<u32> {
        let of = |pool: &Pool| Some(pool.host.as_ref()?.processors.as_ref()?.vcpus);
        let least = self.pools.iter().map(of).min().flatten();
        least.or_else(|| self.instance().map(|instance| instance.vcpus))
    }

    /// Formats the machines: `2 × p4d.24xlarge`.
    pub(super) fn machines_in_words(&self) -> String {
        self.plan.cluster().to_string()
    }

    /// Returns the blocks of each run of layers, which engines count: the first layer is the embedding, the last the head.
    pub(super) fn blocks_of_runs(&self) -> Vec<usize> {
        let layers = self.plan.graph().len();
        let blocks = |run: &StageSpec| {
            let ends = [run.first == 0, run.first + run.layers == layers];
            run.layers - ends.iter().filter(|end| **end).count()
        };
        self.stages().iter().map(blocks).collect()
    }

    /// Lists the blocks of each stage, or of each run where a stage has several, in the order of the model; the layers of
    /// models that are more than blocks between an embedding and a head.
    pub(super) fn stages_in_words(&self) -> String {
        let blocks = self.plan.model().spec().layers.map(|blocks| blocks as usize + 2);
        let (counts, what) = if blocks == Some(self.plan.graph().len()) {
            (self.blocks_of_runs(), "blocks")
        } else {
            (self.stages().iter().map(|stage| stage.layers).collect(), "layers")
        };
        let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
        format!("{} {what}", counts.join(", "))
    }

    pub(super) fn stages(&self) -> &[StageSpec] {
        &self.plan.spec().stages
    }

    /// Returns the number of replicas over which a state is sharded, if not over all that hold the same parameters.
    pub(super) fn sharding_ranks(&self) -> Option<u32> {
        let parallel = self.plan.mesh().parallel();
        self.plan.sharding_ranks().filter(|ranks| *ranks != parallel.data * parallel.context)
    }

    /// Returns `true` if more than one order of ranks makes a difference.
    pub(super) fn placement_matters(&self) -> bool {
        let parallel = self.plan.mesh().parallel();
        [parallel.data, parallel.tensor, parallel.pipeline].into_iter().filter(|degree| *degree > 1).count() > 1
            || (self.plan.mesh().placement() == trainyard_plan::Placement::Spread && self.machines > 1)
    }

    /// Returns the optimizer steps of the whole training.
    pub(super) fn steps(&self) -> u64 {
        self.document.prediction.steps
    }

    /// Returns the optimizer's hyper-parameters: those of the job, else those with which such models are usually trained
    /// from random weights. Weights that are trained further are decayed and averaged as transformers' Trainer does it
    /// where nothing is said, which are the numbers of Adam.
    pub(super) fn hyper_parameters(&self) -> HyperParameters {
        let optimizer = self.plan.optimizer();
        let usual = if optimizer.in_32_bits() == Optimizer::AdamW && self.is_fine_tuning() {
            HyperParameters::of(Optimizer::Adam)
        } else {
            HyperParameters::for_model(optimizer, self.plan.model())
        };
        usual.replaced_by(self.training())
    }

    /// Returns `true` if the optimizer is AdamW only because the job names none, and models such as this one are usually
    /// trained by another: networks with batch normalisation by SGD with momentum (Goyal et al., arXiv:1706.02677).
    pub(super) fn has_unusual_optimizer(&self) -> bool {
        let unnamed = self.training().optimizer.is_none() && self.plan.optimizer() == Optimizer::AdamW;
        unnamed && !self.is_fine_tuning() && self.plan.model().normalises_over_batches()
    }

    /// Returns `true` if the plan was priced with maps channels last and nothing lays them so but the launch files:
    /// `torch.compile` does by itself.
    pub(super) fn lays_channels_last(&self) -> bool {
        let element = self.plan.precision().element_bytes();
        let convolves = |operator: &Operator| matches!(operator.kind, OperatorKind::Image(Image::Convolution(_)));
        let mut operators = self.plan.graph().layers().flat_map(|layer| &layer.operators);
        let eager =
            self.stack.is_some_and(|stack| stack.name == "pytorch-ddp" && !stack.map_layout.channels_first(element));
        eager && operators.any(convolves)
    }

    /// Returns `true` if the optimizer divides by no mean of squares, as those of networks for images.
    fn has_plain_rates(&self) -> bool {
        matches!(self.plan.optimizer(), Optimizer::Sgd | Optimizer::Momentum | Optimizer::Lars)
    }

    /// Returns the learning-rate schedule of the training: what the job states, else a usual one. Its peak is only known
    /// where the job states it.
    fn rate(&self) -> LearningRate {
        let training = self.training();
        LearningRate {
            warm_up: training.warm_up_steps.unwrap_or_else(|| self.usual_warm_up()),
            decay: training.decay.unwrap_or(DECAY),
            ..LearningRate::of(training, self.steps())
        }
    }

    /// Returns the warm-up steps of a training whose job states none. They are at most half of its steps: Megatron-LM
    /// does not start if nothing is left to decay.
    fn usual_warm_up(&self) -> u64 {
        let [least, most] = WARM_UP_STEPS;
        let share = |percent: u64| self.steps().saturating_mul(percent).div_ceil(100).min(most);
        let steps = if self.is_fine_tuning() {
            share(FINE_TUNING_WARM_UP_PERCENT)
        } else if self.has_plain_rates() {
            let [epochs, of] = PLAIN_WARM_UP;
            self.steps().saturating_mul(epochs).div_ceil(of)
        } else {
            share(WARM_UP_PERCENT).max(least)
        };
        steps.min(self.steps() / 2)
    }

    /// Returns the greatest norm of gradients: that of the job, else the usual one.
    pub(super) fn clip_norm(&self) -> f64 {
        let usual = if self.has_plain_rates() { 0.0 } else { CLIP_NORM };
        self.training().clip_norm.unwrap_or(usual)
    }

    /// Returns the warm-up steps, over which the learning rate rises.
    pub(super) fn warm_up(&self) -> u64 {
        self.rate().warm_up
    }

    /// Returns the decay of the learning rate after the warm-up.
    pub(super) fn decay(&self) -> Decay {
        self.rate().decay
    }

    /// Returns the power of a polynomial decay.
    pub(super) fn decay_power(&self) -> f64 {
        self.rate().power
    }

    /// Returns the learning rate at the last step, where it decays.
    pub(super) fn final_learning_rate(&self) -> f64 {
        self.rate().last
    }

    pub(super) fn decay_in_words(&self) -> String {
        match self.decay() {
            Decay::Constant => "constant".into(),
            Decay::Polynomial => {
                format!("polynomial of power {}, to {}", self.decay_power(), self.final_learning_rate())
            }
            decay => format!("{decay}, to {}", self.final_learning_rate()),
        }
    }

    /// Returns the time between checkpoints: that of the job, else that with which the plan was priced.
    pub(super) fn checkpoint_interval(&self) -> Option<Seconds> {
        let of_job = self.campaign().and_then(|campaign| campaign.checkpoint_interval.as_ref()?.parse().ok());
        let priced = || self.document.prediction.checkpoint_interval_s.map(Seconds);
        of_job.or_else(priced).filter(|interval| interval.0.is_finite())
    }

    /// Returns the steps between checkpoints, at most those of the whole training.
    pub(super) fn checkpoint_steps(&self) -> u64 {
        let interval = self.checkpoint_interval().unwrap_or(CHECKPOINT_INTERVAL);
        let steps = (interval.0 / self.document.prediction.step_time_s).round().max(1.0) as u64;
        steps.min(self.steps()).max(1)
    }

    /// Returns how often and on how much the model is evaluated, if the job says so.
    pub(super) fn evaluations(&self) -> Option<Evaluations> {
        forward_passes(self.document, &self.plan).ok()?.evaluations
    }

    /// Returns `true` if machines are spot instances.
    pub(super) fn is_spot(&self) -> bool {
        self.plan.pricing() == Pricing::Spot
    }

    /// Returns the Region of the price, else of the job.
    pub(super) fn region(&self) -> &str {
        let offered = self.document.prediction.price.as_ref().and_then(PriceUsed::offered);
        offered.map(|offered| offered.region).or(self.document.job.cluster.region.as_deref()).unwrap_or(DEFAULT_REGION)
    }

    /// Returns the bytes of the data set as stored, where its size is known.
    pub(super) fn data_bytes(&self) -> Option<Bytes> {
        stored_bytes(&self.document.job, self.plan.model())
    }

    /// Returns the seconds that the training runs if steps take as long as the slow end of their interval, without the time
    /// that its jobs wait in the scheduler's queue.
    pub(super) fn runs_at_most(&self) -> Seconds {
        let prediction = &self.document.prediction;
        let slower = (prediction.interval_s[1] / prediction.step_time_s).max(1.0);
        let steps = prediction.time_s * if slower.is_finite() { slower } else { 1.0 };
        Seconds(steps + prediction.around_s() - prediction.queued_s.unwrap_or(0.0))
    }

    /// Returns the longest that one job of the scheduler may run, if the job says so.
    pub(super) fn job_limit(&self) -> Option<Seconds> {
        let limit: Option<Seconds> = self.campaign().and_then(|campaign| campaign.job_limit.as_ref()?.parse().ok());
        limit.filter(|limit| limit.0.is_finite() && limit.0 > 0.0)
    }

    /// Returns the slow end of the prediction of a step.
    pub(super) fn slow_step(&self) -> Seconds {
        Seconds(self.document.prediction.interval_s[1].max(0.0))
    }

    /// Returns the predicted time of writing a checkpoint, where it is known.
    pub(super) fn checkpoint_time(&self) -> Option<Seconds> {
        checkpoint_time(&self.document.prediction)
    }

    /// Returns the seconds that ranks need to end with a checkpoint: the slow steps until they have heard of it, and what
    /// writing is predicted to take, with a margin.
    pub(super) fn saving_at_most(&self) -> Seconds {
        self.saving_in(self.checkpoint_time().unwrap_or(CHECKPOINT_UNKNOWN))
    }

    /// Returns [`Self::saving_at_most`] if writing a checkpoint takes `write`.
    pub(super) fn saving_in(&self, write: Seconds) -> Seconds {
        Seconds(self.stop_steps() as f64 * self.slow_step().0 + CHECKPOINT_MARGIN * write.0)
    }

    /// Returns the steps after which ranks ask each other whether one was told to stop: one, or as many as take a second,
    /// so that asking costs nothing.
    pub(super) fn stop_steps(&self) -> u64 {
        let steps = (SHORT_STEP.0 / self.document.prediction.step_time_s).ceil();
        if steps.is_finite() { steps.clamp(1.0, STOP_STEPS_MAX) as u64 } else { 1 }
    }

    /// Returns the steps from one line of the log to the next: few, to compare with the prediction early, but not each
    /// where a line would take time that counts.
    pub(super) fn log_steps(&self) -> u64 {
        if self.document.prediction.step_time_s < SHORT_STEP.0 { 10 } else { 1 }
    }

    /// Returns the predicted time of a step, and its interval.
    pub(super) fn step_in_words(&self) -> String {
        let prediction = &self.document.prediction;
        let [step, from, to] = [prediction.step_time_s, prediction.interval_s[0], prediction.interval_s[1]]
            .map(|s| human_duration(Seconds(s)));
        format!("{step} (90 %: {from} to {to})")
    }

    /// Returns a name that all launchers accept: at most 40 letters, digits and hyphens.
    pub(super) fn name(&self) -> String {
        let model = self.plan.model().name().to_lowercase();
        let words: Vec<&str> =
            model.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let mut name = format!("trainyard-{}", words.join("-"));
        name.truncate(40);
        name.trim_end_matches('-').to_owned()
    }
}

/// Returns the machines of `devices` devices that `ranks` ranks fill, and the ranks of each; `None` if the last would
/// not be full.
fn filled(ranks: u32, devices: u32) -> Option<(u32, u32)> {
    match ranks {
        ranks if ranks <= devices => Some((1, ranks)),
        ranks if ranks.is_multiple_of(devices) => Some((ranks / devices, devices)),
        _ => None,
    }
}
