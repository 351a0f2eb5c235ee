//! How likely a training is to end within its deadline and to stay within its budget, as far as that follows from how long steps
//! may take and from what machines may cost.

use super::overheads::{TrainingCost, Work};
use super::rent::{Rent, forward_of};
use statrs::distribution::{ContinuousCDF, Normal};
use trainyard_calibration::NORMAL_95;
use trainyard_models::ConvergenceCurve;
use trainyard_plan::document::Prediction;
use trainyard_plan::{GoalSpec, StorageMode};
use trainyard_units::Seconds;

/// Prices between the lowest and the highest over which a probability is averaged.
const PRICES: u32 = 64;
/// Standard deviations either way within which the longest training that keeps to a goal is sought.
const DEVIATIONS: f64 = 6.0;
/// Halvings of that range: they leave a millionth of a standard deviation.
const HALVINGS: u32 = 24;

/// The time of all steps over the predicted one: lognormal, as a campaign draws it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepsSpread {
    median: f64,
    /// Standard deviation of its logarithm.
    spread: f64,
}

/// Returns the standard deviation of the logarithm of a step's time, whose 90 % interval is given.
pub(crate) fn spread_of([low, high]: [f64; 2]) -> f64 {
    (high / low).ln() / (2.0 * NORMAL_95)
}

impl StepsSpread {
    /// Combines the interval of a step with the number of steps that a target takes with one seed or another.
    fn new(interval_s: [f64; 2], curve: Option<&ConvergenceCurve>) -> Self {
        let seeds = curve.map_or(0.0, |curve| curve.seeds.deviation.powi(2).ln_1p());
        Self { median: (-0.5 * seeds).exp(), spread: (spread_of(interval_s).powi(2) + seeds).sqrt() }
    }

    /// Returns the probability of the factors on the predicted time that keep to a goal. If one does, so do all that are less.
    fn chance(self, keeps: impl Fn(f64) -> bool) -> f64 {
        let at = |deviations: f64| keeps(self.median * (self.spread * deviations).exp());
        let [mut kept, mut missed] = [-DEVIATIONS, DEVIATIONS];
        if at(missed) {
            return 1.0;
        }
        if !at(kept) {
            return 0.0;
        }
        for _ in 0..HALVINGS {
            let middle = 0.5 * (kept + missed);
            if at(middle) {
                kept = middle;
            } else {
                missed = middle;
            }
        }
        Normal::standard().cdf(kept)
    }
}

/// Adds to a prediction how likely it is to keep to each part of the goal that is stated. `rent` is what surrounds the steps, and
/// `curve` that of the training's target.
pub(crate) fn add_chances(
    prediction: &mut Prediction,
    goal: &GoalSpec,
    (rent, input): (Option<&Rent>, Option<StorageMode>),
    curve: Option<&ConvergenceCurve>,
) {
    let steps = StepsSpread::new(prediction.interval_s, curve);
    let download = Seconds(prediction.input.map_or(0.0, |input| input.download_s));
    let (forward, time_s, count) = (forward_of(prediction), prediction.time_s, prediction.steps);
    let spent = |factor: f64| {
        let work = Work { steps: Seconds(factor * time_s), forward, download };
        rent.map_or_else(|| TrainingCost::of(None, count, work), |rent| rent.training_cost(count, work))
    };
    let deadline = goal.deadline.as_deref().and_then(|text| text.parse::<Seconds>().ok());
    prediction.within_deadline = deadline.map(|deadline| steps.chance(|factor| spent(factor).elapsed() <= deadline));
    let priced = goal.budget.zip(rent.and_then(|rent| Some((rent, rent.price_range()?))));
    prediction.within_budget = priced.map(|(budget, (rent, [low, high]))| {
        let prices = if high > low { PRICES } else { 1 };
        let at = |number: u32| low + (high - low) * (f64::from(number) + 0.5) / f64::from(prices);
        let chance = |usd: f64| steps.chance(|factor| rent.cost_at(usd, &spent(factor), input).total() <= budget);
        (0..prices).map(|number| chance(at(number))).sum::<f64>() / f64::from(prices)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_step_holds_nine_of_ten_trainings() {
        let steps = StepsSpread::new([0.5, 2.0], None);
        let within = |most: f64| steps.chance(|factor| factor <= most);
        for (most, chance) in [(0.5, 0.05), (1.0, 0.5), (2.0, 0.95)] {
            assert!((within(most) - chance).abs() < 1e-6, "{most} {}", within(most));
        }
        assert_eq!([within(0.0), within(1e9)].map(f64::to_bits), [0.0, 1.0].map(f64::to_bits));
        // Nothing is uncertain of a step that is known.
        let known = StepsSpread::new([1.0, 1.0], None);
        assert_eq!(
            [0.99, 1.0].map(|most| known.chance(|factor| factor <= most).to_bits()),
            [0.0, 1.0].map(f64::to_bits)
        );
    }
}
