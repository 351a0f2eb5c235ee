//! The `config.json` under which transformers builds the same model.

use crate::families::Model;
use crate::families::{Bert, BlockKind, Experts, Gemma2, Gpt, GptNeox, HeadKind, Llama, ResNet, RotaryScaling, Vit};
use serde_json::{Map, Value, json};

/// Returns the `config.json` of a model that transformers has in the same form: GPT-2, Llama, Mistral, Mixtral, Qwen 2
/// and 3, GPT-NeoX, Gemma 2, BERT with the head of masked tokens, ViT and ResNet with a classifier. Nothing for any other.
pub fn to_hugging_face(model: &Model) -> Option<Value> {
    let fields = match model {
        Model::Gpt(gpt) => gpt2(gpt),
        Model::Llama(llama) => llama_or_alike(llama)?,
        Model::GptNeox(neox) => gpt_neox(neox)?,
        Model::Gemma2(gemma) => gemma2(gemma),
        Model::Bert(model) if model.head == HeadKind::MaskedLanguageModel => bert(model),
        Model::Vit(model) => vit(model, model.classes?),
        Model::ResNet(model) if is_plain(model) => resnet(model),
        _ => return None,
    };
    Some(fields)
}

fn gpt2(gpt: &Gpt) -> Value {
    json!({
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "n_layer": gpt.layers,
        "n_embd": gpt.hidden,
        "n_head": gpt.heads,
        "n_inner": gpt.ffn,
        "vocab_size": gpt.vocab,
        "n_positions": gpt.seq_len,
        "tie_word_embeddings": true,
        "embd_pdrop": gpt.dropout.embedding.unwrap_or(0.0),
        "attn_pdrop": gpt.dropout.attention.unwrap_or(0.0),
        "resid_pdrop": gpt.dropout.residual.unwrap_or(0.0),
        "bos_token_id": null,
        "eos_token_id": null,
    })
}

/// Returns `true` for experts in every block that drop no token and are sent tokens by index.
fn are_those_of_mixtral(experts: Experts) -> bool {
    experts.interval == 1 && experts.capacity_factor.is_none() && experts.group.is_none()
}

fn llama_or_alike(llama: &Llama) -> Option<Value> {
    let normed = llama.query_key_norm.is_some();
    let (model_type, architecture) = match (llama.experts, llama.window, llama.qkv_bias, normed) {
        (Some(experts), _, false, false) if are_those_of_mixtral(experts) => ("mixtral", "MixtralForCausalLM"),
        (None, Some(_), false, false) => ("mistral", "MistralForCausalLM"),
        (None, None, false, false) => ("llama", "LlamaForCausalLM"),
        (None, None, true, false) => ("qwen2", "Qwen2ForCausalLM"),
        (None, None, false, true) => ("qwen3", "Qwen3ForCausalLM"),
        _ => return None,
    };
    let mut fields = Map::new();
    fields.extend(llama.window.map(|window| ("sliding_window".to_owned(), json!(window))));
    if let Some(experts) = llama.experts {
        fields.insert("num_local_experts".into(), json!(experts.count));
        fields.insert("num_experts_per_tok".into(), json!(experts.per_token));
    }
    let Value::Object(common) = json!({
        "model_type": model_type,
        "architectures": [architecture],
        "hidden_act": "silu",
        "rms_norm_eps": llama.norm_epsilon,
        // Written for both forms in which transformers has read it.
        "rope_theta": llama.rotary_base,
        "rope_parameters": rotation(llama),
        "num_hidden_layers": llama.layers,
        "hidden_size": llama.hidden,
        "num_attention_heads": llama.heads,
        "num_key_value_heads": llama.kv_heads,
        "head_dim": llama.head_width,
        "intermediate_size": llama.ffn,
        "vocab_size": llama.vocab,
        "max_position_embeddings": llama.seq_len,
        "tie_word_embeddings": llama.tied_head,
        "attention_dropout": llama.dropout.attention.unwrap_or(0.0),
        "bos_token_id": null,
        "eos_token_id": null,
    }) else {
        unreachable!("it is written as an object")
    };
    fields.extend(common);
    Some(Value::Object(fields))
}

