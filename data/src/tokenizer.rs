//! Tokens of a text, by a `tokenizer.json` as Hugging Face's tokenizers write it.

use crate::error::DataError;
use crate::files;
use crate::guarded::guarded;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Tokens that may separate two texts; the first that the tokenizer has is taken.
const ENDS: [&str; 6] = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]", "<|im_end|>"];
/// Tokens that may serve as the mask.
const MASKS: [&str; 2] = ["[MASK]", "<mask>"];
/// Tokens that may precede a text of a masked language model.
const BEGINS: [&str; 2] = ["[CLS]", "<s>"];
/// Tokens that may follow such a text.
const CLOSES: [&str; 2] = ["[SEP]", "</s>"];

/// A tokenizer that fits the model.
pub(crate) struct Tokenizer {
    path: PathBuf,
    inner: tokenizers::Tokenizer,
    /// Its ids are below this.
    pub entries: u32,
    /// Its file, so that another tokenizer is noticed when a run goes on.
    pub content: Vec<u8>,
}

impl Tokenizer {
    /// Reads the file, or the `tokenizer.json` of a folder; no text is cut, filled up or framed, whatever it says about that.
    pub(crate) fn read(path: &Path, vocabulary: u64) -> Result<Self, DataError> {
        let inside = path.join("tokenizer.json");
        let path = if path.is_dir() { inside.as_path() } else { path };
        let content = files::bytes(path)?;
        let broken = |problem: String| DataError::Tokenizer { path: path.to_owned(), problem };
        let inner = told(|| needed(&content).and_then(tokenizers::Tokenizer::from_bytes)).map_err(broken)?;
        // Ids may have gaps, so that the largest counts and not how many there are.
        let last = inner.get_vocab(true).into_values().max().ok_or_else(|| broken("it has no tokens".into()))?;
        let entries = u64::from(last) + 1;
        if entries > vocabulary {
            let what = format!("the tokenizer `{}`", path.display());
            return Err(DataError::Vocabulary { what, entries, vocabulary });
        }
        let entries = u32::try_from(entries).map_err(|_| broken(format!("its largest id is {last}")))?;
        Ok(Self { path: path.to_owned(), inner, entries, content })
    }

    /// Returns the ids of a text.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, DataError> {
        let encoding = told(|| self.inner.encode_fast(text, false)).map_err(|problem| self.broken(problem))?;
        Ok(encoding.get_ids().to_vec())
    }

    fn broken(&self, problem: String) -> DataError {
        DataError::Tokenizer { path: self.path.clone(), problem }
    }

    fn first_of(&self, tokens: &[&str]) -> Option<u32> {
        tokens.iter().find_map(|token| self.inner.token_to_id(token))
    }

    /// Returns the token that separates two texts, if there is one.
    pub(crate) fn end(&self) -> Option<u32> {
        self.first_of(&ENDS)
    }

    /// Returns the mask token.
    pub(crate) fn mask(&self) -> Result<u32, DataError> {
        self.first_of(&MASKS)
            .ok_or_else(|| DataError::NoMask { path: self.path.clone(), tokens: "`[MASK]` and `<mask>`" })
    }

    /// Returns the tokens that precede and follow a text of a masked language model.
    pub(crate) fn frame(&self) -> (Option<u32>, Option<u32>) {
        (self.first_of(&BEGINS), self.first_of(&CLOSES))
    }
}

/// Returns the library's result, or its error or panic as text. It panics on parts that do not fit together, such as
/// merges without their tokens and truncated maps of characters (0.23.2), where it should return an error.
fn told<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match guarded(call) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("its parts do not fit together: {panic}")),
    }
}

/// The greatest factor by which a replacement may lengthen a text. Customary ones write `▁` for a space, or one kind of
/// quotes for another.
const GROWTH_MAX: f64 = 1024.0;

/// Returns the greatest factor by which a `normalizer` increases a text's number of characters, as far as its parts
/// replace patterns by texts that they name.
fn growth(normalizer: &Value) -> f64 {
    let mut lengths = Lengths { known: BTreeMap::new(), other: 1.0 };
    parts(normalizer).into_iter().rev().for_each(|part| lengths.before(part));
    lengths.known.values().copied().fold(lengths.other, f64::max)
}

