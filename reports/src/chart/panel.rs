//! Panels of lines, points and bars below each other, over a common width.

use super::axis::Axis;
use super::legend::{Legend, Sample};
use super::paint::measure;
use super::picture::{Breadth, Letters, Picture, Place, Side, Tone, count};
use super::series::{Strength, mark, series_colour};
use super::theme::Colour;
use super::{HEAD, MARGIN, title};
use crate::format::rate;

/// Height above a panel for its name, in pixels.
const PANEL_HEAD: i32 = 30;
const PANEL_FOOT: i32 = 52;
/// Pixels between the marks of the vertical axis and the panel.
const MARKS_GAP: i32 = 8;

/// The style of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stroke {
    /// The line of a series, with marks.
    Series(usize),
    /// Only the marks of its series.
    Marks(usize),
    /// Faint marks of a series, for hundreds of points.
    Faint(usize),
    /// The ideal: grey, dashed, without marks.
    Ideal,
    /// A line without marks.
    Plain(Colour),
}

/// Points of one line, in order.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) stroke: Stroke,
    /// The 90 % interval at each point, if it is shown.
    pub(crate) band: Vec<[f64; 2]>,
}

impl Line {
    pub(crate) fn new(stroke: Stroke, points: Vec<(f64, f64)>) -> Self {
        Self { points, stroke, band: Vec::new() }
    }
}

/// A line across the whole panel at a value.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) at: f64,
    /// `true` for a vertical line, at a value of the horizontal axis.
    pub(crate) upright: bool,
    pub(crate) text: String,
    pub(crate) colour: Colour,
}

/// Words beside a point.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub(crate) at: (f64, f64),
    pub(crate) text: String,
    pub(crate) strong: bool,
}

/// One plot with its axes; a figure stacks several.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) name: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) height: i32,
    /// Areas behind everything else: corners and fill.
    pub(crate) areas: Vec<(Vec<(f64, f64)>, Tone)>,
    /// Vertical bars from 0: horizontal range, height and fill.
    pub(crate) bars: Vec<([f64; 2], f64, Tone)>,
    pub(crate) lines: Vec<Line>,
    pub(crate) rules: Vec<Rule>,
    /// Values of the horizontal axis at which there is nothing to draw, because there is no plan.
    pub(crate) missing: Vec<f64>,
    /// Words beside points. One that would lie on an earlier one is left out; so is one that would lie on a line, unless it
    /// is strong.
    pub(crate) labels: Vec<Label>,
}

impl Panel {
    pub(crate) fn new(name: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            name: name.into(),
            x,
            y,
            height: 220,
            areas: Vec::new(),
            bars: Vec::new(),
            lines: Vec::new(),
            rules: Vec::new(),
            missing: Vec::new(),
            labels: Vec::new(),
        }
    }

    fn marks_width(&self) -> i32 {
        self.y.marks.iter().map(|(_, text)| measure(text, Letters::MUTED)).max().unwrap_or(0)
    }
}

/// Formats a mark without needless digits: `0.5`, `20`, `1,500`.
pub(crate) fn plain(value: f64) -> String {
    if value >= 1000.0 { rate(value) } else { format!("{}", (value * 1e6).round() / 1e6) }
}

/// Draws the panels below each other, with the legend of the series above them.
pub(crate) fn figure(breadth: Breadth, name: &str, legend: Vec<(Sample, String)>, panels: &[Panel]) -> Picture {
    let width = breadth.width();
    let edges = [MARGIN, width - MARGIN];
    let legend = Legend::of(edges, legend);
    let top = HEAD + legend.height() + if legend.height() > 0 { 4 } else { 0 };
    let inside = |panel: &Panel| PANEL_HEAD + panel.height + PANEL_FOOT;
    let mut picture = Picture::new(name, (width, top + panels.iter().map(inside).sum::<i32>()));
    title(&mut picture, name);
    legend.draw(&mut picture, HEAD);
    let left = MARGIN + panels.iter().map(Panel::marks_width).max().unwrap_or(0) + MARKS_GAP;
    let mut top = top + PANEL_HEAD;
    for panel in panels {
        Frame { top, left, right: width - MARGIN, panel }.draw(&mut picture);
        top += inside(panel);
    }
    picture
}

/// A panel at its place in the picture.
struct Frame<'a> {
    top: i32,
    left: i32,
    right: i32,
    panel: &'a Panel,
}

