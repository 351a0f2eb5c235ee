"""The models that are counted: of each type published ones, by the fields of their `config.json`, and a small one.

The fields of published models were typed by hand, not fetched. That the counts are the published ones confirms the sizes
among them; fields that no count depends on (windows, soft caps, epsilons) are as good as the hand that typed them.
"""

SMALL = "made up, of sizes that tell every dimension from the others"


def published(source, **config):
    return {"source": source, "config": config}


def defaults(source, architecture, **config):
    """A model whose sizes are those that transformers assumes for its type."""
    return published(f"{source}; the sizes are transformers' defaults", architectures=[architecture], **config)


def small(tokens, **config):
    return {"source": SMALL, "config": config, "inputs": {"input_ids": [tokens]}}


def image(side, **config):
    return {"source": SMALL, "config": config, "inputs": {"pixel_values": [3, side, side]}}


def hub(name):
    return f"https://huggingface.co/{name}/blob/main/config.json"


QWEN2 = {"architectures": ["Qwen2ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "use_sliding_window": False}
QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "head_dim": 128, "hidden_act": "silu", "max_position_embeddings": 40960, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None, "use_sliding_window": False, "vocab_size": 151936}
GROUPED = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 130, "max_position_embeddings": 64}
EQUAL = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 6, "vocab_size": 130, "max_position_embeddings": 64}

