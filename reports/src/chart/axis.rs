//! Axes: how values lie along them, their customary marks, and the units of times.

/// Maximum number of marks on an axis.
const MARKS: f64 = 6.0;
const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;

/// The mapping of values to positions along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// Linear: equal distances for equal differences.
    Linear(f64, f64),
    /// Logarithmic: equal distances for equal ratios.
    Log(f64, f64),
}

/// A named axis with its marks.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// The name: the quantity that the axis shows, with its unit.
    pub(crate) name: String,
    pub(crate) scale: Scale,
    pub(crate) marks: Vec<(f64, String)>,
}

impl Scale {
    /// Returns a linear scale from 0 to a little above the largest value.
    pub(crate) fn from_nothing(largest: f64) -> Self {
        Self::Linear(0.0, if largest > 0.0 { largest * 1.1 } else { 1.0 })
    }

    /// Maps a value to its position from 0 to 1 along the axis; values beyond an end lie a little beyond it.
    pub(crate) fn part(self, value: f64) -> f64 {
        let (low, high, at) = match self {
            Self::Linear(low, high) => (low, high, value),
            Self::Log(low, high) => (low.ln(), high.ln(), value.max(f64::MIN_POSITIVE).ln()),
        };
        if high > low { ((at - low) / (high - low)).clamp(-0.02, 1.02) } else { 0.5 }
    }

    /// Returns round values along the axis: 1, 2 or 5 times a power of ten.
    pub(crate) fn round(self) -> Vec<f64> {
        match self {
            Self::Linear(low, high) => {
                let step = customary((high - low) / MARKS);
                let [first, last] =
                    [(low / step - 1e-9).ceil(), (high / step + 1e-9).floor()].map(|number| number as i64);
                (first..=last).map(|step_number| step_number as f64 * step).collect()
            }
            Self::Log(low, high) => {
                let decades = (high / low).log10();
                let parts: &[f64] = if decades > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                // An end that is zero or infinite has no power of ten.
                let power = |end: f64| end.log10().clamp(f64::from(f64::MIN_10_EXP), f64::from(f64::MAX_10_EXP));
                let range = power(low).floor() as i32..=power(high).ceil() as i32;
                let every = (decades / MARKS).ceil().max(1.0) as i32;
                let powers = range.filter(|power| power.rem_euclid(every) == 0);
                let marks = powers.flat_map(|power| parts.iter().map(move |part| part * 10f64.powi(power)));
                marks.filter(|mark| (low * 0.999..=high * 1.001).contains(mark)).collect()
            }
        }
    }
}

/// Returns the least of 1, 2 and 5 times a power of ten that is not below a distance.
pub(crate) fn customary(distance: f64) -> f64 {
    let power = 10f64.powf(distance.max(f64::MIN_POSITIVE).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|part| part * power)
        .find(|step| *step >= distance * 0.999)
        .unwrap_or(distance)
}

impl Axis {
    /// Creates an axis with marks at round values.
    pub(crate) fn of(name: &str, scale: Scale, label: impl Fn(f64) -> String) -> Self {
        Self { name: name.into(), scale, marks: scale.round().into_iter().map(|mark| (mark, label(mark))).collect() }
    }

    /// Returns the name for people, which says whether the scale is logarithmic.
    pub(crate) fn title(&self) -> String {
        match self.scale {
            Scale::Log(..) if !self.name.is_empty() => format!("{}, log scale", self.name),
            _ => self.name.clone(),
        }
    }

    /// Creates an axis of sizes, whose marks are powers of two.
    pub(crate) fn of_sizes(name: &str, [low, high]: [f64; 2], label: impl Fn(u64) -> String) -> Self {
        let (first, last) = (low.log2().ceil() as u32, high.log2().floor() as u32);
        let every = (f64::from(last.saturating_sub(first)) / MARKS).ceil().max(1.0) as u32;
        let powers = (first..=last).filter(|power| (power - first).is_multiple_of(every));
        let marks = powers.map(|power| (2f64.powi(power.cast_signed()), label(1_u64 << power.min(63)))).collect();
        Self { name: name.into(), scale: Scale::Log(low, high), marks }
    }
}

/// Returns the smallest and the largest of some values that are not negative; 1 and 1 if there are none.
pub(crate) fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let ends = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if ends.0.is_finite() { ends } else { (1.0, 1.0) }
}

