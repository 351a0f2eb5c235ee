//! A solvable question, and how a job becomes one.

use super::campaign_settings::{Settings, above_zero, settings};
use super::error::JobError;
use super::evaluations::ForwardPasses;
use super::global_batches::GlobalBatches;
use super::input::{Data, data_set};
use super::lengths::{Packing, as_sequences};
use super::machines::{Wanted, place};
use super::model::{as_executed, context_length, countable, model_spec, valid_of};
use super::place::{Description, Place};
use super::price_not_found::unknown_region;
use super::resources::Resources;
use super::software::Trained;
use super::stored::{field_of_input, usual_set};
use super::training::{Training, training};
use crate::cache::SearchCache;
use crate::cancellation::Cancellation;
use std::sync::Arc;
use trainyard_models::{Model, OperatorGraph};
use trainyard_plan::{
    Architecture, BATCH_MAX, DataSpec, EXECUTABLE, FineTuningSpec, Fixed, GlobalBatch, GoalSpec, JobSpec, Method,
    Objective, Optimizer, Precision, StorageMode, TrainingSpec, TuningKind, TuningObjective, executor_trains,
};
use trainyard_sim::Machine;
use trainyard_units::{Invalid, Seconds};

/// Why half precision is not for a model that overflows it.
const OVERFLOWS_HALF: &str = "activations of the published weights, which were trained in bf16, overflow fp16 (huggingface/\
     transformers pull request 10956)";

/// A solvable question.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says what the job says, whatever the others say")]
pub struct Problem {
    /// The model to be trained.
    pub model: Model,
    /// Which weights are trained, with every default filled in; `None` if all are.
    pub(crate) fine_tuning: Option<FineTuningSpec>,
    /// `true` if training goes on from trained weights.
    pub(crate) loads_weights: bool,
    /// Tokens of the longest sequence that the published weights of the model were trained for, where that is known.
    pub(crate) context_length: Option<u64>,
    /// What became of samples of different lengths, where a file tells them.
    pub(crate) packing: Option<Packing>,
    /// `true` if the job or the model's file states how attention is computed; otherwise the software and the GPU
    /// decide.
    pub(crate) states_attention: bool,
    /// The amount of training.
    pub training: Training,
    /// The data set; `None` if samples are assumed to be at hand.
    pub data: Option<Data>,
    /// Global batch sizes that may be chosen.
    pub global_batches: GlobalBatches,
    /// Number formats that may be chosen.
    pub precisions: Vec<Precision>,
    /// `true` if the job names them; otherwise some are left out: see `unless_named`.
    pub names_precisions: bool,
    /// Number formats that were asked for but that no machine computes in.
    pub unusable_precisions: Vec<Precision>,
    pub optimizer: Optimizer,
    /// The machines on which the job may run.
    pub place: Place,
    /// The quantity to be minimized: cost or time.
    pub objective: Objective,
    /// `true` if time is sought for want of a price alone, on machines of a cluster file: the job does not ask for it.
    pub(crate) only_for_want_of_a_price: bool,
    /// The longest training accepted.
    pub deadline: Option<Seconds>,
    /// The most money accepted, in USD.
    pub budget: Option<f64>,
    /// Start-up, checkpoints, evaluation and failures, as the job states them.
    pub(crate) settings: Settings,
    /// The flag by which the caller stops the search.
    pub(crate) cancellation: Cancellation,
    /// The effort after which a search may stop without a proof; `None` if the best plan must be proved.
    pub(crate) effort: Option<Effort>,
    /// What searches have found out.
    pub(crate) cache: SearchCache,
}

/// Samples that batch normalisation should see at once on a device. ResNet-50 on ImageNet errs as often at 16 as at 32
/// (23.7 and 23.6 %), at 8 more often (24.8 %), at 4 and 2 much more (27.3 and 34.7 %): Wu and He, arXiv:1803.08494,
/// table 2.
pub(crate) const NORMALISED_MIN: u64 = 16;

/// The effort after which a search that found a plan may stop, before it is proved that no plan is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Candidates that were looked at and fit. Most candidates of a large model do not fit, and are soon dismissed.
    pub(crate) looks: u64,
    /// Plans that were simulated.
    pub(crate) simulations: u64,
}

