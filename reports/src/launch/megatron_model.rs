//! Models as arguments of Megatron-LM's training scripts.

use super::draft::Draft;
use super::error::LaunchError;
use super::field::Field;
use super::megatron_arguments::{Words, uneven};
use super::software::{Attention, prefers_cudnn};
use trainyard_models::{
    AttentionKernel, Bert, Blocks, Dropout, Experts, FeedForward, Gpt, HeadKind, Llama, Model, Norm, PositionKind,
    RotaryScaling, Router, RouterScores,
};
use trainyard_plan::Precision;

/// Weight of the auxiliary loss of routers (Fedus et al., arXiv:2101.03961, section 2.2; Megatron-LM's guide to mixtures
/// of experts has the same).
const BALANCE: &str = "1e-2";

/// Steps of the biases that spread tokens over experts, and the weight of the loss besides (DeepSeek-AI, arXiv:2412.19437,
/// section 4.2).
const BIAS_RATE: &str = "1e-3";
const BALANCE_BESIDE_BIASES: &str = "1e-4";

/// What Megatron-LM's scripts are called at the heads of files, with the tag of the release of Megatron Core 0.16.
const GPT: &str = "pretrain_gpt.py of Megatron-LM (tag core_v0.16.0)";
const BERT: &str = "pretrain_bert.py of Megatron-LM (tag core_v0.16.0)";

/// The share that the published trainings of BERT and GPT drop out (Devlin et al., arXiv:1810.04805, A.2; Radford et al.,
/// "Improving Language Understanding by Generative Pre-Training", section 4.1), as Megatron-LM does by default.
const PUBLISHED_DROPOUT: f64 = 0.1;

const SCRIPTS: &str = "Megatron-LM's scripts train GPT, Llama, BERT and blocks that can be layers of its GPTModel";

/// Adds the arguments of the model; returns the script that trains it, and a name for that script.
pub(super) fn arguments(draft: &mut Draft<'_>, words: &mut Words) -> Result<(&'static str, &'static str), LaunchError> {
    draft.tells(&[Field::Model]);
    let script = match draft.job.plan().model() {
        Model::Gpt(model) => {
            gpt(model, words);
            attention(draft, model.attention, words);
            ("pretrain_gpt.py", GPT)
        }
        Model::GptMoe(model) => {
            gpt(&model.dense, words);
            if !model.tied_head {
                words.flag("untie-embeddings-and-output-weights");
            }
            words.flag("disable-bias-linear");
            experts(draft, model.experts, None, &routed_blocks(model.experts, model.dense.layers), words)?;
            attention(draft, model.dense.attention, words);
            draft.remark("the experts of the plan's model have ReLU between their products, Megatron-LM's have GELU");
            ("pretrain_gpt.py", GPT)
        }
        Model::Llama(model) => {
            llama(model, words);
            scaling(draft, model.rotary_scaling.as_ref(), false, words);
            if let Some(routed) = model.experts {
                experts(draft, routed, None, &routed_blocks(routed, model.layers), words)?;
            }
            attention(draft, model.attention, words);
            ("pretrain_gpt.py", GPT)
        }
        Model::Blocks(model) if draft.job.plan().model().beyond_gpt_layers().is_none() => {
            blocks(draft, model, words)?;
            attention(draft, model.attention, words);
            ("pretrain_gpt.py", GPT)
        }
        Model::Bert(model) => {
            bert(draft, model, words)?;
            attention(draft, model.attention, words);
            ("pretrain_bert.py", BERT)
        }
        _ => return Err(draft.cannot(Field::Model, SCRIPTS)),
    };
    Ok(script)
}

/// What `--attention-backend flash` takes (Transformer Engine, `dot_product_attention/utils.py`: it uses FlashAttention where
/// the package is installed).
pub(super) const FLASH_PACKAGE: &str =
    "--attention-backend flash needs the package flash-attn, which NVIDIA's containers of PyTorch have";

/// Returns the `--attention-backend` that computes attention as FlashAttention does on GPUs of a generation: cuDNN's where
/// Transformer Engine prefers it, which `flash` would forbid.
pub(super) fn flash(generation: &str) -> &'static str {
    if prefers_cudnn(generation) { "fused" } else { "flash" }
}

