//! What tells series apart: six colours, and then the same again with another shape.

use super::picture::{Picture, Place};
use super::theme::{Colour, KINDS};

/// The prominence of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    /// For few marks.
    Strong,
    /// For hundreds of marks, which overlap.
    Faint,
}

/// Returns the colour of a series.
pub(crate) fn series_colour(series: usize) -> Colour {
    KINDS[series % KINDS.len()]
}

/// Draws the mark of a series: a disc, a square, a triangle or a diamond.
pub(crate) fn mark(picture: &mut Picture, (x, y): Place, series: usize, strength: Strength) {
    let (radius, tone) = match strength {
        Strength::Strong => (4, series_colour(series).at(1.0)),
        Strength::Faint => (3, series_colour(series).at(0.6)),
    };
    match series / KINDS.len() % 4 {
        0 => picture.dot((x, y), radius, tone),
        1 => picture.area(vec![(x, y - radius - 1), (x + radius, y + radius - 1), (x - radius, y + radius - 1)], tone),
        2 => picture.bar([(x - radius + 1, y - radius + 1), (x + radius - 1, y + radius - 1)], tone),
        _ => {
            let corners = vec![(x, y - radius - 1), (x + radius + 1, y), (x, y + radius + 1), (x - radius - 1, y)];
            picture.area(corners, tone);
        }
    }
}
