//! What was probably meant.

/// How alike two words are that may be the same, from 0 to 1.
const ALIKE: f64 = 0.8;

/// The most similar of the words that are known, if one is close enough to have been meant: by the likeness of Jaro and
/// Winkler, which weighs how words begin. Of equals the last.
pub fn similar<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|word| (strsim::jaro_winkler(written, word), word));
    scored.filter(|(score, _)| *score > ALIKE).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, word)| word)
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
