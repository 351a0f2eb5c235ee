//! Networks for images.

use super::config::{Config, small, unsupported};
use crate::families::{BlockKind, Family, HeadKind, ModelSpec};
use trainyard_units::Invalid;

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
}
