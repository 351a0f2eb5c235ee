//! Reading the fields of one specification with range checks.

use crate::families::Experts;
use crate::operator::AttentionKernel;
use crate::spec::{HeadKind, ModelError, ModelSpec};

// Upper limits that keep every product of dimensions within 64 bits and catch a slipped decimal.
pub(crate) const LAYERS_MAX: u64 = 10_000;
pub(crate) const WIDTH_MAX: u64 = 1 << 20;
pub(crate) const VOCABULARY_MAX: u64 = 1 << 24;
/// Rows of all embedding tables together: eight for each of the people that there are.
pub(crate) const ROWS_MAX: u64 = 1 << 36;
/// Steps of a recurrent network, all pairs of which are computed where one side attends to the other.
pub(crate) const STEPS_MAX: u64 = 1 << 16;
pub(crate) const SEQUENCE_MAX: u64 = 1 << 22;
pub(crate) const IMAGE_MAX: u64 = 1 << 12;
pub(crate) const CHANNELS_MAX: u64 = 1 << 17;

/// Largest product of experts and the weights of one of an expert's matrices.
const EXPERT_WEIGHTS_MAX: u64 = 1 << 46;

const CAPACITY_FACTOR_MAX: u64 = 64;

/// Fields that every family has.
const COMMON: [&str; 2] = ["name", "family"];

/// The fields of a specification whose family has all that are set.
pub(crate) struct Fields<'a> {
    spec: &'a ModelSpec,
}

impl<'a> Fields<'a> {
    /// # Errors
    ///
    /// [`ModelError::Foreign`] when a field is set that is in none of the lists of `own`.
    pub(crate) fn new(spec: &'a ModelSpec, own: &[&[&str]]) -> Result<Self, ModelError> {
        let known = |field: &str| COMMON.contains(&field) || own.iter().any(|list| list.contains(&field));
        match spec.set_fields().into_iter().find(|field| !known(field)) {
            None => Ok(Self { spec }),
            Some(field) => Err(ModelError::Foreign { model: spec.name.clone(), family: spec.family, field }),
        }
    }

