//! Software stacks: what a training framework adds to the hardware.

use crate::abilities::Abilities;
use crate::pattern::matches;
use crate::seen::Seen;
use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use trainyard_units::{Bytes, BytesPerSecond, Seconds};

/// The default stack, for frameworks that were not measured: the constants of a common one.
pub const DEFAULT_STACK: &str = "pytorch";

/// The stack of Trainyard's own executor, with which measured machines are priced.
pub const EXECUTOR_STACK: &str = "trainyard-executor";

/// The least part of a GPU's memory that a plan leaves free, whatever the stack, for fragmentation of the allocator and
/// for allocations of libraries that no count covers. A stated default.
pub const MEMORY_MARGIN_MIN: f64 = 0.08;

/// Rate of the first release of FlashAttention forward with long samples, relative to large matrix products: that of the
/// second on an A100, of whose time it takes at least 1.7 times as much (Dao, arXiv:2307.08691, section 4.1). It is 0.39 of
/// the peak; Dao et al., arXiv:2205.14135, report 30 to 45 %.
pub const FIRST_FLASH_ATTENTION: f64 = 0.47;

/// The way in which a framework partitions a model into pipeline stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StageCut {
    /// The same number of blocks in every stage; the first also embeds, the last also computes the loss.
    #[default]
    EqualBlocks,
    /// The same number of layers in every stage, embedding and head counted as layers, or one more in the first ones.
    EqualLayers,
    /// Contiguous runs of layers, chosen so that the most expensive run is as cheap as possible.
    Balanced,
}

/// When a framework gathers updated weights of which ranks share out optimizer state, or that and gradients (ZeRO-1 and 2),
/// in plans without a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdatedWeights {
    /// In one piece after the update.
    #[default]
    AfterUpdate,
    /// Beside the first forward pass of the next step, bucket by bucket.
    FirstForward,
    /// Beside every forward pass: each backward pass lets go of them.
    EachForward,
}

impl fmt::Display for UpdatedWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AfterUpdate => "after the update",
            Self::FirstForward => "beside the first forward pass",
            Self::EachForward => "beside each forward pass",
        })
    }
}

/// The memory layout in which a framework keeps feature maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MapLayout {
    /// All pixels of a channel together (NCHW): inputs and outputs of products on tensor cores are transposed.
    ChannelsFirst,
    /// All channels of a pixel together (NHWC), as tensor cores need them, in half precision; NCHW in single precision.
    #[default]
    ChannelsLastInHalf,
    /// All channels of a pixel together in every format. Winograd's minimal filtering is not available for it.
    ChannelsLast,
}

impl MapLayout {
    /// Returns `true` if the layout is NCHW for elements of `element` bytes.
    pub fn channels_first(self, element: u64) -> bool {
        match self {
            Self::ChannelsFirst => true,
            Self::ChannelsLastInHalf => element > 2,
            Self::ChannelsLast => false,
        }
    }
}

/// A label of published measurements that a stack of the catalog stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedAs {
    /// The framework's name in the publication, in which `*` stands for any text.
    pub stack: String,
    /// The version or method that it must have; any if left out.
    #[serde(default)]
    pub version: Option<String>,
    /// The first release to which the label applies, `20.12`; any if left out.
    #[serde(default)]
    pub since: Option<Release>,
    /// The generation of GPUs to which the label applies, `Volta`; any if left out.
    #[serde(default)]
    pub generation: Option<String>,
    /// `true` if XLA must have compiled the graph, `false` if not; any if left out.
    #[serde(default)]
    pub xla: Option<bool>,
    /// `true` if there must be sequence parallelism, `false` if not, which tells apart releases before and after it;
    /// any if left out.
    #[serde(default)]
    pub sequence_parallel: Option<bool>,
    /// A word that the publication's notes must have, where they name the software more closely; any if left out.
    #[serde(default)]
    pub notes: Option<String>,
    /// The number of pipeline stages that this version or method always has; whatever a row states if left out.
    #[serde(default)]
    pub pipeline: Option<u32>,
}

/// The label of a published measurement, and the conditions under which it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Publication<'a> {
    /// The name of the framework.
    pub stack: &'a str,
    /// The version or method; the release is the last word of `NGC pytorch 20.12`.
    pub version: &'a str,
    /// The generation of GPUs.
    pub generation: &'a str,
    /// `true` if XLA compiled the graph; `None` if that is not known.
    pub xla: Option<bool>,
    /// `true` if the plan has sequence parallelism.
    pub sequence_parallel: bool,
    /// What else is said of it.
    pub notes: &'a str,
}

