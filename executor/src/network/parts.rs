//! What layers of several families are made of: products and normalisations that know where their parameters are.

use super::parameter::ExpertIndex;
use super::{Initial, Parameter, Pass, Role, Weights, operators};
use crate::kernels;
use burn::tensor::module::batch_norm;
use burn::tensor::{FloatDType, Tensor};

/// Standard deviation of first values, as transformers' `initializer_range`.
pub(super) const DEVIATION: f64 = 0.02;

/// The dimension along which the ranks of a tensor group split a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Every rank has all of it.
    Whole,
    /// Each has some of the outputs.
    Columns,
    /// Each has some of the inputs, so that results are parts of a sum.
    Rows,
}

/// Numbers the parameters of a layer as they are declared.
pub(super) struct Slots {
    prefix: String,
    parameters: Vec<Parameter>,
    /// The expert whose parameters are being declared.
    expert: Option<ExpertIndex>,
}

impl Slots {
    /// Makes a list of parameters whose names begin with `prefix`.
    pub(super) fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), parameters: Vec::new(), expert: None }
    }

    /// Goes on behind parameters that were declared before.
    pub(super) fn behind(parameters: Vec<Parameter>, prefix: impl Into<String>) -> Self {
        Self { parameters, ..Self::new(prefix) }
    }

    /// Declares the parameters of one of so many experts.
    pub(super) fn of_expert<T>(&mut self, (number, count): (usize, usize), declare: impl FnOnce(&mut Self) -> T) -> T {
        self.expert = Some(ExpertIndex { number, count });
        let declared = declare(self);
        self.expert = None;
        declared
    }

    /// Declares one, and says where it is.
    pub(super) fn add(&mut self, parameter: Parameter) -> usize {
        self.parameters.push(Parameter { expert: self.expert, ..parameter });
        self.parameters.len() - 1
    }

    /// Returns `name` behind the prefix.
    pub(super) fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Declares a matrix product with a bias that starts at zero.
    pub(super) fn linear(&mut self, name: &str, inputs: usize, outputs: usize, initial: Initial, cut: Cut) -> Linear {
        let product = self.product(name, inputs, outputs, initial, cut);
        let bias = Parameter::new(self.name(&format!("{name}.bias")), &[outputs], Initial::Zeros);
        let bias = self.add(if cut == Cut::Columns { bias.split(0, 1) } else { bias });
        Linear { bias: Some(bias), ..product }
    }

    /// Declares a matrix product without a bias. Files hold its weight transposed.
    pub(super) fn product(&mut self, name: &str, inputs: usize, outputs: usize, initial: Initial, cut: Cut) -> Linear {
        let weight = Parameter::new(self.name(&format!("{name}.weight")), &[inputs, outputs], initial).transposed();
        let weight = self.add(match cut {
            Cut::Whole => weight,
            Cut::Columns => weight.split(1, 1),
            Cut::Rows => weight.split(0, 1),
        });
        Linear { weight, bias: None }
    }

    /// Declares a matrix product whose weight and bias start as those of PyTorch's `Linear`: uniformly distributed,
    /// within a bound that depends on the inputs.
    pub(super) fn linear_of_pytorch(&mut self, name: &str, inputs: usize, outputs: usize) -> Linear {
        let initial = Initial::Uniform(1.0 / (inputs as f64).sqrt());
        let product = self.product(name, inputs, outputs, initial, Cut::Whole);
        let bias = self.add(Parameter::new(self.name(&format!("{name}.bias")), &[outputs], initial));
        Linear { bias: Some(bias), ..product }
    }

    /// Declares the scale and shift of a normalisation over samples and pixels, and the running statistics of its
    /// channels.
    pub(super) fn batch_norm(&mut self, name: &str, channels: usize) -> BatchNorm {
        let mut add = |name_of: &str, initial, role| {
            let parameter = Parameter::new(self.name(&format!("{name}.{name_of}")), &[channels], initial);
            self.add(Parameter { role, ..parameter.single() })
        };
        BatchNorm {
            scale: add("weight", Initial::Ones, Role::Trained),
            shift: add("bias", Initial::Zeros, Role::Trained),
            mean: add("running_mean", Initial::Zeros, Role::Statistic),
            variance: add("running_var", Initial::Ones, Role::Statistic),
        }
    }

    /// Declares the scale and shift of a normalisation by mean and variance.
    pub(super) fn layer_norm(&mut self, name: &str, width: usize, epsilon: f64) -> LayerNorm {
        let scale = Parameter::new(self.name(&format!("{name}.weight")), &[width], Initial::Ones).single();
        let shift = Parameter::new(self.name(&format!("{name}.bias")), &[width], Initial::Zeros).single();
        LayerNorm { scale: self.add(scale), shift: self.add(shift), epsilon }
    }

    /// Declares the scale of a normalisation by the root mean square.
    pub(super) fn rms_norm(&mut self, name: &str, width: usize, epsilon: f64) -> RmsNorm {
        let scale = Parameter::new(self.name(&format!("{name}.weight")), &[width], Initial::Ones).single();
        RmsNorm { scale: self.add(scale), width, epsilon }
    }

    /// Declares the scale of a normalisation by the root mean square, less one.
    pub(super) fn centred_rms_norm(&mut self, name: &str, width: usize, epsilon: f64) -> CentredRmsNorm {
        let scale = Parameter::new(self.name(&format!("{name}.weight")), &[width], Initial::Zeros).single();
        CentredRmsNorm { scale: self.add(scale), epsilon }
    }

    /// Returns the declared parameters, by slot.
    pub(super) fn parameters(self) -> Vec<Parameter> {
        self.parameters
    }
}

