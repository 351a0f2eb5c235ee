//! The fields of a plan document that a user can hold, vary or launch, each declared once.
//!
//! `--fix`, the keys of what-if, what launch files have to tell and `docs/plan-fields.md` follow from the table.

use crate::check::RANKS_MAX;
use crate::fine_tuning::{Method, Reference};
use crate::input::{Cache, DecodePlace, INPUT_COUNT_MAX, StorageMode};
use crate::offload::Offload;
use crate::placement::Placement;
use crate::schedules::ScheduleName;
use crate::spec::{
    Collectives, GradientCompression, GradientReduction, Optimizer, PlanSpec, Precision, Pricing, Recompute,
    StateSharding,
};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use trainyard_units::{Invalid, count, similar};

const RANKS: RangeInclusive<u64> = 1..=RANKS_MAX as u64;
const SAMPLES: RangeInclusive<u64> = 1..=u64::MAX;
const WORKERS: RangeInclusive<u64> = 1..=INPUT_COUNT_MAX as u64;
const PREFETCH: RangeInclusive<u64> = 0..=INPUT_COUNT_MAX as u64;

/// A place in a [`PlanSpec`] that has a value of type `T`, or may have one.
trait Place<T> {
    fn value(&self) -> Option<&T>;
    fn put(&mut self, value: T);
}

impl<T> Place<T> for T {
    fn value(&self) -> Option<&T> {
        Some(self)
    }

    fn put(&mut self, value: T) {
        *self = value;
    }
}

impl<T> Place<T> for Option<T> {
    fn value(&self) -> Option<&T> {
        self.as_ref()
    }

    fn put(&mut self, value: T) {
        *self = Some(value);
    }
}

macro_rules! path {
    ([$root:ident$(.$part:ident)+]) => {
        concat!(stringify!($root) $(, ".", stringify!($part))+)
    };
}

macro_rules! value {
    ($spec:ident, [plan.fine_tuning.method]) => {
        $spec.fine_tuning.as_ref().map(|own| &own.method)
    };
    ($spec:ident, [plan.fine_tuning.dpo.reference]) => {
        $spec.fine_tuning.as_ref().and_then(|own| own.dpo.as_ref()?.reference.as_ref())
    };
    ($spec:ident, [plan.input.$field:ident]) => {
        $spec.input.as_ref().map(|input| &input.$field)
    };
    ($spec:ident, [plan$(.$part:ident)+]) => {
        Place::value(&$spec$(.$part)+)
    };
}

macro_rules! put {
    ($spec:ident, [plan.input.$field:ident], $value:ident) => {
        $spec.input.as_mut().ok_or("the plan does not say how its samples are brought in")?.$field = $value
    };
    ($spec:ident, [plan$(.$part:ident)+], $value:ident) => {
        Place::put(&mut $spec$(.$part)+, $value)
    };
}

macro_rules! read {
    ($text:ident) => {
        word($text)
    };
    ($text:ident, $within:expr) => {
        whole($text, &$within)
    };
}

