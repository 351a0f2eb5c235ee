//! Fields of a plan that the user holds: `--fix parallel.tensor=8`.

use crate::space::{Candidate, Variant};
use std::ops::RangeInclusive;
use std::str::FromStr;
use trainyard_plan::{
    Cache, Collectives, DecodePlace, GradientCompression, GradientReduction, INPUT_COUNT_MAX, Offload, Placement,
    Precision, RANKS_MAX, Recompute, ScheduleName, StateSharding, StorageMode,
};
use trainyard_units::{count, similar};

/// The fields that can be held, each with its path under `plan` of the plan document and how its value is read.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $key:literal by $set:ident),+ $(,)?) => {
        /// Fields that every plan of a search must have.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Fixed {
            $($(#[$doc])* pub $name: Option<$type>),+
        }

        pub(crate) const KEYS: &[&str] = &[$($key),+];

        impl Fixed {
    /// Whether something of how samples are brought in is held.
    pub(crate) fn holds_input(&self) -> bool {
        let counts = self.input_workers.is_some() || self.input_prefetch.is_some();
        counts || self.input_storage.is_some() || self.input_decode.is_some() || self.input_cache.is_some()
    }

            fn hold(&mut self, key: &str, value: &str) -> Result<(), FixError> {
                match abbreviated(key) {
                    $($key => $set(&mut self.$name, key, value),)+
                    _ => Err(unknown(key)),
                }
            }

            /// The same with one field held at another value than it may be held at.
            pub(crate) fn with(mut self, key: &str, value: &str) -> Result<Self, FixError> {
                match abbreviated(key) {
                    $($key => self.$name = None,)+
                    _ => return Err(unknown(key)),
                }
                self.hold(key, value)?;
                Ok(self)
            }

            /// The same without one field.
            pub(crate) fn without(mut self, key: &str) -> Self {
                match abbreviated(key) {
                    $($key => self.$name = None,)+
                    _ => {}
                }
                self
            }

            /// Each held field, with its value and everything else that is held.
            pub(crate) fn each(&self) -> Vec<(&'static str, String, Self)> {
                let mut all = Vec::new();
                $(if let Some(value) = &self.$name {
                    all.push(($key, value.to_string(), Self { $name: None, ..self.clone() }));
                })+
                all
            }
        }
    };
}

fields! {
    /// Machine type.
    instance: String = "instance" by set,
    /// Number of machines.
    instances: u32 = "instances" by set_count,
    /// Training framework.
    stack: String = "stack" by set,
    /// Whether traffic between machines is encrypted.
    encrypted: bool = "cluster.encrypted" by set,
    /// Replicas.
    data: u32 = "parallel.data" by set_count,
    /// Ranks per layer.
    tensor: u32 = "parallel.tensor" by set_count,
    /// Stages.
    pipeline: u32 = "parallel.pipeline" by set_count,
    /// Ranks per sample.
    context: u32 = "parallel.context" by set_count,
    /// Replicas that share the experts of a layer.
    expert: u32 = "parallel.expert" by set_count,
    /// Whether a tensor group shares tokens too.
    sequence: bool = "parallel.sequence" by set,
    /// Samples of a step.
    global: u64 = "batch.global" by set_large_count,
    /// Samples at once.
    micro: u64 = "batch.micro" by set_large_count,
    /// Micro-batches of a replica.
    accumulation: u64 = "batch.accumulation" by set_large_count,
    /// Order of micro-batches.
    schedule: ScheduleName = "schedule" by set,
    /// Runs of layers on each stage.
    virtual_stages: u32 = "virtual_stages" by set_count,
    /// Number formats.
    precision: Precision = "precision" by set,
    /// What is computed again.
    recompute: Recompute = "recompute" by set,
    /// What replicas share out.
    state_sharding: StateSharding = "state_sharding" by set,
    /// Over how many replicas a state is shared out.
    sharding_ranks: u32 = "sharding_ranks" by set_count,
    /// How often gradients are summed.
    gradient_reduction: GradientReduction = "gradient_reduction" by set,
    /// In which form gradients travel.
    gradient_compression: GradientCompression = "gradient_compression" by set,
    /// What is kept off the devices.
    offload: Offload = "offload" by set,
    /// Which ranks stand next to each other.
    placement: Placement = "placement" by set,
    /// How gradients are summed over replicas.
    collectives: Collectives = "collectives" by set,
    /// Where samples are read from.
    input_storage: StorageMode = "input.storage" by set,
    /// What decodes them.
    input_decode: DecodePlace = "input.decode" by set,
    /// Processes that load for one replica.
    input_workers: u32 = "input.workers" by set_workers,
    /// Batches ahead.
    input_prefetch: u32 = "input.prefetch" by set_prefetch,
    /// Where samples are kept after the first pass.
    input_cache: Cache = "input.cache" by set,
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
            Self::BadValue { key, value, problem } => {
                let (_, allowed) = problem.split_once(" is not one of ")?;
                let meant = similar(value, allowed.split(", ")).map(|meant| format!("did you mean `{meant}`?"));
                meant.or_else(|| usual_words(abbreviated(key)).map(Into::into))
            }
            _ => None,
        }
    }
}

