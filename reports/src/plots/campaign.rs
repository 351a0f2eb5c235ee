//! What may become of a training: how long its runs take and what they cost.

use crate::chart::{Axis, Breadth, Colour, Panel, Picture, Rule, Scale, figure, plain, time_unit};
use crate::format::{seconds, usd};
use crate::layout::cluster;
use trainyard_plan::{CampaignDocument, Histogram, Quantiles};
use trainyard_units::human_count;

/// Draws histograms of time and cost over the runs of a campaign, with the median and the ends of nine runs in
/// ten.
///
/// # Errors
///
/// Returns a sentence if all runs are alike.
pub fn campaign_plot(document: &CampaignDocument, breadth: Breadth) -> Result<Picture, String> {
    let mut panels = Vec::new();
    if let Some(histogram) = &document.time_histogram_s {
        let (unit, name) = time_unit(histogram.to);
        panels.push(panel(
            "Time",
            &format!("{name} from the start to the last checkpoint"),
            histogram,
            unit,
            &document.time_s,
            seconds,
        ));
    }
    if let (Some(histogram), Some(quantiles)) = (&document.cost_histogram_usd, &document.cost_usd) {
        panels.push(panel("Cost", "USD of the whole training", histogram, 1.0, quantiles, usd));
    }
    if panels.is_empty() {
        return Err("all runs of this training are alike".into());
    }
    let name =
        format!("{} on {}: {} runs", document.plan.model.name, cluster(&document.plan), human_count(document.runs));
    Ok(figure(breadth, &name, Vec::new(), &panels))
}

fn panel(
    name: &str,
    what: &str,
    histogram: &Histogram,
    unit: f64,
    quantiles: &Quantiles,
    told: fn(f64) -> String,
) -> Panel {
    let (from, to) = (histogram.from / unit, histogram.to / unit);
    let most = histogram.courses.iter().copied().max().unwrap_or(0);
    let room = 0.03 * (to - from);
    let x = Axis::of(what, Scale::Linear(from - room, to + room), plain);
    // Above the bars is room for the words on the quantiles.
    let y = Axis::of("runs", Scale::Linear(0.0, most as f64 * 1.35), plain);
    let width = (to - from) / histogram.courses.len().max(1) as f64;
    let mut panel = Panel { height: 190, ..Panel::new(name, x, y) };
    for (part, courses) in histogram.courses.iter().enumerate() {
        let left = from + part as f64 * width;
        // A tail of single runs stays to be seen.
        if *courses > 0 {
            panel.bars.push(([left, left + width], *courses as f64, Colour::Blue.into()));
        }
    }
    let rule = |at: f64, text: String, colour| Rule { at: at / unit, upright: true, text, colour };
    panel.rules = vec![
        rule(quantiles.p5, format!("5 %: {}", told(quantiles.p5)), Colour::Muted),
        rule(quantiles.p50, format!("median: {}", told(quantiles.p50)), Colour::Orange),
        rule(quantiles.p95, format!("95 %: {}", told(quantiles.p95)), Colour::Muted),
    ];
    panel
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::tests::campaign_document;

    #[test]
    fn both_histograms_are_drawn_with_their_quantiles() {
        for breadth in [Breadth::Wide, Breadth::Narrow] {
            let picture = campaign_plot(&campaign_document(), breadth).expect("runs that differ");
            for words in ["Time", "Cost", "runs", "median: ", "95 %: ", "USD of the whole training", "hours from"] {
                assert!(picture.text().contains(words), "{words}: {}", picture.text());
            }
            assert!(picture.outside().is_empty(), "{breadth:?} {:?}", picture.outside());
        }
        let alike = CampaignDocument { time_histogram_s: None, cost_histogram_usd: None, ..campaign_document() };
        assert!(campaign_plot(&alike, Breadth::Wide).is_err());
    }
}
