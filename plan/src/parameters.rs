//! Counts of the parameters that a rank holds.

use crate::collective::Collective;
use crate::mesh::Group;
use crate::spec::{EIGHT_BIT_BLOCK, Optimizer, Precision};
use trainyard_models::{FrozenWeights, Layer, OperatorKind, Sharing};
use trainyard_units::Bytes;

/// Number of parameters that one rank holds of a chunk of layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParameterCounts {
    /// Trainable values.
    pub parameters: u64,
    /// Trainable values of experts or embedding tables, of which fewer ranks hold copies.
    pub experts: u64,
    /// Those of `experts` that belong to embedding tables: kept in single precision, with sparse gradients that cover
    /// only the looked-up rows.
    pub tables: u64,
    /// Values of the table rows that a micro-batch looks up.
    pub looked_up: u64,
    /// Trainable tensors.
    pub tensors: u32,
    /// Trainable tensors that are matrices; the others are biases and norms, about a thousandth of the values.
    pub matrices: u32,
    /// Trainable values outside tables of which an optimizer in eight bits keeps the state in 32; 0 for other optimizers.
    pub in_32_bits: u64,
    /// Weights that stay as they are.
    pub frozen: FrozenWeights,
    /// Weights of other layers that are computed with once more: gathered again where they are sharded, held once.
    pub borrowed: FrozenWeights,
}

impl ParameterCounts {
    /// Returns the number of parameters that have a gradient in every step: those outside tables.
    pub fn updated(self) -> u64 {
        self.parameters - self.tables
    }

    /// Returns the bytes of the optimizer's state; that of tables is in 32 bits.
    pub fn state_bytes(self, optimizer: Optimizer) -> Bytes {
        self.updated_state(optimizer) + optimizer.in_32_bits().state(self.tables)
    }

    /// Returns those of the parameters outside tables. Each tensor has a last block that may not be whole.
    pub fn updated_state(self, optimizer: Optimizer) -> Bytes {
        if !optimizer.is_in_eight_bits() {
            return optimizer.state(self.updated());
        }
        let exempt = self.in_32_bits.min(self.updated());
        let scales = Bytes(2 * Precision::Fp32.element_bytes()) * u64::from(self.tensors);
        optimizer.in_32_bits().state(exempt) + optimizer.state(self.updated() - exempt) + scales
    }

    /// Returns the bytes of a micro-batch's gradients in single precision.
    pub fn gradient_bytes(self) -> Bytes {
        self.gradient_bytes_in(Precision::Fp32.element_bytes())
    }

    /// Returns the bytes of the gradients with `element` bytes per value; those of tables stay in single precision.
    pub(crate) fn gradient_bytes_in(self, element: u64) -> Bytes {
        Bytes(element) * self.updated() + Bytes(Precision::Fp32.element_bytes()) * self.looked_up
    }

    /// Returns the bytes of the weights with `element` bytes per value; tables stay in single precision, and quantised
    /// weights as they are.
    pub fn weight_bytes(self, element: u64) -> Bytes {
        let held = Self { borrowed: FrozenWeights::default(), ..self };
        held.gathered_bytes(element) + Bytes(Precision::Fp32.element_bytes()) * self.tables
    }

    /// Returns the bytes of the weights that ranks which share them out gather: all but those of tables.
    pub fn gathered_bytes(self, element: u64) -> Bytes {
        let frozen = self.frozen + self.borrowed;
        Bytes(element) * (self.updated() + frozen.values) + Bytes(frozen.quantised)
    }

    /// Returns those that a step changes.
    #[must_use]
    pub fn trained(self) -> Self {
        Self { frozen: FrozenWeights::default(), borrowed: FrozenWeights::default(), ..self }
    }

    /// Returns `true` if there are no weights.
    pub fn is_empty(self) -> bool {
        self.parameters == 0 && self.frozen + self.borrowed == FrozenWeights::default()
    }

    /// Returns the parameters that belong to neither experts nor tables.
    pub(crate) fn dense(self) -> Self {
        Self { parameters: self.parameters - self.experts, experts: 0, tables: 0, looked_up: 0, ..self }
    }

    /// Returns the parameters of experts.
    pub(crate) fn of_experts(self) -> Self {
        let experts = self.experts - self.tables;
        let any = u32::from(experts > 0);
        Self { parameters: experts, experts, tensors: any, matrices: any, ..Self::default() }
    }

    /// Returns one rank's shard of a state. Tables are not sharded in this way, but distributed as experts are.
    pub(crate) fn divided(self, dense: u64, experts: u64) -> Self {
        let own = self.dense().parameters.div_ceil(dense);
        let expert = self.of_experts().parameters.div_ceil(experts) + self.tables;
        let part = |weights: FrozenWeights| FrozenWeights {
            values: weights.values.div_ceil(dense),
            quantised: weights.quantised.div_ceil(dense),
            ..weights
        };
        let (frozen, borrowed) = (part(self.frozen), part(self.borrowed));
        let in_32_bits = self.in_32_bits.div_ceil(dense.min(experts));
        Self { parameters: own + expert, experts: expert, in_32_bits, frozen, borrowed, ..self }
    }
}