fn attention(draft: &mut Draft<'_>, kernel: AttentionKernel, words: &mut Words) {
    // A stack that states its attention decides.
    match kernel {
        AttentionKernel::Flash if draft.job.attention().is_none() => {
            let backend = draft.job.generation().map_or("flash", flash);
            words.set("attention-backend", backend);
            if backend == "flash" {
                draft.remark(FLASH_PACKAGE);
            }
        }
        AttentionKernel::MemoryEfficient => {
            draft.note(Field::Attention, "Megatron-LM has flash, fused and unfused attention and chooses by the GPU");
        }
        AttentionKernel::Unfused | AttentionKernel::Flash => {}
    }
    dropout(draft, words);
    draft.tells(&[Field::Attention]);
}

/// Adds the shares that are dropped out: Megatron-LM's hidden dropout is that of the residual stream and of what the
/// first block is given. Where nothing is said of them, they are as memory and time were counted.
fn dropout(draft: &mut Draft<'_>, words: &mut Words) {
    let shares = draft.job.plan().model().dropout();
    let unsaid = if draft.job.plan().model().assumes_dropout() { PUBLISHED_DROPOUT } else { 0.0 };
    let [attention, residual, embedding] =
        [shares.attention, shares.residual, shares.embedding].map(|share| share.unwrap_or(unsaid));
    words.set("attention-dropout", format!("{attention:?}")).set("hidden-dropout", format!("{residual:?}"));
    draft.tells(&[Field::Dropout]);
    if shares == Dropout::default() {
        let written = format!("attention-dropout {attention:?}, hidden-dropout {residual:?}");
        draft.assumes(Field::Dropout, &written, "the shares that are dropped out, as memory and time were counted");
    }
    if (embedding - residual).abs() > 0.0 {
        draft.note(Field::Dropout, "Megatron-LM drops out as much of embeddings as of the residual stream");
    }
}

fn sizes(words: &mut Words, layers: u32, hidden: u64, heads: u64, ffn: u64) {
    words.line().set("num-layers", layers).set("hidden-size", hidden).set("num-attention-heads", heads);
    words.set("ffn-hidden-size", ffn);
}

fn tokens(words: &mut Words, seq_len: u64, positions: u64) {
    words.line().set("seq-length", seq_len).set("max-position-embeddings", positions);
}

/// Adds the tokenizer, whose number of tokens Megatron-LM fills up to a multiple of 128 × the tensor-parallel degree. The
/// converter of `weights` does so with the number of their own tokenizer, which is not always that of their embeddings.
///
/// # Source
///
/// Megatron-LM, core 0.16: `megatron/core/tokenizers/text/libraries/null_tokenizer.py` and `huggingface_tokenizer.py`,
/// `tools/checkpoint/loader_llama_mistral.py` and `saver_base.py`.
pub(super) fn tokenizer(draft: &mut Draft<'_>, weights: Option<&str>, words: &mut Words) {
    let plan = draft.job.plan();
    let vocab = plan.model().spec().vocab.unwrap_or(1);
    if let Model::Bert(_) = plan.model() {
        // Sentences are paired and words masked during training, which takes a tokenizer and a vocabulary.
        words.set("tokenizer-type", "BertWordPieceLowerCase").set("vocab-file", "VOCAB-FILE");
        let cased = "BertWordPieceCase, if it tells capitals apart";
        draft.leaves("VOCAB-FILE", format!("file of the WordPiece vocabulary that made the data; {cased}"));
    } else if let Some(weights) = weights.filter(|_| loader(plan.model()).is_some()) {
        words.set("tokenizer-type", "HuggingFaceTokenizer").set("tokenizer-model", weights);
        draft.remark("the data holds numbers of tokens that the tokenizer of the weights made");
    } else {
        // NullTokenizer counts one token besides, for the end of a document.
        words.set("vocab-size", vocab.saturating_sub(1).max(1)).set("tokenizer-type", "NullTokenizer");
        draft.remark(format!(
            "the data holds numbers of tokens, below {vocab}; NullTokenizer adds one to vocab-size, the end of a document; name the tokenizer that made them if you evaluate text"
        ));
    }
    draft.remark("Megatron-LM fills the vocabulary up to a multiple of 128 × the tensor-parallel degree");
}