/// Returns the parameters of the rotation of queries and keys.
fn rotation(llama: &Llama) -> Value {
    let Some(scaling) = &llama.rotary_scaling else {
        return json!({ "rope_type": "default", "rope_theta": llama.rotary_base });
    };
    let mut fields = json!({ "rope_type": scaling.kind, "rope_theta": llama.rotary_base });
    if let Some(factor) = scaling.factor {
        fields["factor"] = json!(factor);
    }
    if scaling.kind == RotaryScaling::LLAMA3 {
        let (low, high, tokens) = scaling.band();
        fields["low_freq_factor"] = json!(low);
        fields["high_freq_factor"] = json!(high);
        fields["original_max_position_embeddings"] = json!(tokens);
    } else if let Some(tokens) = scaling.original_tokens {
        fields["original_max_position_embeddings"] = json!(tokens);
    }
    fields
}

/// A model whose embeddings drop out another share than its residual stream is none of transformers'.
fn gpt_neox(neox: &GptNeox) -> Option<Value> {
    let share = |share: Option<f64>| share.unwrap_or(0.0);
    let residual = share(neox.dropout.residual);
    if residual.to_bits() != share(neox.dropout.embedding).to_bits() {
        return None;
    }
    let rotated = part_of_head(neox.rotary_width.unwrap_or(neox.head_width()), neox.head_width());
    Some(json!({
        "model_type": "gpt_neox",
        "architectures": ["GPTNeoXForCausalLM"],
        "hidden_act": "gelu",
        "layer_norm_eps": neox.norm_epsilon,
        // Written for both forms in which transformers has read them.
        "rotary_emb_base": neox.rotary_base,
        "rotary_pct": rotated,
        "rope_parameters": { "rope_type": "default", "rope_theta": neox.rotary_base, "partial_rotary_factor": rotated },
        "use_parallel_residual": neox.parallel_norms.is_some(),
        "attention_bias": true,
        "num_hidden_layers": neox.layers,
        "hidden_size": neox.hidden,
        "num_attention_heads": neox.heads,
        "intermediate_size": neox.ffn,
        "vocab_size": neox.vocab,
        "max_position_embeddings": neox.seq_len,
        "tie_word_embeddings": neox.tied_head,
        "hidden_dropout": residual,
        "attention_dropout": share(neox.dropout.attention),
        "bos_token_id": null,
        "eos_token_id": null,
    }))
}

/// Returns a part of a head's features of which transformers, that rounds down, makes so many.
fn part_of_head(features: u64, width: u64) -> f64 {
    let part = features as f64 / width as f64;
    if (width as f64 * part) as u64 == features { part } else { (features as f64 + 0.5) / width as f64 }
}

fn gemma2(gemma: &Gemma2) -> Value {
    let kind = |block| if gemma.window_of(block).is_some() { "sliding_attention" } else { "full_attention" };
    json!({
        "model_type": "gemma2",
        "architectures": ["Gemma2ForCausalLM"],
        "hidden_activation": "gelu_pytorch_tanh",
        "rms_norm_eps": gemma.norm_epsilon,
        // Written for both forms in which transformers has read it.
        "rope_theta": gemma.rotary_base,
        "rope_parameters": { "rope_type": "default", "rope_theta": gemma.rotary_base },
        "num_hidden_layers": gemma.layers,
        "layer_types": (0..gemma.layers).map(kind).collect::<Vec<_>>(),
        "sliding_window": gemma.window,
        "hidden_size": gemma.hidden,
        "num_attention_heads": gemma.heads,
        "num_key_value_heads": gemma.kv_heads,
        "head_dim": gemma.head_width,
        "query_pre_attn_scalar": gemma.query_scalar,
        "attn_logit_softcapping": gemma.score_cap,
        "final_logit_softcapping": gemma.logit_cap,
        "intermediate_size": gemma.ffn,
        "vocab_size": gemma.vocab,
        "max_position_embeddings": gemma.seq_len,
        "tie_word_embeddings": gemma.tied_head,
        "attention_bias": false,
        "attention_dropout": gemma.dropout.attention.unwrap_or(0.0),
        // Otherwise transformers takes the first token for padding, whose embedding is then zero.
        "pad_token_id": null,
        "bos_token_id": null,
        "eos_token_id": null,
    })
}