impl Effort {
    /// The effort of a draft's search, stated defaults. Of 16 candidates that fit, the one with the best bound cost at
    /// most 6 % more than the proved plan in 30 questions about models up to 175 billion parameters; of 8, up to 2.9
    /// times as much. A simulation takes up to 0.2 s.
    pub(crate) const DRAFT: Self = Self { looks: 16, simulations: 1 };
}

impl Problem {
    /// Returns why half precision is not for the weights that the training begins with, if it is not.
    pub(crate) fn overflows_half(&self) -> Option<&'static str> {
        (self.loads_weights && self.model.overflows_half()).then_some(OVERFLOWS_HALF)
    }

    /// Returns why a number format is not chosen unless it is named: it may change what is learnt, or the model overflows it.
    pub(crate) fn unless_named(&self, precision: Precision) -> Option<&'static str> {
        match precision {
            _ if self.names_precisions => None,
            Precision::Fp8Mixed => Some("it may change what is learnt"),
            Precision::Fp16Mixed => self.overflows_half(),
            _ => None,
        }
    }

    /// Returns what a plan must do besides fitting, for sentences such as "no plan fits and meets the deadline".
    pub(crate) fn and_meets_goal(&self) -> &'static str {
        match (self.deadline, self.budget) {
            (None, None) => "",
            (Some(_), None) => " and meets the deadline",
            (None, Some(_)) => " and meets the budget",
            (Some(_), Some(_)) => " and meets deadline and budget",
        }
    }

    /// Returns `true` if a training of so many seconds, all in all, misses the deadline.
    pub(crate) fn is_late(&self, elapsed_s: f64) -> bool {
        self.deadline.is_some_and(|deadline| elapsed_s > deadline.0)
    }

    /// Returns the same problem, searched like a draft.
    pub(crate) fn briefly(&self) -> Self {
        Self { effort: Some(Effort::DRAFT), ..self.clone() }
    }

    /// Returns the same problem, whose searches stop once `cancellation` is cancelled. A plan found then is no
    /// recommendation.
    #[must_use]
    pub fn until(self, cancellation: Cancellation) -> Self {
        Self { cancellation, ..self }
    }

    /// Returns the same problem on at most so many machines of these kinds of one's own, and without those of other kinds
    /// and without all of them together.
    #[must_use]
    pub fn only_on(self, kinds: &[(String, u32)]) -> Self {
        Self { place: self.place.only_on(kinds), ..self }
    }

    /// Returns the same problem, whose searches share what they find out with all others that are given this cache.
    #[must_use]
    pub fn with_cache(self, cache: SearchCache) -> Self {
        Self { cache, ..self }
    }

    /// Returns the same problem with other weights trained; `None` if the model has no such weights.
    pub(crate) fn by(&self, fine_tuning: Option<FineTuningSpec>) -> Option<Self> {
        Architecture::tuned(self.model.clone(), fine_tuning.as_ref()).ok()?;
        Some(Self { fine_tuning, ..self.clone() })
    }

    /// Returns which weights are trained.
    pub(crate) fn method(&self) -> Method {
        self.kind().method
    }

    /// Returns what is trained, and towards what.
    pub(crate) fn kind(&self) -> TuningKind {
        self.fine_tuning.as_ref().map_or(TuningKind::FULL, FineTuningSpec::kind)
    }

    /// Returns what is trained and with which optimizer, as software must be able to.
    pub(crate) fn trained(&self) -> Trained<'_> {
        Trained { model: &self.model, kind: self.kind(), optimizer: self.optimizer }
    }

    /// Returns the forward passes of a training with this global batch besides its steps.
    pub(crate) fn forward_passes(&self, global_batch: u64) -> ForwardPasses {
        self.settings.forward.passes(self.training.steps(global_batch), global_batch)
    }

    /// Returns the operators of the model as it is trained.
    pub(crate) fn graph(&self) -> OperatorGraph {
        self.architecture(self.model.clone()).graph().clone()
    }

    /// Returns the model, or the same with another attention kernel, as it is trained.
    pub(crate) fn architecture(&self, model: Model) -> Arc<Architecture> {
        Architecture::tuned(model, self.fine_tuning.as_ref()).expect("checked where a job is read")
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }
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
    let context_length = context_length(&job.model, resources.model_file.as_ref());
    let mut spec = model_spec(&job.model, resources.model_file.clone())?;
    if let Some(dropout) = job.training.dropout {
        dropout.write(&mut spec)?;
    }
    let states_attention = spec.attention.is_some();
    let model = valid_of(&job.model, spec)?;
    countable(&model)?;
    let (job, packing) = &as_sequences(job, resources.lengths.as_deref(), &model)?;
    let fine_tuning = fine_tuning(&job.training, &model)?;
    pairs(job)?;
    let kind = fine_tuning.as_ref().map_or(TuningKind::FULL, FineTuningSpec::kind);
    let optimizer = job.training.optimizer.unwrap_or(Optimizer::AdamW);
    let trained = Trained { model: &model, kind, optimizer };
    let wanted = Wanted { trained, fine_tuned: job.training.method.is_some() };
    let place = other(place(&job.cluster, resources, wanted)?);
    if place.is_measured() {
        executable_here(&model, kind, optimizer)?;
    }
    let model = if place.is_measured() { as_executed(model) } else { model };
    let (deadline, budget) = goal(&job.goal, &place)?;
    let (precisions, unusable_precisions) = precisions(&job.training, &place)?;
    let training =
        training(&job.training, optimizer, &job.data, &model).map_err(|error| with_usual_set(error, job, &model))?;
    let data = data_on(job, &model, &place)?;
    region(&job.data, &place)?;
    let settings = settings(job, &model, place.pricing(), place.offered(0).map(|price| price.service))?;
    let asks_for_time = job.goal.objective == Some(Objective::Time);
    let only_for_want_of_a_price = place.cluster_file().is_some() && !place.is_priced() && !asks_for_time;
    Ok(Problem {
        settings,
        cancellation: Cancellation::default(),
        effort: None,
        cache: SearchCache::default(),
        training,
        data,
        global_batches: global_batches(job.training.global_batch)?,
        precisions,
        names_precisions: job.training.precision.is_some(),
        unusable_precisions,
        optimizer,
        // Without a price there is no cost to seek.
        objective: if place.is_priced() { job.goal.objective.unwrap_or_default() } else { Objective::Time },
        only_for_want_of_a_price,
        model,
        loads_weights: job.training.method.is_some() || kind.dpo,
        fine_tuning,
        context_length,
        packing: *packing,
        states_attention,
        place,
        deadline,
        budget,
    })
}

