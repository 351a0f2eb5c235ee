//! Valid models. A [`Model`] that exists can be trained; nothing downstream checks its dimensions again.

use crate::families::{
    Bart, Bert, Dlrm, Electra, Gnmt, Gpt, GptMoe, Llama, Mlp, ResNet, RnnT, T5, Transformer, TransformerXl, Vit,
};
use crate::graph::OperatorGraph;
use crate::layers::Layers;
use crate::spec::{Family, ModelError, ModelSpec};

/// A model whose dimensions fit together.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// A decoder-only transformer.
    Gpt(Gpt),
    /// A decoder-only transformer with experts.
    GptMoe(GptMoe),
    /// An encoder-only transformer.
    Bert(Bert),
    /// A decoder-only transformer with rotary positions and gated feed-forward parts.
    Llama(Llama),
    /// A vision transformer.
    Vit(Vit),
    /// An encoder-decoder.
    T5(T5),
    /// A generator and a discriminator.
    Electra(Electra),
    /// An encoder-decoder with learned positions.
    Bart(Bart),
    /// An encoder-decoder with sinusoidal positions.
    Transformer(Transformer),
    /// A decoder-only transformer with memory.
    TransformerXl(TransformerXl),
    /// A recurrent encoder-decoder.
    Gnmt(Gnmt),
    /// A recurrent transducer.
    RnnT(RnnT),
    /// A recommendation model.
    Dlrm(Dlrm),
    /// A residual convolutional network.
    ResNet(ResNet),
    /// A multi-layer perceptron.
    Mlp(Mlp),
    /// Layers of operators that are written out.
    Layers(Layers),
}

/// What one sample of a training is to its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// This many tokens.
    Tokens(u64),
    /// An image of this many values.
    Image(u64),
    /// A volume of this many values.
    Volume(u64),
    /// Anything else.
    Record,
}

