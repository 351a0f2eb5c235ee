//! Reading a job: from what a person wrote to a question that can be solved.

use crate::campaign::settings;
use crate::cancellation::Cancellation;
use crate::hyper_parameters::check_hyper_parameters;
use crate::input::{Data, data, field_of_input};
use crate::problem::{Description, Place, Problem, Rental, Training, catalog_with, executor_stack, price_of, purchase};
use crate::quota::Quotas;
use crate::software::{AUTO_STACK, SoftwareError, executable, names_of_those_that, of_today, trains};
use crate::stored::named_set;
use crate::unpriced::Unpriced;
use std::borrow::Cow;
use trainyard_hardware_profiles::{
    Catalog, CatalogError, Cluster, ClusterFile, ClusterFileError, Constants, DEFAULT_STACK, Instance, MeasuredMachine,
    Price, PriceQuery, PriceTable, Service, Sourced, Stack,
};
use trainyard_models::{
    ConvergenceError, Family, Model, ModelError, ModelSpec, UnknownDataSet, convergence_curve, find, samples_in,
};
use trainyard_plan::{
    Architecture, BATCH_MAX, ClusterChoice, DataSpec, EXECUTABLE, Fixed, GlobalBatch, GoalSpec, JobSpec, ModelChoice,
    Optimizer, Precision, Pricing, StorageMode, TrainingSpec, Volume,
};
use trainyard_sim::{InputError, Machine};
use trainyard_units::{Bytes, Seconds};

/// Patterns of the instance types that a job may choose from unless it says otherwise: four families.
pub const DEFAULT_INSTANCES: [&str; 4] = ["g4dn.*", "p3.*", "p3dn.*", "p4d.*"];
/// The name of a model that the user did not name.
pub const UNNAMED_MODEL: &str = "own-model";

const DEFAULT_MAX_INSTANCES: u32 = 16;
/// The region of instances unless a job says otherwise.
pub const DEFAULT_REGION: &str = "us-east-1";
/// The most instances of a cluster or a pool.
pub const MAX_INSTANCES: u32 = 16_384;
const MAX_SAMPLES: f64 = 1e18;
const MAX_STEPS: u64 = 1_000_000_000_000;

/// Contents of the files that a job names, which only the command line opens.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// The content of `model.file` or `model.config`.
    pub model_file: Option<ModelSpec>,
    /// The content of `cluster.profile`.
    pub profile: Option<MeasuredMachine>,
    /// The path of that profile, as the plan shall name it.
    pub profile_path: Option<String>,
    /// The content of `cluster.file`.
    pub cluster_file: Option<ClusterFile>,
    /// The path of that file, as the plan shall name it.
    pub cluster_path: Option<String>,
    /// The content of `cluster.constants`.
    pub constants: Option<Constants>,
    /// The path of that file, as the plan shall name it.
    pub constants_path: Option<String>,
    /// The content of `cluster.prices`.
    pub prices: Option<PriceTable>,
}

