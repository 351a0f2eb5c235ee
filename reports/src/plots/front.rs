//! Time against cost: plans that no other beats in both, with the recommended one and the limits of the goal.

use crate::chart::{
    Axis, Breadth, Colour, Label, Line, Panel, Picture, Rule, Sample, Scale, Stroke, figure, plain, range, time_unit,
};
use crate::layout::cluster;
use trainyard_plan::Pricing;
use trainyard_plan::document::{Alternative, PlanDocument};

/// Index of the series after those of the terms, with other colours and other shapes.
const OTHERS: usize = 11;
const RECOMMENDED: usize = 22;
/// Factor by which the axes reach beyond the points.
const ROOM: f64 = 1.25;

/// Draws the front of time and cost of a plan document: a series for each kind of terms, the recommended plan, the
/// runners-up, deadline and budget.
///
/// # Errors
///
/// Returns a sentence if there is no plan with a price.
pub fn front_plot(document: &PlanDocument, breadth: Breadth) -> Result<Picture, String> {
    let point = |other: &Alternative| Some((other.time_s, other.cost_usd?));
    let own = &document.prediction;
    let recommended = own.cost_usd.map(|cost| (own.elapsed_s(), cost));
    let mut terms: Vec<(Pricing, Vec<&Alternative>)> = Vec::new();
    for other in document.pareto.iter().filter(|other| other.cost_usd.is_some()) {
        match terms.iter_mut().find(|(pricing, _)| *pricing == other.plan.pricing) {
            Some((_, all)) => all.push(other),
            None => terms.push((other.plan.pricing, vec![other])),
        }
    }
    let runners: Vec<(f64, f64)> = document.alternatives.iter().filter_map(point).collect();
    let all: Vec<(f64, f64)> =
        document.pareto.iter().filter_map(point).chain(runners.iter().copied()).chain(recommended).collect();
    if all.is_empty() {
        return Err("there is no plan with a price to draw".into());
    }
    let goal = &document.job.goal;
    let deadline = goal.deadline().map(|deadline| deadline.0);
    let times = range(all.iter().map(|(time, _)| *time).chain(deadline));
    let costs = range(all.iter().map(|(_, cost)| *cost).chain(goal.budget));
    let (unit, unit_name) = time_unit(times.1);
    let scale = |(low, high): (f64, f64)| Scale::Log(low / ROOM, high * ROOM);
    let x = Axis::of(&format!("{unit_name} for the training"), scale((times.0 / unit, times.1 / unit)), plain);
    let y = Axis::of("USD for the training", scale(costs), plain);
    let mut panel = Panel { height: 340, ..Panel::new("Cost against time", x, y) };
    let scaled = |(time, cost): (f64, f64)| (time / unit, cost);
    let mut legend = Vec::new();
    for (series, (pricing, plans)) in terms.iter().enumerate() {
        let mut points: Vec<(f64, f64)> = plans.iter().filter_map(|other| point(other)).map(scaled).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        panel.lines.push(Line::new(Stroke::Series(series), points));
        let is_rented = plans.iter().any(|other| other.price.as_ref().is_none_or(|price| price.offered().is_some()));
        let name = if is_rented { format!("front, {pricing}") } else { "front".into() };
        legend.push((Sample::Series(series), name));
    }
    if !runners.is_empty() {
        panel.lines.push(Line::new(Stroke::Marks(OTHERS), runners.into_iter().map(scaled).collect()));
        legend.push((Sample::Mark(OTHERS), "runner-up".into()));
    }
    if let Some(recommended) = recommended {
        panel.lines.push(Line::new(Stroke::Marks(RECOMMENDED), vec![scaled(recommended)]));
        legend.push((Sample::Mark(RECOMMENDED), "recommended".into()));
        panel.labels.push(Label { at: scaled(recommended), text: cluster(&document.plan), strong: true });
    }
    let ends = terms.iter().flat_map(|(_, plans)| plans.first().into_iter().chain(plans.last()));
    let ends = ends.filter(|other| recommended.is_none() || other.plan != document.plan);
    let labels =
        ends.filter_map(|other| Some(Label { at: scaled(point(other)?), text: cluster(&other.plan), strong: false }));
    panel.labels.extend(labels);
    let rule = |at: f64, upright: bool, text: &str| Rule { at, upright, text: text.into(), colour: Colour::Orange };
    panel.rules.extend(deadline.map(|deadline| rule(deadline / unit, true, "deadline")));
    panel.rules.extend(goal.budget.map(|budget| rule(budget, false, "budget")));
    Ok(figure(breadth, &format!("{}: what time costs", document.plan.model.name), legend, &[panel]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::tests::plan_document;

    #[test]
    fn the_front_is_drawn_with_the_recommended_plan_and_the_limits() {
        for breadth in [Breadth::Wide, Breadth::Narrow] {
            let picture = front_plot(&plan_document(), breadth).expect("plans with prices");
            for words in
                ["USD for the training", "for the training", "front, on-demand", "recommended", "deadline", "budget"]
            {
                assert!(picture.text().contains(words), "{words}: {}", picture.text());
            }
            assert!(picture.outside().is_empty(), "{:?}", picture.outside());
        }
    }

    #[test]
    fn the_recommended_plan_is_named_once() {
        let mut document = plan_document();
        let end = document.pareto[0].clone();
        let named = |document: &PlanDocument| {
            let picture = front_plot(document, Breadth::Wide).expect("plans with prices");
            picture.text().matches(&cluster(&end.plan)).count()
        };
        assert_ne!(cluster(&document.plan), cluster(&end.plan));
        let apart = named(&document);
        document.plan = end.plan.clone();
        assert_eq!(named(&document), apart, "as the recommended one, and not as an end besides");
    }

    #[test]
    fn without_prices_there_is_nothing_to_draw() {
        let mut document = plan_document();
        document.prediction.cost_usd = None;
        document.pareto.clear();
        document.alternatives.clear();
        assert!(front_plot(&document, Breadth::Wide).is_err());
    }
}
