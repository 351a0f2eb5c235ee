//! How a job is trained, as written.

use crate::job::GlobalBatch;
use crate::spec::{Optimizer, Precision, named};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_units::written_option;

named! {
    /// What becomes of the learning rate after warm-up.
    Decay {
        /// It stays, so that a lengthened training goes on as if it had never stopped.
        Constant = "constant",
        /// Half a cosine (Loshchilov and Hutter, arXiv:1608.03983, equation 5, without restarts).
        Cosine = "cosine",
        /// A straight line.
        Linear = "linear",
        /// The remaining share to a power (You et al., arXiv:1708.03888, section 5, where it is 2).
        Polynomial = "polynomial",
    }
}

/// How it is trained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainingSpec {
    /// Samples of an optimizer step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_batch: Option<GlobalBatch>,
    /// Passes over the data set; 1 if neither this nor `steps` nor `target` is given.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub epochs: Option<f64>,
    /// Optimizer steps, instead of `epochs`.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// What is to be reached, `mlperf-resnet`, instead of `epochs`: steps then follow from published trainings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The optimizer; adamw if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<Optimizer>,
    /// Peak learning rate of a run.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f64>,
    /// Number formats that may be chosen; all that the hardware has if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<Vec<Precision>>,
    /// Steps over which the learning rate rises from nothing; 10 if left out. `warmup_steps` is read too.
    #[serde(
        default,
        alias = "warmup_steps",
        deserialize_with = "written_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub warm_up_steps: Option<u64>,
    /// What becomes of the learning rate after that; it stays if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decay: Option<Decay>,
    /// The power of a polynomial decay; 2 if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub decay_power: Option<f64>,
    /// The learning rate at the last step, where it decays; 0 if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub final_learning_rate: Option<f64>,
    /// The greatest norm that the gradient of all parameters may have; without limit if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// Weight decay; what the optimizer is usually run with if left out, as the three below.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f64>,
    /// Decay rate of the velocity of sgd-momentum and lars.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub momentum: Option<f64>,
    /// Decay rates of the running means of adam, adamw and lamb: of gradients, and of their squares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub betas: Option<[f64; 2]>,
    /// What adam, adamw and lamb add to the root of the mean square.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
}
