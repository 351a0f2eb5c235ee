//! Plans as written: the `plan` of a plan document, before anything is checked.

use crate::fine_tuning::{FineTuningSpec, Method, TuningKind};
use crate::input::InputSpec;
use crate::name::named;
use crate::offload::Offload;
use crate::placement::Placement;
use crate::schedules::ScheduleName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use trainyard_models::ModelSpec;
use trainyard_units::{Bytes, human_count};

/// Values that share a scale where moments are in eight bits: bitsandbytes from 0.44 on (`optim/optimizer.py`,
/// `Optimizer2State.init_state`), torchao (`optim/adam.py`, `AdamW8bit`), which transformers' Trainer hands the same number.
pub(crate) const EIGHT_BIT_BLOCK: u64 = 256;

/// How a training job is laid out: model, machines, degrees, batch, schedule and precision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanSpec {
    /// The model, with every dimension.
    pub model: ModelSpec,
    /// The machines.
    pub cluster: ClusterSpec,
    /// Degrees of parallelism; their product is the number of ranks.
    pub parallel: ParallelSpec,
    /// Batch sizes in samples.
    pub batch: BatchSpec,
    /// The order of micro-batches in the pipeline.
    pub schedule: ScheduleName,
    /// Runs of layers that each stage holds: more than one only in interleaved and V-shaped schedules.
    #[serde(default = "one")]
    pub virtual_stages: u32,
    /// Layers of each run, in the order of the model: pipeline × virtual stages of them.
    pub stages: Vec<StageSpec>,
    /// The software that runs the plan, as the catalog of stacks names it; that of the job if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// Number formats of compute and of the master weights.
    pub precision: Precision,
    /// What is computed again in backward instead of being kept.
    pub recompute: Recompute,
    /// What replicas share out among themselves instead of each holding all of it.
    #[serde(default)]
    pub state_sharding: StateSharding,
    /// Over how many replicas a state is shared out; all of them if left out. Fewer is hierarchical sharding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharding_ranks: Option<u32>,
    /// How often gradients are summed over replicas.
    #[serde(default)]
    pub gradient_reduction: GradientReduction,
    /// In which form gradients travel between replicas.
    #[serde(default)]
    pub gradient_compression: GradientCompression,
    /// What is kept in main memory or on disk: `none`, or parts joined by `+`, as in `optimizer+activations@nvme`.
    #[serde(default)]
    pub offload: Offload,
    /// Which ranks stand next to each other.
    #[serde(default)]
    pub placement: Placement,
    /// How gradients are summed over replicas.
    pub collectives: Collectives,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// Which weights are trained, and towards what; all of them by the model's own loss if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fine_tuning: Option<FineTuningSpec>,
    /// How samples reach the devices; if left out they are there when a step wants them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputSpec>,
    /// How the machines are paid.
    pub pricing: Pricing,
    /// Who rents them out, ec2 or sagemaker; the service of the price that was used if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// Which machines, and how many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterSpec {
    /// Catalog name of the instance type, or the name inside `profile`.
    pub instance: String,
    /// How many of them.
    pub instances: u32,
    /// A calibrated profile file that describes the machine, for machines that no catalog has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// A cluster file that describes the machines, for machines that no catalog has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A constants file that stands before the catalog: what the prediction rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constants: Option<String>,
    /// Whether traffic between machines is encrypted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
    /// The transport between machines: tcp, tcp-pods, efa or efa-gpudirect; that which is usual for the instance type if
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
}

/// `48 × p4d.24xlarge`.
impl Display for ClusterSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", human_count(self.instances.into()), self.instance)
    }
}

impl ClusterSpec {
    /// Returns `instances` machines of a catalog type.
    pub fn of(instance: &str, instances: u32) -> Self {
        Self {
            instance: instance.into(),
            instances,
            profile: None,
            file: None,
            constants: None,
            encrypted: false,
            transport: None,
        }
    }
}

