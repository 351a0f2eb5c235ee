//! Cutting layers into pipeline stages.

use crate::spec::StageSpec;
use crate::valid::PlanError;
use std::ops::Range;

/// A pipeline stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StageId(pub u32);

/// Contiguous runs of layers, one for each stage, that cover all layers in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Index of the layer after each stage's last.
    ends: Vec<usize>,
}

impl Stages {
    /// The layers of a stage.
    pub fn layers(&self, StageId(stage): StageId) -> Range<usize> {
        let stage = stage as usize;
        let start = if stage == 0 { 0 } else { self.ends[stage - 1] };
        start..self.ends[stage]
    }

    /// The stages in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = StageId> + use<> {
        (0..self.ends.len() as u32).map(StageId)
    }

    /// How many stages there are.
    pub fn count(&self) -> u32 {
        self.ends.len() as u32
    }

    /// The stages as they are written.
    pub fn specs(&self) -> Vec<StageSpec> {
        self.ids()
            .map(|id| self.layers(id))
            .map(|range| StageSpec { first: range.start, layers: range.len() })
            .collect()
    }

    pub(crate) fn from_specs(specs: &[StageSpec], layers: usize, pipeline: u32) -> Result<Self, PlanError> {
        let wrong = |problem: String| Err(PlanError::Stages { last: layers - 1, problem });
        if specs.len() != pipeline as usize {
            return wrong(format!("there are {} stages, but parallel.pipeline is {pipeline}", specs.len()));
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
        Ok(Self { ends: specs.iter().map(|stage| stage.first + stage.layers).collect() })
    }

    /// The cut into `stages` runs whose most expensive run is cheapest; among equal cuts, the one whose early stages
    /// are longest. Nothing if there are fewer layers than stages.
    ///
    /// An exact dynamic programme over (layers, stages), O(layers² · stages).
    ///
    /// Source: the linear partition problem; Skiena, "The Algorithm Design Manual", section 10.7.
    pub fn balanced(costs: &[f64], stages: u32) -> Option<Self> {
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
        let mut best: Vec<f64> = prefix.clone();
        best[0] = f64::INFINITY;
        let mut cuts: Vec<Vec<usize>> = Vec::new();
        for stage in 2..=stages {
            let mut next = vec![f64::INFINITY; layers + 1];
            let mut cut = vec![0; layers + 1];
            for end in stage..=layers {
                for start in (stage - 1..end).rev() {
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
        let mut ends = vec![layers];
        for cut in cuts.iter().rev() {
            ends.push(cut[ends[ends.len() - 1]]);
        }
        ends.reverse();
        Some(Self { ends })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn worst(costs: &[f64], stages: &Stages) -> f64 {
        stages.ids().map(|id| costs[stages.layers(id)].iter().sum()).fold(0.0, f64::max)
    }

    /// The oracle: every cut.
    fn exhaustive(costs: &[f64], stages: usize) -> f64 {
        if stages == 1 {
            return costs.iter().sum();
        }
        (1..=costs.len() - (stages - 1))
            .map(|first| costs[..first].iter().sum::<f64>().max(exhaustive(&costs[first..], stages - 1)))
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
        fn the_cut_is_optimal(costs in prop::collection::vec(0u32..20, 1..9), stages in 1usize..5) {
            prop_assume!(stages <= costs.len());
            let costs: Vec<f64> = costs.into_iter().map(f64::from).collect();
            let cut = Stages::balanced(&costs, stages as u32).expect("enough layers");
            prop_assert_eq!(cut.count() as usize, stages);
            prop_assert!(cut.ids().all(|id| !cut.layers(id).is_empty()));
            prop_assert!((worst(&costs, &cut) - exhaustive(&costs, stages)).abs() < 1e-9);
        }
    }
}
