//! A step as a Gantt chart: stages below each other, time to the right. What a stage computes is a bar with the number of
//! its micro-batch; below it, thinner, what it sends and reduces meanwhile; what is left of the lane is idle. Where there are
//! too many bars to draw, kinds are stacked by their share of each short stretch of time.

use crate::chart::{
    Axis, Breadth, Colour, HEAD, Legend, Letters, MARGIN, Picture, Sample, Scale, Side, count, measure, plain,
    time_unit, title,
};
use crate::format::{percent, seconds};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_plan::{Activity, Interval, StageId, StreamKind, Timeline};

/// Approximate height of all lanes together; each lane keeps to these limits.
const LANES_HEIGHT: i32 = 520;
const LANE: std::ops::RangeInclusive<i32> = 4..=26;
/// Fraction of a lane that is for communication, if there is some.
const THIN: f64 = 0.3;
const FOOT: i32 = 50;

/// The kind of a bar, which sets its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Forward,
    Backward,
    BackwardWeights,
    Update,
    Communication,
    Copy,
}

const KINDS: [(Kind, &str, Colour); 6] = [
    (Kind::Forward, "forward", Colour::Blue),
    (Kind::Backward, "backward", Colour::Green),
    (Kind::BackwardWeights, "gradients of weights", Colour::Sky),
    (Kind::Update, "optimizer", Colour::Amber),
    (Kind::Communication, "communication", Colour::Orange),
    (Kind::Copy, "copies to and from the machine", Colour::Purple),
];

impl Kind {
    /// Returns the kind of an activity; `None` for waiting, which is the blank between bars.
    fn of(activity: Activity) -> Option<Self> {
        match activity {
            Activity::Forward { .. } => Some(Self::Forward),
            Activity::Backward { .. } => Some(Self::Backward),
            Activity::BackwardWeights { .. } => Some(Self::BackwardWeights),
            Activity::Update { .. } => Some(Self::Update),
            Activity::Copy { .. } => Some(Self::Copy),
            Activity::Wait { .. } => None,
            _ => Some(Self::Communication),
        }
    }

    fn colour(self) -> Colour {
        KINDS.iter().find(|(kind, ..)| *kind == self).map_or(Colour::Ink, |(.., colour)| *colour)
    }
}

/// A bar, in pixels from the left edge of the lanes.
#[derive(Clone, Debug, PartialEq)]
struct Block {
    kind: Kind,
    from: i32,
    to: i32,
    /// The micro-batch, if the bar is one pass of one.
    number: Option<u32>,
    /// The part of the lane's height that it takes, from the bottom, in [`PARTS`] of it.
    part: [i32; 2],
}

/// Shares of a stretch are drawn to so many parts of a lane's height.
const PARTS: i32 = 32;

/// The whole height of a lane.
const WHOLE: [i32; 2] = [0, PARTS];

impl Block {
    fn letters(&self) -> Letters {
        Letters::PLAIN.of(self.kind.colour().letters())
    }

    /// Returns `true` if the number, if there is one, fits into the bar.
    fn fits_number(&self) -> bool {
        let wide = |number: u32| measure(&number.to_string(), self.letters()) + 4;
        self.number.is_none_or(|number| self.to - self.from >= wide(number))
    }
}