/// Degrees of parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParallelSpec {
    /// Replicas, each with its part of the global batch.
    pub data: u32,
    /// Ranks that share each layer's weights.
    pub tensor: u32,
    /// Stages.
    pub pipeline: u32,
    /// Ranks that share each sample's tokens.
    #[serde(default = "one")]
    pub context: u32,
    /// Replicas that share the experts of each layer; a part of `data`, or of `data` times `context` where experts are
    /// folded.
    #[serde(default = "one")]
    pub expert: u32,
    /// Whether experts are shared out over the ranks of a stage as they are numbered, those of a tensor group too, so that
    /// tensor parallelism splits none: over `expert` times `tensor` ranks (Liu et al., "MoE Parallel Folding",
    /// arXiv:2504.14960).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub folded_experts: bool,
    /// Whether the ranks of a tensor group also share the tokens of what tensor parallelism does not split.
    #[serde(default)]
    pub sequence: bool,
}

impl Default for ParallelSpec {
    fn default() -> Self {
        Self { data: 1, tensor: 1, pipeline: 1, context: 1, expert: 1, folded_experts: false, sequence: false }
    }
}

impl ParallelSpec {
    /// Counts the kinds of parallelism besides data parallelism.
    pub fn kinds(&self) -> u32 {
        [self.tensor, self.pipeline, self.context, self.expert_ranks()].iter().filter(|degree| **degree > 1).count()
            as u32
    }

    /// Returns the number of ranks that share the experts of a layer.
    pub const fn expert_ranks(self) -> u32 {
        if self.folded_experts { self.expert * self.tensor } else { self.expert }
    }

    /// Returns the fewest replicas whose ranks have all experts between them.
    pub const fn fewest_replicas(self) -> u32 {
        if !self.folded_experts {
            return self.expert;
        }
        let (mut common, mut rest) = (self.expert, self.context);
        while rest > 0 {
            (common, rest) = (rest, common % rest);
        }
        self.expert / common
    }

    /// Returns the degrees with their names, in the order in which a strategy is told.
    pub const fn degrees(self) -> [(&'static str, u32); 5] {
        let Self { data, tensor, pipeline, context, expert, .. } = self;
        [("data", data), ("tensor", tensor), ("context", context), ("expert", expert), ("pipeline", pipeline)]
    }

    /// Returns the number of ranks, of degrees as they are written: at most the largest number. Ranks that share experts
    /// are among the replicas.
    pub fn ranks(&self) -> u64 {
        let Self { data, tensor, pipeline, context, .. } = *self;
        [tensor, pipeline, context].into_iter().map(u64::from).fold(data.into(), u64::saturating_mul)
    }
}

/// The degrees above one: `data 8 × tensor 2`.
impl Display for ParallelSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let divided = self.degrees().into_iter().filter(|(_, degree)| *degree > 1);
        let parts: Vec<String> = divided.map(|(name, degree)| format!("{name} {degree}")).collect();
        if parts.is_empty() { f.write_str("one device") } else { f.write_str(&parts.join(" × ")) }
    }
}

fn one() -> u32 {
    1
}

/// Batch sizes. `global = micro × accumulation × parallel.data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchSpec {
    /// Samples of an optimizer step, over all replicas.
    pub global: u64,
    /// Samples that one replica computes at once.
    pub micro: u64,
    /// Micro-batches of one replica in a step.
    pub accumulation: u64,
}

/// A pipeline stage: layers `first .. first + layers`, the embedding being layer 0 and the head the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Index of the first layer.
    pub first: usize,
    /// Number of layers.
    pub layers: usize,
}

