//! What would be if something were otherwise: one or two keys varied, the best plan sought anew each time or one plan
//! held, and the assumptions that matter to a plan.
//!
//! [`axes`] reads what is varied, [`what_if`] answers, and [`tornado()`] varies each assumption behind a plan by its own
//! uncertainty. Machines, links and prices are changed where a problem or a plan gets them; the catalogs stay as they
//! are. A key that is varied to its present value gives what planning or simulating gives.

mod assumed;
mod axis;
mod choice;
mod held;
mod job;
mod key;
mod known;
mod tornado;

pub use axis::{Axis, axes};
pub use held::HeldPlan;
pub use key::keys;
pub use tornado::tornado;

use crate::amount::usd;
use crate::answer::{Limits, NoPlan, Warnings, best_and_optimum, prediction, varied_batches};
use crate::cache::SearchCache;
use crate::cancellation::Cancellation;
use crate::edits::{MachineChange, Part, PriceChange, Setting};
use crate::predict::{MachineFile, MachineFiles};
use crate::problem::{AUTO_STACK, JobError, Place, Resources, model, problem_on, usual_types};
use crate::relative::beyond;
use crate::search::preferred;
use crate::shortfall::Shortfall;
use assumed::with_assumed;
use choice::{GivenUp, compares_otherwise, indistinct, other_machines, other_software};
use held::{Expected, PassedOver};
use key::{ALL_PRICES, Key, Level};
use rayon::prelude::*;
use std::fmt::Display;
use trainyard_hardware_profiles::ClusterFile;
use trainyard_models::ModelSpec;
use trainyard_plan::document::{Prediction, PriceUsed};
use trainyard_plan::{
    Field, Fixed, GlobalBatch, GoalSpec, JobSpec, ModelChoice, Objective, Plan, Pricing, WHAT_IF_SCHEMA, WhatIfCase,
    WhatIfDocument, WhatIfFigures,
};
use trainyard_sim::bottleneck;
use trainyard_units::{Invalid, Seconds, UnknownName, human_duration};

/// The name that stands for the file of a model that is varied.
const VARIED_MODEL: &str = "a varied model";

/// The keys on whose values it depends which software there is, or is best.
const DECIDE_SOFTWARE: [&str; 5] = ["cluster.stack", "stack", "precision", "training.method", "instance"];

/// The job or plan that is varied.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A job: the best plan is searched for each time.
    Job(Box<SoughtJob>),
    Plan(Box<HeldPlan>),
}

/// A job with all that a search for its plan needs.
#[derive(Clone, Debug)]
pub struct SoughtJob {
    pub spec: JobSpec,
    /// The content of the files that it names.
    pub resources: Resources,
    /// Limits of the search.
    pub limits: Limits,
    /// The flag by which the caller stops the searches. A case that is not sought any more has no plan.
    pub cancellation: Cancellation,
    /// What the searches for all cases share.
    pub cache: SearchCache,
}

/// The reason why nothing can be varied at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhatIfError {
    /// The job cannot be solved, whatever is varied.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The plan cannot be simulated as it is, or is held although a key decides which plan is sought.
    #[error(transparent)]
    Plan(#[from] Invalid),
}

impl WhatIfError {
    /// Returns advice on how to fix the call.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Job(error) => error.hint(),
            Self::Plan(error) => error.hint(),
        }
    }
}

/// Formats an error with its hint.
fn with_hint(error: &dyn Display, hint: impl Into<Option<String>>) -> String {
    hint.into().map_or_else(|| error.to_string(), |hint| format!("{error} ({hint})"))
}

/// Formats what is wrong with its hint.
fn told(error: &Invalid) -> String {
    with_hint(error, error.hint())
}

/// Returns the reason why the transport of a cluster of one's own, described by a file, is not varied.
fn own_transport(path: &str) -> String {
    let sentence = format!("`cluster.transport` is for machines that are rented, and `{path}` says that of these");
    with_hint(&sentence, "change `network.transport` of its machines, and ask again".to_owned())
}