/// Checks that Trainyard's own executor, which measured machines have, trains a model so.
fn executable_here(model: &Model, kind: TuningKind, optimizer: Optimizer) -> Result<(), Invalid> {
    if !executor_trains(kind, model.family()) {
        let rule = format!("{} is not trained so on a measured machine, by Trainyard's own executor", model.family());
        let (field, value) =
            if kind.dpo { ("training.objective", "dpo".to_owned()) } else { ("training.method", kind.to_string()) };
        return Err(Invalid::breaks(field, value, rule)
            .with_hint("`trainyard plan` without a profile plans it for rented machines; full and lora run here"));
    }
    if !EXECUTABLE.optimizers.contains(&optimizer) {
        let names: Vec<String> = EXECUTABLE.optimizers.iter().map(ToString::to_string).collect();
        let rule = format!("the executor, which measured machines have, has {}", names.join(", "));
        return Err(Invalid::breaks("training.optimizer", optimizer, rule));
    }
    if let Some(scaling) = model.spec().rotary_scaling.filter(|scaling| !scaling.is_of_frequencies()) {
        let rule = format!("the executor, which measured machines have, does not scale rotary positions by {scaling}");
        return Err(Invalid::conflict("model.rotary_scaling", "cluster.profile", rule));
    }
    Ok(())
}

/// Names the usual data set of a model in the error of a job that says nothing of the amount of its data.
fn with_usual_set(error: Invalid, job: &JobSpec, model: &Model) -> Invalid {
    match usual_set(job, model).filter(|set| error.field() == "data" && set.samples.is_some()) {
        Some(set) => error.with_hint(format!("`--dataset {}` is the usual one of {}", set.name, model.name())),
        None => error,
    }
}