impl Model {
    /// Catalog id or the user's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Gpt(gpt) => &gpt.name,
            Self::GptMoe(moe) => &moe.dense.name,
            Self::Bert(bert) => &bert.name,
            Self::Llama(llama) => &llama.name,
            Self::Vit(vit) => &vit.name,
            Self::T5(t5) => &t5.name,
            Self::Electra(electra) => &electra.name,
            Self::Bart(bart) => &bart.name,
            Self::Transformer(transformer) => &transformer.name,
            Self::TransformerXl(xl) => &xl.name,
            Self::Gnmt(gnmt) => &gnmt.name,
            Self::RnnT(rnn_t) => &rnn_t.name,
            Self::Dlrm(dlrm) => &dlrm.name,
            Self::ResNet(resnet) => &resnet.name,
            Self::Mlp(mlp) => &mlp.name,
            Self::Layers(layers) => &layers.name,
        }
    }

    /// The architecture.
    pub fn family(&self) -> Family {
        match self {
            Self::Gpt(_) => Family::Gpt,
            Self::GptMoe(_) => Family::GptMoe,
            Self::Bert(_) => Family::Bert,
            Self::Llama(_) => Family::Llama,
            Self::Vit(_) => Family::Vit,
            Self::T5(_) => Family::T5,
            Self::Electra(_) => Family::Electra,
            Self::Bart(_) => Family::Bart,
            Self::Transformer(_) => Family::Transformer,
            Self::TransformerXl(_) => Family::TransformerXl,
            Self::Gnmt(_) => Family::Gnmt,
            Self::RnnT(_) => Family::RnnT,
            Self::Dlrm(_) => Family::Dlrm,
            Self::ResNet(_) => Family::Resnet,
            Self::Mlp(_) => Family::Mlp,
            Self::Layers(_) => Family::Layers,
        }
    }

    /// What one sample is.
    pub fn sample(&self) -> Sample {
        let square = |channels, side: u64| Sample::Image(channels * side * side);
        match self {
            Self::Vit(vit) => square(vit.channels, vit.image_size),
            Self::ResNet(resnet) => square(resnet.channels, resnet.image_size),
            Self::Layers(layers) => layers.sample(),
            _ => self.tokens_per_sample().map_or(Sample::Record, Sample::Tokens),
        }
    }

    /// Tokens of one sample, which an encoder-decoder reads; nothing for models that do not read tokens.
    pub fn tokens_per_sample(&self) -> Option<u64> {
        match self {
            Self::Gpt(gpt) => Some(gpt.seq_len),
            Self::GptMoe(moe) => Some(moe.dense.seq_len),
            Self::Bert(bert) => Some(bert.seq_len),
            Self::Llama(llama) => Some(llama.seq_len),
            Self::T5(t5) => Some(t5.seq_len),
            Self::Electra(electra) => Some(electra.seq_len),
            Self::Bart(bart) => Some(bart.stacks.seq_len),
            Self::Transformer(transformer) => Some(transformer.stacks.seq_len),
            Self::TransformerXl(xl) => Some(xl.seq_len),
            Self::Gnmt(gnmt) => Some(gnmt.seq_len),
            Self::Layers(layers) => layers.tokens(),
            Self::Vit(_) | Self::RnnT(_) | Self::Dlrm(_) | Self::ResNet(_) | Self::Mlp(_) => None,
        }
    }

    /// Attention heads, those of keys and values where they are fewer, among which a tensor-parallel degree divides
    /// layers; nothing for models whose layers cannot be split.
    pub fn tensor_heads(&self) -> Option<u64> {
        match self {
            Self::Gpt(gpt) => Some(gpt.heads),
            Self::GptMoe(moe) => Some(moe.dense.heads),
            Self::Bert(bert) => Some(bert.heads),
            Self::Llama(llama) => Some(llama.kv_heads),
            Self::Vit(vit) => Some(vit.heads),
            Self::T5(t5) => Some(t5.heads),
            Self::Electra(electra) => Some(electra.generator_heads()),
            Self::Bart(bart) => Some(bart.stacks.heads),
            Self::Transformer(transformer) => Some(transformer.stacks.heads),
            Self::TransformerXl(xl) => Some(xl.heads),
            Self::Gnmt(_) | Self::RnnT(_) | Self::Dlrm(_) | Self::ResNet(_) | Self::Mlp(_) | Self::Layers(_) => None,
        }
    }

    /// Whether it normalises by the mean and variance of all samples that a device computes at once (Ioffe and Szegedy,
    /// arXiv:1502.03167): what it learns then depends on how many they are.
    pub fn normalises_over_batches(&self) -> bool {
        match self {
            Self::ResNet(_) => true,
            Self::Layers(layers) => layers.normalises_over_batches(),
            _ => false,
        }
    }

    /// The operators, layer by layer.
    pub fn graph(&self) -> OperatorGraph {
        match self {
            Self::Gpt(gpt) => gpt.graph(),
            Self::GptMoe(moe) => moe.graph(),
            Self::Bert(bert) => bert.graph(),
            Self::Llama(llama) => llama.graph(),
            Self::Vit(vit) => vit.graph(),
            Self::T5(t5) => t5.graph(),
            Self::Electra(electra) => electra.graph(),
            Self::Bart(bart) => bart.graph(),
            Self::Transformer(transformer) => transformer.graph(),
            Self::TransformerXl(xl) => xl.graph(),
            Self::Gnmt(gnmt) => gnmt.graph(),
            Self::RnnT(rnn_t) => rnn_t.graph(),
            Self::Dlrm(dlrm) => dlrm.graph(),
            Self::ResNet(resnet) => resnet.graph(),
            Self::Mlp(mlp) => mlp.graph(),
            Self::Layers(layers) => layers.graph(),
        }
    }

    /// The model as it is written, with every default filled in but a capacity factor, without which no token is dropped.
    pub fn spec(&self) -> ModelSpec {
        match self {
            Self::Gpt(gpt) => gpt.spec(),
            Self::GptMoe(moe) => moe.spec(),
            Self::Bert(bert) => bert.spec(),
            Self::Llama(llama) => llama.spec(),
            Self::Vit(vit) => vit.spec(),
            Self::T5(t5) => t5.spec(),
            Self::Electra(electra) => electra.spec(),
            Self::Bart(bart) => bart.spec(),
            Self::Transformer(transformer) => transformer.spec(),
            Self::TransformerXl(xl) => xl.spec(),
            Self::Gnmt(gnmt) => gnmt.spec(),
            Self::RnnT(rnn_t) => rnn_t.spec(),
            Self::Dlrm(dlrm) => dlrm.spec(),
            Self::ResNet(resnet) => resnet.spec(),
            Self::Mlp(mlp) => mlp.spec(),
            Self::Layers(layers) => layers.spec(),
        }
    }
}

