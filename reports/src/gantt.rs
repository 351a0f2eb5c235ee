//! What becomes of a queue as an SVG: a lane for each instance of the pool, and below it how many jobs wait. A fleet is
//! drawn as its queues, one below the other.

use crate::format::usd;
use crate::palette::{BLUE, INK, KINDS};
use crate::queue::{time, title};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use trainyard_plan::fleet::document::FleetDocument;
use trainyard_plan::queue::QueuedJobSpec;
use trainyard_plan::queue::document::{JobRun, QueueDocument};
use trainyard_units::human_count;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

const WIDTH: i32 = 1120;
const LEFT: i32 = 64;
const RIGHT: i32 = 24;
/// Title above the legend.
const HEAD: i32 = 44;
const LEGEND_LINE: i32 = 22;
/// Room for the words on the bound, above the lanes.
const STRIP: i32 = 20;
/// Room for the axis of time.
const FOOT: i32 = 52;
const WAITING_HEIGHT: i32 = 72;
const WAITING_GAP: i32 = 34;
/// All lanes together are about this high, each within these limits.
const LANES_HEIGHT: i32 = 640;
const LANE: std::ops::RangeInclusive<i32> = 2..=26;
/// A pool that is larger is drawn only up to the last instance that was held.
const LANES_OF_QUOTA: u32 = 64;
/// Marks on the axis of time, at most.
const MARKS: f64 = 12.0;
const SMALL: i32 = 11;
const TEXT: i32 = 13;

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;

/// The lanes and the time that they show.
struct Frame {
    top: i32,
    lane: i32,
    lanes: i32,
    /// Seconds from the left to the right.
    span: f64,
    /// Which colour the first kind of jobs has.
    first: usize,
}

/// When everything is over, in seconds.
fn span(document: &QueueDocument) -> f64 {
    let ends = document.jobs.iter().map(|run| run.end_s).chain(document.warm.iter().map(|wait| wait.end_s));
    ends.fold(f64::MIN_POSITIVE, f64::max)
}

/// What a picture has in common with others beside it.
#[derive(Clone, Copy)]
struct Among {
    /// Seconds from the left to the right.
    span: f64,
    /// Which colour the first kind of jobs has.
    first: usize,
}

impl Frame {
    fn of(document: &QueueDocument, top: i32, among: Among) -> Self {
        let used = document.jobs.iter().filter_map(|run| run.instances.iter().max()).max().map_or(0, |last| last + 1);
        let quota = document.queue.pool.max_instances;
        let lanes = count(if quota <= LANES_OF_QUOTA { quota } else { used });
        let lane = (LANES_HEIGHT / lanes.max(1)).clamp(*LANE.start(), *LANE.end());
        Self { top, lane, lanes, span: among.span, first: among.first }
    }

    /// The colour of a kind of jobs.
    fn colour(&self, kind: usize) -> RGBColor {
        KINDS[(self.first + kind) % KINDS.len()]
    }

    fn bottom(&self) -> i32 {
        self.top + self.lane * self.lanes
    }

    fn x(&self, seconds: f64) -> i32 {
        LEFT + (f64::from(WIDTH - LEFT - RIGHT) * seconds / self.span).round() as i32
    }

    /// The rectangles of some instances from one time to another: one for each run of neighbouring lanes.
    fn blocks(&self, places: &[u32], start: f64, end: f64) -> Vec<[(i32, i32); 2]> {
        let (left, right) = (self.x(start), self.x(end));
        // White between neighbours where there is room for it.
        let right = if right - left > 3 { right - 1 } else { right.max(left + 1) };
        let gap = i32::from(self.lane > 4);
        let runs = places.chunk_by(|a, b| a + 1 == *b);
        let block = |run: &[u32]| {
            let top = self.top + count(run[0]) * self.lane;
            [(left, top + gap), (right, top + count(run.len()) * self.lane - gap)]
        };
        runs.map(block).collect()
    }
}