named! {
    /// Number formats.
    Precision {
        /// Single precision throughout.
        Fp32 = "fp32" | "float32",
        /// Single precision whose matrix products round their operands to ten bits of mantissa.
        Tf32 = "tf32" | "tensorfloat32",
        /// Half-precision compute, single-precision master weights, loss scaling.
        Fp16Mixed = "fp16-mixed" | "fp16" | "float16" | "16-mixed",
        /// The same with the exponent range of single precision: no loss scaling.
        Bf16Mixed = "bf16-mixed" | "bf16" | "bfloat16",
        /// The same with the products of blocks in eight bits, scaled for each tensor (Micikevicius et al.,
        /// arXiv:2209.05433; NVIDIA Transformer Engine). Never chosen unless it is named: it may change what is learnt.
        Fp8Mixed = "fp8-mixed" | "fp8",
    }
}

named! {
    /// What is computed again in backward.
    Recompute {
        /// Nothing: all activations are kept.
        None = "none",
        /// The core of attention, which is large and cheap (Korthikanti et al., arXiv:2205.05198, section 5).
        Selective = "selective",
        /// Every layer from its input (Chen et al., arXiv:1604.06174).
        Full = "full" | "gradient-checkpointing" | "activation-checkpointing",
    }
}

impl Recompute {
    /// Names what is computed again; `None` where nothing is.
    pub const fn in_words(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Selective => Some("selective recomputation"),
            Self::Full => Some("full recomputation"),
        }
    }
}

named! {
    /// How gradients are summed over replicas.
    Collectives {
        /// Rings or trees over all ranks, whichever is faster, as NCCL does.
        Nccl = "nccl",
        /// Rings over all ranks.
        Ring = "ring",
        /// Trees over machines, chains inside them.
        Tree = "tree",
        /// Inside each machine first, then between machines (Jia et al., arXiv:1807.11205, section 3.3).
        Hierarchical = "hierarchical",
        /// Balanced fusion buffers, reduced by the machines' processors (Thangakrishnan et al., "Herring", SC20).
        Smddp = "smddp",
    }
}

named! {
    /// What replicas share out among themselves (Rajbhandari et al., arXiv:1910.02054, section 5).
    #[derive(Default)]
    StateSharding {
        /// Nothing: every replica holds everything.
        #[default]
        None = "none" | "zero-0" | "zero0" | "0" | "ddp" | "no-shard",
        /// Optimizer state and master weights (ZeRO-1).
        Optimizer = "optimizer" | "zero-1" | "zero1" | "1",
        /// Gradients too (ZeRO-2).
        Gradients = "gradients" | "zero-2" | "zero2" | "2" | "shard-grad-op",
        /// Weights too, which are gathered layer by layer when they are needed (ZeRO-3, FSDP).
        Parameters = "parameters" | "zero-3" | "zero3" | "3" | "fsdp" | "full-shard",
    }
}

impl StateSharding {
    /// Returns the stage of ZeRO; `None` where every replica holds everything.
    pub const fn zero(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Optimizer => Some("ZeRO-1"),
            Self::Gradients => Some("ZeRO-2"),
            Self::Parameters => Some("ZeRO-3"),
        }
    }

    /// Returns what replicas share out, in words; `None` where every replica holds everything.
    pub const fn in_words(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Optimizer => Some("optimizer state"),
            Self::Gradients => Some("optimizer state and gradients"),
            Self::Parameters => Some("parameters, gradients and optimizer state"),
        }
    }
}

named! {
    /// How often gradients are summed over replicas.
    #[derive(Default)]
    GradientReduction {
        /// Once, after the last micro-batch.
        #[default]
        Step = "step",
        /// After each micro-batch, so that sharded gradients need no full copy.
        MicroBatch = "micro-batch",
    }
}

named! {
    /// In which form gradients travel between replicas.
    #[derive(Default)]
    GradientCompression {
        /// As they are.
        #[default]
        None = "none",
        /// Half precision (PyTorch DDP's `fp16_compress_hook`).
        Fp16 = "fp16",
        /// Brain floats (`bf16_compress_hook`).
        Bf16 = "bf16",
        /// Eight bits with a scale for each block of 256 values (Dettmers, arXiv:1511.04561).
        Int8 = "int8",
        /// The largest thousandth with their positions; the rest is kept for later (Lin et al., arXiv:1712.01887).
        Dgc = "dgc",
    }
}

