//! Where a step goes, predicted beside measured, as an SVG.

use crate::chart::{Area, Drawn, SMALL, TEXT};
use crate::format::{deviation, seconds};
use crate::palette::{BLUE, INK, ORANGE};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use trainyard_plan::document::ComparisonDocument;

const SIZE: (i32, i32) = (860, 460);
const LEFT: i32 = 84;
const RIGHT: i32 = 24;
const TOP: i32 = 92;
const BOTTOM: i32 = 56;
/// Part of a group's width that its two bars take.
const BARS: f64 = 0.62;
/// Room above the tallest bar, for its words.
const ROOM: f64 = 1.15;
/// Lines across, about.
const LINES: f64 = 5.0;

/// A pair of bars.
struct Pair {
    name: &'static str,
    predicted: Option<f64>,
    measured: f64,
    error: Option<f64>,
}

/// Predicted and measured seconds of a step and of each of its phases, as bars side by side, with the error above each
/// pair, as SVG.
///
/// # Errors
///
/// A sentence, if there is nothing to draw: the step took no time.
pub fn phases(document: &ComparisonDocument) -> Result<String, String> {
    let pairs = pairs(document);
    let times = pairs.iter().flat_map(|pair| [Some(pair.measured), pair.predicted]).flatten();
    let longest = times.fold(0.0, f64::max);
    if !(longest.is_finite() && longest > 0.0) {
        return Err("there is no step with a finite time to draw".into());
    }
    let mut svg = String::new();
    {
        let root =
            SVGBackend::with_string(&mut svg, (SIZE.0.cast_unsigned(), SIZE.1.cast_unsigned())).into_drawing_area();
        let draw = || -> Drawn {
            root.fill(&WHITE)?;
            let place = Place { high: longest * ROOM, groups: pairs.len() };
            head(&root, document)?;
            grid(&root, place)?;
            for (index, pair) in pairs.iter().enumerate() {
                bars(&root, place, index, pair)?;
            }
            root.present()?;
            Ok(())
        };
        draw().map_err(|error| error.to_string())?;
    }
    Ok(svg)
}

fn pairs(document: &ComparisonDocument) -> Vec<Pair> {
    let (predicted, measured) = (document.predicted.as_ref(), &document.measured);
    let errors = document.error.as_ref();
    let step = Pair {
        name: "step",
        predicted: predicted.map(|figures| figures.step_time_s),
        measured: measured.step_time_s,
        error: errors.map(|errors| errors.step_time),
    };
    let phases = measured.phases.named().into_iter().enumerate().map(|(index, (name, measured))| Pair {
        name,
        predicted: predicted.map(|figures| figures.phases.named()[index].1),
        measured,
        error: errors.and_then(|errors| errors.phases.get(name).copied()),
    });
    let took_time = |pair: &Pair| pair.measured > 0.0 || pair.predicted.is_some_and(|time| time > 0.0);
    std::iter::once(step).chain(phases.filter(took_time)).collect()
}

/// From values to pixels.
#[derive(Clone, Copy)]
struct Place {
    high: f64,
    groups: usize,
}

impl Place {
    fn y(self, value: f64) -> i32 {
        let height = f64::from(SIZE.1 - TOP - BOTTOM);
        SIZE.1 - BOTTOM - (value / self.high * height).round() as i32
    }

    /// The middle of a group, and the width of a bar.
    fn group(self, index: usize) -> (f64, f64) {
        let width = f64::from(SIZE.0 - LEFT - RIGHT) / self.groups as f64;
        (f64::from(LEFT) + (index as f64 + 0.5) * width, width * BARS / 2.0)
    }
}

fn words(size: i32, at: HPos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK).pos(Pos::new(at, VPos::Center))
}

fn head(area: &Area<'_>, document: &ComparisonDocument) -> Drawn {
    let title = format!("{}: where a step goes", document.plan.model.name);
    area.draw(&Text::new(title, (LEFT, 26), words(18, HPos::Left)))?;
    let predicted = document.predicted.is_some();
    let named = [("predicted", BLUE, predicted), ("measured", ORANGE, true)];
    for (place, (name, colour, _)) in named.into_iter().filter(|(.., shown)| *shown).enumerate() {
        let x = LEFT + 110 * i32::try_from(place).unwrap_or(i32::MAX);
        area.draw(&Rectangle::new([(x, 47), (x + 14, 61)], colour.filled()))?;
        area.draw(&Text::new(name, (x + 21, 54), words(TEXT, HPos::Left)))?;
    }
    let below = "under each phase: its measured time";
    area.draw(&Text::new(below, (SIZE.0 - RIGHT, 54), words(SMALL, HPos::Right)))?;
    Ok(())
}

fn grid(area: &Area<'_>, place: Place) -> Drawn {
    let step = crate::chart::customary(place.high / LINES);
    let lines = (0..).map(|line| f64::from(line) * step).take_while(|value| *value <= place.high);
    for value in lines {
        let y = place.y(value);
        let style = if value > 0.0 { INK.mix(0.12).stroke_width(1) } else { INK.stroke_width(1) };
        area.draw(&PathElement::new([(LEFT, y), (SIZE.0 - RIGHT, y)], style))?;
        let label = if value > 0.0 { seconds(value) } else { "0".into() };
        area.draw(&Text::new(label, (LEFT - 8, y), words(SMALL, HPos::Right)))?;
    }
    Ok(())
}

fn bars(area: &Area<'_>, place: Place, index: usize, pair: &Pair) -> Drawn {
    let (middle, width) = place.group(index);
    let x = |offset: f64| (middle + offset).round() as i32;
    let sides = [(pair.predicted, -width, 0.0, BLUE), (Some(pair.measured), 0.0, width, ORANGE)];
    for (value, from, to, colour) in sides {
        let Some(value) = value else { continue };
        let corners = [(x(from) + 1, place.y(value)), (x(to) - 1, place.y(0.0))];
        area.draw(&Rectangle::new(corners, colour.filled()))?;
    }
    let highest = pair.measured.max(pair.predicted.unwrap_or(0.0));
    if let Some(error) = pair.error {
        area.draw(&Text::new(deviation(error), (x(0.0), place.y(highest) - 12), words(SMALL, HPos::Center)))?;
    }
    area.draw(&Text::new(pair.name, (x(0.0), SIZE.1 - BOTTOM + 16), words(TEXT, HPos::Center)))?;
    let measured = seconds(pair.measured);
    area.draw(&Text::new(measured, (x(0.0), SIZE.1 - BOTTOM + 36), words(SMALL, HPos::Center)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::document;

    #[test]
    fn every_phase_that_took_time_has_its_bars_and_words() {
        let compared = document(
            "\"predicted\": PREDICTED, \"error\": {\"step_time\": 0.05, \"samples_per_s\": 0.0, \"phases\": {\"forward\": -0.03}},",
        );
        let svg = phases(&compared).expect("a picture");
        for part in
            ["predicted", "measured", "step", "forward", "backward", "communication", "wait", "+5.0 %", "-3.0 %"]
        {
            assert!(svg.contains(part), "{part}");
        }
        assert!(!svg.contains("other"));
        let alone = phases(&document("")).expect("a picture");
        assert!(alone.contains("measured") && !alone.contains("predicted"));
    }

    #[test]
    fn nothing_is_drawn_of_a_step_that_took_no_time() {
        let mut nothing = document("");
        nothing.measured.step_time_s = f64::NAN;
        nothing.measured.phases = trainyard_plan::document::Phases::default();
        assert!(phases(&nothing).is_err());
    }
}