/// A release of a framework, `20.12` or `v2.0`: a year and a month, or a major and a minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Release {
    major: u32,
    minor: u32,
}

impl Release {
    /// Returns the release that a version ends with, or `None` if it ends with something else.
    fn of_version(version: &str) -> Option<Self> {
        let word = version.rsplit(' ').next()?;
        let (major, minor) = word.trim_start_matches('v').split_once('.')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl TryFrom<String> for Release {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::of_version(&text).ok_or_else(|| format!("`{text}` is no release such as `20.12`"))
    }
}

impl From<Release> for String {
    fn from(release: Release) -> Self {
        format!("{}.{:02}", release.major, release.minor)
    }
}

/// The closeness of a match, compared in this order: the number of parts that agree, the release from which the label
/// holds, and the length of the matched name.
pub(crate) type Closeness = (usize, Option<Release>, usize);

impl PublishedAs {
    /// Returns the closeness of the match, or `None` if a part of the label differs. `*` in its name stands for any
    /// text.
    fn closeness(&self, publication: Publication<'_>) -> Option<Closeness> {
        let parts = [
            self.version.as_ref().map(|version| version == publication.version),
            self.since.map(|since| Release::of_version(publication.version).is_some_and(|release| release >= since)),
            self.generation.as_ref().map(|generation| generation == publication.generation),
            self.xla.map(|xla| publication.xla == Some(xla)),
            self.sequence_parallel.map(|sequence| publication.sequence_parallel == sequence),
            self.notes.as_ref().map(|word| publication.notes.contains(word)),
        ];
        let stated = || parts.iter().flatten();
        let met = matches(&self.stack, publication.stack) && stated().all(|equal| *equal);
        met.then(|| (stated().count(), self.since, self.stack.len()))
    }
}

/// A training framework, with the costs that it adds to those of the hardware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// Catalog id, `megatron`.
    pub name: String,
    /// A description in a few words.
    pub description: String,
    /// Host time to launch one kernel, including everything that the framework does for it, on a processor whose
    /// `single_thread` is 1. Zero if there is no host thread.
    pub launch: Sourced<Seconds>,
    /// Memory traffic of kernels other than matrix products, relative to the counts of `models`.
    pub traffic: Sourced<f64>,
    /// A factor besides `traffic` where compute is in half precision, for values kept in single precision, and casts.
    pub mixed_traffic: Sourced<f64>,
    /// The same of layers whose weights are loaded in half precision and stay as they are, so that the residual stream is in
    /// half precision too and no weights are cast; `mixed_traffic` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_traffic: Option<Sourced<f64>>,
    /// The factor of layers with feature maps, in place of both: batch normalisation, activations, sums, pooling.
    pub map_traffic: Sourced<f64>,
    /// Memory traffic of the loss over a vocabulary, besides `traffic`, relative to the counts of `models`, which are
    /// those of separate kernels in single precision.
    pub loss_traffic: Sourced<f64>,
    /// `true` if the product that computes a weight's gradient also adds part of it to the sum (fused gradient
    /// accumulation); otherwise separate kernels read and write all of both.
    pub fused_accumulation: Sourced<bool>,
    /// Rate of matrix products, relative to the GPU's own constants.
    pub gemm: Sourced<f64>,
    /// Host time of one expert's product, besides that of the operator's kernels, where each expert of a rank has a call of
    /// its own, on a processor whose `single_thread` is 1; left out where one kernel multiplies the tokens of all experts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expert_launch: Option<Sourced<Seconds>>,
    /// `true` if scores are sent to the experts with the tokens, whose second product reads what they have weighted;
    /// otherwise what comes back is weighted, and kept for that until backward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores_sent: Option<Sourced<bool>>,
    /// Host time to choose one region of an image (sorting, suppressing, matching and sampling proposals), for which
    /// the device waits; zero where kernels handle all regions at once.
    pub region_selection: Sourced<Seconds>,
    /// Memory traffic of the optimizer's update, relative to one kernel that reads and writes everything once.
    pub update_traffic: Sourced<f64>,
    /// Traffic of main memory of a processor's update, at its nominal rate, relative to reading and writing everything once;
    /// 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_update_traffic: Option<Sourced<f64>>,
    /// Time per parameter tensor that an Adam update takes besides in single precision, where the fused kernel is used
    /// in mixed precision only and a dozen kernels are launched for each tensor instead; left out where the fused
    /// kernel is always used.
    #[serde(default)]
    pub separate_update: Option<Sourced<Seconds>>,
    /// Time for one virtual processor to read, decode and augment an image, on the kind of processor for which the
    /// rates of the loader hold, where the framework's own examples leave this to the processors and no loader was
    /// stated; left out where images are there when a step needs them.
    #[serde(default)]
    pub image_decoding: Option<Sourced<Seconds>>,
    /// Share of the looked-up table rows that ranks exchange, where frequent rows are replicated and their gradients
    /// summed; everything if left out.
    #[serde(default)]
    pub table_exchange: Option<Sourced<f64>>,
    /// `true` if the product with the vocabulary is computed for masked tokens only, where others predict nothing.
    pub masked_head: Sourced<bool>,
    /// Size of the buckets in which gradients are reduced during backward; zero: in one piece after backward.
    pub bucket: Sourced<Bytes>,
    /// Size of these buckets for each rank that holds the same parameters, where it is more than `bucket`; left out where
    /// they do not grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket_per_rank: Option<Sourced<Bytes>>,
    /// `true` if a stage that sends to another one computes nothing until the bytes have left.
    pub blocking_transfers: Sourced<bool>,
    /// `true` if each rank of a tensor-parallel group sends its own part of an activation to the next stage, which
    /// gathers it, instead of each sending all of it.
    pub scattered_transfers: Sourced<bool>,
    /// `true` if gradients are reduced in the precision of compute; otherwise in single precision.
    pub compute_precision_gradients: Sourced<bool>,
    /// Slowdown of a kernel while a collective runs beside it: 0.3 is 30 % longer.
    pub overlap_slowdown: Sourced<f64>,
    /// `true` if sharded weights are gathered, and their gradients scattered, while other layers compute; otherwise the
    /// device computes only when neither is under way.
    pub sharded_overlap: Sourced<bool>,
    /// When updated weights are gathered of which optimizer state and gradients alone are sharded; after the update if left
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_weights: Option<Sourced<UpdatedWeights>>,
    /// `true` if layerwise sharded weights and gradients travel matrix by matrix, each with its own latency, while
    /// smaller tensors are replicated; otherwise a layer is one flat buffer.
    pub sharded_by_tensor: Sourced<bool>,
    /// Host time to prepare and copy one rank's part of one collective over sharded tensors, where the software handles
    /// parts one by one; zero where they arrive in place.
    pub sharded_copy: Sourced<Seconds>,
    /// Memory on each device of the driver's context, the framework and its libraries.
    pub resident: Sourced<Bytes>,
    /// Activations that layers over tokens keep from forward to backward, relative to the counts of `models`, which are
    /// those of fused normalisation and activation; as counted if left out.
    #[serde(default)]
    pub token_activations: Option<Sourced<f64>>,
    /// The same of models whose weights are loaded in half precision and stay as they are; `token_activations` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_activations: Option<Sourced<f64>>,
    /// `true` if the scripts that train adapters, or on preferences, take the loss in tiles of logits, which are never
    /// whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiled_loss: Option<Sourced<bool>>,
    /// `true` if gradients in half precision stay in memory beside their sums in single precision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeps_half_gradients: Option<Sourced<bool>>,
    /// `true` if gradients are kept in main memory where the optimizer is offloaded: those of each micro-batch leave after
    /// they were reduced, and come back to be added to; otherwise they leave once, before the update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradients_on_host: Option<Sourced<bool>>,
    /// `true` if a compiler of the whole step lets go of every value after its last use; otherwise gradients, and what
    /// layers keep, are there together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub let_go_at_once: Option<Sourced<bool>>,
    /// Memory that the allocator holds without using it, relative to the size of the tensors.
    pub fragmentation: Sourced<f64>,
    /// Main memory that the software takes for what it keeps there, relative to the size of the tensors; 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload_memory: Option<Sourced<f64>>,
    /// Fixed time of a step: data hand-over, loss read-back, counters.
    pub step_overhead: Sourced<Seconds>,
    /// Half-width of the 90 % interval of a step time that rests on these numbers, as a fraction, besides that of the
    /// GPU: it covers how much the releases differ that one set of numbers stands for.
    pub uncertainty: Sourced<f64>,
    /// Rate of copying between tensors and the buffers of collectives over sharded tensors, besides links and
    /// `sharded_copy`, where buffers are allocated for each tensor. These copies take no time if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharded_copy_rate: Option<Sourced<BytesPerSecond>>,
    /// Rate of convolutions, relative to that with `gemm`; 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub convolution: Option<Sourced<f64>>,
    /// Rate of FlashAttention forward with long samples, on the arithmetic that a mask leaves, relative to large matrix
    /// products, by generation of GPUs (`Hopper = …`); `other` for those that are not named. That of its first release if left
    /// out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flash_attention: BTreeMap<String, Sourced<f64>>,
    /// The divisor of the number of heads times samples with which the fused softmax takes attention scores in half
    /// precision; other numbers on a rank go through separate kernels in single precision. Any number if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softmax_heads: Option<Sourced<u32>>,
    /// `true` if that fused softmax is for causal masks only, so that scores of other attention go through separate
    /// kernels in half precision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causal_softmax: Option<Sourced<bool>>,
    /// The partition of a model into pipeline stages, where nothing else is stated.
    #[serde(default)]
    pub stage_cut: StageCut,
    /// `true` if the software chooses by itself the sharding of weights and optimizer state over replicas.
    #[serde(default)]
    pub chooses_sharding: bool,
    /// The memory layout of feature maps.
    #[serde(default)]
    pub map_layout: MapLayout,
    /// Part of a GPU's memory that plans leave free, by which measured peaks exceeded predicted ones. At least
    /// [`MEMORY_MARGIN_MIN`] is left free with every stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_spread: Option<Sourced<f64>>,
    /// Part of a GPU's memory that plans leave free instead, where the user states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_margin: Option<Sourced<f64>>,
    /// The plans that the stack can run, and its launch targets.
    #[serde(default)]
    pub runs: Abilities,
    /// What published step times say of predictions with it, by kind of machines and work; none where few were published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<Seen>,
    /// Labels of published measurements that the stack stands for.
    #[serde(default, rename = "published")]
    pub published_as: Vec<PublishedAs>,
}

