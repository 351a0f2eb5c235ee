//! Loops that the compiler turns into vector instructions, chosen when the program runs.

/// Defines functions whose loops are compiled for each vector width and run with the widest that this processor has.
///
/// References among the arguments have the lifetime `'a`.
macro_rules! vectorized {
    ($($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block)*) => {$(
        $(#[$attribute])*
        $visibility fn $name<'a>($($argument: $type),*) $(-> $result)? {
            struct Pass<'a> {
                $($argument: $type,)*
                lifetime: std::marker::PhantomData<&'a ()>,
            }
            impl<'a> pulp::WithSimd for Pass<'a> {
                #[allow(unused_parens, reason = "a function without a result returns ()")]
                type Output = ($($result)?);
                #[inline(always)]
                fn with_simd<S: pulp::Simd>(self, _: S) -> Self::Output {
                    let Self { $($argument,)* .. } = self;
                    $body
                }
            }
            pulp::Arch::new().dispatch(Pass { $($argument,)* lifetime: std::marker::PhantomData })
        }
    )*};
}
pub(super) use vectorized;

/// Sums that run side by side, so that additions need not wait for each other.
const LANES: usize = 32;

/// Added to and taken from a number of less than 2²² it leaves the nearest integer, which then also stands in the low
/// bits of the sum: 1.5 · 2²³.
const ROUND: f32 = 12_582_912.0;

/// ln 2 in two parts: the first has few bits, so that small multiples of it are exact (Cody and Waite, 1980).
const LN_2_HIGH: f32 = 0.693_359_375;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// Computes eˣ to 2 units in the last place: 2ⁿ from the exponent bits times the Taylor polynomial of degree 7 within
/// ±ln 2 / 2. Arguments below −87.3 and above 88.3 give what these give; NaN stays NaN.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.3, 88.3);
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    let mut sum = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = r.mul_add(sum, coefficient);
    }
    // The exponent of a float stands above its 23 bits of mantissa, 127 higher than its value.
    sum * f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23))
}

/// Returns Φ(x), the normal distribution's share below x, and its density there.
///
/// Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: absolute error below 1.5e-7.
#[inline(always)]
pub(super) fn normal(x: f32) -> (f32, f32) {
    let bell = exp(-0.5 * x * x);
    let t = 1.0 / (x.abs() * std::f32::consts::FRAC_1_SQRT_2).mul_add(0.327_591_1, 1.0);
    let mut sum = 1.061_405_4;
    for coefficient in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        sum = t.mul_add(sum, coefficient);
    }
    let tail = 0.5 * t * sum * bell;
    (if x < 0.0 { tail } else { 1.0 - tail }, bell * FRAC_1_SQRT_TAU)
}

/// 1 / √(2π)
const FRAC_1_SQRT_TAU: f32 = 0.398_942_3;

/// Computes 1 / (1 + e⁻ˣ).
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Coefficients of u³, u⁵, … of tanh u, the last one first.
const TANH: [f32; 6] =
    [21_844.0 / 6_081_075.0, -1382.0 / 155_925.0, 62.0 / 2835.0, -17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0];

/// Computes tanh u, to 3e-7 of it: below ½ by its Taylor series, because 1 − 2 / (e²ᵘ + 1) loses what is small.
#[inline(always)]
pub(super) fn tanh(u: f32) -> f32 {
    let size = u.abs();
    let square = u * u;
    let mut sum = TANH[0];
    for coefficient in &TANH[1..] {
        sum = square.mul_add(sum, *coefficient);
    }
    let small = (u * square).mul_add(sum, u);
    let large = 1.0 - 2.0 / (exp(2.0 * size) + 1.0);
    if size < 0.5 { small } else { large.copysign(u) }
}

/// Computes Σ of `term` over equally long rows, in an order that depends on the length alone.
#[inline(always)]
pub(super) fn sum_of<const N: usize>(rows: [&[f32]; N], term: impl Fn([f32; N]) -> f32) -> f32 {
    let length = rows[0].len();
    let whole = length - length % LANES;
    let mut lanes = [0.0f32; LANES];
    let mut at = 0;
    while at < whole {
        let blocks: [&[f32]; N] = rows.map(|row| &row[at..at + LANES]);
        for lane in 0..LANES {
            lanes[lane] += term(blocks.map(|block| block[lane]));
        }
        at += LANES;
    }
    let mut rest = 0.0;
    for i in whole..length {
        rest += term(rows.map(|row| row[i]));
    }
    fold(lanes, |a, b| a + b) + rest
}

/// Returns the largest of a row, `-∞` for an empty one.
#[inline(always)]
pub(super) fn largest(row: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let blocks = row.chunks_exact(LANES);
    let rest = blocks.remainder().iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
    for block in blocks {
        for lane in 0..LANES {
            lanes[lane] = if block[lane] > lanes[lane] { block[lane] } else { lanes[lane] };
        }
    }
    fold(lanes, f32::max).max(rest)
}

#[inline(always)]
fn fold(mut lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = join(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_those_of_the_library() {
        for i in -8700..8800 {
            let x = i as f32 * 0.01 + 0.003;
            let (ours, library) = (exp(x), f64::from(x).exp());
            assert!((f64::from(ours) / library - 1.0).abs() < 2.5e-7, "{x}: {ours} {library}");
        }
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(f32::NEG_INFINITY) < 2e-38);
    }

    #[test]
    fn hyperbolic_tangents_are_those_of_the_library() {
        for i in -6000..6000 {
            let u = i as f32 * 0.002 + 0.0003;
            let (ours, library) = (f64::from(tanh(u)), f64::from(u).tanh());
            assert!((ours / library - 1.0).abs() < 3e-7, "{u}: {ours} {library}");
        }
        assert_eq!([tanh(0.0), tanh(60.0), tanh(-60.0)], [0.0, 1.0, -1.0]);
        assert!(tanh(f32::NAN).is_nan());
    }

    #[test]
    fn the_normal_distribution_has_its_values() {
        // Φ from tables to 10 digits.
        for (x, share) in [(0.0, 0.5), (1.0, 0.841_344_746_1), (-2.0, 0.022_750_131_9), (-4.0, 3.167_124_2e-5)] {
            assert!((f64::from(normal(x).0) - share).abs() < 2e-7, "{x}");
        }
        assert!((normal(1.0).1 - 0.241_970_72).abs() < 1e-7);
        assert!(normal(f32::NAN).0.is_nan());
    }

    #[test]
    fn sums_and_maxima_of_any_length() {
        for length in [1, 31, 32, 33, 64, 100] {
            let row: Vec<f32> = (0..length).map(|i| (i % 7) as f32 - 3.0).collect();
            let plain: f32 = row.iter().map(|x| x * x).sum();
            assert_eq!(sum_of([&row, &row], |[a, b]| a * b), plain, "{length}");
            assert_eq!(largest(&row), row.iter().copied().fold(f32::NEG_INFINITY, f32::max), "{length}");
        }
        assert_eq!(largest(&[]), f32::NEG_INFINITY);
    }
}