/// The schedule of a queue as SVG. Each kind of jobs has a colour, lighter while its instances start; instances that are
/// kept warm are hatched.
///
/// # Errors
///
/// A sentence, if the queue cannot be drawn: it has no job.
pub fn gantt(document: &QueueDocument) -> Result<String, String> {
    drawn(document, Among { span: span(document), first: 0 }).map(|(svg, _)| svg)
}

/// The schedule of a fleet as SVG: its queues one below the other, over the same time, each kind of jobs in a colour of
/// its own.
///
/// # Errors
///
/// A sentence, if a queue cannot be drawn: it has no job.
pub fn fleet_gantt(document: &FleetDocument) -> Result<String, String> {
    let span = document.pools.iter().map(span).fold(f64::MIN_POSITIVE, f64::max);
    let (mut first, mut top, mut inner) = (0, 0, String::new());
    for pool in &document.pools {
        let (svg, height) = drawn(pool, Among { span, first })?;
        inner += &svg.replacen("<svg ", &format!("<svg y=\"{top}\" "), 1);
        top += height;
        first += pool.queue.jobs.len();
    }
    Ok(format!(
        "<svg width=\"{WIDTH}\" height=\"{top}\" viewBox=\"0 0 {WIDTH} {top}\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n{inner}</svg>\n"
    ))
}

/// The schedule of a queue and its height in pixels.
fn drawn(document: &QueueDocument, among: Among) -> Result<(String, u32), String> {
    if document.jobs.is_empty() {
        return Err("there is no job to draw".into());
    }
    let legend = Legend::of(document, among.first);
    let frame = Frame::of(document, HEAD + legend.lines() * LEGEND_LINE + STRIP, among);
    let waits = document.timeline.iter().any(|state| state.waiting > 0);
    let below = if waits { WAITING_GAP + WAITING_HEIGHT } else { 0 };
    let size = (WIDTH as u32, (frame.bottom() + below + FOOT) as u32);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let draw = || -> Drawn {
            root.fill(&WHITE)?;
            head(&root, document)?;
            legend.draw(&root)?;
            lanes(&root, &frame)?;
            axis(&root, &frame, frame.bottom() + below)?;
            warm(&root, &frame, document)?;
            jobs(&root, &frame, document)?;
            bound(&root, &frame, document)?;
            if waits {
                waiting(&root, &frame, document)?;
            }
            root.present()?;
            Ok(())
        };
        draw().map_err(|error| error.to_string())?;
    }
    Ok((svg, size.1))
}

/// A number of things as the plotting library counts pixels.
fn count(things: impl TryInto<i32>) -> i32 {
    things.try_into().unwrap_or(i32::MAX)
}

fn words(area: &Area<'_>, text: &str, at: (i32, i32), size: i32, (h, v): (HPos, VPos), colour: RGBColor) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&colour).pos(Pos::new(h, v));
    Ok(area.draw(&Text::new(text.to_owned(), at, style))?)
}

fn line(area: &Area<'_>, from: (i32, i32), to: (i32, i32), opacity: f64) -> Drawn {
    Ok(area.draw(&PathElement::new([from, to], INK.mix(opacity)))?)
}

fn head(area: &Area<'_>, document: &QueueDocument) -> Drawn {
    let prediction = &document.prediction;
    let cost = prediction.cost.map_or_else(String::new, |cost| format!(" · {}", usd(cost.total_usd)));
    words(area, &title(document), (LEFT, 20), 17, (HPos::Left, VPos::Center), INK)?;
    let summary = format!("{}{cost}", time(prediction.makespan_s));
    words(area, &summary, (WIDTH - RIGHT, 20), 17, (HPos::Right, VPos::Center), INK)
}

/// What the colours mean: a place on a line for each kind of jobs, then start-up and waiting.
struct Legend {
    entries: Vec<(Swatch, String, i32, i32)>,
}

