//! Words: enumerations that are written as one of a closed list of names.

use crate::{Invalid, similar};

/// An enumeration whose values are words, printed as they are written in documents. What stands behind a bar is read too:
/// the spellings of other programs. Capitals are read as small letters and underscores as hyphens.
///
/// It needs `serde`. Attributes in front of the name are those of the enumeration.
///
/// ```
/// trainyard_units::named! {
///     /// The way from one machine to another.
///     Way { Wire = "wire" | "cable", Air = "air" }
/// }
///
/// assert_eq!(" Cable".parse(), Ok(Way::Wire));
/// assert_eq!((Way::named("air"), Way::named("Air")), (Some(Way::Air), None));
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $text:literal $(| $spelling:literal)*),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $text)] $variant),+
        }
        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The value as it is written.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Returns the value that is written exactly so.
            pub fn named(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == text)
            }

            /// Returns the value that is written exactly so.
            ///
            /// # Errors
            ///
            /// When none is.
            pub fn exactly(text: &str) -> Result<Self, $crate::UnknownName> {
                Self::named(text)
                    .ok_or_else(|| $crate::UnknownName { text: text.into(), allowed: vec![$($text),+] })
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.name())
            }
        }
        impl std::str::FromStr for $name {
            type Err = $crate::UnknownName;
            fn from_str(text: &str) -> Result<Self, $crate::UnknownName> {
                match $crate::folded(text).as_str() {
                    $($text $(| $spelling)* => Ok(Self::$variant),)+
                    _ => Err($crate::UnknownName { text: text.into(), allowed: vec![$($text),+] }),
                }
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(|_| serde::de::Error::unknown_variant(&text, &[$($text),+]))
            }
        }
    };
}

/// A word without what writers differ in: `ZeRO_3` is `zero-3`.
pub fn folded(text: &str) -> String {
    text.trim().to_ascii_lowercase().replace('_', "-")
}

/// A word that is not one of a closed list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not one of {}", allowed.join(", "))]
pub struct UnknownName {
    /// The word as written.
    pub text: String,
    /// The words accepted.
    pub allowed: Vec<&'static str>,
}

impl UnknownName {
    /// Returns the error for the field that has the word, with the word that was probably meant.
    pub fn in_field(&self, field: &str) -> Invalid {
        let meant = similar(&self.text, self.allowed.iter().copied()).map(|meant| format!("did you mean `{meant}`?"));
        let allowed = format!("one of {}", self.allowed.join(", "));
        Invalid::value(field, format!("`{}`", self.text), allowed).maybe_hint(meant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_told_with_those_that_there_are() {
        let unknown = UnknownName { text: "ec3".into(), allowed: vec!["ec2", "sagemaker"] };
        assert_eq!(unknown.to_string(), "`ec3` is not one of ec2, sagemaker");
        let error = unknown.in_field("cluster.service");
        assert_eq!(error.to_string(), "`cluster.service` is `ec3`, but it must be one of ec2, sagemaker");
        assert_eq!(error.hint().as_deref(), Some("did you mean `ec2`?"));
    }
}