/// Draws when the stages of a plan compute and communicate in a step, on the first rank of each.
///
/// # Errors
///
/// Returns a sentence if nothing took time.
pub fn step_gantt(name: &str, timeline: &Timeline, breadth: Breadth) -> Result<Picture, String> {
    let end = timeline.intervals.iter().map(|interval| interval.end).max().map_or(0.0, |end| end.seconds().0);
    let stages: Vec<StageId> = timeline.stage_use().iter().map(|used| used.stage).collect();
    if end <= 0.0 || stages.is_empty() {
        return Err("there is no step with a time to draw".into());
    }
    let present: Vec<Kind> = timeline.intervals.iter().filter_map(|own| Kind::of(own.activity)).collect();
    let legend = KINDS.iter().filter(|(kind, ..)| present.contains(kind));
    let legend = legend.map(|(_, name, colour)| (Sample::Block((*colour).into()), (*name).to_owned()));
    let legend = legend.chain([(Sample::Block(Colour::Grid.into()), "idle".into())]);
    let legend = Legend::of([MARGIN, breadth.width() - MARGIN], legend);
    let aside = present.iter().any(|kind| *kind >= Kind::Communication);
    let frame = Frame::of(breadth, HEAD + legend.height() + 26, stages.len(), end, aside);
    let mut picture = Picture::new(name, (breadth.width(), frame.bottom() + FOOT));
    title(&mut picture, name);
    legend.draw(&mut picture, HEAD);
    let text = format!("step {}, device of each stage computing:", seconds(timeline.step_time().0));
    picture.words(text, (frame.right, frame.top - 12), Side::Right, Letters::MUTED);
    let (lanes, is_exact) = lanes(timeline, &frame);
    frame.axis(&mut picture, is_exact);
    for (row, used) in timeline.stage_use().iter().enumerate() {
        frame.lane(&mut picture, row, used.stage, &lanes);
        let text = percent(used.utilisation);
        if frame.names(row) {
            picture.words(text, (breadth.width() - MARGIN, frame.middle(row)), Side::Right, Letters::MUTED);
        }
    }
    if let Some((start, end)) = timeline.window {
        for at in [start, end] {
            let x = frame.left + frame.x(at.seconds().0);
            picture.dashed((x, frame.top - 4), (x, frame.bottom()), Colour::Ink);
        }
    }
    Ok(picture)
}

/// Maximum number of bars that are drawn.
const BARS: usize = 6000;

/// The part of all activities that may be left out for being too short between others of another kind.
const DROPPED: f64 = 0.05;

/// Bars of each stage: those of computing (`true`), and all others.
type Lanes = BTreeMap<(StageId, bool), Vec<Block>>;

/// Returns the bars of each stage, as exactly as their number allows, and whether each is one activity.
fn lanes(timeline: &Timeline, frame: &Frame) -> (Lanes, bool) {
    let (exact, dropped) = exactly(timeline, frame);
    let bars = |lanes: &Lanes| lanes.values().map(Vec::len).sum::<usize>();
    if bars(&exact) <= BARS && dropped <= DROPPED * timeline.intervals.len() as f64 {
        return (exact, true);
    }
    let coarser = (0..).map(|doublings| coarsely(timeline, frame, 1 << doublings));
    let width = frame.right - frame.left;
    let found = coarser.take(width.max(2).ilog2() as usize).find(|lanes| bars(lanes) <= BARS);
    (found.unwrap_or_default(), false)
}

/// Returns the stage, whether it computes, and the kind of an interval.
fn lane_of(interval: &Interval) -> Option<((StageId, bool), Kind)> {
    let kind = Kind::of(interval.activity)?;
    let computing = matches!(interval.stream, StreamKind::Compute(_)) && kind < Kind::Communication;
    Some(((interval.stream.stage(), computing), kind))
}