impl std::ops::Add for ParameterCounts {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            parameters: self.parameters + other.parameters,
            experts: self.experts + other.experts,
            tables: self.tables + other.tables,
            looked_up: self.looked_up + other.looked_up,
            tensors: self.tensors + other.tensors,
            matrices: self.matrices + other.matrices,
            in_32_bits: self.in_32_bits + other.in_32_bits,
            frozen: self.frozen + other.frozen,
            borrowed: self.borrowed + other.borrowed,
        }
    }
}

/// A reduction in several collectives: the result of each is the buffer of the next.
pub type Chain = Vec<(Collective, Group, ParameterCounts)>;

/// Counts the trainable matrices of a layer.
fn matrices(layer: &Layer) -> u32 {
    let kinds = layer.operators.iter().filter(|operator| operator.has_weights()).map(|operator| operator.kind);
    kinds
        .map(|kind| match kind {
            OperatorKind::Linear { .. } | OperatorKind::ExpertLinear { .. } => 1,
            OperatorKind::Embedding { .. } | OperatorKind::Tuned(_) => kind.parameter_tensors(),
            _ => 0,
        })
        .sum()
}

/// The least values of a tensor whose state is in eight bits (bitsandbytes, `min_8bit_size`; torchao).
const EIGHT_BIT_TENSOR: u64 = 4096;

/// Counts the trainable values of a layer of which an optimizer in eight bits keeps the state in 32, on a rank with one of so
/// many `parts` of each tensor.
///
/// # Source
///
/// Of whole tensors, bitsandbytes keeps small ones in 32 bits (`optim/optimizer.py`, `Optimizer2State.init_state`), and
/// transformers 5 tells it to do so with embeddings (`trainer.py`, `create_optimizer`, `register_module_override`). Of
/// parts, torchao keeps those in 32 bits that are small or no whole number of blocks (`optim/adam.py`, `_new_buffer`). The
/// flat partitions of ZeRO are all in eight bits, of which this counts a little more.
fn in_32_bits(layer: &Layer, sharing: Sharing, parts: u64) -> u64 {
    let own = layer.operators.iter().filter(|operator| operator.has_weights());
    own.map(|operator| exempt(operator.on_rank(1, sharing), parts)).sum()
}

fn exempt(kind: OperatorKind, parts: u64) -> u64 {
    let matrix = |rows, width| exempt_of(rows, width, parts);
    match kind {
        OperatorKind::Recommendation(_) => 0,
        OperatorKind::Embedding { .. } if parts == 1 => kind.parameters(),
        OperatorKind::Embedding { vocab, positions, segments, width, .. } => {
            [vocab, positions, segments].map(|rows| matrix(rows, width)).iter().sum()
        }
        OperatorKind::Linear { inputs, outputs, bias, .. } => {
            matrix(outputs, inputs) + if bias { matrix(outputs, 1) } else { 0 }
        }
        OperatorKind::ExpertLinear { experts, inputs, outputs, bias, .. } => {
            matrix(experts, inputs * outputs) + if bias { matrix(experts, outputs) } else { 0 }
        }
        kind if kind.parameter_tensors() == 1 => matrix(kind.parameters(), 1),
        kind => kind.parameters().min(u64::from(kind.parameter_tensors()) * (EIGHT_BIT_TENSOR - 1) * parts),
    }
}

/// Returns the values of a tensor, shared out by rows, if its parts are small or no whole number of blocks. The last part
/// may have fewer rows, which matters if they would take more in 32 bits than the others in eight.
fn exempt_of(rows: u64, width: u64, parts: u64) -> u64 {
    let most = rows.div_ceil(parts).max(1);
    let last = rows % most;
    let ragged = |rows: u64| !(rows * width).is_multiple_of(EIGHT_BIT_BLOCK);
    let is_exempt = most * width < EIGHT_BIT_TENSOR || ragged(most) || (4 * last > most && ragged(last));
    if is_exempt { rows * width } else { 0 }
}

/// Returns the part of a layer that one of the ranks sharing it holds, for micro-batches of `micro` samples. With an
/// optimizer in eight bits `parts` are those in which states are shared out.
pub(crate) fn held_of(layer: &Layer, micro: u64, sharing: Sharing, parts: Option<u32>) -> ParameterCounts {
    ParameterCounts {
        parameters: layer.parameters(sharing),
        experts: layer.expert_parameters(sharing),
        tables: layer.table_parameters(sharing),
        looked_up: layer.looked_up(micro),
        tensors: layer.parameter_tensors(),
        matrices: matrices(layer),
        in_32_bits: parts.map_or(0, |parts| in_32_bits(layer, sharing, parts.into())),
        frozen: layer.frozen_weights(sharing),
        borrowed: layer.borrowed_weights(sharing),
    }
}
