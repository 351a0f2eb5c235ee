//! The critical path of a step as a waterfall: each part begins where the one before it ends, and together they are the
//! step. Below it how long the step would be if communication took no time.

use crate::chart::{
    Breadth, Colour, HEAD, Legend, Letters, MARGIN, Picture, Rows, Sample, Side, customary, measure, plain, time_unit,
    title,
};
use crate::format::{percent, seconds};
use crate::layout::exposed;
use trainyard_plan::{ExplainedPlan, PathKind};

/// The class of a part of the path, which sets its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Computing,
    Launching,
    Communicating,
    Waiting,
}

const CLASSES: [(Class, &str, Colour); 4] = [
    (Class::Computing, "computing", Colour::Blue),
    (Class::Launching, "launching kernels", Colour::Amber),
    (Class::Communicating, "communicating", Colour::Orange),
    (Class::Waiting, "waiting for other stages or samples", Colour::Purple),
];

impl Class {
    fn of(kind: PathKind) -> Self {
        match kind {
            PathKind::Forward | PathKind::Backward | PathKind::Recompute | PathKind::Update => Self::Computing,
            PathKind::Launches => Self::Launching,
            PathKind::LayerCollectives
            | PathKind::OverlapSlowdown
            | PathKind::Transfers
            | PathKind::GradientReduction
            | PathKind::WeightGathering
            | PathKind::HostCopies => Self::Communicating,
            PathKind::FillAndDrain | PathKind::InputWait => Self::Waiting,
        }
    }

    fn colour(self) -> Colour {
        CLASSES.iter().find(|(class, ..)| *class == self).map_or(Colour::Ink, |(.., colour)| *colour)
    }
}

/// Draws the critical path of a plan's step.
///
/// # Errors
///
/// Returns a sentence if the step took no time.
pub fn path_plot(plan: &ExplainedPlan, breadth: Breadth) -> Result<Picture, String> {
    let name = format!("{}: critical path of a step", plan.plan.model.name);
    waterfall(plan, &name, plan.prediction.step_time_s, breadth)
}

/// Draws the critical paths of two plans, one above the other on one axis.
///
/// # Errors
///
/// Returns a sentence if a step took no time.
pub fn paths_plot(own: &ExplainedPlan, other: &ExplainedPlan, breadth: Breadth) -> Result<Picture, String> {
    let longest = own.prediction.step_time_s.max(other.prediction.step_time_s);
    let drawn = |letter: &str, plan: &ExplainedPlan| {
        waterfall(plan, &format!("{letter}: {}, critical path of a step", plan.file), longest, breadth)
    };
    Ok(drawn("A", own)?.above(drawn("B", other)?))
}

