//! The names under which files hold the parameters of a model.

/// Prefixes that transformers puts before the names of a model with a head, and leaves out without one.
const PREFIXES: [&str; 5] = ["transformer.", "model.", "bert.", "vit.", "resnet."];

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
    names.extend(in_torchvision(name));
    names
}

/// Returns the name that torchvision's residual networks give the parameter `name`.
fn in_torchvision(name: &str) -> Option<String> {
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
const BUFFERS: [&str; 5] =
    [".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq", ".position_ids", ".num_batches_tracked"];

/// Heads of other tasks than those that are trained here.
const OTHER_HEADS: [&str; 3] = ["cls.seq_relationship.", "bert.pooler.", "vit.pooler."];

/// Additional names under which files hold a head that is tied to the token table.
const TIED: [&str; 3] = ["lm_head.weight", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"];

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
    fn masks_counters_and_other_heads_are_no_weights() {
        assert!(may_be_ignored("h.3.attn.bias", true) && may_be_ignored("a.num_batches_tracked", false));
        assert!(may_be_ignored("lm_head.weight", true) && !may_be_ignored("lm_head.weight", false));
        assert!(!may_be_ignored("h.3.attn.c_attn.bias", true) && !may_be_ignored("classifier.weight", true));
    }
}