/// Returns the seconds in the unit in which the longest time is easily read, and the unit's name.
pub(crate) fn time_unit(longest: f64) -> (f64, &'static str) {
    match longest {
        short if short < 1e-3 => (1e-6, "µs"),
        short if short < 1.0 => (1e-3, "ms"),
        short if short < 180.0 => (1.0, "seconds"),
        short if short < 3.0 * HOUR => (MINUTE, "minutes"),
        long if long < 3.0 * DAY => (HOUR, "hours"),
        _ => (DAY, "days"),
    }
}

/// Returns at most `most` marks of a span of time, as seconds from its start with their labels, and the unit of the
/// labels. Steps are those of a calendar, so that hours and days begin at marks.
pub fn calendar(span: f64, most: f64) -> (Vec<(f64, String)>, &'static str) {
    let step = calendar_step(span, most);
    let (unit, name) = match step {
        step if step < MINUTE / 2.0 => (1.0, "seconds"),
        step if step < HOUR / 2.0 => (MINUTE, "minutes"),
        step if step < DAY / 2.0 => (HOUR, "hours"),
        _ => (DAY, "days"),
    };
    let marks = (0..=(span / step) as i32).map(|mark| f64::from(mark) * step);
    (marks.map(|seconds| (seconds, format!("{}", seconds / unit))).collect(), name)
}

fn calendar_step(span: f64, most: f64) -> f64 {
    let minutes = [1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
    let steps = minutes.into_iter().chain(minutes.map(|m| m * MINUTE));
    let steps = steps.chain([1.0, 2.0, 3.0, 6.0, 12.0].map(|h| h * HOUR)).chain([1.0, 2.0, 7.0, 14.0].map(|d| d * DAY));
    let longer = std::iter::successors(Some(28.0 * DAY), |step| Some(step * 2.0));
    steps.chain(longer).find(|step| span / step <= most).unwrap_or(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_customary_and_not_too_many() {
        assert_eq!(Scale::Linear(0.0, 10.0).round(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(Scale::Log(1.0, 10.0).round(), [1.0, 2.0, 5.0, 10.0]);
        for high in [0.003, 1.0, 7.7, 64.0, 1e9] {
            let marks = Scale::Linear(0.0, high).round();
            assert!((2..=8).contains(&marks.len()), "{high}: {marks:?}");
        }
        for high in [2.0, 30.0, 1e5, 1e20] {
            let marks = Scale::Log(1.0, high).round();
            assert!((2..=12).contains(&marks.len()), "{high}: {marks:?}");
        }
        for (low, high) in [(0.0, 1e3), (1.0, f64::INFINITY), (0.0, 0.0), (f64::MIN_POSITIVE, f64::MAX)] {
            assert!(Scale::Log(low, high).round().len() <= 12, "{low} to {high}");
        }
    }

    #[test]
    fn values_lie_in_order_along_an_axis() {
        for scale in [Scale::Linear(0.0, 100.0), Scale::Log(1.0, 100.0)] {
            let parts = [1.0, 3.0, 10.0, 99.0].map(|value| scale.part(value));
            assert!(parts.windows(2).all(|pair| pair[0] < pair[1]), "{scale:?}: {parts:?}");
        }
        assert!((Scale::Log(1.0, 100.0).part(10.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn sizes_are_marked_at_powers_of_two() {
        let axis = Axis::of_sizes("message", [1024.0, 1e9], |bytes| bytes.to_string());
        assert!((3..=7).contains(&axis.marks.len()), "{:?}", axis.marks);
        assert_eq!(axis.marks[0], (1024.0, "1024".into()));
    }

    #[test]
    fn times_are_marked_by_the_calendar_and_not_too_often() {
        assert!((calendar_step(8.0 * HOUR, 12.0) - HOUR).abs() < 1e-9);
        assert!((calendar_step(40.0, 12.0) - 5.0).abs() < 1e-9);
        for span in [1.0, 77.0, 5000.0, 3e5, 1e7, 1e9] {
            assert!(calendar(span, 12.0).0.len() <= 13, "{span}");
        }
        assert_eq!(calendar(8.0 * HOUR, 12.0).1, "hours");
        assert_eq!(
            [2e-5, 0.04, 2.0, 600.0, 5e4, 1e6].map(|time| time_unit(time).1),
            ["µs", "ms", "seconds", "minutes", "hours", "days"]
        );
    }
}