#[derive(Clone, Copy)]
enum Swatch {
    Kind(usize),
    Starting,
    Warm,
    More,
}

impl Legend {
    fn of(document: &QueueDocument, first: usize) -> Self {
        let kinds = &document.queue.jobs;
        let name = |(index, kind): (usize, &QueuedJobSpec)| {
            let times = if kind.count > 1 { format!(" × {}", human_count(kind.count.into())) } else { String::new() };
            (Swatch::Kind((first + index) % KINDS.len()), format!("{}{times}", kind.name))
        };
        let mut named: Vec<(Swatch, String)> = kinds.iter().enumerate().take(KINDS.len()).map(name).collect();
        if kinds.len() > KINDS.len() {
            named.push((Swatch::More, format!("and {} more, in the same colours", kinds.len() - KINDS.len())));
        }
        named.push((Swatch::Starting, "start-up, then training".into()));
        if !document.warm.is_empty() {
            named.push((Swatch::Warm, "kept warm".into()));
        }
        let (mut x, mut row) = (LEFT, 0);
        let placed = named.into_iter().map(|(swatch, text)| {
            // Letters of this size are about 7 wide.
            let width = 24 + 7 * count(text.chars().count()) + 18;
            if x > LEFT && x + width > WIDTH - RIGHT {
                (x, row) = (LEFT, row + 1);
            }
            let at = x;
            x += width;
            (swatch, text, at, row)
        });
        Self { entries: placed.collect() }
    }

    fn lines(&self) -> i32 {
        self.entries.last().map_or(0, |(.., row)| row + 1)
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        for (swatch, text, x, row) in &self.entries {
            let middle = HEAD + row * LEGEND_LINE + 6;
            let corners = [(*x, middle - 6), (*x + 16, middle + 6)];
            match swatch {
                Swatch::Kind(kind) => area.draw(&Rectangle::new(corners, KINDS[*kind].filled()))?,
                Swatch::Starting => {
                    area.draw(&Rectangle::new(corners, KINDS[0].filled()))?;
                    area.draw(&Rectangle::new([corners[0], (x + 8, middle + 6)], tint(KINDS[0]).filled()))?;
                }
                Swatch::Warm => hatched(area, corners)?,
                Swatch::More => {}
            }
            words(area, text, (x + 22, middle), TEXT, (HPos::Left, VPos::Center), INK)?;
        }
        Ok(())
    }
}

/// The colour of instances that start for a job of this colour.
fn tint(colour: RGBColor) -> RGBColor {
    let lighter = |part: u8| 255 - (255 - part) / 3;
    RGBColor(lighter(colour.0), lighter(colour.1), lighter(colour.2))
}

/// A grey rectangle with lines across it; only grey where it is too low for lines.
fn hatched(area: &Area<'_>, [(left, top), (right, bottom)]: [(i32, i32); 2]) -> Drawn {
    area.draw(&Rectangle::new([(left, top), (right, bottom)], INK.mix(0.07).filled()))?;
    let height = bottom - top;
    if height < 6 {
        return Ok(());
    }
    for foot in (left - height..right).step_by(6) {
        let (from, to) = (foot.max(left), (foot + height).min(right));
        line(area, (from, bottom - (from - foot)), (to, bottom - (to - foot)), 0.35)?;
    }
    Ok(())
}

fn lanes(area: &Area<'_>, frame: &Frame) -> Drawn {
    // Numbers stand at least as far apart as they are high.
    let every = (SMALL + 3) / frame.lane + 1;
    for lane in 0..=frame.lanes {
        let y = frame.top + lane * frame.lane;
        if frame.lane > 4 || lane == 0 || lane == frame.lanes {
            line(area, (LEFT, y), (WIDTH - RIGHT, y), 0.10)?;
        }
        if lane < frame.lanes && lane % every == 0 {
            let at = (LEFT - 8, y + frame.lane / 2);
            words(area, &lane.to_string(), at, SMALL, (HPos::Right, VPos::Center), INK)?;
        }
    }
    upright(area, "instance", i32::midpoint(frame.top, frame.bottom()))
}

