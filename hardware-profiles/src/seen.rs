//! What published step times say of predictions with a stack.

use crate::network::Transport;
use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use trainyard_units::named;

named! {
    /// The kind of work of a model, as far as predictions of it are off by different amounts.
    Work {
        /// Layers over tokens, dense.
        Tokens = "tokens",
        /// Layers over tokens with experts on several GPUs.
        Experts = "experts",
        /// Feature maps.
        Maps = "maps",
        /// Feature maps, with regions that the host chooses.
        Regions = "regions",
        Recurrent = "recurrent",
        /// Tables that are looked up.
        Tables = "tables",
    }
}

named! {
    /// The width of the values that are computed with, as far as predictions are off by different amounts.
    Arithmetic {
        /// Half precision, mixed: casts and fused kernels differ by release.
        Half = "half",
        /// Values of four bytes, tf32 among them.
        Single = "single",
    }
}

/// By how much predictions of one kind of published steps were off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// The generation of the GPUs, `Ampere`.
    pub generation: String,
    pub work: Work,
    /// The arithmetic; none where the kind has steps of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arithmetic: Option<Arithmetic>,
    /// The transport between machines; none where all ran on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Transport>,
    /// Number of published steps.
    pub rows: u32,
    /// The largest number of GPUs among them.
    pub devices: u32,
    /// Half-width of the interval that holds nine in ten of them, each predicted without its group, in the logarithm.
    pub half_width: Sourced<f64>,
}
