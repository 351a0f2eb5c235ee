//! What a run took, beside what was predicted of it.

use super::Phases;
use crate::spec::PlanSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema of comparison documents that this version writes.
pub const COMPARISON_SCHEMA: &str = "trainyard.comparison/1";

/// Predicted against measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComparisonDocument {
    /// `trainyard.comparison/1`.
    pub schema: String,
    /// The plan that ran.
    pub plan: PlanSpec,
    /// What it ran on.
    pub device: String,
    /// Optimizer steps that were run.
    pub steps: u64,
    /// Written down before the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Figures>,
    /// What the run took.
    pub measured: Figures,
    /// Predicted over measured, minus one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Errors>,
    /// What was learnt.
    pub loss: Loss,
    /// Where things were written.
    pub files: Files,
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Seconds of one optimizer step: predicted, or the median of the measured ones.
    pub step_time_s: f64,
    /// The interval that should hold, or held, 90 % of steps.
    pub interval_s: [f64; 2],
    /// Seconds of all steps that were run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_steps_s: Option<f64>,
    /// Samples per second at that step time.
    pub samples_per_s: f64,
    /// Bytes that training takes, all ranks together; absent where the system does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Where the step goes.
    pub phases: Phases,
    /// The share of the time in which ranks computed that they had a processor; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_share: Option<f64>,
}

impl Figures {
    /// Returns `true` if something else was at work on the machine: ranks had to wait for processors or, where that is not
    /// known, many steps took much longer than the median.
    pub fn is_disturbed(&self) -> bool {
        let [_, high] = self.interval_s;
        self.processor_share.map_or(high > DISTURBED * self.step_time_s, |share| share < UNDISTURBED_SHARE)
    }
}

/// The share of its computing time for which a process has a processor at least on a machine that does nothing else. A stated
/// default: on an idle one it is more than 0.95.
const UNDISTURBED_SHARE: f64 = 0.85;

/// How many times as long as the median a twentieth of the steps take at least on a machine that does something else besides.
/// A stated default: on an idle one they take up to 1.3 times as long.
const DISTURBED: f64 = 1.6;

/// Predicted over measured, minus one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// Of the step time.
    pub step_time: f64,
    /// Of the throughput.
    pub samples_per_s: f64,
    /// Of the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<f64>,
    /// Of the phases by name; those that took less than a hundredth of the step have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub phases: BTreeMap<String, f64>,
}

/// What was learnt: mean cross-entropy in nats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// Of the first step's global batch; null if it was no number.
    #[serde(deserialize_with = "number_or_null")]
    #[schemars(extend("type" = ["number", "null"]))]
    pub first: f64,
    /// Of the last step's global batch; null if it was no number.
    #[serde(deserialize_with = "number_or_null")]
    #[schemars(extend("type" = ["number", "null"]))]
    pub last: f64,
    /// Of the data kept from training, after the last step; absent if none was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out: Option<f64>,
    /// The share of that data whose class has the highest score; absent where samples have no class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Samples that these are means of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated_samples: Option<u64>,
    /// Samples that were kept from training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out_samples: Option<u64>,
}

/// JSON has no word for what is not a number, so that it is written as `null`.
///
/// # Errors
///
/// When there is something else.
pub fn number_or_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// Where things were written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The plan document, with the prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The measurement file.
    pub measurement: String,
    /// Simulated and measured step, for Perfetto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Loss and step time as a picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plot: Option<String>,
    /// Predicted and measured phases as a picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<String>,
    /// The checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_slow_steps_take_much_longer_than_the_median_was_disturbed() {
        let of = |high: f64, processor_share: Option<f64>| Figures {
            step_time_s: 1.0,
            interval_s: [0.9, high],
            all_steps_s: None,
            samples_per_s: 1.0,
            memory_bytes: None,
            phases: Phases::default(),
            processor_share,
        };
        assert!(of(2.0, None).is_disturbed() && !of(1.3, None).is_disturbed());
        // Where it is known whether ranks had processors, that decides: steps may differ by themselves.
        assert!(of(1.3, Some(0.5)).is_disturbed() && !of(2.0, Some(0.97)).is_disturbed());
    }
}
