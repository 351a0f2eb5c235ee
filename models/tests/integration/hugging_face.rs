//! Models from `config.json` texts have the parameters of the checkpoints that such texts stand beside.

use proptest::prelude::*;
use serde_json::{Value, json};
use trainyard_models::{Family, Model, ModelSpec, RotaryScaling, RouterScores, from_hugging_face, hugging_face_name};
use trainyard_units::Invalid;

fn read(config: &Value) -> ModelSpec {
    from_hugging_face(&config.to_string(), "test").expect("a configuration")
}

fn parameters(config: &Value) -> u64 {
    Model::try_from(read(config)).expect("a valid model").graph().parameters()
}

fn gpt2() -> Value {
    json!({
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
        "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
        "n_inner": null, "n_positions": 1024, "resid_pdrop": 0.1, "vocab_size": 50257
    })
}

fn llama() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "attention_bias": false, "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 8192, "mlp_bias": false, "model_type": "llama",
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1,
        "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 500_000.0, "tie_word_embeddings": false,
        "torch_dtype": "bfloat16", "vocab_size": 128_256
    })
}

/// The configuration with some fields changed; null takes a field away.
pub(crate) fn with(mut config: Value, changes: &Value) -> Value {
    for (field, value) in changes.as_object().expect("changes are an object") {
        config[field] = value.clone();
    }
    config
}

fn mixtral() -> Value {
    let changes = json!({
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "vocab_size": 32000,
        "max_position_embeddings": 32768, "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": null,
        "output_router_logits": false, "router_aux_loss_coef": 0.02
    });
    with(llama(), &changes)
}

fn bert() -> Value {
    json!({
        "architectures": ["BertForPreTraining"], "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "hidden_size": 768, "intermediate_size": 3072, "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12, "num_hidden_layers": 12,
        "pad_token_id": 0, "type_vocab_size": 2, "vocab_size": 30522
    })
}

fn t5() -> Value {
    json!({
        "architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64, "d_model": 512,
        "decoder_start_token_id": 0, "dropout_rate": 0.1, "feed_forward_proj": "relu", "is_encoder_decoder": true,
        "layer_norm_epsilon": 1e-06, "model_type": "t5", "n_positions": 512, "num_decoder_layers": 6, "num_heads": 8,
        "num_layers": 6, "relative_attention_num_buckets": 32, "vocab_size": 32128
    })
}

