//! The assumptions behind a plan as bars to both sides of what is predicted, the greatest effect on top.

use crate::chart::{Breadth, Colour, HEAD, Legend, Letters, MARGIN, Picture, Rows, Sample, Side, count, title};
use crate::format::deviation;
use crate::what_if::factor;
use trainyard_plan::{Sensitivity, WhatIfDocument};

const FOOT: i32 = 52;
/// Width of a number at either end of the bars, in pixels.
const ENDS: i32 = 52;

/// The changes of one quantity for the low and the high factor of an assumption.
type Change = fn(&Sensitivity) -> Option<[f64; 2]>;

/// Draws bars of the change of time, and of cost, for the low and the high factor of each assumption: beside each
/// other, or below each other where there is little room.
///
/// # Errors
///
/// Returns a sentence if there is nothing to draw.
pub(super) fn plot(document: &WhatIfDocument, breadth: Breadth) -> Result<Picture, String> {
    let all = &document.sensitivities;
    if all.is_empty() {
        return Err("there is no assumption to draw".into());
    }
    let costs = all.iter().any(|own| own.cost_change.is_some());
    let name = |own: &Sensitivity| format!("{}, {} to {}", own.key, factor(own.factors[0]), factor(own.factors[1]));
    let names: Vec<String> = all.iter().map(name).collect();
    let legend = [(Colour::Blue, "at the low factor"), (Colour::Orange, "at the high factor")];
    let legend = legend.map(|(colour, text)| (Sample::Block(colour.into()), text.to_owned()));
    let legend = Legend::of([MARGIN, breadth.width() - MARGIN], legend);
    let top = HEAD + legend.height() + 28;
    let rows = Rows::of(breadth, top, &names, 0);
    let time: (&str, Change) = ("change of the time of the training", |own| Some(own.time_change));
    let cost: (&str, Change) = ("change of its cost", |own| own.cost_change);
    let shown: Vec<(&str, Change)> = std::iter::once(time).chain(costs.then_some(cost)).collect();
    let heading = crate::what_if::title(document);
    let panel = |left: i32, right: i32, rows: &Rows, (name, change): (&str, Change), picture: &mut Picture| {
        Bars { left, right, rows, all, change, name }.draw(picture);
    };
    if breadth == Breadth::Wide || shown.len() == 1 {
        let mut picture = Picture::new(heading.as_str(), (breadth.width(), rows.bottom() + FOOT));
        names.iter().enumerate().for_each(|(row, name)| rows.name(&mut picture, row, name, Letters::PLAIN));
        let width = (rows.right - rows.left) / count(shown.len());
        for (place, own) in (0..).zip(shown) {
            let left = rows.left + place * width;
            panel(left, left + width, &rows, own, &mut picture);
        }
        return Ok(headed(picture, &heading, &legend));
    }
    let below = Rows::of(breadth, rows.bottom() + FOOT + 28, &names, 0);
    let mut picture = Picture::new(heading.as_str(), (breadth.width(), below.bottom() + FOOT));
    for (rows, own) in [&rows, &below].into_iter().zip(shown) {
        names.iter().enumerate().for_each(|(row, name)| rows.name(&mut picture, row, name, Letters::PLAIN));
        panel(rows.left, rows.right, rows, own, &mut picture);
    }
    Ok(headed(picture, &heading, &legend))
}

fn headed(mut picture: Picture, heading: &str, legend: &Legend) -> Picture {
    title(&mut picture, heading);
    legend.draw(&mut picture, HEAD);
    picture
}

/// One panel of bars.
struct Bars<'a> {
    left: i32,
    right: i32,
    rows: &'a Rows,
    all: &'a [Sensitivity],
    change: Change,
    name: &'a str,
}

impl Bars<'_> {
    fn x(&self, part: f64) -> i32 {
        let half = f64::from(self.right - self.left) / 2.0 - f64::from(ENDS);
        i32::midpoint(self.left, self.right) + (part * half).round() as i32
    }

    fn draw(&self, picture: &mut Picture) {
        let ends = self.all.iter().filter_map(self.change).flatten();
        let most = ends.fold(0.01_f64, |most, change| most.max(change.abs()));
        let (top, bottom) = (self.rows.top, self.rows.bottom());
        let middle = self.x(0.0);
        picture.words(self.name, (middle, top - 14), Side::Middle, Letters::HEAD);
        for part in [-1.0, -0.5, 0.5, 1.0] {
            picture.line((self.x(part), top), (self.x(part), bottom + 4), Colour::Grid);
        }
        let marks = [(-1.0, deviation(-most)), (0.0, "as planned".into()), (1.0, deviation(most))];
        for (part, text) in marks {
            picture.words(text, (self.x(part), bottom + 14), Side::Middle, Letters::MUTED);
        }
        for (row, own) in self.all.iter().enumerate() {
            let Some(changes) = (self.change)(own) else { continue };
            for (change, colour) in changes.into_iter().zip([Colour::Blue, Colour::Orange]) {
                let at = self.x(change / most);
                if at != middle {
                    picture.bar(self.rows.part(row, [at.min(middle), at.max(middle)]), colour);
                }
            }
            self.numbers(picture, changes, most, self.rows.middle(row));
        }
        picture.line((middle, top), (middle, bottom + 4), Colour::Ink);
    }

    /// Draws the changes beside the ends of a bar: the smaller on the left. Of two on the same side only the farther is
    /// printed.
    fn numbers(&self, picture: &mut Picture, changes: [f64; 2], most: f64, y: i32) {
        let (low, high) = (changes[0].min(changes[1]), changes[0].max(changes[1]));
        let told = |change: f64| change.abs() >= 5e-4;
        if told(low) && low < 0.0 {
            picture.words(deviation(low), (self.x(low / most) - 5, y), Side::Right, Letters::PLAIN);
        }
        if told(high) && high > 0.0 {
            picture.words(deviation(high), (self.x(high / most) + 5, y), Side::Left, Letters::PLAIN);
        }
        if !told(low) && !told(high) {
            let text = if changes == [0.0, 0.0] { "no effect" } else { "under 0.05 %" };
            picture.words(text, (self.x(0.0) + 5, y), Side::Left, Letters::MUTED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::tests::{document, tornado};

    #[test]
    fn every_assumption_has_its_bar_for_time_and_cost() {
        for breadth in [Breadth::Wide, Breadth::Narrow] {
            let picture = plot(&tornado(), breadth).expect("assumptions");
            for words in
                ["gpu.peak", "stack.launch", "no effect", "+20.0 %", "change of its cost", "time of the training"]
            {
                assert!(picture.text().contains(words), "{words}: {}", picture.text());
            }
            assert!(picture.outside().is_empty(), "{breadth:?} {:?}", picture.outside());
        }
        assert!(plot(&document(), Breadth::Wide).is_err());
    }
}