    pub(crate) fn spec(&self) -> &'a ModelSpec {
        self.spec
    }

    pub(crate) fn missing(&self, field: &'static str) -> ModelError {
        ModelError::Missing { model: self.spec.name.clone(), family: self.spec.family, field }
    }

    pub(crate) fn range(&self, field: &'static str, value: u64, maximum: u64) -> Result<u64, ModelError> {
        if (1..=maximum).contains(&value) {
            Ok(value)
        } else {
            Err(ModelError::OutOfRange { model: self.spec.name.clone(), field, value, maximum })
        }
    }

    pub(crate) fn needed(&self, field: &'static str, value: Option<u64>, maximum: u64) -> Result<u64, ModelError> {
        self.range(field, value.ok_or_else(|| self.missing(field))?, maximum)
    }

    pub(crate) fn or(
        &self,
        field: &'static str,
        value: Option<u64>,
        default: u64,
        maximum: u64,
    ) -> Result<u64, ModelError> {
        self.range(field, value.unwrap_or(default), maximum)
    }

    pub(crate) fn layers(&self) -> Result<u32, ModelError> {
        self.needed("layers", self.spec.layers.map(u64::from), LAYERS_MAX).map(|layers| layers as u32)
    }

    /// Blocks of a decoder, as many as of the encoder unless stated.
    pub(crate) fn decoder_layers(&self, layers: u32) -> Result<u32, ModelError> {
        let stated = self.spec.decoder_layers.map(u64::from);
        self.or("decoder_layers", stated, u64::from(layers), LAYERS_MAX).map(|layers| layers as u32)
    }

    pub(crate) fn hidden(&self) -> Result<u64, ModelError> {
        self.needed("hidden", self.spec.hidden, WIDTH_MAX)
    }

    pub(crate) fn ffn(&self, hidden: u64) -> Result<u64, ModelError> {
        self.or("ffn", self.spec.ffn, 4 * hidden, 4 * WIDTH_MAX)
    }

    pub(crate) fn vocab(&self) -> Result<u64, ModelError> {
        self.needed("vocab", self.spec.vocab, VOCABULARY_MAX)
    }

    pub(crate) fn seq_len(&self) -> Result<u64, ModelError> {
        self.needed("seq_len", self.spec.seq_len, SEQUENCE_MAX)
    }

    /// Entries of a table of learned positions: one for each token of the longest of some sequences unless stated, and
    /// no fewer.
    pub(crate) fn positions(&self, sequences: &[(&'static str, u64)]) -> Result<u64, ModelError> {
        let longest = sequences.iter().map(|(_, tokens)| *tokens).max().unwrap_or(1);
        let positions = self.or("positions", self.spec.positions, longest, SEQUENCE_MAX)?;
        match sequences.iter().find(|(_, tokens)| *tokens > positions) {
            None => Ok(positions),
            Some(&(field, tokens)) => {
                Err(ModelError::TooFewPositions { model: self.spec.name.clone(), field, tokens, positions })
            }
        }
    }

    /// Rows of embedding tables.
    pub(crate) fn tables(&self) -> Result<Vec<u64>, ModelError> {
        let tables = self.list("tables", self.spec.tables.as_ref(), ROWS_MAX)?;
        self.range("tables", tables.iter().sum(), ROWS_MAX)?;
        Ok(tables)
    }

    /// Values of a list that a family needs, each from 1 to `maximum`.
    pub(crate) fn list(
        &self,
        field: &'static str,
        values: Option<&Vec<u64>>,
        maximum: u64,
    ) -> Result<Vec<u64>, ModelError> {
        let values = values.ok_or_else(|| self.missing(field))?;
        self.range(field, values.len() as u64, LAYERS_MAX)?;
        values.iter().map(|value| self.range(field, *value, maximum)).collect()
    }

    pub(crate) fn attention(&self) -> AttentionKernel {
        self.spec.attention.unwrap_or(AttentionKernel::Unfused)
    }

    /// Heads that share the hidden width evenly.
    pub(crate) fn dividing_heads(&self, hidden: u64) -> Result<u64, ModelError> {
        let heads = self.needed("heads", self.spec.heads, WIDTH_MAX)?;
        if hidden.is_multiple_of(heads) {
            Ok(heads)
        } else {
            Err(ModelError::IndivisibleHeads { model: self.spec.name.clone(), hidden, heads })
        }
    }

    /// Heads and the features of each, which are theirs of the hidden width unless they are stated.
    pub(crate) fn heads(&self, hidden: u64) -> Result<(u64, u64), ModelError> {
        let Some(width) = self.spec.head_width else {
            let heads = self.dividing_heads(hidden)?;
            return Ok((heads, hidden / heads));
        };
        let width = self.range("head_width", width, WIDTH_MAX)?;
        Ok((self.needed("heads", self.spec.heads, 4 * WIDTH_MAX / width)?, width))
    }

    /// Heads of keys and values, each shared by equally many heads of queries.
    pub(crate) fn kv_heads(&self, heads: u64) -> Result<u64, ModelError> {
        let kv_heads = self.or("kv_heads", self.spec.kv_heads, heads, heads)?;
        if heads.is_multiple_of(kv_heads) {
            Ok(kv_heads)
        } else {
            Err(ModelError::UnequalGroups { model: self.spec.name.clone(), heads, kv_heads })
        }
    }

    /// Classes, which a classifier needs and nothing else has.
    pub(crate) fn classes(&self, head: HeadKind) -> Result<Option<u64>, ModelError> {
        let spec = self.spec;
        match (head, spec.classes) {
            (HeadKind::Classifier, classes) => self.needed("classes", classes, VOCABULARY_MAX).map(Some),
            (_, None) => Ok(None),
            (_, Some(_)) => Err(ModelError::ClassesWithoutClassifier { model: spec.name.clone(), head }),
        }
    }

    /// A number above zero and at most `maximum`, or the assumed one.
    pub(crate) fn positive(
        &self,
        field: &'static str,
        value: Option<f64>,
        assumed: f64,
        maximum: u64,
    ) -> Result<f64, ModelError> {
        let value = value.unwrap_or(assumed);
        if value > 0.0 && value <= maximum as f64 {
            return Ok(value);
        }
        Err(ModelError::NotPositive { model: self.spec.name.clone(), field, value: value.to_string(), maximum })
    }

    /// Experts of two matrices of (hidden, ffn), in every `interval`-th block unless that is stated.
    pub(crate) fn experts(&self, hidden: u64, ffn: u64, interval: u64) -> Result<Experts, ModelError> {
        let spec = self.spec;
        let count = self.needed("experts", spec.experts, (EXPERT_WEIGHTS_MAX / (hidden * ffn)).max(1))?;
        let allowed = |factor: &f64| *factor > 0.0 && *factor <= CAPACITY_FACTOR_MAX as f64;
        if let Some(factor) = spec.capacity_factor.filter(|factor| !allowed(factor)) {
            return Err(ModelError::CapacityFactor {
                model: spec.name.clone(),
                value: factor.to_string(),
                maximum: CAPACITY_FACTOR_MAX,
            });
        }
        Ok(Experts {
            count,
            per_token: self.or("experts_per_token", spec.experts_per_token, count.min(2), count)?,
            interval: self.or("expert_interval", spec.expert_interval, interval, LAYERS_MAX)?,
            capacity_factor: spec.capacity_factor,
            group: spec.expert_group.map(|group| self.range("expert_group", group, SEQUENCE_MAX)).transpose()?,
        })
    }
}