/// A name of a vertical axis, centred at this height.
fn upright(area: &Area<'_>, text: &str, y: i32) -> Drawn {
    let font = ("sans-serif", TEXT).into_font().transform(FontTransform::Rotate270);
    let style = font.color(&INK).pos(Pos::new(HPos::Center, VPos::Center));
    Ok(area.draw(&Text::new(text.to_owned(), (18, y), style))?)
}

/// Seconds between marks: the shortest customary step with which there are not too many.
fn step(span: f64) -> f64 {
    let minutes = [1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
    let steps = minutes.into_iter().chain(minutes.map(|m| m * MINUTE));
    let steps = steps.chain([1.0, 2.0, 3.0, 6.0, 12.0].map(|h| h * HOUR)).chain([1.0, 2.0, 7.0, 14.0].map(|d| d * DAY));
    let longer = std::iter::successors(Some(28.0 * DAY), |step| Some(step * 2.0));
    steps.chain(longer).find(|step| span / step <= MARKS).unwrap_or(span)
}

fn axis(area: &Area<'_>, frame: &Frame, bottom: i32) -> Drawn {
    let step = step(frame.span);
    let (unit, name) = match step {
        step if step < MINUTE / 2.0 => (1.0, "seconds"),
        step if step < HOUR / 2.0 => (MINUTE, "minutes"),
        step if step < DAY / 2.0 => (HOUR, "hours"),
        _ => (DAY, "days"),
    };
    for mark in 0..=(frame.span / step) as i32 {
        let x = frame.x(f64::from(mark) * step);
        line(area, (x, frame.top), (x, bottom + 4), 0.12)?;
        let text = format!("{}", f64::from(mark) * step / unit);
        words(area, &text, (x, bottom + 10), SMALL, (HPos::Center, VPos::Top), INK)?;
    }
    line(area, (LEFT, bottom), (WIDTH - RIGHT, bottom), 0.5)?;
    let text = format!("{name} since the start of the queue");
    words(area, &text, (i32::midpoint(LEFT, WIDTH - RIGHT), bottom + 28), TEXT, (HPos::Center, VPos::Top), INK)
}

fn warm(area: &Area<'_>, frame: &Frame, document: &QueueDocument) -> Drawn {
    for wait in &document.warm {
        for block in frame.blocks(&wait.instances, wait.start_s, wait.end_s) {
            hatched(area, block)?;
        }
    }
    Ok(())
}

fn jobs(area: &Area<'_>, frame: &Frame, document: &QueueDocument) -> Drawn {
    let kinds = &document.queue.jobs;
    for run in &document.jobs {
        let kind = kinds.iter().position(|kind| kind.name == run.name).unwrap_or(0);
        let colour = frame.colour(kind);
        if run.ready_s > run.start_s {
            for block in frame.blocks(&run.instances, run.start_s, run.ready_s) {
                area.draw(&Rectangle::new(block, tint(colour).filled()))?;
            }
        }
        let alone = kinds.get(kind).is_none_or(|kind| kind.count == 1);
        for block in frame.blocks(&run.instances, run.ready_s, run.end_s) {
            area.draw(&Rectangle::new(block, colour.filled()))?;
            label(area, block, run, alone, colour)?;
        }
    }
    Ok(())
}

/// The name of a job that is alone of its kind, the number of another, where there is room for it.
fn label(
    area: &Area<'_>,
    [(left, top), (right, bottom)]: [(i32, i32); 2],
    run: &JobRun,
    alone: bool,
    colour: RGBColor,
) -> Drawn {
    let text = if alone { run.name.clone() } else { run.number.to_string() };
    let room = 7 * count(text.chars().count()) + 4;
    if right - left < room || bottom - top < SMALL {
        return Ok(());
    }
    // Rec. 709 luma: dark letters on light colours.
    let luma = 0.2126 * f64::from(colour.0) + 0.7152 * f64::from(colour.1) + 0.0722 * f64::from(colour.2);
    let letters = if luma > 140.0 { INK } else { WHITE };
    let middle = (i32::midpoint(left, right), i32::midpoint(top, bottom));
    words(area, &text, middle, SMALL, (HPos::Center, VPos::Center), letters)
}

/// Before which time no schedule ends.
fn bound(area: &Area<'_>, frame: &Frame, document: &QueueDocument) -> Drawn {
    let first = document.jobs.iter().map(|run| run.submit_s).fold(f64::INFINITY, f64::min);
    let largest = document.prediction.bound.largest_s();
    let x = frame.x(first + largest);
    for y in (frame.top - 6..frame.bottom()).step_by(8) {
        area.draw(&PathElement::new([(x, y), (x, (y + 4).min(frame.bottom()))], INK.stroke_width(1)))?;
    }
    let text = format!("no schedule takes less than {}", time(largest));
    let (x, side) = if x > WIDTH / 2 { (x + 2, HPos::Right) } else { (x - 2, HPos::Left) };
    words(area, &text, (x, frame.top - 13), SMALL, (side, VPos::Center), INK)
}

/// How many jobs wait, over the same time.
fn waiting(area: &Area<'_>, frame: &Frame, document: &QueueDocument) -> Drawn {
    let top = frame.bottom() + WAITING_GAP;
    let bottom = top + WAITING_HEIGHT;
    let most = document.timeline.iter().map(|state| state.waiting).max().unwrap_or(0).max(1);
    let y = |jobs: u32| bottom - (f64::from(jobs) / f64::from(most) * f64::from(WAITING_HEIGHT)).round() as i32;
    let mut edge = vec![(LEFT, bottom)];
    for state in &document.timeline {
        let x = frame.x(state.time_s);
        edge.push((x, edge[edge.len() - 1].1));
        edge.push((x, y(state.waiting)));
    }
    edge.push((edge[edge.len() - 1].0, bottom));
    area.draw(&Polygon::new(edge.clone(), BLUE.mix(0.2)))?;
    area.draw(&PathElement::new(edge, BLUE.stroke_width(1)))?;
    for jobs in [0, most] {
        let at = (LEFT - 8, y(jobs));
        words(area, &human_count(jobs.into()), at, SMALL, (HPos::Right, VPos::Center), INK)?;
    }
    upright(area, "jobs waiting", i32::midpoint(top, bottom))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::document;

    #[test]
    fn a_schedule_is_drawn_with_its_axis_named_and_its_colours_explained() {
        let svg = gantt(&document(48)).expect("a queue with jobs");
        for text in
            ["hours since the start", "trial × 48", "start-up", "kept warm", "no schedule takes less", "jobs waiting"]
        {
            assert!(svg.contains(text), "{text}");
        }
        let empty = QueueDocument { jobs: Vec::new(), ..document(1) };
        assert!(gantt(&empty).is_err());
    }

    #[test]
    fn every_bar_lies_inside_the_picture() {
        let document = document(30);
        let frame = Frame::of(&document, 100, Among { span: span(&document), first: 0 });
        for run in &document.jobs {
            for [(left, top), (right, bottom)] in frame.blocks(&run.instances, run.start_s, run.end_s) {
                assert!(LEFT <= left && left < right && right <= WIDTH - RIGHT, "{run:?}");
                assert!(frame.top <= top && top < bottom && bottom <= frame.bottom(), "{run:?}");
            }
        }
    }

    #[test]
    fn marks_are_customary_steps_and_not_too_many() {
        assert!((step(8.0 * HOUR) - HOUR).abs() < 1e-9);
        assert!((step(40.0) - 5.0).abs() < 1e-9);
        for span in [1.0, 77.0, 5000.0, 3e5, 1e7, 1e9] {
            assert!(span / step(span) <= MARKS, "{span}");
        }
    }
}
