//! The names under which files hold the parameters of a model.

/// Prefixes that transformers puts before the names of a model with a head, and leaves out without one.
const PREFIXES: [&str; 6] = ["transformer.", "model.", "gpt_neox.", "bert.", "vit.", "resnet."];

/// Returns the names under which a file may hold the parameter `name`, the usual one first.
pub(super) fn in_files(name: &str) -> Vec<String> {
    let mut names = vec![name.to_owned()];
    let is_gpt = ["wte.", "wpe.", "h.", "ln_f."].iter().any(|start| name.starts_with(start));
    names.extend(is_gpt.then(|| format!("transformer.{name}")));
    names.extend(PREFIXES.iter().filter_map(|prefix| name.strip_prefix(prefix)).map(str::to_owned));
    // What BERT's first files call scale and shift.
    let old = |name: &String| {
        let scale = name.strip_suffix("LayerNorm.weight").map(|start| format!("{start}LayerNorm.gamma"));
        scale.or_else(|| name.strip_suffix("LayerNorm.bias").map(|start| format!("{start}LayerNorm.beta")))
    };
    let old: Vec<String> = names.iter().filter_map(old).collect();
    names.extend(old);
    // What transformers 5 calls the head that its files, and version 4, have under this name.
    names.extend((name == "embed_out.weight").then(|| "lm_head.weight".to_owned()));
    names.extend(residual_in_torchvision(name).or_else(|| encoder_in_torchvision(name)));
    names
}

/// Returns the name of the tensor in which torchvision's vision transformers have queries, keys and values one after
/// another, and which of the three the parameter `name` is.
pub(super) fn packed(name: &str) -> Option<(String, usize)> {
    let (block, rest) = name.strip_prefix("vit.encoder.layer.")?.split_once('.')?;
    let (part, kind) = rest.strip_prefix("attention.attention.")?.split_once('.')?;
    let number = ["query", "key", "value"].iter().position(|known| *known == part)?;
    Some((format!("encoder.layers.encoder_layer_{block}.self_attention.in_proj_{kind}"), number))
}

/// Returns the name that torchvision's vision transformers give the parameter `name`, if it has one of its own.
fn encoder_in_torchvision(name: &str) -> Option<String> {
    let renamed = |pairs: &[(&str, &str)], name: &str| {
        pairs.iter().find_map(|(ours, theirs)| Some(format!("{theirs}{}", name.strip_prefix(ours)?)))
    };
    let Some(in_block) = name.strip_prefix("vit.encoder.layer.") else {
        return renamed(
            &[
                ("vit.embeddings.cls_token", "class_token"),
                ("vit.embeddings.position_embeddings", "encoder.pos_embedding"),
                ("vit.embeddings.patch_embeddings.projection.", "conv_proj."),
                ("vit.layernorm.", "encoder.ln."),
                ("classifier.", "heads.head."),
            ],
            name,
        );
    };
    let (block, rest) = in_block.split_once('.')?;
    let of_block = [
        ("layernorm_before.", "ln_1."),
        ("layernorm_after.", "ln_2."),
        ("attention.output.dense.", "self_attention.out_proj."),
        ("intermediate.dense.", "mlp.0."),
        ("output.dense.", "mlp.3."),
    ];
    Some(format!("encoder.layers.encoder_layer_{block}.{}", renamed(&of_block, rest)?))
}

/// Returns the name that torchvision's residual networks give the parameter `name`.
fn residual_in_torchvision(name: &str) -> Option<String> {
    let part = |name: &str| name.strip_prefix("convolution.").map(|rest| (true, rest.to_owned()));
    let part = |name: &str| part(name).or_else(|| name.strip_prefix("normalization.").map(|rest| (false, rest.into())));
    if let Some(rest) = name.strip_prefix("resnet.embedder.embedder.") {
        let (convolves, rest) = part(rest)?;
        return Some(format!("{}.{rest}", if convolves { "conv1" } else { "bn1" }));
    }
    if let Some(rest) = name.strip_prefix("classifier.1.") {
        return Some(format!("fc.{rest}"));
    }
    let (stage, rest) = name.strip_prefix("resnet.encoder.stages.")?.split_once(".layers.")?;
    let (block, rest) = rest.split_once('.')?;
    let stage = stage.parse::<u32>().ok()? + 1;
    if let Some(rest) = rest.strip_prefix("shortcut.") {
        let (convolves, rest) = part(rest)?;
        return Some(format!("layer{stage}.{block}.downsample.{}.{rest}", u32::from(!convolves)));
    }
    let (number, rest) = rest.strip_prefix("layer.")?.split_once('.')?;
    let (convolves, rest) = part(rest)?;
    let number = number.parse::<u32>().ok()? + 1;
    Some(format!("layer{stage}.{block}.{}{number}.{rest}", if convolves { "conv" } else { "bn" }))
}