/// The reason why a job cannot be solved as it is written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum JobError {
    /// The model is not one.
    #[error("in `model`: {0}")]
    Model(#[from] ModelError),
    /// The target is not one, or not one of this model.
    #[error("in `training.target`: {0}")]
    Target(#[from] ConvergenceError),
    /// The data set is not one.
    #[error("in `data.dataset`: {0}")]
    DataSet(#[from] UnknownDataSet),
    /// An instance or stack does not exist.
    #[error("in `{field}`: {error}")]
    Catalog {
        /// The field.
        field: &'static str,
        /// The failed look-up.
        error: CatalogError,
    },
    /// Something that is needed is absent.
    #[error("`{field}` is missing: {why}")]
    Missing {
        /// The field.
        field: &'static str,
        /// The purpose of the missing field, and what to write.
        why: &'static str,
    },
    /// Two fields exclude each other.
    #[error("`{first}` and `{second}` exclude each other: {rule}")]
    Conflict {
        /// One field.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// The rule that the two fields break.
        rule: &'static str,
    },
    /// A value is out of range.
    #[error("`{field}` is {value}, but it must be {allowed}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// The value that was written.
        value: String,
        /// The values that are allowed.
        allowed: String,
    },
    /// The cluster file does not describe a cluster.
    #[error("in the cluster file `{path}`: {error}")]
    ClusterFile {
        /// The file.
        path: String,
        /// The error in the file.
        error: ClusterFileError,
    },
    /// Nobody published how often a spot instance is reclaimed.
    #[error("how often spot instances {instance} are reclaimed in {region} is not known")]
    NoSpotBand {
        /// The instance type.
        instance: String,
        /// The Region that was asked for.
        region: String,
        /// Regions in which it is known.
        regions: Vec<String>,
    },
    /// Samples cannot be loaded as the job says, on any of its machines.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The stack cannot train the model.
    #[error("`cluster.stack` is {value}, which does not train {model}")]
    UnableStack {
        /// The stack.
        value: String,
        /// The model.
        model: String,
        /// The stacks of today that can.
        others: Vec<String>,
    },
    /// A stack is described in words that plans do not have.
    #[error(transparent)]
    Software(#[from] SoftwareError),
    /// No instance has a price on these terms.
    #[error("{}", .0.in_table("cluster"))]
    Unpriced(Box<Unpriced>),
    /// Quotas leave no instance.
    #[error("in `cluster.quotas`: {why}")]
    OverQuota {
        /// The instances that need more, and how much more.
        why: String,
    },
}

impl From<Unpriced> for JobError {
    fn from(error: Unpriced) -> Self {
        Self::Unpriced(Box::new(error))
    }
}

impl JobError {
    /// Returns advice on how to fix the job.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Model(error) => error.hint(),
            Self::Target(error) => Some(error.hint()),
            Self::DataSet(error) => Some(error.hint()),
            Self::Catalog { error, .. } => Some(error.hint()),
            Self::ClusterFile { error, .. } => error.hint(),
            Self::NoSpotBand { regions, .. } if regions.is_empty() => Some("write campaign.monthly_reclaims".into()),
            Self::NoSpotBand { regions, .. } => {
                Some(format!("write campaign.monthly_reclaims, or use one of {}", regions.join(", ")))
            }
            Self::Input(error) => error.hint(),
            Self::Unpriced(error) => Some(error.hint()),
            Self::UnableStack { others, .. } => Some(match others.as_slice() {
                [] => format!("none of the stacks of today can; `--stack {DEFAULT_STACK}` predicts what it would take"),
                others => format!("use one of {}, or `auto`", others.join(", ")),
            }),
            Self::Software(_) => {
                Some("the words are those of plan documents; `trainyard schemas` writes plan.json, their schema".into())
            }
            Self::OverQuota { .. } => {
                Some("ask AWS for more (Service Quotas), or allow other types in cluster.instances".into())
            }
            Self::Conflict { first, second, .. } => {
                Some(format!("leave `{first}` or `{second}` out, or change one of them"))
            }
            Self::Missing { .. } | Self::Invalid { .. } => Some(
                "`trainyard schemas` writes job.json, which describes every field of a job with its unit and its \
                     default"
                    .into(),
            ),
        }
    }
}

pub(crate) fn invalid(field: &'static str, value: impl std::fmt::Display, allowed: impl Into<String>) -> JobError {
    JobError::Invalid { field, value: value.to_string(), allowed: allowed.into() }
}

/// Converts a job into a problem.
///
/// # Errors
///
/// When something is missing, contradictory, out of range or unknown; see [`JobError`].
pub fn problem(job: &JobSpec, resources: Resources) -> Result<Problem, JobError> {
    problem_on(job, resources, |place| place)
}

