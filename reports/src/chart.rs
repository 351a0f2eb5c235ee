//! Panels of lines over a common width: axes that are linear, logarithmic or words, with their units.

use crate::palette::{INK, KINDS};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Drawn = Result<(), Box<dyn std::error::Error>>;

const WIDTH: i32 = 900;
const LEFT: i32 = 92;
const RIGHT: i32 = 28;
/// Title above everything.
const HEAD: i32 = 40;
const LEGEND_LINE: i32 = 22;
/// A panel: its name, its lines, its axis.
const PANEL_HEAD: i32 = 30;
const PANEL: i32 = 230;
const PANEL_FOOT: i32 = 58;
pub(crate) const SMALL: i32 = 12;
pub(crate) const TEXT: i32 = 13;
/// About how wide a letter of the small size is.
const LETTER: f64 = 6.6;
/// Marks on an axis, at most.
const MARKS: f64 = 6.0;
/// Series that the legend names; more are told as a number.
const NAMED: usize = 12;

/// How values lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// Equal distances for equal differences.
    Linear(f64, f64),
    /// Equal distances for equal ratios.
    Log(f64, f64),
}

/// A named axis with its marks.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// What it shows, with the unit.
    pub(crate) name: String,
    pub(crate) scale: Scale,
    pub(crate) marks: Vec<(f64, String)>,
}

/// Points that belong together, in order.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) points: Vec<(f64, f64)>,
    /// Which series it belongs to; none for an ideal, which is dashed and grey.
    pub(crate) series: Option<usize>,
    /// The 90 % interval at each point, if it is shown.
    pub(crate) band: Vec<[f64; 2]>,
    /// Whether there is anything between the points.
    pub(crate) joined: bool,
}

/// One picture below another.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) name: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
    /// Where there is nothing to draw, and why not in a word.
    pub(crate) missing: Vec<f64>,
    /// Words beside points.
    pub(crate) labels: Vec<((f64, f64), String)>,
}

impl Scale {
    /// From 0 to 1 along the axis.
    fn part(self, value: f64) -> f64 {
        let (low, high, at) = match self {
            Self::Linear(low, high) => (low, high, value),
            Self::Log(low, high) => (low.ln(), high.ln(), value.max(f64::MIN_POSITIVE).ln()),
        };
        if high > low { ((at - low) / (high - low)).clamp(-0.05, 1.05) } else { 0.5 }
    }

    /// Customary values along the axis: 1, 2 or 5 times a power of ten.
    pub(crate) fn round(self) -> Vec<f64> {
        match self {
            Self::Linear(low, high) => {
                let step = customary((high - low) / MARKS);
                let [first, last] =
                    [(low / step - 1e-9).ceil(), (high / step + 1e-9).floor()].map(|number| number as i64);
                (first..=last).map(|step_number| step_number as f64 * step).collect()
            }
            Self::Log(low, high) => {
                let decades = (high / low).log10();
                let parts: &[f64] = if decades > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let range = low.log10().floor() as i32..=high.log10().ceil() as i32;
                let every = (decades / MARKS).ceil().max(1.0) as i32;
                let powers = range.filter(|power| power.rem_euclid(every) == 0);
                let marks = powers.flat_map(|power| parts.iter().map(move |part| part * 10f64.powi(power)));
                marks.filter(|mark| (low * 0.999..=high * 1.001).contains(mark)).collect()
            }
        }
    }
}

/// The least of 1, 2 and 5 times a power of ten that is not below a distance.
pub(crate) fn customary(distance: f64) -> f64 {
    let power = 10f64.powf(distance.max(f64::MIN_POSITIVE).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|part| part * power)
        .find(|step| *step >= distance * 0.999)
        .unwrap_or(distance)
}

impl Axis {
    /// An axis with customary marks.
    pub(crate) fn of(name: &str, scale: Scale, label: impl Fn(f64) -> String) -> Self {
        Self { name: name.into(), scale, marks: scale.round().into_iter().map(|mark| (mark, label(mark))).collect() }
    }
}

/// The panels below each other, with what the series are above them, as SVG.
///
/// # Errors
///
/// A sentence, if there is nothing to draw.
pub(crate) fn draw(title: &str, legend: &[String], ideal: Option<&str>, panels: &[Panel]) -> Result<String, String> {
    let drawn = |line: &Line| line.series.is_some() && !line.points.is_empty();
    if !panels.iter().any(|panel| panel.lines.iter().any(drawn)) {
        return Err("there is no case with a plan to draw".into());
    }
    let entries = entries(legend, ideal);
    let lines = entries.last().map_or(0, |entry| entry.row + 1);
    let top = HEAD + lines * LEGEND_LINE;
    let height = top + count(panels.len()) * (PANEL_HEAD + PANEL + PANEL_FOOT);
    picture((WIDTH, height), |root| {
        words(root, title, (LEFT, 20), 17, (HPos::Left, VPos::Center))?;
        entries.iter().try_for_each(|entry| entry.draw(root))?;
        for (index, panel) in panels.iter().enumerate() {
            let top = top + count(index) * (PANEL_HEAD + PANEL + PANEL_FOOT) + PANEL_HEAD;
            Frame { top, panel }.draw(root)?;
        }
        Ok(())
    })
}