impl Stack {
    /// Returns the number of collectives for a sharded layer of `matrices` matrices.
    pub fn collectives_for(&self, matrices: u32) -> u32 {
        if self.sharded_by_tensor.value { matrices.max(1) } else { 1 }
    }

    /// Returns the time, besides communication, to put the parts of `ranks` ranks into place after `collectives`
    /// collectives that carried `bytes` bytes together.
    pub fn copying(&self, collectives: u32, ranks: usize, bytes: Bytes) -> Seconds {
        let parts = self.sharded_copy.value * (f64::from(collectives) * ranks as f64);
        parts + self.sharded_copy_rate.as_ref().map_or(Seconds::ZERO, |rate| bytes / rate.value)
    }

    /// Returns the rate of FlashAttention forward on a generation of GPUs, relative to large matrix products.
    pub fn flash_attention_on(&self, generation: &str) -> f64 {
        let stated = self.flash_attention.get(generation).or_else(|| self.flash_attention.get("other"));
        stated.map_or(FIRST_FLASH_ATTENTION, |rate| rate.value)
    }

    /// Returns `true` if whole logits are never there where adapters are trained, or a model on preferences.
    pub fn tiles_loss(&self) -> bool {
        self.tiled_loss.as_ref().is_some_and(|does| does.value)
    }

