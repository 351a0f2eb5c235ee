//! What is answered.

use crate::bounds::Bounds;
use crate::catalogs::ModelEntry;
use crate::question::{Effort, FleetQuestion, ModelQuestion, PlanQuestion, WhatIfQuestion, check_plan};
use crate::refusal::Refusal;
use crate::step::StepPicture;
use schemars::JsonSchema;
use serde::Serialize;
use trainyard_models::{Model, ModelSpec};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{Plan, Timeline, WhatIfDocument};
use trainyard_planner::what_if::{HeldPlan, Subject};
use trainyard_planner::{
    Cancellation, Draft, MachineFiles, Resources, SearchCache, draft, recommend, resimulate, what_if as vary,
};
use trainyard_pool::fleet::{FleetDocument, plan_fleet};
use trainyard_sim::{Options, memory_needed};

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlanAnswer {
    /// The plan document, which `trainyard` reads as a file.
    pub plan: PlanDocument,
    /// Why it is not within deadline or budget, as the document says; absent if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
    /// One simulated step.
    pub step: StepPicture,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ModelAnswer {
    /// What it is called, and how large it is.
    pub entry: ModelEntry,
    /// The model with every dimension.
    pub model: ModelSpec,
}

impl PlanAnswer {
    fn of(document: PlanDocument, step: &Timeline) -> Self {
        Self { missed: document.missed.clone(), step: StepPicture::of(step), plan: document }
    }
}

/// Finds the best plan for a job. What the search finds out besides is kept in `cache` for later ones.
pub(crate) fn plan(
    question: &PlanQuestion,
    cancellation: Cancellation,
    cache: SearchCache,
) -> Result<PlanAnswer, Refusal> {
    let limits = question.limits()?;
    let problem = question.problem()?.until(cancellation).with_cache(cache);
    match question.effort {
        Effort::Draft => {
            let Draft { document, timeline } = draft(&problem, &limits, &question.job)?;
            Ok(PlanAnswer::of(document, &timeline))
        }
        Effort::Proof => {
            let document = recommend(&problem, &limits, &question.job)?;
            let (_, outcome) = resimulate(&document, MachineFiles::default(), Options::default())?;
            Ok(PlanAnswer::of(document, &outcome.timeline()))
        }
    }
}

/// Seeks the best plan of a job again for each combination of values, or simulates the one that is held. A case without a plan
/// says why.
pub(crate) fn what_if(
    question: &WhatIfQuestion,
    (cancellation, cache): (Cancellation, SearchCache),
    bounds: &Bounds,
) -> Result<WhatIfDocument, Refusal> {
    let axes = question.axes()?;
    if !question.hold && !question.tornado {
        return Ok(vary::what_if(&question.subject(cancellation, cache)?, &axes, &|| ())?);
    }
    let problem = question.problem()?.until(cancellation).with_cache(cache);
    let document = recommend(&problem, &question.limits()?, &question.job)?;
    small_enough(&document, bounds)?;
    let held = Box::new(HeldPlan { document, files: MachineFiles::default() });
    Ok(if question.tornado { vary::tornado(&held)? } else { vary::what_if(&Subject::Plan(held), &axes, &|| ())? })
}

/// Plans jobs that share a pool.
pub(crate) fn fleet(question: &FleetQuestion, cancellation: &Cancellation) -> Result<FleetDocument, Refusal> {
    let (jobs, limits) = (question.jobs()?, question.limits()?);
    Ok(plan_fleet(&question.fleet, &Resources::default(), &jobs, &limits, cancellation, &|| ())?.document)
}

/// Simulates a plan document that a client kept.
pub(crate) fn simulate(document: &PlanDocument, bounds: &Bounds) -> Result<PlanAnswer, Refusal> {
    check_plan(document)?;
    small_enough(document, bounds)?;
    let (document, outcome) = resimulate(document, MachineFiles::default(), Options::default())?;
    Ok(PlanAnswer::of(document, &outcome.timeline()))
}

/// Refuses plans whose simulation would take too much memory.
fn small_enough(document: &PlanDocument, bounds: &Bounds) -> Result<(), Refusal> {
    let plan = Plan::try_from(document.plan.clone())
        .map_err(|error| Refusal::input(format!("in `plan`: {error}")).field("plan").hint(error.hint()))?;
    let needed = memory_needed(&plan, Options::default()).0;
    if needed > bounds.simulation {
        let detail = format!("simulating this plan would take {needed} bytes, but {} are allowed", bounds.simulation);
        return Err(Refusal::input(detail).hint("`trainyard simulate` takes what the machine has".to_owned()));
    }
    Ok(())
}

/// Reads the model that a configuration describes.
pub(crate) fn model(question: &ModelQuestion) -> Result<ModelAnswer, Refusal> {
    let written = question.model()?;
    let model = Model::try_from(written)
        .map_err(|error| Refusal::input(format!("in `config`: {error}")).field("config").hint(error.hint()))?;
    Ok(ModelAnswer { entry: ModelEntry::of(&model, None), model: model.spec() })
}