/// A row is `Variant weight [path]: "meaning"`, and then
///
/// - the weight: a plan without a field that `decides` is another plan, one that may not fit or that computes something
///   else; what a field `tells` may be left out with a note;
/// - `job`: the path in a job that says the same;
/// - `of`: its type in the [`PlanSpec`], and `unless`: the value that says what any training does;
/// - `held`: its name in [`Fixed`]; `count`: the whole numbers that it may be; `named`: its name in `--fix` if that is
///   not the path in the plan; `also`: its usual abbreviations; `words`: what else its values are called.
macro_rules! fields {
    ($($variant:ident $weight:ident $place:tt: $about:literal
        $(, job $job:literal)?
        $(, of $type:ty $(, unless $plain:expr)?
            $(, held $member:ident $(, count $within:expr)? $(, named $name:literal)? $(, also $($also:literal)|+)?
                $(, words $words:literal)?)?)?;
    )+) => {
        /// A field of a plan document.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Field {
            $(#[doc = concat!("`", path!($place), "`: ", $about, ".")] $variant),+
        }

        impl Field {
            /// Every field, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// Those that `--fix` holds.
            pub const HELD: &'static [Self] = &[$($($(held!(Self::$variant, $member),)?)?)+];

            /// Its path in the plan document.
            pub fn path(self) -> &'static str {
                match self { $(Self::$variant => path!($place)),+ }
            }

            /// Its meaning, in a few words.
            pub fn about(self) -> &'static str {
                match self { $(Self::$variant => $about),+ }
            }

            /// Tells whether a plan without it is another plan: one that may not fit, or that computes something else.
            pub fn decides(self) -> bool {
                match self { $(Self::$variant => stringify!($weight) == "decides"),+ }
            }

            /// The path in a job that says the same.
            pub fn job(self) -> Option<&'static str> {
                match self {
                    $($(Self::$variant => Some($job),)?)+
                    _ => None,
                }
            }

            /// Its name in `--fix`: its path under `plan` or, for the type and the number of machines, the end of it.
            pub fn name(self) -> &'static str {
                match self {
                    $($($($(Self::$variant => $name,)?)?)?)+
                    _ => self.path().trim_start_matches("plan."),
                }
            }

            /// Its other names in `--fix`: the usual letters of degrees, and the names that training scripts have.
            pub fn abbreviations(self) -> &'static [&'static str] {
                match self {
                    $($($($(Self::$variant => &[$($also),+],)?)?)?)+
                    _ => &[],
                }
            }

            /// The words of other programs that it takes besides its own.
            fn usual_words(self) -> Option<&'static str> {
                match self {
                    $($($($(Self::$variant => Some($words),)?)?)?)+
                    _ => None,
                }
            }

            /// The whole numbers that it may be; nothing for words.
            pub fn counts(self) -> Option<RangeInclusive<u64>> {
                match self {
                    $($($($(Self::$variant => Some($within),)?)?)?)+
                    _ => None,
                }
            }

            /// The value that says what any training does, if there is one.
            fn plain(self) -> Option<String> {
                match self {
                    $($($(Self::$variant => Some($plain.to_string()),)?)?)+
                    _ => None,
                }
            }

            /// Its value in a plan, as it is written there, if it is a plain one.
            fn value(self, spec: &PlanSpec) -> Option<String> {
                match self {
                    $($(Self::$variant => {
                        let value: Option<&$type> = value!(spec, $place);
                        value.map(ToString::to_string)
                    })?)+
                    _ => None,
                }
            }
        }

        /// Fields that every plan of a search must have.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Fixed {
            $($($(#[doc = concat!("The ", $about, ".")] pub $member: Option<$type>,)?)?)+
        }

        impl Fixed {
            /// Whether a field is held.
            pub fn holds(&self, field: Field) -> bool {
                match field {
                    $($($(Field::$variant => self.$member.is_some(),)?)?)+
                    _ => false,
                }
            }

            /// Holds a field at a value, or says what the value must be.
            fn hold(&mut self, field: Field, text: &str) -> Result<(), String> {
                match field {
                    $($($(Field::$variant => self.$member = Some(read!(text $(, $within)?)?),)?)?)+
                    _ => return Err("it cannot be fixed".into()),
                }
                Ok(())
            }

            /// The same without one field.
            #[must_use]
            pub fn without(mut self, field: Field) -> Self {
                match field {
                    $($($(Field::$variant => self.$member = None,)?)?)+
                    _ => {}
                }
                self
            }

            /// Each held field, with its value and everything else that is held.
            pub fn each(&self) -> Vec<(Field, String, Self)> {
                let mut all = Vec::new();
                $($($(if let Some(value) = &self.$member {
                    all.push((Field::$variant, value.to_string(), Self { $member: None, ..self.clone() }));
                })?)?)+
                all
            }

            /// Writes the held fields into a plan.
            ///
            /// # Errors
            ///
            /// When something of how samples are brought in is held and the plan says nothing of that.
            pub fn write(&self, spec: &mut PlanSpec) -> Result<(), &'static str> {
                $($($(if let Some(value) = self.$member.clone() {
                    put!(spec, $place, value);
                })?)?)+
                Ok(())
            }
        }
    };
}

macro_rules! held {
    ($field:expr, $member:ident) => {
        $field
    };
}

