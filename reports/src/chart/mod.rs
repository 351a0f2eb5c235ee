//! What plots are made of: a picture of shapes, colours for light and dark ground, axes, legends, panels, and files.

mod axis;
mod legend;
mod paint;
mod panel;
mod picture;
mod rows;
mod series;
mod theme;

pub(crate) use axis::{Axis, Scale, customary, range, time_unit};
pub(crate) use panel::{Label, Line, Panel, Rule, Stroke, figure, plain};
pub(crate) use rows::Rows;
pub(crate) use series::series_colour;
pub(crate) use theme::dark_rules;

pub use axis::calendar;
pub use legend::{Legend, Sample};
pub use paint::{Scheme, measure, shortened};
pub use picture::{Breadth, Letters, Picture, Place, Side, Tone, count};
pub use theme::{Colour, KINDS, Theme};

/// Pixels between the edge of a picture and its content.
pub const MARGIN: i32 = 16;
/// Height of the title, in pixels.
pub const HEAD: i32 = 40;

/// Draws the title of a picture, cut to its width.
pub(crate) fn title(picture: &mut Picture, text: &str) {
    let text = shortened(text, Letters::TITLE, picture.width - 2 * MARGIN);
    picture.words(text, (MARGIN, 22), Side::Left, Letters::TITLE);
}
