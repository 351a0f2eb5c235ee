//! From a plan to what may become of its whole training.

mod assembly;
mod summary;

pub(crate) use assembly::extrapolated;

use crate::predict::{DocumentError, MachineFiles, machine, resimulate};
use crate::problem::{JobError, SCENARIOS, settings};
use assembly::Assembly;
use trainyard_hardware_profiles::Service;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{CAMPAIGN_SCHEMA, CampaignDocument, CheckpointUse, Plan, Pricing};
use trainyard_sim::campaign::{Campaign, Hazards, SimulatedRun, best_interval, expected_time, simulate_campaign};
use trainyard_sim::{Machine, Options};
use trainyard_units::{Seconds, human_duration};

/// The longest expected time of a campaign, as a multiple of the undisturbed time; a longer one is refused.
const PATIENCE: f64 = 100.0;

/// The reason why the campaign of a plan document cannot be simulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CampaignError {
    /// The plan cannot be predicted.
    #[error(transparent)]
    Document(Box<DocumentError>),
    /// The document's job describes a wrong campaign.
    #[error("in `job`: {0}")]
    Job(#[from] JobError),
    /// Interruptions are so frequent that the training hardly makes progress.
    #[error(
        "the training hardly gets on: a machine is lost every {}, and starting again takes {}",
        human_duration(*between), human_duration(*restart)
    )]
    NoProgress {
        /// Mean time between interruptions of any machine.
        between: Seconds,
        /// Time until training resumes.
        restart: Seconds,
    },
}

impl From<DocumentError> for CampaignError {
    fn from(error: DocumentError) -> Self {
        Self::Document(Box::new(error))
    }
}

impl CampaignError {
    /// Returns advice on how to fix the document.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Document(error) => error.hint(),
            Self::Job(error) => error.hint(),
            Self::NoProgress { .. } => Some("use fewer machines, a longer node_mtbf, or on-demand instances".into()),
        }
    }
}

/// Simulates the whole training of a plan document in `runs` random runs drawn with `seed`. `files` are the contents of
/// the files that the plan names for its machines.
///
/// # Errors
///
/// When the document's plan cannot be predicted, what its job says of the campaign is wrong, or interruptions let
/// nothing get done.
pub fn campaign(
    document: &PlanDocument,
    files: MachineFiles,
    runs: u64,
    seed: u64,
) -> Result<CampaignDocument, CampaignError> {
    let plan = Plan::try_from(document.plan.clone()).map_err(DocumentError::Plan)?;
    let machine = machine(document, files.clone())?;
    let (document, _) = resimulate(document, files, Options::default())?;
    let service = document.prediction.price.as_ref().and_then(|price| Service::named(&price.service));
    let settings = settings(&document.job, plan.model(), plan.pricing(), service)?;
    let scenario = settings.scenario;
    let assembly = Assembly { document: &document, plan: &plan, machine: &machine, settings };
    let campaign = assembly.campaign(scenario)?;
    let courses = courses(&campaign, runs, seed)?;
    let mut warnings = assembly.warnings()?;
    let mut scenarios = Vec::new();
    for factor in SCENARIOS.into_iter().filter(|_| plan.pricing() == Pricing::Spot) {
        let other = assembly.campaign(factor)?;
        let Ok(courses) = self::courses(&other, runs, seed) else {
            warnings.push(format!("with {factor} times the published reclaims the training hardly gets on"));
            continue;
        };
        scenarios.push(summary::scenario(factor, &other, &courses));
    }
    Ok(CampaignDocument {
        schema: CAMPAIGN_SCHEMA.into(),
        plan: document.plan.clone(),
        runs,
        seed,
        steps: campaign.steps.mean,
        step_time_s: campaign.step_time.median.0,
        time_s: summary::time(&courses),
        cost_usd: summary::cost(&campaign, &courses),
        time_histogram_s: summary::time_histogram(&courses),
        cost_histogram_usd: summary::cost_histogram(&campaign, &courses),
        goodput: summary::goodput(&campaign, &courses),
        phases: summary::phases(&courses),
        interruptions: summary::interruptions(&courses),
        checkpoint: CheckpointUse {
            bytes: assembly.checkpoint_bytes().0,
            write_s: campaign.checkpoint.write.0,
            interval_s: campaign.checkpoint.interval.0,
            best_interval_s: best_interval(&campaign).0,
        },
        scenarios,
        price: document.prediction.price.clone(),
        assumptions: assembly.assumptions()?,
        warnings,
    })
}

/// Computes the ratio of the mean time of a plan document's campaign to the unchanged one, if machines fail after
/// `mtbf` times as long and spot instances are reclaimed `reclaims` times as often. `document` has the prediction of
/// the plan.
///
/// # Errors
///
/// When what the document's job says of the campaign is wrong.
pub(crate) fn slowdown(
    document: &PlanDocument,
    plan: &Plan,
    machine: &Machine,
    [mtbf, reclaims]: [f64; 2],
) -> Result<f64, CampaignError> {
    let service = document.prediction.price.as_ref().and_then(|price| Service::named(&price.service));
    let settings = settings(&document.job, plan.model(), plan.pricing(), service)?;
    let scenario = settings.scenario;
    let campaign = Assembly { document, plan, machine, settings }.campaign(scenario)?;
    let Hazards { failures_per_hour, reclaims_per_hour, .. } = campaign.hazards;
    let hazards = Hazards {
        failures_per_hour: failures_per_hour / mtbf,
        reclaims_per_hour: reclaims_per_hour * reclaims,
        ..campaign.hazards
    };
    let other = Campaign { hazards, ..campaign.clone() };
    Ok(expected_time(&other).0 / expected_time(&campaign).0)
}

/// Simulates runs of a campaign that makes progress between interruptions.
fn courses(campaign: &Campaign, runs: u64, seed: u64) -> Result<Vec<SimulatedRun>, CampaignError> {
    let progresses = expected_time(campaign).0 <= PATIENCE * expected_time(&undisturbed(campaign)).0;
    let courses = if progresses { simulate_campaign(campaign, runs, seed) } else { None };
    courses.ok_or_else(|| {
        let hazards = campaign.hazards;
        let per_hour = (hazards.reclaims_per_hour + hazards.failures_per_hour) * f64::from(campaign.instances);
        let restart = campaign.restart;
        CampaignError::NoProgress {
            between: Seconds(3600.0 / per_hour),
            restart: restart.machines + restart.software + campaign.download + campaign.checkpoint.read,
        }
    })
}

/// Returns the same campaign without failures and reclaims.
fn undisturbed(campaign: &Campaign) -> Campaign {
    let hazards = Hazards { reclaims_per_hour: 0.0, failures_per_hour: 0.0, ..campaign.hazards };
    Campaign { hazards, ..campaign.clone() }
}
