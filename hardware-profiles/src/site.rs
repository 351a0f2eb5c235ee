//! What a site asks of those who start jobs: words for Slurm, and the environment of ranks. All of it is written into shell
//! scripts, so that only what means nothing to a shell is accepted.
//!
//! # Source
//!
//! Slurm 24.05, `sbatch(1)`: `--partition`, `--account`, `--qos`, `--constraint`, `--gpus-per-node`; POSIX.1-2024, Base
//! Definitions, 8.1, for the names of variables.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_units::Invalid;

/// Characters that Slurm's names are made of, besides letters and digits, and that neither Slurm nor a shell reads as more.
const OF_NAMES: &str = "_.,:/=@+-";

/// Those with which features are combined besides: `[rack1|rack2]`, `a100&nvme`.
const OF_FEATURES: &str = "_.,:/=@+-&|!*()[]";

/// Those of values of variables: `^mlx5_3:1`, `30%`.
const OF_VALUES: &str = "_.,:/=@+-^%";

/// What jobs ask Slurm for, besides what follows from a plan. `slurm.sh` has a `#SBATCH` line of each that is stated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlurmSpec {
    /// Partition of these machines, or several, `a100,a100-long`; Slurm's default if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Account that jobs are charged to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Quality of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// Features that the machines must have, `a100&nvme`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraint: Option<String>,
    /// Type of GPU, `a100`, where Slurm has several (`sinfo -o "%N %G"`): `--gpus-per-node=a100:8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<String>,
}

impl SlurmSpec {
    /// Combines two values of each key.
    fn zip(self, other: Self, either: impl Fn(Option<String>, Option<String>) -> Option<String>) -> Self {
        Self {
            partition: either(self.partition, other.partition),
            account: either(self.account, other.account),
            qos: either(self.qos, other.qos),
            constraint: either(self.constraint, other.constraint),
            gpu_type: either(self.gpu_type, other.gpu_type),
        }
    }

    /// Returns what is stated here, and else there.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.zip(other, Option::or)
    }

    /// Returns that in which both are alike.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        self.zip(other, |one, other| if one == other { one } else { None })
    }

    /// Checks that nothing can become another word, another line or a comment of a script.
    pub(crate) fn check(&self, field: &str) -> Result<(), Invalid> {
        let types = OF_NAMES.replace(':', "");
        for (key, value, others, example) in [
            ("partition", &self.partition, OF_NAMES, "a100"),
            ("account", &self.account, OF_NAMES, "physics@a100"),
            ("qos", &self.qos, OF_NAMES, "long"),
            ("constraint", &self.constraint, OF_FEATURES, "a100&nvme"),
            ("gpu_type", &self.gpu_type, &types, "a100"),
        ] {
            if let Some(value) = value {
                word(format!("{field}.{key}"), value, others, &format!("{key} = \"{example}\""))?;
            }
        }
        Ok(())
    }
}

/// Checks the environment of ranks.
pub(crate) fn environment(variables: &BTreeMap<String, String>) -> Result<(), Invalid> {
    for (name, value) in variables {
        let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        if !starts || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            let allowed = "the name of an environment variable: letters, digits and _, of which the first is no digit";
            let name = format!("`{}`", name.escape_debug());
            return Err(Invalid::value("environment", name, allowed).with_hint("NCCL_SOCKET_IFNAME = \"ib0\" is one"));
        }
        word(format!("environment.{name}"), value, OF_VALUES, &format!("{name} = \"ib0,ib1\""))?;
    }
    Ok(())
}

/// Checks a word that is written into scripts.
fn word(field: String, value: &str, others: &str, example: &str) -> Result<(), Invalid> {
    if !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c)) {
        return Ok(());
    }
    let value = format!("\"{}\"", value.escape_debug());
    let hint = format!("for example `{example}`; what is left out is not written");
    Err(Invalid::value(field, value, format!("one or more letters, digits and {others}")).with_hint(hint))
}