fn bert(bert: &Bert) -> Value {
    json!({
        "model_type": "bert",
        "architectures": ["BertForMaskedLM"],
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "num_hidden_layers": bert.layers,
        "hidden_size": bert.hidden,
        "num_attention_heads": bert.heads,
        "intermediate_size": bert.ffn,
        "vocab_size": bert.vocab,
        "type_vocab_size": bert.type_vocab,
        "max_position_embeddings": bert.positions,
        "tie_word_embeddings": true,
        "hidden_dropout_prob": bert.dropout.residual.unwrap_or(0.0),
        "attention_probs_dropout_prob": bert.dropout.attention.unwrap_or(0.0),
    })
}

fn vit(vit: &Vit, classes: u64) -> Value {
    json!({
        "model_type": "vit",
        "architectures": ["ViTForImageClassification"],
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "num_hidden_layers": vit.layers,
        "hidden_size": vit.hidden,
        "num_attention_heads": vit.heads,
        "intermediate_size": vit.ffn,
        "image_size": vit.image_size,
        "patch_size": vit.patch_size,
        "num_channels": vit.channels,
        "id2label": labels(classes),
        "hidden_dropout_prob": vit.dropout.residual.unwrap_or(0.0),
        "attention_probs_dropout_prob": vit.dropout.attention.unwrap_or(0.0),
    })
}

/// Returns `true` if it has nothing that transformers' ResNet has not.
fn is_plain(resnet: &ResNet) -> bool {
    let factors = [resnet.width_factor, resnet.kernel_factor, resnet.groups];
    resnet.squeeze_excite.is_none() && factors == [1, 1, 1]
}

fn resnet(resnet: &ResNet) -> Value {
    let block = match resnet.block {
        BlockKind::Basic => "basic",
        BlockKind::Bottleneck => "bottleneck",
    };
    json!({
        "model_type": "resnet",
        "architectures": ["ResNetForImageClassification"],
        "hidden_act": "relu",
        "layer_type": block,
        "depths": resnet.depths,
        "hidden_sizes": resnet.widths,
        "embedding_size": resnet.base_channels,
        "num_channels": resnet.channels,
        "downsample_in_first_stage": false,
        "downsample_in_bottleneck": false,
        "id2label": labels(resnet.classes),
    })
}