/// A number of things as the plotting library counts pixels.
pub(crate) fn count(things: usize) -> i32 {
    i32::try_from(things).unwrap_or(i32::MAX)
}

/// An SVG of this size.
pub(crate) fn picture((width, height): (i32, i32), content: impl Fn(&Area<'_>) -> Drawn) -> Result<String, String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (width as u32, height as u32)).into_drawing_area();
        let draw = || -> Drawn {
            root.fill(&WHITE)?;
            content(&root)?;
            root.present()?;
            Ok(())
        };
        draw().map_err(|error| error.to_string())?;
    }
    Ok(svg)
}

pub(crate) fn words(area: &Area<'_>, text: &str, at: (i32, i32), size: i32, (h, v): (HPos, VPos)) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&INK).pos(Pos::new(h, v));
    Ok(area.draw(&Text::new(text.to_owned(), at, style))?)
}

pub(crate) fn rule(area: &Area<'_>, from: (i32, i32), to: (i32, i32), opacity: f64) -> Drawn {
    Ok(area.draw(&PathElement::new([from, to], INK.mix(opacity)))?)
}

/// How wide a text of the small size is, about.
pub(crate) fn width(text: &str) -> i32 {
    (text.chars().count() as f64 * LETTER).ceil() as i32
}

/// What a colour means, and where that stands.
struct Entry {
    series: Option<usize>,
    text: String,
    x: i32,
    row: i32,
}

fn entries(legend: &[String], ideal: Option<&str>) -> Vec<Entry> {
    let mut named: Vec<(Option<usize>, String)> =
        legend.iter().take(NAMED).enumerate().map(|(series, name)| (Some(series), name.clone())).collect();
    if legend.len() > NAMED {
        named.push((None, format!("and {} more, in the same colours", legend.len() - NAMED)));
    }
    named.extend(ideal.map(|name| (None, name.to_owned())));
    let (mut x, mut row) = (LEFT, 0);
    let place = |(series, text): (Option<usize>, String)| {
        let room = 30 + width(&text) + 18;
        if x > LEFT && x + room > WIDTH - RIGHT {
            (x, row) = (LEFT, row + 1);
        }
        let at = x;
        x += room;
        Entry { series, text, x: at, row }
    };
    named.into_iter().map(place).collect()
}

impl Entry {
    fn draw(&self, area: &Area<'_>) -> Drawn {
        let middle = HEAD + self.row * LEGEND_LINE + 6;
        match self.series {
            Some(series) => {
                area.draw(&PathElement::new([(self.x, middle), (self.x + 22, middle)], stroke(series)))?;
                mark(area, (self.x + 11, middle), series)?;
            }
            None => dashed(area, (self.x, middle), (self.x + 22, middle))?,
        }
        words(area, &self.text, (self.x + 30, middle), SMALL, (HPos::Left, VPos::Center))
    }
}

fn stroke(series: usize) -> ShapeStyle {
    KINDS[series % KINDS.len()].stroke_width(2)
}

/// Six colours, and then the same again with another shape.
fn mark(area: &Area<'_>, (x, y): (i32, i32), series: usize) -> Drawn {
    let style = KINDS[series % KINDS.len()].filled();
    match series / KINDS.len() % 3 {
        0 => area.draw(&Circle::new((x, y), 4, style))?,
        1 => area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], style))?,
        _ => area.draw(&Polygon::new([(x, y - 5), (x + 5, y + 4), (x - 5, y + 4)], style))?,
    }
    Ok(())
}

/// A grey line with gaps.
fn dashed(area: &Area<'_>, from: (i32, i32), to: (i32, i32)) -> Drawn {
    const DASH: f64 = 6.0;
    let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
    let length = dx.hypot(dy);
    let at = |along: f64| {
        let part = (along / length.max(1.0)).min(1.0);
        (from.0 + (dx * part).round() as i32, from.1 + (dy * part).round() as i32)
    };
    let dashes = (length / (2.0 * DASH)).ceil() as i32;
    for dash in 0..dashes {
        let start = f64::from(dash) * 2.0 * DASH;
        rule(area, at(start), at(start + DASH), 0.7)?;
    }
    Ok(())
}

/// A panel at its place.
struct Frame<'a> {
    top: i32,
    panel: &'a Panel,
}