fn gpt(model: &Gpt, words: &mut Words) {
    sizes(words, model.layers, model.hidden, model.heads, model.ffn);
    tokens(words, model.seq_len, model.seq_len);
}

fn groups(words: &mut Words, heads: u64, kv_heads: u64) {
    if kv_heads < heads {
        words.flag("group-query-attention").set("num-query-groups", kv_heads);
    }
}

fn llama(model: &Llama, words: &mut Words) {
    sizes(words, model.layers, model.hidden, model.heads, model.ffn);
    groups(words, model.heads, model.kv_heads);
    words.set("kv-channels", model.head_width);
    tokens(words, model.seq_len, model.seq_len);
    words.line().flag("swiglu").set("normalization", "RMSNorm").set("norm-epsilon", model.norm_epsilon);
    words.flag("disable-bias-linear");
    if model.qkv_bias {
        words.flag("add-qkv-bias");
    }
    if model.query_key_norm.is_some() {
        words.flag("qk-layernorm");
    }
    words.set("position-embedding-type", "rope");
    words.set("rotary-base", model.rotary_base.round() as u64);
    if !model.tied_head {
        words.flag("untie-embeddings-and-output-weights");
    }
    if let Some(window) = model.window.filter(|window| *window < model.seq_len) {
        words.set("window-size", format!("{},0", window.saturating_sub(1)));
    }
}

/// Adds the arguments of blocks that `GPTModel` can be told to be, which `Model::beyond_gpt_layers` knows.
fn blocks(draft: &mut Draft<'_>, model: &Blocks, words: &mut Words) -> Result<(), LaunchError> {
    sizes(words, model.layers, model.hidden, model.heads, model.ffn);
    groups(words, model.heads, model.kv_heads);
    let rotated = model.rotary_width.unwrap_or(model.head_width);
    if let Some(rank) = model.kv_rank {
        latent_attention(model, rank, rotated, words);
    } else {
        words.set("kv-channels", model.head_width);
    }
    tokens(words, model.seq_len, model.positions.unwrap_or(model.seq_len));
    words.line();
    if model.feed_forward == FeedForward::Gated {
        words.flag("swiglu");
    }
    let norm = if model.norm == Norm::Rms { "RMSNorm" } else { "LayerNorm" };
    words.set("normalization", norm).set("norm-epsilon", model.norm_epsilon);
    if !model.ffn_bias {
        words.flag("disable-bias-linear");
        if model.qkv_bias {
            words.flag("add-qkv-bias");
        }
    }
    // Latent attention normalises what is narrow, if it is told so.
    if model.query_key_norm.is_some() || model.kv_rank.is_some() {
        words.flag("qk-layernorm");
    }
    if model.position == PositionKind::Rotary {
        words.set("position-embedding-type", "rope").set("rotary-base", model.rotary_base.round() as u64);
        if model.kv_rank.is_none() && rotated < model.head_width {
            words.set("rotary-percent", rotated as f64 / model.head_width as f64);
        }
        scaling(draft, model.rotary_scaling.as_ref(), model.kv_rank.is_some(), words);
    }
    if !model.tied_head {
        words.flag("untie-embeddings-and-output-weights");
    }
    if let Some(window) = model.window.filter(|window| *window < model.seq_len) {
        words.set("window-size", format!("{},0", window.saturating_sub(1)));
        let windowed = model.windowed_blocks();
        if windowed.contains(&false) {
            words.set("window-attn-skip-freq", pattern(&windowed));
        }
    }
    let Some(routed) = model.experts else { return Ok(()) };
    experts(draft, routed, model.routing.as_ref(), &model.routed_blocks(), words)?;
    words.set("moe-ffn-hidden-size", model.expert_ffn.unwrap_or(model.ffn));
    if let Some(shared) = model.shared_ffn {
        words.set("moe-shared-expert-intermediate-size", shared);
    }
    if model.routing.is_none() {
        draft.remark("experts are chosen by a softmax of their scores, Megatron-LM's default, because the model does not say how (model.router): where its config.json says otherwise (scoring_func, n_group, routed_scaling_factor, norm_topk_prob), add --moe-router-score-function and its like");
    }
    Ok(())
}