/// Converts a job into a problem on other machines than it names.
pub(crate) fn problem_on(
    job: &JobSpec,
    resources: Resources,
    other: impl FnOnce(Place) -> Place,
) -> Result<Problem, JobError> {
    let spec = model_spec(&job.model, resources.model_file.clone())?;
    let states_attention = spec.attention.is_some();
    let model = Model::try_from(spec)?;
    countable(&model)?;
    let place = other(place(&job.cluster, resources, &model)?);
    let (deadline, budget) = goal(&job.goal, &place)?;
    let (precisions, unusable_precisions) = precisions(&job.training, &place)?;
    let optimizer = job.training.optimizer.unwrap_or(Optimizer::AdamW);
    let training = training(&job.training, optimizer, &job.data, &model)?;
    let data = data_on(job, &model, &place)?;
    region(&job.data, &place)?;
    let settings = settings(job, &model, place.pricing(), place.price(0).map(|price| price.service))?;
    Ok(Problem {
        settings,
        cancellation: Cancellation::default(),
        enough: None,
        training,
        data,
        global_batches: global_batches(job.training.global_batch)?,
        precisions,
        unusable_precisions,
        optimizer,
        objective: job.goal.objective.unwrap_or_default(),
        model,
        states_attention,
        place,
        deadline,
        budget,
    })
}

/// Checks that the cost of a sample can be counted.
fn countable(model: &Model) -> Result<(), JobError> {
    if Architecture::new(model.clone()).micro_batch_max() > 0 {
        return Ok(());
    }
    let allowed = "smaller: a single sample of it is beyond counting; shorten model.seq_len, or take fewer layers";
    Err(invalid("model", format!("`{}`", model.name()), allowed))
}

/// Returns the data set, if some of the machines can load its samples.
fn data_on(job: &JobSpec, model: &Model, place: &Place) -> Result<Option<Data>, JobError> {
    if let (true, Some(first)) = (place.is_measured(), field_of_input(&job.data)) {
        let rule = "the steps of a measured machine were measured with their input";
        return Err(JobError::Conflict { first, second: "cluster.profile", rule });
    }
    let Some(data) = data_set(job, model)? else { return Ok(None) };
    let machines = (0..place.choices().len()).map(|choice| place.machine(choice, 1, None));
    let refusals: Option<Vec<InputError>> = machines.map(|one| data.refusal(&Fixed::default(), &one)).collect();
    match refusals.and_then(|all| all.into_iter().next()) {
        // A warning says so.
        Some(_) if data.assumed && field_of_input(&job.data).is_none() => Ok(None),
        Some(error) => Err(JobError::Input(error)),
        None => Ok(Some(data)),
    }
}

/// Returns the data set of a job, with its input; `None` if its samples are assumed to be at hand.
pub(crate) fn data_set(job: &JobSpec, model: &Model) -> Result<Option<Data>, JobError> {
    data(job, model, epoch(job, model)?)
}

/// Returns the bytes of a job's data set as stored, if its size is known.
pub fn stored_bytes(job: &JobSpec, model: &Model) -> Option<Bytes> {
    data_set(job, model).ok()??.set.bytes()
}

/// Returns the samples of a pass over the data set, if the job or its target states them.
pub(crate) fn epoch(job: &JobSpec, model: &Model) -> Result<Option<u64>, JobError> {
    let of_target = match &job.training.target {
        Some(target) => convergence_curve(target, model)?.epoch.as_ref().map(|epoch| epoch.samples),
        None => None,
    };
    Ok(samples(&job.data, model)?.or(of_target))
}

/// Checks the Region in which the data is stored: the name must look like a Region's, and the machines must be rented.
/// FSx for Lustre and EBS must be in the machines' Region, since they are reached from their own zone only.
fn region(data: &DataSpec, place: &Place) -> Result<(), JobError> {
    let Some(region) = &data.region else { return Ok(()) };
    let parts: Vec<&str> = region.split('-').collect();
    let number = parts.last().is_some_and(|last| last.parse::<u8>().is_ok());
    let words = parts.iter().rev().skip(1).all(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase()));
    if parts.len() < 3 || !number || !words {
        return Err(invalid("data.region", format!("`{region}`"), "an AWS Region, such as us-east-1"));
    }
    let Some(price) = place.price(0) else {
        let rule = "machines that are not rented are in no Region";
        return Err(JobError::Conflict { first: "data.region", second: "cluster", rule });
    };
    let zonal = matches!(data.storage, Some(StorageMode::FsxLustre | StorageMode::Ebs));
    if zonal && price.region != *region {
        let rule = "fsx-lustre and ebs are reached from their own Availability Zone only; write cluster.region";
        return Err(JobError::Conflict { first: "data.region", second: "data.storage", rule });
    }
    Ok(())
}