named! {
    /// Optimizers, by the state they keep.
    Optimizer {
        /// Two moments per parameter, weight decay apart (Loshchilov and Hutter, arXiv:1711.05101).
        AdamW = "adamw" | "adam-w",
        /// AdamW with both moments in eight bits, and a scale for each block of 256 values (Dettmers et al.,
        /// arXiv:2110.02861), as bitsandbytes and torchao have it.
        AdamW8bit = "adamw-8bit" | "adamw8bit" | "adam-8bit" | "adam8bit" | "adamw-bnb-8bit" | "adamw-torch-8bit",
        /// Two moments per parameter, weight decay part of the gradient (Kingma and Ba, arXiv:1412.6980).
        Adam = "adam",
        /// No state.
        Sgd = "sgd",
        /// One moment (Sutskever et al., ICML 2013).
        Momentum = "sgd-momentum" | "momentum",
        /// The mean of squares and a moment of what it scales (Hinton, Coursera lecture 6e, as TensorFlow does it).
        RmsProp = "rmsprop",
        /// One moment, a rate for each tensor from its norms (You et al., arXiv:1708.03888).
        Lars = "lars",
        /// Two moments, a rate for each tensor from its norms (You et al., arXiv:1904.00962).
        Lamb = "lamb",
    }
}

named! {
    /// How instances are paid.
    Pricing {
        /// By the second at the list price.
        OnDemand = "on-demand",
        /// Spare capacity at a discount; it can be reclaimed.
        Spot = "spot",
        /// By the hour for a year, used or not, with nothing paid in advance.
        Reserved = "reserved" | "reserved-1y",
        /// The same for three years.
        ReservedThreeYears = "reserved-3y",
        /// By blocks of whole days, used or not, paid in advance (EC2 Capacity Blocks for ML).
        CapacityBlock = "capacity-block",
    }
}

impl Precision {
    /// Returns the bytes of an element in compute.
    pub fn element_bytes(self) -> u64 {
        match self {
            Self::Fp32 | Self::Tf32 => 4,
            Self::Fp16Mixed | Self::Bf16Mixed | Self::Fp8Mixed => 2,
        }
    }

    /// Returns the bytes per weight of copies that products read in its place: in eight bits, as they lie and
    /// transposed, which products of Hopper need backward.
    pub(crate) fn copy_bytes(self) -> u64 {
        if self == Self::Fp8Mixed { 2 } else { 0 }
    }

    /// Returns the format of values that a step of this precision computes in single precision.
    #[must_use]
    pub fn single(self) -> Self {
        if self == Self::Tf32 { Self::Tf32 } else { Self::Fp32 }
    }

    /// Returns the bytes of the master copy of a weight, in single precision, that the optimizer keeps beside the one
    /// that computes.
    pub fn master_bytes(self) -> u64 {
        match self {
            Self::Fp32 | Self::Tf32 => 0,
            Self::Fp16Mixed | Self::Bf16Mixed | Self::Fp8Mixed => 4,
        }
    }
}

impl Optimizer {
    /// Returns the bytes of optimizer state of so many parameters; of moments in eight bits with the scales of whole blocks,
    /// and if none stays in 32 bits: the least. [`ParameterCounts::state_bytes`](crate::ParameterCounts::state_bytes) has
    /// the bytes of tensors.
    pub fn state(self, parameters: u64) -> Bytes {
        match self {
            Self::AdamW | Self::Adam | Self::RmsProp | Self::Lamb => Bytes(8) * parameters,
            Self::Momentum | Self::Lars => Bytes(4) * parameters,
            Self::AdamW8bit => Bytes(2) * parameters + Bytes(8) * (parameters / EIGHT_BIT_BLOCK),
            Self::Sgd => Bytes(0),
        }
    }