/// Adds the widths of latent attention. Megatron-LM takes YaRN's frequencies there, which are not scaled by default.
fn latent_attention(model: &Blocks, kv_rank: u64, rotated: u64, words: &mut Words) {
    words.line().flag("multi-latent-attention");
    if let Some(rank) = model.query_rank {
        words.set("q-lora-rank", rank);
    }
    words.set("kv-lora-rank", kv_rank).set("qk-head-dim", model.head_width - rotated);
    words.set("qk-pos-emb-head-dim", rotated).set("v-head-dim", model.value_width);
}

/// Tells of each block whether it has experts: the last one of each run of blocks.
fn routed_blocks(experts: Experts, layers: u32) -> Vec<bool> {
    (1..=u64::from(layers)).map(|block| block.is_multiple_of(experts.interval)).collect()
}

/// Returns a list of blocks as Megatron-LM evaluates it: `[0]*3+[1]*58`.
fn pattern(blocks: &[bool]) -> String {
    let run = |run: &[bool]| match run.len() {
        1 => format!("[{}]", u8::from(run[0])),
        times => format!("[{}]*{times}", u8::from(run[0])),
    };
    let runs: Vec<String> = blocks.chunk_by(|one, next| one == next).map(run).collect();
    runs.join("+")
}

/// Adds how the frequencies of rotary positions are changed: Megatron-LM has the scaling of Llama 3.1 to 3.3, of which it
/// takes the factor alone, and positions that are divided by a whole number; neither in `latent` attention, which has YaRN
/// with more numbers than a model states.
///
/// # Source
///
/// megatron-core 0.16, `megatron/core/models/common/embeddings/rotary_pos_embedding.py`.
fn scaling(draft: &mut Draft<'_>, scaling: Option<&RotaryScaling>, latent: bool, words: &mut Words) {
    let Some(scaling) = scaling else {
        if draft.starts_from_weights() {
            draft.remark("rotary positions are not scaled: if config.json of the weights has rope_scaling, plan a model with rotary_scaling");
        }
        return;
    };
    if let Some(factor) = scaling.as_llama3().filter(|_| !latent) {
        words.flag("use-rope-scaling").set("rope-scaling-factor", factor);
    } else if let Some(factor) = scaling.as_linear().filter(|factor| factor.fract() == 0.0 && !latent) {
        words.set("rotary-seq-len-interpolation-factor", factor);
    } else {
        let what = "rotary positions, which the model scales";
        draft.leaves(
            "position-embedding-type rope",
            format!("{what} ({scaling}) and no argument of these files does: add what your Megatron-LM has for it"),
        );
    }
}

fn bert(draft: &Draft<'_>, model: &Bert, words: &mut Words) -> Result<(), LaunchError> {
    sizes(words, model.layers, model.hidden, model.heads, model.ffn);
    tokens(words, model.seq_len, model.positions);
    match model.head {
        HeadKind::Pretraining => Ok(()),
        HeadKind::MaskedLanguageModel => {
            words.flag("bert-no-binary-head");
            Ok(())
        }
        HeadKind::Pooler | HeadKind::Classifier | HeadKind::LanguageModel => Err(draft.cannot(Field::Model, SCRIPTS)),
    }
}

