//! Software stacks: what a training framework adds to the hardware.

use crate::abilities::Abilities;
use crate::catalog::matches;
use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use trainyard_units::{Bytes, BytesPerSecond, Seconds};

/// The stack of a framework that nobody has measured: the constants of a common one.
pub const DEFAULT_STACK: &str = "pytorch";

/// The stack of this program's own executor, with which measured machines are priced.
pub const EXECUTOR_STACK: &str = "trainyard-executor";

/// Part of a GPU's memory that a plan leaves free at least, whatever the stack: allocators fragment, and libraries
/// allocate what nobody counted. A stated default.
pub const MEMORY_MARGIN_MIN: f64 = 0.08;

/// How a framework cuts a model into pipeline stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StageCut {
    /// The same number of blocks in every stage; the first also embeds, the last also computes the loss.
    #[default]
    EqualBlocks,
    /// The same number of layers in every stage, embedding and head counted as layers, or one more in the first ones.
    EqualLayers,
    /// Contiguous runs whose most expensive one is cheapest.
    Balanced,
}

/// In which order a framework keeps the values of maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MapLayout {
    /// All pixels of a channel together (NCHW): what products on tensor cores read and write is transposed.
    ChannelsFirst,
    /// All channels of a pixel together (NHWC), as tensor cores need them, in half precision; the other way in single.
    #[default]
    ChannelsLastInHalf,
    /// All channels of a pixel together in every format. Minimal filtering is not there for it.
    ChannelsLast,
}

impl MapLayout {
    /// Whether channels come first where elements have so many bytes.
    pub fn channels_first(self, element: u64) -> bool {
        match self {
            Self::ChannelsFirst => true,
            Self::ChannelsLastInHalf => element > 2,
            Self::ChannelsLast => false,
        }
    }
}

/// A label under which measurements were published, and for which a stack of the catalog stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedAs {
    /// The framework's name in the publication, in which `*` stands for any text.
    pub stack: String,
    /// Only this version or method of it; any if left out.
    #[serde(default)]
    pub version: Option<String>,
    /// Only this release of it and later ones, `20.12`; any if left out.
    #[serde(default)]
    pub since: Option<Release>,
    /// Only on this generation of GPUs, `Volta`; any if left out.
    #[serde(default)]
    pub generation: Option<String>,
    /// Only with, or only without, graphs that XLA compiled; any if left out.
    #[serde(default)]
    pub xla: Option<bool>,
    /// Only with, or only without, sequence parallelism, which tells releases apart that came before and after it; any
    /// if left out.
    #[serde(default)]
    pub sequence_parallel: Option<bool>,
}

/// Under which label a measurement was published, and on what it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Publication<'a> {
    /// The framework's name.
    pub stack: &'a str,
    /// Its version or method; a release of it is the last word of `NGC pytorch 20.12`.
    pub version: &'a str,
    /// The generation of GPUs.
    pub generation: &'a str,
    /// Whether XLA compiled the graph, if that is known.
    pub xla: Option<bool>,
    /// Whether the plan has sequence parallelism.
    pub sequence_parallel: bool,
}

/// A release of a framework, `20.12` or `v2.0`: a year and a month, or a major and a minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Release {
    major: u32,
    minor: u32,
}

