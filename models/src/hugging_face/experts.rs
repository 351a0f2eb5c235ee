//! Decoders of text with experts.

use super::config::{Config, wrong};
use crate::families::{ModelSpec, QueryKeyNorm, RotaryScaling, RouterScores};
use trainyard_units::Invalid;

impl Config<'_> {
    pub(super) fn qwen2_moe(&self) -> Result<ModelSpec, Invalid> {
        let spec = ModelSpec {
            qkv_bias: Some(self.flag("qkv_bias")?.unwrap_or(true)),
            output_bias: Some(false),
            shared_ffn: self.needed(&["shared_expert_intermediate_size"])?,
            shared_gate: Some(true),
            ..self.qwen_experts()?
        };
        self.windowed(spec)
    }

    pub(super) fn qwen3_moe(&self) -> Result<ModelSpec, Invalid> {
        let spec = ModelSpec {
            query_key_norm: Some(QueryKeyNorm::Head),
            qkv_bias: self.flag("attention_bias")?,
            ..self.qwen_experts()?
        };
        // Where it slides, it does so in every block.
        let slides = self.flag("use_sliding_window")? == Some(true);
        Ok(ModelSpec { window: if slides { self.window_or(4096)? } else { None }, ..spec })
    }

    fn qwen_experts(&self) -> Result<ModelSpec, Invalid> {
        let dense: Vec<u64> =
            if self.get(&["mlp_only_layers"]).is_some() { self.counts("mlp_only_layers")? } else { Vec::new() };
        let dense = dense.into_iter().map(|block| super::config::small("mlp_only_layers", block));
        Ok(ModelSpec {
            experts: self.needed(&["num_experts", "num_local_experts"])?,
            // Where it is not asked for, scores of the chosen experts do not add up to 1.
            router: (self.flag("norm_topk_prob")? == Some(true)).then_some(RouterScores::Softmax),
            experts_per_token: self.needed(&["num_experts_per_tok"])?,
            expert_interval: self.count(&["decoder_sparse_step"])?,
            expert_ffn: self.needed(&["moe_intermediate_size"])?,
            dense_blocks: Some(dense.collect::<Result<_, _>>()?),
            ..self.decoder(false)?
        })
    }

    /// DeepSeek-V2 and -V3. Layers that predict further tokens (`num_nextn_predict_layers`) are not built, as in
    /// transformers.
    pub(super) fn deepseek(&self) -> Result<ModelSpec, Invalid> {
        let [rotated, unrotated] = ["qk_rope_head_dim", "qk_nope_head_dim"].map(|name| self.needed(&[name]));
        let (rotated, unrotated) = (rotated?.unwrap_or(0), unrotated?.unwrap_or(0));
        let width = self.needed(&["moe_intermediate_size"])?;
        let shared = self.count(&["n_shared_experts"])?.filter(|count| *count > 0);
        let first = self.count(&["first_k_dense_replace"])?.unwrap_or(0);
        let spec = self.decoder(false)?;
        let first = first.min(spec.layers.unwrap_or(0).into());
        let product = |shared: u64| width.and_then(|width| width.checked_mul(shared));
        if shared.is_some() && shared.and_then(product).is_none() {
            return Err(wrong("n_shared_experts", &shared.into(), "a number of experts"));
        }
        let spec = if self.model_type == "deepseek_v3" { self.sigmoid_router(spec)? } else { spec };
        Ok(ModelSpec {
            kv_heads: None,
            head_width: Some(rotated.saturating_add(unrotated)),
            rotary_width: Some(rotated),
            value_width: self.needed(&["v_head_dim"])?,
            kv_rank: self.needed(&["kv_lora_rank"])?,
            query_rank: self.count(&["q_lora_rank"])?,
            qkv_bias: self.flag("attention_bias")?,
            ffn_bias: self.flag("mlp_bias")?,
            experts: self.needed(&["n_routed_experts"])?,
            experts_per_token: self.needed(&["num_experts_per_tok"])?,
            expert_ffn: width,
            shared_ffn: shared.and_then(product),
            dense_blocks: Some((0..first as u32).collect()),
            ..spec
        })
    }

    /// Adds the router of DeepSeek-V3, with the numbers that transformers assumes; of other routers nothing is said.
    fn sigmoid_router(&self, spec: ModelSpec) -> Result<ModelSpec, Invalid> {
        let is = |name: &'static str, own: &str| Ok::<_, Invalid>(self.text(name)?.is_none_or(|text| text == own));
        let adds_up = self.flag("norm_topk_prob")?.unwrap_or(true);
        if !is("scoring_func", "sigmoid")? || !is("topk_method", "noaux_tc")? || !adds_up {
            return Ok(spec);
        }
        Ok(ModelSpec {
            router: Some(RouterScores::Sigmoid),
            router_groups: Some(self.count(&["n_group"])?.unwrap_or(8)),
            router_groups_per_token: Some(self.count(&["topk_group"])?.unwrap_or(4)),
            routed_scale: Some(self.number("routed_scaling_factor")?.unwrap_or(2.5)),
            correction_bias: Some(true),
            ..spec
        })
    }

    pub(super) fn gpt_oss(&self) -> Result<ModelSpec, Invalid> {
        let spec = self.decoder(false)?;
        let is_written = self.get(&["rope_scaling", "rope_parameters"]).is_some();
        let spec = ModelSpec {
            // What transformers assumes.
            rotary_scaling: if is_written { spec.rotary_scaling } else { Some(RotaryScaling::of("yarn", 32.0, 4096)) },
            sinks: Some(true),
            window: self.window_or(128)?,
            qkv_bias: Some(self.flag("attention_bias")?.unwrap_or(true)),
            experts: self.needed(&["num_local_experts", "num_experts"])?,
            experts_per_token: self.needed(&["num_experts_per_tok", "experts_per_token"])?,
            expert_bias: Some(true),
            ..spec
        };
        self.with_window(spec, |block| block % 2 == 0)
    }
}
