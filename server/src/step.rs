//! A simulated step as a picture of stages over time can show it.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use trainyard_plan::{Activity, Interval, StageId, Timeline};

/// Maximum number of segments that a picture draws one by one; more are narrower than a pixel and are summed up in
/// columns.
const SEGMENTS_MAX: usize = 2000;
/// Number of columns of a picture that sums up.
const COLUMNS: u64 = 240;

/// One step: a row for each stage, over the same time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepPicture {
    /// Seconds from the left to the right edge.
    pub length_s: f64,
    /// The stages, first to last; the first rank of each.
    pub rows: Vec<StageRow>,
}

/// What the first rank of a stage does in a step: `segments` or, where they are too many, `shares`. It is idle in the
/// rest of the time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StageRow {
    /// Which stage, from 0.
    pub stage: u32,
    /// What it does, one after another.
    pub segments: Vec<RowSegment>,
    /// How much of each column it does what; columns are equally wide and fill the step.
    pub shares: Vec<RowShare>,
}

/// What a stage does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// Forward of a micro-batch.
    Forward,
    /// Backward of a micro-batch, or one of its two halves.
    Backward,
    /// The optimizer's update.
    Update,
    /// Moving bytes while nothing is computed.
    Communication,
}

/// Something that a stage does for a while.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RowSegment {
    /// What.
    pub doing: Doing,
    /// From, in seconds of the step.
    pub start_s: f64,
    /// To.
    pub end_s: f64,
    /// For which micro-batch, if it is for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batch: Option<u32>,
}

/// Fractions of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RowShare {
    /// Of forward passes.
    pub forward: f64,
    /// Of backward passes.
    pub backward: f64,
    /// Of updates.
    pub update: f64,
    /// Of communication while nothing is computed.
    pub communication: f64,
}

/// One activity of a stage, in nanoseconds of the step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    doing: Doing,
    start: u64,
    end: u64,
    micro_batch: Option<u32>,
}

