//! From a plan to what may become of its whole training.

mod assembly;
mod summary;

pub(crate) use assembly::extrapolated;

use crate::predict::{MachineFiles, machine, plan_of, resimulate};
use crate::problem::{SCENARIOS, Settings, in_job, settings_of};
use assembly::Assembly;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{CAMPAIGN_SCHEMA, CampaignDocument, CheckpointUse, Plan, Pricing};
use trainyard_sim::campaign::{Campaign, Hazards, SimulatedRun, best_interval, expected_time, simulate_campaign};
use trainyard_sim::{Machine, Options};
use trainyard_units::{Invalid, Seconds, human_duration};

/// The longest expected time of a campaign, as a multiple of the undisturbed time; a longer one is refused.
const PATIENCE: f64 = 100.0;

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
) -> Result<CampaignDocument, Invalid> {
    let plan = plan_of(document)?;
    let machine = machine(document, files.clone())?;
    let (document, _) = resimulate(document, files, Options::default())?;
    let settings = settings_in(&document, &plan)?;
    let assembly = Assembly { document: &document, plan: &plan, machine: &machine, settings };
    let campaign = assembly.campaign(assembly.settings.scenario).map_err(in_job)?;
    let simulated = simulated_runs(&campaign, runs, seed)?;
    let mut warnings = assembly.warnings().map_err(in_job)?;
    let mut scenarios = Vec::new();
    for factor in SCENARIOS.into_iter().filter(|_| plan.pricing() == Pricing::Spot) {
        let other = assembly.campaign(factor).map_err(in_job)?;
        let Ok(simulated) = simulated_runs(&other, runs, seed) else {
            warnings.push(format!("with {factor} times the published reclaims the training makes hardly any progress"));
            continue;
        };
        scenarios.push(summary::scenario(factor, &other, &simulated));
    }
    Ok(CampaignDocument {
        schema: CAMPAIGN_SCHEMA.into(),
        plan: document.plan.clone(),
        runs,
        seed,
        steps: campaign.steps.mean,
        step_time_s: campaign.step_time.median.0,
        time_s: summary::time(&simulated),
        cost_usd: summary::cost(&campaign, &simulated),
        time_histogram_s: summary::time_histogram(&simulated),
        cost_histogram_usd: summary::cost_histogram(&campaign, &simulated),
        goodput: summary::goodput(&campaign, &simulated),
        within_deadline: summary::within_deadline(&document.job.goal, &simulated),
        within_budget: summary::within_budget(&document.job.goal, &campaign, &simulated),
        phases: summary::phases(&simulated),
        interruptions: summary::interruptions(&simulated),
        checkpoint: CheckpointUse {
            bytes: assembly.checkpoint_bytes().0,
            write_s: campaign.checkpoint.write.0,
            interval_s: campaign.checkpoint.interval.0,
            best_interval_s: best_interval(&campaign).0,
        },
        scenarios,
        price: document.prediction.price.clone(),
        assumptions: assembly.assumptions().map_err(in_job)?,
        warnings,
    })
}

/// Computes the ratio of the mean time of a plan document's campaign to the unchanged one, if spot instances are reclaimed
/// `reclaims` times as often. `document` has the prediction of the plan.
///
/// # Errors
///
/// When what the document's job says of the campaign is wrong.
pub(crate) fn slowdown(document: &PlanDocument, plan: &Plan, machine: &Machine, reclaims: f64) -> Result<f64, Invalid> {
    let settings = settings_in(document, plan)?;
    let scenario = settings.scenario;
    let campaign = Assembly { document, plan, machine, settings }.campaign(scenario)?;
    let reclaims_per_hour = campaign.hazards.reclaims_per_hour * reclaims;
    let hazards = Hazards { reclaims_per_hour, ..campaign.hazards };
    let other = Campaign { hazards, ..campaign.clone() };
    Ok(expected_time(&other).0 / expected_time(&campaign).0)
}

/// Reads what the job of a plan document says of its campaign.
fn settings_in(document: &PlanDocument, plan: &Plan) -> Result<Settings, Invalid> {
    settings_of(&document.job, plan, document.prediction.price.as_ref()).map_err(in_job)
}

/// Simulates runs of a campaign that makes progress between interruptions.
fn simulated_runs(campaign: &Campaign, runs: u64, seed: u64) -> Result<Vec<SimulatedRun>, Invalid> {
    let progresses = expected_time(campaign).0 <= PATIENCE * expected_time(&undisturbed(campaign)).0;
    let simulated = if progresses { simulate_campaign(campaign, runs, seed) } else { None };
    simulated.ok_or_else(|| {
        let hazards = campaign.hazards;
        let per_hour = (hazards.reclaims_per_hour + hazards.failures_per_hour) * f64::from(campaign.instances);
        let restart = campaign.restart.total() + campaign.download + campaign.checkpoint.read;
        let sentence = format!(
            "the training makes hardly any progress: a machine is lost every {}, and starting again takes {}",
            human_duration(Seconds(3600.0 / per_hour)),
            human_duration(restart)
        );
        let terms = if hazards.reclaims_per_hour > 0.0 { ", or on-demand instances" } else { "" };
        let hint = format!("use fewer machines, a shorter checkpoint_interval, or a longer node_mtbf{terms}");
        Invalid::inside("job.campaign", sentence).with_hint(hint)
    })
}

/// Returns the same campaign without failures and reclaims.
fn undisturbed(campaign: &Campaign) -> Campaign {
    let hazards = Hazards { reclaims_per_hour: 0.0, failures_per_hour: 0.0, ..campaign.hazards };
    Campaign { hazards, ..campaign.clone() }
}