/// A product with a matrix, and a bias if it has one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linear {
    weight: usize,
    bias: Option<usize>,
}

impl Linear {
    /// Maps (rows, inputs) → (rows, outputs), of which this rank may have a part.
    pub(super) fn forward(self, weights: &Weights, rows: Tensor<2>) -> Tensor<2> {
        weights.linear(rows, self.weight, self.bias)
    }

    /// Computes the same for a product that ranks split by rows: their partial sums are added up, and the bias is added
    /// once.
    pub(super) fn summed(self, pass: &Pass, weights: &Weights, rows: Tensor<2>, samples: usize) -> Tensor<2> {
        if pass.tensor.size() == 1 {
            return self.forward(weights, rows);
        }
        let sum = pass.tensor.leave(weights.linear(rows, self.weight, None), samples);
        match self.bias {
            Some(bias) => sum + weights.get::<1>(bias).unsqueeze(),
            None => sum,
        }
    }
}

/// Computes the sum of two products that ranks split by rows, whose partial sums are added up together.
pub(super) fn summed_together(
    pass: &Pass,
    weights: &Weights,
    parts: [(Linear, Tensor<2>); 2],
    samples: usize,
) -> Tensor<2> {
    if pass.tensor.size() == 1 {
        let [one, other] = parts.map(|(product, rows)| product.forward(weights, rows));
        return one + other;
    }
    let biases = parts.each_ref().map(|(product, _)| product.bias);
    let [one, other] = parts.map(|(product, rows)| weights.linear(rows, product.weight, None));
    let sum = pass.tensor.leave(one + other, samples);
    biases.into_iter().flatten().fold(sum, |sum, bias| sum + weights.get::<1>(bias).unsqueeze())
}

/// Normalisation by mean and variance.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerNorm {
    scale: usize,
    shift: usize,
    epsilon: f64,
}

impl LayerNorm {
    /// Returns the slots of its parameters.
    pub(super) fn slots(self) -> [usize; 2] {
        [self.scale, self.shift]
    }

    /// (rows, width) → the same.
    pub(super) fn forward(self, weights: &Weights, rows: Tensor<2>) -> Tensor<2> {
        operators::layer_norm(rows, weights.get(self.scale), weights.get(self.shift), self.epsilon)
    }
}

/// Normalisation by the root mean square.
#[derive(Clone, Copy, Debug)]
pub(super) struct RmsNorm {
    scale: usize,
    width: usize,
    epsilon: f64,
}

impl RmsNorm {
    /// (rows, width) → the same; computed in single precision.
    ///
    /// Source: Zhang and Sennrich, arXiv:1910.07467, equation 4.
    pub(super) fn forward(self, weights: &Weights, rows: Tensor<2>) -> Tensor<2> {
        kernels::rms_norm(rows, weights.get(self.scale), self.epsilon)
    }