/// Ends of names that older versions saved though they are no weights, and of counters.
const BUFFERS: [&str; 7] = [
    ".attn.bias",
    ".attn.masked_bias",
    ".attention.bias",
    ".attention.masked_bias",
    ".rotary_emb.inv_freq",
    ".position_ids",
    ".num_batches_tracked",
];

/// Heads of other tasks than those that are trained here.
const OTHER_HEADS: [&str; 3] = ["cls.seq_relationship.", "bert.pooler.", "vit.pooler."];

/// Additional names under which files hold a head that is tied to the token table.
const TIED: [&str; 4] =
    ["lm_head.weight", "embed_out.weight", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"];

/// Returns `true` if the tensor `name`, which is not the name of a parameter, belongs to the head of another task.
pub(super) fn is_of_other_head(name: &str) -> bool {
    OTHER_HEADS.iter().any(|start| name.starts_with(start))
}

/// Returns `true` if training can ignore the tensor `name`, which is not the name of a parameter.
pub(super) fn may_be_ignored(name: &str, is_tied: bool) -> bool {
    BUFFERS.iter().any(|end| name.ends_with(end)) || is_of_other_head(name) || (is_tied && TIED.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_with_and_without_prefix_and_under_their_old_names() {
        assert_eq!(in_files("h.0.ln_1.bias"), ["h.0.ln_1.bias", "transformer.h.0.ln_1.bias"]);
        assert_eq!(in_files("model.norm.weight"), ["model.norm.weight", "norm.weight"]);
        let names = in_files("bert.embeddings.LayerNorm.weight");
        assert_eq!(names.last().map(String::as_str), Some("embeddings.LayerNorm.gamma"));
        assert!(names.contains(&"bert.embeddings.LayerNorm.gamma".to_owned()));
    }

    #[test]
    fn residual_networks_have_the_names_of_torchvision_too() {
        let names = |name: &str| in_files(name).pop();
        for (name, expected) in [
            ("resnet.embedder.embedder.convolution.weight", "conv1.weight"),
            ("resnet.embedder.embedder.normalization.running_mean", "bn1.running_mean"),
            ("resnet.encoder.stages.0.layers.1.layer.0.convolution.weight", "layer1.1.conv1.weight"),
            ("resnet.encoder.stages.3.layers.0.layer.2.normalization.bias", "layer4.0.bn3.bias"),
            ("resnet.encoder.stages.1.layers.0.shortcut.convolution.weight", "layer2.0.downsample.0.weight"),
            ("resnet.encoder.stages.1.layers.0.shortcut.normalization.weight", "layer2.0.downsample.1.weight"),
            ("classifier.1.bias", "fc.bias"),
        ] {
            assert_eq!(names(name).as_deref(), Some(expected));
        }
    }

    #[test]
    fn vision_transformers_have_the_names_of_torchvision_too() {
        let names = |name: &str| in_files(name).pop();
        for (name, expected) in [
            ("vit.embeddings.cls_token", "class_token"),
            ("vit.embeddings.position_embeddings", "encoder.pos_embedding"),
            ("vit.embeddings.patch_embeddings.projection.bias", "conv_proj.bias"),
            ("vit.encoder.layer.11.layernorm_before.weight", "encoder.layers.encoder_layer_11.ln_1.weight"),
            (
                "vit.encoder.layer.0.attention.output.dense.weight",
                "encoder.layers.encoder_layer_0.self_attention.out_proj.weight",
            ),
            ("vit.encoder.layer.0.intermediate.dense.bias", "encoder.layers.encoder_layer_0.mlp.0.bias"),
            ("vit.encoder.layer.0.output.dense.weight", "encoder.layers.encoder_layer_0.mlp.3.weight"),
            ("vit.layernorm.weight", "encoder.ln.weight"),
            ("classifier.bias", "heads.head.bias"),
        ] {
            assert_eq!(names(name).as_deref(), Some(expected));
        }
        let joined = |kind: &str| format!("encoder.layers.encoder_layer_3.self_attention.in_proj_{kind}");
        assert_eq!(packed("vit.encoder.layer.3.attention.attention.value.weight"), Some((joined("weight"), 2)));
        assert_eq!(packed("vit.encoder.layer.3.attention.attention.query.bias"), Some((joined("bias"), 0)));
        assert_eq!(packed("vit.encoder.layer.3.attention.output.dense.bias"), None);
        assert_eq!(packed("bert.encoder.layer.3.attention.self.query.bias"), None);
    }

    #[test]
    fn masks_counters_and_other_heads_are_no_weights() {
        assert!(may_be_ignored("gpt_neox.layers.3.attention.masked_bias", false));
        assert!(may_be_ignored("h.3.attn.bias", true) && may_be_ignored("a.num_batches_tracked", false));
        assert!(may_be_ignored("lm_head.weight", true) && !may_be_ignored("lm_head.weight", false));
        assert!(!may_be_ignored("h.3.attn.c_attn.bias", true) && !may_be_ignored("classifier.weight", true));
    }
}
