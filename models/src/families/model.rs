//! Valid models. A [`Model`] that exists can be trained; nothing downstream checks its dimensions again.

use crate::families::fields::Dimensions;
use crate::families::{Dropout, Family, Model, ModelSpec};
use crate::graph::OperatorGraph;
use crate::operator::{AttentionKernel, Image, OperatorKind};
use trainyard_units::Invalid;

/// Families whose attention PyTorch's scaled_dot_product_attention or Megatron's fused kernels compute, whichever kernel it
/// is. T5 adds a bias to the scores, which only some kernels do ([`Model::adds_bias_to_scores`]), and Transformer-XL terms
/// for which its usual implementation has no fused kernel.
const FUSED: [Family; 11] = [
    Family::Gpt,
    Family::GptMoe,
    Family::Bert,
    Family::Llama,
    Family::GptNeox,
    Family::Vit,
    Family::Electra,
    Family::Bart,
    Family::Whisper,
    Family::Clip,
    Family::Traced,
];

/// One sample of a training, as its model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// This many tokens.
    Tokens(u64),
    /// An image of this many values.
    Image(u64),
    /// A volume of this many values.
    Volume(u64),
    /// Sound, of which a model is given features.
    Sound,
    /// Anything else.
    Record,
}

/// Layers that some software cannot run as it runs others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpecialLayers {
    /// Recurrent layers, of which cuDNN takes all weights in one buffer.
    Recurrent,
    /// Regions cut out of maps, whose number depends on what is in an image.
    Regions,
}

impl std::fmt::Display for SpecialLayers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Recurrent => "recurrent layers",
            Self::Regions => "regions cut out of maps",
        })
    }
}

/// A model that has a name.
pub(crate) trait Named {
    /// Returns the catalog id or the user's name.
    fn name(&self) -> &str;
}

/// A family of models: everything that differs between families besides their dimensions.
pub(crate) trait Architecture: Dimensions<Given = ()> + Named {
    /// Refuses dimensions that are each in range but do not fit together.
    fn check(&self) -> Result<(), Invalid> {
        Ok(())
    }

    fn sample(&self) -> Sample {
        Sample::Record
    }

    /// As [`Model::tensor_heads`].
    fn tensor_heads(&self) -> Option<u64> {
        None
    }

    /// As [`Model::normalises_over_batches`].
    fn normalises_over_batches(&self) -> bool {
        false
    }

    /// As [`Model::overflows_half`].
    fn overflows_half(&self) -> bool {
        false
    }

    /// As [`Model::dropout`].
    fn dropout(&self) -> Dropout {
        Dropout::default()
    }

    fn graph(&self) -> OperatorGraph;
}

impl Model {
    /// Returns the catalog id or the user's name.
    pub fn name(&self) -> &str {
        self.architecture().name()
    }

    /// Returns the kind and size of one sample.
    pub fn sample(&self) -> Sample {
        self.architecture().sample()
    }

    /// Returns the tokens of one sample, which an encoder-decoder reads; `None` for models that do not read tokens.
    pub fn tokens_per_sample(&self) -> Option<u64> {
        match self.sample() {
            Sample::Tokens(tokens) => Some(tokens),
            _ => None,
        }
    }

    /// Returns the attention heads, those of keys and values where they are fewer, among which a tensor-parallel degree
    /// divides layers; `None` for models whose layers cannot be split.
    pub fn tensor_heads(&self) -> Option<u64> {
        self.architecture().tensor_heads()
    }

    /// Returns `true` for a model that normalises by the mean and variance of all samples that a device computes at once
    /// (Ioffe and Szegedy, arXiv:1502.03167), and so learns something else when they are more or fewer.
    pub fn normalises_over_batches(&self) -> bool {
        self.architecture().normalises_over_batches()
    }

    /// Returns `true` if activations of its published weights exceed what half precision (fp16) can hold, of which a scaled loss
    /// does not help.
    pub fn overflows_half(&self) -> bool {
        self.architecture().overflows_half()
    }