    /// Returns `true` if moments are in eight bits, for which there are kernels on GPUs alone.
    pub fn is_in_eight_bits(self) -> bool {
        self == Self::AdamW8bit
    }

    /// Returns the same optimizer with all of its state in 32 bits.
    #[must_use]
    pub fn in_32_bits(self) -> Self {
        if self == Self::AdamW8bit { Self::AdamW } else { self }
    }

    /// Returns `true` for those that step along a running mean of gradients, divided by the root of that of their squares.
    pub fn has_means(self) -> bool {
        matches!(self, Self::AdamW | Self::AdamW8bit | Self::Adam | Self::Lamb)
    }

    /// Returns `true` for Adam and AdamW, in whatever format their moments are.
    pub fn is_adam(self) -> bool {
        matches!(self, Self::AdamW | Self::AdamW8bit | Self::Adam)
    }

    /// Returns `true` if the rate of each tensor follows from its norms, so that an update needs whole tensors, or norms
    /// that are summed over their parts.
    pub fn has_rates_of_tensors(self) -> bool {
        matches!(self, Self::Lars | Self::Lamb)
    }

    /// Returns the bytes per parameter that norms make the optimizer read and write, besides reading and writing
    /// everything once: LARS reads weight and gradient for their norms; LAMB reads the gradient for the norm of all,
    /// and writes the update of a tensor before it knows the norm by which that and the weight are read again.
    pub fn norm_bytes(self) -> u64 {
        match self {
            Self::Lars => 8,
            Self::Lamb => 16,
            Self::AdamW | Self::AdamW8bit | Self::Adam | Self::Sgd | Self::Momentum | Self::RmsProp => 0,
        }
    }
}

impl GradientCompression {
    /// Returns `true` if gradients travel in the format in which a step of this precision computes, or as they are.
    pub fn suits(self, precision: Precision) -> bool {
        match self {
            Self::None => true,
            Self::Fp16 => precision == Precision::Fp16Mixed,
            Self::Bf16 => precision == Precision::Bf16Mixed,
            Self::Int8 | Self::Dgc => false,
        }
    }
}

impl GradientReduction {
    /// Returns `true` if replicas with sharded gradients never hold them whole: those of every micro-batch are reduced,
    /// or of the only one, and `beside` says that this happens during the backward pass that computes them, in buckets
    /// or layer by layer.
    pub fn is_at_once(self, accumulation: u64, beside: bool) -> bool {
        beside && (self == Self::MicroBatch || accumulation == 1)
    }
}

impl PlanSpec {
    /// Returns the plainest plan for a model on some machines: one rank, one sample, single precision, one stage of
    /// `layers`.
    pub fn plain(model: ModelSpec, cluster: ClusterSpec, layers: usize) -> Self {
        Self {
            model,
            cluster,
            parallel: ParallelSpec::default(),
            batch: BatchSpec { global: 1, micro: 1, accumulation: 1 },
            schedule: ScheduleName::None,
            virtual_stages: 1,
            stages: vec![StageSpec { first: 0, layers }],
            stack: None,
            precision: Precision::Fp32,
            recompute: Recompute::None,
            state_sharding: StateSharding::None,
            sharding_ranks: None,
            gradient_reduction: GradientReduction::Step,
            gradient_compression: GradientCompression::None,
            offload: Offload::NONE,
            placement: Placement::Cluster,
            collectives: Collectives::Nccl,
            optimizer: Optimizer::AdamW,
            fine_tuning: None,
            input: None,
            pricing: Pricing::OnDemand,
            service: None,
        }
    }

    /// Returns which weights are trained.
    pub fn method(&self) -> Method {
        self.tuning_kind().method
    }

    /// Returns what is trained, and towards what.
    pub fn tuning_kind(&self) -> TuningKind {
        self.fine_tuning.as_ref().map_or(TuningKind::FULL, FineTuningSpec::kind)
    }