impl Release {
    /// The release that a version ends with, or nothing if it ends with something else.
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

/// How closely a label is met: the more parts agree the closer, then the later the release from which it holds, then
/// the longer the name that was matched.
pub(crate) type Closeness = (usize, Option<Release>, usize);

impl PublishedAs {
    /// How closely the label is met, or nothing if a part of it differs. `*` in its name stands for any text.
    fn closeness(&self, publication: Publication<'_>) -> Option<Closeness> {
        let parts = [
            self.version.as_ref().map(|version| version == publication.version),
            self.since.map(|since| Release::of_version(publication.version).is_some_and(|release| release >= since)),
            self.generation.as_ref().map(|generation| generation == publication.generation),
            self.xla.map(|xla| publication.xla == Some(xla)),
            self.sequence_parallel.map(|sequence| publication.sequence_parallel == sequence),
        ];
        let stated = || parts.iter().flatten();
        let met = matches(&self.stack, publication.stack) && stated().all(|equal| *equal);
        met.then(|| (stated().count(), self.since, self.stack.len()))
    }
}

/// A training framework as it loads a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// Catalog id, `megatron`.
    pub name: String,
    /// In a few words.
    pub description: String,
    /// Host time to launch one kernel, everything the framework does for it included. Zero if there is no host thread.
    pub launch: Sourced<Seconds>,
    /// Memory traffic of kernels other than matrix products, relative to the counts of `models`.
    pub traffic: Sourced<f64>,
    /// The same where compute is in half precision, besides `traffic`: what is kept in single precision, and casts.
    pub mixed_traffic: Sourced<f64>,
    /// The same of layers with maps, in place of both: normalisation of channels, activations, sums, pooling.
    pub map_traffic: Sourced<f64>,
    /// Memory traffic of the loss over a vocabulary, relative to the counts of `models`, which are those of separate
    /// kernels in single precision; besides `traffic`.
    pub loss_traffic: Sourced<f64>,
    /// Whether adding a weight's gradient to the sum is partly done by the product that computes it; otherwise kernels of
    /// their own read and write all of both.
    pub fused_accumulation: Sourced<bool>,
    /// Part of matrix products' rate, relative to the GPU's own constants.
    pub gemm: Sourced<f64>,
    /// Host time to choose one region of an image (proposals sorted, suppressed, matched and sampled), for which the
    /// device waits; zero where kernels do it for all at once.
    pub region_selection: Sourced<Seconds>,
    /// Memory traffic of the optimizer's update, relative to one kernel that reads and writes everything once.
    pub update_traffic: Sourced<f64>,
    /// What an update with Adam in single precision takes besides for each tensor of parameters, where the fused kernel
    /// is used in mixed precision only and a dozen kernels for each tensor are launched instead; nothing where it is
    /// always used.
    #[serde(default)]
    pub separate_update: Option<Sourced<Seconds>>,
    /// What one virtual processor, of the kind for which the rates of the loader hold, takes to read, decode and augment an image, where the framework's own examples leave it
    /// to the processors and no loader was stated; nothing where images are there when a step wants them.
    #[serde(default)]
    pub image_decoding: Option<Sourced<Seconds>>,
    /// Share of the rows looked up in tables that ranks exchange, where rows that are often needed are held by all and
    /// their gradients summed; everything if left out.
    #[serde(default)]
    pub table_exchange: Option<Sourced<f64>>,
    /// Whether the product with the vocabulary is computed for masked tokens only, where others predict nothing.
    pub masked_head: Sourced<bool>,
    /// Gradients are reduced in buckets of this size while backward goes on; zero: in one piece after backward.
    pub bucket: Sourced<Bytes>,
    /// Part of a point-to-point transfer between stages that a stage waits for, as it was fitted elsewhere. The simulator
    /// only asks whether there is one: then the sender is occupied until the bytes have left.
    pub exposed_transfer: Sourced<f64>,
    /// Whether the ranks of a tensor-parallel group each send their own part of an activation to the next stage and
    /// gather it there, instead of each sending all of it.
    pub scattered_transfers: Sourced<bool>,
    /// Whether gradients are reduced in the precision of compute; otherwise in single precision.
    pub compute_precision_gradients: Sourced<bool>,
    /// How much longer a kernel takes while a collective is under way beside it: 0.3 is 30 %.
    pub overlap_slowdown: Sourced<f64>,
    /// Whether weights that are shared out are gathered, and their gradients scattered, while other layers compute;
    /// otherwise the device computes when neither is under way.
    pub sharded_overlap: Sourced<bool>,
    /// Whether weights and gradients that are shared out layer by layer go matrix by matrix, each with its own latency,
    /// smaller tensors being held by all; otherwise a layer is one flat buffer.
    pub sharded_by_tensor: Sourced<bool>,
    /// Host time to prepare and copy one rank's part of one collective over shared-out tensors, where the software
    /// handles parts one by one; zero where they arrive in place.
    pub sharded_copy: Sourced<Seconds>,
    /// Memory of the driver's context, the framework and its libraries, on each device.
    pub resident: Sourced<Bytes>,
    /// What layers over tokens keep from forward to backward, relative to the counts of `models`, which are those of fused
    /// normalisation and activation; as counted if left out.
    #[serde(default)]
    pub token_activations: Option<Sourced<f64>>,
    /// Memory that the allocator holds without use, relative to what tensors take.
    pub fragmentation: Sourced<f64>,
    /// Fixed time of a step: data hand-over, loss read-back, counters.
    pub step_overhead: Sourced<Seconds>,
    /// Half-width of the 90 % interval of a step time that rests on these numbers, as a fraction, besides that of the GPU:
    /// how much the releases differ that one set of numbers stands for.
    pub uncertainty: Sourced<f64>,
    /// Rate at which it handles what such collectives bring and take, besides links and parts: copies into and out of
    /// buffers that it allocates for each tensor. No time if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharded_copy_rate: Option<Sourced<BytesPerSecond>>,
    /// Part of convolutions' rate, besides `gemm`; all of it if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub convolution: Option<Sourced<f64>>,
    /// The number of heads of samples by which its fused softmax takes attention scores in half precision; those of a
    /// rank that are no multiple go through separate kernels in single precision. Any number if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softmax_heads: Option<Sourced<u32>>,
    /// How it cuts a model into pipeline stages when nobody says.
    #[serde(default)]
    pub stage_cut: StageCut,
    /// Whether it decides by itself what replicas share out of weights and the optimizer's state.
    #[serde(default)]
    pub chooses_sharding: bool,
    /// In which order it keeps the values of maps.
    #[serde(default)]
    pub map_layout: MapLayout,
    /// Part of a GPU's memory by which measured peaks exceeded predicted ones: what a plan leaves free for it. Of no
    /// stack less than [`MEMORY_MARGIN_MIN`] is left free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_spread: Option<Sourced<f64>>,
    /// Part of a GPU's memory that plans leave free instead, where somebody says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_margin: Option<Sourced<f64>>,
    /// What it can run, and what launches it.
    #[serde(default)]
    pub runs: Abilities,
    /// Labels of published measurements that it stands for.
    #[serde(default, rename = "published")]
    pub published_as: Vec<PublishedAs>,
}