/// Returns the reason why the price of machines of one's own is not varied that have none.
fn unpriced(cluster_file: Option<&str>) -> String {
    let hint = cluster_file.map(|path| format!("`usd_per_hour` in [[machines]] of `{path}` says what they cost"));
    with_hint(&"machines that are not rented have no price", hint)
}

/// Refuses to vary the price of one type of machine where a file describes them.
fn own_type(instance: Option<&str>, cluster_file: Option<&str>) -> Result<(), String> {
    let (Some(instance), Some(path)) = (instance, cluster_file) else { return Ok(()) };
    let sentence = format!("`price.{instance}` is for machines that are rented, and these are those of `{path}`");
    Err(with_hint(&sentence, format!("vary {ALL_PRICES}")))
}

/// Refuses to vary a field of the campaign where nothing but the steps is in time and cost.
fn steps_alone(key: Key, prediction: &Prediction) -> Result<(), String> {
    let decides = key.name == "campaign.checkpoint_bandwidth";
    if !key.name.starts_with("campaign.") || decides || prediction.start_up_s.is_some() {
        return Ok(());
    }
    let sentence = format!("`{}` changes nothing: time and cost are those of the steps alone", key.name);
    let hint = "say how fast checkpoints are written, and start-up, checkpoints and failures are counted: \
                campaign.checkpoint_bandwidth in the job, or [shared_storage] in the cluster file";
    Err(with_hint(&sentence, hint.to_owned()))
}

/// The part of a prediction that is kept for a case.
struct Answer {
    figures: WhatIfFigures,
    missed_goal: Option<String>,
    within_margin: Option<String>,
    warnings: Vec<String>,
    passed_over: Option<PassedOver>,
    given_up: Option<GivenUp>,
}

impl Answer {
    fn new(job: &JobSpec, expected: Expected) -> Self {
        Self {
            missed_goal: missed(&job.goal, &expected.prediction),
            within_margin: within_margin(&expected),
            figures: figures(&expected),
            warnings: expected.warnings,
            passed_over: expected.passed_over,
            given_up: expected.given_up,
        }
    }
}

/// The reason why a case has no plan.
enum Refusal {
    /// The job cannot be solved as it then is.
    Job(JobError),
    /// The value is not one that the key may have there.
    Wrong(String),
    /// No plan is possible.
    NoPlan(String),
}

impl From<JobError> for Refusal {
    fn from(error: JobError) -> Self {
        Self::Job(error)
    }
}

impl From<Invalid> for Refusal {
    fn from(error: Invalid) -> Self {
        Self::Job(error.into())
    }
}