/// Returns the parts of a normalizer, in the order in which they are applied.
fn parts(normalizer: &Value) -> Vec<&Value> {
    match normalizer["normalizers"].as_array() {
        Some(inside) => inside.iter().flat_map(parts).collect(),
        None => vec![normalizer],
    }
}

/// The greatest number of characters that one character can become: for each that is replaced, and for all others.
struct Lengths {
    known: BTreeMap<char, f64>,
    other: f64,
}

impl Lengths {
    fn of(&self, text: &str) -> f64 {
        text.chars().map(|letter| self.known.get(&letter).unwrap_or(&self.other)).sum()
    }

    /// Updates the lengths for `part`, which is applied before the parts seen so far.
    fn before(&mut self, part: &Value) {
        if let Some(table) = part["precompiled_charsmap"].as_str() {
            // Which characters become the longest text is not looked for.
            let most = self.known.values().copied().fold(self.other, f64::max);
            *self = Self { known: BTreeMap::new(), other: most * longest(table).max(1.0) };
            return;
        }
        let Some(content) = part["content"].as_str() else { return };
        let new = self.of(content);
        let pattern = &part["pattern"];
        match pattern["String"].as_str().map(|text| (text, text.chars().count())) {
            Some((text, length)) if length > 0 => {
                for letter in text.chars() {
                    let old = self.known.entry(letter).or_insert(self.other);
                    // A letter alone is always replaced.
                    *old = if length == 1 { new } else { old.max(new / length as f64) };
                }
            }
            _ => {
                let least = pattern["Regex"].as_str().and_then(|text| regex_syntax::parse(text).ok());
                let takes_some = least.is_some_and(|regex| regex.properties().minimum_len() > Some(0));
                // What takes nothing may stand between any two letters.
                let after = |old: f64| if takes_some { old.max(new) } else { old + new };
                self.known.values_mut().for_each(|old| *old = after(*old));
                self.other = after(self.other);
            }
        }
    }
}

/// Characters of the longest text in a table of SentencePiece's, in base64: the bytes of a trie, how many in the four
/// bytes before, then texts that end with a zero byte (`src/normalizer.cc`, `DecodePrecompiledCharsMap`).
fn longest(table: &str) -> f64 {
    // What is no such table is refused by the library.
    let table = BASE64_STANDARD.decode(table).unwrap_or_default();
    let texts = || {
        let (trie, rest) = table.split_first_chunk()?;
        rest.get(usize::try_from(u32::from_le_bytes(*trie)).ok()?..)
    };
    let texts = String::from_utf8_lossy(texts().unwrap_or_default());
    texts.split('\0').map(|text| text.chars().count()).max().unwrap_or_default() as f64
}

/// Fields that do not affect how a text becomes ids, or are not needed here.
const UNNEEDED: [&str; 4] = ["truncation", "padding", "post_processor", "decoder"];

/// Reduces a `tokenizer.json` to the fields that split a text and number the pieces. The library panics on a decoder
/// that is not JSON (0.23.2, `src/decoders/mod.rs`).
fn needed(content: &[u8]) -> tokenizers::Result<Vec<u8>> {
    let mut all: Map<String, Value> = trainyard_documents::from_json_bytes(content)?;
    all.retain(|name, _| !UNNEEDED.contains(&name.as_str()));
    let growth = all.get("normalizer").map_or(1.0, growth);
    if growth > GROWTH_MAX {
        let problem = format!(
            "its `normalizer` may make a text {growth} times as long, but at most {GROWTH_MAX} times are allowed"
        );
        return Err(problem.into());
    }
    Ok(serde_json::to_vec(&all)?)
}