fn place(choice: &ClusterChoice, resources: Resources, model: &Model) -> Result<Place, JobError> {
    if choice.constants.is_some() && resources.constants.is_none() {
        return Err(JobError::Missing { field: "cluster.constants", why: "the constants file was not read" });
    }
    let before = Before {
        path: resources.constants_path.or_else(|| choice.constants.clone()).filter(|_| resources.constants.is_some()),
        constants: resources.constants,
    };
    match (&choice.profile, &choice.file) {
        (None, None) if choice.prices.is_some() && resources.prices.is_none() => {
            Err(JobError::Missing { field: "cluster.prices", why: "the table of prices was not read" })
        }
        (None, None) => Ok(Place::Rented(Box::new(rental(choice, before, resources.prices.as_ref(), model)?))),
        (Some(_), Some(_)) => Err(JobError::Conflict {
            first: "cluster.profile",
            second: "cluster.file",
            rule: "a measured machine is one, and a cluster file describes others",
        }),
        (Some(_), None) => {
            let missing = JobError::Missing { field: "cluster.profile", why: "the profile file was not read" };
            owned(choice, resources.profile.ok_or(missing)?, resources.profile_path, before)
        }
        (None, Some(_)) => {
            let missing = JobError::Missing { field: "cluster.file", why: "the cluster file was not read" };
            described(choice, resources.cluster_file.ok_or(missing)?, resources.cluster_path, before, model)
        }
    }
}

/// Returns the model that a job names or describes; `read` is the content of the file that it names, if it names one.
pub(crate) fn model(choice: &ModelChoice, read: Option<ModelSpec>) -> Result<Model, JobError> {
    Ok(Model::try_from(model_spec(choice, read)?)?)
}

fn model_spec(choice: &ModelChoice, read: Option<ModelSpec>) -> Result<ModelSpec, JobError> {
    one_source(choice)?;
    let mut spec = match (&choice.name, choice.family) {
        _ if choice.file.is_some() || choice.config.is_some() => {
            let field = if choice.file.is_some() { "model.file" } else { "model.config" };
            read.ok_or(JobError::Missing { field, why: "the file was not read" })?
        }
        (name, Some(family)) => return Ok(own_model(choice, name.as_deref(), family)),
        (Some(name), None) => catalog_spec(name)?,
        (None, None) => {
            return Err(JobError::Missing {
                field: "model",
                why: "write name = \"gpt2\", file = \"my-model.toml\", config = \"config.json\", or family = \"gpt\" with its dimensions",
            });
        }
    };
    only_overrides(choice)?;
    spec.seq_len = choice.seq_len.or(spec.seq_len);
    spec.image_size = choice.image_size.or(spec.image_size);
    spec.attention = choice.attention.or(spec.attention);
    Ok(spec)
}

/// A model comes from the catalog, from a file, from a configuration or from its dimensions. Those that do not bring
/// their own name may be given one.
fn one_source(choice: &ModelChoice) -> Result<(), JobError> {
    let conflict = |first, second, rule| Err(JobError::Conflict { first, second, rule });
    match (&choice.file, &choice.config, choice.family, &choice.name) {
        (Some(_), Some(_), _, _) => conflict("model.file", "model.config", "write one of them"),
        (Some(_), _, Some(_), _) => conflict("model.file", "model.family", "a file says its own family"),
        (_, Some(_), Some(_), _) => conflict("model.config", "model.family", "a configuration says its own family"),
        (Some(_), _, _, Some(_)) => conflict("model.name", "model.file", "write one of them"),
        _ => Ok(()),
    }
}

/// A model of the catalog, which leaves the attention kernel to software and GPU.
fn catalog_spec(name: &str) -> Result<ModelSpec, JobError> {
    Ok(ModelSpec { attention: None, ..find(name)?.model.spec() })
}

