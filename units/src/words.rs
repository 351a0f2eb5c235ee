//! Names that are looked up, and what was probably meant.

use crate::Invalid;

/// How alike two words are that may be the same, from 0 to 1.
const ALIKE: f64 = 0.8;

/// The most similar of the words that are known, if one is close enough to have been meant: by the likeness of Jaro and
/// Winkler, which weighs how words begin. Of equals the last.
pub fn similar<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|word| (strsim::jaro_winkler(written, word), word));
    scored.filter(|(score, _)| *score > ALIKE).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, word)| word)
}

/// The error for a name that is not in a catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {kind} is called `{name}`")]
pub struct CatalogError {
    kind: &'static str,
    name: String,
    similar: Option<String>,
    advice: String,
}

impl CatalogError {
    /// Tells that no entry of some kind (`GPU`, `model`) has this name; `known` are the names of those that there are.
    pub fn new<'a>(kind: &'static str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let advice = format!("`trainyard show {}s` lists the catalog", kind.to_lowercase());
        Self { kind, name: name.into(), similar: similar(name, known).map(Into::into), advice }
    }

    /// Replaces the hint that is given where no name is similar.
    #[must_use]
    pub fn with_advice(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }

    /// Returns the similar name, or else where to look.
    pub fn hint(&self) -> String {
        self.similar.as_ref().map_or_else(|| self.advice.clone(), |similar| format!("did you mean `{similar}`?"))
    }

    /// Places the name in a field.
    pub fn at(&self, field: impl Into<String>) -> Invalid {
        Invalid::inside(field, self).with_hint(self.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_close_was_meant_and_what_is_not_was_not() {
        let known = ["gpt2", "gpt2-xl", "resnet50"];
        assert_eq!(similar("gpt2-xxl", known), Some("gpt2-xl"));
        assert_eq!(similar("resnet-50", known), Some("resnet50"));
        assert_eq!((similar("unet", known), similar("gpt2", [])), (None, None));
    }
}