    /// Returns the part of a GPU's memory that plans leave free with this stack.
    pub fn memory_margin(&self) -> f64 {
        self.memory_margin.as_ref().map_or_else(|| self.usual_memory_margin(), |margin| margin.value)
    }

    /// Returns the memory margin that applies where none is stated: by how much measured peaks exceeded predicted ones,
    /// and at least 8 %.
    pub fn usual_memory_margin(&self) -> f64 {
        self.memory_spread.as_ref().map_or(MEMORY_MARGIN_MIN, |spread| spread.value.max(MEMORY_MARGIN_MIN))
    }

    /// Returns the number of pipeline stages that a published version or method of this stack always has.
    pub fn pipeline_of(&self, version: &str) -> Option<u32> {
        self.published_as.iter().find(|label| label.version.as_deref() == Some(version))?.pipeline
    }

    /// Returns how closely a published label fits this stack, or `None` if it does not.
    pub(crate) fn closeness(&self, publication: Publication<'_>) -> Option<Closeness> {
        self.published_as.iter().filter_map(|label| label.closeness(publication)).max()
    }

    /// Returns `true` if a published label that is this very name, and no pattern, fits this stack.
    pub(crate) fn is_known_as(&self, publication: Publication<'_>) -> bool {
        let is_name = |label: &&PublishedAs| label.stack == publication.stack;
        self.published_as.iter().filter(is_name).any(|label| label.closeness(publication).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::catalog;

    fn of(stack: &str, version: &str, generation: &str, xla: Option<bool>) -> Option<&'static str> {
        let publication = Publication { stack, version, generation, xla, ..Publication::default() };
        catalog().stack_published_as(publication).map(|stack| stack.name.as_str())
    }

    #[test]
    fn the_label_that_says_most_is_met() {
        assert_eq!(of("megatron-lm", "", "Ampere", None), Some("megatron"));
        assert_eq!(of("megatron-lm", "", "Volta", None), Some("megatron-v100"));
        assert_eq!(of("alpa", "megatron", "Volta", None), Some("megatron-v100-2022"));
        assert_eq!(of("mlperf-mxnet", "v0.7", "Ampere", None), Some("mlperf-mxnet"), "rather than *mxnet*");
        assert_eq!(of("mxnet-horovod", "", "Volta", None), Some("mxnet"));
        assert_eq!(of("a framework of tomorrow", "", "Volta", None), None);
    }

    #[test]
    fn names_of_the_catalog_stand_for_themselves() {
        for name in ["pytorch-ddp", "pytorch-ddp-compiled", "pytorch-fsdp", "deepspeed", "megatron-core"] {
            assert_eq!(of(name, "", "Ampere", None), Some(name));
            assert_eq!(of(name, "2.7", "Ampere", None), Some(name));
        }
        assert_eq!(of("pytorch-ddp", "2.0 compile", "Ampere", None), Some("pytorch-ddp-compiled"));
        assert_eq!(of("pytorch", "", "Ampere", None), Some("pytorch-2019"), "published under this very name");
    }

    #[test]
    fn sequence_parallelism_tells_of_a_later_release() {
        let of = |generation, sequence_parallel| {
            let publication =
                Publication { stack: "megatron-lm", generation, sequence_parallel, ..Publication::default() };
            catalog().stack_published_as(publication).map(|stack| stack.name.as_str())
        };
        assert_eq!([false, true].map(|sequence| of("Ampere", sequence)), [Some("megatron"), Some("megatron-2022")]);
        assert_eq!(of("Volta", true), Some("megatron-v100"));
    }

    #[test]
    fn releases_are_met_from_the_first_on() {
        for (version, stack) in [
            ("NGC pytorch 19.07", "pytorch-2019"),
            ("NGC pytorch (version not stated)", "pytorch-2019"),
            ("NGC pytorch 20.06", "pytorch-2020-spring"),
            ("NGC pytorch 20.12", "pytorch-2020"),
            ("NGC pytorch 21.11", "pytorch-2020"),
            ("NGC pytorch 22.08", "pytorch-2022"),
        ] {
            assert_eq!(of("pytorch", version, "Ampere", None), Some(stack), "{version}");
        }
        assert_eq!(of("mlperf-pytorch", "v0.6", "Volta", None), Some("mlperf-pytorch-2019"));
        assert_eq!(of("mlperf-mxnet", "v1.1", "Ampere", None), Some("mlperf-mxnet-2021"));
        assert_eq!(of("mlperf-pytorch", "v0.7", "Ampere", None), Some("mlperf-pytorch"));
        assert_eq!(of("mlperf-pytorch", "v2.0", "Ampere", None), Some("mlperf-pytorch-2021"));
    }

    #[test]
    fn compilers_are_told_apart() {
        let stack = |xla| of("tensorflow1", "NGC tensorflow (tf1) 20.06", "Ampere", xla);
        assert_eq!(stack(Some(true)), Some("tensorflow1-2020-xla"));
        assert_eq!([stack(Some(false)), stack(None)], [Some("tensorflow1-2020"); 2]);
    }

    #[test]
    fn a_release_is_a_year_and_a_month() {
        let release = |text: &str| Release::try_from(text.to_owned());
        assert!(release("9.12") < release("19.2") && release("v1.0") > release("v0.7"));
        assert_eq!(release("20.06").map(String::from), Ok("20.06".into()));
        for wrong in ["", "20", "twenty.six", "20.06.1"] {
            assert!(release(wrong).is_err_and(|message| message.contains("20.12")), "{wrong}");
        }
    }

    #[test]
    fn single_precision_lies_channels_first_unless_all_lies_channels_last() {
        let first = |layout: MapLayout| [2, 4].map(|element| layout.channels_first(element));
        assert_eq!(first(MapLayout::ChannelsFirst), [true, true]);
        assert_eq!(first(MapLayout::ChannelsLastInHalf), [false, true]);
        assert_eq!(first(MapLayout::ChannelsLast), [false, false]);
    }
}