impl StepPicture {
    /// Converts the timeline of a simulated step.
    pub(crate) fn of(timeline: &Timeline) -> Self {
        let last = || timeline.intervals.iter().map(|interval| interval.end.nanoseconds()).max().unwrap_or(0);
        let (from, to) = timeline.window.map_or_else(|| (0, last()), |(a, b)| (a.nanoseconds(), b.nanoseconds()));
        let mut stages: BTreeMap<StageId, Vec<Interval>> = BTreeMap::new();
        for interval in &timeline.intervals {
            stages.entry(interval.stream.stage()).or_default().push(*interval);
        }
        let rows: Vec<(StageId, Vec<Piece>)> =
            stages.into_iter().map(|(stage, own)| (stage, pieces(&own, (from, to)))).collect();
        let fine = rows.iter().map(|(_, pieces)| pieces.len()).sum::<usize>() <= SEGMENTS_MAX;
        let rows = rows.into_iter().map(|(stage, pieces)| StageRow {
            stage: stage.0,
            segments: if fine { pieces.iter().map(segment).collect() } else { Vec::new() },
            shares: if fine { Vec::new() } else { shares(&pieces, to - from) },
        });
        Self { length_s: seconds(to - from), rows: rows.collect() }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn segment(piece: &Piece) -> RowSegment {
    let Piece { doing, start, end, micro_batch } = *piece;
    RowSegment { doing, start_s: seconds(start), end_s: seconds(end), micro_batch }
}

fn doing(activity: Activity) -> (Doing, Option<u32>) {
    match activity {
        Activity::Forward { micro_batch, .. } => (Doing::Forward, Some(micro_batch)),
        Activity::Backward { micro_batch, .. } | Activity::BackwardWeights { micro_batch, .. } => {
            (Doing::Backward, Some(micro_batch))
        }
        Activity::Update { .. } => (Doing::Update, None),
        _ => (Doing::Communication, None),
    }
}

/// Returns the activities of a stage between two instants, in order: computing, and communication as far as nothing is
/// computed.
fn pieces(intervals: &[Interval], (from, to): (u64, u64)) -> Vec<Piece> {
    let piece = |interval: &Interval| {
        let (doing, micro_batch) = doing(interval.activity);
        let (start, end) = (interval.start.nanoseconds().max(from), interval.end.nanoseconds().min(to));
        (start < end).then(|| Piece { doing, start: start - from, end: end - from, micro_batch })
    };
    let (mut moving, mut computing): (Vec<Piece>, Vec<Piece>) =
        intervals.iter().filter_map(piece).partition(|piece| piece.doing == Doing::Communication);
    computing.sort_by_key(|piece| (piece.start, piece.end));
    moving.sort_by_key(|piece| (piece.start, piece.end));
    let mut exposed = exposed(&moving, &computing);
    computing.append(&mut exposed);
    computing.sort_by_key(|piece| (piece.start, piece.end));
    computing
}

/// Returns the parts of `moving` in which nothing is computed, joined where they touch. Both are in order.
fn exposed(moving: &[Piece], computing: &[Piece]) -> Vec<Piece> {
    let mut parts: Vec<Piece> = Vec::new();
    let (mut covered, mut next) = (0, 0);
    for own in moving {
        let mut at = own.start.max(covered);
        while next < computing.len() && computing[next].end <= at {
            next += 1;
        }
        let mut busy = computing[next..].iter().take_while(|other| other.start < own.end);
        while at < own.end {
            let Some(other) = busy.next() else {
                add(&mut parts, at, own.end);
                break;
            };
            add(&mut parts, at, other.start);
            at = at.max(other.end);
        }
        covered = covered.max(own.end);
    }
    parts
}

fn add(parts: &mut Vec<Piece>, start: u64, end: u64) {
    if start >= end {
        return;
    }
    match parts.last_mut() {
        Some(last) if last.end == start => last.end = end,
        _ => parts.push(Piece { doing: Doing::Communication, start, end, micro_batch: None }),
    }
}

/// Returns the fractions of each column that the activities take.
fn shares(pieces: &[Piece], length: u64) -> Vec<RowShare> {
    let edge = |column: u64| (u128::from(length) * u128::from(column) / u128::from(COLUMNS)) as u64;
    let mut shares = vec![RowShare::default(); COLUMNS as usize];
    let mut column = 0;
    for piece in pieces {
        while column + 1 < COLUMNS && edge(column + 1) <= piece.start {
            column += 1;
        }
        for (index, share) in (column..).zip(&mut shares[column as usize..]) {
            let (left, right) = (edge(index), edge(index + 1));
            if left >= piece.end {
                break;
            }
            let inside = piece.end.min(right).saturating_sub(piece.start.max(left)) as f64;
            let part = match piece.doing {
                Doing::Forward => &mut share.forward,
                Doing::Backward => &mut share.backward,
                Doing::Update => &mut share.update,
                Doing::Communication => &mut share.communication,
            };
            *part += inside / (right - left).max(1) as f64;
        }
    }
    shares.iter().map(RowShare::rounded).collect()
}

impl RowShare {
    /// Rounds to a thousandth; no picture shows less.
    fn rounded(&self) -> Self {
        let round = |share: f64| (share * 1000.0).round() / 1000.0;
        Self {
            forward: round(self.forward),
            backward: round(self.backward),
            update: round(self.update),
            communication: round(self.communication),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_plan::StreamKind;
    use trainyard_units::Instant;

    const STAGE: StageId = StageId(0);

    fn interval(activity: Activity, stream: StreamKind, start: u64, end: u64) -> Interval {
        let at = Instant::from_nanoseconds;
        Interval { activity, stream, start: at(start), end: at(end) }
    }

    fn forward(micro_batch: u32, start: u64, end: u64) -> Interval {
        interval(Activity::Forward { stage: STAGE, micro_batch }, StreamKind::Compute(STAGE), start, end)
    }

    fn reduce(start: u64, end: u64) -> Interval {
        interval(Activity::ReduceGradients { stage: STAGE, bucket: 0 }, StreamKind::Reduce(STAGE), start, end)
    }

    #[test]
    fn communication_is_shown_where_nothing_is_computed() {
        let intervals = vec![forward(0, 10, 20), forward(1, 30, 40), reduce(0, 15), reduce(12, 50)];
        let picture = StepPicture::of(&Timeline { intervals, window: None });
        let row: Vec<(Doing, u64, u64)> = picture.rows[0]
            .segments
            .iter()
            .map(|part| (part.doing, (part.start_s * 1e9).round() as u64, (part.end_s * 1e9).round() as u64))
            .collect();
        let (forward, moving) = (Doing::Forward, Doing::Communication);
        assert_eq!(row, [(moving, 0, 10), (forward, 10, 20), (moving, 20, 30), (forward, 30, 40), (moving, 40, 50)]);
    }

    #[test]
    fn only_what_lies_in_the_counted_step_is_shown() {
        let at = Instant::from_nanoseconds;
        let timeline = Timeline { intervals: vec![forward(0, 0, 30)], window: Some((at(20), at(60))) };
        let picture = StepPicture::of(&timeline);
        assert!((picture.length_s - 40e-9).abs() < 1e-15);
        assert!((picture.rows[0].segments[0].end_s - 10e-9).abs() < 1e-15);
    }

    #[test]
    fn many_segments_become_columns_that_hold_as_much_time() {
        let passes = 0..SEGMENTS_MAX as u64 + 1;
        let intervals = passes.clone().map(|pass| forward(pass as u32, 10 * pass, 10 * pass + 5)).collect();
        let picture = StepPicture::of(&Timeline { intervals, window: None });
        let shares = &picture.rows[0].shares;
        assert_eq!((picture.rows[0].segments.len(), shares.len()), (0, COLUMNS as usize));
        let mean = shares.iter().map(|share| share.forward).sum::<f64>() / COLUMNS as f64;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert!(shares.iter().all(|share| share.forward <= 1.0 && share.backward.abs() < f64::EPSILON));
    }
}
