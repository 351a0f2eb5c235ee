//! How operators divide over the ranks that hold one stage's layers.

/// How the ranks that hold one stage's layers share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sharing {
    /// Ranks that split the matrices of a layer (Shoeybi et al., arXiv:1909.08053).
    pub tensor: u64,
    /// `true` if those ranks also split the tokens of what each of them would otherwise compute in full (Korthikanti et
    /// al., arXiv:2205.05198, section 4.2.2).
    pub sequence: bool,
    /// Ranks that split the tokens of a sample; keys and values go round among them (Liu et al., arXiv:2310.01889).
    pub context: u64,
    /// Ranks that split the experts of a layer (Lepikhin et al., arXiv:2006.16668), or its embedding tables (Naumov et
    /// al., arXiv:1906.00091, section 4).
    pub expert: u64,
    /// `true` if the ranks of a tensor group share the experts out too, each with its part of the tokens, instead of
    /// splitting their matrices.
    pub folded_experts: bool,
}

impl Sharing {
    /// One rank holds all of it.
    pub const WHOLE: Self = Self { tensor: 1, sequence: false, context: 1, expert: 1, folded_experts: false };

    /// Tensor parallelism of this degree alone.
    pub fn tensor(tensor: u64) -> Self {
        Self { tensor, ..Self::WHOLE }
    }

    /// Returns the number of ranks that share the experts of a layer.
    pub fn expert_ranks(self) -> u64 {
        if self.folded_experts { self.expert * self.tensor } else { self.expert }
    }

    /// Ranks among which the tokens of a [`Split::Tokens`] operator are divided, besides those of `context`.
    pub(crate) fn token_parts(self) -> u64 {
        if self.sequence { self.tensor } else { 1 }
    }
}

/// How an operator's work divides over the ranks of a tensor-parallel group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// Every rank does all of it.
    Replicated,
    /// Every rank does all of it, or its part of the tokens under sequence parallelism.
    Tokens,
    /// Each rank has a part of the outputs, columns of the weight. Under sequence parallelism the input is gathered
    /// for the product, forward and again backward, and only a rank's own tokens of it are kept.
    Columns,
    /// Each rank has a part of the inputs, rows of the weight; of a normalisation of heads, its heads, with the same
    /// weights.
    Rows,
    /// Each rank has a part of the heads, elements or vocabulary.
    Width,
}

/// What the ranks of an expert-parallel group divide among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisible {
    /// So many experts, of which each rank has equally many.
    Experts(u64),
    /// So many columns of embedding tables, of which the fullest rank has no more than one above the others.
    TableColumns(u64),
}

impl Divisible {
    /// Returns `true` if so many ranks may divide it.
    pub fn admits(self, ranks: u64) -> bool {
        match self {
            Self::Experts(experts) => experts.is_multiple_of(ranks),
            Self::TableColumns(columns) => ranks <= columns,
        }
    }
}