/// Adds the arguments of layers with experts, or tells why Megatron-LM does not train these with the plan:
/// `validate_args` for half precision, `MoELayer.forward` for tensor parallelism.
///
/// # Source
///
/// megatron-core 0.16, `megatron/core/transformer/transformer_config.py`: `moe_permute_fusion`,
/// `moe_router_padding_for_quantization`.
fn experts(
    draft: &mut Draft<'_>,
    experts: Experts,
    routing: Option<&Router>,
    blocks: &[bool],
    words: &mut Words,
) -> Result<(), LaunchError> {
    let plan = draft.job.plan();
    let parallel = plan.mesh().parallel();
    if parallel.expert_ranks() > 1 && plan.precision() == Precision::Fp16Mixed {
        return Err(draft.cannot(Field::Precision, "Megatron-LM shares experts out in bf16-mixed and fp32 only"));
    }
    if parallel.tensor > 1 && !parallel.sequence {
        let why = "Megatron-LM trains experts under tensor parallelism with sequence parallelism only";
        let field = Field::Sequence.path();
        return Err(LaunchError::Inexpressible { field, value: "false".into(), why: why.into(), others: Vec::new() });
    }
    words.line().set("num-experts", experts.count).set("moe-router-topk", experts.per_token);
    // Scores of many experts need more digits than half precision has, as NVIDIA's own configurations say.
    words.set("moe-token-dispatcher-type", "alltoall").set("moe-router-dtype", "fp32");
    let before = draft.job.attention().is_none_or(Attention::is_before_transformer_engine);
    if experts.count > u64::from(parallel.expert_ranks()) && !before {
        words.flag("moe-grouped-gemm");
    }
    if !before {
        words.flag("moe-permute-fusion");
        draft.remark("--moe-permute-fusion needs Transformer Engine 2.1 or later");
    }
    if plan.precision() == Precision::Fp8Mixed {
        // Products in fp8 take multiples of 16 rows, up to which experts would copy their tokens otherwise.
        words.flag("moe-router-padding-for-quantization");
    }
    router(draft, experts, routing, words);
    // Without a capacity factor no token is dropped.
    if let Some(factor) = experts.capacity_factor {
        words.set("moe-expert-capacity-factor", factor);
    } else if !draft.starts_from_weights() && parallel.expert_ranks() > 1 {
        // Megatron-LM core 0.16, megatron/core/transformer/moe/README.md, "OOM Caused by Token Distribution Imbalance when
        // Training From Scratch".
        draft.remark(
            "an untrained router sends most tokens to few experts, so that in its first 100 to 300 steps a GPU may have far more to keep than was planned: if one runs out of memory then, add --moe-expert-capacity-factor 1.0 for the first 200 steps, and leave it out after a restart",
        );
    }
    if blocks.contains(&false) {
        words.set("moe-layer-freq", pattern(blocks));
    }
    Ok(())
}

/// Adds how experts are chosen, and what spreads tokens over them: a loss, which Megatron-LM weighs with 0 by default, or
/// biases that follow the load, with as little of a loss as DeepSeek-V3 has besides.
///
/// # Source
///
/// megatron-core 0.16, `topk_routing_with_score_function` in `megatron/core/transformer/moe/moe_utils.py`; NVIDIA
/// Megatron-LM, `examples/post_training/modelopt/conf/deepseek-ai/DeepSeek-R1.sh`.
fn router(draft: &mut Draft<'_>, experts: Experts, routing: Option<&Router>, words: &mut Words) {
    if routing.is_some_and(|router| router.router == RouterScores::Sigmoid) {
        words.set("moe-router-score-function", "sigmoid");
    } else if experts.per_token == 1 {
        // A softmax of one score is 1, whatever the router says.
        words.flag("moe-router-pre-softmax");
    }
    if let Some((groups, per_token)) = routing.and_then(Router::groups) {
        words.set("moe-router-num-groups", groups).set("moe-router-group-topk", per_token);
    }
    if let Some(scale) = routing.map(|router| router.routed_scale).filter(|scale| (scale - 1.0).abs() > 0.0) {
        words.set("moe-router-topk-scaling-factor", scale);
    }
    let (loss, weight) = if routing.is_some_and(|router| router.correction_bias) {
        words.flag("moe-router-enable-expert-bias").set("moe-router-bias-update-rate", BIAS_RATE);
        ("seq_aux_loss", BALANCE_BESIDE_BIASES)
    } else {
        ("aux_loss", BALANCE)
    };
    words.set("moe-router-load-balancing-type", loss).set("moe-aux-loss-coeff", weight);
    let (mut written, mut what) = (format!("moe-aux-loss-coeff {weight}"), "weight of the loss".to_owned());
    if weight == BALANCE_BESIDE_BIASES {
        written = format!("moe-router-bias-update-rate {BIAS_RATE}, {written}");
        what = format!("steps of the biases, and {what}");
    }
    draft.assumes(
        Field::Model,
        &written,
        &format!(
            "{what} that spreads tokens over experts, which plans do not know (router_aux_loss_coef of a config.json)"
        ),
    );
}