/// Returns pieces of `piece` pixels, in each of which kinds are stacked by their share of its time.
fn coarsely(timeline: &Timeline, frame: &Frame, piece: i32) -> Lanes {
    let pieces = ((frame.right - frame.left) / piece + 1) as usize;
    let seconds = frame.span * f64::from(piece) / f64::from(frame.right - frame.left);
    let mut spent: BTreeMap<(StageId, bool), Vec<[f64; KINDS.len()]>> = BTreeMap::new();
    for interval in &timeline.intervals {
        let Some((lane, kind)) = lane_of(interval) else { continue };
        let own = spent.entry(lane).or_insert_with(|| vec![[0.0; KINDS.len()]; pieces]);
        let (start, end) = (interval.start.seconds().0 / seconds, interval.end.seconds().0 / seconds);
        let first = start as usize;
        for (piece, own) in (first..end.ceil() as usize).zip(own.iter_mut().skip(first)) {
            own[kind as usize] += end.min(piece as f64 + 1.0) - start.max(piece as f64);
        }
    }
    // A lane of several streams may be busy for more than the whole time.
    let height = |share: f64| (share.min(1.0) * f64::from(PARTS)).round() as i32;
    let part = |spent: &[f64; KINDS.len()], kind: usize| {
        let below = spent[..kind].iter().sum::<f64>();
        [below, below + spent[kind]].map(height)
    };
    let runs = |own: &[[f64; KINDS.len()]], kind: usize| -> Vec<Block> {
        let parts: Vec<(i32, [i32; 2])> = (0..).zip(own.iter().map(|spent| part(spent, kind))).collect();
        let runs = parts.chunk_by(|one, other| one.1 == other.1);
        let drawn = runs.filter(|run| run[0].1[0] < run[0].1[1]);
        let block = |run: &[(i32, [i32; 2])]| {
            let to = ((run[0].0 + count(run.len())) * piece).min(frame.right - frame.left);
            Block { kind: KINDS[kind].0, from: run[0].0 * piece, to, number: None, part: run[0].1 }
        };
        drawn.map(block).collect()
    };
    let stacked = |own: Vec<[f64; KINDS.len()]>| (0..KINDS.len()).flat_map(|kind| runs(&own, kind)).collect();
    spent.into_iter().map(|(lane, own)| (lane, stacked(own))).collect()
}

/// Returns every bar, and the number of those that are left out; those that would be too thin to tell apart are merged.
fn exactly(timeline: &Timeline, frame: &Frame) -> (Lanes, f64) {
    let mut dropped = 0.0;
    let mut intervals: Vec<&Interval> = timeline.intervals.iter().collect();
    intervals.sort_by_key(|interval| (interval.start, interval.end));
    let mut lanes = Lanes::new();
    for interval in intervals {
        let Some(((stage, computing), kind)) = lane_of(interval) else { continue };
        let (from, to) = (frame.x(interval.start.seconds().0), frame.x(interval.end.seconds().0));
        let lane = lanes.entry((stage, computing)).or_default();
        let number = match interval.activity {
            Activity::Forward { micro_batch, .. }
            | Activity::Backward { micro_batch, .. }
            | Activity::BackwardWeights { micro_batch, .. } => Some(micro_batch),
            _ => None,
        };
        let thin = |from: i32, to: i32| to - from < 3;
        match lane.last_mut() {
            Some(last) if last.kind == kind && from <= last.to && thin(last.from, last.to) && thin(from, to) => {
                (last.to, last.number) = (last.to.max(to), None);
            }
            // One lane shows several streams: a bar inside another is not drawn.
            Some(last) if !computing && last.kind == kind && to <= last.to => {}
            // The shortest bars stay visible, except beside others as short.
            Some(last) if to == from && last.to >= to => dropped += 1.0,
            _ => lane.push(Block { kind, from, to: to.max(from + 1), number, part: WHOLE }),
        }
    }
    (lanes, dropped)
}

/// The lanes and the time that they show.
struct Frame {
    left: i32,
    right: i32,
    top: i32,
    lane: i32,
    gap: i32,
    lanes: i32,
    span: f64,
    /// `true` if lanes have room for activities beside computing.
    aside: bool,
}

impl Frame {
    fn of(breadth: Breadth, top: i32, stages: usize, span: f64, aside: bool) -> Self {
        let lanes = count(stages);
        let whole = (LANES_HEIGHT / lanes.max(1)).clamp(*LANE.start(), *LANE.end());
        let gap = if whole > 8 { 4 } else { 1 };
        let last = format!("stage {}", stages.saturating_sub(1));
        let left = MARGIN + measure(&last, Letters::PLAIN) + 8;
        let right = breadth.width() - MARGIN - measure("100.0 %", Letters::MUTED) - 8;
        Self { left, right, top, lane: whole, gap, lanes, span, aside }
    }