/// Other names of fields: the machines' type and number go by their last name alone, degrees by their usual letters, and
/// some fields by the names that training scripts have for them.
pub(crate) const ABBREVIATIONS: [(&str, &str); 19] = [
    ("cluster.instance", "instance"),
    ("cluster.instances", "instances"),
    ("dp", "parallel.data"),
    ("tp", "parallel.tensor"),
    ("pp", "parallel.pipeline"),
    ("cp", "parallel.context"),
    ("ep", "parallel.expert"),
    ("sp", "parallel.sequence"),
    ("global_batch", "batch.global"),
    ("global_batch_size", "batch.global"),
    ("micro_batch", "batch.micro"),
    ("micro_batch_size", "batch.micro"),
    ("accumulation", "batch.accumulation"),
    ("gradient_accumulation", "batch.accumulation"),
    ("gradient_accumulation_steps", "batch.accumulation"),
    ("virtual_pipeline", "virtual_stages"),
    ("checkpointing", "recompute"),
    ("zero", "state_sharding"),
    ("zero_stage", "state_sharding"),
];

/// The path of a field that goes by another name, too.
fn abbreviated(key: &str) -> &str {
    ABBREVIATIONS.iter().find(|(name, _)| *name == key).map_or(key, |(_, path)| path)
}

/// The words of other programs that a field takes besides its own.
fn usual_words(key: &str) -> Option<&'static str> {
    match key {
        "state_sharding" => Some("zero-1, zero-2 and zero-3 are optimizer, gradients and parameters"),
        "schedule" => Some("interleaved and zero-bubble are interleaved-1f1b and zb-h1"),
        "precision" => Some("fp16 and bf16 are fp16-mixed and bf16-mixed"),
        "recompute" => Some("gradient-checkpointing is full"),
        _ => None,
    }
}

fn unknown(key: &str) -> FixError {
    let names = KEYS.iter().copied().chain(ABBREVIATIONS.iter().map(|(name, _)| *name));
    FixError::UnknownKey { key: key.into(), similar: similar(key, names) }
}

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

    /// Whether a candidate has the held fields.
    pub(crate) fn admits(&self, candidate: &Candidate) -> bool {
        let (parallel, batch) = (candidate.parallel, candidate.batch);
        is_held(self.data, parallel.data)
            && is_held(self.tensor, parallel.tensor)
            && is_held(self.pipeline, parallel.pipeline)
            && is_held(self.context, parallel.context)
            && is_held(self.expert, parallel.expert)
            && is_held(self.sequence, parallel.sequence)
            && is_held(self.global, batch.global)
            && is_held(self.micro, batch.micro)
            && is_held(self.accumulation, batch.accumulation)
            && is_held(self.precision, candidate.precision)
            && is_held(self.recompute, candidate.recompute)
    }

    /// Whether a variant of a candidate has the held fields.
    pub(crate) fn admits_variant(&self, variant: &Variant) -> bool {
        is_held(self.schedule, variant.schedule)
            && is_held(self.virtual_stages, variant.virtual_stages)
            && is_held(self.state_sharding, variant.state_sharding)
            && is_held(self.gradient_reduction, variant.gradient_reduction)
            && is_held(self.offload, variant.offload)
            && self.sharding_ranks.is_none_or(|held| variant.sharding_ranks == Some(held))
    }
}

fn is_held<T: PartialEq + Copy>(fixed: Option<T>, value: T) -> bool {
    fixed.is_none_or(|fixed| fixed == value)
}

fn set<T: FromStr<Err: std::fmt::Display>>(field: &mut Option<T>, key: &str, value: &str) -> Result<(), FixError> {
    let parsed = value.parse().map_err(|error: T::Err| FixError::BadValue {
        key: key.into(),
        value: value.into(),
        problem: error.to_string(),
    })?;
    replace(field, key, parsed)
}

fn set_count(field: &mut Option<u32>, key: &str, value: &str) -> Result<(), FixError> {
    set_within(field, key, value, 1..=RANKS_MAX)
}

fn set_workers(field: &mut Option<u32>, key: &str, value: &str) -> Result<(), FixError> {
    set_within(field, key, value, 1..=INPUT_COUNT_MAX)
}

fn set_prefetch(field: &mut Option<u32>, key: &str, value: &str) -> Result<(), FixError> {
    set_within(field, key, value, 0..=INPUT_COUNT_MAX)
}