    /// The same for each head, all with the same scale: (tokens, own heads × width) → the same.
    pub(super) fn by_head(self, pass: &Pass, weights: &Weights, rows: Tensor<2>) -> Tensor<2> {
        let [tokens, features] = rows.dims();
        let heads = rows.reshape([tokens * features / self.width, self.width]);
        let scale = pass.tensor.applied_to_parts(weights.get(self.scale));
        kernels::rms_norm(heads, scale, self.epsilon).reshape([tokens, features])
    }
}

/// Normalisation by the root mean square with a scale of one more than its parameter, so that weight decay draws it to one.
///
/// Source: `Gemma2RMSNorm` of transformers.
#[derive(Clone, Copy, Debug)]
pub(super) struct CentredRmsNorm {
    scale: usize,
    epsilon: f64,
}

impl CentredRmsNorm {
    /// (rows, width) → the same; computed in single precision.
    pub(super) fn forward(self, weights: &Weights, rows: Tensor<2>) -> Tensor<2> {
        kernels::rms_norm(rows, weights.get::<1>(self.scale) + 1.0, self.epsilon)
    }
}

/// Epsilon of batch normalisation: the term added to the variances of channels before the square root.
const CHANNEL_EPSILON: f64 = 1e-5;

/// The share of a batch in running statistics.
const MOMENTUM: f64 = 0.1;

/// Normalisation of each channel by its mean and variance over samples and pixels, those of the micro-batch in training
/// and running ones otherwise.
///
/// Source: Ioffe and Szegedy, arXiv:1502.03167, algorithms 1 and 2; running statistics as in PyTorch: moving averages,
/// of the variance without bias.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchNorm {
    scale: usize,
    shift: usize,
    mean: usize,
    variance: usize,
}

impl BatchNorm {
    /// (samples, channels, height, width) → the same; computed in single precision.
    pub(super) fn forward(self, pass: &Pass, weights: &Weights, images: Tensor<4>) -> Tensor<4> {
        let [scale, shift, mean, variance] =
            [self.scale, self.shift, self.mean, self.variance].map(|slot| operators::single(weights.get::<1>(slot)));
        if !pass.is_training() {
            let dtype = FloatDType::from(images.dtype());
            let images = operators::single(images);
            return batch_norm(images, scale, shift, mean, variance, CHANNEL_EPSILON).cast(dtype);
        }
        let [samples, _, height, width] = images.dims();
        let count = (samples * height * width) as f64;
        let result = kernels::batch_norm(images, scale, shift, CHANNEL_EPSILON);
        let unbiased = result.variance * (count / (count - 1.0).max(1.0));
        let moved = |running: Tensor<1>, new: Tensor<1>| running * (1.0 - MOMENTUM) + new * MOMENTUM;
        let plain = |values: Tensor<1>| if values.is_autodiff() { values.inner() } else { values };
        weights.note(self.mean, moved(plain(mean), plain(result.mean)));
        weights.note(self.variance, moved(plain(variance), plain(unbiased)));
        result.images
    }
}

/// Computes x · Φ(x), with the distribution function itself (Hendrycks and Gimpel, arXiv:1606.08415, section 2).
pub(super) fn gelu(rows: Tensor<2>) -> Tensor<2> {
    kernels::gelu(rows)
}

/// Computes gelu(gate) · rows, with GELU's approximation by the hyperbolic tangent (Shazeer, arXiv:2002.05202, equation 5).
pub(super) fn gelu_gated(gate: Tensor<2>, rows: Tensor<2>) -> Tensor<2> {
    kernels::geglu_tanh(gate, rows)
}

/// Computes cap · tanh(rows / cap).
pub(super) fn soft_cap(rows: Tensor<2>, cap: f64) -> Tensor<2> {
    kernels::soft_cap(rows, cap)
}

/// Computes silu(gate) · rows (Shazeer, arXiv:2002.05202, equation 6).
pub(super) fn silu_gated(gate: Tensor<2>, rows: Tensor<2>) -> Tensor<2> {
    kernels::swiglu(gate, rows)
}