fields! {
    Model tells [plan.model]: "the model";
    Attention tells [plan.model.attention]: "how attention is computed";
    Instance tells [plan.cluster.instance]: "machine type", of String, held instance, named "instance",
        also "cluster.instance";
    Instances tells [plan.cluster.instances]: "number of machines", of u32, held instances, count RANKS,
        named "instances", also "cluster.instances";
    Stack tells [plan.stack]: "training framework", of String, held stack;
    Encrypted tells [plan.cluster.encrypted]: "whether traffic between machines is encrypted", of bool, unless false,
        held encrypted;
    Transport tells [plan.cluster.transport]: "transport between machines", of String;
    Data decides [plan.parallel.data]: "replicas", of u32, unless 1, held data, count RANKS, also "dp";
    Tensor decides [plan.parallel.tensor]: "ranks per layer", of u32, unless 1, held tensor, count RANKS, also "tp";
    Pipeline decides [plan.parallel.pipeline]: "stages", of u32, unless 1, held pipeline, count RANKS, also "pp";
    Context decides [plan.parallel.context]: "ranks per sample", of u32, unless 1, held context, count RANKS, also "cp";
    Expert decides [plan.parallel.expert]: "replicas that share the experts of a layer", of u32, unless 1, held expert,
        count RANKS, also "ep";
    FoldedExperts decides [plan.parallel.folded_experts]: "whether a tensor group shares experts out too", of bool,
        unless false;
    Sequence decides [plan.parallel.sequence]: "whether a tensor group shares tokens too", of bool, unless false,
        held sequence, also "sp";
    Global decides [plan.batch.global]: "samples of a step", job "training.global_batch", of u64, held global,
        count SAMPLES, also "global_batch" | "global_batch_size";
    Micro decides [plan.batch.micro]: "samples at once", of u64, held micro, count SAMPLES,
        also "micro_batch" | "micro_batch_size";
    Accumulation decides [plan.batch.accumulation]: "micro-batches of a replica", of u64, unless 1, held accumulation,
        count SAMPLES, also "accumulation" | "gradient_accumulation" | "gradient_accumulation_steps";
    Schedule decides [plan.schedule]: "order of micro-batches", of ScheduleName, unless ScheduleName::None,
        held schedule, words "interleaved and zero-bubble are interleaved-1f1b and zb-h1";
    VirtualStages decides [plan.virtual_stages]: "model chunks on each stage", of u32, unless 1, held virtual_stages,
        count RANKS, also "virtual_pipeline";
    Stages tells [plan.stages]: "layers of each run";
    Precision decides [plan.precision]: "number formats", job "training.precision", of Precision, held precision,
        words "fp16 and bf16 are fp16-mixed and bf16-mixed";
    Recompute decides [plan.recompute]: "what is computed again", of Recompute, unless Recompute::None, held recompute,
        also "checkpointing", words "gradient-checkpointing is full";
    StateSharding decides [plan.state_sharding]: "what is sharded over replicas", of StateSharding,
        unless StateSharding::None, held state_sharding, also "zero" | "zero_stage",
        words "zero-1, zero-2 and zero-3 are optimizer, gradients and parameters";
    ShardingRanks decides [plan.sharding_ranks]: "over how many replicas it is sharded", of u32, held sharding_ranks,
        count RANKS;
    GradientReduction tells [plan.gradient_reduction]: "how often gradients are summed", of GradientReduction,
        unless GradientReduction::Step, held gradient_reduction;
    GradientCompression tells [plan.gradient_compression]: "in which form gradients travel", of GradientCompression,
        unless GradientCompression::None, held gradient_compression;
    Offload decides [plan.offload]: "what is kept off the devices", of Offload, unless Offload::NONE, held offload,
        words "optimizer@host, for example, keeps what the optimizer has in main memory";
    Placement tells [plan.placement]: "which ranks stand next to each other", of Placement, unless Placement::Cluster,
        held placement;
    Collectives tells [plan.collectives]: "how gradients are summed over replicas", of Collectives,
        unless Collectives::Nccl, held collectives;
    Optimizer tells [plan.optimizer]: "the optimizer", of Optimizer;
    FineTuning decides [plan.fine_tuning.method]: "which weights are trained", job "training.method", of Method,
        unless Method::Full;
    Reference decides [plan.fine_tuning.dpo.reference]: "where dpo has the scores of the reference model from",
        job "training.dpo.reference", of Reference;
    Storage tells [plan.input.storage]: "where samples are read from", job "data.storage", of StorageMode,
        held input_storage;
    Decode tells [plan.input.decode]: "what decodes them", job "data.decode", of DecodePlace, unless DecodePlace::Cpu,
        held input_decode;
    Workers tells [plan.input.workers]: "processes that load for one replica", job "data.workers", of u32,
        held input_workers, count WORKERS;
    Prefetch tells [plan.input.prefetch]: "batches ahead", job "data.prefetch", of u32, held input_prefetch,
        count PREFETCH;
    Cache tells [plan.input.cache]: "where samples are kept after the first pass", job "data.cache", of Cache,
        unless Cache::None, held input_cache;
    Pricing tells [plan.pricing]: "how the machines are paid", of Pricing, unless Pricing::OnDemand;
    Service tells [plan.service]: "who rents them out", of String;
    Steps tells [prediction.steps]: "optimizer steps";
    LearningRate tells [job.training.learning_rate]: "the peak learning rate";
    WarmUp tells [job.training.warm_up_steps]: "steps over which the learning rate rises";
    Decay tells [job.training.decay]: "what becomes of the learning rate after that";
    ClipNorm tells [job.training.clip_norm]: "greatest gradient norm; 0 is no clipping";
    WeightDecay tells [job.training.weight_decay]: "weight decay";
    DecayExempt tells [job.training.decay_exempt]: "the parameters that weight decay leaves out";
    Dropout tells [job.training.dropout]: "the shares that are dropped out";
    Momentum tells [job.training.momentum]: "decay rate of the velocity";
    Betas tells [job.training.betas]: "decay rates of the running means";
    Epsilon tells [job.training.epsilon]: "added to the root of the mean square";
    Start tells [job.campaign.start]: "how instances are started";
    CheckpointInterval tells [job.campaign.checkpoint_interval]: "steps from one checkpoint to the next";
    CheckpointStorage tells [job.campaign.checkpoint_storage]: "where checkpoints go";
    Evaluation tells [job.campaign.evaluation]: "the evaluations between steps";
}