    /// Lists what the plan needs of its software beyond data parallelism with an ordinary optimizer.
    pub fn features(&self) -> Vec<&'static str> {
        let ParallelSpec { tensor, pipeline, context, .. } = self.parallel;
        let all = [
            (self.offload != Offload::NONE, "offload"),
            (tensor > 1, "tensor parallelism"),
            (pipeline > 1, "pipeline"),
            (context > 1, "context parallelism"),
            (self.parallel.expert_ranks() > 1, "expert parallelism"),
            (self.schedule.is_interleaved(), "interleaving"),
            (self.state_sharding >= StateSharding::Gradients, "sharded gradients or parameters"),
            (self.sharding_ranks.is_some(), "hybrid sharding"),
        ];
        all.into_iter().filter(|(needed, _)| *needed).map(|(_, feature)| feature).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, StrDeserializer};
    use std::fmt::{Debug, Display};
    use std::str::FromStr;
    use trainyard_units::UnknownName;

    /// Reads a word from a document and from a flag.
    fn read<T: FromStr<Err = UnknownName> + DeserializeOwned + PartialEq + Debug>(word: &str) -> Result<T, String> {
        let document: StrDeserializer<'_, Error> = word.into_deserializer();
        let (written, typed) = (T::deserialize(document), word.parse::<T>());
        assert_eq!(written.as_ref().ok(), typed.as_ref().ok(), "{word}");
        written.map_err(|error| error.to_string())
    }

    #[test]
    fn ranks_are_counted_without_those_that_share_experts() {
        let degrees = |data, tensor, pipeline, context, expert| {
            ParallelSpec { data, tensor, pipeline, context, expert, ..ParallelSpec::default() }.ranks()
        };
        assert_eq!((degrees(1, 1, 1, 1, 1), degrees(8, 2, 3, 5, 4)), (1, 240));
        assert_eq!(degrees(1 << 16, 1 << 8, 1 << 8, 1, 1), 1 << 32);
        assert_eq!(degrees(u32::MAX, u32::MAX, u32::MAX, u32::MAX, 1), u64::MAX);
    }

    #[test]
    fn the_spellings_of_other_programs_are_read() {
        for word in ["zero-3", "zero3", "ZeRO-3", "fsdp", "full_shard", "FULL_SHARD", "parameters"] {
            assert_eq!(read(word), Ok(StateSharding::Parameters), "{word}");
        }
        assert_eq!((read("zero1"), read("zero_2")), (Ok(StateSharding::Optimizer), Ok(StateSharding::Gradients)));
        assert_eq!((read("fp16"), read("fp16-mixed")), (Ok(Precision::Fp16Mixed), Ok(Precision::Fp16Mixed)));
        assert_eq!((read("bf16"), read("BF16")), (Ok(Precision::Bf16Mixed), Ok(Precision::Bf16Mixed)));
        assert_eq!(
            (read("gradient_checkpointing"), read("selective")),
            (Ok(Recompute::Full), Ok(Recompute::Selective))
        );
        assert_eq!(
            (read("interleaved"), read("zero-bubble")),
            (Ok(ScheduleName::Interleaved), Ok(ScheduleName::ZeroBubbleH1))
        );
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        fn all<T: Copy + FromStr<Err = UnknownName> + DeserializeOwned + PartialEq + Debug + Display>(values: &[T]) {
            for value in values {
                assert_eq!(read(&value.to_string()), Ok(*value));
            }
        }
        all(ScheduleName::ALL);
        all(Precision::ALL);
        all(Recompute::ALL);
        all(StateSharding::ALL);
        all(Optimizer::ALL);
        all(Pricing::ALL);
        let refused = read::<StateSharding>("zero-4").expect_err("there are three");
        assert!(
            refused.contains("`zero-4`") && refused.contains("`parameters`") && !refused.contains("fsdp"),
            "{refused}"
        );
    }
}