fn own_model(choice: &ModelChoice, name: Option<&str>, family: Family) -> ModelSpec {
    ModelSpec {
        layers: choice.layers,
        hidden: choice.hidden,
        heads: choice.heads,
        ffn: choice.ffn,
        vocab: choice.vocab,
        seq_len: choice.seq_len,
        attention: choice.attention,
        image_size: choice.image_size,
        inputs: choice.inputs,
        outputs: choice.outputs,
        ..ModelSpec::new(name.unwrap_or(UNNAMED_MODEL), family)
    }
}

/// A model of the catalog or of a file has its dimensions; only the sequence length and attention may be overridden.
fn only_overrides(choice: &ModelChoice) -> Result<(), JobError> {
    let set = [
        ("model.layers", choice.layers.is_some()),
        ("model.hidden", choice.hidden.is_some()),
        ("model.heads", choice.heads.is_some()),
        ("model.ffn", choice.ffn.is_some()),
        ("model.vocab", choice.vocab.is_some()),
        ("model.inputs", choice.inputs.is_some()),
        ("model.outputs", choice.outputs.is_some()),
    ];
    match set.into_iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((field, _)) => Err(JobError::Conflict {
            first: field,
            second: "model.name",
            rule: "a model of the catalog or of a file has its dimensions; write family = \"gpt\" for others",
        }),
    }
}

/// Returns the amount of training that the job asks for.
pub(crate) fn training(
    spec: &TrainingSpec,
    optimizer: Optimizer,
    data: &DataSpec,
    model: &Model,
) -> Result<Training, JobError> {
    let amounts = [
        ("training.epochs", spec.epochs.is_some()),
        ("training.steps", spec.steps.is_some()),
        ("training.target", spec.target.is_some()),
    ];
    let mut written = amounts.into_iter().filter(|(_, is_set)| *is_set).map(|(field, _)| field);
    if let (Some(first), Some(second)) = (written.next(), written.next()) {
        return Err(JobError::Conflict { first, second, rule: "write one of them" });
    }
    check_hyper_parameters(spec, optimizer)?;
    let samples = samples(data, model)?;
    if let Some(target) = &spec.target {
        return Ok(Training::Target(convergence_curve(target, model)?));
    }
    match (spec.steps, samples) {
        (Some(steps), _) if !(1..=MAX_STEPS).contains(&steps) => {
            Err(invalid("training.steps", steps, format!("from 1 to {MAX_STEPS}")))
        }
        (Some(steps), _) => Ok(Training::Steps(steps)),
        (None, None) => Err(JobError::Missing {
            field: "data",
            why: "write samples or tokens, the size of the data set, or training.steps or training.target",
        }),
        (None, Some(samples)) => {
            let epochs = spec.epochs.unwrap_or(1.0);
            if !(epochs > 0.0 && epochs <= 1e6) {
                return Err(invalid("training.epochs", epochs, "above 0 and at most 1000000"));
            }
            Ok(Training::Passes(Volume { samples, epochs }))
        }
    }
}

fn samples(data: &DataSpec, model: &Model) -> Result<Option<u64>, JobError> {
    match (data.samples, data.tokens) {
        (Some(_), Some(_)) => {
            Err(JobError::Conflict { first: "data.samples", second: "data.tokens", rule: "write one of them" })
        }
        (Some(0), None) => Err(invalid("data.samples", 0, "at least 1")),
        (Some(samples), None) => Ok(Some(samples)),
        (None, Some(tokens)) if !(1.0..=MAX_SAMPLES).contains(&tokens) => {
            Err(invalid("data.tokens", tokens, "from 1 to 1e18"))
        }
        (None, Some(tokens)) => samples_in(model, tokens.round() as u64).map(Some).ok_or(JobError::Conflict {
            first: "data.tokens",
            second: "model",
            rule: "this model reads no tokens; write samples",
        }),
        (None, None) => Ok(named_set(data)?.and_then(|set| set.samples.as_ref()).map(|samples| samples.value)),
    }
}

