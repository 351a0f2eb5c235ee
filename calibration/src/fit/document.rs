//! What a fit found, for people and programs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema of refit documents that this version writes.
pub const REFIT_SCHEMA: &str = "trainyard.refit/1";

/// Constants before and after, and how well they predict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefitDocument {
    /// `trainyard.refit/1`.
    pub schema: String,
    /// Rows that were fitted.
    pub rows: usize,
    /// Rows that the simulator cannot express, with the reason of each.
    pub unsupported: Vec<String>,
    /// Constants that changed.
    pub constants: Vec<ConstantChange>,
    /// Every stack of the table by name, then `*` for all rows.
    pub stacks: Vec<StackErrors>,
    /// Every suite of the table by name.
    pub suites: Vec<SuiteErrors>,
    /// What intervals are made of: half-widths that would hold nine in ten of the rows that were left out.
    pub widths: Vec<TermWidth>,
    /// Share of rows whose present 90 % interval, around what is predicted without their group, holds what was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage90: Option<f64>,
}

/// A constant that changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConstantChange {
    /// Its entries and its name, `stacks.pytorch.launch`.
    pub name: String,
    /// Before, in seconds for a time.
    pub before: f64,
    /// After.
    pub after: f64,
    /// Relative standard error of the value after.
    pub deviation: f64,
    /// Rows that respond to it.
    pub rows: usize,
}

/// Mean absolute errors as fractions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// With the constants from which the fit started.
    pub before: f64,
    /// With those that it found.
    pub after: f64,
    /// Of groups that were left out, from the present constants and what the other groups say: what decides.
    pub left_out: f64,
    /// The same, from the mean of all other stacks instead of the stack's present constants, which had seen the groups.
    pub unseen: f64,
}

/// How well a stack is predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StackErrors {
    /// Its name, or `*` for all rows.
    pub stack: String,
    /// What rows call it, where that is not its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub called: Vec<String>,
    /// Rows.
    pub rows: usize,
    /// Whether its constants were replaced.
    pub replaced: bool,
    /// Its errors.
    pub errors: Errors,
}

/// How well the rows of a suite are predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuiteErrors {
    /// Its name.
    pub suite: String,
    /// Rows.
    pub rows: usize,
    /// Its errors.
    pub errors: Errors,
}

/// A reason why predictions are off, and by how much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TermWidth {
    /// What may be off.
    pub term: String,
    /// Rows on which it counts.
    pub rows: usize,
    /// Half-width that is in use, as a fraction.
    pub present: f64,
    /// Half-width that residuals of left-out groups ask for.
    pub fitted: f64,
    /// Share of those rows that the present interval holds.
    pub coverage90: f64,
}
