//! Processors as data loaders see them, and the loaders.

use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use trainyard_units::BytesPerSecond;

/// A processor model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Catalog id, `xeon-8175m`.
    pub name: String,
    /// The full name.
    pub description: String,
    /// CoreMark iterations per second and virtual processor, while all of them are at work.
    pub coremark: Sourced<f64>,
    /// Virtual processors per core.
    pub threads_per_core: Sourced<u32>,
    /// Speed of one thread alone, relative to the processor on which stacks state their launches.
    pub single_thread: Sourced<f64>,
}

/// The software that reads samples, decodes them and hands them to training. Its rates hold for the processor whose
/// `coremark` it states, and are proportional to CoreMark; they are bytes as stored, for each virtual processor while
/// all of them are at work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loader {
    /// Catalog id, `pytorch`.
    pub name: String,
    /// A description in a few words.
    pub description: String,
    /// CoreMark iterations per second and virtual processor for which the rates hold.
    pub coremark: Sourced<f64>,
    /// Work that the threads of a core do together, relative to one of them alone.
    pub hyper_threading: Sourced<f64>,
    /// Rate at which decoded samples go from the workers of one loader to training, in decoded bytes: more workers do
    /// not shorten this part.
    pub handover: Sourced<BytesPerSecond>,
    /// Rate of decoding a JPEG image, cropping and flipping.
    pub jpeg: Sourced<BytesPerSecond>,
    /// Rate of copying, cropping and flipping an array without compression.
    pub raw: Sourced<BytesPerSecond>,
    /// Rate of reading an array from an archive without compression.
    pub npz: Sourced<BytesPerSecond>,
    /// Rate of cutting samples from a file of tokens.
    pub tokens: Sourced<BytesPerSecond>,
}
