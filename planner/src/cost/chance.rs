//! How likely a training is to end within its deadline and to stay within its budget, as far as that follows from how long steps
//! may take and from what machines may cost.

use super::overheads::{TrainingCost, Work};
use super::rent::Rent;
use statrs::distribution::{Continuous, ContinuousCDF, Normal};
use trainyard_calibration::NORMAL_95;
use trainyard_models::ConvergenceCurve;
use trainyard_plan::document::Prediction;
use trainyard_plan::{GoalSpec, StorageMode};
use trainyard_sim::campaign::SplitLognormal;
use trainyard_units::Seconds;

/// The probability that lies beyond either end of an interval.
const TAIL: f64 = 0.05;
/// Prices between the lowest and the highest over which a probability is averaged.
const PRICES: u32 = 64;
/// The same for the ends of an interval, and halvings of the range in which they are sought: to a thousandth of it.
const FEWER_PRICES: u32 = 16;
const HALVINGS_OF_COST: u32 = 10;
/// Standard deviations either way within which the longest training that keeps to a goal is sought, and over which a probability
/// is averaged.
const DEVIATIONS: f64 = 6.0;
/// Halvings of that range: they leave less than a millionth of a standard deviation.
const HALVINGS: u32 = 30;
/// Parts of a standard deviation over which a probability is averaged.
const PARTS: i32 = 40;

/// The time of all steps over the predicted one, as a campaign draws it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepsSpread {
    /// How far a step may be off.
    step: SplitLognormal,
    /// Standard deviation of the logarithm of the number of steps, which is lognormal and has the predicted mean.
    seeds: f64,
}

/// Returns how far the time of all steps may be off: 5 % of it lies below the interval of the prediction, 5 % above, and half of it
/// on either side of what is predicted.
pub(crate) fn spread_of(prediction: &Prediction) -> SplitLognormal {
    let [below, above] = prediction.interval_s.map(|step| {
        let longer = (step - prediction.step_time_s) * prediction.steps as f64;
        ((prediction.time_s + longer) / prediction.time_s).ln().abs() / NORMAL_95
    });
    // Where steps take no time there is nothing to be off.
    let known = |spread: f64| if spread.is_finite() { spread } else { 0.0 };
    SplitLognormal { below: known(below), above: known(above) }
}

/// Returns the probability of the standard deviations by which predictions are off, as a normal number is, at which a goal is kept.
/// If it is kept at one number of them, it is at all that are less.
pub fn chance_of_deviations(keeps: impl FnMut(f64) -> bool) -> f64 {
    chance_up_to([-DEVIATIONS, DEVIATIONS], keeps, |kept| Normal::standard().cdf(kept))
}

/// Returns the ends beyond which 5 % lie on either side, of a value between two others; `within` is the probability of all up to
/// one. Each end is sought by so many halvings of the range.
pub fn interval_between([least, most]: [f64; 2], halvings: u32, within: impl Fn(f64) -> f64) -> [f64; 2] {
    [TAIL, 1.0 - TAIL].map(|part| {
        let (mut below, mut above) = (least, most);
        for _ in 0..halvings {
            let middle = f64::midpoint(below, above);
            if within(middle) < part { below = middle } else { above = middle }
        }
        above
    })
}

/// Returns the probability of the values up to the largest at which a goal is kept; `probability` is that of all up to one. The
/// goal is sure where it is kept at the last of the range, and out of the question where it is missed at the first.
fn chance_up_to(
    [mut kept, mut missed]: [f64; 2],
    mut keeps: impl FnMut(f64) -> bool,
    probability: impl Fn(f64) -> f64,
) -> f64 {
    if keeps(missed) {
        return 1.0;
    }
    if !keeps(kept) {
        return 0.0;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(kept, missed);
        if keeps(middle) {
            kept = middle;
        } else {
            missed = middle;
        }
    }
    probability(kept)
}

impl StepsSpread {
    /// Combines the spread of a step with the number of steps that a target takes with one seed or another.
    fn new(step: SplitLognormal, curve: Option<&ConvergenceCurve>) -> Self {
        Self { step, seeds: curve.map_or(0.0, |curve| curve.seeds.deviation.powi(2).ln_1p().sqrt()) }
    }

    /// Returns the probability of the factors on the predicted time that keep to a goal. If one does, so do all that are less.
    fn chance(self, keeps: impl Fn(f64) -> bool) -> f64 {
        let beyond = DEVIATIONS * self.seeds;
        let kept = self.step.logarithm(-DEVIATIONS) - beyond;
        let missed = self.step.logarithm(DEVIATIONS) + beyond;
        chance_up_to([kept, missed], |logarithm| keeps(logarithm.exp()), |kept| self.probability(kept))
    }

    /// Returns the probability of a factor whose logarithm is at most this: of numbers of steps that leave room for the time of
    /// one, averaged over that by Simpson's rule. The density is smooth on either side of the median, a point of the rule.
    fn probability(self, logarithm: f64) -> f64 {
        if self.seeds == 0.0 {
            return self.step.probability(logarithm);
        }
        let (normal, half) = (Normal::standard(), DEVIATIONS as i32 * PARTS);
        let average = |first: i32| {
            let point = |number: i32| {
                let deviations = f64::from(first + number) / f64::from(PARTS);
                let left = logarithm - self.step.logarithm(deviations);
                let weight = if number == 0 || number == half { 1.0 } else { f64::from(2 + 2 * (number % 2)) };
                weight * normal.pdf(deviations) * normal.cdf(left / self.seeds + 0.5 * self.seeds)
            };
            (0..=half).map(point).sum::<f64>() / (3.0 * f64::from(PARTS))
        };
        average(-half) + average(0)
    }
}