impl From<NoPlan> for Refusal {
    fn from(error: NoPlan) -> Self {
        Self::NoPlan(with_hint(&error, error.hint()))
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

impl Refusal {
    fn told(&self) -> String {
        match self {
            // The hint on all fields of a job file is not about the case.
            Self::Job(error) => told(error.invalid()),
            Self::Wrong(why) | Self::NoPlan(why) => why.clone(),
        }
    }

    /// Returns what is wrong with the input, and what to do about it; `None` if it is sound, but has no plan.
    fn wrong(&self) -> Option<(String, Option<String>)> {
        match self {
            Self::Job(JobError::Invalid(invalid)) => Some((invalid.to_string(), invalid.hint())),
            Self::Wrong(why) => Some((why.clone(), None)),
            Self::Job(JobError::OverQuota(_)) | Self::NoPlan(_) => None,
        }
    }
}

impl Resources {
    /// Returns the file that describes the machines, if there is one.
    pub fn machine_files(&self) -> MachineFiles {
        let profile = self.profile.clone().map(|profile| MachineFile::Profile(Box::new(profile)));
        let described = || self.cluster_file.clone().map(|file| MachineFile::Cluster(Box::new(file)));
        let (constants, prices) = (self.constants.clone(), self.prices.clone());
        MachineFiles { machine: profile.or_else(described), constants, prices }
    }
}

/// Predicts each combination of values. `done` is called after each case, on any thread.
///
/// # Errors
///
/// When the job cannot be solved or the plan not simulated, whatever is varied. A single case that is not possible is a
/// case with its reason.
pub fn what_if(subject: &Subject, axes: &[Axis], done: &(dyn Fn() + Sync)) -> Result<WhatIfDocument, WhatIfError> {
    let job = subject.job();
    subject.check(axes)?;
    let base = subject.base(axes)?;
    let (base, software) = subject.with_kept_software(axes, base);
    let expected = base.as_ref().ok();
    let combinations = combinations(axes);
    // Only figures are kept: a simulated step may be large.
    let results: Vec<Result<Answer, Refusal>> = combinations
        .par_iter()
        .map(|chosen| {
            let settings: Vec<(Key, &Setting)> =
                axes.iter().zip(chosen).map(|(axis, value)| (axis.key, &axis.values[*value].1)).collect();
            let found = subject.with(&settings, expected, software.as_deref());
            let result = found.map(|(job, expected)| Answer::new(&job, expected));
            done();
            result
        })
        .collect();
    let never = results.iter().all(|result| matches!(result, Err(Refusal::Job(_))));
    if let (Err(Refusal::Job(error)), true) = (&base, never) {
        return Err(WhatIfError::Job(error.clone()));
    }
    if base.is_ok() {
        all_wrong(axes, &results)?;
    }
    let varied = axes.iter().map(|axis| axis.varied(expected.map(|expected| &expected.machine))).collect();
    let base = base.map(|expected| Answer::new(job, expected));
    let objective = job.goal.objective.unwrap_or_default();
    let mut cases: Vec<WhatIfCase> = combinations
        .iter()
        .zip(&results)
        .map(|(chosen, result)| case(axes, chosen, result, (base.as_ref().ok(), objective, software.as_deref())))
        .collect();
    scaling(axes, &mut cases);
    Ok(WhatIfDocument {
        schema: WHAT_IF_SCHEMA.into(),
        job: job.clone(),
        held: matches!(subject, Subject::Plan(_)),
        objective,
        axes: varied,
        base_reason: base.as_ref().err().map(Refusal::told),
        software,
        base: base.ok().map(|base| base.figures),
        cases,
        sensitivities: Vec::new(),
    })
}

/// Refuses values that are all wrong, with what is wrong with the first.
fn all_wrong(axes: &[Axis], results: &[Result<Answer, Refusal>]) -> Result<(), Invalid> {
    let wrong: Option<Vec<_>> = results.iter().map(|result| result.as_ref().err()?.wrong()).collect();
    let Some((why, hint)) = wrong.and_then(|all| all.into_iter().next()) else { return Ok(()) };
    let field = match axes {
        [only] => axis::option(only.key.name),
        _ => "--vary".into(),
    };
    Err(Invalid::inside(field, why).maybe_hint(hint))
}

/// Lists all combinations as indices of each axis's values, the last axis varying fastest.
fn combinations(axes: &[Axis]) -> Vec<Vec<usize>> {
    axes.iter().fold(vec![Vec::new()], |all, axis| {
        let with = |chosen: &Vec<usize>| {
            (0..axis.values.len())
                .map(|value| chosen.iter().copied().chain([value]).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        all.iter().flat_map(with).collect()
    })
}

impl Subject {
    fn job(&self) -> &JobSpec {
        match self {
            Self::Job(job) => &job.spec,
            Self::Plan(plan) => &plan.document.job,
        }
    }

    /// Refuses values that name nothing that is known.
    fn check(&self, axes: &[Axis]) -> Result<(), Invalid> {
        match self {
            // A file describes its machines.
            Self::Job(job) if job.spec.cluster.profile.is_some() || job.spec.cluster.file.is_some() => Ok(()),
            Self::Job(job) => {
                let Resources { constants, prices, .. } = &job.resources;
                let catalog = known::catalog_of(constants.as_ref(), prices.as_ref());
                let own = &job.spec.cluster;
                let usual = || usual_types(&catalog, own.pricing.unwrap_or(Pricing::OnDemand));
                let types = own.instances.clone().unwrap_or_else(usual);
                known::check(axes, &catalog, &types)
            }
            Self::Plan(plan) if plan.document.prediction.price.as_ref().and_then(PriceUsed::offered).is_none() => {
                Ok(())
            }
            Self::Plan(plan) => {
                let types = [plan.document.plan.cluster.instance.clone()];
                known::check(axes, &plan.catalog(), &types)
            }
        }
    }

    /// Predicts the subject unchanged.
    fn base(&self, axes: &[Axis]) -> Result<Result<Expected, Refusal>, WhatIfError> {
        match self {
            Self::Job(job) => Ok(job.with(&[], None, None).map(|(_, expected)| expected)),
            Self::Plan(plan) => {
                if let Some(axis) = axes.iter().find(|axis| axis.key.level == Level::Search) {
                    let sentence = format!("`{}` decides which plan is sought, but here a plan is held", axis.key.name);
                    let hint = "give a job, without --hold, so that plans are sought anew";
                    return Err(Invalid::inside("--vary", sentence).with_hint(hint).into());
                }
                Ok(Ok(plan.as_it_is()?))
            }
        }
    }

    /// Returns the software of the unvaried plan of a job, which all cases keep, and that plan as the best with it: what is
    /// preferred of plans that predictions cannot tell apart would hide what is varied. None is kept where it follows from
    /// what is varied, where there is only one, and where another plan is recommended once it is named.
    fn with_kept_software(
        &self,
        axes: &[Axis],
        base: Result<Expected, Refusal>,
    ) -> (Result<Expected, Refusal>, Option<String>) {
        let (Self::Job(job), Ok(found)) = (self, &base) else { return (base, None) };
        let compares = job.spec.cluster.stack.as_ref().is_none_or(|named| named == AUTO_STACK)
            && job.spec.cluster.profile.is_none()
            && job.limits.fixed.stack.is_none();
        let decides = axes.iter().any(|axis| DECIDE_SOFTWARE.contains(&axis.key.name));
        let Some(stack) = found.plan.spec().stack.clone().filter(|_| compares && !decides) else { return (base, None) };
        match job.held(&[], None, Some(&stack)) {
            Ok((_, with_it)) if with_it.plan.spec() == found.plan.spec() => (Ok(with_it), Some(stack)),
            _ => (base, None),
        }
    }

    /// Predicts the subject with some keys set, and returns the job that it is then for.
    fn with(
        &self,
        settings: &[(Key, &Setting)],
        base: Option<&Expected>,
        software: Option<&str>,
    ) -> Result<(JobSpec, Expected), Refusal> {
        match self {
            Self::Job(job) => job.with(settings, base, software),
            Self::Plan(plan) => plan.with(settings),
        }
    }
}

/// A job while keys are set.
struct ChangedJob {
    job: SoughtJob,
    machine: Vec<MachineChange>,
    price: Vec<PriceChange>,
    /// Keys that are set to one value on all types of machine.
    of_all: Vec<&'static str>,
    /// `true` if the global batch is set.
    of_batch: bool,
}

impl SoughtJob {
    /// Finds the best plan with some keys set, of this software unless there is a reason to give it up. `base` is the plan without any, whose fields factors multiply.
    fn with(
        &self,
        settings: &[(Key, &Setting)],
        base: Option<&Expected>,
        software: Option<&str>,
    ) -> Result<(JobSpec, Expected), Refusal> {
        if let Some(base) = base.filter(|base| changes_nothing(settings, &base.plan)) {
            return Ok((self.spec.clone(), base.clone()));
        }
        let kept = self.held(settings, base, software);
        let is_wrong = |refusal: &Refusal| !matches!(refusal, Refusal::NoPlan(_));
        if software.is_none() || kept.as_ref().is_err_and(is_wrong) {
            return kept;
        }
        let given_up = |(job, free): (JobSpec, Expected), why| (job, Expected { given_up: Some(why), ..free });
        match (kept, self.held(settings, base, None)) {
            (Ok((job, own)), Ok(free)) if missed(&job.goal, &own.prediction).is_some() => {
                let why = missed(&job.goal, &free.1.prediction).map_or(GivenUp::Misses, |_| GivenUp::Farther);
                Ok(given_up(free, why))
            }
            (Ok(kept), Ok(free)) => {
                let totals = |own: &Expected| (own.prediction.elapsed_s(), own.prediction.cost_usd);
                let why = GivenUp::of(kept.0.goal.objective.unwrap_or_default(), [totals(&kept.1), totals(&free.1)]);
                Ok(why.map_or(kept, |why| given_up(free, why)))
            }
            (Ok(kept), Err(_)) => Ok(kept),
            (Err(_), free) => free.map(|free| given_up(free, GivenUp::NoPlan)),
        }
    }

    /// Finds the best plan with some keys set, of this software alone if one is named.
    fn held(
        &self,
        settings: &[(Key, &Setting)],
        base: Option<&Expected>,
        software: Option<&str>,
    ) -> Result<(JobSpec, Expected), Refusal> {
        if self.cancellation.is_cancelled() {
            return Err(NoPlan::Cancelled.into());
        }
        let (machine, price, of_all) = (Vec::new(), Vec::new(), Vec::new());
        let mut changed = ChangedJob { job: self.clone(), machine, price, of_all, of_batch: false };
        for (key, setting) in settings {
            changed.set(*key, setting, base)?;
        }
        let held = &mut changed.job.limits.fixed.stack;
        *held = held.take().or_else(|| software.map(Into::into));
        changed.solved()
    }
}

/// Returns `true` if all settings are of numbers that a plan has already: holding them would set another bar for what is as good,
/// and another plan could be recommended.
fn changes_nothing(settings: &[(Key, &Setting)], plan: &Plan) -> bool {
    let is_there = |(key, setting): &(Key, &Setting)| match key.level {
        Level::Plan(field) if field != Field::Global => {
            let present = field.count(plan.spec());
            present.is_some() && setting.count(present).ok() == present
        }
        _ => false,
    };
    !settings.is_empty() && settings.iter().all(is_there)
}

impl ChangedJob {
    fn set(&mut self, key: Key, setting: &Setting, base: Option<&Expected>) -> Result<(), Refusal> {
        match key.level {
            Level::Plan(field) => return self.set_plan(field, setting, base),
            Level::Terms => {
                if let (Some(path), "cluster.transport") = (&self.job.spec.cluster.file, key.name) {
                    return Err(own_transport(path).into());
                }
                self.set_terms(key.name, setting);
            }
            Level::Job | Level::Search => {
                if let Some(base) = base {
                    steps_alone(key, &base.prediction)?;
                    self.job.spec =
                        with_assumed(&self.job.spec, (key, setting), (&base.plan, &base.machine, &base.prediction));
                }
                self.job.spec = job::set_job(&self.job.spec, key, setting)?;
                if key.name == "cluster.stack" {
                    self.job.limits.fixed = std::mem::take(&mut self.job.limits.fixed).without(Field::Stack);
                }
            }
            Level::Model => {
                let read = self.job.resources.model_file.take();
                // A model has an attention kernel in any case, but who did not name one leaves it to software and GPU.
                let attention = self.job.spec.model.attention.or(read.as_ref().and_then(|read| read.attention));
                let spec = ModelSpec { attention, ..model(&self.job.spec.model, read)?.spec() };
                let model = job::set_model(&spec, key, setting)?;
                // As if a file had it: a model of the catalog has its dimensions.
                self.job.resources.model_file = Some(model);
                self.job.spec.model = ModelChoice { file: Some(VARIED_MODEL.into()), ..ModelChoice::default() };
            }
            Level::Machine(part) => {
                if self.job.spec.cluster.profile.is_some() {
                    return Err("a measured machine is known only as it was measured".to_owned().into());
                }
                let of_software = part == Part::Launch;
                self.of_all.extend(Some(key.name).filter(|_| setting.is_absolute() && !of_software));
                self.machine.push(MachineChange { part, setting: setting.clone() });
            }
            Level::Price(instance) => {
                if !self.is_priced() {
                    return Err(unpriced(self.job.spec.cluster.file.as_deref()).into());
                }
                own_type(instance, self.job.spec.cluster.file.as_deref())?;
                self.of_all.extend(Some(key.name).filter(|_| setting.is_absolute() && instance.is_none()));
                self.price.push(PriceChange { instance, setting: setting.clone() });
            }
        }
        Ok(())
    }

    /// Returns `true` if the machines have a price: they are rented, or their cluster file states it.
    fn is_priced(&self) -> bool {
        let cluster = &self.job.spec.cluster;
        let stated = || self.job.resources.cluster_file.as_ref().is_some_and(ClusterFile::is_priced);
        cluster.profile.is_none() && (cluster.file.is_none() || stated())
    }

    /// Holds a field of all plans, or sets it in the job if it belongs there.
    fn set_plan(&mut self, field: Field, setting: &Setting, base: Option<&Expected>) -> Result<(), Refusal> {
        let value = match setting {
            Setting::Word(word) => word.clone(),
            count => {
                let present = base.and_then(|base| field.count(base.plan.spec()));
                count.count(present)?.to_string()
            }
        };
        let fixed = std::mem::take(&mut self.job.limits.fixed);
        self.job.limits.fixed = match field {
            Field::Global => {
                let samples = value.parse().map_err(|_| format!("`{value}` is no number of samples"))?;
                self.job.spec.training.global_batch = Some(GlobalBatch::Exactly(samples));
                self.of_batch = true;
                fixed.without(field)
            }
            Field::Precision => {
                let precision = value.parse().map_err(|error: UnknownName| error.to_string())?;
                self.job.spec.training.precision = Some(vec![precision]);
                fixed.without(field)
            }
            _ => fixed.with(field, &value).map_err(|error| error.to_string())?,
        };
        Ok(())
    }

    fn set_terms(&mut self, name: &str, setting: &Setting) {
        let Setting::Word(word) = setting else { return };
        let cluster = &mut self.job.spec.cluster;
        match name {
            "instance" => {
                cluster.instances = Some(vec![word.clone()]);
                self.job.limits.fixed = std::mem::take(&mut self.job.limits.fixed).without(Field::Instance);
            }
            "pricing" => cluster.pricing = word.parse().ok(),
            "service" => cluster.service = Some(word.clone()),
            "cluster.transport" => cluster.transport = Some(word.clone()),
            _ => cluster.region = Some(word.clone()),
        }
    }

    /// Finds the best plan, and returns it with the job that it is for.
    fn solved(self) -> Result<(JobSpec, Expected), Refusal> {
        let Self { job: SoughtJob { spec, resources, limits, cancellation, cache }, machine, price, of_all, of_batch } =
            self;
        // Machines that are not there yet may be bought.
        let Fixed { instances, instance, .. } = &limits.fixed;
        let more = |place: Place| place.with_machines(instances.unwrap_or(0), instance.as_deref());
        let other = |place: Place| more(place.changed(&machine).repriced(&price));
        let problem = problem_on(&spec, resources, other)?.until(cancellation).with_cache(cache);
        let (chosen, optimum) = best_and_optimum(&problem, &limits)?;
        let (prediction, outcome) = prediction(&problem, &spec, &chosen)?;
        let machine = chosen.machine(&problem);
        let passed_over = optimum.and_then(|optimum| {
            let why = preferred(&problem, &chosen, &optimum)?;
            Some(PassedOver { in_all_s: optimum.elapsed_s, cost_usd: optimum.cost_usd, why })
        });
        let (job, plan) = (&spec, &chosen.plan);
        let warned =
            Warnings { problem: &problem, job, plan, choice: chosen.choice, prediction: &prediction, limits: None }
                .of_case();
        let batch = of_batch.then(|| varied_batches(&problem)).flatten();
        let warnings = batch.into_iter().chain(same_for_all(&of_all, &problem.place)).chain(warned).collect();
        let plan = chosen.plan;
        Ok((spec, Expected { plan, machine, prediction, outcome, warnings, passed_over, given_up: None }))
    }
}

/// Says which keys are set to one value for all of several types of machine.
fn same_for_all(of_all: &[&str], place: &Place) -> Vec<String> {
    let Place::Rented(rental) = place else { return Vec::new() };
    let names: Vec<&str> = rental.instances.iter().map(|(instance, _)| instance.name.as_str()).collect();
    let (first, types) = match names.as_slice() {
        [] | [_] => return Vec::new(),
        [first, second] => (first, format!("{first} and {second}")),
        [first, second, rest @ ..] => (first, format!("{first}, {second} and {} others", rest.len())),
    };
    let told = |key: &&str| {
        let one = if *key == ALL_PRICES { format!("; price.{first} is that of one type") } else { String::new() };
        format!(
            "{key} is the same for all types that may be chosen ({types}); a factor, as in x0.9, keeps their ratio{one}"
        )
    };
    of_all.iter().map(told).collect()
}

/// Returns the figures of a prediction.
fn figures(expected: &Expected) -> WhatIfFigures {
    let Expected { plan, machine, prediction, outcome, .. } = expected;
    let devices = plan.mesh().ranks();
    let limit = prediction.input.map(|input| input.bottleneck);
    WhatIfFigures {
        plan: plan.spec().clone(),
        devices,
        step_time_s: prediction.step_time_s,
        interval_s: prediction.interval_s,
        samples_per_s: prediction.samples_per_s,
        samples_per_s_per_device: prediction.samples_per_s / f64::from(devices),
        mfu: prediction.mfu,
        exposed_communication_s: prediction.exposed_communication_s,
        bottleneck: limit.unwrap_or_else(|| bottleneck(plan, machine, outcome)),
        memory_peak_bytes: prediction.memory_bytes.fullest().0,
        steps: prediction.steps,
        time_s: prediction.time_s,
        in_all_s: prediction.elapsed_s(),
        cost_usd: prediction.cost_usd,
        cost_interval_usd: prediction.cost_interval_usd,
        price: prediction.price.clone(),
        within_deadline: prediction.within_deadline,
        within_budget: prediction.within_budget,
    }
}

/// Explains why `plan` refuses a plan that fits; `None` if it leaves the margin free.
fn within_margin(expected: &Expected) -> Option<String> {
    let (needed, usable) = Shortfall::from(expected.outcome.footprint.fits().err()?).apart();
    Some(format!("it fits, but needs {needed}, and `plan` takes plans of at most {usable} there, with a margin"))
}

/// Explains why a plan misses the deadline or the budget; `None` if it meets them.
fn missed(goal: &GoalSpec, own: &Prediction) -> Option<String> {
    if let Some(deadline) = goal.deadline().filter(|deadline| own.elapsed_s() > deadline.0) {
        let over = beyond(own.elapsed_s(), deadline.0, "the deadline");
        return Some(format!("{} in all is {over}", human_duration(Seconds(own.elapsed_s()))));
    }
    let (budget, cost) = (goal.budget?, own.cost_usd?);
    (cost > budget).then(|| format!("{} is {}", usd(cost), beyond(cost, budget, "the budget")))
}

fn case(
    axes: &[Axis],
    chosen: &[usize],
    result: &Result<Answer, Refusal>,
    (base, objective, software): (Option<&Answer>, Objective, Option<&str>),
) -> WhatIfCase {
    let values = axes.iter().zip(chosen).map(|(axis, value)| axis.values[*value].0.clone()).collect();
    let answer = result.as_ref().ok();
    let own = answer.map(|answer| &answer.figures);
    let both = own.zip(base.map(|base| &base.figures));
    WhatIfCase {
        values,
        reason: result.as_ref().err().map(Refusal::told),
        missed_goal: answer.and_then(|answer| answer.missed_goal.clone()),
        within_margin: answer.and_then(|answer| answer.within_margin.clone()),
        warnings: answer.map(|answer| answer.warnings.clone()).unwrap_or_default(),
        choice: answer.zip(base).and_then(|(answer, base)| {
            let otherwise = compares_otherwise(objective, base, answer);
            let other = software.and_then(|kept| other_software(kept, objective, answer));
            let keys: Vec<&str> = axes.iter().map(|axis| axis.key.name).collect();
            let [of_base, of_case] = [&base.figures, &answer.figures];
            let machines = || other_machines(&keys, of_base, of_case);
            other.or(otherwise).or_else(machines).or_else(|| indistinct(&keys, of_base, of_case))
        }),
        time_change: both.map(|(own, base)| own.in_all_s / base.in_all_s - 1.0),
        cost_change: both.and_then(|(own, base)| Some(own.cost_usd? / base.cost_usd? - 1.0)),
        scaling_efficiency: None,
        figures: own.cloned(),
    }
}

/// Computes the throughput of a device relative to the case with the fewest devices, if their number is varied. Machines of
/// another type than there are not compared: their devices differ.
fn scaling(axes: &[Axis], cases: &mut [WhatIfCase]) {
    let Some(axis) = axes.iter().position(|axis| ["instances", "parallel.data"].contains(&axis.key.name)) else {
        return;
    };
    let others = |case: &WhatIfCase| {
        let values = case.values.iter().enumerate().filter(|(index, _)| *index != axis);
        values.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let known = cases.iter().filter_map(|case| Some((others(case), case.figures.clone()?)));
    let known: Vec<(Vec<String>, WhatIfFigures)> = known.collect();
    for case in cases {
        let values = others(case);
        let alike = known.iter().filter(|(others, _)| *others == values).map(|(_, figures)| figures);
        let (Some(fewest), Some(own)) = (alike.min_by_key(|figures| figures.devices), &case.figures) else { continue };
        let same_type = own.plan.cluster.instance == fewest.plan.cluster.instance;
        case.scaling_efficiency = same_type.then(|| own.samples_per_s_per_device / fewest.samples_per_s_per_device);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_machines_of_one_type_are_compared_as_they_become_more() {
        let axes = axes(&["instances=1,2,4".into()]).expect("a key");
        let case = |instances: u32, instance: &str| {
            let mut figures = choice::tests::answer(100.0 / f64::from(instances), None).figures;
            figures.plan.cluster = trainyard_plan::ClusterSpec::of(instance, instances);
            figures.devices = 8 * instances;
            let answer = Answer { figures, ..choice::tests::answer(1.0, None) };
            let index = instances.ilog2() as usize;
            super::case(&axes, &[index], &Ok(answer), (None, Objective::Cost, None))
        };
        let mut cases = vec![case(1, "p5.48xlarge"), case(2, "p5.48xlarge"), case(4, "p4d.24xlarge")];
        scaling(&axes, &mut cases);
        let found: Vec<Option<f64>> = cases.iter().map(|case| case.scaling_efficiency).collect();
        // The throughput of a device there is that of a machine with eight.
        assert_eq!(found, [Some(1.0), Some(2.0), None]);
    }
}