fn global_batches(batch: Option<GlobalBatch>) -> Result<Vec<u64>, JobError> {
    let range = |field, value: u64| {
        if (1..=BATCH_MAX).contains(&value) {
            Ok(value)
        } else {
            Err(invalid(field, value, format!("from 1 to {BATCH_MAX}")))
        }
    };
    match batch {
        None => Err(JobError::Missing {
            field: "training.global_batch",
            why: "write the samples of an optimizer step, global_batch = 512 or { min = 256, max = 4096 }",
        }),
        Some(GlobalBatch::Exactly(samples)) => Ok(vec![range("training.global_batch", samples)?]),
        Some(GlobalBatch::Between { min, max }) => {
            let (min, max) = (range("training.global_batch.min", min)?, range("training.global_batch.max", max)?);
            if min > max {
                return Err(invalid("training.global_batch.min", min, format!("at most max, {max}")));
            }
            Ok(std::iter::successors(Some(min), |batch| batch.checked_mul(2))
                .take_while(|batch| *batch <= max)
                .collect())
        }
    }
}

/// The number formats that may be chosen: of those that the job names, or of all, those that some of the machines
/// compute in; and those that the job names in vain.
fn precisions(spec: &TrainingSpec, place: &Place) -> Result<(Vec<Precision>, Vec<Precision>), JobError> {
    if spec.precision.as_ref().is_some_and(Vec::is_empty) {
        return Err(invalid("training.precision", "[]", "a list with at least one number format"));
    }
    let machines: Vec<Machine> = (0..place.choices().len()).map(|choice| place.machine(choice, 1, None)).collect();
    let usable = |precision: &Precision| {
        let executor_runs = !place.is_measured() || EXECUTABLE.precisions.contains(precision);
        executor_runs && machines.iter().any(|machine| machine.has_units(*precision).is_ok())
    };
    let there: Vec<Precision> = Precision::ALL.iter().copied().filter(usable).collect();
    let Some(wanted) = &spec.precision else { return Ok((there, Vec::new())) };
    let unusable: Vec<Precision> = wanted.iter().copied().filter(|own| !there.contains(own)).collect();
    let both: Vec<Precision> = there.iter().copied().filter(|own| wanted.contains(own)).collect();
    if both.is_empty() {
        let listed = |formats: &[Precision]| formats.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let why = if place.is_measured() { "a measured machine runs" } else { "the GPUs have units for" };
        let allowed = format!("one of {}, which is what {why}", listed(&there));
        return Err(invalid("training.precision", listed(&unusable), allowed));
    }
    Ok((both, unusable))
}

/// Returns the field that says how machines are rented, if there is one.
fn rental_field(choice: &ClusterChoice) -> Option<&'static str> {
    let fields = [
        ("cluster.instances", choice.instances.is_some()),
        ("cluster.max_instances", choice.max_instances.is_some()),
        ("cluster.region", choice.region.is_some()),
        ("cluster.pricing", choice.pricing.is_some()),
        ("cluster.service", choice.service.is_some()),
        ("cluster.prices", choice.prices.is_some()),
        ("cluster.quotas", choice.quotas.is_some()),
    ];
    fields.into_iter().find(|(_, set)| *set).map(|(field, _)| field)
}

/// A constants file that takes precedence over the program's catalog, with its path.
struct Before {
    constants: Option<Constants>,
    path: Option<String>,
}

fn owned(
    choice: &ClusterChoice,
    profile: MeasuredMachine,
    path: Option<String>,
    before: Before,
) -> Result<Place, JobError> {
    if let Some(first) = rental_field(choice).or(choice.stack.is_some().then_some("cluster.stack")) {
        let rule = "a measured machine is not rented and brings its own software";
        return Err(JobError::Conflict { first, second: "cluster.profile", rule });
    }
    let stack = executor_stack(before.constants.as_ref()).map_err(|_| {
        let rule = "a measured machine needs constants of the stack `trainyard-executor` only, and the file has none";
        JobError::Conflict { first: "cluster.constants", second: "cluster.profile", rule }
    })?;
    let margin = memory_margin(choice)?.map(|part| Sourced::new(part, "cluster.memory_margin of the job"));
    let stack = Stack { memory_margin: margin, ..stack };
    let machine = Machine { cluster: Cluster::of_measured(profile), stack: stack.clone() };
    let path = path.or_else(|| choice.profile.clone()).unwrap_or_default();
    Ok(Place::Owned {
        machine: Box::new(machine),
        stacks: vec![stack],
        described_by: Description::Profile(path),
        constants: before.path,
    })
}

