//! Many runs in a few numbers.

use trainyard_plan::{CampaignPhases, GoalSpec, Histogram, Interruptions, Quantiles, Scenario};
use trainyard_sim::campaign::{Campaign, RunPhases, SimulatedRun};
use trainyard_units::Seconds;

pub(super) fn time(runs: &[SimulatedRun]) -> Quantiles {
    quantiles(runs.iter().map(|run| run.time().0))
}

/// Computes the cost; `None` on machines without a price.
pub(super) fn cost(campaign: &Campaign, runs: &[SimulatedRun]) -> Option<Quantiles> {
    campaign.price.map(|_| quantiles(runs.iter().map(|run| run.cost.0)))
}

/// Returns the share of the runs that end within the deadline; `None` without one.
pub(super) fn within_deadline(goal: &GoalSpec, runs: &[SimulatedRun]) -> Option<f64> {
    let deadline = goal.deadline()?;
    Some(share(runs, |run| run.time() <= deadline))
}

/// Returns the share of the runs that cost no more than the budget; `None` without one, and on machines without a price.
pub(super) fn within_budget(goal: &GoalSpec, campaign: &Campaign, runs: &[SimulatedRun]) -> Option<f64> {
    let budget = goal.budget.filter(|_| campaign.price.is_some())?;
    Some(share(runs, |run| run.cost.0 <= budget))
}

fn share(runs: &[SimulatedRun], counts: impl Fn(&SimulatedRun) -> bool) -> f64 {
    runs.iter().filter(|run| counts(run)).count() as f64 / runs.len() as f64
}

/// Number of bins of a histogram.
const PARTS: usize = 40;

/// Computes the histogram of the times of the runs; `None` if all take equally long.
pub(super) fn time_histogram(runs: &[SimulatedRun]) -> Option<Histogram> {
    histogram(runs.iter().map(|run| run.time().0).collect())
}

/// Computes the histogram of costs; `None` on owned machines.
pub(super) fn cost_histogram(campaign: &Campaign, runs: &[SimulatedRun]) -> Option<Histogram> {
    campaign.price.and_then(|_| histogram(runs.iter().map(|run| run.cost.0).collect()))
}

fn histogram(mut values: Vec<f64>) -> Option<Histogram> {
    values.sort_unstable_by(f64::total_cmp);
    let (from, to) = (*values.first()?, values[(values.len() * 99).div_ceil(100).max(1) - 1]);
    if to <= from {
        return None;
    }
    let mut courses = vec![0; PARTS];
    let inside = values.partition_point(|value| *value <= to);
    for value in &values[..inside] {
        let part = (value - from) / (to - from) * PARTS as f64;
        courses[(part as usize).min(PARTS - 1)] += 1;
    }
    Some(Histogram { from, to, courses, beyond: (values.len() - inside) as u64 })
}

/// Computes the goodput: training time over the time for which machines are held.
pub(super) fn goodput(campaign: &Campaign, runs: &[SimulatedRun]) -> Quantiles {
    let share = |run: &SimulatedRun| run.phases.training.0 * f64::from(campaign.instances) / run.machine_time.0;
    quantiles(runs.iter().map(share))
}

pub(super) fn phases(runs: &[SimulatedRun]) -> CampaignPhases {
    let mean =
        |phase: fn(&RunPhases) -> Seconds| runs.iter().map(|run| phase(&run.phases).0).sum::<f64>() / runs.len() as f64;
    CampaignPhases {
        waiting_s: mean(|phases| phases.waiting),
        start_up_s: mean(|phases| phases.start_up),
        download_s: mean(|phases| phases.download),
        training_s: mean(|phases| phases.training),
        checkpoints_s: mean(|phases| phases.checkpoints),
        evaluation_s: mean(|phases| phases.evaluation),
        lost_s: mean(|phases| phases.lost),
    }
}

pub(super) fn interruptions(runs: &[SimulatedRun]) -> Interruptions {
    let mean = |count: fn(&SimulatedRun) -> u64| runs.iter().map(count).sum::<u64>() as f64 / runs.len() as f64;
    Interruptions { reclaims: mean(|run| run.reclaims), failures: mean(|run| run.failures) }
}

pub(super) fn scenario(factor: u32, campaign: &Campaign, runs: &[SimulatedRun]) -> Scenario {
    Scenario {
        factor,
        time_s: time(runs),
        cost_usd: cost(campaign, runs),
        goodput: goodput(campaign, runs),
        interruptions: interruptions(runs),
        checkpoint_interval_s: campaign.checkpoint.interval.0,
    }
}

/// Computes the mean, and the smallest values that no less than 5, 50 and 95 % of all stay below or at.
fn quantiles(values: impl Iterator<Item = f64>) -> Quantiles {
    let mut values: Vec<f64> = values.collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
    Quantiles { p5: at(5), p50: at(50), p95: at(95), mean }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_holds_every_course() {
        let found = histogram((0..1000).map(f64::from).collect()).expect("values that differ");
        assert_eq!((found.from, found.to, found.beyond), (0.0, 989.0, 10));
        assert_eq!(found.courses.iter().sum::<u64>() + found.beyond, 1000);
        assert!(found.courses.iter().all(|courses| (24..=26).contains(courses)), "{found:?}");
        assert_eq!(histogram(vec![3.0; 10]), None);
        assert_eq!(histogram(Vec::new()), None);
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let of = |count: u32| quantiles((1..=count).rev().map(f64::from));
        assert_eq!(of(100), Quantiles { p5: 5.0, p50: 50.0, p95: 95.0, mean: 50.5 });
        assert_eq!(of(1), Quantiles { p5: 1.0, p50: 1.0, p95: 1.0, mean: 1.0 });
        assert_eq!(of(3), Quantiles { p5: 1.0, p50: 2.0, p95: 3.0, mean: 2.0 });
    }
}
