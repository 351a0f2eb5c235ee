//! Networks for images.

use super::config::{Config, small, unsupported, wrong};
use crate::families::{BlockKind, Family, HeadKind, ModelSpec};
use crate::layers::{InputSpec, LayerSpec};
use serde_json::{Value, json};
use trainyard_units::Invalid;

/// A vision transformer, by what it has that a [`crate::Vit`] has not.
struct Patches {
    class_tokens: u64,
    positions: bool,
    /// What the attention of a block says besides its heads.
    attention: Value,
    /// What follows the branch of each part of a block.
    scaled: bool,
    /// From tokens to the vector that is classified.
    pooled: Value,
    /// Classifiers of that vector.
    classifiers: u64,
}

impl Config<'_> {
    pub(super) fn vit(&self) -> Result<ModelSpec, Invalid> {
        self.only("qkv_bias", true, "attention with biases")?;
        let is_encoder = self.architecture().ends_with("ViTModel");
        Ok(ModelSpec {
            layers: self.depth(&["num_hidden_layers"])?,
            hidden: self.needed(&["hidden_size"])?,
            heads: self.needed(&["num_attention_heads"])?,
            ffn: self.needed(&["intermediate_size"])?,
            image_size: self.needed(&["image_size"])?,
            patch_size: self.needed(&["patch_size"])?,
            channels: self.count(&["num_channels"])?,
            head: Some(if is_encoder { HeadKind::Pooler } else { HeadKind::Classifier }),
            classes: if is_encoder { None } else { self.labels()? },
            dropout: Some(self.dropped(&["hidden_dropout_prob"], 0.0)?).filter(|share| share.drops()),
            attention_dropout: Some(self.dropped(&["attention_probs_dropout_prob"], 0.0)?)
                .filter(|share| share.drops()),
            ..self.spec(Family::Vit)
        })
    }

    pub(super) fn resnet(&self) -> Result<ModelSpec, Invalid> {
        self.only("downsample_in_first_stage", false, "a first stage without stride")?;
        self.only("downsample_in_bottleneck", false, "a stride in the 3 × 3 convolution")?;
        let block = match self.text("layer_type")? {
            None | Some("bottleneck") => BlockKind::Bottleneck,
            Some("basic") => BlockKind::Basic,
            Some(found) => return Err(unsupported("layer_type", format!("`{found}`"), "`basic` or `bottleneck`")),
        };
        let depths = self.counts("depths")?.into_iter().map(|depth| small("depths", depth));
        Ok(ModelSpec {
            depths: Some(depths.collect::<Result<_, _>>()?),
            widths: Some(self.counts("hidden_sizes")?),
            block: Some(block),
            base_channels: self.count(&["embedding_size"])?,
            channels: self.count(&["num_channels"])?,
            classes: self.labels()?,
            ..self.spec(Family::ResNet)
        })
    }

    pub(super) fn deit(&self) -> Result<ModelSpec, Invalid> {
        self.only("qkv_bias", true, "attention with biases")?;
        let classifiers = match self.architecture() {
            "" | "DeiTForImageClassification" => 1,
            "DeiTForImageClassificationWithTeacher" => 2,
            other => return Err(self.no_classifier(other)),
        };
        self.patches(&Patches {
            class_tokens: 2,
            positions: true,
            attention: json!({}),
            scaled: false,
            pooled: json!(["layer_norm", "first_token"]),
            classifiers,
        })
    }

    pub(super) fn beit(&self) -> Result<ModelSpec, Invalid> {
        self.classifies("BeitForImageClassification")?;
        for field in ["use_mask_token", "use_shared_relative_position_bias"] {
            self.without(field, "a model without it")?;
        }
        let [image, patch] = ["image_size", "patch_size"].map(|name| self.needed(&[name]));
        let side = image?.unwrap_or(0) / patch?.unwrap_or(1).max(1);
        // All pairs of offsets, and those from, to and between tokens of the class.
        let distances = side.saturating_mul(2).saturating_sub(1).saturating_pow(2).saturating_add(3);
        let relative = self.flag("use_relative_position_bias")?.unwrap_or(false);
        let mean = self.flag("use_mean_pooling")?.unwrap_or(true);
        self.patches(&Patches {
            class_tokens: 1,
            positions: self.flag("use_absolute_position_embeddings")?.unwrap_or(false),
            attention: if relative {
                json!({ "key_bias": false, "relative_bias": distances })
            } else {
                json!({ "key_bias": false })
            },
            scaled: self.number("layer_scale_init_value")?.unwrap_or(0.1) > 0.0,
            pooled: if mean { json!(["global_pool", "layer_norm"]) } else { json!(["layer_norm", "first_token"]) },
            classifiers: 1,
        })
    }

    fn patches(&self, model: &Patches) -> Result<ModelSpec, Invalid> {
        let [width, heads, ffn, patch] =
            ["hidden_size", "num_attention_heads", "intermediate_size", "patch_size"].map(|name| self.needed(&[name]));
        let (width, ffn, patch) = (width?, ffn?, patch?);
        let mut attention = model.attention.clone();
        attention["attention"] = json!(heads?);
        let stem = json!([
            { "conv": width, "kernel": patch, "stride": patch, "padding": "valid" },
            { "class_tokens": model.class_tokens, "positions": model.positions },
        ]);
        let mut mixed = vec![json!("layer_norm"), attention];
        let mut fed =
            vec![json!("layer_norm"), json!({ "linear": ffn, "activation": "gelu" }), json!({ "linear": width })];
        if model.scaled {
            mixed.push(json!("scale"));
            fed.push(json!("scale"));
        }
        let block = json!([{ "add": [mixed, []] }, { "add": [fed, []] }]);
        let layers = self.depth(&["num_hidden_layers"])?.unwrap_or(0);
        self.network(vec![
            layer("embedding", 1, stem),
            layer("block", layers.into(), block),
            self.classified(&model.pooled, model.classifiers)?,
        ])
    }

    pub(super) fn swin(&self) -> Result<ModelSpec, Invalid> {
        self.classifies("SwinForImageClassification")?;
        self.without("use_absolute_embeddings", "a model without learned positions")?;
        self.only("qkv_bias", true, "attention with biases")?;
        let [width, patch, image, window] =
            ["embed_dim", "patch_size", "image_size", "window_size"].map(|name| self.needed(&[name]));
        let (width, patch, window) = (width?.unwrap_or(0), patch?.unwrap_or(1).max(1), window?.unwrap_or(1));
        let ratio = self.number("mlp_ratio")?.unwrap_or(4.0);
        let (depths, heads) = (self.counts("depths")?, self.counts("num_heads")?);
        if heads.len() != depths.len() {
            let rule = format!("`depths` has {} stages", depths.len());
            return Err(Invalid::breaks("num_heads", format!("a list of {}", heads.len()), rule));
        }
        // Of each window all pairs of offsets.
        let distances = window.saturating_mul(2).saturating_sub(1).saturating_pow(2);
        let stem = json!([{ "conv": width, "kernel": patch, "stride": patch, "padding": "valid", "bias": true, "norm": "layer" }]);
        let mut layers = vec![layer("embedding", 1, stem)];
        let (mut width, mut side) = (width, image?.unwrap_or(0) / patch);
        for (stage, (depth, heads)) in (1..).zip(depths.iter().zip(heads)) {
            if stage > 1 {
                width = width.saturating_mul(2);
                side = side.div_ceil(2);
                let merged = json!([{ "space_to_depth": 2 }, "layer_norm", { "linear": width, "bias": false }]);
                layers.push(layer(&format!("merging {}", stage - 1), 1, merged));
            }
            let ffn = (width as f64 * ratio) as u64;
            // A map that is smaller than a window is one window.
            let attention = json!({ "attention": heads, "window": window.min(side), "relative_bias": distances });
            let block = json!([
                { "add": [["layer_norm", attention], []] },
                { "add": [["layer_norm", { "linear": ffn, "activation": "gelu" }, { "linear": width }], []] },
            ]);
            layers.push(layer(&format!("stage {stage}"), *depth, block));
        }
        layers.push(self.classified(&json!(["layer_norm", "global_pool"]), 1)?);
        self.network(layers)
    }

    pub(super) fn convnext(&self) -> Result<ModelSpec, Invalid> {
        self.classifies("ConvNextForImageClassification")?;
        let (depths, widths) = (self.counts("depths")?, self.counts("hidden_sizes")?);
        if widths.len() != depths.len() {
            let rule = format!("`depths` has {} stages", depths.len());
            return Err(Invalid::breaks("hidden_sizes", format!("a list of {}", widths.len()), rule));
        }
        let Some(first) = widths.first() else { return Err(wrong("hidden_sizes", &json!([]), "a list of widths")) };
        let patch = self.needed(&["patch_size"])?;
        let stem = json!([{ "conv": first, "kernel": patch, "stride": patch, "padding": "valid", "bias": true, "norm": "layer" }]);
        let scaled = self.number("layer_scale_init_value")?.unwrap_or(1e-6) > 0.0;
        let mut layers = vec![layer("stem", 1, stem)];
        for (stage, (depth, width)) in (1..).zip(depths.iter().zip(&widths)) {
            if stage > 1 {
                let halved = json!(["layer_norm", { "conv": width, "kernel": 2, "stride": 2, "padding": "valid" }]);
                layers.push(layer(&format!("downsampling {}", stage - 1), 1, halved));
            }
            let wide = json!({ "linear": width.saturating_mul(4), "activation": "gelu" });
            let mut branch = vec![json!({ "depthwise": 7 }), json!("layer_norm"), wide, json!({ "linear": width })];
            branch.extend(scaled.then(|| json!("scale")));
            layers.push(layer(&format!("stage {stage}"), *depth, json!([{ "add": [branch, []] }])));
        }
        layers.push(self.classified(&json!(["global_pool", "layer_norm"]), 1)?);
        self.network(layers)
    }

    pub(super) fn clip(&self) -> Result<ModelSpec, Invalid> {
        if !matches!(self.architecture(), "" | "CLIPModel") {
            return Err(unsupported("architectures", format!("`{}`", self.architecture()), "`CLIPModel`"));
        }
        let [text, vision] = ["text_config", "vision_config"]
            .map(|name| self.part(name).and_then(|part| part.ok_or_else(|| self.missing(name))));
        let inside = |name: &'static str| move |error: Invalid| error.within(name);
        let text = text?.encoder_of_text().map_err(inside("text_config"))?;
        let vision = vision?.encoder_of_images().map_err(inside("vision_config"))?;
        Ok(ModelSpec {
            vision_hidden: vision.hidden,
            vision_heads: vision.heads,
            vision_layers: vision.layers,
            vision_ffn: vision.ffn,
            image_size: vision.image_size,
            patch_size: vision.patch_size,
            channels: vision.channels,
            joint: self.needed(&["projection_dim"])?,
            ..text
        })
    }

    fn encoder_of_text(&self) -> Result<ModelSpec, Invalid> {
        Ok(ModelSpec {
            vocab: self.needed(&["vocab_size"])?,
            seq_len: self.needed(&["max_position_embeddings"])?,
            ..self.encoder_of_clip()?
        })
    }

    fn encoder_of_images(&self) -> Result<ModelSpec, Invalid> {
        Ok(ModelSpec {
            image_size: self.needed(&["image_size"])?,
            patch_size: self.needed(&["patch_size"])?,
            channels: self.count(&["num_channels"])?,
            ..self.encoder_of_clip()?
        })
    }

    fn encoder_of_clip(&self) -> Result<ModelSpec, Invalid> {
        Ok(ModelSpec {
            layers: self.depth(&["num_hidden_layers"])?,
            hidden: self.needed(&["hidden_size"])?,
            heads: self.needed(&["num_attention_heads"])?,
            ffn: self.needed(&["intermediate_size"])?,
            ..self.spec(Family::Clip)
        })
    }

    fn classifies(&self, class: &str) -> Result<(), Invalid> {
        match self.architecture() {
            name if name.is_empty() || name == class => Ok(()),
            other => Err(self.no_classifier(other)),
        }
    }

    #[expect(clippy::unused_self, reason = "it is said of one configuration")]
    fn no_classifier(&self, found: &str) -> Invalid {
        unsupported("architectures", format!("`{found}`"), "a classifier of images (…ForImageClassification)")
    }

    /// Returns the layer that makes a vector of what flows, scores its classes and ends in the loss.
    fn classified(&self, pooled: &Value, classifiers: u64) -> Result<LayerSpec, Invalid> {
        let classes = json!({ "linear": self.labels()? });
        let mut operators = pooled.as_array().cloned().unwrap_or_default();
        operators.push(if classifiers > 1 { json!({ "add": [[classes], [classes]] }) } else { classes });
        operators.push(json!("cross_entropy"));
        Ok(layer("head", 1, operators.into()))
    }

    /// Returns a network of written layers over the images of the configuration.
    fn network(&self, layers: Vec<LayerSpec>) -> Result<ModelSpec, Invalid> {
        let side = self.needed(&["image_size"])?;
        let channels = self.count(&["num_channels"])?.or(Some(3));
        let input = InputSpec { channels, height: side, width: side, ..InputSpec::default() };
        Ok(ModelSpec { input: Some(input), layer: Some(layers), ..self.spec(Family::Layers) })
    }
}

/// Returns a layer of operators as a file has them, so many times.
fn layer(name: &str, repeat: u64, operators: Value) -> LayerSpec {
    let operators = serde_json::from_value(operators).expect("they are written as in a file");
    LayerSpec { name: name.into(), repeat, frozen: false, operators }
}
