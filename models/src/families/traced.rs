//! Models that were read from the graph of another program: operators with their sizes, which depend on no input.

use super::layers::{check_input, sample};
use crate::families::fields::{Dimensions, Field, LAYERS_MAX, OPERATORS_MAX};
use crate::families::model::{Architecture, Named, Sample};
use crate::families::{ModelError, ModelSpec};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::layers::InputSpec;
use crate::operator::{
    Attention, AttentionKernel, Cell, Convolution, Generic, Image, Mask, Operator, OperatorKind, Pool, Recurrent,
    Sharing, replicated,
};
use crate::traced::{
    AttentionSizes, ConvolutionSizes, CrossEntropySizes, EmbeddingSizes, KernelSizes, LinearSizes, MapSizes, NormSizes,
    PoolSizes, ProductSizes, RecurrentSizes, RowSizes, TracedLayer, TracedOperator,
};
use trainyard_units::Invalid;

/// Most elements of anything, and most weights of an operator, which keeps every count within 64 bits.
const SIZE_MAX: u64 = 1 << 36;

/// A model of traced layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    /// The user's name.
    pub name: String,
    /// What one sample is.
    pub input: InputSpec,
    /// The attention kernel.
    pub attention: Option<AttentionKernel>,
    /// The layers as they are written.
    pub layers: Vec<TracedLayer>,
    graph: OperatorGraph,
}

impl Named for Traced {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Dimensions for Traced {
    type Given = ();

    fn has(field: &str) -> bool {
        ["input", "traced", "attention"].contains(&field)
    }

    fn read(spec: &ModelSpec, (): ()) -> Result<Self, ModelError> {
        let at = |name| Field { spec, name };
        let input = spec.input.ok_or_else(|| at("input").missing())?;
        let layers = spec.traced.clone().ok_or_else(|| at("traced").missing())?;
        check_input(input)?;
        let graph = graph(&layers, spec.attention.unwrap_or(AttentionKernel::Unfused))?;
        Ok(Self { name: spec.name.clone(), input, attention: spec.attention, layers, graph })
    }

    fn write(&self, spec: &mut ModelSpec) {
        spec.input = Some(self.input);
        spec.attention = self.attention;
        spec.traced = Some(self.layers.clone());
    }
}

impl Architecture for Traced {
    fn sample(&self) -> Sample {
        sample(self.input)
    }

    fn normalises_over_batches(&self) -> bool {
        let mut operators = self.layers.iter().flat_map(|layer| &layer.operators);
        operators.any(|operator| matches!(operator, TracedOperator::BatchNorm(_)))
    }