impl Frame<'_> {
    fn bottom(&self) -> i32 {
        self.top + self.panel.height
    }

    fn x(&self, value: f64) -> i32 {
        let part = self.panel.x.scale.part(value);
        (self.left + (part * f64::from(self.right - self.left)).round() as i32).clamp(self.left, self.right)
    }

    fn y(&self, value: f64) -> i32 {
        let part = self.panel.y.scale.part(value).clamp(0.0, 1.0);
        self.bottom() - (part * f64::from(self.panel.height)).round() as i32
    }

    fn at(&self, (x, y): (f64, f64)) -> Place {
        (self.x(x), self.y(y))
    }

    fn draw(&self, picture: &mut Picture) {
        let head = self.top - 14;
        picture.words(self.panel.name.as_str(), (MARGIN, head), Side::Left, Letters::HEAD);
        let after = MARGIN + measure(&self.panel.name, Letters::HEAD) + if self.panel.name.is_empty() { 0 } else { 8 };
        picture.words(self.panel.y.title(), (after, head), Side::Left, Letters::MUTED);
        for (corners, tone) in &self.panel.areas {
            picture.area(corners.iter().map(|corner| self.at(*corner)).collect(), *tone);
        }
        self.axes(picture);
        for ([from, to], high, tone) in &self.panel.bars {
            let (left, right) = (self.x(*from), self.x(*to));
            let gap = i32::from(right - left > 3);
            picture.bar([(left, self.y(*high)), (right - gap, self.bottom())], *tone);
        }
        for line in &self.panel.lines {
            self.line(picture, line);
        }
        for (index, rule) in self.panel.rules.iter().enumerate() {
            self.rule(picture, rule, 8 + 15 * count(index));
        }
        for value in &self.panel.missing {
            picture.words("no plan", (self.x(*value), self.bottom() - 10), Side::Middle, Letters::MUTED);
        }
        self.labels(picture);
    }

    fn axes(&self, picture: &mut Picture) {
        let (x, y) = (&self.panel.x, &self.panel.y);
        for (value, text) in &y.marks {
            let at = self.y(*value);
            picture.line((self.left, at), (self.right, at), Colour::Grid);
            picture.words(text.as_str(), (self.left - MARKS_GAP, at), Side::Right, Letters::MUTED);
        }
        let mut free = 0;
        for (value, text) in &x.marks {
            let half = measure(text, Letters::MUTED) / 2;
            let at = self.x(*value);
            picture.line((at, self.top), (at, self.bottom() + 4), Colour::Grid);
            // Words at the end stay inside the picture.
            let middle = at.min(self.right + MARGIN - half - 2);
            if middle - half >= free {
                picture.words(text.as_str(), (middle, self.bottom() + 13), Side::Middle, Letters::MUTED);
                free = middle + half + 6;
            }
        }
        picture.line((self.left, self.bottom()), (self.right, self.bottom()), Colour::Muted);
        let middle = i32::midpoint(self.left, self.right);
        picture.words(x.title(), (middle, self.bottom() + 33), Side::Middle, Letters::MUTED);
    }

    fn line(&self, picture: &mut Picture, line: &Line) {
        let places: Vec<Place> = line.points.iter().map(|point| self.at(*point)).collect();
        let (series, joined, strength) = match line.stroke {
            Stroke::Ideal => {
                places.windows(2).for_each(|ends| picture.dashed(ends[0], ends[1], Colour::Muted));
                return;
            }
            Stroke::Plain(colour) => return picture.path(places, colour, 2),
            Stroke::Series(series) => (series, places.len() > 1, Strength::Strong),
            Stroke::Marks(series) => (series, false, Strength::Strong),
            Stroke::Faint(series) => (series, false, Strength::Faint),
        };
        let colour = series_colour(series);
        if joined && line.band.len() == places.len() {
            let side = |end: usize| line.points.iter().zip(&line.band).map(move |((x, _), band)| (*x, band[end]));
            let around = side(0).chain(side(1).collect::<Vec<_>>().into_iter().rev());
            picture.area(around.map(|point| self.at(point)).collect(), colour.at(0.18));
        } else {
            for ((x, _), [low, high]) in line.points.iter().zip(&line.band) {
                picture.path(vec![self.at((*x, *low)), self.at((*x, *high))], colour.at(0.4), 3);
            }
        }
        if joined {
            picture.path(places.clone(), colour, 2);
        }
        for place in places {
            mark(picture, place, series, strength);
        }
    }

    /// Draws a line across with its words; those of a vertical one stand `down` pixels below the top.
    fn rule(&self, picture: &mut Picture, rule: &Rule, down: i32) {
        let letters = Letters::PLAIN.of(Colour::Ink);
        if rule.upright {
            let x = self.x(rule.at);
            picture.path(vec![(x, self.top), (x, self.bottom())], rule.colour, 2);
            let left = x + 5 + measure(&rule.text, letters) > self.right;
            let (at, side) = if left { (x - 5, Side::Right) } else { (x + 5, Side::Left) };
            picture.words(rule.text.as_str(), (at, self.top + down), side, letters);
        } else {
            let y = self.y(rule.at);
            picture.path(vec![(self.left, y), (self.right, y)], rule.colour, 2);
            picture.words(rule.text.as_str(), (self.right - 4, y - 9), Side::Right, letters);
        }
    }

    fn labels(&self, picture: &mut Picture) {
        let drawn = self.drawn();
        let mut taken: Vec<Area> = Vec::new();
        for label in &self.panel.labels {
            let letters = if label.strong { Letters { strong: true, ..Letters::PLAIN } } else { Letters::PLAIN };
            let (place, width) = (self.at(label.at), measure(&label.text, letters));
            let possible: Vec<(Place, Side, Area)> = beside(place, width)
                .filter(|(.., own)| self.holds(own) && taken.iter().all(|other| own.is_apart(other)))
                .collect();
            let clear = possible.iter().find(|(.., own)| drawn.iter().all(|ends| !own.is_crossed(*ends)));
            let Some((at, side, own)) = clear.or_else(|| possible.first().filter(|_| label.strong)) else { continue };
            picture.words(label.text.as_str(), *at, *side, letters);
            taken.push(*own);
        }
    }

    fn holds(&self, area: &Area) -> bool {
        area.left >= self.left && area.right <= self.right && area.top >= self.top && area.bottom <= self.bottom()
    }

    /// Returns what labels should not lie on: the parts of lines, and marks as lines without length.
    fn drawn(&self) -> Vec<[Place; 2]> {
        let across = |rule: &Rule| {
            let (x, y) = (self.x(rule.at), self.y(rule.at));
            if rule.upright { [(x, self.top), (x, self.bottom())] } else { [(self.left, y), (self.right, y)] }
        };
        let mut drawn: Vec<[Place; 2]> = self.panel.rules.iter().map(across).collect();
        for line in &self.panel.lines {
            let places: Vec<Place> = line.points.iter().map(|point| self.at(*point)).collect();
            if !matches!(line.stroke, Stroke::Marks(_) | Stroke::Faint(_)) {
                drawn.extend(places.windows(2).map(|ends| [ends[0], ends[1]]));
            }
            if !matches!(line.stroke, Stroke::Faint(_)) {
                drawn.extend(places.into_iter().map(|place| [place; 2]));
            }
        }
        drawn
    }
}

