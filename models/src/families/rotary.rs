//! How rotary positions are scaled, so that a model serves for longer samples than it was first trained on.
//!
//! Source: Hugging Face transformers 5.23, `src/transformers/modeling_rope_utils.py`.

use crate::families::fields::Field;
use serde::{Deserialize, Serialize};
use trainyard_units::Invalid;

/// The base of the frequencies where nothing is said (Su et al., arXiv:2104.09864, section 3.4.3).
pub(super) const BASE: f64 = 10_000.0;

pub(super) const BASE_MAX: u64 = 1 << 40;

/// The greatest factor by which positions may be scaled, which catches a slipped decimal.
const FACTOR_MAX: f64 = 1e6;

/// How the frequencies of rotary positions are changed. It does not change what a model costs, only what it computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RotaryScaling {
    /// The method, by the name that `config.json` has for it as `rope_type`: `llama3`, `linear`, `dynamic`, `yarn`,
    /// `longrope`.
    pub kind: String,
    /// How many times as long samples may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// Tokens of the samples of the first training over the longest wavelength that stays as it is divided (llama3); 1 if
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_frequency_factor: Option<f64>,
    /// The same of the shortest wavelength that is changed (llama3); 4 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_frequency_factor: Option<f64>,
    /// Tokens of the samples of the first training; 8192 for llama3 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_tokens: Option<u64>,
}

impl RotaryScaling {
    /// The method of Llama 3.1 (Grattafiori et al., arXiv:2407.21783, section 3.4.2).
    pub const LLAMA3: &str = "llama3";
    /// Positions are divided by the factor (Chen et al., arXiv:2306.15595).
    pub const LINEAR: &str = "linear";

    /// Returns a scaling by a factor from samples of so many tokens.
    pub(crate) fn of(kind: &str, factor: f64, original_tokens: u64) -> Self {
        Self {
            kind: kind.into(),
            factor: Some(factor),
            low_frequency_factor: None,
            high_frequency_factor: None,
            original_tokens: Some(original_tokens),
        }
    }

    /// Returns the factor of a scaling as Llama 3.1 to 3.3 have it, whose other numbers are always the same; `None` for any
    /// other.
    pub fn as_llama3(&self) -> Option<f64> {
        let usual = self.low_frequency_factor.is_none_or(|factor| factor.to_bits() == 1f64.to_bits())
            && self.high_frequency_factor.is_none_or(|factor| factor.to_bits() == 4f64.to_bits())
            && self.original_tokens.is_none_or(|tokens| tokens == 8192);
        self.factor.filter(|_| self.kind == Self::LLAMA3 && usual)
    }

    /// Returns `true` if each frequency is scaled by itself, whatever the samples are: so as the executor computes it.
    pub fn is_of_frequencies(&self) -> bool {
        [Self::LLAMA3, Self::LINEAR].contains(&self.kind.as_str())
    }

    /// Returns the factor of a scaling that divides all positions alike; `None` for any other.
    pub fn as_linear(&self) -> Option<f64> {
        self.factor.filter(|_| self.kind == Self::LINEAR)
    }
}

impl RotaryScaling {
    /// The band of wavelengths (llama3) between the frequencies that stay and those that are divided: the low and the high
    /// factor, and the tokens over which they stand. What is left out is as in Llama 3.1.
    pub fn band(&self) -> (f64, f64, u64) {
        let (low, high) = (self.low_frequency_factor.unwrap_or(1.0), self.high_frequency_factor.unwrap_or(4.0));
        (low, high, self.original_tokens.unwrap_or(8192))
    }

    /// Refuses what cannot be computed.
    fn checked(self, at: Field) -> Result<Self, Invalid> {
        let (low, high, tokens) = self.band();
        if self.is_of_frequencies() && self.factor.is_none() {
            return Err(Invalid::inside(at.name, format!("`factor` is missing, which {} needs", self.kind)));
        }
        if tokens == 0 || high <= low {
            let rule = "`high_frequency_factor` must be above `low_frequency_factor`, and `original_tokens` above 0";
            return Err(Invalid::inside(at.name, rule));
        }
        Ok(self)
    }
}

impl std::fmt::Display for RotaryScaling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.kind)?;
        match self.factor {
            Some(factor) => write!(f, ", factor {factor}"),
            None => Ok(()),
        }
    }
}

/// Reads a scaling, if there is one.
pub(crate) fn scaling(at: Field, written: Option<RotaryScaling>) -> Result<Option<RotaryScaling>, Invalid> {
    let Some(scaling) = written else { return Ok(None) };
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if scaling.kind.is_empty() || scaling.kind.len() > 40 || !scaling.kind.chars().all(is_word) {
        return Err(Invalid::value(at.name, &scaling.kind, "a kind in one word, such as llama3"));
    }
    let numbers = [scaling.factor, scaling.low_frequency_factor, scaling.high_frequency_factor];
    match numbers.into_iter().flatten().find(|number| !(*number > 0.0 && *number <= FACTOR_MAX)) {
        Some(number) => Err(Invalid::value(at.name, number, format!("factors above 0 and at most {FACTOR_MAX}"))),
        None => scaling.checked(at).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, ModelSpec, find};

    fn scaled(kind: &str, factor: f64) -> RotaryScaling {
        let rest = (None, None, None);
        RotaryScaling {
            kind: kind.into(),
            factor: Some(factor),
            low_frequency_factor: rest.0,
            high_frequency_factor: rest.1,
            original_tokens: rest.2,
        }
    }

    #[test]
    fn a_scaling_is_known_by_its_numbers() {
        let full = RotaryScaling {
            low_frequency_factor: Some(1.0),
            high_frequency_factor: Some(4.0),
            original_tokens: Some(8192),
            ..scaled("llama3", 8.0)
        };
        assert_eq!((full.as_llama3(), full.as_linear()), (Some(8.0), None));
        assert_eq!(scaled("llama3", 32.0).as_llama3(), Some(32.0));
        assert_eq!(RotaryScaling { original_tokens: Some(4096), ..full }.as_llama3(), None);
        assert_eq!((scaled("linear", 2.0).as_linear(), scaled("yarn", 4.0).as_llama3()), (Some(2.0), None));
        assert_eq!(scaled("yarn", 4.0).to_string(), "yarn, factor 4");
    }

    #[test]
    fn a_scaling_is_kept_and_checked() {
        let spec = find("llama-3-8b").expect("in the catalog").model.spec();
        let of = |scaling: RotaryScaling| Model::try_from(ModelSpec { rotary_scaling: Some(scaling), ..spec.clone() });
        let kept = of(scaled("llama3", 8.0)).expect("valid").spec();
        assert_eq!(kept.rotary_scaling, Some(scaled("llama3", 8.0)));
        let without_factor = RotaryScaling { factor: None, ..scaled("llama3", 8.0) };
        let turned = RotaryScaling { low_frequency_factor: Some(4.0), ..scaled("llama3", 8.0) };
        let of_nothing = RotaryScaling { original_tokens: Some(0), ..scaled("llama3", 8.0) };
        for bad in [
            scaled("llama3", 0.0),
            scaled("", 8.0),
            scaled("two words", 8.0),
            scaled("linear", f64::NAN),
            without_factor,
            turned,
            of_nothing,
        ] {
            assert!(of(bad.clone()).is_err(), "{bad:?}");
        }
    }
}
