//! A simulated queue as a Gantt chart: a lane for each instance of the pool, and below it how many jobs wait.

use super::page::{time, title};
use super::{JobRun, QueueDocument, QueuedJobSpec};
use trainyard_planner::usd;
use trainyard_reports::chart::{
    Colour, HEAD, KINDS, Legend, Letters, MARGIN, Picture, Sample, Side, calendar, count, measure, shortened,
};
use trainyard_units::{counted, human_count};

/// Width in pixels; wider than other pictures, because lanes are long.
const WIDTH: i32 = 1120;
const LEFT: i32 = MARGIN;
const RIGHT: i32 = MARGIN;
/// Height of the words on the bound, above the lanes.
const STRIP: i32 = 26;
/// Height of the time axis.
const FOOT: i32 = 52;
const WAITING_HEIGHT: i32 = 72;
const WAITING_GAP: i32 = 34;
/// Approximate height of all lanes together; each lane keeps to these limits.
const LANES_HEIGHT: i32 = 640;
const LANE: std::ops::RangeInclusive<i32> = 2..=26;
/// Number of instances above which a pool is drawn only up to the last instance that was held.
const LANES_OF_QUOTA: u32 = 64;
/// Maximum number of marks on the time axis.
const MARKS: f64 = 12.0;

/// The lanes and the time that they show.
struct Frame {
    top: i32,
    lane: i32,
    lanes: i32,
    /// Seconds from the left edge to the right.
    span: f64,
    /// Index of the colour of the first kind of jobs.
    first: usize,
    of_fleet: bool,
}

/// Returns the time at which everything is over, in seconds.
fn span(document: &QueueDocument) -> f64 {
    let ends = document.jobs.iter().map(|run| run.end_s).chain(document.warm.iter().map(|wait| wait.end_s));
    ends.fold(f64::MIN_POSITIVE, f64::max)
}

/// The settings that a picture shares with others beside it.
#[derive(Clone, Copy)]
struct Among {
    /// Seconds from the left edge to the right.
    span: f64,
    /// Index of the colour of the first kind of jobs.
    first: usize,
    /// `true` if this is one of the queues of a fleet, whose clock they share.
    of_fleet: bool,
}

impl Frame {
    fn of(document: &QueueDocument, top: i32, among: Among) -> Self {
        let used = document.jobs.iter().filter_map(|run| run.instances.iter().max()).max().map_or(0, |last| last + 1);
        let quota = document.queue.pool.quota();
        let lanes = count(if quota <= LANES_OF_QUOTA { quota } else { used });
        let lane = (LANES_HEIGHT / lanes.max(1)).clamp(*LANE.start(), *LANE.end());
        Self { top, lane, lanes, span: among.span, first: among.first, of_fleet: among.of_fleet }
    }

    /// Returns the colour of a kind of jobs.
    fn colour(&self, kind: usize) -> Colour {
        KINDS[(self.first + kind) % KINDS.len()]
    }

    fn bottom(&self) -> i32 {
        self.top + self.lane * self.lanes
    }

    fn x(&self, seconds: f64) -> i32 {
        LEFT + (f64::from(WIDTH - LEFT - RIGHT) * seconds / self.span).round() as i32
    }

