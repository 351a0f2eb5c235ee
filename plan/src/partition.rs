//! Cutting layers into pipeline stages.

use crate::schedules::{ScheduleName, StageId};
use crate::spec::StageSpec;
use std::ops::Range;
use trainyard_units::Invalid;

/// A partition of the layers into contiguous runs, in order, dealt out to pipeline stages: one run to each, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// For each run, the index after its last layer.
    ends: Vec<usize>,
    /// Number of stages.
    count: u32,
    /// `true` if the second half of the runs goes back from the last stage to the first (a V), instead of round again.
    folded: bool,
}

impl Stages {
    /// Returns the layers of a stage that has one run of them.
    ///
    /// # Panics
    ///
    /// Panics if the stage has several runs.
    pub fn layers(&self, stage: StageId) -> Range<usize> {
        assert_eq!(self.runs(), 1, "stages with several runs have no single range of layers");
        self.run(stage, 0)
    }

    /// Returns the layers of a stage's run.
    pub fn run(&self, stage: StageId, run: u32) -> Range<usize> {
        self.link_layers(self.link(stage, run))
    }

    /// Iterates over the runs of a stage.
    pub fn runs_of(&self, stage: StageId) -> impl ExactSizeIterator<Item = Range<usize>> {
        (0..self.runs()).map(move |run| self.run(stage, run))
    }

    /// Returns the position of a stage's run in the order of the model.
    pub fn link(&self, StageId(stage): StageId, run: u32) -> u32 {
        if self.folded && run == 1 { 2 * self.count - 1 - stage } else { run * self.count + stage }
    }

    /// Returns the stage and the run at a position in the order of the model: the inverse of [`Self::link`].
    pub fn at(&self, link: u32) -> (StageId, u32) {
        let (run, along) = (link / self.count, link % self.count);
        (StageId(if self.folded && run == 1 { self.count - 1 - along } else { along }), run)
    }

    /// Returns the layers at a position in the order of the model.
    pub fn link_layers(&self, link: u32) -> Range<usize> {
        let link = link as usize;
        let start = if link == 0 { 0 } else { self.ends[link - 1] };
        start..self.ends[link]
    }

    /// Returns the number of runs of all stages together.
    pub fn links(&self) -> u32 {
        self.ends.len() as u32
    }

    /// Returns the number of runs of each stage.
    pub fn runs(&self) -> u32 {
        self.links() / self.count
    }

    /// Iterates over the stages in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = StageId> + use<> {
        (0..self.count).map(StageId)
    }

    /// Returns the number of stages.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the runs as they are written in plans, in the order of the model.
    pub fn specs(&self) -> Vec<StageSpec> {
        (0..self.links())
            .map(|link| self.link_layers(link))
            .map(|range| StageSpec { first: range.start, layers: range.len() })
            .collect()
    }

    pub(crate) fn from_specs(
        specs: &[StageSpec],
        layers: usize,
        pipeline: u32,
        runs: u32,
        schedule: ScheduleName,
    ) -> Result<Self, Invalid> {
        let wrong = |problem: String| {
            let rule = format!("they must cover layers 0 to {} in order without gaps: {problem}", layers - 1);
            Err(Invalid::inside("stages", rule))
        };
        if specs.len() != pipeline as usize * runs as usize {
            let of = if runs > 1 { format!(" × virtual_stages {runs}") } else { String::new() };
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

    /// Returns the partition into `stages` runs whose most expensive run is cheapest, whatever memory it takes.
    pub fn balanced(costs: &[f64], stages: u32) -> Option<Self> {
        Self::balanced_within(costs, stages, |_, _| true)
    }

    /// Returns the partition into `stages` runs whose most expensive run is cheapest, of those whose every run fits;
    /// among equal ones, the one whose early stages are longest. `None` if there are fewer layers than stages or none
    /// fits.
    ///
    /// `fits` tells whether a stage has room for a run of layers; a run with more layers never fits better.
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
        let prefix: Vec<f64> = std::iter::once(0.0)
            .chain(costs.iter().scan(0.0, |sum, cost| {
                *sum += cost;
                Some(*sum)
            }))
            .collect();
        // best[i]: the smallest possible maximum over the first i layers in the stages placed so far.
        let mut best: Vec<f64> = (0..=layers)
            .map(|end| if end > 0 && fits(StageId(0), 0..end) { prefix[end] } else { f64::INFINITY })
            .collect();
        let mut cuts: Vec<Vec<usize>> = Vec::new();
        for stage in 2..=stages {
            let mut next = vec![f64::INFINITY; layers + 1];
            let mut cut = vec![0; layers + 1];
            for end in stage..=layers {
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
            best = next;
            cuts.push(cut);
        }
        if best[layers].is_infinite() {
            return None;
        }
        let mut ends = vec![layers];
        for cut in cuts.iter().rev() {
            ends.push(cut[ends[ends.len() - 1]]);
        }
        ends.reverse();
        Some(Self { ends, count, folded: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn worst(costs: &[f64], stages: &Stages) -> f64 {
        stages.ids().map(|id| costs[stages.layers(id)].iter().sum()).fold(0.0, f64::max)
    }

    /// The oracle: every cut into one run for each entry of `most`, of at most so many layers each.
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
    fn more_stages_than_layers_cannot_be_cut() {
        assert_eq!(Stages::balanced(&[1.0, 1.0], 3), None);
    }

    proptest! {
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
        fn places_in_the_order_of_the_model_are_a_bijection(stages in 1u32..6, runs in 1u32..4, folded: bool) {
            let schedule = if folded { ScheduleName::ZeroBubbleV } else { ScheduleName::Interleaved };
            let runs = if folded { 2 } else { runs };
            let specs: Vec<StageSpec> =
                (0..(stages * runs) as usize).map(|first| StageSpec { first, layers: 1 }).collect();
            let cut = Stages::from_specs(&specs, specs.len(), stages, runs, schedule).expect("a valid cut");
            for link in 0..cut.links() {
                let (stage, run) = cut.at(link);
                prop_assert_eq!(cut.link(stage, run), link);
                prop_assert_eq!(cut.run(stage, run), link as usize..link as usize + 1);
            }
            // Neighbours in the model are neighbours in the pipeline, or the same stage at the turn of a V.
            prop_assert!(!folded || cut.at(stages - 1).0 == cut.at(stages).0);
        }
    }
}
