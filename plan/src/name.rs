//! Words: enumerations that are written as one of a closed list of names.

/// An enumeration whose values are words, printed as they are written in documents. What stands behind a bar is read too:
/// the spellings of other programs. Capitals are read as small letters and underscores as hyphens.
#[macro_export]
macro_rules! named {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $text:literal $(| $spelling:literal)*),+ $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant),+
        }
        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The value as it is written.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
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

pub(crate) use named;

/// A word that is not one of a closed list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not one of {}", allowed.join(", "))]
pub struct UnknownName {
    /// The word as written.
    pub text: String,
    /// The words accepted.
    pub allowed: Vec<&'static str>,
}
