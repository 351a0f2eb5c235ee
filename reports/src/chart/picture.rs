//! Pictures: shapes in whole pixels, in the order in which they are drawn, in colours that stand for what they mean.

use super::theme::Colour;

/// A place in pixels from the upper left corner.
pub type Place = (i32, i32);

/// Font sizes, in pixels.
pub(crate) const TITLE: i32 = 16;
pub(crate) const TEXT: i32 = 13;
pub(crate) const SMALL: i32 = 12;

/// The width available to a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breadth {
    /// The width of a page, a screen or a slide.
    Wide,
    /// The width of a phone held upright.
    Narrow,
}

impl Breadth {
    /// Returns the width in pixels.
    pub(crate) const fn width(self) -> i32 {
        match self {
            Self::Wide => 880,
            Self::Narrow => 390,
        }
    }
}

/// A colour with its opacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tone {
    pub(crate) colour: Colour,
    pub(crate) opacity: f64,
}

impl From<Colour> for Tone {
    fn from(colour: Colour) -> Self {
        Self { colour, opacity: 1.0 }
    }
}

impl Colour {
    /// Returns the colour with an opacity.
    pub fn at(self, opacity: f64) -> Tone {
        Tone { colour: self, opacity }
    }
}

/// The part of a text that stands at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Its left end.
    Left,
    Middle,
    /// Its right end.
    Right,
}

/// The style of text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Letters {
    /// The font size, in pixels.
    pub size: i32,
    pub(crate) strong: bool,
    pub(crate) colour: Colour,
}

impl Letters {
    /// The title of a picture.
    pub const TITLE: Self = Self { size: TITLE, strong: true, colour: Colour::Ink };
    pub(crate) const HEAD: Self = Self { size: TEXT, strong: true, colour: Colour::Ink };
    /// Words that are read with the picture.
    pub const PLAIN: Self = Self { size: SMALL, strong: false, colour: Colour::Ink };
    /// Words that explain.
    pub const MUTED: Self = Self { size: SMALL, strong: false, colour: Colour::Muted };

    /// Returns the same style in another colour.
    #[must_use]
    pub fn of(self, colour: Colour) -> Self {
        Self { colour, ..self }
    }
}

/// A shape in a picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// A rectangle from its upper left to its lower right corner.
    Bar { corners: [Place; 2], tone: Tone },
    /// A line through places.
    Path { places: Vec<Place>, tone: Tone, thickness: u32 },
    /// The area enclosed by places.
    Area { places: Vec<Place>, tone: Tone },
    /// A disc.
    Dot { middle: Place, radius: i32, tone: Tone },
    /// A line of text, whose middle height is at the place.
    Words { at: Place, side: Side, text: String, letters: Letters },
}

/// A picture of a certain size. [`Picture::svg`] and [`Picture::png`] make files of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// A description of the picture, for readers who do not see it.
    pub(crate) about: String,
    pub(crate) width: i32,
    pub(crate) height: i32,
    pub(crate) shapes: Vec<Shape>,
}

impl Picture {
    /// Returns an empty picture of a width and a height in pixels, with a description for readers who do not see it.
    pub fn new(about: impl Into<String>, (width, height): (i32, i32)) -> Self {
        Self { about: about.into(), width, height, shapes: Vec::new() }
    }

    /// Draws a filled rectangle.
    pub fn bar(&mut self, corners: [Place; 2], tone: impl Into<Tone>) {
        self.shapes.push(Shape::Bar { corners, tone: tone.into() });
    }

    /// Draws a line through places, of a thickness in pixels.
    pub fn path(&mut self, places: Vec<Place>, tone: impl Into<Tone>, thickness: u32) {
        self.shapes.push(Shape::Path { places, tone: tone.into(), thickness });
    }

    /// Draws a thin line.
    pub fn line(&mut self, from: Place, to: Place, tone: impl Into<Tone>) {
        self.path(vec![from, to], tone, 1);
    }

    /// Fills the area enclosed by places.
    pub fn area(&mut self, places: Vec<Place>, tone: impl Into<Tone>) {
        self.shapes.push(Shape::Area { places, tone: tone.into() });
    }

    pub(crate) fn dot(&mut self, middle: Place, radius: i32, tone: impl Into<Tone>) {
        self.shapes.push(Shape::Dot { middle, radius, tone: tone.into() });
    }

    /// Draws a line of text.
    pub fn words(&mut self, text: impl Into<String>, at: Place, side: Side, letters: Letters) {
        self.shapes.push(Shape::Words { at, side, text: text.into(), letters });
    }