LABELS = {"0": "a", "1": "b", "2": "c"}
DEBERTA = {"attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "layer_norm_eps": 1e-07, "max_position_embeddings": 512, "max_relative_positions": -1, "norm_rel_ebd": "layer_norm", "pooler_dropout": 0, "pooler_hidden_act": "gelu", "pos_att_type": "p2c|c2p", "position_biased_input": False, "position_buckets": 256, "relative_attention": True, "share_att_key": True, "type_vocab_size": 0}

CASES = {
    "qwen2": {
        "qwen2.5-0.5b": published(hub("Qwen/Qwen2.5-0.5B"), **QWEN2, hidden_size=896, intermediate_size=4864, max_position_embeddings=32768, max_window_layers=24, num_attention_heads=14, num_hidden_layers=24, num_key_value_heads=2, sliding_window=32768, tie_word_embeddings=True, vocab_size=151936),
        "qwen2.5-7b": published(hub("Qwen/Qwen2.5-7B"), **QWEN2, hidden_size=3584, intermediate_size=18944, max_position_embeddings=131072, max_window_layers=28, num_attention_heads=28, num_hidden_layers=28, num_key_value_heads=4, sliding_window=131072, tie_word_embeddings=False, vocab_size=152064),
        "small": small(24, architectures=["Qwen2ForCausalLM"], **GROUPED, use_sliding_window=True, sliding_window=8, max_window_layers=1),
        "small-classifier": small(24, architectures=["Qwen2ForSequenceClassification"], **GROUPED, id2label=LABELS, pad_token_id=0),
    },
    "qwen3": {
        "qwen3-0.6b": published(hub("Qwen/Qwen3-0.6B"), **QWEN3, hidden_size=1024, intermediate_size=3072, max_window_layers=28, num_attention_heads=16, num_hidden_layers=28, num_key_value_heads=8, tie_word_embeddings=True),
        "qwen3-8b": published(hub("Qwen/Qwen3-8B"), **QWEN3, hidden_size=4096, intermediate_size=12288, max_window_layers=36, num_attention_heads=32, num_hidden_layers=36, num_key_value_heads=8, tie_word_embeddings=False),
        "small": small(24, architectures=["Qwen3ForCausalLM"], **GROUPED, head_dim=20, attention_bias=True),
    },
    "gemma": {
        "gemma-7b": published(hub("google/gemma-7b"), architectures=["GemmaForCausalLM"], attention_bias=False, head_dim=256, hidden_act="gelu", hidden_size=3072, intermediate_size=24576, max_position_embeddings=8192, num_attention_heads=16, num_hidden_layers=28, num_key_value_heads=16, rms_norm_eps=1e-06, rope_scaling=None, rope_theta=10000.0, vocab_size=256000),
        "small": small(24, architectures=["GemmaForCausalLM"], **GROUPED, head_dim=20),
    },
    "gemma2": {
        "gemma-2-2b": published(hub("google/gemma-2-2b"), architectures=["Gemma2ForCausalLM"], attention_bias=False, attn_logit_softcapping=50.0, final_logit_softcapping=30.0, head_dim=256, hidden_activation="gelu_pytorch_tanh", hidden_size=2304, intermediate_size=9216, max_position_embeddings=8192, num_attention_heads=8, num_hidden_layers=26, num_key_value_heads=4, query_pre_attn_scalar=256, rms_norm_eps=1e-06, rope_theta=10000.0, sliding_window=4096, vocab_size=256000),
        "gemma-2-9b": published(hub("google/gemma-2-9b"), architectures=["Gemma2ForCausalLM"], attention_bias=False, attn_logit_softcapping=50.0, final_logit_softcapping=30.0, head_dim=256, hidden_activation="gelu_pytorch_tanh", hidden_size=3584, intermediate_size=14336, max_position_embeddings=8192, num_attention_heads=16, num_hidden_layers=42, num_key_value_heads=8, query_pre_attn_scalar=256, rms_norm_eps=1e-06, rope_theta=10000.0, sliding_window=4096, sliding_window_size=4096, vocab_size=256000),
        "small": small(24, architectures=["Gemma2ForCausalLM"], **GROUPED, head_dim=20, sliding_window=8),
    },
    "gemma3_text": {
        "gemma-3-1b": published(hub("google/gemma-3-1b-pt"), architectures=["Gemma3ForCausalLM"], attention_bias=False, attn_logit_softcapping=None, final_logit_softcapping=None, head_dim=256, hidden_activation="gelu_pytorch_tanh", hidden_size=1152, intermediate_size=6912, max_position_embeddings=32768, num_attention_heads=4, num_hidden_layers=26, num_key_value_heads=1, query_pre_attn_scalar=256, rms_norm_eps=1e-06, rope_local_base_freq=10000, rope_scaling=None, rope_theta=1000000, sliding_window=512, sliding_window_pattern=6, vocab_size=262144),
        "small": small(24, architectures=["Gemma3ForCausalLM"], **(GROUPED | {"num_hidden_layers": 7}), head_dim=20, sliding_window=8),
    },
    "phi": {
        "phi-2": published(hub("microsoft/phi-2"), architectures=["PhiForCausalLM"], attention_dropout=0.0, embd_pdrop=0.0, hidden_act="gelu_new", hidden_size=2560, intermediate_size=10240, layer_norm_eps=1e-05, max_position_embeddings=2048, num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=32, partial_rotary_factor=0.4, qk_layernorm=False, resid_pdrop=0.1, rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=False, vocab_size=51200),
        "small": small(24, architectures=["PhiForCausalLM"], **GROUPED, qk_layernorm=True),
    },
    "phi3": {
        "phi-3-mini-4k": published(hub("microsoft/Phi-3-mini-4k-instruct"), architectures=["Phi3ForCausalLM"], attention_dropout=0.0, embd_pdrop=0.0, hidden_act="silu", hidden_size=3072, intermediate_size=8192, max_position_embeddings=4096, num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=32, original_max_position_embeddings=4096, resid_pdrop=0.0, rms_norm_eps=1e-05, rope_scaling=None, rope_theta=10000.0, sliding_window=2047, tie_word_embeddings=False, vocab_size=32064),
        "phi-4": published(hub("microsoft/phi-4"), architectures=["Phi3ForCausalLM"], attention_bias=False, attention_dropout=0.0, embd_pdrop=0.0, hidden_act="silu", hidden_size=5120, intermediate_size=17920, max_position_embeddings=16384, num_attention_heads=40, num_hidden_layers=40, num_key_value_heads=10, original_max_position_embeddings=16384, resid_pdrop=0.0, rms_norm_eps=1e-05, rope_scaling=None, rope_theta=250000, sliding_window=None, tie_word_embeddings=False, vocab_size=100352),
        "phi-4-mini": published(hub("microsoft/Phi-4-mini-instruct"), architectures=["Phi3ForCausalLM"], attention_bias=False, attention_dropout=0.0, embd_pdrop=0.0, hidden_act="silu", hidden_size=3072, intermediate_size=8192, max_position_embeddings=131072, num_attention_heads=24, num_hidden_layers=32, num_key_value_heads=8, original_max_position_embeddings=4096, pad_token_id=199999, eos_token_id=199999, bos_token_id=199999, partial_rotary_factor=0.75, resid_pdrop=0.0, rms_norm_eps=1e-05, rope_theta=10000.0, sliding_window=262144, tie_word_embeddings=True, vocab_size=200064),
        "small": small(24, architectures=["Phi3ForCausalLM"], **GROUPED, sliding_window=8, pad_token_id=0, eos_token_id=0, partial_rotary_factor=0.5),
    },
    "gpt_neox": {
        "gpt-neox-20b": defaults(hub("EleutherAI/gpt-neox-20b"), "GPTNeoXForCausalLM", hidden_size=6144, intermediate_size=24576, max_position_embeddings=2048, num_attention_heads=64, num_hidden_layers=44, rotary_pct=0.25, vocab_size=50432, use_parallel_residual=True),
        "pythia-1.4b": published(hub("EleutherAI/pythia-1.4b"), architectures=["GPTNeoXForCausalLM"], hidden_act="gelu", hidden_size=2048, intermediate_size=8192, layer_norm_eps=1e-05, max_position_embeddings=2048, num_attention_heads=16, num_hidden_layers=24, rotary_emb_base=10000, rotary_pct=0.25, tie_word_embeddings=False, use_parallel_residual=True, vocab_size=50304),
        "small": small(24, architectures=["GPTNeoXForCausalLM"], **EQUAL, use_parallel_residual=False),
    },
    "gptj": {
        "gpt-j-6b": published(hub("EleutherAI/gpt-j-6b"), architectures=["GPTJForCausalLM"], activation_function="gelu_new", attn_pdrop=0.0, embd_pdrop=0.0, layer_norm_epsilon=1e-05, n_embd=4096, n_head=16, n_inner=None, n_layer=28, n_positions=2048, resid_pdrop=0.0, rotary=True, rotary_dim=64, tie_word_embeddings=False, vocab_size=50400),
        "small": small(24, architectures=["GPTJForCausalLM"], n_embd=48, n_inner=80, n_layer=3, n_head=6, vocab_size=130, n_positions=64, rotary_dim=4, bos_token_id=0, eos_token_id=0),
    },
    "gpt_neo": {
        "gpt-neo-1.3b": published(hub("EleutherAI/gpt-neo-1.3B"), architectures=["GPTNeoForCausalLM"], activation_function="gelu_new", attention_dropout=0, attention_types=[[["global", "local"], 12]], embed_dropout=0, hidden_size=2048, intermediate_size=None, layer_norm_epsilon=1e-05, max_position_embeddings=2048, num_heads=16, num_layers=24, resid_dropout=0, vocab_size=50257, window_size=256),
        "small": small(24, architectures=["GPTNeoForCausalLM"], hidden_size=48, intermediate_size=80, num_layers=3, num_heads=6, vocab_size=130, max_position_embeddings=64, window_size=8, attention_types=[[["global", "local", "global"], 1]], bos_token_id=0, eos_token_id=0),
    },
    "opt": {
        "opt-350m": published(hub("facebook/opt-350m"), architectures=["OPTForCausalLM"], activation_function="relu", attention_dropout=0.0, do_layer_norm_before=False, dropout=0.1, ffn_dim=4096, hidden_size=1024, layerdrop=0.0, max_position_embeddings=2048, num_attention_heads=16, num_hidden_layers=24, vocab_size=50272, word_embed_proj_dim=512),
        "opt-6.7b": published(hub("facebook/opt-6.7b"), architectures=["OPTForCausalLM"], _remove_final_layer_norm=False, activation_function="relu", attention_dropout=0.0, do_layer_norm_before=True, dropout=0.1, ffn_dim=16384, hidden_size=4096, layerdrop=0.0, max_position_embeddings=2048, num_attention_heads=32, num_hidden_layers=32, vocab_size=50272, word_embed_proj_dim=4096),
        "small": small(24, architectures=["OPTForCausalLM"], hidden_size=48, ffn_dim=80, num_hidden_layers=3, num_attention_heads=6, vocab_size=130, max_position_embeddings=64, word_embed_proj_dim=40),
    },
    "bloom": {
        "bloom-560m": published(hub("bigscience/bloom-560m"), architectures=["BloomForCausalLM"], apply_residual_connection_post_layernorm=False, attention_dropout=0.0, attention_softmax_in_fp32=True, bias_dropout_fusion=True, hidden_dropout=0.0, hidden_size=1024, layer_norm_epsilon=1e-05, masked_softmax_fusion=True, n_head=16, n_inner=None, n_layer=24, offset_alibi=100, pretraining_tp=1, seq_length=2048, vocab_size=250880),
        "small": small(24, architectures=["BloomForCausalLM"], hidden_size=48, n_layer=3, n_head=6, vocab_size=130, seq_length=24),
    },
    "falcon": {
        "falcon-7b": published(hub("tiiuae/falcon-7b"), architectures=["FalconForCausalLM"], alibi=False, attention_dropout=0.0, bias=False, hidden_dropout=0.0, hidden_size=4544, layer_norm_epsilon=1e-05, multi_query=True, new_decoder_architecture=False, num_attention_heads=71, num_hidden_layers=32, parallel_attn=True, vocab_size=65024),
        "falcon-40b": published(hub("tiiuae/falcon-40b"), architectures=["FalconForCausalLM"], alibi=False, attention_dropout=0.0, bias=False, hidden_dropout=0.0, hidden_size=8192, layer_norm_epsilon=1e-05, new_decoder_architecture=True, num_attention_heads=128, num_hidden_layers=60, num_kv_heads=8, parallel_attn=True, vocab_size=65024),
        "falcon-rw-1b": published(hub("tiiuae/falcon-rw-1b"), architectures=["FalconForCausalLM"], alibi=True, attention_dropout=0.0, bias=True, hidden_dropout=0.0, hidden_size=2048, layer_norm_epsilon=1e-05, multi_query=False, new_decoder_architecture=False, num_attention_heads=32, num_hidden_layers=24, parallel_attn=False, vocab_size=50304),
        "small": small(24, architectures=["FalconForCausalLM"], hidden_size=48, ffn_hidden_size=80, num_hidden_layers=3, num_attention_heads=6, num_kv_heads=2, new_decoder_architecture=True, vocab_size=130, max_position_embeddings=24),
    },
    "mpt": {
        "mpt-7b": published(hub("mosaicml/mpt-7b"), architectures=["MPTForCausalLM"], attn_config={"alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0, "attn_type": "multihead_attention", "attn_uses_sequence_id": False, "clip_qkv": None, "prefix_lm": False, "qk_ln": False, "softmax_scale": None}, d_model=4096, emb_pdrop=0, expansion_ratio=4, learned_pos_emb=True, logit_scale=None, max_seq_len=2048, n_heads=32, n_layers=32, no_bias=True, norm_type="low_precision_layernorm", resid_pdrop=0, vocab_size=50432),
        "small": small(24, architectures=["MptForCausalLM"], d_model=48, n_layers=3, n_heads=6, vocab_size=130, max_seq_len=64),
    },
    "stablelm": {
        "stablelm-2-1.6b": published(hub("stabilityai/stablelm-2-1_6b"), architectures=["StableLmForCausalLM"], hidden_act="silu", hidden_size=2048, intermediate_size=5632, layer_norm_eps=1e-05, max_position_embeddings=4096, num_attention_heads=32, num_hidden_layers=24, num_key_value_heads=32, partial_rotary_factor=0.25, rope_theta=10000, tie_word_embeddings=False, use_qkv_bias=True, vocab_size=100352),
        "small": small(24, architectures=["StableLmForCausalLM"], **GROUPED, use_parallel_residual=True),
    },
    "starcoder2": {
        "starcoder2-3b": published(hub("bigcode/starcoder2-3b"), architectures=["Starcoder2ForCausalLM"], attention_dropout=0.1, embedding_dropout=0.1, hidden_act="gelu_pytorch_tanh", hidden_size=3072, intermediate_size=12288, max_position_embeddings=16384, mlp_type="default", norm_epsilon=1e-05, norm_type="layer_norm", num_attention_heads=24, num_hidden_layers=30, num_key_value_heads=2, residual_dropout=0.1, rope_theta=999999.4420358813, sliding_window=4096, use_bias=True, vocab_size=49152),
        "small": small(24, architectures=["Starcoder2ForCausalLM"], **GROUPED, sliding_window=8, bos_token_id=0, eos_token_id=0),
    },
    "olmo": {
        "olmo-7b": published(hub("allenai/OLMo-7B-hf"), architectures=["OlmoForCausalLM"], attention_bias=False, attention_dropout=0.0, clip_qkv=None, hidden_act="silu", hidden_size=4096, intermediate_size=11008, max_position_embeddings=2048, num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=32, rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=False, vocab_size=50304),
        "small": small(24, architectures=["OlmoForCausalLM"], **GROUPED, eos_token_id=0),
    },
    "olmo2": {
        "olmo-2-7b": published(hub("allenai/OLMo-2-1124-7B"), architectures=["Olmo2ForCausalLM"], attention_bias=False, attention_dropout=0.0, hidden_act="silu", hidden_size=4096, intermediate_size=11008, max_position_embeddings=4096, num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=32, rms_norm_eps=1e-06, rope_scaling=None, rope_theta=500000, tie_word_embeddings=False, vocab_size=100352),
        "small": small(24, architectures=["Olmo2ForCausalLM"], **GROUPED, eos_token_id=0),
    },
    "cohere": {
        "command-r": published(hub("CohereForAI/c4ai-command-r-v01"), architectures=["CohereForCausalLM"], attention_bias=False, attention_dropout=0.0, hidden_act="silu", hidden_size=8192, intermediate_size=22528, layer_norm_eps=1e-05, logit_scale=0.0625, max_position_embeddings=8192, num_attention_heads=64, num_hidden_layers=40, num_key_value_heads=64, rope_theta=8000000.0, use_qk_norm=False, vocab_size=256000),
        "small": small(24, architectures=["CohereForCausalLM"], **GROUPED, use_qk_norm=True, bos_token_id=0, eos_token_id=0),
    },
    "granite": {
        "granite-3.1-8b": published(hub("ibm-granite/granite-3.1-8b-base"), architectures=["GraniteForCausalLM"], attention_bias=False, attention_dropout=0.1, attention_multiplier=0.0078125, embedding_multiplier=12.0, hidden_act="silu", hidden_size=4096, intermediate_size=12800, logits_scaling=16.0, max_position_embeddings=131072, mlp_bias=False, num_attention_heads=32, num_hidden_layers=40, num_key_value_heads=8, residual_multiplier=0.22, rms_norm_eps=1e-05, rope_scaling=None, rope_theta=10000000.0, tie_word_embeddings=True, vocab_size=49152),
        "small": small(24, architectures=["GraniteForCausalLM"], **GROUPED, attention_bias=True, mlp_bias=True),
    },
    "llama": {
        "llama-3.1-8b": published(hub("meta-llama/Llama-3.1-8B"), architectures=["LlamaForCausalLM"], attention_bias=False, attention_dropout=0.0, hidden_act="silu", hidden_size=4096, intermediate_size=14336, max_position_embeddings=131072, mlp_bias=False, num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=8, pretraining_tp=1, rms_norm_eps=1e-05, rope_theta=500000.0, tie_word_embeddings=False, vocab_size=128256),
        "small-with-biases": small(24, architectures=["LlamaForCausalLM"], **GROUPED, attention_bias=True, mlp_bias=True),
        "small-classifier": small(24, architectures=["LlamaForSequenceClassification"], **GROUPED, id2label=LABELS, pad_token_id=0),
    },
    "qwen2_moe": {
        "qwen1.5-moe-a2.7b": published(hub("Qwen/Qwen1.5-MoE-A2.7B"), architectures=["Qwen2MoeForCausalLM"], attention_dropout=0.0, decoder_sparse_step=1, hidden_act="silu", hidden_size=2048, intermediate_size=5632, max_position_embeddings=8192, max_window_layers=21, moe_intermediate_size=1408, norm_topk_prob=False, num_attention_heads=16, num_experts=60, num_experts_per_tok=4, num_hidden_layers=24, num_key_value_heads=16, rms_norm_eps=1e-06, rope_theta=1000000.0, shared_expert_intermediate_size=5632, sliding_window=32768, tie_word_embeddings=False, use_sliding_window=False, vocab_size=151936),
        "small": small(24, architectures=["Qwen2MoeForCausalLM"], **(GROUPED | {"num_hidden_layers": 4}), moe_intermediate_size=28, shared_expert_intermediate_size=36, num_experts=6, num_experts_per_tok=2, decoder_sparse_step=2, mlp_only_layers=[3]),
    },
    "qwen3_moe": {
        "qwen3-30b-a3b": published(hub("Qwen/Qwen3-30B-A3B"), architectures=["Qwen3MoeForCausalLM"], attention_bias=False, attention_dropout=0.0, decoder_sparse_step=1, head_dim=128, hidden_act="silu", hidden_size=2048, intermediate_size=6144, max_position_embeddings=40960, max_window_layers=48, mlp_only_layers=[], moe_intermediate_size=768, norm_topk_prob=True, num_attention_heads=32, num_experts=128, num_experts_per_tok=8, num_hidden_layers=48, num_key_value_heads=4, rms_norm_eps=1e-06, rope_scaling=None, rope_theta=1000000.0, sliding_window=None, tie_word_embeddings=False, use_sliding_window=False, vocab_size=151936),
        "small": small(24, architectures=["Qwen3MoeForCausalLM"], **GROUPED, head_dim=20, moe_intermediate_size=28, num_experts=6, num_experts_per_tok=2, mlp_only_layers=[0]),
    },
    "deepseek_v2": {
        "deepseek-v2-lite": published(hub("deepseek-ai/DeepSeek-V2-Lite"), architectures=["DeepseekV2ForCausalLM"], attention_bias=False, attention_dropout=0.0, aux_loss_alpha=0.001, first_k_dense_replace=1, hidden_act="silu", hidden_size=2048, intermediate_size=10944, kv_lora_rank=512, max_position_embeddings=163840, moe_intermediate_size=1408, moe_layer_freq=1, n_group=1, n_routed_experts=64, n_shared_experts=2, norm_topk_prob=False, num_attention_heads=16, num_experts_per_tok=6, num_hidden_layers=27, num_key_value_heads=16, q_lora_rank=None, qk_nope_head_dim=128, qk_rope_head_dim=64, rms_norm_eps=1e-06, rope_theta=10000, routed_scaling_factor=1.0, scoring_func="softmax", seq_aux=True, tie_word_embeddings=False, topk_group=1, topk_method="greedy", v_head_dim=128, vocab_size=102400),
        "small": small(24, architectures=["DeepseekV2ForCausalLM"], **(GROUPED | {"num_key_value_heads": 6}), q_lora_rank=None, kv_lora_rank=20, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=14, moe_intermediate_size=28, n_routed_experts=6, n_shared_experts=2, num_experts_per_tok=2, first_k_dense_replace=1),
    },
    "deepseek_v3": {
        "deepseek-v3": published(hub("deepseek-ai/DeepSeek-V3"), architectures=["DeepseekV3ForCausalLM"], attention_bias=False, attention_dropout=0.0, ep_size=1, first_k_dense_replace=3, hidden_act="silu", hidden_size=7168, intermediate_size=18432, kv_lora_rank=512, max_position_embeddings=163840, moe_intermediate_size=2048, moe_layer_freq=1, n_group=8, n_routed_experts=256, n_shared_experts=1, norm_topk_prob=True, num_attention_heads=128, num_experts_per_tok=8, num_hidden_layers=61, num_key_value_heads=128, num_nextn_predict_layers=1, q_lora_rank=1536, qk_nope_head_dim=128, qk_rope_head_dim=64, rms_norm_eps=1e-06, rope_theta=10000, routed_scaling_factor=2.5, scoring_func="sigmoid", tie_word_embeddings=False, topk_group=4, topk_method="noaux_tc", v_head_dim=128, vocab_size=129280),
        "small": small(24, architectures=["DeepseekV3ForCausalLM"], **(GROUPED | {"num_key_value_heads": 6}), q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=14, moe_intermediate_size=28, n_routed_experts=8, n_shared_experts=2, n_group=2, topk_group=1, num_experts_per_tok=2, first_k_dense_replace=1, attention_bias=True),
    },
    "gpt_oss": {
        "gpt-oss-20b": published(hub("openai/gpt-oss-20b"), architectures=["GptOssForCausalLM"], attention_bias=True, attention_dropout=0.0, experts_per_token=4, head_dim=64, hidden_act="silu", hidden_size=2880, initial_context_length=4096, intermediate_size=2880, layer_types=["sliding_attention", "full_attention"] * 12, max_position_embeddings=131072, num_attention_heads=64, num_experts_per_tok=4, num_hidden_layers=24, num_key_value_heads=8, num_local_experts=32, rms_norm_eps=1e-05, rope_theta=150000, router_aux_loss_coef=0.9, sliding_window=128, swiglu_limit=7.0, tie_word_embeddings=False, vocab_size=201088),
        "gpt-oss-120b": published(hub("openai/gpt-oss-120b"), architectures=["GptOssForCausalLM"], attention_bias=True, attention_dropout=0.0, experts_per_token=4, head_dim=64, hidden_act="silu", hidden_size=2880, initial_context_length=4096, intermediate_size=2880, layer_types=["sliding_attention", "full_attention"] * 18, max_position_embeddings=131072, num_attention_heads=64, num_experts_per_tok=4, num_hidden_layers=36, num_key_value_heads=8, num_local_experts=128, rms_norm_eps=1e-05, rope_theta=150000, router_aux_loss_coef=0.9, sliding_window=128, swiglu_limit=7.0, tie_word_embeddings=False, vocab_size=201088),
        "small": small(24, architectures=["GptOssForCausalLM"], **GROUPED, head_dim=20, sliding_window=8, num_local_experts=6, num_experts_per_tok=2),
    },
    "xlm-roberta": {
        "xlm-roberta-base": published(hub("FacebookAI/xlm-roberta-base"), architectures=["XLMRobertaForMaskedLM"], attention_probs_dropout_prob=0.1, hidden_act="gelu", hidden_dropout_prob=0.1, hidden_size=768, intermediate_size=3072, layer_norm_eps=1e-05, max_position_embeddings=514, num_attention_heads=12, num_hidden_layers=12, pad_token_id=1, position_embedding_type="absolute", type_vocab_size=1, vocab_size=250002),
        "small": small(24, architectures=["XLMRobertaForSequenceClassification"], **(EQUAL | {"max_position_embeddings": 66}), type_vocab_size=1, id2label=LABELS, pad_token_id=1),
    },
    "bert": {
        "small": small(24, architectures=["BertForSequenceClassification"], **EQUAL, id2label=LABELS),
    },
    "distilbert": {
        "distilbert-base": published(hub("distilbert/distilbert-base-uncased"), architectures=["DistilBertForMaskedLM"], activation="gelu", attention_dropout=0.1, dim=768, dropout=0.1, hidden_dim=3072, max_position_embeddings=512, n_heads=12, n_layers=6, sinusoidal_pos_embds=False, tie_weights_=True, vocab_size=30522),
        "small": small(24, architectures=["DistilBertForMaskedLM"], dim=48, hidden_dim=80, n_heads=6, n_layers=3, vocab_size=130, max_position_embeddings=64),
        "small-classifier": small(24, architectures=["DistilBertForSequenceClassification"], dim=48, hidden_dim=80, n_heads=6, n_layers=3, vocab_size=130, max_position_embeddings=64, id2label=LABELS),
    },
    "deberta-v2": {
        "deberta-v3-base": published(hub("microsoft/deberta-v3-base"), architectures=["DebertaV2ForMaskedLM"], **DEBERTA, hidden_size=768, intermediate_size=3072, num_attention_heads=12, num_hidden_layers=12, pooler_hidden_size=768, vocab_size=128100),
        "deberta-v3-large": published(hub("microsoft/deberta-v3-large"), architectures=["DebertaV2ForSequenceClassification"], **DEBERTA, hidden_size=1024, intermediate_size=4096, num_attention_heads=16, num_hidden_layers=24, pooler_hidden_size=1024, vocab_size=128100),
        "small": small(24, architectures=["DebertaV2ForMaskedLM"], **(DEBERTA | EQUAL | {"position_buckets": 8, "type_vocab_size": 3})),
        "small-without-distances": small(24, architectures=["DebertaV2ForMaskedLM"], **EQUAL),
    },
    "modernbert": {
        "modernbert-base": published(hub("answerdotai/ModernBERT-base"), architectures=["ModernBertForMaskedLM"], attention_bias=False, attention_dropout=0.0, classifier_activation="gelu", classifier_bias=False, classifier_dropout=0.0, classifier_pooling="mean", decoder_bias=True, embedding_dropout=0.0, global_attn_every_n_layers=3, global_rope_theta=160000.0, hidden_activation="gelu", hidden_size=768, intermediate_size=1152, layer_norm_eps=1e-05, local_attention=128, local_rope_theta=10000.0, max_position_embeddings=8192, mlp_bias=False, mlp_dropout=0.0, norm_bias=False, norm_eps=1e-05, num_attention_heads=12, num_hidden_layers=22, position_embedding_type="absolute", vocab_size=50368),
        "small": small(24, architectures=["ModernBertForMaskedLM"], **EQUAL, local_attention=8, pad_token_id=0, bos_token_id=0, eos_token_id=0, cls_token_id=0, sep_token_id=0),
        "small-classifier": small(24, architectures=["ModernBertForSequenceClassification"], **EQUAL, local_attention=8, pad_token_id=0, bos_token_id=0, eos_token_id=0, cls_token_id=0, sep_token_id=0, id2label=LABELS),
    },
    "bart": {
        "bart-large": published(hub("facebook/bart-large"), architectures=["BartModel"], activation_function="gelu", attention_dropout=0.1, classifier_dropout=0.0, d_model=1024, decoder_attention_heads=16, decoder_ffn_dim=4096, decoder_layers=12, dropout=0.1, encoder_attention_heads=16, encoder_ffn_dim=4096, encoder_layers=12, max_position_embeddings=1024, scale_embedding=False, vocab_size=50265),
        "distilbart-cnn-12-6": published(hub("sshleifer/distilbart-cnn-12-6"), architectures=["BartForConditionalGeneration"], activation_function="gelu", attention_dropout=0.0, d_model=1024, decoder_attention_heads=16, decoder_ffn_dim=4096, decoder_layers=6, dropout=0.1, encoder_attention_heads=16, encoder_ffn_dim=4096, encoder_layers=12, max_position_embeddings=1024, scale_embedding=False, vocab_size=50264),
        "small": dict(small(24, architectures=["BartForConditionalGeneration"], d_model=48, encoder_ffn_dim=80, decoder_ffn_dim=80, encoder_attention_heads=6, decoder_attention_heads=6, encoder_layers=3, decoder_layers=2, vocab_size=130, max_position_embeddings=64), inputs={"input_ids": [24], "decoder_input_ids": [24]}),
    },
    "whisper": {
        "whisper-small": published(hub("openai/whisper-small"), architectures=["WhisperForConditionalGeneration"], activation_function="gelu", attention_dropout=0.0, d_model=768, decoder_attention_heads=12, decoder_ffn_dim=3072, decoder_layers=12, dropout=0.0, encoder_attention_heads=12, encoder_ffn_dim=3072, encoder_layers=12, max_source_positions=1500, max_target_positions=448, num_mel_bins=80, scale_embedding=False, vocab_size=51865),
        "whisper-large-v3": published(hub("openai/whisper-large-v3"), architectures=["WhisperForConditionalGeneration"], activation_function="gelu", attention_dropout=0.0, d_model=1280, decoder_attention_heads=20, decoder_ffn_dim=5120, decoder_layers=32, dropout=0.0, encoder_attention_heads=20, encoder_ffn_dim=5120, encoder_layers=32, max_source_positions=1500, max_target_positions=448, num_mel_bins=128, scale_embedding=False, vocab_size=51866),
        "small": {"source": SMALL, "inputs": {"input_features": [12, 40], "decoder_input_ids": [16]}, "config": {"architectures": ["WhisperForConditionalGeneration"], "d_model": 48, "encoder_ffn_dim": 80, "decoder_ffn_dim": 80, "encoder_attention_heads": 6, "decoder_attention_heads": 6, "encoder_layers": 3, "decoder_layers": 2, "vocab_size": 130, "max_source_positions": 20, "max_target_positions": 16, "num_mel_bins": 12, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 0}},
    },
    "mamba2": {
        "mamba2-130m": published(hub("AntonV/mamba2-130m-hf"), architectures=["Mamba2ForCausalLM"], chunk_size=256, conv_kernel=4, expand=2, head_dim=64, hidden_act="silu", hidden_size=768, n_groups=1, num_heads=24, num_hidden_layers=24, rms_norm=True, state_size=128, tie_word_embeddings=True, use_bias=False, use_conv_bias=True, vocab_size=50288),
        "mamba-codestral-7b": published(hub("mistralai/Mamba-Codestral-7B-v0.1"), architectures=["Mamba2ForCausalLM"], chunk_size=256, conv_kernel=4, expand=2, head_dim=64, hidden_act="silu", hidden_size=4096, n_groups=8, num_heads=128, num_hidden_layers=64, rms_norm=True, state_size=128, tie_word_embeddings=False, use_bias=False, use_conv_bias=True, vocab_size=32768),
        # One chunk and a group for each head: transformers repeats groups, and passes states between chunks as a product
        # that grows with the square of their number, where the kernels made for it do neither.
        "small": small(64, architectures=["Mamba2ForCausalLM"], hidden_size=48, expand=2, head_dim=16, num_heads=6, n_groups=6, state_size=20, num_hidden_layers=3, vocab_size=130, chunk_size=64, pad_token_id=0),
    },
    "deit": {
        "deit-base-distilled": published(hub("facebook/deit-base-distilled-patch16-224"), architectures=["DeiTForImageClassificationWithTeacher"], attention_probs_dropout_prob=0.0, hidden_act="gelu", hidden_dropout_prob=0.0, hidden_size=768, num_labels=1000, image_size=224, intermediate_size=3072, layer_norm_eps=1e-12, num_attention_heads=12, num_channels=3, num_hidden_layers=12, patch_size=16),
        "small": image(32, architectures=["DeiTForImageClassification"], hidden_size=48, intermediate_size=80, num_attention_heads=6, num_hidden_layers=3, image_size=32, patch_size=8, id2label=LABELS),
    },
    "beit": {
        "beit-base": published(hub("microsoft/beit-base-patch16-224"), architectures=["BeitForImageClassification"], attention_probs_dropout_prob=0.0, drop_path_rate=0.1, hidden_act="gelu", hidden_dropout_prob=0.0, hidden_size=768, num_labels=1000, image_size=224, intermediate_size=3072, layer_norm_eps=1e-12, layer_scale_init_value=0.1, num_attention_heads=12, num_channels=3, num_hidden_layers=12, patch_size=16, use_absolute_position_embeddings=False, use_mask_token=False, use_mean_pooling=True, use_relative_position_bias=True, use_shared_relative_position_bias=False, vocab_size=8192),
        "small": image(32, architectures=["BeitForImageClassification"], hidden_size=48, intermediate_size=80, num_attention_heads=6, num_hidden_layers=3, image_size=32, patch_size=8, use_absolute_position_embeddings=True, use_mean_pooling=False, layer_scale_init_value=0.0, id2label=LABELS),
        "small-with-relative-bias": image(32, architectures=["BeitForImageClassification"], hidden_size=48, intermediate_size=80, num_attention_heads=6, num_hidden_layers=3, image_size=32, patch_size=8, use_relative_position_bias=True, id2label=LABELS),
    },
    "swin": {
        "swin-tiny": published(hub("microsoft/swin-tiny-patch4-window7-224"), architectures=["SwinForImageClassification"], attention_probs_dropout_prob=0.0, depths=[2, 2, 6, 2], drop_path_rate=0.1, embed_dim=96, hidden_act="gelu", hidden_dropout_prob=0.0, num_labels=1000, image_size=224, layer_norm_eps=1e-05, mlp_ratio=4.0, num_channels=3, num_heads=[3, 6, 12, 24], num_layers=4, patch_size=4, qkv_bias=True, use_absolute_embeddings=False, window_size=7),
        "swin-large-384": published(hub("microsoft/swin-large-patch4-window12-384"), architectures=["SwinForImageClassification"], attention_probs_dropout_prob=0.0, depths=[2, 2, 18, 2], drop_path_rate=0.1, embed_dim=192, hidden_act="gelu", hidden_dropout_prob=0.0, num_labels=1000, image_size=384, layer_norm_eps=1e-05, mlp_ratio=4.0, num_channels=3, num_heads=[6, 12, 24, 48], num_layers=4, patch_size=4, qkv_bias=True, use_absolute_embeddings=False, window_size=12),
        "small": image(64, architectures=["SwinForImageClassification"], embed_dim=24, depths=[2, 2, 1], num_heads=[2, 3, 6], image_size=64, patch_size=4, window_size=4, mlp_ratio=3.0, id2label=LABELS),
        "small-with-uneven-windows": image(72, architectures=["SwinForImageClassification"], embed_dim=24, depths=[2, 2], num_heads=[2, 3], image_size=72, patch_size=4, window_size=4, id2label=LABELS),
    },
    "convnext": {
        "convnext-tiny": published(hub("facebook/convnext-tiny-224"), architectures=["ConvNextForImageClassification"], depths=[3, 3, 9, 3], drop_path_rate=0.0, hidden_act="gelu", hidden_sizes=[96, 192, 384, 768], num_labels=1000, image_size=224, layer_norm_eps=1e-12, layer_scale_init_value=1e-06, num_channels=3, num_stages=4, patch_size=4),
        "small": image(64, architectures=["ConvNextForImageClassification"], depths=[1, 2, 1, 1], hidden_sizes=[24, 32, 48, 56], image_size=64, id2label=LABELS),
    },
    "clip": {
        "clip-vit-large-14": published(hub("openai/clip-vit-large-patch14"), architectures=["CLIPModel"], logit_scale_init_value=2.6592, projection_dim=768, text_config={"attention_dropout": 0.0, "hidden_act": "quick_gelu", "hidden_size": 768, "intermediate_size": 3072, "layer_norm_eps": 1e-05, "max_position_embeddings": 77, "model_type": "clip_text_model", "num_attention_heads": 12, "num_hidden_layers": 12, "projection_dim": 768, "vocab_size": 49408}, vision_config={"attention_dropout": 0.0, "hidden_act": "quick_gelu", "hidden_size": 1024, "image_size": 224, "intermediate_size": 4096, "layer_norm_eps": 1e-05, "model_type": "clip_vision_model", "num_attention_heads": 16, "num_channels": 3, "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768}),
        "small": {"source": SMALL, "inputs": {"input_ids": [24], "pixel_values": [3, 32, 32]}, "config": {"architectures": ["CLIPModel"], "projection_dim": 40, "text_config": {"hidden_size": 48, "intermediate_size": 80, "num_attention_heads": 6, "num_hidden_layers": 2, "vocab_size": 130, "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}, "vision_config": {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 3, "image_size": 32, "patch_size": 8}}},
    },
}
