//! What colours and marks mean, in lines that are as long as there is room.

use super::paint::{measure, shortened};
use super::picture::{Letters, Picture, Side, Tone};
use super::series::{Strength, mark, series_colour};
use super::theme::Colour;

pub(crate) const LEGEND_LINE: i32 = 20;
const SAMPLE: i32 = 20;
const BEFORE_WORDS: i32 = 6;
const BETWEEN: i32 = 18;

/// The symbol before the words of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sample {
    /// A line with the mark of a series.
    Series(usize),
    /// The mark of a series.
    Mark(usize),
    /// A filled rectangle.
    Block(Tone),
    /// A rectangle whose first half is lighter.
    Starting(Colour),
    Line(Colour),
    /// A dashed line.
    Dashed,
    /// Slanting lines, a hatch.
    Hatched,
    /// No symbol.
    Words,
}

struct Entry {
    sample: Sample,
    text: String,
    x: i32,
    row: i32,
}

/// Legend entries, laid out between two edges.
pub struct Legend {
    entries: Vec<Entry>,
}

impl Legend {
    /// Lays out the entries in lines from `left` to `right`.
    pub fn of([left, right]: [i32; 2], named: impl IntoIterator<Item = (Sample, String)>) -> Self {
        let (mut x, mut row) = (left, 0);
        let place = |(sample, text): (Sample, String)| {
            let before = if sample == Sample::Words { 0 } else { SAMPLE + BEFORE_WORDS };
            let text = shortened(&text, Letters::PLAIN, right - left - before);
            let room = before + measure(&text, Letters::PLAIN);
            if x > left && x + room > right {
                (x, row) = (left, row + 1);
            }
            let entry = Entry { sample, text, x, row };
            x += room + BETWEEN;
            entry
        };
        Self { entries: named.into_iter().map(place).collect() }
    }

    /// Returns the height in pixels.
    pub fn height(&self) -> i32 {
        self.entries.last().map_or(0, |entry| (entry.row + 1) * LEGEND_LINE)
    }

    /// Draws the entries below `top`.
    pub fn draw(&self, picture: &mut Picture, top: i32) {
        for entry in &self.entries {
            entry.draw(picture, top + entry.row * LEGEND_LINE + LEGEND_LINE / 2);
        }
    }
}

impl Entry {
    fn draw(&self, picture: &mut Picture, middle: i32) {
        let (left, right) = (self.x, self.x + SAMPLE);
        let block = [(left + 3, middle - 6), (right - 2, middle + 6)];
        match self.sample {
            Sample::Series(series) => {
                picture.path(vec![(left, middle), (right, middle)], series_colour(series), 2);
                mark(picture, (left + SAMPLE / 2, middle), series, Strength::Strong);
            }
            Sample::Mark(series) => mark(picture, (left + SAMPLE / 2, middle), series, Strength::Strong),
            Sample::Block(tone) => picture.bar(block, tone),
            Sample::Starting(colour) => {
                picture.bar([block[0], (left + SAMPLE / 2, middle + 6)], colour.at(0.35));
                picture.bar([(left + SAMPLE / 2, middle - 6), block[1]], colour);
            }
            Sample::Line(colour) => picture.path(vec![(left, middle), (right, middle)], colour, 2),
            Sample::Dashed => picture.dashed((left, middle), (right, middle), Colour::Muted),
            Sample::Hatched => picture.hatched(block, Colour::Muted),
            Sample::Words => {}
        }
        let before = if self.sample == Sample::Words { 0 } else { SAMPLE + BEFORE_WORDS };
        picture.words(self.text.as_str(), (left + before, middle), Side::Left, Letters::PLAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_go_on_in_the_next_line_and_stay_between_the_edges() {
        let named = (0..12).map(|number| (Sample::Series(number), format!("a series with the number {number}")));
        let legend = Legend::of([20, 380], named.chain([(Sample::Dashed, "ideal ".repeat(30))]));
        assert!(legend.height() > 5 * LEGEND_LINE, "{}", legend.height());
        let mut picture = Picture::new("", (400, legend.height() + 20));
        legend.draw(&mut picture, 10);
        assert!(picture.outside().is_empty(), "{:?}", picture.outside());
        assert_eq!(Legend::of([0, 10], []).height(), 0);
    }
}
