//! Software stacks: what a training framework adds to the hardware.

use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use trainyard_units::{Bytes, Seconds};

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

/// A label under which measurements were published, and for which a stack of the catalog stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedAs {
    /// The framework's name in the publication.
    pub stack: String,
    /// Only this version or method of it; any if left out.
    #[serde(default)]
    pub version: Option<String>,
    /// Only on this generation of GPUs, `Volta`; any if left out.
    #[serde(default)]
    pub generation: Option<String>,
}

impl PublishedAs {
    /// How closely the label is met: the number of its parts, or nothing if one of them differs.
    fn closeness(&self, stack: &str, version: &str, generation: &str) -> Option<usize> {
        let parts =
            [(Some(&self.stack), stack), (self.version.as_ref(), version), (self.generation.as_ref(), generation)];
        let stated = || parts.iter().filter_map(|(label, actual)| label.map(|label| label == actual));
        stated().all(|equal| equal).then(|| stated().count())
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
    /// Memory traffic of the loss over a vocabulary, relative to the counts of `models`, which are those of separate
    /// kernels in single precision; besides `traffic`.
    pub loss_traffic: Sourced<f64>,
    /// Whether adding a weight's gradient to the sum is partly done by the product that computes it; otherwise kernels of
    /// their own read and write all of both.
    pub fused_accumulation: Sourced<bool>,
    /// Part of matrix products' rate, relative to the GPU's own constants.
    pub gemm: Sourced<f64>,
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
    /// Memory that the allocator holds without use, relative to what tensors take.
    pub fragmentation: Sourced<f64>,
    /// Fixed time of a step: data hand-over, loss read-back, counters.
    pub step_overhead: Sourced<Seconds>,
    /// How it cuts a model into pipeline stages when nobody says.
    #[serde(default)]
    pub stage_cut: StageCut,
    /// Labels of published measurements that it stands for.
    #[serde(default, rename = "published")]
    pub published_as: Vec<PublishedAs>,
}

impl Stack {
    /// Collectives that it issues for a layer of so many matrices that is shared out.
    pub fn collectives_for(&self, matrices: u32) -> u32 {
        if self.sharded_by_tensor.value { matrices.max(1) } else { 1 }
    }

    /// What it takes, besides communication, to put the parts of so many ranks into place after so many collectives.
    pub fn copying(&self, collectives: u32, ranks: usize) -> Seconds {
        self.sharded_copy.value * (f64::from(collectives) * ranks as f64)
    }

    /// How closely a published label fits this stack, or nothing if it does not.
    pub(crate) fn closeness(&self, stack: &str, version: &str, generation: &str) -> Option<usize> {
        self.published_as.iter().filter_map(|label| label.closeness(stack, version, generation)).max()
    }
}