/// Returns the loader of Megatron-LM's converter that reads weights of a model, with its arguments; `None` if none does.
fn loader(model: &Model) -> Option<&'static str> {
    match model {
        Model::Llama(model) if model.experts.is_some() => Some("mixtral_hf"),
        Model::Llama(model) if model.query_key_norm.is_none() => {
            Some("llama_mistral --checkpoint-type hf --model-size")
        }
        _ => None,
    }
}

/// What Megatron-LM's converter calls models whose catalog names begin so (`loader_llama_mistral.py`).
const SIZES: [(&str, &str); 7] = [
    ("llama-2-7b", "llama2-7B"),
    ("llama-2-13b", "llama2-13B"),
    ("llama-2-70b", "llama2-70B"),
    ("llama-3", "llama3"),
    ("mistral", "mistral"),
    ("yi-34b", "yi-34B"),
    ("qwen2.5", "qwen2.5"),
];

/// Stands for the name of a model that is not known.
const UNKNOWN_SIZE: &str = "MODEL-SIZE";

fn size_of(model: &str) -> &'static str {
    let known = SIZES.iter().find(|(name, _)| model.starts_with(name));
    known.map_or(UNKNOWN_SIZE, |(_, size)| size)
}

/// Tells how weights are converted into Megatron-LM's format and cut for the plan.
///
/// # Errors
///
/// Fails for cuts that the converter cannot make.
pub(super) fn conversion(draft: &mut Draft<'_>, weights: &str, converted: &str) -> Result<(), LaunchError> {
    let plan = draft.job.plan();
    // The converter splits experts as tensor parallelism does.
    let folds = plan.mesh().parallel().folded_experts && plan.mesh().tensor() > 1;
    let Some(loader) = loader(plan.model()).filter(|_| !folds) else {
        draft.remark(format!(
            "{converted} must hold {weights} in Megatron-LM's format: tools/checkpoint/convert.py reads Llama, Mistral, Mixtral and Qwen 2 of Hugging Face only; Megatron Bridge reads more models (AutoBridge.import_ckpt)"
        ));
        return Ok(());
    };
    convertible(draft)?;
    let size =
        if loader.ends_with("--model-size") { format!(" {}", size_of(plan.model().name())) } else { String::new() };
    let (parallel, load) = (plan.mesh().parallel(), crate::shell::quoted(weights));
    let expert =
        if parallel.expert > 1 { format!(" --target-expert-parallel-size {}", parallel.expert) } else { String::new() };
    draft.remark(format!(
        "before the first start convert the weights, of which {load} must be a local copy: python tools/checkpoint/convert.py --model-type GPT --saver core --load-dir {load} --save-dir {converted} --tokenizer-model {load} --target-tensor-parallel-size {} --target-pipeline-parallel-size {}{expert} --loader {loader}{size}",
        parallel.tensor, parallel.pipeline
    ));
    if size.ends_with(UNKNOWN_SIZE) {
        draft.remark(format!("{UNKNOWN_SIZE} of that command is one of {}", SIZES.map(|(_, size)| size).join(", ")));
    }
    Ok(())
}

/// Refuses cuts into stages that Megatron-LM's converter cannot make: it writes one run of as many blocks for each stage
/// (`saver_base.py`). Of a checkpoint with one run for each stage, `load_checkpoint` gives stages of several none.
fn convertible(draft: &Draft<'_>) -> Result<(), LaunchError> {
    let blocks = draft.job.blocks_of_runs();
    if blocks.iter().any(|count| *count != blocks[0]) {
        return Err(uneven(draft, "Megatron-LM's converter cuts weights into stages of as many blocks each only"));
    }
    if blocks.len() > draft.job.plan().mesh().parallel().pipeline as usize {
        return Err(uneven(draft, "Megatron-LM's converter cuts weights into one run of blocks for each stage only"));
    }
    Ok(())
}
