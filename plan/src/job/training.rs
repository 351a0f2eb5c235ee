//! How a job is trained, as written.

use super::DropoutShares;
use crate::fine_tuning::{DpoSpec, LoraSpec, Method, TuningObjective};
use crate::name::named;
use crate::spec::{Optimizer, Precision};
use schemars::JsonSchema;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use trainyard_units::{Written, exactly_option, numbers_or_texts, written, written_option};

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

named! {
    /// The parameters that weight decay leaves out.
    DecayExempt {
        /// Biases and the scales of normalisations: all that have one dimension.
        BiasesAndNorms = "biases-and-norms",
        /// None, as PyTorch's optimizers have it where all parameters are one group.
        None = "none",
    }
}

/// Samples of an optimizer step: one number, or a range that convergence allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged, transform = numbers_or_texts)]
pub enum GlobalBatch {
    /// This many.
    Exactly(#[schemars(range(min = 1))] u64),
    /// From the first to the second.
    Between {
        /// At least.
        #[schemars(range(min = 1))]
        min: u64,
        /// At most.
        #[schemars(range(min = 1))]
        max: u64,
    },
}

/// How it is trained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct TrainingSpec {
    /// Samples of an optimizer step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_batch: Option<GlobalBatch>,
    /// Passes over the data set; 1 if neither this nor `steps` nor `target` is given.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub epochs: Option<f64>,
    /// Optimizer steps, instead of `epochs`.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub steps: Option<u64>,
    /// What is to be reached, `mlperf-resnet`, instead of `epochs`: steps then follow from published trainings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Which weights are trained; all of them if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// The adapters of lora and qlora.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraSpec>,
    /// With frozen, the last so many blocks are trained, and what follows them; 1 if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub trained_blocks: Option<u32>,
    /// What the training gets better at, sft or dpo (on pairs of sequences, one of which is preferred); sft, the model's own
    /// loss, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<TuningObjective>,
    /// Where dpo has the scores of the reference model from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dpo: Option<DpoSpec>,
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
    /// The learning rate that it decays to, right after the last step; 0 if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub final_learning_rate: Option<f64>,
    /// The greatest norm that the gradient of all parameters may have, 0 for no limit. Left out, training here has no limit;
    /// launch files clip at 1, as the programs that they start do.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// Weight decay; what the optimizer is usually run with if left out, as the three below.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f64>,
    /// What weight decay leaves out; biases and norms if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decay_exempt: Option<DecayExempt>,
    /// Shares that are dropped out, `0.1` or `{ attention = 0.1, residual = 0.1, embedding = 0.1 }`. If left out, time and
    /// memory count the dropout of the model's published training, and `trainyard run` drops out what the model's description
    /// says, which for those of the catalog is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout: Option<DropoutShares>,
    /// Decay rate of the velocity of sgd-momentum and lars.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub momentum: Option<f64>,
    /// Decay rates of the running means of adam, adamw and lamb: of gradients, and of their squares.
    #[serde(default, deserialize_with = "exactly_option", skip_serializing_if = "Option::is_none")]
    pub betas: Option<[f64; 2]>,
    /// What adam, adamw and lamb add to the root of the mean square.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
}

impl TrainingSpec {
    /// Returns the norm at which gradients are clipped; `None` where they are not.
    pub fn clips_at(&self) -> Option<f64> {
        self.clip_norm.filter(|norm| *norm > 0.0)
    }

    /// Returns the training by a method, without settings that belong to others.
    #[must_use]
    pub fn by(mut self, method: Method) -> Self {
        self.method = Some(method);
        self.lora = self.lora.filter(|_| method.has_adapters());
        if let Some(lora) = &mut self.lora {
            lora.base = lora.base.filter(|_| method == Method::Qlora);
        }
        self.trained_blocks = self.trained_blocks.filter(|_| method == Method::Frozen);
        self
    }
}

impl Serialize for GlobalBatch {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        match self {
            Self::Exactly(samples) => serializer.serialize_u64(*samples),
            Self::Between { min, max } => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("min", min)?;
                map.serialize_entry("max", max)?;
                map.end()
            }
        }
    }
}

// By hand, because serde's untagged enums answer a wrong value with "did not match any variant".
impl<'de> Deserialize<'de> for GlobalBatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        #[derive(Deserialize)]
        struct Count(#[serde(deserialize_with = "written")] u64);

        impl<'de> Visitor<'de> for Either {
            type Value = GlobalBatch;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a number of samples, or { min = 256, max = 4096 }")
            }

            fn visit_u64<E: Error>(self, samples: u64) -> Result<GlobalBatch, E> {
                Ok(GlobalBatch::Exactly(samples))
            }

            fn visit_f64<E: Error>(self, samples: f64) -> Result<GlobalBatch, E> {
                u64::of_float(samples)
                    .map(GlobalBatch::Exactly)
                    .ok_or_else(|| E::invalid_value(Unexpected::Float(samples), &"a whole number, at least 1"))
            }

            fn visit_str<E: Error>(self, samples: &str) -> Result<GlobalBatch, E> {
                u64::of_text(samples).map(GlobalBatch::Exactly).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, samples: i64) -> Result<GlobalBatch, E> {
                u64::try_from(samples)
                    .map(GlobalBatch::Exactly)
                    .map_err(|_| E::custom(format!("`global_batch` is {samples}, but it must be at least 1")))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GlobalBatch, A::Error> {
                let (mut min, mut max) = (None, None);
                let samples = |Count(samples)| samples;
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "min" => min = Some(samples(map.next_value()?)),
                        "max" => max = Some(samples(map.next_value()?)),
                        _ => return Err(A::Error::unknown_field(&key, &["min", "max"])),
                    }
                }
                let min = min.ok_or_else(|| A::Error::missing_field("min"))?;
                let max = max.ok_or_else(|| A::Error::missing_field("max"))?;
                Ok(GlobalBatch::Between { min, max })
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fine_tuning::BaseFormat;

    #[test]
    fn another_method_leaves_out_what_is_not_its_own() {
        let lora = LoraSpec { rank: Some(8), base: Some(BaseFormat::Int8), ..LoraSpec::default() };
        let adapted = TrainingSpec { lora: Some(lora.clone()), steps: Some(10), ..TrainingSpec::default() };
        let by = |method| adapted.clone().by(method);
        assert_eq!(by(Method::Qlora), TrainingSpec { method: Some(Method::Qlora), ..adapted.clone() });
        assert_eq!(by(Method::Lora).lora, Some(LoraSpec { base: None, ..lora }));
        for method in [Method::Full, Method::Frozen] {
            assert_eq!((by(method).method, by(method).lora, by(method).steps), (Some(method), None, Some(10)));
        }
        let frozen = TrainingSpec { trained_blocks: Some(4), ..TrainingSpec::default() };
        assert_eq!(frozen.clone().by(Method::Frozen).trained_blocks, Some(4));
        assert_eq!(frozen.by(Method::Lora).trained_blocks, None);
    }
}