/// The part of a picture that a label takes, in pixels.
#[derive(Clone, Copy, Debug)]
struct Area {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

/// Returns where words of this width may stand beside a place, the best first, and what they take there.
fn beside((x, y): Place, width: i32) -> impl Iterator<Item = (Place, Side, Area)> {
    let sides = [(x + 7, Side::Left, x + 7), (x - 7, Side::Right, x - 7 - width)];
    let heights = [y - 12, y + 13, y - 20, y + 21, y];
    heights.into_iter().flat_map(move |y| {
        sides.map(|(x, side, left)| {
            ((x, y), side, Area { left: left - 3, right: left + width + 3, top: y - 7, bottom: y + 7 })
        })
    })
}

impl Area {
    fn is_apart(&self, other: &Self) -> bool {
        self.right <= other.left || self.left >= other.right || self.bottom <= other.top || self.top >= other.bottom
    }

    /// Returns `true` if a straight line goes through the area: the ranges of it within both pairs of edges overlap (Liang
    /// and Barsky, ACM Transactions on Graphics 3(1), 1984).
    fn is_crossed(&self, [(x0, y0), (x1, y1)]: [Place; 2]) -> bool {
        let (mut from, mut to) = (0.0_f64, 1.0_f64);
        for (start, end, low, high) in [(x0, x1, self.left, self.right), (y0, y1, self.top, self.bottom)] {
            let [start, length, low, high] = [start, end - start, low, high].map(f64::from);
            if length == 0.0 {
                if start <= low || start >= high {
                    return false;
                }
                continue;
            }
            let [near, far] = [(low - start) / length, (high - start) / length];
            from = from.max(near.min(far));
            to = to.min(near.max(far));
        }
        from < to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Scale;

    fn panel() -> Panel {
        let x = Axis::of("machines", Scale::Log(1.0, 16.0), plain);
        let y = Axis::of("samples/s", Scale::Linear(0.0, 10.0), plain);
        let mut panel = Panel::new("Throughput", x, y);
        panel.lines.push(Line::new(Stroke::Ideal, vec![(1.0, 1.0), (16.0, 16.0)]));
        let band = vec![[0.5, 1.5], [1.0, 3.0]];
        panel.lines.push(Line { band, ..Line::new(Stroke::Series(0), vec![(1.0, 1.0), (2.0, 2.0)]) });
        panel.labels = vec![
            Label { at: (1.0, 5.0), text: "first".into(), strong: true },
            Label { at: (1.0, 5.0), text: "second".into(), strong: false },
            Label { at: (1.0, 5.0), text: "third".into(), strong: false },
        ];
        panel.rules.push(Rule { at: 12.0, upright: true, text: "a limit".into(), colour: Colour::Orange });
        panel
    }

    #[test]
    fn a_figure_says_what_its_axes_and_colours_are_and_stays_inside() {
        for breadth in [Breadth::Wide, Breadth::Narrow] {
            let legend = (0..20).map(|number| (Sample::Series(number), format!("series {number}")));
            let picture = figure(breadth, "A title", legend.collect(), &[panel(), panel()]);
            let text = picture.text();
            for words in ["A title", "Throughput", "samples/s", "machines", "series 19", "a limit", "first"] {
                assert!(text.contains(words), "{words}: {text}");
            }
            assert!(picture.outside().is_empty(), "{breadth:?}: {:?}", picture.outside());
        }
    }

    #[test]
    fn labels_do_not_lie_on_each_other() {
        let text = figure(Breadth::Wide, "", Vec::new(), &[panel()]).text();
        assert!(text.contains("second") && !text.contains("third"), "{text}");
    }

    #[test]
    fn labels_lie_on_no_line_unless_they_are_strong() {
        let x = Axis::of("machines", Scale::Linear(0.0, 10.0), plain);
        let y = Axis::of("samples/s", Scale::Linear(0.0, 10.0), plain);
        let mut panel = Panel::new("", x, y);
        let label = |strong| Label { at: (5.0, 5.0), text: "sixteen machines".into(), strong };
        let drawn = |panel: &Panel| figure(Breadth::Wide, "", Vec::new(), std::slice::from_ref(panel)).text();
        panel.labels = vec![label(false)];
        // A line through the point leaves room on either side of it, a thicket of lines none.
        panel.lines = vec![Line::new(Stroke::Series(0), vec![(0.0, 5.0), (10.0, 5.0)])];
        assert!(drawn(&panel).contains("sixteen"));
        panel.lines =
            (0..40).map(|n| f64::from(n) / 4.0).map(|y| Line::new(Stroke::Ideal, vec![(0.0, y), (10.0, y)])).collect();
        assert!(!drawn(&panel).contains("sixteen"));
        panel.labels = vec![label(true)];
        assert!(drawn(&panel).contains("sixteen"));
    }

    #[test]
    fn a_line_crosses_an_area_or_passes_it() {
        let area = Area { left: 10, right: 30, top: 10, bottom: 20 };
        let crossing = [[(0, 0), (40, 30)], [(15, 15), (16, 15)], [(20, 0), (20, 40)], [(12, 12), (12, 12)]];
        let passing =
            [[(0, 0), (5, 40)], [(0, 20), (40, 40)], [(0, 10), (40, 10)], [(35, 12), (35, 12)], [(0, 25), (15, 25)]];
        assert!(crossing.into_iter().all(|ends| area.is_crossed(ends)));
        assert!(!passing.into_iter().any(|ends| area.is_crossed(ends)));
    }

    #[test]
    fn logarithmic_axes_say_so() {
        let text = figure(Breadth::Wide, "", Vec::new(), &[panel()]).text();
        assert!(text.contains("machines, log scale") && !text.contains("samples/s, log"), "{text}");
    }

    #[test]
    fn marks_have_no_needless_digits() {
        assert_eq!([0.5, 20.0, 1500.0].map(plain), ["0.5", "20", "1,500"]);
    }
}