impl Field {
    /// Returns the field of a name in `--fix`.
    pub fn named(name: &str) -> Option<Self> {
        Self::HELD.iter().copied().find(|field| field.is_called(name))
    }

    /// Returns `true` for its name, for one of its abbreviations, and for one in the place of its name: `parallel.tp`.
    fn is_called(self, name: &str) -> bool {
        let group = |path: &str| path.rsplit_once('.').map(|(group, _)| group.to_owned());
        let short = name.rsplit_once('.').filter(|_| group(name) == group(self.name())).map_or(name, |(_, last)| last);
        self.name() == name || self.abbreviations().contains(&short) || self.abbreviations().contains(&name)
    }

    /// Returns the field's value in a plan, as it is written there; `None` where it is what any training does.
    pub fn said(self, spec: &PlanSpec) -> Option<String> {
        self.value(spec).filter(|value| self.plain().as_ref() != Some(value))
    }

    /// Checks a value that the field is to be held at.
    ///
    /// # Errors
    ///
    /// Fails with what the value must be.
    pub fn check(self, value: &str) -> Result<(), String> {
        Fixed::default().hold(self, value)
    }

    /// Returns the word that may be meant by one that the field does not take.
    fn hint(self, value: &str, problem: &str) -> Option<String> {
        let (_, allowed) = problem.split_once(" is not one of ")?;
        let words = || allowed.split(", ");
        let meant = similar(value, words()).map(|meant| format!("did you mean `{meant}`?"));
        let example = || Some(format!("for example --fix {}={}", self.name(), words().next()?));
        meant.or_else(|| self.usual_words().map(Into::into)).or_else(example)
    }

    /// Returns the number in the field, if it is a count.
    pub fn count(self, spec: &PlanSpec) -> Option<u64> {
        self.counts().and(self.value(spec))?.parse().ok()
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    Field::HELD.iter().map(|field| field.name())
}

fn unknown(key: &str) -> Invalid {
    let others = Field::HELD.iter().flat_map(|field| field.abbreviations()).copied();
    let rule = format!("a plan has no field `{key}`; use one of {}", names().collect::<Vec<_>>().join(", "));
    let similar = similar(key, names().chain(others)).and_then(Field::named);
    let meant = similar.map(|field| format!("did you mean `{}`?", field.name()));
    Invalid::breaks("--fix", format!("{key}=…"), rule).maybe_hint(meant)
}

impl Fixed {
    /// Reads `KEY=VALUE` pairs, KEY being a path under `plan` of the plan document.
    ///
    /// # Errors
    ///
    /// Fails for a key that is unknown or given twice, and for a value that does not fit it.
    pub fn parse(pairs: &[String]) -> Result<Self, Invalid> {
        let mut fixed = Self::default();
        for pair in pairs {
            let (key, value) = pair.split_once('=').ok_or_else(|| Invalid::value("--fix", pair, "KEY=VALUE"))?;
            let (key, value) = (key.trim(), value.trim());
            let field = Field::named(key).ok_or_else(|| unknown(key))?;
            if fixed.holds(field) {
                return Err(Invalid::inside("--fix", format!("`{key}` is given twice")));
            }
            fixed.hold(field, value).map_err(|problem| {
                let least = || Some(format!("for example --fix {key}={}", field.counts()?.start()));
                let hint = field.hint(value, &problem).or_else(least);
                Invalid::breaks(format!("--fix {key}"), value, problem).maybe_hint(hint)
            })?;
        }
        Ok(fixed)
    }

