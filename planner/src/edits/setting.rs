//! A value to which something is set.

/// Above 2⁵³ a float does not hold every whole number.
pub(crate) const EXACT_MAX: u64 = 1 << 53;

/// The value to which a key is set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Setting {
    /// A number, in the unit of the key.
    Number(f64),
    /// A factor on the present value.
    Factor(f64),
    Word(String),
}

impl Setting {
    /// Returns `true` if the value does not depend on the present one.
    pub(crate) fn is_absolute(&self) -> bool {
        !matches!(self, Self::Factor(_))
    }

    /// Returns the new value for a present one.
    pub(crate) fn of(&self, present: f64) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Factor(factor) => present * factor,
            Self::Word(_) => present,
        }
    }

    /// Returns the whole number, given the present one for factors.
    ///
    /// # Errors
    ///
    /// When the factor leads to none.
    pub(crate) fn count(&self, present: Option<u64>) -> Result<u64, String> {
        match (self, present) {
            (Self::Number(number), _) => Ok(*number as u64),
            (Self::Factor(factor), Some(present)) => {
                let count = factor * present as f64;
                if count >= 1.0 && count.fract() == 0.0 && count <= EXACT_MAX as f64 {
                    Ok(count as u64)
                } else {
                    Err(format!("×{factor} of {present} is {count}, which is no whole number"))
                }
            }
            (Self::Factor(_), None) => Err("there is no present value for a factor to multiply".into()),
            (Self::Word(word), _) => Err(format!("`{word}` is no whole number")),
        }
    }
}
