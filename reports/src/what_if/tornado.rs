//! The assumptions behind a plan as bars to both sides of what is predicted, the greatest effect on top.

use super::factor;
use crate::chart::{Area, Drawn, SMALL, TEXT, count, picture, rule, words};
use crate::format::deviation;
use crate::palette::{BLUE, INK, ORANGE};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use trainyard_plan::{Sensitivity, WhatIfDocument};

const HEAD: i32 = 92;
const FOOT: i32 = 56;
const BAR: i32 = 30;
/// Room for the names of the assumptions.
const NAMES: i32 = 240;
/// Bars of one panel.
const BARS: i32 = 300;
/// Room for the numbers at both ends of the bars.
const ENDS: i32 = 62;

/// Bars of the change of time, and beside them of cost, for the low and the high factor of each assumption, as SVG.
///
/// # Errors
///
/// A sentence, if there is nothing to draw.
pub(super) fn plot(document: &WhatIfDocument) -> Result<String, String> {
    let all = &document.sensitivities;
    if all.is_empty() {
        return Err("there is no assumption to draw".into());
    }
    let costs = all.iter().any(|own| own.cost_change.is_some());
    let panels = if costs { 2 } else { 1 };
    let size = (NAMES + panels * (BARS + 2 * ENDS), HEAD + BAR * count(all.len()) + FOOT);
    picture(size, |area| {
        words(area, &super::title(document), (16, 20), 17, (HPos::Left, VPos::Center))?;
        for (x, colour, text) in [(16, BLUE, "at the low factor"), (176, ORANGE, "at the high factor")] {
            area.draw(&Rectangle::new([(x, 44), (x + 16, 56)], colour.filled()))?;
            words(area, text, (x + 22, 50), SMALL, (HPos::Left, VPos::Center))?;
        }
        for (index, own) in all.iter().enumerate() {
            let middle = HEAD + BAR * count(index) + BAR / 2;
            let range = format!("{} to {}", factor(own.factors[0]), factor(own.factors[1]));
            words(area, &own.key, (NAMES - 12, middle - 6), TEXT, (HPos::Right, VPos::Center))?;
            words(area, &range, (NAMES - 12, middle + 8), SMALL - 2, (HPos::Right, VPos::Center))?;
        }
        let time = |own: &Sensitivity| Some(own.time_change);
        Bars { left: NAMES + ENDS, all, change: &time, name: "change of the time of the training" }.draw(area)?;
        if costs {
            let left = NAMES + BARS + 3 * ENDS;
            let cost = |own: &Sensitivity| own.cost_change;
            Bars { left, all, change: &cost, name: "change of its cost" }.draw(area)?;
        }
        Ok(())
    })
}

/// One panel of bars.
struct Bars<'a> {
    left: i32,
    all: &'a [Sensitivity],
    change: &'a dyn Fn(&Sensitivity) -> Option<[f64; 2]>,
    name: &'a str,
}

impl Bars<'_> {
    fn draw(&self, area: &Area<'_>) -> Drawn {
        let ends = self.all.iter().filter_map(self.change).flatten();
        let most = ends.fold(0.01_f64, |most, change| most.max(change.abs()));
        let middle = self.left + BARS / 2;
        let x = |change: f64| middle + (change / most * f64::from(BARS / 2)).round() as i32;
        let bottom = HEAD + BAR * count(self.all.len());
        for part in [-1.0, -0.5, 0.5, 1.0] {
            rule(area, (x(part * most), HEAD), (x(part * most), bottom + 4), 0.12)?;
        }
        for part in [-1.0, 0.0, 1.0] {
            let at = (x(part * most), bottom + 9);
            words(area, &deviation(part * most), at, SMALL, (HPos::Center, VPos::Top))?;
        }
        for (index, own) in self.all.iter().enumerate() {
            let Some(changes) = (self.change)(own) else { continue };
            let top = HEAD + BAR * count(index) + 6;
            for (change, colour) in changes.into_iter().zip([BLUE, ORANGE]) {
                let (from, to) = (x(0.0).min(x(change)), x(0.0).max(x(change)));
                area.draw(&Rectangle::new([(from, top), (to, top + BAR - 12)], colour.filled()))?;
            }
            numbers(area, changes, x, top + BAR / 2 - 6)?;
        }
        area.draw(&PathElement::new([(middle, HEAD), (middle, bottom + 4)], INK.stroke_width(1)))?;
        words(area, self.name, (middle, bottom + 28), TEXT, (HPos::Center, VPos::Top))
    }
}

/// The changes beside the ends of a bar: the smaller on the left. Of two on the same side only the farther is told.
fn numbers(area: &Area<'_>, changes: [f64; 2], x: impl Fn(f64) -> i32, y: i32) -> Drawn {
    let (low, high) = (changes[0].min(changes[1]), changes[0].max(changes[1]));
    let told = |change: f64| change.abs() >= 5e-4;
    if told(low) && low < 0.0 {
        words(area, &deviation(low), (x(low) - 5, y), SMALL, (HPos::Right, VPos::Center))?;
    }
    if told(high) && high > 0.0 {
        words(area, &deviation(high), (x(high) + 5, y), SMALL, (HPos::Left, VPos::Center))?;
    }
    if !told(low) && !told(high) {
        let text = if changes == [0.0, 0.0] { "no effect" } else { "under 0.05 %" };
        words(area, text, (x(0.0) + 5, y), SMALL, (HPos::Left, VPos::Center))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::tests::{document, tornado};

    #[test]
    fn every_assumption_has_its_bar_for_time_and_cost() {
        let svg = plot(&tornado()).expect("assumptions");
        for text in ["gpu.peak", "stack.launch", "no effect", "+20.0 %", "change of its cost", "time of the training"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(plot(&document()).is_err());
    }
}
