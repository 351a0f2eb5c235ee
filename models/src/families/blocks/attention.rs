//! Attention of a block: projections, normalised and rotated heads, the core.

use super::Blocks;
use crate::families::parts::{Heads, Stream, operator};
use crate::families::{PositionKind, QueryKeyNorm};
use crate::operator::{Mask, Operator, OperatorKind, RelativePositions, Split};

impl Blocks {
    pub(super) fn attention_part(&self, windowed: bool) -> Vec<Operator> {
        let (stream, heads) = (self.stream(), self.key_heads(windowed));
        let mut operators = match self.kv_rank {
            None => self.projections(heads),
            Some(kv_rank) => self.latent_projections(kv_rank),
        };
        let core = Stream { dropout: self.attention_dropout.drops().into(), ..stream }.core(heads, self.seq_len);
        operators.push(core);
        let output = Stream { bias: self.output_bias, ..stream };
        operators.push(output.linear(self.heads * self.value_width, self.hidden, Split::Rows));
        operators
    }

    pub(super) fn key_heads(&self, windowed: bool) -> Heads {
        let mask = match (self.window.filter(|_| windowed), self.causal) {
            (Some(window), true) => Mask::Window(window),
            (Some(window), false) => Mask::Local(window / 2),
            (None, true) => Mask::Causal,
            (None, false) => Mask::Full,
        };
        Heads {
            keys: self.kv_heads,
            value_width: self.value_width,
            biased: self.position == PositionKind::Alibi || self.distances.is_some(),
            soft_cap: self.score_cap.is_some(),
            sinks: self.sinks,
            ..Heads::equal(self.heads, self.head_width, self.attention, mask)
        }
    }

    /// One product for queries, keys and values.
    fn projections(&self, heads: Heads) -> Vec<Operator> {
        let stream = Stream { bias: self.qkv_bias, ..self.stream() };
        let width = heads.queries * heads.width;
        let mut operators = vec![stream.linear(self.hidden, width + heads.kv_width(), Split::Columns)];
        if let Some(norm) = self.query_key_norm {
            operators.extend([heads.queries, heads.keys].map(|heads| self.head_norm(norm, heads)));
        }
        if self.position == PositionKind::Rotary {
            operators.push(self.rotary((heads.queries + heads.keys) * self.rotated()));
        }
        operators.extend(self.distances.into_iter().flat_map(|distances| self.distance_scores(distances)));
        operators
    }

    /// The normalisation of all queries, or of all keys.
    fn head_norm(&self, norm: QueryKeyNorm, heads: u64) -> Operator {
        match norm {
            QueryKeyNorm::Head => self.stream().head_norm(heads, self.head_width),
            QueryKeyNorm::Features => operator(self.norm.over(self.seq_len, heads * self.head_width), Split::Width),
        }
    }

    fn rotary(&self, width: u64) -> Operator {
        operator(OperatorKind::Rotary { rows: self.seq_len, width }, Split::Width)
    }

    /// Queries against the keys of all distances, and keys against their queries, with the projections of tokens.
    fn distance_scores(&self, distances: u64) -> [Operator; 2] {
        let scores = OperatorKind::RelativePositions(RelativePositions {
            samples: 1,
            heads: self.heads,
            queries: self.seq_len,
            keys: distances,
            head_width: self.head_width,
            width: self.hidden,
            owns_biases: false,
        });
        [Operator { shares_weights: true, ..operator(scores, Split::Width) }; 2]
    }

    /// Products that narrow queries and, together with the one rotated key of all heads, keys and values, and those
    /// that widen them again. What is narrow is the same on every rank of a tensor group.
    ///
    /// # Source
    ///
    /// DeepSeek-AI, "DeepSeek-V2", arXiv:2405.04434, section 2.1.
    fn latent_projections(&self, kv_rank: u64) -> Vec<Operator> {
        let stream = Stream { bias: self.qkv_bias, ..self.stream() };
        let wide = Stream { bias: false, ..stream };
        let normed = |rank| operator(self.norm.over(self.seq_len, rank), Split::Tokens);
        let rotated = self.rotated();
        let queries = self.heads * self.head_width;
        let mut operators = match self.query_rank {
            None => vec![wide.linear(self.hidden, queries, Split::Columns)],
            Some(rank) => vec![
                stream.linear(self.hidden, rank, Split::Tokens),
                normed(rank),
                wide.linear(rank, queries, Split::Columns),
            ],
        };
        operators.extend([
            stream.linear(self.hidden, kv_rank + rotated, Split::Tokens),
            normed(kv_rank),
            wide.linear(kv_rank, self.heads * (self.head_width - rotated + self.value_width), Split::Columns),
            self.rotary((self.heads + 1) * rotated),
        ]);
        operators
    }
}