impl TryFrom<ModelSpec> for Model {
    type Error = ModelError;

    fn try_from(spec: ModelSpec) -> Result<Self, ModelError> {
        match spec.family {
            Family::Gpt => Gpt::from_spec(&spec).map(Self::Gpt),
            Family::GptMoe => GptMoe::from_spec(&spec).map(Self::GptMoe),
            Family::Bert => Bert::from_spec(&spec).map(Self::Bert),
            Family::Llama => Llama::from_spec(&spec).map(Self::Llama),
            Family::Vit => Vit::from_spec(&spec).map(Self::Vit),
            Family::T5 => T5::from_spec(&spec).map(Self::T5),
            Family::Electra => Electra::from_spec(&spec).map(Self::Electra),
            Family::Bart => Bart::from_spec(&spec).map(Self::Bart),
            Family::Transformer => Transformer::from_spec(&spec).map(Self::Transformer),
            Family::TransformerXl => TransformerXl::from_spec(&spec).map(Self::TransformerXl),
            Family::Gnmt => Gnmt::from_spec(&spec).map(Self::Gnmt),
            Family::RnnT => RnnT::from_spec(&spec).map(Self::RnnT),
            Family::Dlrm => Dlrm::from_spec(&spec).map(Self::Dlrm),
            Family::Resnet => ResNet::from_spec(&spec).map(Self::ResNet),
            Family::Mlp => Mlp::from_spec(&spec).map(Self::Mlp),
            Family::Layers => Layers::from_spec(&spec).map(Self::Layers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_with_every_default_filled_in_is_the_same_model() {
        for entry in crate::catalog() {
            let again = Model::try_from(entry.model.spec()).expect("a model's specification is valid");
            assert_eq!(again, entry.model);
        }
    }

    /// A model without a capacity factor drops no token, and costs what one costs whose experts have just enough places.
    #[test]
    fn a_capacity_factor_of_one_costs_nothing() {
        let dropless = &crate::find("mixtral-8x7b").expect("in the catalog").model;
        assert_eq!(dropless.spec().capacity_factor, None);
        let dropping = Model::try_from(ModelSpec { capacity_factor: Some(1.0), ..dropless.spec() }).expect("a model");
        assert_eq!(dropping.spec().capacity_factor, Some(1.0));
        assert_eq!(dropping.graph(), dropless.graph());
    }

    #[test]
    fn batch_normalisation_is_found_wherever_it_is_written() {
        let of = |name: &str| crate::find(name).expect("in the catalog").model.normalises_over_batches();
        assert!(of("resnet50") && of("efficientnet-b0") && of("densenet121"));
        assert!(!of("gpt2") && !of("vit-b-16") && !of("mnist-mlp"));
        let written = |operators: &str| {
            let text = format!(
                "name = \"m\"\nfamily = \"layers\"\ninput = {{ channels = 4, height = 8, width = 8 }}\n[[layer]]\nname = \"body\"\noperators = [{operators}]\n[[layer]]\nname = \"head\"\noperators = [\"global_pool\", \"flatten\", {{ cross_entropy = 4 }}]"
            );
            let spec: ModelSpec = toml::from_str(&text).expect("a model as written");
            Model::try_from(spec).expect("a model").normalises_over_batches()
        };
        assert!(written("{ add = [[{ conv = 4, kernel = 3, norm = \"batch\" }], []] }"));
        assert!(!written("{ add = [[{ conv = 4, kernel = 3, norm = \"instance\" }], []] }"));
        assert!(!written("{ conv = 4, norm = \"frozen\" }, { group_norm = 2 }"));
    }

    #[test]
    fn the_blocks_of_a_model_with_experts_alternate() {
        let spec = ModelSpec {
            layers: Some(4),
            hidden: Some(64),
            heads: Some(4),
            vocab: Some(100),
            seq_len: Some(32),
            experts: Some(8),
            ..ModelSpec::new("moe", Family::GptMoe)
        };
        let graph = Model::try_from(spec).expect("valid").graph();
        let exchanged: Vec<u64> = graph.layers().map(|layer| layer.exchanged_elements).collect();
        // Two places for each of 32 tokens of 64 features.
        assert_eq!(exchanged, [0, 0, 2 * 32 * 64, 0, 2 * 32 * 64, 0]);
        let shared = crate::Sharing { expert: 4, ..crate::Sharing::WHOLE };
        let routed = graph.layer(2);
        assert_eq!(routed.expert_parameters(shared), 2 * 2 * 64 * 256);
        assert_eq!(routed.expert_parameters(shared) * 4, routed.expert_parameters(crate::Sharing::WHOLE));
        assert_eq!(graph.layer(1).expert_parameters(shared), 0);
    }

    #[test]
    fn no_token_is_without_its_position() {
        for name in ["bert-base", "electra-base", "bart-large"] {
            let own = crate::find(name).expect("in the catalog").model.spec();
            let positions = own.positions.expect("it has a table of them");
            let with = |tokens| Model::try_from(ModelSpec { seq_len: Some(tokens), ..own.clone() });
            assert!(with(positions).is_ok(), "{name}");
            let error = with(positions + 1).expect_err("one too many");
            assert!(matches!(error, ModelError::TooFewPositions { field: "seq_len", .. }), "{name}: {error}");
            assert!(error.hint().is_some_and(|hint| hint.contains(&(positions + 1).to_string())), "{name}");
        }
        let own = crate::find("bart-large").expect("in the catalog").model.spec();
        let longer = ModelSpec { decoder_seq_len: Some(1027), ..own };
        let error = Model::try_from(longer).expect_err("one too many");
        assert!(matches!(error, ModelError::TooFewPositions { field: "decoder_seq_len", positions: 1026, .. }));
    }

    #[test]
    fn fields_of_other_families_and_absurd_values_are_refused() {
        let valid = crate::find("llama-2-7b").expect("in the catalog").model.spec();
        let wrong = |change: &dyn Fn(&mut ModelSpec)| {
            let mut spec = valid.clone();
            change(&mut spec);
            Model::try_from(spec).expect_err("refused")
        };
        let foreign = wrong(&|spec| spec.patch_size = Some(16));
        assert!(matches!(&foreign, ModelError::Foreign { field, .. } if field == "patch_size"), "{foreign}");
        assert!(matches!(wrong(&|spec| spec.hidden = None), ModelError::Missing { field: "hidden", .. }));
        assert!(matches!(wrong(&|spec| spec.kv_heads = Some(5)), ModelError::UnequalGroups { .. }));
        assert!(matches!(wrong(&|spec| spec.layers = Some(0)), ModelError::OutOfRange { field: "layers", .. }));
        assert!(matches!(
            wrong(&|spec| spec.experts_per_token = Some(2)),
            ModelError::Missing { field: "experts", .. }
        ));
        let capacity = wrong(&|spec| (spec.experts, spec.capacity_factor) = (Some(8), Some(f64::NAN)));
        assert!(matches!(capacity, ModelError::CapacityFactor { .. }));
    }
}