/// Adds to a prediction how likely it is to keep to each part of the goal that is stated, and narrows the interval of its cost to nine
/// of ten trainings where the price is uncertain too. `rent` is what surrounds the steps, and `curve` that of the training's target.
pub(crate) fn add_chances(
    prediction: &mut Prediction,
    goal: &GoalSpec,
    (rent, input): (Option<&Rent>, Option<StorageMode>),
    curve: Option<&ConvergenceCurve>,
) {
    let steps = StepsSpread::new(spread_of(prediction), curve);
    let (whole, count) = (Work::of(prediction), prediction.steps);
    let spent = |factor: f64| {
        let work = Work { steps: Seconds(factor * whole.steps.0), ..whole };
        rent.map_or_else(|| TrainingCost::of(None, count, work), |rent| rent.training_cost(count, work))
    };
    let deadline = goal.deadline();
    prediction.within_deadline = deadline.map(|deadline| steps.chance(|factor| spent(factor).elapsed() <= deadline));
    let Some((rent, [low, high])) = rent.and_then(|rent| Some((rent, rent.price_range()?))) else { return };
    let within = |steps: StepsSpread, budget: f64, prices: u32| {
        let prices = if high > low { prices } else { 1 };
        let at = |number: u32| low + (high - low) * (f64::from(number) + 0.5) / f64::from(prices);
        let chance = |usd: f64| steps.chance(|factor| rent.cost_at(usd, &spent(factor), input).total() <= budget);
        (0..prices).map(|number| chance(at(number))).sum::<f64>() / f64::from(prices)
    };
    prediction.within_budget = goal.budget.map(|budget| within(steps, budget, PRICES));
    // Where the price is uncertain too, both ends of price and time at once are less likely than either.
    prediction.cost_interval_usd = prediction.cost_interval_usd.map(|[least, most]| {
        if high <= low {
            return [least, most];
        }
        let of_step = StepsSpread { seeds: 0.0, ..steps };
        interval_between([least, most], HALVINGS_OF_COST, |usd| within(of_step, usd, FEWER_PRICES))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(step: SplitLognormal) -> StepsSpread {
        StepsSpread { step, seeds: 0.0 }
    }

    #[test]
    fn the_interval_of_a_step_holds_nine_of_ten_trainings() {
        // A step of 2 s that takes from 1.6 to 5 s.
        let step = [1.6f64, 5.0].map(|end| (end / 2.0).ln().abs() / NORMAL_95);
        let steps = known(SplitLognormal { below: step[0], above: step[1] });
        let within = |most: f64| steps.chance(|factor| factor <= most);
        for (most, chance) in [(0.8, 0.05), (1.0, 0.5), (2.5, 0.95)] {
            assert!((within(most) - chance).abs() < 1e-6, "{most} {}", within(most));
        }
        assert_eq!([within(0.0), within(1e9)].map(f64::to_bits), [0.0, 1.0].map(f64::to_bits));
        // Nothing is uncertain of a step that is known.
        let sure = known(SplitLognormal::default());
        assert_eq!(
            [0.99, 1.0].map(|most| sure.chance(|factor| factor <= most).to_bits()),
            [0.0, 1.0].map(f64::to_bits)
        );
    }

    /// A product of lognormal numbers is lognormal; of others the probability is counted over even parts of both.
    #[test]
    fn steps_to_a_target_vary_with_the_seed_besides() {
        let normal = Normal::standard();
        for (below, above, seeds) in
            [(0.2, 0.2, 0.1), (0.05, 0.05, 0.2), (0.3, 0.3, 0.015), (0.1, 0.4, 0.2), (0.0, 0.3, 0.1)]
        {
            let step = SplitLognormal { below, above };
            let steps = StepsSpread { step, seeds };
            for most in [0.7_f64, 0.9, 1.0, 1.2, 1.8] {
                let chance = steps.chance(|factor| factor <= most);
                if below.to_bits() == above.to_bits() {
                    let of_both = below.hypot(seeds);
                    let exact = normal.cdf((most.ln() + 0.5 * seeds * seeds) / of_both);
                    assert!((chance - exact).abs() < 1e-4, "{step:?} {most} {chance} {exact}");
                    continue;
                }
                let parts: Vec<f64> =
                    (0..600).map(|part| normal.inverse_cdf((f64::from(part) + 0.5) / 600.0)).collect();
                let count = parts.iter().flat_map(|step| parts.iter().map(move |seed| (step, seed)));
                let kept = count
                    .filter(|(own, seed)| step.logarithm(**own) + seeds * **seed - 0.5 * seeds * seeds <= most.ln());
                let counted = kept.count() as f64 / 360_000.0;
                assert!((chance - counted).abs() < 2e-3, "{step:?} {most} {chance} {counted}");
            }
        }
    }
}