fn described(
    choice: &ClusterChoice,
    file: ClusterFile,
    path: Option<String>,
    before: Before,
    model: &Model,
) -> Result<Place, JobError> {
    if let Some(first) = rental_field(choice) {
        let rule = "a cluster of one's own is not rented";
        return Err(JobError::Conflict { first, second: "cluster.file", rule });
    }
    let path = path.or_else(|| choice.file.clone()).unwrap_or_default();
    let catalog = catalog_with(before.constants.as_ref());
    let cluster =
        Cluster::of_file(file, &catalog).map_err(|error| JobError::ClusterFile { path: path.clone(), error })?;
    let stacks = stacks(choice, &catalog, model)?;
    let machine = Machine { cluster, stack: stacks[0].clone() };
    Ok(Place::Owned {
        machine: Box::new(machine),
        stacks,
        described_by: Description::ClusterFile(path),
        constants: before.path,
    })
}

/// Returns the stacks that a job compares: the one that it names, or those that people use today. At least one must be
/// able to train the model.
fn stacks(choice: &ClusterChoice, catalog: &Catalog, model: &Model) -> Result<Vec<Stack>, JobError> {
    let of_today = of_today(catalog);
    let all = match choice.stack.as_deref().filter(|name| *name != AUTO_STACK) {
        Some(name) => {
            let named = catalog.stack(name).map_err(|error| JobError::Catalog { field: "cluster.stack", error })?;
            vec![named.clone()]
        }
        None if of_today.is_empty() => {
            vec![
                catalog
                    .stack(DEFAULT_STACK)
                    .map_err(|error| JobError::Catalog { field: "cluster.stack", error })?
                    .clone(),
            ]
        }
        None => of_today.clone(),
    };
    let mut able = Vec::new();
    for stack in all.iter().cloned() {
        if trains(&executable(&stack)?, model) {
            able.push(stack);
        }
    }
    if able.is_empty() {
        let others = names_of_those_that(&of_today, |runs| trains(runs, model));
        let (value, model) = (all[0].name.clone(), model.name().to_owned());
        return Err(JobError::UnableStack { value, model, others });
    }
    let margin = memory_margin(choice)?;
    for stack in &mut able {
        stack.memory_margin = margin.map(|part| Sourced::new(part, "cluster.memory_margin of the job"));
    }
    Ok(able)
}

/// Returns the part of each GPU's memory that a job leaves free, if it says so.
pub(crate) fn memory_margin(choice: &ClusterChoice) -> Result<Option<f64>, JobError> {
    let Some(text) = &choice.memory_margin else { return Ok(None) };
    let number = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0),
        None => text.trim().parse(),
    };
    let part = number.ok().filter(|part| (0.0..=0.5).contains(part));
    part.map(Some).ok_or_else(|| invalid("cluster.memory_margin", format!("`{text}`"), "from 0% to 50%, such as 8%"))
}

