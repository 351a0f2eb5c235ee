//! Processors as data loaders see them, and the loaders.

use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use trainyard_units::BytesPerSecond;

/// One model of processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Catalog id, `xeon-8175m`.
    pub name: String,
    /// In full.
    pub description: String,
    /// CoreMark iterations a second and virtual processor, all of them at work.
    pub coremark: Sourced<f64>,
    /// Virtual processors of a core.
    pub threads_per_core: Sourced<u32>,
}

/// The software that reads samples, decodes them and hands them to training. Its rates hold for the processor whose
/// `coremark` it states and grow in proportion; they are bytes as stored, for each virtual processor while all of them
/// are at work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loader {
    /// Catalog id, `pytorch`.
    pub name: String,
    /// In a few words.
    pub description: String,
    /// CoreMark iterations a second and virtual processor for which the rates hold.
    pub coremark: Sourced<f64>,
    /// What the threads of a core do together, relative to one of them alone.
    pub hyper_threading: Sourced<f64>,
    /// Handing decoded samples from the workers of one loader to training, in decoded bytes: the part that more workers
    /// do not shorten.
    pub handover: Sourced<BytesPerSecond>,
    /// Decoding a JPEG image, cropping and flipping.
    pub jpeg: Sourced<BytesPerSecond>,
    /// Copying, cropping and flipping an array without compression.
    pub raw: Sourced<BytesPerSecond>,
    /// Reading an array from an archive without compression.
    pub npz: Sourced<BytesPerSecond>,
    /// Cutting samples from a file of tokens.
    pub tokens: Sourced<BytesPerSecond>,
}
