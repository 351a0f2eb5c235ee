//! What may become of a whole training, as a page.

use crate::format::{Width, bullets, bytes, columns, facts, percent, seconds, table, usd};
use crate::layout::{cluster, laid_out};
use crate::price::each;
use trainyard_plan::{CampaignDocument, CampaignPhases, Interruptions, Quantiles, Scenario};
use trainyard_units::human_count;

/// Formats a campaign document for a reader: time, cost and goodput with their spread, where the time goes, and how
/// often machines are lost.
pub fn campaign(document: &CampaignDocument, width: Width) -> String {
    let plan = &document.plan;
    let mut text = format!("{} on {}, {}\n\n", plan.model.name, cluster(plan), laid_out(plan));
    let runs = format!("{} runs", human_count(document.runs));
    let [_, quantiles @ ..] = QUANTITIES;
    let header: Vec<&str> = std::iter::once(runs.as_str()).chain(quantiles).collect();
    text += &columns(width, &header, quantities(document));
    text.push('\n');
    text += &facts(&headline(document));
    text.push('\n');
    let time = document.time_s.mean;
    text += &table(width, ["where the time goes", ">mean", ">share"], phases(&document.phases, time));
    if !document.scenarios.is_empty() {
        text.push('\n');
        text += &table(width, SCENARIOS, scenarios(document));
    }
    text += &bullets(width, "Assumed", &document.assumptions);
    text += &bullets(width, "Caveats", &document.warnings);
    text
}

/// The columns of [`quantities`].
pub(crate) const QUANTITIES: [&str; 5] = ["", ">5 %", ">median", ">95 %", ">mean"];

/// Returns time, cost and goodput over the simulated runs.
pub(crate) fn quantities(document: &CampaignDocument) -> Vec<[String; 5]> {
    let row = |name: &str, quantiles: &Quantiles, show: fn(f64) -> String| {
        let Quantiles { p5, p50, p95, mean } = *quantiles;
        [name.into(), show(p5), show(p50), show(p95), show(mean)]
    };
    let mut rows = vec![row("time", &document.time_s, seconds)];
    rows.extend(document.cost_usd.as_ref().map(|cost| row("cost", cost, usd)));
    rows.push(row("goodput of held time", &document.goodput, percent));
    rows
}

fn headline(document: &CampaignDocument) -> Vec<(&'static str, String)> {
    let checkpoint = document.checkpoint;
    let mut rows = vec![
        ("steps", format!("{} of {}", human_count(document.steps), seconds(document.step_time_s))),
        (
            "checkpoint",
            format!(
                "every {} (best: {}), {} in {}",
                seconds(checkpoint.interval_s),
                seconds(checkpoint.best_interval_s),
                bytes(checkpoint.bytes),
                seconds(checkpoint.write_s)
            ),
        ),
        ("interruptions", interruptions(document.interruptions)),
    ];
    rows.extend(within(document).map(|goals| ("goals", goals)));
    rows.extend(document.price.as_ref().map(|price| ("price", each(price, document.plan.pricing, ""))));
    rows
}

/// Formats how many of the runs meet what the job asks for.
fn within(document: &CampaignDocument) -> Option<String> {
    let goals = [(document.within_deadline, "the deadline"), (document.within_budget, "the budget")];
    let told = goals.into_iter().filter_map(|(share, goal)| Some(format!("{} within {goal}", percent(share?))));
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join(", "))
}

fn interruptions(interruptions: Interruptions) -> String {
    format!("{} reclaimed, {} failed", count(interruptions.reclaims), count(interruptions.failures))
}

/// Formats a mean count: `0.0021`, `3.4`.
fn count(mean: f64) -> String {
    if mean == 0.0 || mean >= 0.095 { format!("{mean:.1}") } else { format!("{mean:.4}") }
}

/// Returns the parts of a campaign's time, each with its share of `total` seconds.
pub(crate) fn phases(phases: &CampaignPhases, total: f64) -> Vec<[String; 3]> {
    let rows = [
        ("waiting for machines", phases.waiting_s),
        ("start-up", phases.start_up_s),
        ("data download", phases.download_s),
        ("training", phases.training_s),
        ("checkpoints", phases.checkpoints_s),
        ("evaluation", phases.evaluation_s),
        ("lost and done again", phases.lost_s),
    ];
    let shown = rows.into_iter().filter(|(_, time)| *time > 0.0);
    shown.map(|(name, time)| [name.into(), seconds(time), percent(time / total)]).collect()
}

/// The columns of [`scenarios`].
pub(crate) const SCENARIOS: [&str; 5] =
    ["reclaims", ">time (5 to 95 %)", ">USD (5 to 95 %)", ">reclaimed", ">checkpoint"];

/// Returns the results of the same campaign if spot instances are reclaimed more often.
pub(crate) fn scenarios(document: &CampaignDocument) -> Vec<[String; 5]> {
    let range = |quantiles: &Quantiles, show: &dyn Fn(f64) -> String| {
        format!("{} ({} to {})", show(quantiles.p50), show(quantiles.p5), show(quantiles.p95))
    };
    let amount = |dollars| usd(dollars).trim_end_matches(" USD").to_owned();
    let row = |scenario: &Scenario| {
        [
            format!("× {}", scenario.factor),
            range(&scenario.time_s, &seconds),
            scenario.cost_usd.as_ref().map_or_else(|| "–".into(), |cost| range(cost, &amount)),
            count(scenario.interruptions.reclaims),
            seconds(scenario.checkpoint_interval_s),
        ]
    };
    document.scenarios.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_events_keep_their_digits() {
        assert_eq!(count(0.0), "0.0");
        assert_eq!(count(0.00213), "0.0021");
        assert_eq!(count(3.44), "3.4");
    }
}