impl Frame<'_> {
    fn bottom(&self) -> i32 {
        self.top + PANEL
    }

    fn x(&self, value: f64) -> i32 {
        LEFT + (self.panel.x.scale.part(value) * f64::from(WIDTH - LEFT - RIGHT)).round() as i32
    }

    fn y(&self, value: f64) -> i32 {
        self.bottom() - (self.panel.y.scale.part(value) * f64::from(PANEL)).round() as i32
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        words(area, &self.panel.name, (LEFT, self.top - 12), TEXT + 1, (HPos::Left, VPos::Center))?;
        self.axes(area)?;
        for line in &self.panel.lines {
            self.line(area, line)?;
        }
        for value in &self.panel.missing {
            words(area, "no plan", (self.x(*value), self.bottom() - 10), SMALL, (HPos::Center, VPos::Center))?;
        }
        for ((x, y), text) in &self.panel.labels {
            let at = (self.x(*x), self.y(*y) - 12);
            let side = if at.0 + width(text) > WIDTH - RIGHT { HPos::Right } else { HPos::Left };
            words(area, text, at, SMALL, (side, VPos::Center))?;
        }
        Ok(())
    }

    fn axes(&self, area: &Area<'_>) -> Drawn {
        let (x, y) = (&self.panel.x, &self.panel.y);
        for (value, text) in &y.marks {
            let at = self.y(*value);
            rule(area, (LEFT, at), (WIDTH - RIGHT, at), 0.12)?;
            words(area, text, (LEFT - 8, at), SMALL, (HPos::Right, VPos::Center))?;
        }
        let mut free = 0;
        for (value, text) in &x.marks {
            let (at, half) = (self.x(*value), width(text) / 2);
            rule(area, (at, self.top), (at, self.bottom() + 4), 0.12)?;
            if at - half >= free {
                words(area, text, (at, self.bottom() + 9), SMALL, (HPos::Center, VPos::Top))?;
                free = at + half + 6;
            }
        }
        rule(area, (LEFT, self.bottom()), (WIDTH - RIGHT, self.bottom()), 0.5)?;
        let middle = i32::midpoint(LEFT, WIDTH - RIGHT);
        words(area, &x.name, (middle, self.bottom() + 28), TEXT, (HPos::Center, VPos::Top))?;
        let font = ("sans-serif", TEXT).into_font().transform(FontTransform::Rotate270);
        let style = font.color(&INK).pos(Pos::new(HPos::Center, VPos::Center));
        Ok(area.draw(&Text::new(y.name.clone(), (18, i32::midpoint(self.top, self.bottom())), style))?)
    }

    fn line(&self, area: &Area<'_>, line: &Line) -> Drawn {
        let places: Vec<(i32, i32)> = line.points.iter().map(|(x, y)| (self.x(*x), self.y(*y))).collect();
        let Some(series) = line.series else {
            return places.windows(2).try_for_each(|ends| dashed(area, ends[0], ends[1]));
        };
        if !line.joined {
            for ((x, _), [low, high]) in line.points.iter().zip(&line.band) {
                let ends = [(self.x(*x), self.y(*low)), (self.x(*x), self.y(*high))];
                area.draw(&PathElement::new(ends, KINDS[series % KINDS.len()].mix(0.35).stroke_width(3)))?;
            }
            return places.into_iter().try_for_each(|place| mark(area, place, series));
        }
        if places.len() > 1 && line.band.len() == places.len() {
            let side = |end: usize| line.points.iter().zip(&line.band).map(move |((x, _), band)| (*x, band[end]));
            let around = side(0).chain(side(1).collect::<Vec<_>>().into_iter().rev());
            let corners: Vec<(i32, i32)> = around.map(|(x, y)| (self.x(x), self.y(y))).collect();
            area.draw(&Polygon::new(corners, KINDS[series % KINDS.len()].mix(0.15)))?;
        }
        area.draw(&PathElement::new(places.clone(), stroke(series)))?;
        places.into_iter().try_for_each(|place| mark(area, place, series))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_customary_and_not_too_many() {
        assert_eq!(Scale::Linear(0.0, 10.0).round(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(Scale::Log(1.0, 10.0).round(), [1.0, 2.0, 5.0, 10.0]);
        for high in [0.003, 1.0, 7.7, 64.0, 1e9] {
            let marks = Scale::Linear(0.0, high).round();
            assert!((2..=8).contains(&marks.len()), "{high}: {marks:?}");
        }
        for high in [2.0, 30.0, 1e5, 1e20] {
            let marks = Scale::Log(1.0, high).round();
            assert!((2..=12).contains(&marks.len()), "{high}: {marks:?}");
        }
    }

    #[test]
    fn values_lie_in_order_along_an_axis() {
        for scale in [Scale::Linear(0.0, 100.0), Scale::Log(1.0, 100.0)] {
            let parts = [1.0, 3.0, 10.0, 99.0].map(|value| scale.part(value));
            assert!(parts.windows(2).all(|pair| pair[0] < pair[1]), "{scale:?}: {parts:?}");
        }
        assert!((Scale::Log(1.0, 100.0).part(10.0) - 0.5).abs() < 1e-12);
    }
}