fn labels(count: u64) -> Map<String, Value> {
    (0..count).map(|index| (index.to_string(), json!(index.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DropoutSpec, Family, ModelSpec, QueryKeyNorm, RotaryScaling, from_hugging_face};

    fn spec(family: Family) -> ModelSpec {
        let transformer = ModelSpec {
            layers: Some(2),
            hidden: Some(32),
            heads: Some(4),
            ffn: Some(48),
            dropout: Some(DropoutSpec::Share(0.25)),
            attention_dropout: Some(DropoutSpec::Share(0.125)),
            ..ModelSpec::new("tiny", family)
        };
        let text = ModelSpec { vocab: Some(64), seq_len: Some(16), ..transformer.clone() };
        match family {
            Family::Gpt => text,
            Family::Llama => ModelSpec {
                kv_heads: Some(2),
                dropout: None,
                head_width: Some(12),
                window: Some(5),
                rotary_base: Some(3000.5),
                rotary_scaling: Some(RotaryScaling {
                    kind: RotaryScaling::LLAMA3.into(),
                    factor: Some(8.0),
                    low_frequency_factor: Some(1.0),
                    high_frequency_factor: Some(4.0),
                    original_tokens: Some(8192),
                }),
                norm_epsilon: Some(1e-6),
                tied_head: Some(true),
                ..text
            },
            Family::GptNeox => ModelSpec {
                rotary_width: Some(2),
                rotary_base: Some(3000.5),
                norm_epsilon: Some(1e-6),
                parallel_norms: Some(2),
                ..text
            },
            Family::Gemma2 => ModelSpec {
                dropout: None,
                kv_heads: Some(2),
                head_width: Some(12),
                window: Some(5),
                window_blocks: Some(vec![0]),
                query_scalar: Some(20),
                score_cap: Some(50.0),
                rotary_base: Some(3000.5),
                ..text
            },
            Family::Bert => ModelSpec { head: Some(HeadKind::MaskedLanguageModel), type_vocab: Some(3), ..text },
            Family::Vit => ModelSpec {
                image_size: Some(16),
                patch_size: Some(4),
                channels: Some(1),
                classes: Some(5),
                ..transformer
            },
            _ => ModelSpec {
                depths: Some(vec![1, 2]),
                widths: Some(vec![16, 24]),
                block: Some(BlockKind::Basic),
                base_channels: Some(8),
                classes: Some(5),
                ..ModelSpec::new("tiny", family)
            },
        }
    }

    #[test]
    fn what_is_written_is_read_as_the_same_model() {
        let all =
            [Family::Gpt, Family::Llama, Family::GptNeox, Family::Gemma2, Family::Bert, Family::Vit, Family::ResNet];
        for family in all {
            let model = Model::try_from(spec(family)).expect("valid");
            let written = to_hugging_face(&model).expect("transformers has it").to_string();
            let read = from_hugging_face(&written, "tiny").expect("it is readable");
            assert_eq!(Model::try_from(read).expect("valid"), model, "{written}");
        }
    }

    #[test]
    fn biases_and_normalised_heads_are_written_as_those_of_qwen() {
        let plain = ModelSpec { window: None, ..spec(Family::Llama) };
        let biased = ModelSpec { qkv_bias: Some(true), ..plain.clone() };
        let normed = ModelSpec { query_key_norm: Some(QueryKeyNorm::Head), ..plain };
        for (spec, model_type) in [(biased.clone(), "qwen2"), (normed, "qwen3")] {
            let model = Model::try_from(spec).expect("valid");
            let written = to_hugging_face(&model).expect("transformers has it");
            assert_eq!(written["model_type"], model_type);
            let read = from_hugging_face(&written.to_string(), "tiny").expect("it is readable");
            assert_eq!(Model::try_from(read).expect("valid"), model, "{written}");
        }
        let both = ModelSpec { query_key_norm: Some(QueryKeyNorm::Head), ..biased };
        assert_eq!(to_hugging_face(&Model::try_from(both).expect("valid")), None);
    }

    #[test]
    fn experts_are_written_as_those_of_mixtral() {
        let spec = ModelSpec { window: None, experts: Some(4), experts_per_token: Some(3), ..spec(Family::Llama) };
        let model = Model::try_from(spec.clone()).expect("valid");
        let written = to_hugging_face(&model).expect("transformers has it");
        assert_eq!(written["model_type"], "mixtral");
        let read = from_hugging_face(&written.to_string(), "tiny").expect("it is readable");
        assert_eq!(Model::try_from(read).expect("valid"), model, "{written}");
        let dropping = ModelSpec { capacity_factor: Some(1.25), ..spec };
        assert_eq!(to_hugging_face(&Model::try_from(dropping).expect("valid")), None);
    }

    #[test]
    fn parts_that_follow_each_other_and_heads_that_are_rotated_whole_are_written() {
        for rotary_width in [None, Some(4)] {
            let own = ModelSpec { rotary_width, parallel_norms: None, tied_head: Some(true), ..spec(Family::GptNeox) };
            let model = Model::try_from(own).expect("valid");
            let written = to_hugging_face(&model).expect("transformers has it");
            assert_eq!(written["use_parallel_residual"], false);
            let read = from_hugging_face(&written.to_string(), "tiny").expect("it is readable");
            assert_eq!(Model::try_from(read).expect("valid"), model, "{written}");
        }
    }

    #[test]
    fn models_that_transformers_builds_otherwise_are_not_written() {
        let pretraining = ModelSpec { head: None, ..spec(Family::Bert) };
        let grouped = ModelSpec {
            block: Some(BlockKind::Bottleneck),
            widths: Some(vec![32, 64]),
            groups: Some(2),
            ..spec(Family::ResNet)
        };
        let unequal = ModelSpec { embedding_dropout: Some(DropoutSpec::Share(0.0)), ..spec(Family::GptNeox) };
        for spec in [pretraining, grouped, unequal] {
            assert_eq!(to_hugging_face(&Model::try_from(spec).expect("valid")), None);
        }
    }
}
