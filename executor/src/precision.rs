//! Mixed precision: the format that computes, and the scale of the loss.
//!
//! Source: Micikevicius et al., "Mixed Precision Training", arXiv:1710.03740, sections 3.1 and 3.2.

use burn::tensor::FloatDType;
use trainyard_plan::Precision;

/// Returns the format in which a plan computes.
pub(crate) fn compute_format(precision: Precision) -> FloatDType {
    match precision {
        Precision::Fp32 | Precision::Tf32 => FloatDType::F32,
        Precision::Fp16Mixed => FloatDType::F16,
        // Plans in eight bits are refused (`EXECUTABLE`).
        Precision::Bf16Mixed | Precision::Fp8Mixed => FloatDType::BF16,
    }
}

/// The factor that the loss is multiplied by before backward, so that small gradients do not vanish in half precision.
/// It is halved when a gradient is not finite, and doubled after many steps without one.
///
/// Source: NVIDIA, "Train With Mixed Precision", section "Choosing A Scaling Factor"; the numbers are those of PyTorch's
/// `torch.amp.GradScaler`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LossScale {
    value: f32,
    /// Steps without a gradient that is not finite.
    good_steps: u32,
    dynamic: bool,
}

const FIRST: f32 = 65_536.0;
const GROWTH_INTERVAL: u32 = 2_000;

impl LossScale {
    /// Returns the scale that training at `precision` starts with.
    pub(crate) fn of(precision: Precision) -> Self {
        let dynamic = precision == Precision::Fp16Mixed;
        Self { value: if dynamic { FIRST } else { 1.0 }, good_steps: 0, dynamic }
    }

    pub(crate) fn value(self) -> f32 {
        self.value
    }

    /// Returns `true` if the scale changes during training.
    pub(crate) fn is_dynamic(self) -> bool {
        self.dynamic
    }

    /// Returns `true` if gradients that are not finite may come from the scale alone.
    pub(crate) fn can_fall(self) -> bool {
        self.dynamic && self.value > 1.0
    }

    /// Returns the steps since the scale last changed, for checkpoints.
    pub(crate) fn good_steps(self) -> u32 {
        self.good_steps
    }

    /// Goes on where a checkpoint stopped.
    pub(crate) fn restore(&mut self, value: f32, good_steps: u32) {
        if self.dynamic {
            (self.value, self.good_steps) = (value, good_steps);
        }
    }

    /// Notes whether a step's gradients were finite.
    pub(crate) fn note(&mut self, finite: bool) {
        if !self.dynamic {
            return;
        }
        self.good_steps = if finite { self.good_steps.saturating_add(1) } else { 0 };
        if !finite {
            self.value = (self.value / 2.0).max(1.0);
        } else if self.good_steps >= GROWTH_INTERVAL {
            (self.value, self.good_steps) = (self.value * 2.0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_halves_on_overflow_and_doubles_after_long() {
        let mut scale = LossScale::of(Precision::Fp16Mixed);
        scale.note(false);
        assert_eq!(scale.value(), FIRST / 2.0);
        (0..GROWTH_INTERVAL - 1).for_each(|_| scale.note(true));
        assert_eq!(scale.value(), FIRST / 2.0);
        scale.note(true);
        assert_eq!((scale.value(), scale.good_steps()), (FIRST, 0));
        (0..40).for_each(|_| scale.note(false));
        assert_eq!(scale.value(), 1.0);
    }

    #[test]
    fn only_half_precision_of_five_bits_of_exponent_needs_it() {
        let mut scale = LossScale::of(Precision::Bf16Mixed);
        scale.note(false);
        assert_eq!(scale.value(), 1.0);
    }
}