fn labels(count: usize) -> Value {
    (0..count)
        .map(|label| (label.to_string(), json!(format!("class {label}"))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn vit() -> Value {
    json!({
        "architectures": ["ViTForImageClassification"], "hidden_act": "gelu", "hidden_size": 768, "image_size": 224,
        "intermediate_size": 3072, "model_type": "vit", "num_attention_heads": 12, "num_channels": 3,
        "num_hidden_layers": 12, "patch_size": 16, "qkv_bias": true, "id2label": labels(1000)
    })
}

fn resnet() -> Value {
    json!({
        "architectures": ["ResNetForImageClassification"], "depths": [3, 4, 6, 3], "downsample_in_first_stage": false,
        "embedding_size": 64, "hidden_act": "relu", "hidden_sizes": [256, 512, 1024, 2048],
        "layer_type": "bottleneck", "model_type": "resnet", "num_channels": 3, "id2label": labels(1000)
    })
}

#[test]
fn configurations_of_every_family_have_the_published_parameters() {
    let roberta = json!({
        "architectures": ["RobertaModel"], "model_type": "roberta", "max_position_embeddings": 514,
        "type_vocab_size": 1, "vocab_size": 50265
    });
    let mistral = json!({
        "architectures": ["MistralForCausalLM"], "model_type": "mistral", "max_position_embeddings": 32768,
        "sliding_window": 4096, "vocab_size": 32000
    });
    let encoder = json!({ "architectures": ["ViTModel"] });
    let basic = json!({ "depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic" });
    for (config, count) in [
        (gpt2(), 124_439_808),
        (llama(), 8_030_261_248),
        (with(llama(), &mistral), 7_241_732_096),
        (mixtral(), 46_702_792_704),
        (bert(), 110_106_428),
        (with(bert(), &json!({ "architectures": ["BertModel"] })), 109_482_240),
        (with(bert(), &roberta), 124_645_632),
        (t5(), 60_506_624),
        (vit(), 86_567_656),
        (with(vit(), &encoder), 86_389_248),
        (resnet(), 25_557_032),
        (with(resnet(), &basic), 11_689_512),
    ] {
        assert_eq!(parameters(&config), count, "{config}");
    }
}

#[test]
fn aliases_and_architectures_serve_where_the_usual_names_are_absent() {
    let aliases = json!({
        "n_embd": null, "n_head": null, "n_layer": null, "n_positions": null, "n_ctx": null, "hidden_size": 768,
        "num_attention_heads": 12, "num_hidden_layers": 12, "max_position_embeddings": 1024
    });
    assert_eq!(parameters(&with(gpt2(), &aliases)), 124_439_808);
    for config in [gpt2(), llama(), bert(), t5(), vit(), resnet()] {
        let nameless = with(config.clone(), &json!({ "model_type": null }));
        assert_eq!(read(&nameless), read(&config));
    }
}

#[test]
fn what_the_fields_say_is_kept() {
    let mistral = with(llama(), &json!({ "model_type": "mistral", "sliding_window": 4096, "head_dim": 64 }));
    let spec = read(&mistral);
    assert_eq!((spec.family, spec.window, spec.head_width), (Family::Llama, Some(4096), Some(64)));
    let gated = read(&with(t5(), &json!({ "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false })));
    assert_eq!((gated.gated, gated.tied_head), (Some(true), Some(false)));
    let roberta = read(&with(bert(), &json!({ "model_type": "roberta", "max_position_embeddings": 514 })));
    assert_eq!((roberta.seq_len, roberta.positions), (Some(512), Some(514)));
}

#[test]
fn how_rotary_positions_are_scaled_is_kept_in_both_forms_of_the_file() {
    let llama3 = json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192
    });
    let old = read(&with(llama(), &json!({ "rope_scaling": llama3 }))).rotary_scaling;
    assert_eq!(old.as_ref().and_then(RotaryScaling::as_llama3), Some(8.0));
    let mut parameters = llama3;
    parameters["rope_theta"] = json!(500_000.0);
    assert_eq!(read(&with(llama(), &json!({ "rope_parameters": parameters }))).rotary_scaling, old);
    let yarn = read(&with(llama(), &json!({ "rope_scaling": { "type": "yarn", "factor": 4.0 } }))).rotary_scaling;
    assert_eq!(yarn.map(|scaling| scaling.to_string()).as_deref(), Some("yarn, factor 4"));
    let plain = json!({ "rope_parameters": { "rope_type": "default", "rope_theta": 1e4 } });
    assert_eq!(read(&with(llama(), &plain)).rotary_scaling, None);
    let wrong = with(llama(), &json!({ "rope_scaling": { "rope_type": 3 } }));
    assert!(from_hugging_face(&wrong.to_string(), "test").is_err());
}

/// Of a router that none of the fields can tell, nothing is said.
#[test]
fn a_configuration_says_how_experts_are_chosen() {
    let deepseek = json!({
        "model_type": "deepseek_v3", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100,
        "max_position_embeddings": 64, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "kv_lora_rank": 16,
        "moe_intermediate_size": 16, "n_routed_experts": 16, "num_experts_per_tok": 4, "scoring_func": "sigmoid",
        "n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5, "topk_method": "noaux_tc", "norm_topk_prob": true,
        "rope_scaling": { "type": "yarn", "factor": 40, "original_max_position_embeddings": 4096 }
    });
    let spec = read(&deepseek);
    let router = (spec.router, spec.router_groups, spec.router_groups_per_token, spec.routed_scale);
    assert_eq!(router, (Some(RouterScores::Sigmoid), Some(4), Some(2), Some(2.5)));
    assert_eq!((spec.correction_bias, spec.rotary_scaling.and_then(|own| own.factor)), (Some(true), Some(40.0)));
    for other in [json!({ "scoring_func": "softmax" }), json!({ "norm_topk_prob": false })] {
        assert_eq!(read(&with(deepseek.clone(), &other)).router, None);
    }
    let qwen = json!({
        "model_type": "qwen3_moe", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100,
        "max_position_embeddings": 64, "moe_intermediate_size": 16, "num_experts": 8, "num_experts_per_tok": 2
    });
    assert_eq!(read(&qwen).router, None);
    assert_eq!(read(&with(qwen, &json!({ "norm_topk_prob": true }))).router, Some(RouterScores::Softmax));
}

fn gpt_neox() -> Value {
    json!({
        "architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu", "hidden_size": 2048, "intermediate_size": 8192,
        "layer_norm_eps": 1e-6, "max_position_embeddings": 2048, "model_type": "gpt_neox", "num_attention_heads": 16,
        "num_hidden_layers": 24, "rotary_emb_base": 20000, "rotary_pct": 0.25, "use_parallel_residual": true,
        "vocab_size": 50304
    })
}

fn gemma2() -> Value {
    json!({
        "architectures": ["Gemma2ForCausalLM"], "attn_logit_softcapping": 40.0, "final_logit_softcapping": null,
        "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "intermediate_size": 9216,
        "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 8, "num_hidden_layers": 3,
        "num_key_value_heads": 4, "query_pre_attn_scalar": 144, "rope_theta": 5000.0, "sliding_window": 4096,
        "vocab_size": 256_000
    })
}

#[test]
fn what_gpt_neox_and_gemma_2_compute_with_is_kept() {
    let neox = read(&gpt_neox());
    assert_eq!((neox.family, neox.parallel_norms, neox.rotary_width), (Family::GptNeox, Some(2), Some(32)));
    assert_eq!((neox.rotary_base, neox.norm_epsilon, neox.dropout), (Some(20000.0), Some(1e-6), None));
    assert_eq!(read(&with(gpt_neox(), &json!({ "use_parallel_residual": false }))).parallel_norms, None);
    let dropping = read(&with(gpt_neox(), &json!({ "hidden_dropout": 0.1, "attention_dropout": 0.0 })));
    let dropout = Model::try_from(dropping).expect("valid").dropout();
    assert_eq!([dropout.residual, dropout.attention, dropout.embedding], [Some(0.1), Some(0.0), Some(0.1)]);
    let gemma = read(&gemma2());
    assert_eq!((gemma.family, gemma.window_blocks.clone()), (Family::Gemma2, Some(vec![0, 2])));
    assert_eq!((gemma.query_scalar, gemma.rotary_base, gemma.norm_epsilon), (Some(144), Some(5000.0), Some(1e-6)));
    assert_eq!((gemma.score_cap, gemma.logit_cap, gemma.tied_head), (Some(40.0), None, Some(true)));
}

#[test]
fn what_the_executor_does_not_compute_so_is_a_stack_of_blocks_with_the_same_parameters() {
    for change in [json!({ "hidden_act": "gelu_fast" }), json!({ "attention_bias": false })] {
        assert_eq!(read(&with(gpt_neox(), &change)).family, Family::Blocks, "{change}");
    }
    assert_eq!(parameters(&with(gpt_neox(), &json!({ "hidden_act": "gelu_fast" }))), parameters(&gpt_neox()));
    let classes = json!({ "architectures": ["GPTNeoXForSequenceClassification"] });
    assert_eq!(read(&with(gpt_neox(), &classes)).family, Family::Blocks);
    for change in [json!({ "hidden_activation": "gelu" }), json!({ "attention_bias": true })] {
        assert_eq!(read(&with(gemma2(), &change)).family, Family::Blocks, "{change}");
    }
    assert_eq!(parameters(&with(gemma2(), &json!({ "hidden_activation": "gelu" }))), parameters(&gemma2()));
}

fn refused(config: &Value) -> Invalid {
    from_hugging_face(&config.to_string(), "test").expect_err("refused")
}

#[test]
fn bad_configurations_are_told_apart() {
    let unknown = refused(&json!({ "model_type": "lama" }));
    assert!(unknown.to_string().contains("mixtral"), "{unknown}");
    let hint = unknown.hint().expect("it says what to do");
    assert!(hint.starts_with("the nearest is `llama`") && hint.contains("described by hand"), "{hint}");
    let text = from_hugging_face("{ \"model_type\": ", "test").expect_err("refused");
    for (error, sentence) in [
        (text, "the configuration is not JSON: "),
        (refused(&json!([1, 2])), "the configuration must be a JSON object"),
        (refused(&json!({ "hidden_size": 8 })), "the configuration has neither `model_type` nor `architectures`"),
        (refused(&json!({ "model_type": "sam" })), "the model type `sam` is not known; known are gpt2, "),
        (
            refused(&with(llama(), &json!({ "hidden_size": null }))),
            "`hidden_size` is missing: model type `llama` needs it",
        ),
        (
            refused(&with(mixtral(), &json!({ "num_local_experts": null }))),
            "`num_local_experts` is missing: model type `mixtral` needs it",
        ),
        (
            refused(&with(llama(), &json!({ "hidden_size": "wide" }))),
            "`hidden_size` is \"wide\", but it must be a whole",
        ),
        (
            refused(&with(llama(), &json!({ "num_hidden_layers": -1 }))),
            "`num_hidden_layers` is -1, but it must be a whole",
        ),
        (refused(&with(llama(), &json!({ "vocab_size": 1.5 }))), "`vocab_size` is 1.5, but it must be a whole"),
        (refused(&with(resnet(), &json!({ "depths": 4 }))), "`depths` is 4, but it must be a list of whole numbers"),
        (
            refused(&with(llama(), &json!({ "architectures": ["LlamaModel"] }))),
            "`architectures` is `LlamaModel`, but only",
        ),
        (
            refused(&with(resnet(), &json!({ "downsample_in_bottleneck": true }))),
            "`downsample_in_bottleneck` is true, but only a stride",
        ),
    ] {
        assert!(error.to_string().starts_with(sentence) && error.hint().is_some(), "{error}");
    }
}

#[test]
fn dimensions_out_of_range_are_refused_when_the_model_is_made() {
    let refused = |config: &Value| Model::try_from(read(config)).expect_err("refused");
    let zero = refused(&with(gpt2(), &json!({ "n_layer": 0 })));
    assert!(zero.to_string().contains("`layers` is 0"), "{zero}");
    let wide = refused(&with(llama(), &json!({ "hidden_size": u64::MAX })));
    assert!(wide.to_string().contains("`hidden` is 18446744073709551615"), "{wide}");
    let patches = refused(&with(vit(), &json!({ "patch_size": 15 })));
    assert!(patches.hint().is_some_and(|hint| hint.contains("210")), "{patches}");
}

/// Any JSON, shallow.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0_u64..300).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::from))
}

proptest! {
    #[test]
    fn no_text_makes_reading_panic(text in ".{0,200}") {
        let _ = from_hugging_face(&text, "test");
    }

    #[test]
    fn no_value_of_any_field_makes_reading_panic(
        config in prop::sample::select(vec![gpt2(), llama(), mixtral(), bert(), t5(), vit(), resnet()]),
        field in any::<prop::sample::Index>(),
        value in any_value(),
    ) {
        let names: Vec<String> = config.as_object().expect("an object").keys().cloned().collect();
        let changed = with(config, &json!({ field.get(&names).as_str(): value }));
        if let Ok(spec) = from_hugging_face(&changed.to_string(), "test")
            && let Ok(model) = Model::try_from(spec)
        {
            prop_assert!(model.graph().parameters() > 0);
            prop_assert!(model.graph().training_flops().0 > 0.0);
        }
    }
}

#[test]
fn a_configuration_may_name_its_model() {
    let named = |path: &str| hugging_face_name(&json!({ "_name_or_path": path }).to_string());
    assert_eq!(named("meta-llama/Llama-2-7b-hf").as_deref(), Some("Llama-2-7b-hf"));
    assert_eq!(named("gpt2").as_deref(), Some("gpt2"));
    assert_eq!(named("/home/me/checkpoints/mine/").as_deref(), Some("mine"));
    assert_eq!([named(""), named(" "), named("./"), named("/")], [None, None, None, None]);
    assert_eq!([hugging_face_name("{}"), hugging_face_name("[1]"), hugging_face_name("{")], [None, None, None]);
    assert_eq!(hugging_face_name("{ \"_name_or_path\": 3 }"), None);
}