fn set_within(field: &mut Option<u32>, key: &str, value: &str, allowed: RangeInclusive<u32>) -> Result<(), FixError> {
    let whole = count(value).ok().and_then(|count| u32::try_from(count).ok());
    let parsed = whole.filter(|count| allowed.contains(count)).ok_or_else(|| FixError::BadValue {
        key: key.into(),
        value: value.into(),
        problem: format!("it must be a whole number from {} to {}", allowed.start(), allowed.end()),
    })?;
    replace(field, key, parsed)
}

fn set_large_count(field: &mut Option<u64>, key: &str, value: &str) -> Result<(), FixError> {
    let parsed = count(value).ok().filter(|count| *count > 0).ok_or_else(|| FixError::BadValue {
        key: key.into(),
        value: value.into(),
        problem: "it must be a whole number, at least 1".into(),
    })?;
    replace(field, key, parsed)
}

fn replace<T>(field: &mut Option<T>, key: &str, value: T) -> Result<(), FixError> {
    match field.replace(value) {
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
        assert_eq!(parse("instances=1048576").map(|fixed| fixed.instances), Ok(Some(1 << 20)));
        assert!(parse("instances=2147483648").is_err_and(|error| error.to_string().contains("from 1 to 1048576")));
        assert_eq!(parse("schedule=1f1b").map(|fixed| fixed.schedule), Ok(Some(ScheduleName::OneForwardOneBackward)));
    }

    #[test]
    fn fields_go_by_the_names_that_people_use() {
        for (short, path) in [
            ("tp=8", "parallel.tensor=8"),
            ("pp=4", "parallel.pipeline=4"),
            ("dp=2", "parallel.data=2"),
            ("cp=2", "parallel.context=2"),
            ("ep=2", "parallel.expert=2"),
            ("micro_batch_size=1", "batch.micro=1"),
            ("global_batch=2k", "batch.global=2000"),
            ("zero=3", "state_sharding=parameters"),
            ("zero=zero-1", "state_sharding=optimizer"),
            ("precision=bf16", "precision=bf16-mixed"),
            ("schedule=interleaved", "schedule=interleaved-1f1b"),
        ] {
            let held = parse(short);
            assert!(held.is_ok() && held == parse(path), "{short}: {held:?}");
        }
        assert!(ABBREVIATIONS.iter().all(|(name, path)| KEYS.contains(path) && !KEYS.contains(name)));
        assert!(Fixed::parse(&["tp=2".into(), "parallel.tensor=2".into()]).is_err());
        let slip = parse("precision=fp23").expect_err("a slip");
        assert_eq!(slip.hint().as_deref(), Some("did you mean `fp32`?"));
        let beyond = parse("zero=4").expect_err("there are three");
        assert!(beyond.hint().is_some_and(|hint| hint.contains("zero-3")), "{beyond}");
    }

    #[test]
    fn every_field_is_held_by_its_key_and_let_go_alone() {
        let pairs = [
            "cluster.encrypted=true",
            "parallel.context=2",
            "parallel.expert=4",
            "parallel.sequence=true",
            "virtual_stages=2",
            "state_sharding=optimizer",
            "sharding_ranks=8",
            "gradient_reduction=micro-batch",
            "gradient_compression=fp16",
            "offload=optimizer+parameters@nvme",
            "placement=PTD",
            "input.storage=fsx-lustre",
            "input.decode=gpu",
            "input.workers=12",
            "input.prefetch=0",
            "input.cache=memory",
        ];
        let fixed = Fixed::parse(&pairs.map(String::from)).expect("fields of a plan");
        assert_eq!(fixed.each().len(), pairs.len());
        for (key, value, rest) in fixed.each() {
            let mut again = rest.clone();
            assert_eq!(rest.each().len(), pairs.len() - 1, "{key}");
            again.hold(key, &value).expect("a value as it is written");
            assert_eq!(again, fixed, "{key}");
        }
    }

    #[test]
    fn what_cannot_be_held_says_what_can() {
        let unknown = parse("paralel.tensor=8").expect_err("a slip");
        assert_eq!(unknown.hint().as_deref(), Some("did you mean `parallel.tensor`?"));
        assert!(parse("schedule=1f2b").expect_err("no schedule").to_string().contains("gpipe"));
        assert!(parse("parallel.sequence=maybe").expect_err("no truth").to_string().contains("`true`"));
        assert!(parse("offload=weights").expect_err("no part").to_string().contains("optimizer"));
        assert!(parse("placement=XYZ").expect_err("no axis").to_string().contains("cluster"));
        for wrong in [
            "virtual_stages=0",
            "sharding_ranks=-2",
            "parallel.tensor=0",
            "parallel.tensor=-1",
            "parallel.tensor=1e9",
            "parallel.tensor=1.5",
            "parallel.tensor=NaN",
            "batch.micro=0",
            "parallel.tensor",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(Fixed::parse(&["instances=1".into(), "cluster.instances=2".into()]).is_err());
    }
}
