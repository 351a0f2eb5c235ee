//! Positions as rotations of queries and keys.

use super::Pass;
use crate::kernels::{self, Angles};
use burn::tensor::Tensor;
use std::f32::consts::TAU;
use std::sync::Arc;
use trainyard_models::RotaryScaling;
use trainyard_units::Invalid;

/// Refuses a number of features, of which `field` tells, that are not pairs.
pub(super) fn check(field: &'static str, features: u64) -> Result<(), Invalid> {
    if features.is_multiple_of(2) {
        return Ok(());
    }
    let name = field.rsplit('.').next().unwrap_or(field);
    Err(Invalid::breaks(field, features, "positions turn pairs of features")
        .with_hint(format!("set {name} to an even number")))
}

/// The angles by which pairs of features of queries and keys are turned: feature i and feature i + n / 2 at position t by
/// t · base^(−2i / n), of the first n features of a head. transformers pairs them so; the paper pairs neighbours, which is a
/// permutation.
///
/// Source: Su et al., arXiv:2104.09864, equation 34; a part of a head alone: Black et al., arXiv:2204.06745, section 2.1.1.
pub(super) struct Rotation {
    /// Pairs of features of a head that are turned.
    pairs: usize,
    /// (positions, pairs), flat.
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Rotation {
    /// Makes the angles of so many positions, for an even number of features of each head.
    pub(super) fn new(positions: u64, features: u64, base: f64, scaling: Option<&RotaryScaling>) -> Self {
        let (positions, pairs) = (positions as usize, features as usize / 2);
        let base = base as f32;
        // In single precision, as transformers computes them: weights were trained with these angles.
        let frequency = |pair: usize| 1.0 / base.powf(2.0 * pair as f32 / (2 * pairs) as f32);
        let frequencies: Vec<f32> = (0..pairs).map(|pair| scaled(frequency(pair), scaling)).collect();
        let angles: Vec<f32> =
            (0..positions).flat_map(|t| frequencies.iter().map(move |frequency| t as f32 * frequency)).collect();
        let (cosines, sines) = angles.into_iter().map(|angle| (angle.cos(), angle.sin())).unzip();
        Self { pairs, cosines, sines }
    }

    /// Turns all heads of the own tokens, (samples × own tokens, heads × width).
    pub(super) fn apply(&self, pass: &Pass, rows: Tensor<2>, heads: usize) -> Tensor<2> {
        let (first, ranks) = (pass.context.first_token(), pass.context.size());
        let own = |values: &[f32]| values.chunks(self.pairs).skip(first).step_by(ranks).flatten().copied().collect();
        let angles = Angles { pairs: self.pairs, cosines: own(&self.cosines), sines: own(&self.sines) };
        kernels::rotate(rows, &Arc::new(angles), heads)
    }
}

/// Returns a frequency as a model scales it that serves for longer samples than it was first trained on.
///
/// Source: Hugging Face transformers 5.23, `modeling_rope_utils.py`, `_compute_llama3_parameters` and
/// `_compute_linear_scaling_rope_parameters`; Grattafiori et al., arXiv:2407.21783, section 3.4.2.
fn scaled(frequency: f32, scaling: Option<&RotaryScaling>) -> f32 {
    let Some(scaling) = scaling else { return frequency };
    let factor = scaling.factor.unwrap_or(1.0) as f32;
    if scaling.kind == RotaryScaling::LINEAR {
        return frequency / factor;
    }
    let (low, high, tokens) = scaling.band();
    let (low, high, tokens) = (low as f32, high as f32, tokens as f32);
    let wavelength = TAU / frequency;
    // Short waves stay, long ones are stretched, and between them the one goes over into the other.
    if wavelength < tokens / high {
        frequency
    } else if wavelength > tokens / low {
        frequency / factor
    } else {
        let kept = (tokens / wavelength - low) / (high - low);
        (1.0 - kept) * frequency / factor + kept * frequency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_waves_stay_and_long_ones_are_stretched() {
        let scaling = RotaryScaling {
            kind: RotaryScaling::LLAMA3.into(),
            factor: Some(8.0),
            low_frequency_factor: Some(1.0),
            high_frequency_factor: Some(4.0),
            original_tokens: Some(8192),
        };
        let of = |wavelength: f32| scaled(TAU / wavelength, Some(&scaling)) * wavelength / TAU;
        assert_eq!((of(100.0), of(9000.0)), (1.0, 0.125));
        // Half way between 8192 / 4 and 8192 in tokens / wavelength: 2.5.
        assert!((of(8192.0 / 2.5) - (0.5 + 0.5 / 8.0)).abs() < 1e-6);
        let linear = RotaryScaling { kind: RotaryScaling::LINEAR.into(), ..scaling };
        assert_eq!(scaled(1.0, Some(&linear)).to_bits(), 0.125_f32.to_bits());
    }
}
