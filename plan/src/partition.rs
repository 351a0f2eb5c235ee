//! Cutting layers into pipeline stages.

use crate::schedules::{ScheduleName, StageId};
use crate::spec::StageSpec;
use std::ops::Range;
use trainyard_units::Invalid;

/// A partition of the layers into contiguous chunks, in order, dealt out to pipeline stages: one to each, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// For each chunk, the index after its last layer.
    ends: Vec<usize>,
    count: u32,
    /// `true` if the second half of the chunks goes back from the last stage to the first (a V), not round again.
    folded: bool,
}

impl Stages {
    /// Returns the layers of a stage that has one chunk of them.
    ///
    /// # Panics
    ///
    /// Panics if the stage has several chunks.
    pub fn layers(&self, stage: StageId) -> Range<usize> {
        assert_eq!(self.chunks_per_stage(), 1, "stages with several chunks have no single range of layers");
        self.chunk(stage, 0)
    }

    /// Returns the layers of a stage's chunk.
    pub fn chunk(&self, stage: StageId, chunk: u32) -> Range<usize> {
        self.layers_at(self.position(stage, chunk))
    }

    /// Iterates over the chunks of a stage.
    pub fn chunks_of(&self, stage: StageId) -> impl ExactSizeIterator<Item = Range<usize>> {
        (0..self.chunks_per_stage()).map(move |chunk| self.chunk(stage, chunk))
    }

    /// Returns the position of a stage's chunk in the order of the model.
    pub fn position(&self, StageId(stage): StageId, chunk: u32) -> u32 {
        if self.folded && chunk == 1 { 2 * self.count - 1 - stage } else { chunk * self.count + stage }
    }

    /// Returns the stage and the chunk at a position in the order of the model: the inverse of [`Self::position`].
    pub fn at(&self, position: u32) -> (StageId, u32) {
        let (chunk, along) = (position / self.count, position % self.count);
        (StageId(if self.folded && chunk == 1 { self.count - 1 - along } else { along }), chunk)
    }

    /// Returns the layers at a position in the order of the model.
    pub fn layers_at(&self, position: u32) -> Range<usize> {
        let position = position as usize;
        let start = if position == 0 { 0 } else { self.ends[position - 1] };
        start..self.ends[position]
    }

    /// Returns the number of chunks of all stages together.
    pub fn chunks(&self) -> u32 {
        self.ends.len() as u32
    }

    /// Returns the number of chunks of each stage.
    pub fn chunks_per_stage(&self) -> u32 {
        self.chunks() / self.count
    }

