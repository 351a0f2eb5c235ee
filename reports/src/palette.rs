//! Colours of the plots: Okabe and Ito, "Color Universal Design", 2008, distinguishable with any colour vision.

use plotters::style::RGBColor;

pub(crate) const BLUE: RGBColor = RGBColor(0, 114, 178);
pub(crate) const ORANGE: RGBColor = RGBColor(213, 94, 0);
pub(crate) const GREEN: RGBColor = RGBColor(0, 158, 115);
const AMBER: RGBColor = RGBColor(230, 159, 0);
const PURPLE: RGBColor = RGBColor(204, 121, 167);
const SKY: RGBColor = RGBColor(86, 180, 233);

/// Axes and words.
pub(crate) const INK: RGBColor = RGBColor(60, 60, 60);

/// Kinds that are told apart by colour alone; neighbours differ most.
pub(crate) const KINDS: [RGBColor; 6] = [BLUE, AMBER, GREEN, PURPLE, ORANGE, SKY];
