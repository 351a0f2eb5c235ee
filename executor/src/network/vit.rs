//! Vision transformers: patches of an image and a class token, normalisation before each part.
//!
//! Source: Dosovitskiy et al., arXiv:2010.11929, section 3.1. Names are those of transformers'
//! `ViTForImageClassification`.

use super::dropout::{Place, Shares};
use super::encoder::{EPSILON, FeedForward, SelfAttention};
use super::parts::{Cut, DEVIATION, LayerNorm, Linear, Slots};
use super::{Initial, Layer, Parameter, Pass, Weights, operators, rows};
use burn::tensor::Tensor;
use std::sync::Arc;
use trainyard_data::MicroBatch;
use trainyard_models::Vit;
use trainyard_units::Invalid;

const NORMAL: Initial = Initial::Normal(DEVIATION);

/// Returns the layers of an encoder with a classifier, as its description counts them.
///
/// # Errors
///
/// When it has another head.
pub(super) fn layers(vit: &Vit) -> Result<Vec<Arc<dyn Layer>>, Invalid> {
    let Some(classes) = vit.classes else {
        return Err(Invalid::breaks("model.head", vit.head, "encoders of images are trained on classes only")
            .with_hint("set head = \"classifier\" and classes"));
    };
    let mut layers: Vec<Arc<dyn Layer>> = vec![Arc::new(Embedding::new(vit))];
    layers.extend((0..vit.layers).map(|index| Arc::new(Block::new(vit, index)) as Arc<dyn Layer>));
    layers.push(Arc::new(Head::new(vit, classes as usize)));
    Ok(layers)
}

/// A product with each patch, a class token before them, and learned positions.
struct Embedding {
    parameters: Vec<Parameter>,
    channels: usize,
    /// Patches along one side of an image.
    grid: usize,
    /// Pixels along one side of a patch.
    patch: usize,
    class_token: usize,
    positions: usize,
    projection: usize,
    bias: usize,
    dropout: f64,
}

impl Embedding {
    fn new(vit: &Vit) -> Self {
        let (hidden, channels, patch) = (vit.hidden as usize, vit.channels as usize, vit.patch_size as usize);
        let grid = vit.image_size as usize / patch;
        let mut slots = Slots::new("vit.embeddings.");
        let mut add = |name: &str, shape: &[usize], initial| {
            let name = slots.name(name);
            slots.add(Parameter::new(name, shape, initial))
        };
        let class_token = add("cls_token", &[1, 1, hidden], NORMAL);
        let positions = add("position_embeddings", &[1, grid * grid + 1, hidden], NORMAL);
        let projection = add("patch_embeddings.projection.weight", &[hidden, channels, patch, patch], NORMAL);
        let bias = add("patch_embeddings.projection.bias", &[hidden], Initial::Zeros);
        let parameters = slots.parameters();
        let dropout = Shares::from(vit.dropout).embedding;
        Self { parameters, channels, grid, patch, class_token, positions, projection, bias, dropout }
    }

    /// (samples, channels × height × width) → (samples × patches, channels × pixels of a patch).
    fn patches(&self, images: Tensor<2>) -> Tensor<2> {
        let (samples, [channels, grid, patch]) = (images.dims()[0], [self.channels, self.grid, self.patch]);
        let cut = images.reshape([samples, channels, grid, patch, grid, patch]).permute([0, 2, 4, 1, 3, 5]);
        cut.reshape([samples * grid * grid, channels * patch * patch])
    }
}

impl Layer for Embedding {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, _: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let bias = weights.get::<1>(self.bias);
        let [hidden] = bias.dims();
        let patches = self.patches(rows::images(pass, batch, bias.dtype()));
        let kernel = weights.shaped(self.projection, [hidden, patches.dims()[1]]);
        let rows = operators::tied_head(patches, kernel) + bias.unsqueeze::<2>();
        let (samples, count) = (batch.samples, self.grid * self.grid);
        let class_token = weights.get::<3>(self.class_token).expand([samples, 1, hidden]);
        let tokens = Tensor::cat(vec![class_token, rows.reshape([samples, count, hidden])], 1);
        let tokens = (tokens + weights.get::<3>(self.positions)).reshape([samples * (count + 1), hidden]);
        let tokens = rows::own_tokens(pass, tokens, samples);
        pass.dropped(tokens, self.dropout, Place::Embedding, samples)
    }
}

/// Attention, then the feed-forward part, each on a normalised copy of the residual stream.
struct Block {
    parameters: Vec<Parameter>,
    norm_1: LayerNorm,
    attention: SelfAttention,
    norm_2: LayerNorm,
    feed_forward: FeedForward,
    dropout: f64,
}

impl Block {
    fn new(vit: &Vit, index: u32) -> Self {
        let (hidden, dropout) = (vit.hidden as usize, Shares::from(vit.dropout));
        let mut slots = Slots::new(format!("vit.encoder.layer.{index}."));
        let norm_1 = slots.layer_norm("layernorm_before", hidden, EPSILON);
        let attention =
            SelfAttention::new(&mut slots, "attention.attention", hidden, (vit.heads as usize, dropout.attention));
        let norm_2 = slots.layer_norm("layernorm_after", hidden, EPSILON);
        let feed_forward = FeedForward::new(&mut slots, hidden, vit.ffn as usize);
        let dropout = dropout.residual;
        Self { parameters: slots.parameters(), norm_1, attention, norm_2, feed_forward, dropout }
    }
}

impl Layer for Block {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let (stream, samples) = (rows::from_before(input), batch.samples);
        let rows = self.norm_1.forward(weights, stream.clone());
        let attended = self.attention.forward(pass, weights, rows, samples);
        let stream = stream + pass.dropped(attended, self.dropout, Place::Attention, samples);
        let rows = self.norm_2.forward(weights, stream.clone());
        let transformed = self.feed_forward.forward(pass, weights, rows, samples);
        stream + pass.dropped(transformed, self.dropout, Place::FeedForward, samples)
    }
}

/// The final normalisation, and the classes of each image from its class token.
struct Head {
    parameters: Vec<Parameter>,
    norm: LayerNorm,
    classifier: Linear,
}

impl Head {
    fn new(vit: &Vit, classes: usize) -> Self {
        let hidden = vit.hidden as usize;
        let mut slots = Slots::new("");
        let norm = slots.layer_norm("vit.layernorm", hidden, EPSILON);
        let classifier = slots.linear("classifier", hidden, classes, NORMAL, Cut::Whole);
        Self { parameters: slots.parameters(), norm, classifier }
    }
}

impl Layer for Head {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let class_tokens = rows::first_tokens(pass, rows::from_before(input), batch.samples);
        let scores = self.classifier.forward(weights, self.norm.forward(weights, class_tokens));
        rows::class_loss(pass, scores, batch)
    }
}