    /// Returns the rectangles of some instances from one time to another: one for each run of neighbouring lanes.
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

/// Draws the schedule of a queue. Each kind of jobs has a colour, lighter while its instances start; instances that are
/// kept warm are hatched.
///
/// # Errors
///
/// Returns a sentence if the queue cannot be drawn: it has no job.
pub fn gantt(document: &QueueDocument) -> Result<Picture, String> {
    drawn(document, Among { span: span(document), first: 0, of_fleet: false })
}

/// Draws queues one below the other, over the same time, each kind of jobs in a colour of its own.
///
/// # Errors
///
/// Returns a sentence if a queue cannot be drawn: it has no job.
pub(crate) fn gantts(documents: &[QueueDocument]) -> Result<Picture, String> {
    let span = documents.iter().map(span).fold(f64::MIN_POSITIVE, f64::max);
    let (mut first, mut all) = (0, None::<Picture>);
    for document in documents {
        let picture = drawn(document, Among { span, first, of_fleet: true })?;
        all = Some(match all {
            None => picture,
            Some(above) => above.above(picture),
        });
        first += document.queue.jobs.len();
    }
    all.ok_or_else(|| "there is no queue to draw".into())
}

fn drawn(document: &QueueDocument, among: Among) -> Result<Picture, String> {
    if document.jobs.is_empty() {
        return Err("there is no job to draw".into());
    }
    let legend = legend(document, among.first);
    let frame = Frame::of(document, HEAD + legend.height() + STRIP, among);
    let waits = document.timeline.iter().any(|state| state.waiting > 0);
    let below = if waits { WAITING_GAP + WAITING_HEIGHT } else { 0 };
    let mut picture = Picture::new(title(document), (WIDTH, frame.bottom() + below + FOOT));
    head(&mut picture, document, among.of_fleet);
    legend.draw(&mut picture, HEAD);
    lanes(&mut picture, &frame, document.queue.pool.noun());
    axis(&mut picture, &frame, frame.bottom() + below);
    for wait in &document.warm {
        for block in frame.blocks(&wait.instances, wait.start_s, wait.end_s) {
            picture.hatched(block, Colour::Muted);
        }
    }
    jobs(&mut picture, &frame, document);
    bound(&mut picture, &frame, document);
    if waits {
        waiting(&mut picture, &frame, document);
    }
    Ok(picture)
}

/// Writes the title, with how long the queue takes; of a fleet's, which begin at different times, with when it ends.
fn head(picture: &mut Picture, document: &QueueDocument, of_fleet: bool) {
    let prediction = &document.prediction;
    let cost = prediction.cost.map_or_else(String::new, |cost| format!(" · {}", usd(cost.total_usd)));
    let end = document.jobs.iter().map(|run| run.end_s).fold(0.0, f64::max);
    let took = if of_fleet { format!("ends after {}", time(end)) } else { time(prediction.makespan_s) };
    let summary = format!("{took}{cost}");
    let room = WIDTH - RIGHT - LEFT - measure(&summary, Letters::TITLE) - 24;
    picture.words(shortened(&title(document), Letters::TITLE, room), (LEFT, 22), Side::Left, Letters::TITLE);
    picture.words(summary, (WIDTH - RIGHT, 22), Side::Right, Letters::TITLE);
}

/// Lays out the legend: an entry for each kind of jobs, then start-up and waiting.
fn legend(document: &QueueDocument, first: usize) -> Legend {
    let kinds = &document.queue.jobs;
    let name = |(index, kind): (usize, &QueuedJobSpec)| {
        let times = if kind.count > 1 { format!(" × {}", human_count(kind.count.into())) } else { String::new() };
        (Sample::Block(KINDS[(first + index) % KINDS.len()].into()), format!("{}{times}", kind.name))
    };
    let mut named: Vec<(Sample, String)> = kinds.iter().enumerate().take(KINDS.len()).map(name).collect();
    if kinds.len() > KINDS.len() {
        named.push((Sample::Words, format!("and {} more, in the same colours", kinds.len() - KINDS.len())));
    }
    named.push((Sample::Starting(KINDS[first % KINDS.len()]), "start-up, then training".into()));
    if document.warm.iter().any(|wait| wait.end_s > wait.start_s) {
        named.push((Sample::Hatched, "kept warm".into()));
    }
    Legend::of([LEFT, WIDTH - RIGHT], named)
}

fn lanes(picture: &mut Picture, frame: &Frame, noun: &str) {
    let text = format!("{}, one lane each", counted(frame.lanes.unsigned_abs().into(), noun));
    picture.words(text, (LEFT, frame.top - 13), Side::Left, Letters::MUTED);
    picture.bar([(LEFT, frame.top), (WIDTH - RIGHT, frame.bottom())], Colour::Grid.at(0.4));
}

fn axis(picture: &mut Picture, frame: &Frame, bottom: i32) {
    let (marks, unit) = calendar(frame.span, MARKS);
    for (seconds, text) in marks {
        let x = frame.x(seconds);
        picture.line((x, frame.top), (x, bottom + 4), Colour::Grid);
        let half = measure(&text, Letters::MUTED) / 2;
        picture.words(text, (x.clamp(half, WIDTH - half), bottom + 14), Side::Middle, Letters::MUTED);
    }
    picture.line((LEFT, bottom), (WIDTH - RIGHT, bottom), Colour::Muted);
    let text = format!("{unit} since the start of the {}", if frame.of_fleet { "fleet" } else { "queue" });
    picture.words(text, (i32::midpoint(LEFT, WIDTH - RIGHT), bottom + 34), Side::Middle, Letters::MUTED);
}

fn jobs(picture: &mut Picture, frame: &Frame, document: &QueueDocument) {
    let kinds = &document.queue.jobs;
    for run in &document.jobs {
        let kind = kinds.iter().position(|kind| kind.name == run.name).unwrap_or(0);
        let colour = frame.colour(kind);
        if run.ready_s > run.start_s {
            for block in frame.blocks(&run.instances, run.start_s, run.ready_s) {
                picture.bar(block, Colour::Paper);
                picture.bar(block, colour.at(0.35));
            }
        }
        let alone = kinds.get(kind).is_none_or(|kind| kind.count == 1);
        for block in frame.blocks(&run.instances, run.ready_s, run.end_s) {
            picture.bar(block, colour);
            label(picture, block, run, alone, colour);
        }
    }
}

/// Labels a job where there is room: with its name if it is the only one of its kind, otherwise with its number.
fn label(
    picture: &mut Picture,
    [(left, top), (right, bottom)]: [(i32, i32); 2],
    run: &JobRun,
    alone: bool,
    on: Colour,
) {
    let text = if alone { run.name.clone() } else { run.number.to_string() };
    let letters = Letters::PLAIN.of(on.letters());
    if right - left < measure(&text, letters) + 4 || bottom - top < letters.size {
        return;
    }
    picture.words(text, (i32::midpoint(left, right), i32::midpoint(top, bottom)), Side::Middle, letters);
}

/// Draws the lower bound: the time before which no schedule ends.
fn bound(picture: &mut Picture, frame: &Frame, document: &QueueDocument) {
    let first = document.jobs.iter().map(|run| run.submit_s).fold(f64::INFINITY, f64::min);
    let largest = document.prediction.bound.largest_s();
    let x = frame.x(first + largest);
    picture.dashed((x, frame.top - 6), (x, frame.bottom()), Colour::Ink);
    let text = if frame.of_fleet {
        format!("no schedule ends before {}", time(first + largest))
    } else {
        format!("no schedule takes less than {}", time(largest))
    };
    let (x, side) = if x > WIDTH / 2 { (x + 2, Side::Right) } else { (x - 2, Side::Left) };
    picture.words(text, (x, frame.top - 13), side, Letters::PLAIN);
}

/// Draws the number of waiting jobs over the same time.
fn waiting(picture: &mut Picture, frame: &Frame, document: &QueueDocument) {
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
    picture.area(edge.clone(), Colour::Blue.at(0.2));
    picture.path(edge, Colour::Blue, 1);
    let text = format!("jobs waiting, at most {}", human_count(most.into()));
    picture.words(text, (LEFT, top - 10), Side::Left, Letters::MUTED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::page::tests::document;

    #[test]
    fn a_schedule_is_drawn_with_its_axis_named_and_its_colours_explained() {
        let picture = gantt(&document(48)).expect("a queue with jobs");
        for text in
            ["hours since the start", "trial × 48", "start-up", "kept warm", "no schedule takes less", "jobs waiting"]
        {
            assert!(picture.text().contains(text), "{text}");
        }
        assert!(picture.outside().is_empty(), "{:?}", picture.outside());
        let empty = QueueDocument { jobs: Vec::new(), ..document(1) };
        assert!(gantt(&empty).is_err());
    }

    #[test]
    fn every_bar_lies_inside_the_picture() {
        let document = document(30);
        let frame = Frame::of(&document, 100, Among { span: span(&document), first: 0, of_fleet: false });
        for run in &document.jobs {
            for [(left, top), (right, bottom)] in frame.blocks(&run.instances, run.start_s, run.end_s) {
                assert!(LEFT <= left && left < right && right <= WIDTH - RIGHT, "{run:?}");
                assert!(frame.top <= top && top < bottom && bottom <= frame.bottom(), "{run:?}");
            }
        }
    }
}
