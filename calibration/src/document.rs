//! The validation document: predicted against measured, per row and per suite.

use crate::table::TableError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema of validation documents that this version writes.
pub const VALIDATION_SCHEMA: &str = "trainyard.validation/1";

/// Predictions beside measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidationDocument {
    /// `trainyard.validation/1`.
    pub schema: String,
    /// Every row of the table, in its order.
    pub rows: Vec<RowResult>,
    /// Every suite of the table by name, then `*` for all rows.
    pub suites: Vec<SuiteResult>,
    /// Cells that could not be read; their rows are among the unsupported ones.
    #[serde(skip)]
    pub malformed: Vec<TableError>,
}

/// Whether a row has a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It was predicted.
    Ok,
    /// It was not, for a stated reason.
    Unsupported,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RowResult {
    /// The row's name.
    pub id: String,
    /// Where it belongs.
    pub suite: String,
    /// Whether it was predicted.
    pub status: Status,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Seconds of a step, or of the operation in a table of collectives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_step_time_s: Option<f64>,
    /// The interval that should hold 90 % of measurements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<[f64; 2]>,
    /// What was measured; absent if the cell could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_step_time_s: Option<f64>,
    /// Predicted over measured, minus one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Bytes of the message, in a table of collectives where it is stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_bytes: Option<u64>,
    /// Devices that take part, in a table of collectives where it is stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<u32>,
}

impl RowResult {
    pub(crate) fn scored(id: &str, suite: &str, predicted: f64, interval: [f64; 2], measured: f64) -> Self {
        Self {
            id: id.into(),
            suite: suite.into(),
            status: Status::Ok,
            reason: None,
            predicted_step_time_s: Some(predicted),
            interval_s: Some(interval),
            measured_step_time_s: Some(measured),
            error: Some(predicted / measured - 1.0),
            message_bytes: None,
            devices: None,
        }
    }

    pub(crate) fn unsupported(id: &str, suite: &str, measured: Option<f64>, reason: String) -> Self {
        Self {
            id: id.into(),
            suite: suite.into(),
            status: Status::Unsupported,
            reason: Some(reason),
            predicted_step_time_s: None,
            interval_s: None,
            measured_step_time_s: measured,
            error: None,
            message_bytes: None,
            devices: None,
        }
    }
}

/// The rows of a suite, summed up. Fractions, not percent; absent if nothing was predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuiteResult {
    /// Its name, or `*` for all rows.
    pub suite: String,
    /// Rows of the table.
    pub rows: usize,
    /// Rows with a prediction.
    pub predicted: usize,
    /// Mean absolute error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mape: Option<f64>,
    /// Median absolute error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// Mean error with its sign; positive is predicted too slow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bias: Option<f64>,
    /// Share of the intervals that hold what was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage90: Option<f64>,
    /// Measured time of the plan predicted fastest over that of the fastest, minus one: the mean over groups of three
    /// or more plans for the same work on the same machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regret: Option<f64>,
    /// The largest of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regret_max: Option<f64>,
}