    /// Draws a dashed line.
    pub fn dashed(&mut self, from: Place, to: Place, colour: Colour) {
        const DASH: f64 = 5.0;
        let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
        let length = dx.hypot(dy);
        let at = |along: f64| {
            let part = (along / length.max(1.0)).min(1.0);
            (from.0 + (dx * part).round() as i32, from.1 + (dy * part).round() as i32)
        };
        for dash in 0..(length / (2.0 * DASH)).ceil() as i32 {
            let start = f64::from(dash) * 2.0 * DASH;
            self.line(at(start), at(start + DASH), colour);
        }
    }

    /// Draws a rectangle of slanting lines.
    pub fn hatched(&mut self, [(left, top), (right, bottom)]: [Place; 2], colour: Colour) {
        const GAP: usize = 6;
        let rise = bottom - top;
        for start in (left - rise..right).step_by(GAP) {
            // From the lower edge to the upper one, as far as that is inside.
            let from = (start.max(left), bottom - (left - start).max(0));
            let to = ((start + rise).min(right), top + (start + rise - right).max(0));
            if from.0 < to.0 {
                self.line(from, to, colour);
            }
        }
    }

    /// Puts another picture below this one.
    #[must_use]
    pub fn above(mut self, below: Self) -> Self {
        let down = self.height;
        let moved = |(x, y): Place| (x, y + down);
        self.shapes.extend(below.shapes.into_iter().map(|shape| match shape {
            Shape::Bar { corners, tone } => Shape::Bar { corners: corners.map(moved), tone },
            Shape::Path { places, tone, thickness } => {
                Shape::Path { places: places.into_iter().map(moved).collect(), tone, thickness }
            }
            Shape::Area { places, tone } => Shape::Area { places: places.into_iter().map(moved).collect(), tone },
            Shape::Dot { middle, radius, tone } => Shape::Dot { middle: moved(middle), radius, tone },
            Shape::Words { at, side, text, letters } => Shape::Words { at: moved(at), side, text, letters },
        }));
        self.about = format!("{}. {}", self.about.trim_end_matches('.'), below.about);
        self.width = self.width.max(below.width);
        self.height += below.height;
        self
    }

    /// Returns all words, for tests.
    pub fn text(&self) -> String {
        let words = self.shapes.iter().filter_map(|shape| match shape {
            Shape::Words { text, .. } => Some(text.as_str()),
            _ => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }

    /// Returns the shapes that reach outside the picture, for tests: there should be none.
    pub fn outside(&self) -> Vec<String> {
        let inside = |(x, y): &Place| (0..=self.width).contains(x) && (0..=self.height).contains(y);
        let all = |shape: &&Shape| match shape {
            Shape::Bar { corners, .. } => corners.iter().all(inside),
            Shape::Path { places, .. } | Shape::Area { places, .. } => places.iter().all(inside),
            Shape::Dot { middle, .. } => inside(middle),
            Shape::Words { at, side, text, letters } => {
                let width = super::paint::measure(text, *letters);
                let left = match side {
                    Side::Left => at.0,
                    Side::Middle => at.0 - width / 2,
                    Side::Right => at.0 - width,
                };
                inside(&(left, at.1)) && inside(&(left + width, at.1))
            }
        };
        self.shapes.iter().filter(|shape| !all(shape)).map(|shape| format!("{shape:?}")).collect()
    }
}

/// Converts a count to pixels' integer type.
pub fn count(things: impl TryInto<i32>) -> i32 {
    things.try_into().unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_below_each_other_keep_their_shapes_apart() {
        let mut upper = Picture::new("upper", (100, 50));
        upper.bar([(0, 0), (10, 10)], Colour::Blue);
        let mut lower = Picture::new("lower", (120, 30));
        lower.words("low", (0, 20), Side::Left, Letters::PLAIN);
        let both = upper.above(lower);
        assert_eq!((both.width, both.height, both.about.as_str()), (120, 80, "upper. lower"));
        assert!(matches!(&both.shapes[1], Shape::Words { at: (0, 70), .. }));
        assert!(both.outside().is_empty());
    }

    #[test]
    fn hatching_stays_in_its_rectangle() {
        let mut picture = Picture::new("", (200, 100));
        let corners = [(20, 10), (90, 40)];
        picture.hatched(corners, Colour::Ink);
        for shape in &picture.shapes {
            let Shape::Path { places, .. } = shape else { panic!("only lines: {shape:?}") };
            assert!(places.iter().all(|(x, y)| (20..=90).contains(x) && (10..=40).contains(y)), "{places:?}");
        }
        assert!(picture.shapes.len() > 10);
    }
}
