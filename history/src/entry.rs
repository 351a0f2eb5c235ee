//! What a history holds.

use crate::time::UtcTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A recommended plan, or the plans of a fleet.
    Plan,
    /// A step, a whole training or a queue that was simulated.
    Simulation,
    /// Something varied.
    WhatIf,
    /// A training, or a list of them.
    Run,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Plan, Self::Simulation, Self::WhatIf, Self::Run];

    /// Returns the kind's name in documents and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Simulation => "simulation",
            Self::WhatIf => "what-if",
            Self::Run => "run",
        }
    }

    /// Returns the kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The figures that a list shows. What a result does not say is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Seconds of one optimizer step: predicted, of a run the measured median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_time_s: Option<f64>,
    /// What had been predicted of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_step_time_s: Option<f64>,
    /// Seconds of the whole: of a training, of a fleet or queue its makespan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_s: Option<f64>,
    /// Its price in USD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Loss of the last step of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

/// A document: its name, `plan.json`, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The file name, without a folder.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// An entry to be kept.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// The kind of the result.
    pub kind: Kind,
    /// The time of the command.
    pub at: UtcTime,
    /// The version of the program.
    pub program: String,
    /// The command-line arguments after the program's name.
    pub arguments: Vec<String>,
    /// The model that is trained.
    pub model: Option<String>,
    /// The machines that it is trained on.
    pub machines: Option<String>,
    /// The figures that a list shows.
    pub figures: Figures,
    /// The document that the command printed, then those that belong to it.
    pub documents: Vec<Document>,
}

/// What is kept, without the text of its documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// What it is called: six digits and letters.
    pub id: String,
    /// What came about.
    pub kind: Kind,
    /// When, UTC.
    pub at: UtcTime,
    /// Version of the program.
    pub program: String,
    /// What followed the program's name on the command line.
    pub arguments: Vec<String>,
    /// What is trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// On what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<String>,
    /// Headline figures.
    pub figures: Figures,
    /// Words that somebody gave it, in the order of the alphabet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// What somebody said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Names of its documents; the first is what the command printed.
    pub documents: Vec<String>,
}

/// Maximum number of characters of a tag.
const TAG_MAX: usize = 64;

/// Returns `true` if a word may be a tag: letters, digits and `-_.:/+`, so that it stays one word wherever it is typed
/// or shown.
pub fn is_tag(word: &str) -> bool {
    let fine = |letter: char| letter.is_alphanumeric() || "-_.:/+".contains(letter);
    (1..=TAG_MAX).contains(&word.chars().count()) && word.chars().all(fine) && !word.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_one_word() {
        for fine in ["baseline", "v1.2", "größer", "a/b", "2026-11"] {
            assert!(is_tag(fine), "{fine}");
        }
        for wrong in ["", "two words", "<b>", "a\nb", "\u{1b}[31m", "--remove", "\u{202e}x", &"x".repeat(65)] {
            assert!(!is_tag(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn kinds_have_names() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
            assert_eq!(serde_json::to_value(kind).expect("a word"), kind.name());
        }
    }
}
