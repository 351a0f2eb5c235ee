//! The parameters of a decoder: their identity, names, shapes and first values.
//!
//! A parameter is known by its layer and its slot within the layer, never by how the model is cut into stages. Names
//! are those of GPT-2 in the Hugging Face format, so that weights can be exchanged with other frameworks; like there,
//! linear weights are (inputs, outputs).

use crate::random::{Purpose, generator};
use burn::module::ParamId;
use rand::RngExt;
use rand_pcg::Pcg64;
use trainyard_models::Gpt;

/// Standard deviation of first values (Radford et al., 2019, section 2.3 and the published code).
const DEVIATION: f64 = 0.02;

/// Which parameter: layer 0 is the embedding, the blocks follow, the head is last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ParameterKey {
    /// Layer of the whole model.
    pub(crate) layer: u32,
    /// Place within the layer.
    pub(crate) slot: u32,
}

/// Slots of the embedding layer.
pub(crate) mod embedding {
    pub(crate) const TOKENS: u32 = 0;
    pub(crate) const POSITIONS: u32 = 1;
}

/// Slots of a block, each the first of two: weight or scale, then bias or shift.
pub(crate) mod block {
    pub(crate) const NORM_1: u32 = 0;
    pub(crate) const QKV: u32 = 2;
    pub(crate) const PROJECTION: u32 = 4;
    pub(crate) const NORM_2: u32 = 6;
    pub(crate) const EXPAND: u32 = 8;
    pub(crate) const CONTRACT: u32 = 10;
    pub(crate) const COUNT: u32 = 12;
}

/// Slots of the head.
pub(crate) mod head {
    pub(crate) const NORM: u32 = 0;
    /// The last stage's copy of the token table, when another stage holds the table itself.
    pub(crate) const TIED: u32 = 2;
}

/// How a parameter starts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Initial {
    Normal(f64),
    Ones,
    Zeros,
}

/// What a key stands for in a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameter {
    /// Where its values come from: itself, or the table that it copies.
    source: ParameterKey,
    /// Hugging Face's name of it.
    pub(crate) name: String,
    /// Outermost dimension first.
    pub(crate) shape: Vec<usize>,
    initial: Initial,
}

impl ParameterKey {
    pub(crate) fn new(layer: usize, slot: u32) -> Self {
        Self { layer: layer as u32, slot }
    }

    /// The same parameter has the same id in every process and every run.
    pub(crate) fn id(self) -> ParamId {
        // Zero is avoided: a default value should name nothing.
        ParamId::from((u64::from(self.layer) << 8 | u64::from(self.slot)) + 1)
    }

    pub(crate) fn from_id(id: ParamId) -> Self {
        let number = id.val() - 1;
        Self { layer: (number >> 8) as u32, slot: (number & 0xff) as u32 }
    }

    /// All parameters of a model, without copies.
    pub(crate) fn all(gpt: &Gpt) -> Vec<Self> {
        let first = [embedding::TOKENS, embedding::POSITIONS].map(|slot| Self::new(0, slot));
        let blocks =
            (1..=gpt.layers as usize).flat_map(|layer| (0..block::COUNT).map(move |slot| Self::new(layer, slot)));
        let last = [head::NORM, head::NORM + 1].map(|slot| Self::new(gpt.layers as usize + 1, slot));
        first.into_iter().chain(blocks).chain(last).collect()
    }

    /// Whether it is a copy of another parameter, so that it is stored once.
    pub(crate) fn is_copy(self, gpt: &Gpt) -> bool {
        self.describe(gpt).source != self
    }

    /// What the key stands for in `gpt`.
    pub(crate) fn describe(self, gpt: &Gpt) -> Parameter {
        let (hidden, ffn) = (gpt.hidden as usize, gpt.ffn as usize);
        let last = gpt.layers + 1;
        let source = if self.layer == last && self.slot == head::TIED { Self::new(0, embedding::TOKENS) } else { self };
        // The residual stream sums one projection per half block; scaling them keeps its variance (GPT-2, section 2.3).
        let residual = Initial::Normal(DEVIATION / (2.0 * f64::from(gpt.layers)).sqrt());
        let normal = Initial::Normal(DEVIATION);
        let parameter =
            |name: String, shape: &[usize], initial| Parameter { source, name, shape: shape.to_vec(), initial };
        match (source.layer, source.slot) {
            (0, embedding::TOKENS) => parameter("wte.weight".into(), &[gpt.vocab as usize, hidden], normal),
            (0, _) => parameter("wpe.weight".into(), &[gpt.seq_len as usize, hidden], normal),
            (layer, slot) if layer == last => norm(parameter, "ln_f", hidden, slot - head::NORM),
            (layer, slot) => {
                let prefix = format!("h.{}", layer - 1);
                let linear = |name: &str, inputs: usize, outputs: usize, offset: u32, initial| {
                    if offset == 0 {
                        parameter(format!("{prefix}.{name}.weight"), &[inputs, outputs], initial)
                    } else {
                        parameter(format!("{prefix}.{name}.bias"), &[outputs], Initial::Zeros)
                    }
                };
                match slot {
                    block::NORM_1..block::QKV => norm(parameter, &format!("{prefix}.ln_1"), hidden, slot),
                    block::QKV..block::PROJECTION => {
                        linear("attn.c_attn", hidden, 3 * hidden, slot - block::QKV, normal)
                    }
                    block::PROJECTION..block::NORM_2 => {
                        linear("attn.c_proj", hidden, hidden, slot - block::PROJECTION, residual)
                    }
                    block::NORM_2..block::EXPAND => {
                        norm(parameter, &format!("{prefix}.ln_2"), hidden, slot - block::NORM_2)
                    }
                    block::EXPAND..block::CONTRACT => linear("mlp.c_fc", hidden, ffn, slot - block::EXPAND, normal),
                    _ => linear("mlp.c_proj", ffn, hidden, slot - block::CONTRACT, residual),
                }
            }
        }
    }