fn rental(
    choice: &ClusterChoice,
    before: Before,
    prices: Option<&PriceTable>,
    model: &Model,
) -> Result<Rental, JobError> {
    let patterns =
        choice.instances.clone().unwrap_or_else(|| DEFAULT_INSTANCES.iter().map(|pattern| (*pattern).into()).collect());
    if patterns.is_empty() {
        return Err(invalid("cluster.instances", "[]", "a list with at least one instance type"));
    }
    let catalog = catalog_with(before.constants.as_ref());
    let catalog = prices.map_or(catalog.clone(), |prices| Cow::Owned(catalog.with_prices(prices)));
    let matching =
        catalog.matching(&patterns).map_err(|error| JobError::Catalog { field: "cluster.instances", error })?;
    let stacks = stacks(choice, &catalog, model)?;
    let max_instances = choice.max_instances.unwrap_or(DEFAULT_MAX_INSTANCES);
    if !(1..=MAX_INSTANCES).contains(&max_instances) {
        return Err(invalid("cluster.max_instances", max_instances, format!("from 1 to {MAX_INSTANCES}")));
    }
    let pricing = choice.pricing.unwrap_or(Pricing::OnDemand);
    let named = service(choice.service.as_deref())?;
    let service = named.unwrap_or(Service::Ec2);
    let region = choice.region.as_deref().unwrap_or(DEFAULT_REGION);
    let quotas = Quotas::new(choice.quotas.as_ref(), service, &catalog)?;
    let query = PriceQuery { region, service, purchase: purchase(pricing) };
    let (priced, unpriced): (Vec<&Instance>, Vec<&Instance>) =
        matching.iter().partition(|instance| price_of(instance, query).is_some());
    if priced.is_empty() {
        return Err(Unpriced::of(&catalog, &matching, (service, pricing), region).into());
    }
    let unpriced = unpriced.into_iter().map(|instance| instance.name.clone()).collect();
    let Within { instances, over_quota } = within(&quotas, priced, query)?;
    let most = |(instance, _): &(Instance, Price)| {
        let allowed = quotas.most(instance).map_or(max_instances, |most| u32::try_from(most).unwrap_or(u32::MAX));
        allowed.min(max_instances)
    };
    Ok(Rental {
        most: instances.iter().map(most).collect(),
        quotas,
        instances,
        unpriced,
        over_quota,
        max_instances,
        pricing,
        service: named,
        stacks,
        catalog,
        constants: before.path,
        changes: Vec::new(),
        repriced: None,
    })
}

/// Instance types by what quotas leave of them.
struct Within {
    /// Those of which one may be rented, with their prices.
    instances: Vec<(Instance, Price)>,
    /// The others with the reason.
    over_quota: Vec<(String, String)>,
}

/// Returns the instances that quotas leave; an error if they leave none.
fn within(quotas: &Quotas, priced: Vec<&Instance>, query: PriceQuery<'_>) -> Result<Within, JobError> {
    let (mut instances, mut over_quota) = (Vec::new(), Vec::new());
    for instance in priced {
        match (quotas.refusal(instance, 1), price_of(instance, query)) {
            (Some(why), _) => over_quota.push((instance.name.clone(), why)),
            (None, price) => instances.extend(price.map(|price| (instance.clone(), price.clone()))),
        }
    }
    if instances.is_empty() {
        let why: Vec<String> = over_quota.iter().map(|(name, why)| format!("{name} {why}")).collect();
        return Err(JobError::OverQuota { why: why.join("; ") });
    }
    Ok(Within { instances, over_quota })
}

fn service(name: Option<&str>) -> Result<Option<Service>, JobError> {
    let Some(name) = name else { return Ok(None) };
    let unknown = || invalid("cluster.service", format!("`{name}`"), "one of ec2, sagemaker");
    Service::named(name).map(Some).ok_or_else(unknown)
}

fn goal(goal: &GoalSpec, place: &Place) -> Result<(Option<Seconds>, Option<f64>), JobError> {
    let deadline = goal
        .deadline
        .as_deref()
        .map(|text| {
            text.parse::<Seconds>()
                .map_err(|error| error.to_string())
                .and_then(|time| if time.0 > 0.0 { Ok(time) } else { Err("it is zero".into()) })
                .map_err(|why| invalid("goal.deadline", format!("`{text}`"), format!("a duration such as 3d: {why}")))
        })
        .transpose()?;
    if goal.budget.is_some_and(|budget| !(budget > 0.0 && budget.is_finite())) {
        return Err(invalid("goal.budget", goal.budget.unwrap_or_default(), "above 0 USD"));
    }
    if let (Place::Owned { described_by, .. }, Some(_)) = (place, goal.budget) {
        let second = match described_by {
            Description::Profile(_) => "cluster.profile",
            Description::ClusterFile(_) => "cluster.file",
        };
        let rule = "a machine that is not rented costs nothing";
        return Err(JobError::Conflict { first: "goal.budget", second, rule });
    }
    Ok((deadline, goal.budget))
}
