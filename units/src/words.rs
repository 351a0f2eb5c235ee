//! Names that are looked up, and what was probably meant.

use crate::Invalid;
use crate::text::either;

/// How alike two words are that may be the same, from 0 to 1.
const ALIKE: f64 = 0.8;

/// The most similar of the words that are known, if one is close enough to have been meant: by the likeness of Jaro and
/// Winkler, which weighs how words begin. Of equals the last.
pub fn similar<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|word| (strsim::jaro_winkler(written, word), word));
    scored.filter(|(score, _)| *score > ALIKE).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, word)| word)
}

/// Returns the first of the words that are known that differs by one letter alone: another one, one too many, one too few, or two
/// the wrong way round.
pub fn slip<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().find(|word| strsim::osa_distance(written, word) == 1)
}

/// The similarity from which a name is another one with a slip of the pen.
const SLIP: f64 = 0.96;

/// The most names that are suggested at once.
const SUGGESTED: usize = 5;

/// The same of names of the same kin: sizes of a model.
const KIN_MAX: usize = 8;

/// Fewer letters and digits than these stand in names by chance.
const PARTS_MIN: usize = 3;

/// Lists the names that have all parts of what was written: `a100-sxm4-80gb` for `A100-80GB`. `None` if none has, or too many.
fn holding(written: &str, known: &[&str]) -> Option<String> {
    let written = written.to_lowercase();
    let parts: Vec<&str> =
        written.split(|letter: char| !letter.is_alphanumeric()).filter(|part| !part.is_empty()).collect();
    let enough = parts.iter().map(|part| part.chars().count()).sum::<usize>() >= PARTS_MIN;
    let has_all = |name: &&&str| enough && parts.iter().all(|part| name.to_lowercase().contains(part));
    let found: Vec<String> = known.iter().filter(has_all).map(|name| quoted(name)).collect();
    (1..=SUGGESTED).contains(&found.len()).then(|| either(&found))
}

/// Lists the names that begin as what was written, up to its last part or with its first: `vit-b-16` for `vit-base`. `None` if there
/// are none, or too many.
fn kin(written: &str, known: &[&str]) -> Option<String> {
    let written = written.to_lowercase();
    let first = |name: &str| name.split(|letter: char| !letter.is_alphanumeric()).next().map(str::to_owned);
    let family = written.rsplit_once('-').map(|(family, _)| family);
    let listed = |is_kin: &dyn Fn(&str) -> bool| {
        let found: Vec<String> =
            known.iter().filter(|name| is_kin(&name.to_lowercase())).map(|name| quoted(name)).collect();
        (1..=KIN_MAX).contains(&found.len()).then(|| either(&found))
    };
    let of_family = |name: &str| {
        let rest = family.and_then(|family| name.strip_prefix(family));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    listed(&of_family).or_else(|| listed(&|name| first(name) == first(&written)))
}

fn quoted(name: &str) -> String {
    format!("`{name}`")
}

/// The error for a name that is not in a catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {kind} is called `{name}`")]
pub struct CatalogError {
    kind: &'static str,
    name: String,
    /// In backticks; several with commas.
    similar: Option<String>,
    advice: String,
}

impl CatalogError {
    /// Tells that no entry of some kind (`GPU`, `model`) has this name; `known` are the names of those that there are.
    pub fn new<'a>(kind: &'static str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let advice = format!("`trainyard show {}s` lists the catalog", kind.to_lowercase());
        let known: Vec<&str> = known.into_iter().collect();
        let near = similar(name, known.iter().copied());
        // Another digit is another size of a model.
        let digits = |name: &str| name.chars().filter(char::is_ascii_digit).collect::<String>();
        let same_size = |near: &str| kind != "model" || digits(name) == digits(near);
        let slip = near.filter(|near| strsim::jaro_winkler(name, near) > SLIP && same_size(near)).map(quoted);
        let similar = slip.or_else(|| holding(name, &known)).or_else(|| kin(name, &known)).or_else(|| near.map(quoted));
        Self { kind, name: name.into(), similar, advice }
    }

    /// Says what was meant, whatever is similar.
    #[must_use]
    pub fn with_meant(self, meant: &[&str]) -> Self {
        let meant: Vec<String> = meant.iter().map(|name| quoted(name)).collect();
        Self { similar: Some(either(&meant)), ..self }
    }

    /// Replaces the hint that is given where no name is similar.
    #[must_use]
    pub fn with_advice(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }

    /// Returns the similar name, or else where to look.
    pub fn hint(&self) -> String {
        self.similar.as_ref().map_or_else(|| self.advice.clone(), |similar| format!("did you mean {similar}?"))
    }

    /// Places the name in a field.
    pub fn at(&self, field: impl Into<String>) -> Invalid {
        let article = if self.kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        let (name, allowed) = (self.name.clone(), format!("the name of {article} {} of the catalog", self.kind));
        Invalid::inside(field, self).with_facts(name, allowed).with_hint(self.hint())
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

    #[test]
    fn names_of_the_same_kin_are_suggested_where_none_is_meant_by_a_slip() {
        let known = ["gpt2", "gpt2-medium", "gpt2-xl", "t5-base", "vit-b-16"];
        let hint = |name: &str| CatalogError::new("model", name, known).hint();
        assert_eq!(hint("vit-base"), "did you mean `vit-b-16`?");
        assert_eq!(hint("gpt2-small"), "did you mean `gpt2`, `gpt2-medium` or `gpt2-xl`?");
        assert_eq!(hint("gpt2-xll"), "did you mean `gpt2-xl`?");
        assert_eq!(hint("t5-bsae"), "did you mean `t5-base`?");
        let sizes = ["llama-3.1-8b", "llama-3.1-70b", "llama-2-7b"];
        let other = CatalogError::new("model", "llama-3.1-7b", sizes).hint();
        assert_eq!(other, "did you mean `llama-3.1-8b` or `llama-3.1-70b`?");
    }

    #[test]
    fn names_with_all_parts_of_what_was_written_are_suggested() {
        let known = ["a10g", "a100-sxm4-40gb", "a100-sxm4-80gb", "a100-pcie-80gb", "l4"];
        let hint = |name: &str| CatalogError::new("GPU", name, known).hint();
        assert_eq!(hint("a100"), "did you mean `a100-sxm4-40gb`, `a100-sxm4-80gb` or `a100-pcie-80gb`?");
        assert_eq!(hint("A100-80GB"), "did you mean `a100-sxm4-80gb` or `a100-pcie-80gb`?");
        assert_eq!(hint("a10gg"), "did you mean `a10g`?");
        for chance in ["x", "a", "sx"] {
            assert_eq!(hint(chance), "`trainyard show gpus` lists the catalog", "{chance}");
        }
        let unknown = CatalogError::new("GPU", "tpu", known).at("machines[0].gpu");
        assert_eq!((unknown.given(), unknown.allowed()), (Some("tpu"), Some("the name of a GPU of the catalog")));
        assert_eq!(hint("tpu"), "`trainyard show gpus` lists the catalog");
    }
}