    /// Iterates over the stages in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = StageId> + use<> {
        (0..self.count).map(StageId)
    }

    /// Returns the number of stages.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the chunks as they are written in plans, in the order of the model.
    pub fn specs(&self) -> Vec<StageSpec> {
        (0..self.chunks())
            .map(|position| self.layers_at(position))
            .map(|range| StageSpec { first: range.start, layers: range.len() })
            .collect()
    }

    pub(crate) fn from_specs(
        specs: &[StageSpec],
        layers: usize,
        pipeline: u32,
        chunks: u32,
        schedule: ScheduleName,
    ) -> Result<Self, Invalid> {
        let wrong = |problem: String| {
            let rule = format!("they must cover layers 0 to {} in order without gaps: {problem}", layers - 1);
            Err(Invalid::inside("stages", rule))
        };
        if specs.len() != pipeline as usize * chunks as usize {
            let of = if chunks > 1 { format!(" × virtual_stages {chunks}") } else { String::new() };
            return wrong(format!("there are {} of them, but parallel.pipeline is {pipeline}{of}", specs.len()));
        }
        let mut next = 0;
        for (index, stage) in specs.iter().enumerate() {
            if stage.first != next || stage.layers == 0 {
                return wrong(format!(
                    "stage {index} has {} layers from {}, expected at least 1 from {next}",
                    stage.layers, stage.first
                ));
            }
            next = stage.first.saturating_add(stage.layers);
        }
        if next != layers {
            return wrong(format!("the last stage ends before layer {next}"));
        }
        let ends = specs.iter().map(|stage| stage.first + stage.layers).collect();
        Ok(Self { ends, count: pipeline, folded: schedule.is_folded() })
    }

    /// Returns the partition into `stages` chunks whose most expensive chunk is cheapest, whatever memory it takes: that
    /// of [`Self::balanced_within`] where everything fits, in O(layers · stages).
    ///
    /// The later the last stage begins, the more expensive are those before it and the cheaper it is itself, and where
    /// the two cross moves on with the end of the last stage. So one walk along the layers finds all crossings.
    pub fn balanced(costs: &[f64], stages: u32) -> Option<Self> {
        let (layers, count) = (costs.len(), stages as usize);
        if count == 0 || count > layers {
            return None;
        }
        let prefix = running_sums(costs);
        let mut best = prefix.clone();
        best[0] = f64::INFINITY;
        let mut next = vec![f64::INFINITY; layers + 1];
        let mut cuts = vec![0; (count - 1) * (layers + 1)];
        for (stage, cut) in (2..=count).zip(cuts.chunks_mut(layers + 1)) {
            // Behind each layer, the last of those with which the stages before are as expensive.
            let mut level: Vec<usize> = (0..=layers).collect();
            for start in (0..layers).rev() {
                if best[start].total_cmp(&best[start + 1]).is_eq() {
                    level[start] = level[start + 1];
                }
            }
            next.fill(f64::INFINITY);
            let mut crossing = stage - 1;
            // Every stage after this one has a layer at least.
            for end in stage..=layers - (count - stage) {
                let last = |start: usize| prefix[end] - prefix[start];
                while crossing < end && best[crossing] < last(crossing) {
                    crossing += 1;
                }
                let before =
                    crossing.checked_sub(1).filter(|before| *before + 1 >= stage).map(|before| (last(before), before));
                let after = (crossing < end).then(|| (best[crossing], level[crossing].min(end - 1)));
                // Of equal ones the later.
                (next[end], cut[end]) = match (before, after) {
                    (Some(before), Some(after)) if before.0 < after.0 => before,
                    (Some(before), None) => before,
                    (_, after) => after.expect("a stage begins somewhere"),
                };
            }
            std::mem::swap(&mut best, &mut next);
        }
        Some(Self { ends: ends(layers, &cuts), count: stages, folded: false })
    }

    /// Returns the partition into `stages` chunks with as many repeated layers each, where these divide so; other
    /// layers are with the repeated ones before them, and the first ones with those behind them. `repeated` tells of
    /// each layer whether it is one.
    pub fn even(repeated: &[bool], stages: u32) -> Option<Self> {
        let all = repeated.iter().filter(|own| **own).count();
        let count = stages as usize;
        if count == 0 || all == 0 || !all.is_multiple_of(count) {
            return None;
        }
        let (each, mut held, mut ends) = (all / count, 0, Vec::with_capacity(count));
        for layer in (0..repeated.len()).filter(|layer| repeated[*layer]) {
            if held > 0 && held % each == 0 {
                ends.push(layer);
            }
            held += 1;
        }
        ends.push(repeated.len());
        Some(Self { ends, count: stages, folded: false })
    }

    /// Returns the partition into `stages` chunks whose most expensive one is cheapest, of those whose every chunk fits;
    /// among equal ones, the one whose early stages are longest. `None` if there are fewer layers than stages or none
    /// fits.
    ///
    /// `fits` tells whether a stage has room for a chunk of layers; a chunk with more layers never fits better.
    ///
    /// An exact dynamic programme over (layers, stages), O(layers² · stages).
    ///
    /// Source: the linear partition problem; Skiena, "The Algorithm Design Manual", section 10.7.
    pub fn balanced_within(costs: &[f64], stages: u32, fits: impl Fn(StageId, Range<usize>) -> bool) -> Option<Self> {
        let count = stages;
        let (layers, stages) = (costs.len(), stages as usize);
        if stages == 0 || stages > layers {
            return None;
        }
        let prefix = running_sums(costs);
        // best[i]: the smallest possible maximum over the first i layers in the stages placed so far.
        let mut best: Vec<f64> = (0..=layers)
            .map(|end| if end > 0 && fits(StageId(0), 0..end) { prefix[end] } else { f64::INFINITY })
            .collect();
        let mut cuts = vec![0; (stages - 1) * (layers + 1)];
        let mut next = vec![f64::INFINITY; layers + 1];
        for (stage, cut) in (2..=stages).zip(cuts.chunks_mut(layers + 1)) {
            next.fill(f64::INFINITY);
            // Every stage after this one has a layer at least.
            for end in stage..=layers - (stages - stage) {
                for start in (stage - 1..end).rev() {
                    if !fits(StageId(stage as u32 - 1), start..end) {
                        break;
                    }
                    let last = prefix[end] - prefix[start];
                    let worst = best[start].max(last);
                    if worst < next[end] {
                        next[end] = worst;
                        cut[end] = start;
                    }
                    if last > next[end] {
                        break;
                    }
                }
            }
            std::mem::swap(&mut best, &mut next);
        }
        if best[layers].is_infinite() {
            return None;
        }
        Some(Self { ends: ends(layers, &cuts), count, folded: false })
    }
}

/// Returns the costs of the layers before each layer, and of all.
fn running_sums(costs: &[f64]) -> Vec<f64> {
    let sums = costs.iter().scan(0.0, |sum, cost| {
        *sum += cost;
        Some(*sum)
    });
    std::iter::once(0.0).chain(sums).collect()
}