fn waterfall(plan: &ExplainedPlan, name: &str, longest: f64, breadth: Breadth) -> Result<Picture, String> {
    let step = plan.prediction.step_time_s;
    if !(step.is_finite() && step > 0.0) {
        return Err("there is no step with a finite time to draw".into());
    }
    let parts: Vec<_> = plan.critical_path.iter().filter(|part| part.time_s > 0.0).collect();
    let there = |class: Class| parts.iter().any(|part| Class::of(part.kind) == class);
    let legend = CLASSES.iter().filter(|(class, ..)| there(*class));
    let legend = legend.map(|(_, name, colour)| (Sample::Block((*colour).into()), (*name).to_owned()));
    let legend = Legend::of([MARGIN, breadth.width() - MARGIN], legend);
    let told = |time: f64| format!("{}, {}", seconds(time), percent(time / step));
    let mut names: Vec<String> = parts.iter().map(|part| part.label()).collect();
    names.extend(["step", exposed(&plan.plan)].map(String::from));
    let times = parts.iter().map(|part| part.time_s).chain([step, plan.prediction.exposed_communication_s]);
    let after = times.map(|time| measure(&told(time), Letters::PLAIN)).max().unwrap_or(0) + 10;
    let rows = Rows::of(breadth, HEAD + legend.height() + 10, &names, after);
    let mut picture = Picture::new(name, (breadth.width(), rows.bottom() + 46));
    title(&mut picture, name);
    legend.draw(&mut picture, HEAD);
    let x = |time: f64| rows.left + (time / longest * f64::from(rows.right - rows.left)).round() as i32;
    marks(&mut picture, &rows, longest, x);
    let mut before = 0.0;
    for (row, part) in parts.iter().enumerate() {
        let ends = [x(before), x(before + part.time_s).max(x(before) + 1)];
        rows.name(&mut picture, row, &names[row], Letters::PLAIN);
        picture.bar(rows.part(row, ends), Class::of(part.kind).colour());
        picture.words(told(part.time_s), (ends[1] + 6, rows.middle(row)), Side::Left, Letters::PLAIN);
        before += part.time_s;
        // Connects to the part that begins here.
        picture.line((x(before), rows.bar(row)[1]), (x(before), rows.bar(row + 1)[0]), Colour::Muted);
    }
    let strong = Letters { strong: true, ..Letters::PLAIN };
    let row = parts.len();
    rows.name(&mut picture, row, "step", strong);
    picture.bar(rows.part(row, [rows.left, x(step)]), Colour::Muted);
    picture.words(seconds(step), (x(step) + 6, rows.middle(row)), Side::Left, strong);
    let saved = plan.prediction.exposed_communication_s;
    rows.name(&mut picture, row + 1, &names[row + 1], Letters::PLAIN);
    let ends = [x(step - saved), x(step)];
    picture.bar(rows.part(row + 1, [rows.left, ends[0]]), Colour::Grid);
    picture.bar(rows.part(row + 1, ends), Colour::Orange);
    picture.words(told(saved), (ends[1] + 6, rows.middle(row + 1)), Side::Left, Letters::PLAIN);
    Ok(picture)
}

fn marks(picture: &mut Picture, rows: &Rows, longest: f64, x: impl Fn(f64) -> i32) {
    let (unit, name) = time_unit(longest);
    let step = customary(longest / unit / 5.0);
    for value in (0..).map(|mark| f64::from(mark) * step).take_while(|value| value * unit <= longest) {
        let at = x(value * unit);
        picture.line((at, rows.top), (at, rows.bottom() + 4), Colour::Grid);
        picture.words(plain(value), (at, rows.bottom() + 14), Side::Middle, Letters::MUTED);
    }
    let text = format!("{name} of a step");
    picture.words(text, (i32::midpoint(rows.left, rows.right), rows.bottom() + 32), Side::Middle, Letters::MUTED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::tests::explained;
    use trainyard_plan::PathKind;

    #[test]
    fn every_part_of_the_path_has_its_row_and_its_share() {
        for breadth in [Breadth::Wide, Breadth::Narrow] {
            let picture = path_plot(&explained(), breadth).expect("a step");
            for words in
                ["forward", "gradient reduction between machines", "communicating", "of a step", "60.0 %", "exposed"]
            {
                assert!(picture.text().contains(words), "{words}: {}", picture.text());
            }
            assert!(!picture.text().contains("launching"), "nothing is launched: {}", picture.text());
            assert!(picture.outside().is_empty(), "{:?}", picture.outside());
        }
    }

    #[test]
    fn two_plans_share_an_axis() {
        let mut slower = explained();
        slower.prediction.step_time_s *= 2.0;
        slower.critical_path[0].time_s += explained().prediction.step_time_s;
        let picture = paths_plot(&explained(), &slower, Breadth::Wide).expect("two steps");
        assert!(picture.text().contains("A: plan.json") && picture.text().contains("B: plan.json"));
        assert!(picture.outside().is_empty(), "{:?}", picture.outside());
    }

    #[test]
    fn every_kind_of_path_has_a_colour_that_is_explained() {
        for kind in PathKind::ALL {
            assert_ne!(Class::of(*kind).colour(), Colour::Ink, "{kind}");
        }
        let mut nothing = explained();
        nothing.prediction.step_time_s = 0.0;
        assert!(path_plot(&nothing, Breadth::Wide).is_err());
    }
}