/// Makes a tokenizer of a few words, for tests.
#[cfg(test)]
pub(crate) fn of_words(words: &[&str]) -> String {
    let vocab: Map<_, _> = words.iter().zip(0..).map(|(word, id)| ((*word).into(), id.into())).collect();
    serde_json::json!({
        "version": "1.0",
        "truncation": { "max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right" },
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": words[0] },
        "added_tokens": []
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 6] = ["<unk>", "a", "b", "[MASK]", "[CLS]", "[SEP]"];

    fn write(content: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, content).expect("a file");
        (folder, path)
    }

    #[test]
    fn texts_become_ids_and_are_not_cut() {
        let (_folder, path) = write(&of_words(&WORDS));
        let tokenizer = Tokenizer::read(&path, 6).expect("six entries");
        assert_eq!(tokenizer.encode("a b\nb  nothing a").expect("words"), [1, 2, 2, 0, 1]);
        assert_eq!((tokenizer.end(), tokenizer.frame()), (Some(5), (Some(4), Some(5))));
        assert_eq!(tokenizer.mask().expect("a mask"), 3);
    }

    #[test]
    fn a_vocabulary_larger_than_the_models_is_refused() {
        let (_folder, path) = write(&of_words(&WORDS));
        let error = Tokenizer::read(&path, 5).err().expect("one too many").to_string();
        assert!(error.contains("has 6 entries") && error.contains("`model.vocab` is 5"), "{error}");
    }

    #[test]
    fn growth_is_that_of_the_letter_that_grows_most() {
        let replace = |pattern: &str, content: &str| serde_json::json!({ "type": "Replace", "pattern": { "String": pattern }, "content": content });
        let regex = |pattern: &str, content: &str| serde_json::json!({ "type": "Replace", "pattern": { "Regex": pattern }, "content": content });
        let all = |parts: Vec<Value>| growth(&serde_json::json!({ "type": "Sequence", "normalizers": parts }));
        // Signs set apart, as model2vec does it; blanks drawn together, again and again.
        let apart = "!?.,;:".chars().map(|sign| replace(&sign.to_string(), &format!(" {sign} ")));
        assert!((all(apart.chain([regex("\\s+", " ")]).collect()) - 3.0).abs() < 1e-12);
        assert!((all(vec![regex(" {2,}", "▁"); 20]) - 1.0).abs() < 1e-12);
        assert!((all(vec![replace("``", "\""), replace(" ", "▁")]) - 1.0).abs() < 1e-12);
        assert!((all(vec![replace("a", "bb"), replace("b", "ccc")]) - 6.0).abs() < 1e-12);
        assert!((all(vec![regex("", "abc"); 9]) - 4_f64.powi(9)).abs() < 1e-6);
        assert!((all(vec![regex("(?!x)", "a"), replace("", "b")]) - 4.0).abs() < 1e-12);
        let charsmap = [&8_u32.to_le_bytes()[..], b"the trie", "fi\0fünf!\0x".as_bytes()].concat();
        let table =
            serde_json::json!({ "type": "Precompiled", "precompiled_charsmap": BASE64_STANDARD.encode(charsmap) });
        assert!((all(vec![table.clone()]) - 5.0).abs() < 1e-12);
        assert!((all(vec![replace("a", "bb"), table, replace("f", "gg")]) - 20.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_tokenizer_is_told() {
        let broken = of_words(&WORDS).replace("\"added_tokens\"", "\"decoder\": d, \"added_tokens\"");
        assert!(broken.contains("decoder"));
        // The library panics on these two.
        let merges = r######"{"model": {"type": "BPE", "continuing_subword_prefix": "#####", "vocab": {"a": 0, "b": 1, "ab": 2},
            "merges": [["a", "b"]]}}"######;
        let charsmap = r#"{"normalizer": {"type": "Precompiled", "precompiled_charsmap": ""}, "model": {"type": "WordLevel",
            "vocab": {"a": 0}, "unk_token": "a"}}"#;
        let part =
            |pattern: &str| format!(r#"{{"type": "Replace", "pattern": {pattern}, "content": "{}"}}"#, "a".repeat(99));
        let grows = |pattern: &str| {
            of_words(&WORDS).replace(
                "\"version\"",
                &format!(
                    "\"normalizer\": {{\"type\": \"Sequence\", \"normalizers\": [{0}, {0}]}}, \"version\"",
                    part(pattern)
                ),
            )
        };
        let (regex, text) = (grows(r#"{"Regex": ""}"#), grows(r#"{"String": ""}"#));
        for content in ["{\"a\": 1}", "[]", "", &broken, merges, charsmap, &regex, &text] {
            let (_folder, path) = write(content);
            assert!(matches!(Tokenizer::read(&path, 6), Err(DataError::Tokenizer { .. })), "{content}");
        }
        let (_folder, path) = write(&of_words(&WORDS[..3]));
        let tokenizer = Tokenizer::read(&path, 5).expect("three words");
        assert!(matches!(tokenizer.mask(), Err(DataError::NoMask { .. })));
        assert_eq!((tokenizer.end(), tokenizer.frame()), (None, (None, None)));
    }
}