/// Returns the ends of all chunks, where `cuts` holds for each chunk but the first, by its end, where it begins.
fn ends(layers: usize, cuts: &[usize]) -> Vec<usize> {
    let mut ends = vec![layers];
    for cut in cuts.chunks(layers + 1).rev() {
        ends.push(cut[ends[ends.len() - 1]]);
    }
    ends.reverse();
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn worst(costs: &[f64], stages: &Stages) -> f64 {
        stages.ids().map(|id| costs[stages.layers(id)].iter().sum()).fold(0.0, f64::max)
    }

    /// The oracle: every cut into one chunk for each entry of `most`, of at most so many layers each.
    fn exhaustive(costs: &[f64], most: &[usize]) -> f64 {
        let Some((room, rest)) = most.split_first() else {
            return if costs.is_empty() { 0.0 } else { f64::INFINITY };
        };
        (1..=costs.len().min(*room))
            .map(|first| costs[..first].iter().sum::<f64>().max(exhaustive(&costs[first..], rest)))
            .fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn the_head_counts() {
        // An expensive last layer gets a stage with fewer others.
        let stages = Stages::balanced(&[0.1, 1.0, 1.0, 1.0, 1.0, 2.0], 2).expect("fewer stages than layers");
        assert_eq!(stages.layers(StageId(0)), 0..4);
    }

    #[test]
    fn stages_have_as_many_repeated_layers_each_where_these_divide() {
        // An embedding, six blocks and a head.
        let repeated = [false, true, true, true, true, true, true, false];
        let ends = |stages| Stages::even(&repeated, stages).map(|cut| cut.ends);
        assert_eq!([ends(1), ends(2), ends(3)], [Some(vec![8]), Some(vec![4, 8]), Some(vec![3, 5, 8])]);
        assert_eq!([ends(4), ends(0), ends(7)], [None, None, None]);
        // Two stacks of blocks with a layer between.
        let stacks = [false, true, true, false, true, true, false];
        assert_eq!(Stages::even(&stacks, 2).map(|cut| cut.ends), Some(vec![4, 7]));
        assert_eq!(Stages::even(&[false, false], 2), None);
    }

    #[test]
    fn more_stages_than_layers_cannot_be_cut() {
        assert_eq!(Stages::balanced(&[1.0, 1.0], 3), None);
    }

    proptest! {
        #[test]
        fn without_limits_the_cut_is_the_same_found_faster(
            costs in prop::collection::vec(prop_oneof![0u32..4, 0u32..1000], 1..40), stages in 1u32..40, scale in 0.1f64..3.0,
        ) {
            let costs: Vec<f64> = costs.into_iter().map(|cost| f64::from(cost) * scale).collect();
            let expected = Stages::balanced_within(&costs, stages, |_, _| true);
            prop_assert_eq!(Stages::balanced(&costs, stages), expected);
        }

        #[test]
        fn the_cut_is_optimal(
            costs in prop::collection::vec(0u32..20, 1..9), room in prop::collection::vec(1usize..6, 1..5),
        ) {
            let costs: Vec<f64> = costs.into_iter().map(f64::from).collect();
            let stages = room.len() as u32;
            let cut = Stages::balanced_within(&costs, stages, |StageId(stage), layers| {
                layers.len() <= room[stage as usize]
            });
            let best = exhaustive(&costs, &room);
            prop_assert_eq!(cut.is_some(), best.is_finite());
            if let Some(cut) = cut {
                prop_assert_eq!(cut.count(), stages);
                prop_assert!(cut.ids().all(|id| (1..=room[id.0 as usize]).contains(&cut.layers(id).len())));
                prop_assert!((worst(&costs, &cut) - best).abs() < 1e-9);
            }
        }

        #[test]
        fn places_in_the_order_of_the_model_are_a_bijection(stages in 1u32..6, chunks in 1u32..4, folded: bool) {
            let schedule = if folded { ScheduleName::ZeroBubbleV } else { ScheduleName::Interleaved };
            let chunks = if folded { 2 } else { chunks };
            let specs: Vec<StageSpec> =
                (0..(stages * chunks) as usize).map(|first| StageSpec { first, layers: 1 }).collect();
            let cut = Stages::from_specs(&specs, specs.len(), stages, chunks, schedule).expect("a valid cut");
            for position in 0..cut.chunks() {
                let (stage, chunk) = cut.at(position);
                prop_assert_eq!(cut.position(stage, chunk), position);
                prop_assert_eq!(cut.chunk(stage, chunk), position as usize..position as usize + 1);
            }
            // Neighbours in the model are neighbours in the pipeline, or the same stage at the turn of a V.
            prop_assert!(!folded || cut.at(stages - 1).0 == cut.at(stages).0);
        }
    }
}