    fn graph(&self) -> OperatorGraph {
        self.graph.clone()
    }
}

/// Returns the layers as they are costed.
fn graph(written: &[TracedLayer], attention: AttentionKernel) -> Result<OperatorGraph, ModelError> {
    let of = |layer: &TracedLayer| (layer.repeat, layer.repeat.saturating_mul(layer.operators.len() as u64));
    let (count, operators) = written.iter().map(of).fold((0_u64, 0_u64), |(layers, operators), (more, many)| {
        (layers.saturating_add(more), operators.saturating_add(many))
    });
    if !(2..=LAYERS_MAX).contains(&count) {
        return Err(Invalid::range("layers", count, 2..=LAYERS_MAX).into());
    }
    if operators > OPERATORS_MAX {
        return Err(Invalid::range("operators", operators, 1..=OPERATORS_MAX).into());
    }
    let mut layers: Vec<Layer> = Vec::new();
    for spec in written {
        let layer = layer(spec, attention)?;
        for _ in 0..spec.repeat {
            let role = match layers.len() as u64 {
                0 => LayerRole::Input,
                index if index + 1 == count => LayerRole::Output,
                _ => LayerRole::Block,
            };
            layers.push(Layer { role, ..layer.clone() });
        }
    }
    let tied = tied(written, layers[0].parameters(Sharing::WHOLE))?;
    Ok(OperatorGraph::of_layers(layers).tied(tied))
}

/// Returns the trained values of the first layer that the last one uses too.
fn tied(written: &[TracedLayer], first: u64) -> Result<u64, ModelError> {
    let last = written.len() - 1;
    for (index, layer) in written.iter().enumerate().filter(|(_, layer)| layer.tied > 0) {
        let most = if index == last { first } else { 0 };
        size(layer.tied, ("tied", 0, most)).map_err(|invalid| at(layer, invalid))?;
    }
    Ok(written[last].tied)
}

fn at(layer: &TracedLayer, invalid: Invalid) -> ModelError {
    ModelError::new(format!("layer `{}`", layer.name), invalid)
}

fn layer(spec: &TracedLayer, attention: AttentionKernel) -> Result<Layer, ModelError> {
    size(spec.repeat, ("repeat", 1, LAYERS_MAX)).map_err(|invalid| at(spec, invalid))?;
    size(spec.output, ("output", 1, SIZE_MAX)).map_err(|invalid| at(spec, invalid))?;
    size(spec.made, ("made", 0, spec.output)).map_err(|invalid| at(spec, invalid))?;
    let mut operators = Vec::with_capacity(spec.operators.len());
    for (index, written) in spec.operators.iter().enumerate() {
        let place = || format!("layer `{}`, operator {}", spec.name, index + 1);
        operators.push(operator(written, attention).map_err(|invalid| ModelError::new(place(), invalid))?);
    }
    let context_elements = spec.operators.iter().map(context_elements).sum();
    let undivided = Layer::undivided("", LayerRole::Block, operators, spec.made);
    Ok(Layer { name: spec.name.clone().into(), output_elements: spec.output, context_elements, ..undivided })
}

/// Returns the elements of keys and values that an operator of self-attention reads.
fn context_elements(operator: &TracedOperator) -> u64 {
    match operator {
        TracedOperator::Attention(sizes) if sizes.queries == sizes.keys => {
            sizes.sequences * sizes.keys * sizes.kv_heads * (sizes.head_width + sizes.value_width)
        }
        _ => 0,
    }
}

/// Refuses a number outside its limits.
fn size(value: u64, (field, least, most): (&'static str, u64, u64)) -> Result<(), Invalid> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(Invalid::range(field, value, least..=most)) }
}

/// Refuses a product of sizes, named by its factors, that is nothing or too large.
fn sizes<const N: usize>(factors: [(&'static str, u64); N]) -> Result<(), Invalid> {
    for (field, value) in factors {
        size(value, (field, 1, SIZE_MAX))?;
    }
    let product = factors.iter().fold(1_u128, |product, (_, value)| product.saturating_mul(u128::from(*value)));
    if product <= u128::from(SIZE_MAX) {
        return Ok(());
    }
    let names: Vec<_> = factors.iter().map(|(field, _)| *field).collect();
    Err(Invalid::whole(format!("{} is {product}, but it must be at most {SIZE_MAX}", names.join(" × "))))
}

/// Refuses a number that does not divide another.
fn divides(part: (&'static str, u64), whole: (&'static str, u64)) -> Result<(), Invalid> {
    if whole.1.is_multiple_of(part.1) {
        return Ok(());
    }
    Err(Invalid::whole(format!("`{}` is {}, but it must divide `{}`, {}", part.0, part.1, whole.0, whole.1)))
}

fn operator(written: &TracedOperator, attention: AttentionKernel) -> Result<Operator, Invalid> {
    let kind = match *written {
        TracedOperator::Attention(sizes) => OperatorKind::Attention(core(sizes, attention)?),
        TracedOperator::Product(_) | TracedOperator::Kernel(_) | TracedOperator::Weights(_) => {
            OperatorKind::Generic(generic(written)?)
        }
        _ => known(written)?,
    };
    let (shares_weights, kept_elsewhere) = flags(written);
    Ok(Operator { kept_elsewhere, shares_weights, ..replicated(kind) })
}

/// Returns whether an operator shares its weights, and whether its input is kept elsewhere.
fn flags(written: &TracedOperator) -> (bool, bool) {
    match *written {
        TracedOperator::Linear(LinearSizes { shared, input_kept, .. })
        | TracedOperator::Convolution(ConvolutionSizes { shared, input_kept, .. })
        | TracedOperator::LayerNorm(NormSizes { shared, input_kept, .. })
        | TracedOperator::RmsNorm(NormSizes { shared, input_kept, .. })
        | TracedOperator::BatchNorm(MapSizes { shared, input_kept, .. })
        | TracedOperator::GroupNorm(MapSizes { shared, input_kept, .. }) => (shared, input_kept),
        TracedOperator::Embedding(EmbeddingSizes { shared, .. })
        | TracedOperator::Lstm(RecurrentSizes { shared, .. })
        | TracedOperator::Gru(RecurrentSizes { shared, .. }) => (shared, false),
        TracedOperator::MaxPool(PoolSizes { input_kept, .. }) | TracedOperator::Gelu(RowSizes { input_kept, .. }) => {
            (false, input_kept)
        }
        _ => (false, false),
    }
}

/// Returns an operator that written layers have too.
fn known(written: &TracedOperator) -> Result<OperatorKind, Invalid> {
    Ok(match *written {
        TracedOperator::Linear(sizes) => linear(sizes)?,
        TracedOperator::Convolution(sizes) => OperatorKind::Image(Image::Convolution(convolution(sizes)?)),
        TracedOperator::Embedding(EmbeddingSizes { rows, entries: vocab, width, .. }) => {
            sizes([("rows", rows), ("width", width)])?;
            sizes([("entries", vocab), ("width", width)])?;
            OperatorKind::Embedding { rows, vocab, positions: 0, segments: 0, width, dropout: false }
        }
        TracedOperator::LayerNorm(NormSizes { rows, width, .. }) => {
            sizes([("rows", rows), ("width", width)])?;
            OperatorKind::LayerNorm { rows, width }
        }
        TracedOperator::RmsNorm(NormSizes { rows, width, .. }) => {
            sizes([("rows", rows), ("width", width)])?;
            OperatorKind::RmsNorm { rows, width }
        }
        TracedOperator::BatchNorm(MapSizes { pixels, channels, .. })
        | TracedOperator::GroupNorm(MapSizes { pixels, channels, .. }) => {
            sizes([("pixels", pixels), ("channels", channels)])?;
            OperatorKind::Image(Image::Norm { samples: 1, pixels, channels, frozen: false })
        }
        TracedOperator::MaxPool(sizes) => pooled(sizes, Pool::Max)?,
        TracedOperator::MeanPool(sizes) => pooled(sizes, Pool::Mean)?,
        TracedOperator::Relu(RowSizes { rows, width, .. }) => {
            sizes([("rows", rows), ("width", width)])?;
            OperatorKind::Relu { rows, width }
        }
        TracedOperator::Gelu(RowSizes { rows, width, .. }) => {
            sizes([("rows", rows), ("width", width)])?;
            OperatorKind::Activation { rows, width }
        }
        TracedOperator::Add(RowSizes { rows, width, .. }) => {
            sizes([("rows", rows), ("width", width)])?;
            OperatorKind::Residual { rows, width, dropout: false }
        }
        TracedOperator::Lstm(sizes) => recurrent(Cell::Lstm, sizes)?,
        TracedOperator::Gru(sizes) => recurrent(Cell::Gru, sizes)?,
        TracedOperator::CrossEntropy(CrossEntropySizes { rows, classes: vocab }) => {
            sizes([("rows", rows), ("classes", vocab)])?;
            OperatorKind::CrossEntropy { rows, vocab }
        }
        ref other => unreachable!("{other:?} is no operator of written layers"),
    })
}

fn linear(LinearSizes { rows, inputs, outputs, bias, .. }: LinearSizes) -> Result<OperatorKind, Invalid> {
    sizes([("rows", rows), ("inputs", inputs)])?;
    sizes([("rows", rows), ("outputs", outputs)])?;
    sizes([("inputs", inputs), ("outputs", outputs)])?;
    Ok(OperatorKind::Linear { rows, inputs, outputs, bias })
}

fn convolution(written: ConvolutionSizes) -> Result<Convolution, Invalid> {
    let ConvolutionSizes { maps, input, output, inputs, outputs, kernel, groups, bias, transposed, .. } = written;
    for (field, [depth, height, width], channels) in [("input", input, inputs), ("output", output, outputs)] {
        sizes([("maps", maps), (field, depth), (field, height), (field, width), ("channels", channels)])?;
    }
    let [depth, height, width] = kernel;
    sizes([("inputs", inputs), ("outputs", outputs), ("kernel", depth), ("kernel", height), ("kernel", width)])?;
    size(groups, ("groups", 1, inputs))?;
    divides(("groups", groups), ("inputs", inputs))?;
    divides(("groups", groups), ("outputs", outputs))?;
    Ok(Convolution { samples: maps, input, output, inputs, outputs, kernel, groups, bias, transposed })
}

fn core(written: AttentionSizes, kernel: AttentionKernel) -> Result<Attention, Invalid> {
    let AttentionSizes { sequences, heads, kv_heads, queries, keys, head_width, value_width, .. } = written;
    size(kv_heads, ("kv_heads", 1, heads.max(1)))?;
    divides(("kv_heads", kv_heads), ("heads", heads))?;
    for tokens in [("queries", queries), ("keys", keys)] {
        for width in [("head_width", head_width), ("value_width", value_width)] {
            sizes([("sequences", sequences), tokens, ("heads", heads), width])?;
        }
    }
    Ok(Attention {
        samples: sequences,
        heads,
        kv_heads,
        queries,
        keys,
        own_keys: keys,
        head_width,
        value_width,
        kernel,
        mask: if written.causal { Mask::Causal } else { Mask::Full },
        dropout: written.dropout,
        biased: written.biased,
        soft_cap: false,
        sinks: false,
    })
}

fn recurrent(cell: Cell, written: RecurrentSizes) -> Result<OperatorKind, Invalid> {
    let RecurrentSizes { sequences, steps, inputs, hidden, bidirectional, .. } = written;
    sizes([("sequences", sequences), ("steps", steps), ("inputs", inputs)])?;
    sizes([("sequences", sequences), ("steps", steps), ("hidden", hidden)])?;
    sizes([("inputs", inputs), ("hidden", hidden)])?;
    sizes([("hidden", hidden), ("hidden", hidden)])?;
    let directions = if bidirectional { 2 } else { 1 };
    Ok(OperatorKind::Recurrent(Recurrent { cell, samples: sequences, steps, inputs, hidden, directions }))
}

fn pooled(PoolSizes { pixels, windows, channels, .. }: PoolSizes, kind: Pool) -> Result<OperatorKind, Invalid> {
    sizes([("pixels", pixels), ("channels", channels)])?;
    sizes([("windows", windows), ("channels", channels)])?;
    Ok(OperatorKind::Image(Image::Pool { samples: 1, pixels, windows, channels, kind }))
}

fn generic(written: &TracedOperator) -> Result<Generic, Invalid> {
    Ok(match *written {
        TracedOperator::Product(ProductSizes { batch, m, n, k, kept }) => {
            sizes([("batch", batch), ("m", m), ("k", k)])?;
            sizes([("batch", batch), ("k", k), ("n", n)])?;
            sizes([("batch", batch), ("m", m), ("n", n)])?;
            size(kept, ("kept", 0, SIZE_MAX))?;
            Generic::Product { samples: 1, batch, m, n, k, kept }
        }
        TracedOperator::Kernel(KernelSizes { read, written, kept, masks }) => {
            for (field, value) in [("read", read), ("written", written), ("kept", kept), ("masks", masks)] {
                size(value, (field, 0, SIZE_MAX))?;
            }
            Generic::Kernel { samples: 1, read, written, kept, masks }
        }
        TracedOperator::Weights(weights) => {
            size(weights.values, ("values", 1, SIZE_MAX))?;
            size(weights.tensors.into(), ("tensors", 1, weights.values))?;
            Generic::Weights { values: weights.values, tensors: weights.tensors }
        }
        ref other => unreachable!("{other:?} has a kind of its own"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Pass;
    use crate::{Family, Model, find};
    use trainyard_units::Flops;

    const BODY: &str = "{ linear = { rows = 4, inputs = 8, outputs = 8 } }";

    fn model(body: &str, head: &str) -> Result<Model, String> {
        let text = format!(
            "name = \"own\"\nfamily = \"traced\"\ninput = {{ tokens = 4 }}\n\
             [[traced]]\nname = \"table\"\noutput = 32\nmade = 32\n\
             operators = [{{ embedding = {{ rows = 4, entries = 100, width = 8 }} }}]\n\
             [[traced]]\nname = \"body\"\nrepeat = 3\noutput = 32\nmade = 32\noperators = [{body}]\n\
             [[traced]]\nname = \"head\"\noutput = 1\nmade = 1\n{head}\n"
        );
        let spec: ModelSpec = toml::from_str(&text).map_err(|error| error.to_string())?;
        Model::try_from(spec).map_err(|error| error.to_string())
    }

    const HEAD: &str = "tied = 800\noperators = [\
        { linear = { rows = 4, inputs = 8, outputs = 100, shared = true } }, { cross_entropy = { rows = 4, classes = 100 } }]";

    #[test]
    fn weights_that_two_layers_use_are_counted_once() {
        let graph = model(BODY, HEAD).expect("a model").graph();
        assert_eq!((graph.len(), graph.distinct().len()), (5, 3));
        assert_eq!((graph.parameters(), graph.shared_parameters()), (800 + 3 * 64, 800));
        assert_eq!(graph.flops(Pass::Forward), Flops(2.0 * 4.0 * (3.0 * 64.0 + 800.0)));
    }

    #[test]
    fn whatever_is_wrong_is_said_with_its_place_and_value() {
        for (body, parts) in [
            ("{ linear = { rows = 0, inputs = 8, outputs = 8 } }", ["layer `body`, operator 1", "`rows` is 0"]),
            ("{ linear = { rows = 4, inputs = 1000000, outputs = 1000000 } }", ["inputs × outputs is", "68719476736"]),
            ("{ product = { batch = 1, m = 1, n = 1, k = 0 } }", ["operator 1", "`k` is 0"]),
            ("{ weights = { values = 1, tensors = 2 } }", ["`tensors` is 2", "from 1 to 1"]),
            ("{ kernel = { read = 1, written = 99999999999 } }", ["`written` is 99999999999", "from 0 to"]),
            ("{ liner = { rows = 0 } }", ["liner", "unknown variant"]),
            ("{ linear = { rows = 4, inputs = 8, outputs = 8, kept = 1 } }", ["unknown field `kept`", "input_kept"]),
        ] {
            let refused = model(body, HEAD).expect_err(body);
            assert!(parts.iter().all(|part| refused.contains(part)), "{refused}");
        }
        let tied = model(BODY, &HEAD.replace("tied = 800", "tied = 801")).expect_err("more than there is");
        assert!(tied.contains("layer `head`: `tied` is 801"), "{tied}");
    }

    #[test]
    fn the_model_of_the_page_is_one() {
        let page = include_str!("../../../docs/models.md");
        let section = page.split("## Traced models").nth(1).expect("a section");
        let lines =
            section.lines().skip_while(|line| !line.starts_with("    ")).take_while(|line| !line.starts_with('|'));
        let text: Vec<&str> = lines.map(str::trim).collect();
        let spec: ModelSpec = toml::from_str(&text.join("\n")).expect("a model as written");
        let graph = Model::try_from(spec).expect("a model").graph();
        assert_eq!((graph.parameters(), graph.len(), graph.shared_parameters()), (800 + 3 * 72, 5, 800));
    }

    /// A block of GPT-2 as PyTorch computes it costs what the family says.
    #[test]
    fn a_traced_block_has_the_products_of_the_family() {
        let gpt = find("gpt2").expect("in the catalog").model.graph();
        let block = gpt.layers().nth(1).expect("a block");
        let traced = "{ layer_norm = { rows = 1024, width = 768 } }, \
            { linear = { rows = 1024, inputs = 768, outputs = 2304, bias = true } }, \
            { attention = { sequences = 1, heads = 12, kv_heads = 12, queries = 1024, keys = 1024, head_width = 64, value_width = 64, causal = true } }, \
            { linear = { rows = 1024, inputs = 768, outputs = 768, bias = true } }, { add = { rows = 1024, width = 768 } }, \
            { layer_norm = { rows = 1024, width = 768 } }, \
            { linear = { rows = 1024, inputs = 768, outputs = 3072, bias = true } }, { gelu = { rows = 1024, width = 3072 } }, \
            { linear = { rows = 1024, inputs = 3072, outputs = 768, bias = true } }, { add = { rows = 1024, width = 768 } }";
        let graph = model(traced, HEAD).expect("a model").graph();
        let own = graph.layers().nth(1).expect("a block");
        assert_eq!(own.parameters(Sharing::WHOLE), block.parameters(Sharing::WHOLE));
        assert_eq!(own.parameter_tensors(), block.parameter_tensors());
        assert_eq!(own.context_elements, block.context_elements);
        for pass in [Pass::Forward, Pass::Backward] {
            assert_eq!(own.flops(pass), block.flops(pass));
        }
    }

    #[test]
    fn a_specification_is_written_back_as_it_was() {
        let own = model(BODY, HEAD).expect("a model");
        assert_eq!(own.family(), Family::Traced);
        assert_eq!(Model::try_from(own.spec()), Ok(own));
    }
}
