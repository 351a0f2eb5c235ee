//! Prices of layers, and what decides them: what bounds are made of, and what searches for a model share.

use trainyard_plan::{GradientCompression, ParallelSpec, Precision, Recompute};

/// Everything besides the model that decides a layer's price: the fewest ranks and machines on which it is the same or
/// less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PriceKey {
    pub(super) choice: usize,
    pub(super) instances: u32,
    pub(super) parallel: ParallelSpec,
    pub(super) precision: Precision,
    pub(super) micro: u64,
}

/// Seconds of the layers, forward and backward, with one kind of recomputation.
pub(super) struct Weights {
    /// The time of each layer, if the ranks that share it were all there are.
    pub(super) of_layers: Vec<f64>,
    /// Running sums of the times of the layers, the longest first.
    longest: Vec<Growing>,
}

/// Prices of the layers of plans alike.
pub(super) struct Priced {
    /// Forward and backward, for each kind of recomputation, in order.
    pub(super) weights: Vec<Weights>,
    /// Seconds of all layers forward.
    pub(super) forward: f64,
}

/// Seconds that grow with the number of devices, because the slowest device sets the pace.
#[derive(Clone, Copy, Debug, Default)]
struct Growing {
    /// Seconds on the fewest devices.
    near: f64,
    /// Seconds on twice as many.
    far: f64,
    /// The least growth from there on, for each standard deviation by which the slowest device is further behind.
    growth: f64,
}

impl Growing {
    /// Returns the seconds on devices of which the slowest is `further` standard deviations further behind than on
    /// `far`.
    fn at(self, further: f64) -> f64 {
        if further >= 0.0 { self.far + self.growth * further } else { self.near }
    }
}

impl Weights {
    /// Builds the times from those of each layer, `near` and `far`, on two numbers of devices that are `apart` standard
    /// deviations apart. Beyond the second, a price is above the line through both, because it is convex.
    pub(super) fn new(near: Vec<f64>, far: &[f64], apart: f64) -> Self {
        let mut layers: Vec<(f64, f64)> = near.iter().copied().zip(far.iter().copied()).collect();
        layers.sort_by(|a, b| b.0.total_cmp(&a.0));
        let slope = |(near, far): (f64, f64)| if apart > 0.0 { ((far - near) / apart).max(0.0) } else { 0.0 };
        // The longest layers stay the longest on more devices only if none of the others grows faster.
        let ordered = layers.windows(2).all(|pair| slope(pair[0]) >= slope(pair[1]) * (1.0 - 1e-9));
        let mut longest = vec![Growing::default()];
        for layer in layers {
            let before = longest[longest.len() - 1];
            let (far, growth) = if ordered { (layer.1, slope(layer)) } else { (layer.0, 0.0) };
            let sum = Growing { near: before.near + layer.0, far: before.far + far, growth: before.growth + growth };
            longest.push(sum);
        }
        Self { of_layers: near, longest }
    }

    /// Returns the time of all layers together.
    pub(super) fn sum(&self, further: f64) -> f64 {
        self.longest[self.longest.len() - 1].at(further)
    }

    /// Returns a lower bound of the work of the fullest of `stages` stages, however layers are distributed: of the `q ·
    /// stages + 1` longest layers some stage has `q + 1`, and the stages together have all layers.
    pub(super) fn fullest(&self, stages: usize, further: f64) -> f64 {
        let layers = self.longest.len() - 1;
        let crowded = (1..=(layers - 1) / stages).map(|q| {
            let last = q * stages + 1;
            self.longest[last].at(further) - self.longest[last - q - 1].at(further)
        });
        crowded.fold(self.sum(further) / stages as f64, f64::max)
    }
}

/// Everything that decides how layers are cut into stages, with the number of stages.
pub(super) type CutKey = (PriceKey, Recompute, u32);

/// Everything that decides how long a plan's communication takes at least: the key of its layers, the ranks that shard a
/// state, whether weights are gathered, and in which form gradients travel.
pub(crate) type CommunicationKey = (PriceKey, Option<u32>, bool, GradientCompression);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trainyard_plan::{StageSpec, Stages};

    proptest! {
        #[test]
        fn no_cut_has_a_fullest_stage_below_the_bound(
            costs in prop::collection::vec(1u32..20, 1..12), stages in 1u32..5, rate in 0.0f64..0.1,
        ) {
            let near: Vec<f64> = costs.iter().map(|cost| f64::from(*cost)).collect();
            prop_assume!(stages as usize <= near.len());
            let far: Vec<f64> = near.iter().map(|cost| cost * (1.0 + rate)).collect();
            let weights = Weights::new(near, &far, 0.5);
            for further in [-1.0, 0.0, 0.5, 2.0] {
                let slower = if further < 0.0 { 1.0 } else { 1.0 + rate * (1.0 + 2.0 * further) };
                let costs: Vec<f64> = costs.iter().map(|cost| f64::from(*cost) * slower).collect();
                let cut = Stages::balanced(&costs, stages).expect("enough layers");
                let cost = |run: &StageSpec| costs[run.first..run.first + run.layers].iter().sum::<f64>();
                let fullest = cut.specs().iter().map(cost).fold(0.0, f64::max);
                let bound = weights.fullest(stages as usize, further);
                prop_assert!(bound <= fullest * (1.0 + 1e-9), "{bound} above {fullest}");
            }
        }
    }

    #[test]
    fn of_97_alike_layers_on_24_stages_one_has_five() {
        let weights = Weights::new(vec![1.0; 97], &[1.0; 97], 0.0);
        assert!((weights.fullest(24, -1.0) - 5.0).abs() < 1e-12);
    }
}
