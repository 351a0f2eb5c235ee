//! What is said of spot instances that are reclaimed: how often, and what it would be like if it were more often.

use super::terms::Terms;
use crate::amount::{expected_count, usd};
use crate::cost::{Rent, Rented, Work};
use crate::problem::SCENARIOS;
use trainyard_plan::document::Prediction;
use trainyard_plan::{CampaignSpec, JobSpec, Plan, Pricing};
use trainyard_sim::Machine;
use trainyard_units::{Seconds, human_duration};

/// The ratio of the whole time to that with published reclaims below which one scenario, the worst, is enough to know.
const NOTICED: f64 = 1.05;

/// Warns of reclaims of spot instances; `None` on other terms.
pub(crate) fn spot(terms: &Terms<'_>) -> Option<String> {
    let Terms { job, prediction, plan, machine, instance, .. } = terms;
    if plan.pricing() != Pricing::Spot {
        return None;
    }
    let rented = Rented::at(prediction.price.as_ref()?)?;
    let Some(interruptions) = prediction.interruptions else {
        return Some(format!(
            "how often spot instances {} are reclaimed in {} is not known: interruptions are not in time and cost; \
             campaign.monthly_reclaims adds them",
            instance.name, rented.region
        ));
    };
    let published = job.campaign.as_ref().is_none_or(|campaign| campaign.monthly_reclaims.is_none());
    let band = rented.band(&instance.name).filter(|_| published);
    let is_published = band.is_some();
    let base = if is_published { "published" } else { "the job says" };
    let whose = band.map_or_else(
        || "the job says".to_owned(),
        |(band, source)| format!("in the published band of {} of the capacity a month ({source})", band.name()),
    );
    let own = job.campaign.as_ref().and_then(|campaign| campaign.spot_scenario).unwrap_or(1);
    let scenarios = SCENARIOS.into_iter().filter(|scenario| *scenario != own);
    let others: Vec<MoreOften> = scenarios.filter_map(|own| more_often(job, prediction, plan, machine, own)).collect();
    let little = |most: &&MoreOften| most.scenario > own && most.elapsed.0 < NOTICED * prediction.elapsed_s();
    let most = others.last().filter(little);
    let others = most.map_or_else(
        || others.iter().map(|own| own.told(base)).collect::<Vec<_>>().join(", "),
        |most| format!("even {}", most.told(base)),
    );
    let often = match own {
        1 if is_published => String::new(),
        1 => "as often as ".into(),
        times => format!("{times} times as often as "),
    };
    let least = if own == 1 && is_published { ", the least that one training must reckon with" } else { "" };
    Some(format!(
        "{} interruptions are expected, and are in time and cost, if spot capacity is reclaimed {often}{whose}{least}; {others}",
        expected_count(interruptions.expected),
    ))
}

/// A training whose machines are reclaimed so many times as often as published.
struct MoreOften {
    scenario: u32,
    elapsed: Seconds,
    cost_usd: f64,
}

impl MoreOften {
    fn told(&self, whose: &str) -> String {
        let often =
            if self.scenario == 1 { "as often as".into() } else { format!("{} times as often as", self.scenario) };
        let (time, cost) = (human_duration(self.elapsed), usd(self.cost_usd));
        format!("reclaims {often} {whose} would make it {time} and {cost}")
    }
}

/// Computes the training if machines were reclaimed `scenario` times as often as published.
fn more_often(
    job: &JobSpec,
    prediction: &Prediction,
    plan: &Plan,
    machine: &Machine,
    scenario: u32,
) -> Option<MoreOften> {
    let campaign = job.campaign.clone().unwrap_or_default();
    let campaign = Some(CampaignSpec { spot_scenario: Some(scenario), ..campaign });
    let job = JobSpec { campaign, ..job.clone() };
    let price = prediction.price.clone()?;
    let rent = Rent::new(&job, plan, machine, Some(price)).ok()??;
    let spent = rent.training_cost(prediction.steps, Work::of(prediction));
    let cost_usd = rent.cost(&spent, plan.input().map(|input| input.storage))?.total();
    Some(MoreOften { scenario, elapsed: spent.elapsed(), cost_usd })
}