    /// Returns the same fields with one fixed at another value.
    ///
    /// # Errors
    ///
    /// Fails for a value that does not fit.
    pub fn with(self, field: Field, value: &str) -> Result<Self, Invalid> {
        let mut fixed = self.without(field);
        fixed.hold(field, value).map_err(|problem| Invalid::breaks(field.name(), value, problem))?;
        Ok(fixed)
    }

    /// Returns `true` if a field of the input pipeline is fixed.
    pub fn holds_input(&self) -> bool {
        Self::inputs().any(|field| self.holds(field))
    }

    /// Returns the same without the fields of the input pipeline.
    #[must_use]
    pub fn without_input(self) -> Self {
        Self::inputs().fold(self, Self::without)
    }

    fn inputs() -> impl Iterator<Item = Field> {
        Field::HELD.iter().copied().filter(|field| field.path().starts_with("plan.input."))
    }
}

fn word<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn whole<T: TryFrom<u64>>(text: &str, within: &RangeInclusive<u64>) -> Result<T, String> {
    let whole = count(text).ok().filter(|count| within.contains(count)).and_then(|count| T::try_from(count).ok());
    whole.ok_or_else(|| match (within.start(), within.end()) {
        (least, &u64::MAX) => format!("it must be a whole number, at least {least}"),
        (least, most) => format!("it must be a whole number from {least} to {most}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pair: &str) -> Result<Fixed, Invalid> {
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
            ("parallel.tp=8", "parallel.tensor=8"),
            ("parallel.ep=2", "parallel.expert=2"),
            ("micro_batch_size=1", "batch.micro=1"),
            ("batch.micro_batch=1", "batch.micro=1"),
            ("global_batch=2k", "batch.global=2000"),
            ("zero=3", "state_sharding=parameters"),
            ("zero=zero-1", "state_sharding=optimizer"),
            ("precision=bf16", "precision=bf16-mixed"),
            ("schedule=interleaved", "schedule=interleaved-1f1b"),
        ] {
            let held = parse(short);
            assert!(held.is_ok() && held == parse(path), "{short}: {held:?}");
        }
        let mut names: Vec<&str> =
            names().chain(Field::HELD.iter().flat_map(|field| field.abbreviations()).copied()).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
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
        for (field, value, rest) in fixed.each() {
            let key = field.name();
            assert!(fixed.holds(field) && !rest.holds(field), "{key}");
            assert_eq!(fixed.clone().without(field), rest, "{key}");
            let mut again = rest.clone();
            assert_eq!(rest.each().len(), pairs.len() - 1, "{key}");
            again.hold(field, &value).expect("a value as it is written");
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

    #[test]
    fn the_reference_page_is_the_table() {
        let row = |field: &Field| {
            let quoted = |names: &[&str]| {
                names
                    .iter()
                    .map(|name| if name.contains(' ') { (*name).into() } else { format!("`{name}`") })
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let problem = field.check("?").err().unwrap_or_default();
            let range = problem.split_once("it must be ").map(|(_, range)| range.to_owned());
            let words = problem.split_once(" is not one of ").map(|(_, words)| words.split(", ").collect::<Vec<_>>());
            let words = words.or_else(|| problem.contains("`true` or `false`").then(|| vec!["true", "false"]));
            let values = range.or(words.map(|words| quoted(&words))).unwrap_or_else(|| "a name".into());
            let (also, job) = (quoted(field.abbreviations()), field.job().map_or(String::new(), |job| quoted(&[job])));
            format!("| `{}` | {also} | {values} | {} | {job} |\n", field.name(), field.about())
        };
        let table: String = Field::HELD.iter().map(row).collect();
        let page = include_str!("../../docs/plan-fields.md");
        assert!(page.ends_with(&format!("|---|---|---|---|---|\n{table}")), "docs/plan-fields.md should end:\n{table}");
    }
}
