//! Fields of a plan that the user holds: `--fix parallel.tensor=8`.

use crate::space::Candidate;
use std::str::FromStr;
use trainyard_plan::{Collectives, Precision, Recompute, ScheduleName};

/// Fields that every plan of a search must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// Machine type.
    pub instance: Option<String>,
    /// Number of machines.
    pub instances: Option<u32>,
    /// Replicas.
    pub data: Option<u32>,
    /// Ranks per layer.
    pub tensor: Option<u32>,
    /// Stages.
    pub pipeline: Option<u32>,
    /// Samples of a step.
    pub global: Option<u64>,
    /// Samples at once.
    pub micro: Option<u64>,
    /// Micro-batches of a replica.
    pub accumulation: Option<u64>,
    /// Order of micro-batches.
    pub schedule: Option<ScheduleName>,
    /// Number formats.
    pub precision: Option<Precision>,
    /// What is computed again.
    pub recompute: Option<Recompute>,
    /// How gradients are summed.
    pub collectives: Option<Collectives>,
}

/// Why a `KEY=VALUE` cannot be held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FixError {
    /// There is no `=`.
    #[error("`--fix {text}` has no `=`; write --fix KEY=VALUE")]
    NoValue {
        /// What was written.
        text: String,
    },
    /// No field of a plan has this name.
    #[error("`--fix {key}=…`: a plan has no field `{key}`; use one of {}", KEYS.join(", "))]
    UnknownKey {
        /// What was written.
        key: String,
        /// The most similar field.
        similar: Option<&'static str>,
    },
    /// The value does not fit the field.
    #[error("`--fix {key}={value}`: {problem}")]
    BadValue {
        /// The field.
        key: String,
        /// What was written.
        value: String,
        /// What is allowed.
        problem: String,
    },
    /// The same field is held twice.
    #[error("`--fix {key}` is given twice")]
    Twice {
        /// The field.
        key: String,
    },
}

impl FixError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownKey { similar: Some(similar), .. } => Some(format!("did you mean `{similar}`?")),
            _ => None,
        }
    }
}

const KEYS: [&str; 12] = [
    "instance",
    "instances",
    "parallel.data",
    "parallel.tensor",
    "parallel.pipeline",
    "batch.global",
    "batch.micro",
    "batch.accumulation",
    "schedule",
    "precision",
    "recompute",
    "collectives",
];

impl Fixed {
    /// Reads `KEY=VALUE` pairs, KEY being a path under `plan` of the plan document.
    ///
    /// # Errors
    ///
    /// For a key that is unknown or given twice, and for a value that does not fit it.
    pub fn parse(pairs: &[String]) -> Result<Self, FixError> {
        let mut fixed = Self::default();
        for pair in pairs {
            let (key, value) = pair.split_once('=').ok_or_else(|| FixError::NoValue { text: pair.clone() })?;
            fixed.hold(key.trim(), value.trim())?;
        }
        Ok(fixed)
    }

    fn hold(&mut self, key: &str, value: &str) -> Result<(), FixError> {
        match key.strip_prefix("cluster.").unwrap_or(key) {
            "instance" => set(&mut self.instance, key, value),
            "instances" => set_count(&mut self.instances, key, value),
            "parallel.data" => set_count(&mut self.data, key, value),
            "parallel.tensor" => set_count(&mut self.tensor, key, value),
            "parallel.pipeline" => set_count(&mut self.pipeline, key, value),
            "batch.global" => set_count(&mut self.global, key, value),
            "batch.micro" => set_count(&mut self.micro, key, value),
            "batch.accumulation" => set_count(&mut self.accumulation, key, value),
            "schedule" => set(&mut self.schedule, key, value),
            "precision" => set(&mut self.precision, key, value),
            "recompute" => set(&mut self.recompute, key, value),
            "collectives" => set(&mut self.collectives, key, value),
            _ => Err(FixError::UnknownKey {
                key: key.into(),
                similar: KEYS
                    .into_iter()
                    .map(|known| (strsim::jaro_winkler(key, known), known))
                    .filter(|(score, _)| *score > 0.75)
                    .max_by(|a, b| a.0.total_cmp(&b.0))
                    .map(|(_, known)| known),
            }),
        }
    }

    /// Whether a candidate has the held fields.
    pub(crate) fn admits(&self, candidate: &Candidate) -> bool {
        fn holds<T: PartialEq>(fixed: Option<&T>, value: &T) -> bool {
            fixed.is_none_or(|fixed| fixed == value)
        }
        holds(self.data.as_ref(), &candidate.parallel.data)
            && holds(self.tensor.as_ref(), &candidate.parallel.tensor)
            && holds(self.pipeline.as_ref(), &candidate.parallel.pipeline)
            && holds(self.global.as_ref(), &candidate.batch.global)
            && holds(self.micro.as_ref(), &candidate.batch.micro)
            && holds(self.accumulation.as_ref(), &candidate.batch.accumulation)
            && holds(self.schedule.as_ref(), &candidate.schedule)
            && holds(self.precision.as_ref(), &candidate.precision)
            && holds(self.recompute.as_ref(), &candidate.recompute)
    }
}

fn set<T: FromStr<Err: std::fmt::Display>>(field: &mut Option<T>, key: &str, value: &str) -> Result<(), FixError> {
    let parsed = value.parse().map_err(|error: T::Err| FixError::BadValue {
        key: key.into(),
        value: value.into(),
        problem: error.to_string(),
    })?;
    match field.replace(parsed) {
        None => Ok(()),
        Some(_) => Err(FixError::Twice { key: key.into() }),
    }
}

fn set_count<T: FromStr + PartialEq + Default>(field: &mut Option<T>, key: &str, value: &str) -> Result<(), FixError> {
    let parsed = value.parse().ok().filter(|count| *count != T::default()).ok_or_else(|| FixError::BadValue {
        key: key.into(),
        value: value.into(),
        problem: "it must be a whole number, at least 1".into(),
    })?;
    match field.replace(parsed) {
        None => Ok(()),
        Some(_) => Err(FixError::Twice { key: key.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pair: &str) -> Result<Fixed, FixError> {
        Fixed::parse(&[pair.into()])
    }

    #[test]
    fn fields_are_held_by_their_path_or_short_name() {
        assert_eq!(parse("parallel.tensor=8").map(|fixed| fixed.tensor), Ok(Some(8)));
        assert_eq!(parse("cluster.instances=16"), parse("instances=16"));
        assert_eq!(parse("schedule=1f1b").map(|fixed| fixed.schedule), Ok(Some(ScheduleName::OneForwardOneBackward)));
    }

    #[test]
    fn what_cannot_be_held_says_what_can() {
        let unknown = parse("paralel.tensor=8").expect_err("a slip");
        assert_eq!(unknown.hint().as_deref(), Some("did you mean `parallel.tensor`?"));
        assert!(parse("schedule=1f2b").expect_err("no schedule").to_string().contains("gpipe"));
        for wrong in ["parallel.tensor=0", "parallel.tensor=-1", "parallel.tensor=1e9", "parallel.tensor"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(Fixed::parse(&["instances=1".into(), "cluster.instances=2".into()]).is_err());
    }
}