    /// Returns the shares that are dropped out in training, as far as the description says any.
    pub fn dropout(&self) -> Dropout {
        self.architecture().dropout()
    }

    /// Returns `true` if its cost counts dropout of which its description says nothing, as its published training has it.
    pub fn assumes_dropout(&self) -> bool {
        matches!(self, Self::Gpt(_) | Self::GptMoe(_) | Self::Bert(_)) && self.dropout() == Dropout::default()
    }

    /// Returns the operators, layer by layer.
    pub fn graph(&self) -> OperatorGraph {
        self.architecture().graph().dropping_out(self.dropout().is_on())
    }

    /// Returns the model as it is written, with every default filled in but a capacity factor, without which no token
    /// is dropped.
    pub fn spec(&self) -> ModelSpec {
        let mut spec = ModelSpec::new(self.name(), self.family());
        self.architecture().write(&mut spec);
        spec
    }

    /// Returns `true` if a trained bias by position is added to the scores, which kernels have to take as a mask of values.
    pub fn adds_bias_to_scores(&self) -> bool {
        matches!(self, Self::T5(_))
    }

    /// Returns the model as software computes it that chooses this attention kernel: with the kernel, unless it cannot
    /// compute the model's attention, or frameworks compute that in separate kernels anyway.
    #[must_use]
    pub fn with_attention(&self, kernel: AttentionKernel) -> Self {
        let takes_bias = self.adds_bias_to_scores() && kernel != AttentionKernel::Flash;
        if !self.has_fused_attention() && !takes_bias {
            return self.clone();
        }
        Self::try_from(ModelSpec { attention: Some(kernel), ..self.spec() }).unwrap_or_else(|_| self.clone())
    }

    /// Returns the first field of a stack of blocks that the layers of Megatron Core's `GPTModel` cannot have; `None` for
    /// one that it can be, and for models of other families.
    pub fn beyond_gpt_layers(&self) -> Option<&'static str> {
        match self {
            Self::Blocks(blocks) => blocks.beyond_gpt_layers(),
            _ => None,
        }
    }

    /// Returns `true` if the model has layers of this kind.
    pub fn has(&self, special: SpecialLayers) -> bool {
        let is_one = |kind: &OperatorKind| match special {
            SpecialLayers::Recurrent => matches!(kind, OperatorKind::Recurrent(_)),
            SpecialLayers::Regions => matches!(kind, OperatorKind::Image(Image::RegionAlign { .. })),
        };
        let graph = self.graph();
        graph.distinct().iter().flat_map(|layer| &layer.operators).any(|operator| is_one(&operator.kind))
    }

    /// Returns `true` if keys and values come out of what is narrow (DeepSeek-AI, arXiv:2405.04434, section 2.1).
    pub fn has_latent_attention(&self) -> bool {
        matches!(self, Self::Blocks(blocks) if blocks.kv_rank.is_some())
    }

    /// Returns `true` for a model of the families with fused kernels, and for one of chosen parts that leaves scores as
    /// they are.
    fn has_fused_attention(&self) -> bool {
        match self {
            Self::Blocks(blocks) => !blocks.changes_scores(),
            Self::Gemma2(gemma) => gemma.score_cap.is_none(),
            other => FUSED.contains(&other.family()),
        }
    }
}

