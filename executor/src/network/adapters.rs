//! Adapters beside products whose weights stay as they are: a product with a narrow result and one back, of whose
//! weights the second starts at zero.
//!
//! Source: Hu et al., arXiv:2106.09685, section 4.1. First values, names and layouts are those of PEFT's `LoraConfig`.

use super::Pass;
use super::dropout::Place;
use super::parameter::{Initial, Parameter, Role, Split};
use crate::kernels::{self, DropoutMask, Every};
use burn::tensor::Tensor;
use trainyard_models::AdapterTarget;
use trainyard_plan::LoraSpec;

/// The end of the names of products' weights.
const WEIGHT: &str = ".weight";

/// The ends of the names of an adapter's weights, in PEFT.
const DOWN: &str = ".lora_A.weight";
const UP: &str = ".lora_B.weight";

/// What PEFT puts before the names of a model's modules.
const PEFT: &str = "base_model.model.";

/// Families whose models transformers names without the part that all their names have.
const UNNAMED: &str = "transformer.";

/// The products of blocks by the ends of their modules' names, as transformers has them.
const MODULES: [(&str, AdapterTarget); 15] = [
    // Queries, keys and values in one.
    ("attn.c_attn", AdapterTarget::Query),
    ("attn.c_proj", AdapterTarget::Output),
    ("mlp.c_fc", AdapterTarget::Up),
    ("mlp.c_proj", AdapterTarget::Down),
    // The same, head by head.
    ("attention.query_key_value", AdapterTarget::Query),
    ("attention.dense", AdapterTarget::Output),
    ("mlp.dense_h_to_4h", AdapterTarget::Up),
    ("mlp.dense_4h_to_h", AdapterTarget::Down),
    ("self_attn.q_proj", AdapterTarget::Query),
    ("self_attn.k_proj", AdapterTarget::Key),
    ("self_attn.v_proj", AdapterTarget::Value),
    ("self_attn.o_proj", AdapterTarget::Output),
    ("mlp.gate_proj", AdapterTarget::Gate),
    ("mlp.up_proj", AdapterTarget::Up),
    ("mlp.down_proj", AdapterTarget::Down),
];

/// An adapter, by the slots of its layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Adapter {
    /// The weight of the product that it stands beside.
    pub(super) product: usize,
    /// (inputs, rank).
    pub(super) down: usize,
    /// (rank, outputs).
    pub(super) up: usize,
    pub(super) scale: f64,
    /// Share of its inputs that is dropped out.
    dropout: f64,
    /// `true` if ranks of a tensor group have a part of its inputs each.
    has_part_of_inputs: bool,
}

/// An adapter in a pass.
pub(super) struct Beside {
    pub(super) adapter: Adapter,
    samples: usize,
    mask: Option<DropoutMask>,
}

impl Beside {
    /// `inputs` are those of this rank.
    pub(super) fn new(adapter: Adapter, pass: &Pass, samples: usize, inputs: usize) -> Self {
        let first = if adapter.has_part_of_inputs { pass.tensor.rank() * inputs } else { 0 };
        let columns = Every { first, step: 1 };
        let mask = pass.mask_of_all_tokens(adapter.dropout, Place::Adapter(adapter.down as u32));
        Self { adapter, samples, mask: mask.map(|mask| DropoutMask { columns, ..mask }) }
    }

    /// Drops a share of the adapter's inputs out, in training.
    pub(super) fn dropped(&self, rows: Tensor<2>) -> Tensor<2> {
        match &self.mask {
            Some(mask) => kernels::dropout(rows, self.samples, mask),
            None => rows,
        }
    }
}

/// Declares adapters behind the parameters of a block.
pub(super) fn beside(parameters: &mut Vec<Parameter>, lora: &LoraSpec) -> Vec<Adapter> {
    let (rank, alpha) = (lora.rank.unwrap_or(1), lora.alpha.unwrap_or(1.0));
    let mut adapters = Vec::new();
    for product in 0..parameters.len() {
        let Some(module) = adapted(&parameters[product], lora) else { continue };
        let [inputs, outputs] = parameters[product].shape.as_slice().try_into().expect("products have matrices");
        let split = parameters[product].split;
        let [of_inputs, of_outputs] = [0, 1].map(|dimension| split.filter(|split| split.dimension == dimension));
        let declare = |end, shape: &[usize], initial, split: Option<Split>, other: Option<Split>| Parameter {
            split,
            is_adapter: true,
            // What ranks have whole meets a part of the inputs or of the outputs on each.
            has_partial_gradient: other.is_some(),
            ..Parameter::new(format!("{PEFT}{module}{end}"), shape, initial).transposed()
        };
        // Kaiming's uniform distribution with a slope of √5 (`reset_lora_parameters` of PEFT).
        let initial = Initial::Uniform(1.0 / (inputs as f64).sqrt());
        let rank = rank as usize;
        parameters.push(declare(DOWN, &[inputs, rank], initial, of_inputs, of_outputs));
        parameters.push(declare(UP, &[rank, outputs], Initial::Zeros, of_outputs, of_inputs));
        adapters.push(Adapter {
            product,
            down: parameters.len() - 2,
            up: parameters.len() - 1,
            scale: alpha / rank as f64,
            dropout: lora.dropout.unwrap_or(0.0),
            has_part_of_inputs: of_inputs.is_some(),
        });
    }
    adapters
}

/// Returns the module of a product that shall have an adapter.
fn adapted(parameter: &Parameter, lora: &LoraSpec) -> Option<String> {
    let name = parameter.name.strip_suffix(WEIGHT).filter(|_| parameter.role == Role::Frozen)?;
    let (_, target) = MODULES.iter().find(|(end, _)| name.ends_with(end))?;
    let targets = lora.targets.as_deref().unwrap_or_default();
    let is_wanted = |own: &String| own == "all-linear" || own == target.name();
    let prefix = if name.starts_with("h.") { UNNAMED } else { "" };
    targets.iter().any(is_wanted).then(|| format!("{prefix}{name}"))
}

/// Returns the module beside which the adapter stands of which a parameter is, in the names of PEFT.
pub(crate) fn module_of(parameter: &Parameter) -> Option<&str> {
    let name = parameter.name.strip_prefix(PEFT).filter(|_| parameter.is_adapter)?;
    name.strip_suffix(DOWN).or_else(|| name.strip_suffix(UP))
}