/// Returns which weights of a model a job trains, with every default filled in; `None` if all are.
pub(crate) fn fine_tuning(spec: &TrainingSpec, model: &Model) -> Result<Option<FineTuningSpec>, Invalid> {
    let within = |error: Invalid| error.within("training");
    let method = spec.method.unwrap_or(Method::Full);
    let dpo = match (spec.objective, spec.dpo) {
        (Some(TuningObjective::Dpo), dpo) => Some(dpo.unwrap_or_default()),
        (_, Some(_)) => {
            let rule = "objective is the model's own loss, which has no reference model";
            return Err(within(Invalid::inside("dpo", rule).with_hint("write objective = \"dpo\"")));
        }
        (_, None) => None,
    };
    let own = FineTuningSpec::towards(dpo, method, spec.lora.as_ref(), spec.trained_blocks).map_err(within)?;
    Architecture::tuned(model.clone(), own.as_ref()).map_err(within)?;
    Ok(own)
}

/// Checks that the data of a training on preferences are pairs, which are counted as samples.
fn pairs(job: &JobSpec) -> Result<(), Invalid> {
    if job.training.objective != Some(TuningObjective::Dpo) {
        return Ok(());
    }
    let of_sequences = [("data.tokens", job.data.tokens.is_some()), ("data.lengths", job.data.lengths.is_some())];
    if let Some((field, _)) = of_sequences.iter().find(|(_, said)| *said) {
        let rule = "dpo is trained on pairs of sequences, which are not packed";
        return Err(Invalid::conflict(*field, "training.objective", rule)
            .with_hint("write data.samples, the number of pairs, and model.seq_len, to which both are padded"));
    }
    if job.training.target.is_some() {
        let rule = "published trainings to a target are of the model's own loss";
        return Err(Invalid::conflict("training.target", "training.objective", rule));
    }
    Ok(())
}

/// Returns the data set, if some of the machines can load its samples.
fn data_on(job: &JobSpec, model: &Model, place: &Place) -> Result<Option<Data>, Invalid> {
    if let (true, Some(first)) = (place.is_measured(), field_of_input(&job.data)) {
        let rule = "the steps of a measured machine were measured with their input";
        return Err(Invalid::conflict(first, "cluster.profile", rule));
    }
    let Some(data) = data_set(job, model)? else { return Ok(None) };
    let machines = (0..place.choices().len()).map(|choice| place.machine(choice, 1, None));
    let refusals: Option<Vec<Invalid>> = machines.map(|one| data.refusal(&Fixed::default(), &one)).collect();
    match refusals.and_then(|all| all.into_iter().next()) {
        // A warning says so.
        Some(_) if data.assumed && field_of_input(&job.data).is_none() => Ok(None),
        // A plan has under `input` what a job has under `data`.
        Some(error) => Err(match error.field().strip_prefix("input.") {
            Some(own) => error.clone().called(&format!("data.{own}")),
            None => error,
        }),
        None => Ok(Some(data)),
    }
}

/// Checks the Region in which the data is stored: it must be one that is known, and the machines must be rented.
/// FSx for Lustre and EBS must be in the machines' Region, since they are reached from their own zone only.
pub(crate) fn region(data: &DataSpec, place: &Place) -> Result<(), Invalid> {
    let Some(region) = &data.region else { return Ok(()) };
    let parts: Vec<&str> = region.split('-').collect();
    let number = parts.last().is_some_and(|last| last.parse::<u8>().is_ok());
    let words = parts.iter().rev().skip(1).all(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase()));
    if parts.len() < 3 || !number || !words {
        return Err(Invalid::value("data.region", format!("`{region}`"), "an AWS Region, such as us-east-1"));
    }
    let (Place::Rented(rental), Some(price)) = (place, place.offered(0)) else {
        let rule = "machines that are not rented are in no Region";
        return Err(Invalid::conflict("data.region", "cluster", rule));
    };
    if let Some(meant) = unknown_region(&rental.catalog, region) {
        let allowed = "a Region in which machines have prices";
        return Err(Invalid::value("data.region", format!("`{region}`"), allowed).with_hint(meant));
    }
    let zonal = matches!(data.storage, Some(StorageMode::FsxLustre | StorageMode::Ebs));
    if zonal && price.region != *region {
        let rule = "fsx-lustre and ebs are reached from their own Availability Zone only; write cluster.region";
        return Err(Invalid::conflict("data.region", "data.storage", rule));
    }
    Ok(())
}