/// Returns the samples in a data set of `tokens` tokens, of which the last, incomplete one counts; `None` if the model
/// reads no tokens.
pub fn samples_in(model: &Model, tokens: u64) -> Option<u64> {
    model.tokens_per_sample().map(|per_sample| tokens.div_ceil(per_sample))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Family;
    use crate::operator::Pass;

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
        let work = |model: &Model| {
            let graph = model.graph();
            let kinds = graph.layers().flat_map(|layer| &layer.operators).map(|operator| operator.kind);
            kinds.map(|kind| (kind.parameters(), kind.flops(Pass::Forward), kind.traffic(Pass::Backward))).collect()
        };
        let [dropping, dropless]: [Vec<_>; 2] = [&dropping, dropless].map(work);
        assert_eq!(dropping, dropless);
    }

    /// FlashAttention takes no bias; the memory-efficient kernel does, and reads it for every pair.
    #[test]
    fn a_bias_of_scores_excludes_flash_attention() {
        let t5 = &crate::find("t5-small").expect("in the catalog").model;
        let kernel = |model: &Model| model.spec().attention;
        let unfused = t5.with_attention(AttentionKernel::Unfused);
        assert_eq!(kernel(&unfused.with_attention(AttentionKernel::Flash)), Some(AttentionKernel::Unfused));
        let fused = unfused.with_attention(AttentionKernel::MemoryEfficient);
        assert_eq!(kernel(&fused), Some(AttentionKernel::MemoryEfficient));
        let bart = &crate::find("bart-large").expect("in the catalog").model;
        assert_eq!(kernel(&bart.with_attention(AttentionKernel::Flash)), Some(AttentionKernel::Flash));
        let biased = |model: &Model| {
            let graph = model.graph();
            let mut kinds = graph.layers().flat_map(|layer| &layer.operators).map(|operator| operator.kind);
            kinds
                .find(|kind| matches!(kind, crate::OperatorKind::Attention(own) if own.biased))
                .expect("of the encoder")
        };
        let bytes = |model: &Model, pass| biased(model).traffic(pass).elements;
        // Eight heads of 64 and 512 tokens: queries, keys, values and outputs once for the transposes and once for the kernel.
        let (values, scores) = (512 * 8 * 64, 8 * 512 * 512);
        assert_eq!(bytes(&fused, Pass::Forward), 2 * 4 * values + scores);
        assert!(bytes(&fused, Pass::Backward) < bytes(&unfused, Pass::Backward));
    }

    #[test]
    fn special_layers_are_found_by_their_operators() {
        let of = |name: &str| {
            let model = &crate::find(name).expect("in the catalog").model;
            [SpecialLayers::Recurrent, SpecialLayers::Regions].map(|special| model.has(special))
        };
        assert_eq!([of("gnmt"), of("rnn-t")], [[true, false]; 2]);
        assert_eq!(of("mask-rcnn-r50-fpn"), [false, true]);
        assert_eq!([of("gpt2"), of("retinanet-resnet50-fpn"), of("resnet50")], [[false; 2]; 3]);
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
            let said =
                format!("model `{name}`: `seq_len` is {}, but it must be at most the {positions}", positions + 1);
            assert!(error.to_string().starts_with(&said), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains(&(positions + 1).to_string())), "{name}");
        }
        let own = crate::find("bart-large").expect("in the catalog").model.spec();
        let longer = ModelSpec { decoder_seq_len: Some(1027), ..own };
        let error = Model::try_from(longer).expect_err("one too many");
        assert!(
            error.to_string().contains("`decoder_seq_len` is 1027, but it must be at most the 1026 of `positions`")
        );
    }

    #[test]
    fn fields_of_other_families_and_absurd_values_are_refused() {
        let valid = crate::find("llama-2-7b").expect("in the catalog").model.spec();
        let wrong = |change: &dyn Fn(&mut ModelSpec)| {
            let mut spec = valid.clone();
            change(&mut spec);
            Model::try_from(spec).expect_err("refused").to_string()
        };
        for (said, sentence) in [
            (wrong(&|spec| spec.patch_size = Some(16)), "family `llama` has no field `patch_size`"),
            (wrong(&|spec| spec.hidden = None), "`hidden` is missing: models of family `llama` need it"),
            (wrong(&|spec| spec.kv_heads = Some(5)), "`kv_heads` is 5, but it must divide the 32 heads"),
            (wrong(&|spec| spec.layers = Some(0)), "`layers` is 0, but it must be from 1 to 10000"),
            (wrong(&|spec| spec.experts_per_token = Some(2)), "`experts` is missing: models of family `llama` need it"),
            (
                wrong(&|spec| (spec.experts, spec.capacity_factor) = (Some(8), Some(f64::NAN))),
                "`capacity_factor` is NaN, but it must be above 0 and at most 64",
            ),
        ] {
            assert_eq!(said, format!("model `llama-2-7b`: {sentence}"));
        }
    }
}
