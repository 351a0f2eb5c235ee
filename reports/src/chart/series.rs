//! What tells series apart: six colours, and then the same again with another shape.

use super::picture::{Picture, Place};
use super::theme::{Colour, KINDS};

/// How much of a mark there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    /// Few of them.
    Strong,
    /// Hundreds, which lie on each other.
    Faint,
}

/// The colour of a series.
pub(crate) fn series_colour(series: usize) -> Colour {
    KINDS[series % KINDS.len()]
}

/// The mark of a series: a disc, a square, a triangle, a diamond.
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