    fn bottom(&self) -> i32 {
        self.top + self.lanes * (self.lane + self.gap)
    }

    /// Returns the pixels from the left edge of the lanes.
    fn x(&self, seconds: f64) -> i32 {
        (seconds / self.span * f64::from(self.right - self.left)).round() as i32
    }

    fn middle(&self, row: usize) -> i32 {
        self.top + count(row) * (self.lane + self.gap) + self.lane / 2
    }

    /// Returns `true` if there is room for the name of a stage: thin lanes name only some.
    fn names(&self, row: usize) -> bool {
        let every = (14 / (self.lane + self.gap)) as usize + 1;
        row.is_multiple_of(every)
    }

    fn lane(&self, picture: &mut Picture, row: usize, stage: StageId, lanes: &Lanes) {
        let top = self.top + count(row) * (self.lane + self.gap);
        let thin = if self.aside { (f64::from(self.lane) * THIN).round() as i32 } else { 0 };
        let [computing, aside] = [[top, top + self.lane - thin], [top + self.lane - thin, top + self.lane]];
        picture.bar([(self.left, top), (self.right, computing[1])], Colour::Grid.at(0.8));
        if self.names(row) {
            let name = format!("stage {}", stage.0);
            picture.words(name, (self.left - 8, self.middle(row)), Side::Right, Letters::PLAIN);
        }
        for (is_computing, [top, bottom]) in [(true, computing), (false, aside)] {
            let blocks = || lanes.get(&(stage, is_computing)).into_iter().flatten();
            // Numbers on only some of a kind's bars are worse than none.
            let unnumbered: BTreeSet<Kind> =
                blocks().filter(|block| !block.fits_number()).map(|block| block.kind).collect();
            for block in blocks() {
                let (from, to) = (self.left + block.from, self.left + block.to);
                // The background shows between neighbours where there is room for it.
                let is_apart = to - from > 4 && is_computing && block.part == WHOLE;
                let right = if is_apart { to - 1 } else { to };
                let [low, high] = block.part.map(|part| bottom - ((bottom - top) * part + PARTS / 2) / PARTS);
                picture.bar([(from, high), (right.min(self.right), low)], block.kind.colour());
                let has_room = is_computing && bottom - top >= 12 && !unnumbered.contains(&block.kind);
                let Some(number) = block.number.filter(|_| has_room) else { continue };
                let at = (i32::midpoint(from, to), i32::midpoint(top, bottom));
                picture.words(number.to_string(), at, Side::Middle, block.letters());
            }
        }
    }