impl Stack {
    /// Collectives that it issues for a layer of so many matrices that is shared out.
    pub fn collectives_for(&self, matrices: u32) -> u32 {
        if self.sharded_by_tensor.value { matrices.max(1) } else { 1 }
    }

    /// What it takes, besides communication, to put the parts of so many ranks into place after so many collectives that
    /// carried so many bytes together.
    pub fn copying(&self, collectives: u32, ranks: usize, bytes: Bytes) -> Seconds {
        let parts = self.sharded_copy.value * (f64::from(collectives) * ranks as f64);
        parts + self.sharded_copy_rate.as_ref().map_or(Seconds::ZERO, |rate| bytes / rate.value)
    }

    /// Part of a GPU's memory that plans leave free with this stack.
    pub fn memory_margin(&self) -> f64 {
        self.memory_margin.as_ref().map_or_else(|| self.usual_memory_margin(), |margin| margin.value)
    }

    /// The same where nobody says otherwise: by how much measured peaks exceeded predicted ones, and not less than 8 %.
    pub fn usual_memory_margin(&self) -> f64 {
        self.memory_spread.as_ref().map_or(MEMORY_MARGIN_MIN, |spread| spread.value.max(MEMORY_MARGIN_MIN))
    }

    /// How closely a published label fits this stack, or nothing if it does not.
    pub(crate) fn closeness(&self, publication: Publication<'_>) -> Option<Closeness> {
        self.published_as.iter().filter_map(|label| label.closeness(publication)).max()
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
