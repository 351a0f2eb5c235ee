//! Rows with a name each, for bars that lie: names stand before the bars, or above them where there is little room.

use super::MARGIN;
use super::paint::{measure, shortened};
use super::picture::{Breadth, Letters, Picture, Place, Side, count};

/// Maximum width of names before the bars, in pixels.
const NAMES: i32 = 250;
const BAR: i32 = 18;
const ROW: i32 = 28;
/// Height of a name above its bar, in pixels.
const ABOVE: i32 = 16;

/// Rows from the top downwards, and the horizontal range of their bars.
pub(crate) struct Rows {
    pub(crate) left: i32,
    pub(crate) right: i32,
    pub(crate) top: i32,
    count: i32,
    names_above: bool,
}

impl Rows {
    /// Lays out rows for these names; `after` pixels stay free behind the bars.
    pub(crate) fn of(breadth: Breadth, top: i32, names: &[String], after: i32) -> Self {
        let names_above = breadth == Breadth::Narrow;
        let widest = names.iter().map(|name| measure(name, Letters::PLAIN)).max().unwrap_or(0).min(NAMES);
        let left = if names_above { MARGIN } else { MARGIN + widest + 10 };
        Self { left, right: breadth.width() - MARGIN - after, top, count: count(names.len()), names_above }
    }

    fn height(&self) -> i32 {
        if self.names_above { ROW + ABOVE } else { ROW }
    }

    pub(crate) fn bottom(&self) -> i32 {
        self.top + self.count * self.height()
    }

    /// Returns the upper and lower edge of the bar of a row.
    pub(crate) fn bar(&self, row: usize) -> [i32; 2] {
        let bottom = self.top + (count(row) + 1) * self.height() - (ROW - BAR) / 2;
        [bottom - BAR, bottom]
    }

    pub(crate) fn middle(&self, row: usize) -> i32 {
        let [top, bottom] = self.bar(row);
        i32::midpoint(top, bottom)
    }

    /// Returns the corners of a part of a row's bar.
    pub(crate) fn part(&self, row: usize, [from, to]: [i32; 2]) -> [Place; 2] {
        let [top, bottom] = self.bar(row);
        [(from, top), (to, bottom)]
    }

    pub(crate) fn name(&self, picture: &mut Picture, row: usize, name: &str, letters: Letters) {
        let middle = self.middle(row);
        if self.names_above {
            let name = shortened(name, letters, self.right - self.left);
            picture.words(name, (self.left, middle - BAR / 2 - ABOVE / 2), Side::Left, letters);
        } else {
            let name = shortened(name, letters, self.left - 10 - MARGIN);
            picture.words(name, (self.left - 10, middle), Side::Right, letters);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_each_other_with_room_for_their_names() {
        let names: Vec<String> = ["short", "a name that is rather long"].map(Into::into).into();
        for breadth in [Breadth::Wide, Breadth::Narrow] {
            let rows = Rows::of(breadth, 40, &names, 60);
            assert!(rows.bar(0)[0] >= rows.top && rows.bar(1)[1] <= rows.bottom(), "{breadth:?}");
            assert!(rows.bar(0)[1] < rows.bar(1)[0] && rows.right - rows.left > 200, "{breadth:?}");
            let mut picture = Picture::new("", (breadth.width(), rows.bottom()));
            names.iter().enumerate().for_each(|(row, name)| rows.name(&mut picture, row, name, Letters::PLAIN));
            assert!(picture.outside().is_empty(), "{breadth:?}: {:?}", picture.outside());
        }
    }
}
