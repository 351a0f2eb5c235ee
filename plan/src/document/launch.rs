//! The document of launch files: what other engines and services need to run a plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema of launch documents that this version writes.
pub const LAUNCH_SCHEMA: &str = "trainyard.launch/1";

/// Files with which another engine or a service runs a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LaunchDocument {
    /// `trainyard.launch/1`.
    pub schema: String,
    /// What the files are for, `sagemaker`.
    pub target: String,
    /// The files, the one that starts the training first.
    pub files: Vec<LaunchFile>,
    /// What has to be filled in, because a plan does not know it: the word that stands for it in the files, what it
    /// is, and the flag that sets it, if there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blanks: Vec<Blank>,
    /// What the job leaves open and the files say nonetheless: what stands there, what it is, and the field of the job
    /// that sets it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<Assumption>,
    /// What the plan says and the files do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A file by its name and its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LaunchFile {
    /// Its name, without a folder.
    pub name: String,
    /// All of it.
    pub text: String,
}

/// Something that a plan does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Blank {
    /// What stands for it in the files.
    pub placeholder: String,
    /// What it is.
    pub what: String,
    /// The flag of `trainyard export` that sets it; none for what is written into the files by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag: Option<String>,
}

/// Something that a job leaves open and launch files need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Assumption {
    /// What stands in the files, `weight_decay 0.1`.
    pub written: String,
    /// What it is.
    pub what: String,
    /// The field that sets it.
    pub field: String,
}