    fn axis(&self, picture: &mut Picture, is_exact: bool) {
        let (unit, name) = time_unit(self.span);
        let axis = Axis::of(name, Scale::Linear(0.0, self.span / unit), plain);
        for (value, text) in &axis.marks {
            let x = self.left + self.x(value * unit);
            picture.line((x, self.top - 2), (x, self.bottom() + 4), Colour::Grid);
            picture.words(text.as_str(), (x, self.bottom() + 13), Side::Middle, Letters::MUTED);
        }
        let stacked = if is_exact { "" } else { "; passes too short to draw are stacked by their share of the time" };
        let text = format!("{name} since the start of the step{stacked}");
        let middle = i32::midpoint(self.left, self.right);
        picture.words(text, (middle, self.bottom() + 33), Side::Middle, Letters::MUTED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_units::Instant;

    /// Returns GPipe over stages, with passes of a millisecond and sends of half a millisecond.
    fn timeline(stages: u32, micro_batches: u32) -> Timeline {
        let at = |half: u32| Instant::from_nanoseconds(u64::from(half) * 500_000);
        let mut intervals = Vec::new();
        for stage in (0..stages).map(StageId) {
            for micro_batch in 0..micro_batches {
                let start = 2 * (stage.0 + micro_batch);
                let back = 2 * (2 * stages + micro_batches - stage.0 + micro_batch);
                let passes = [
                    (Activity::Forward { stage, micro_batch }, StreamKind::Compute(stage), start, 2),
                    (Activity::SendActivations { stage, micro_batch }, StreamKind::SendForward(stage), start + 2, 1),
                    (Activity::Backward { stage, micro_batch }, StreamKind::Compute(stage), back, 2),
                ];
                intervals.extend(passes.map(|(activity, stream, start, length)| Interval {
                    activity,
                    stream,
                    start: at(start),
                    end: at(start + length),
                }));
            }
        }
        Timeline { intervals, window: None }
    }

    #[test]
    fn stages_and_micro_batches_are_named_and_idle_time_is_explained() {
        for breadth in [Breadth::Wide, Breadth::Narrow] {
            let picture = step_gantt("gpt2", &timeline(4, 8), breadth).expect("a step");
            for words in ["stage 3", "forward", "backward", "communication", "idle", "ms since the start", "7", "%"] {
                assert!(picture.text().contains(words), "{words}: {}", picture.text());
            }
            assert!(!picture.text().contains("optimizer"), "there is no update");
            assert!(picture.outside().is_empty(), "{:?}", picture.outside());
        }
        assert!(step_gantt("nothing", &Timeline::default(), Breadth::Wide).is_err());
    }

    #[test]
    fn thousands_of_passes_are_few_bars() {
        let many = timeline(8, 4000);
        let picture = step_gantt("gpt2", &many, Breadth::Wide).expect("a step");
        assert!(many.intervals.len() > 90_000 && picture.shapes.len() < 10_000, "{}", picture.shapes.len());
        // In turn, as with 1F1B, they are too many.
        let in_turn = |(number, own): (usize, &Interval)| match (own.activity, number % 2) {
            (Activity::Forward { stage, micro_batch }, 0) => {
                Interval { activity: Activity::Backward { stage, micro_batch }, ..*own }
            }
            _ => *own,
        };
        let intervals = many.intervals.iter().enumerate().map(in_turn).collect();
        let picture = step_gantt("gpt2", &Timeline { intervals, window: None }, Breadth::Wide).expect("a step");
        assert!(picture.shapes.len() < 10_000 && picture.text().contains("stacked by their share"));
        assert!(picture.outside().is_empty());
    }

    #[test]
    fn what_is_drawn_coarsely_is_about_what_is_drawn_exactly() {
        let timeline = timeline(4, 8);
        let frame = Frame::of(Breadth::Wide, 60, 4, 24e-3, true);
        let area = |lanes: &Lanes, kind: Kind| -> f64 {
            let blocks = lanes.values().flatten().filter(|block| block.kind == kind);
            blocks
                .map(|block| f64::from((block.to - block.from) * (block.part[1] - block.part[0])) / f64::from(PARTS))
                .sum()
        };
        let (exact, _) = exactly(&timeline, &frame);
        // Pieces of less than a pass, and of several.
        for piece in [4, 128] {
            let coarse = coarsely(&timeline, &frame, piece);
            for kind in [Kind::Forward, Kind::Backward, Kind::Communication] {
                let (one, other) = (area(&exact, kind), area(&coarse, kind));
                assert!((one / other - 1.0).abs() < 0.06, "{piece} {kind:?}: {one} {other}");
            }
        }
    }

    #[test]
    fn the_bars_of_a_lane_are_the_passes_of_its_stage() {
        let frame = Frame::of(Breadth::Wide, 60, 2, 8e-3, true);
        let (lanes, is_exact) = lanes(&timeline(2, 2), &frame);
        assert!(is_exact);
        let computing = &lanes[&(StageId(1), true)];
        assert_eq!(
            computing.iter().map(|block| block.number).collect::<Vec<_>>(),
            [Some(0), Some(1), Some(0), Some(1)]
        );
        assert!(computing.windows(2).all(|pair| pair[0].to <= pair[1].from), "{computing:?}");
        assert_eq!(computing[0].from, frame.x(1e-3));
    }
}