fn global_batches(batch: Option<GlobalBatch>) -> Result<GlobalBatches, Invalid> {
    let range = |field, value: u64| {
        if (1..=BATCH_MAX).contains(&value) { Ok(value) } else { Err(Invalid::range(field, value, 1..=BATCH_MAX)) }
    };
    match batch {
        None => Err(Invalid::missing(
            "training.global_batch",
            "write the samples of an optimizer step, global_batch = 512 or { min = 256, max = 4096 }",
        )),
        Some(GlobalBatch::Exactly(samples)) => Ok(GlobalBatches::exactly(range("training.global_batch", samples)?)),
        Some(GlobalBatch::Between { min, max }) => {
            let (min, max) = (range("training.global_batch.min", min)?, range("training.global_batch.max", max)?);
            if min > max {
                return Err(Invalid::value("training.global_batch.min", min, format!("at most max, {max}")));
            }
            Ok(GlobalBatches::between(min, max))
        }
    }
}

/// The number formats that may be chosen: of those that the job names, or of all, those that some of the machines
/// compute in; and those that the job names in vain.
fn precisions(spec: &TrainingSpec, place: &Place) -> Result<(Vec<Precision>, Vec<Precision>), Invalid> {
    if spec.precision.as_ref().is_some_and(Vec::is_empty) {
        return Err(Invalid::value("training.precision", "[]", "a list with at least one number format"));
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
        return Err(Invalid::value("training.precision", listed(&unusable), allowed));
    }
    Ok((both, unusable))
}

/// Reads the deadline and the budget of a job, or of a fleet of them.
///
/// # Errors
///
/// When one of them is none, or not above zero.
pub fn deadline_and_budget(goal: &GoalSpec) -> Result<(Option<Seconds>, Option<f64>), Invalid> {
    let seconds = |time: &Seconds| time.0;
    let deadline = above_zero("goal.deadline", goal.deadline.as_deref(), "a duration such as 3d", seconds)?;
    match goal.budget.filter(|budget| !(*budget > 0.0 && budget.is_finite())) {
        Some(budget) => Err(Invalid::value("goal.budget", budget, "above 0 USD")),
        None => Ok((deadline, goal.budget)),
    }
}

fn goal(goal: &GoalSpec, place: &Place) -> Result<(Option<Seconds>, Option<f64>), Invalid> {
    let limits = deadline_and_budget(goal)?;
    if let (Place::Owned { described_by, .. }, Some(_), false) = (place, goal.budget, place.is_priced()) {
        let rule = "a machine that is not rented costs nothing";
        let with = |second| Invalid::conflict("goal.budget", second, rule);
        return Err(match described_by {
            Description::Profile(_) => with("cluster.profile"),
            Description::ClusterFile(_) => with("cluster.file")
                .with_hint("`usd_per_hour = 24.0` in [[machines]] of the file says what an hour of one machine costs"),
        });
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking;

    #[test]
    fn formats_that_may_change_what_is_learnt_are_for_those_who_name_them() {
        let open = |model: &str, method: Option<Method>, named: Option<Vec<Precision>>| {
            let mut job = asking::job(model, 64, &["p3.2xlarge"], 1);
            (job.data.samples, job.training.precision, job.training.method) = (Some(1000), named, method);
            let problem = asking::solvable(&job);
            [Precision::Fp16Mixed, Precision::Fp8Mixed].map(|own| problem.unless_named(own).is_none())
        };
        let full = Some(Method::Full);
        assert_eq!(open("bart-large", full, None), [true, false]);
        assert_eq!(open("t5-large", full, None), [false, false]);
        assert_eq!(open("t5-large", full, Some(vec![Precision::Fp16Mixed])), [true, true]);
        // Smaller ones do not, and who trains from scratch has no published weights.
        assert_eq!([open("t5-base", full, None), open("t5-large", None, None)], [[true, false]; 2]);
    }
}