    /// The values a run with `seed` starts from. They depend on nothing else, so every plan trains the same model.
    pub(crate) fn first_values(self, gpt: &Gpt, seed: u64) -> Vec<f32> {
        let Parameter { source, shape, initial, .. } = self.describe(gpt);
        let length = shape.iter().product();
        match initial {
            Initial::Ones => vec![1.0; length],
            Initial::Zeros => vec![0.0; length],
            Initial::Normal(deviation) => {
                let purpose = Purpose::Parameter { layer: source.layer, slot: source.slot };
                normal_values(&mut generator(seed, purpose), deviation, length)
            }
        }
    }
}

fn norm(
    parameter: impl Fn(String, &[usize], Initial) -> Parameter,
    name: &str,
    width: usize,
    offset: u32,
) -> Parameter {
    if offset == 0 {
        parameter(format!("{name}.weight"), &[width], Initial::Ones)
    } else {
        parameter(format!("{name}.bias"), &[width], Initial::Zeros)
    }
}

/// Normally distributed values by the polar form of Box and Muller's transform (Marsaglia and Bray, 1964).
fn normal_values(generator: &mut Pcg64, deviation: f64, length: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity(length + 1);
    while values.len() < length {
        let (x, y) = (generator.random_range(-1.0..1.0), generator.random_range(-1.0..1.0));
        let square: f64 = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            let scale = deviation * (-2.0 * square.ln() / square).sqrt();
            values.extend([(x * scale) as f32, (y * scale) as f32]);
        }
    }
    values.truncate(length);
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_models::{AttentionKernel, Model};

    fn gpt() -> Gpt {
        Gpt {
            name: "test".into(),
            layers: 3,
            hidden: 8,
            heads: 2,
            ffn: 24,
            vocab: 256,
            seq_len: 16,
            attention: AttentionKernel::Unfused,
        }
    }

    #[test]
    fn the_parameters_are_those_that_the_model_description_counts() {
        let gpt = gpt();
        let keys = ParameterKey::all(&gpt);
        let count: usize = keys.iter().map(|key| key.describe(&gpt).shape.iter().product::<usize>()).sum();
        let graph = Model::Gpt(gpt.clone()).graph();
        assert_eq!(count as u64, graph.parameters());
        let tensors: u32 = graph.layers().map(trainyard_models::Layer::parameter_tensors).sum();
        assert_eq!(keys.len() as u32, tensors);
    }

    #[test]
    fn names_differ_and_ids_lead_back_to_keys() {
        let gpt = gpt();
        let keys = ParameterKey::all(&gpt);
        let mut names: Vec<_> = keys.iter().map(|key| key.describe(&gpt).name).collect();
        assert!(names.contains(&"h.2.mlp.c_proj.weight".into()), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), keys.len());
        assert!(keys.iter().all(|key| ParameterKey::from_id(key.id()) == *key && !key.is_copy(&gpt)));
    }

    #[test]
    fn first_values_are_normal_and_the_tied_copy_equals_its_source() {
        let gpt = gpt();
        let table = ParameterKey::new(0, embedding::TOKENS).first_values(&gpt, 7);
        let variance = table.iter().map(|v| f64::from(v * v)).sum::<f64>() / table.len() as f64;
        assert!((variance.sqrt() / DEVIATION - 1.0).abs() < 0.1, "{variance}");
        let copy = ParameterKey::new(4, head::TIED);
        assert!(copy.is_copy(&gpt));
        assert_eq!(copy.first_values(&gpt, 7), table);
        assert_ne!(copy.first_values(&gpt, 8), table);
        let other = ParameterKey::new(1, block::QKV).first_values(&gpt, 7);
        assert_ne!(other[..8], table[..8]);
    }
}
