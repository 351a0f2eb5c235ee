//! From data volume to samples.

use crate::Model;

/// What one sample holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerSample {
    /// A fixed number of tokens.
    Tokens(u64),
    /// One record: an image, a row.
    Record,
}

impl Model {
    /// What one sample of this model holds.
    pub fn per_sample(&self) -> PerSample {
        self.tokens_per_sample().map_or(PerSample::Record, PerSample::Tokens)
    }
}

/// Samples in a data set of `tokens` tokens; the last, incomplete one counts. Nothing if the model reads no tokens.
pub fn samples_in(model: &Model, tokens: u64) -> Option<u64> {
    model.tokens_per_sample().map(|per_sample| tokens.div_ceil(per_sample))
}
