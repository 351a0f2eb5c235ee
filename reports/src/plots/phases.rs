//! Where a step goes, predicted beside measured.

use crate::chart::{Breadth, Colour, HEAD, Legend, Letters, MARGIN, Picture, Sample, Side, customary, measure, title};
use crate::format::{deviation, seconds};
use trainyard_plan::document::ComparisonDocument;

const WIDTH: i32 = Breadth::Wide.width();
const PANEL: i32 = 300;
const FOOT: i32 = 56;
/// Fraction of a group's width that its two bars take.
const BARS: f64 = 0.62;
/// Factor for the room above the tallest bar, for its words.
const ROOM: f64 = 1.15;
/// Approximate number of lines across.
const LINES: f64 = 5.0;

/// A pair of bars.
struct Pair {
    name: &'static str,
    predicted: Option<f64>,
    measured: f64,
    error: Option<f64>,
}

/// Draws predicted and measured seconds of a step and of each of its phases, as bars side by side, with the error above
/// each pair.
///
/// # Errors
///
/// Returns a sentence if there is nothing to draw: the step took no time.
pub fn phases(document: &ComparisonDocument) -> Result<Picture, String> {
    let pairs = pairs(document);
    let times = pairs.iter().flat_map(|pair| [Some(pair.measured), pair.predicted]).flatten();
    let longest = times.fold(0.0, f64::max);
    if !(longest.is_finite() && longest > 0.0) {
        return Err("there is no step with a finite time to draw".into());
    }
    let named = [("predicted", Colour::Blue, document.predicted.is_some()), ("measured", Colour::Orange, true)];
    let named = named.into_iter().filter(|(.., shown)| *shown);
    let named = named.map(|(name, colour, _)| (Sample::Block(colour.into()), name.to_owned()));
    let legend = Legend::of([MARGIN, WIDTH - MARGIN], named);
    let top = HEAD + legend.height() + 6;
    let name = format!("{}: where a step goes", document.plan.model.name);
    let mut picture = Picture::new(name.as_str(), (WIDTH, top + PANEL + FOOT));
    title(&mut picture, &name);
    legend.draw(&mut picture, HEAD);
    let below = "under each phase: its measured time";
    picture.words(below, (WIDTH - MARGIN, HEAD + 10), Side::Right, Letters::MUTED);
    let place = Place { high: longest * ROOM, groups: pairs.len(), bottom: top + PANEL, left: left(longest * ROOM) };
    grid(&mut picture, place);
    for (index, pair) in pairs.iter().enumerate() {
        bars(&mut picture, place, index, pair);
    }
    Ok(picture)
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

/// Returns the times of the lines across.
fn lines(high: f64) -> impl Iterator<Item = f64> {
    let step = customary(high / LINES);
    (0..).map(move |line| f64::from(line) * step).take_while(move |value| *value <= high)
}

fn label(time: f64) -> String {
    if time > 0.0 { seconds(time) } else { "0".into() }
}

/// Returns the left edge of the bars: right of the longest label.
fn left(high: f64) -> i32 {
    MARGIN + lines(high).map(|time| measure(&label(time), Letters::MUTED)).max().unwrap_or(0) + 8
}

/// The mapping from values to pixels.
#[derive(Clone, Copy)]
struct Place {
    high: f64,
    groups: usize,
    bottom: i32,
    left: i32,
}

impl Place {
    fn y(self, value: f64) -> i32 {
        // A document may hold times out of range.
        self.bottom - ((value / self.high).clamp(0.0, 1.0) * f64::from(PANEL)).round() as i32
    }

    /// Returns the middle of a group, and the width of a bar.
    fn group(self, index: usize) -> (f64, f64) {
        let width = f64::from(WIDTH - self.left - MARGIN) / self.groups as f64;
        (f64::from(self.left) + (index as f64 + 0.5) * width, width * BARS / 2.0)
    }
}

fn grid(picture: &mut Picture, place: Place) {
    for value in lines(place.high) {
        let y = place.y(value);
        let colour = if value > 0.0 { Colour::Grid } else { Colour::Muted };
        picture.line((place.left, y), (WIDTH - MARGIN, y), colour);
        picture.words(label(value), (place.left - 8, y), Side::Right, Letters::MUTED);
    }
}

fn bars(picture: &mut Picture, place: Place, index: usize, pair: &Pair) {
    let (middle, width) = place.group(index);
    let x = |offset: f64| (middle + offset).round() as i32;
    let sides = [(pair.predicted, -width, 0.0, Colour::Blue), (Some(pair.measured), 0.0, width, Colour::Orange)];
    for (value, from, to, colour) in sides {
        let Some(value) = value else { continue };
        picture.bar([(x(from) + 1, place.y(value)), (x(to) - 1, place.bottom)], colour);
    }
    let highest = pair.measured.max(pair.predicted.unwrap_or(0.0));
    if let Some(error) = pair.error {
        picture.words(deviation(error), (x(0.0), place.y(highest) - 12), Side::Middle, Letters::PLAIN);
    }
    picture.words(pair.name, (x(0.0), place.bottom + 16), Side::Middle, Letters::HEAD);
    picture.words(seconds(pair.measured), (x(0.0), place.bottom + 36), Side::Middle, Letters::MUTED);
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
        let picture = phases(&compared).expect("a picture");
        assert!(picture.outside().is_empty(), "{:?}", picture.outside());
        let text = picture.text();
        for part in
            ["predicted", "measured", "step", "forward", "backward", "communication", "wait", "+5.0 %", "-3.0 %"]
        {
            assert!(text.contains(part), "{part}");
        }
        assert!(!text.contains("other\n"));
        let alone = phases(&document("")).expect("a picture").text();
        assert!(alone.contains("measured") && !alone.contains("predicted"));
    }

    #[test]
    fn times_that_none_takes_stay_inside_the_frame() {
        let mut odd = document("");
        odd.measured.phases.wait_s = -1e300;
        odd.measured.phases.forward_s = -1e-3;
        let picture = phases(&odd).expect("a picture");
        assert!(picture.outside().is_empty(), "{:?}", picture.outside());
    }

    #[test]
    fn nothing_is_drawn_of_a_step_that_took_no_time() {
        let mut nothing = document("");
        nothing.measured.step_time_s = f64::NAN;
        nothing.measured.phases = trainyard_plan::document::Phases::default();
        assert!(phases(&nothing).is_err());
    }
}
