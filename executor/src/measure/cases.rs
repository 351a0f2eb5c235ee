//! The grid of operators and shapes.

use super::prepare;
use crate::device::Speed;
use trainyard_hardware_profiles::{NumberFormat, OperatorCase, OperatorClass};

/// One operator at one shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    /// The operator that is timed.
    pub(super) operator: OperatorClass,
    pub(super) format: NumberFormat,
    /// Dimensions as the class names them, but for convolutions the side of the output instead of its pixels, and for
    /// classes over parameters, blocks and hidden width of a model with them.
    pub(super) dimensions: [usize; 6],
}

/// (inputs, outputs) of linear layers, from tiny to about 1024 wide.
const LINEAR: [[usize; 2]; 12] = [
    [32, 96],
    [64, 64],
    [128, 128],
    [128, 384],
    [128, 512],
    [512, 128],
    [256, 768],
    [256, 1024],
    [1024, 256],
    [512, 512],
    [512, 2048],
    [1024, 1024],
];
const LINEAR_ROWS: [usize; 4] = [32, 256, 1024, 4096];
/// Multiply-adds of the largest linear layer that is timed: about 50 ms with its gradients on a small machine.
const LINEAR_MAX: usize = 140_000_000;

/// (samples, heads, sequence, head width)
const ATTENTION: [[usize; 4]; 13] = [
    [1, 2, 32, 16],
    [8, 4, 32, 32],
    [1, 4, 128, 32],
    [4, 4, 128, 32],
    [16, 4, 128, 32],
    [4, 4, 128, 64],
    [8, 4, 128, 16],
    [1, 8, 256, 32],
    [2, 4, 256, 64],
    [4, 2, 256, 16],
    [1, 2, 512, 64],
    [1, 3, 512, 32],
    [1, 1, 1024, 64],
];

/// (samples, heads, sequence, head width), every query of which sees every key.
const FULL_ATTENTION: [[usize; 4]; 7] = [
    [1, 2, 32, 16],
    [8, 4, 32, 32],
    [4, 4, 128, 32],
    [2, 4, 256, 64],
    [8, 3, 65, 64],
    [1, 3, 197, 64],
    [1, 1, 512, 64],
];

/// (rows, width)
const POINTWISE: [[usize; 2]; 7] =
    [[32, 32], [128, 128], [512, 128], [2048, 128], [1024, 512], [128, 1024], [512, 2048]];

/// (rows, width) of what works on whole maps or on the widest activations of a block.
const WIDE: [[usize; 2]; 6] = [[32, 64], [512, 128], [512, 512], [1024, 1024], [3136, 64], [196, 1024]];

/// (rows, width): patches with a class token before those of each of one or several images.
const CLASS_TOKEN: [[usize; 2]; 3] = [[17, 64], [65, 192], [197, 384]];

/// (samples, side of the output, input channels, output channels, side of the kernel, stride)
const CONVOLUTION: [[usize; 6]; 14] = [
    [2, 16, 3, 64, 3, 1],
    [2, 16, 3, 64, 7, 2],
    [1, 56, 3, 64, 7, 2],
    [4, 4, 3, 128, 8, 8],
    [2, 14, 3, 192, 16, 16],
    [4, 8, 64, 64, 3, 1],
    [1, 28, 64, 64, 3, 1],
    [2, 8, 64, 128, 3, 2],
    [4, 4, 128, 128, 3, 1],
    [4, 2, 256, 256, 3, 1],
    [4, 8, 64, 256, 1, 1],
    [4, 8, 256, 64, 1, 1],
    [2, 8, 64, 128, 1, 2],
    [2, 14, 256, 128, 1, 1],
];

/// (samples, pixels, channels)
const MAPS: [[usize; 3]; 5] = [[2, 16, 256], [4, 64, 64], [4, 256, 64], [1, 784, 128], [2, 3136, 64]];

/// (samples, windows, channels)
const MAX_POOL: [[usize; 3]; 3] = [[4, 64, 64], [1, 784, 64], [2, 3136, 64]];

/// (rows, vocabulary, positions, width)
const EMBEDDING: [[usize; 4]; 7] = [
    [32, 256, 32, 32],
    [512, 256, 128, 128],
    [2048, 256, 128, 128],
    [1024, 256, 256, 512],
    [1024, 8192, 256, 256],
    [512, 256, 1, 128],
    [1024, 256, 1, 512],
];

/// (rows, width, vocabulary)
const TIED_HEAD: [[usize; 3]; 6] =
    [[32, 32, 256], [512, 128, 256], [2048, 128, 256], [1024, 256, 256], [1024, 512, 256], [128, 256, 4096]];

/// (rows, vocabulary)
const CROSS_ENTROPY: [[usize; 2]; 5] = [[32, 256], [512, 256], [2048, 256], [4096, 256], [128, 4096]];

/// (blocks, hidden) of the models whose parameters stand for all.
const PARAMETERS: [[usize; 2]; 4] = [[2, 32], [4, 128], [3, 256], [2, 512]];

/// The cases timed in half precision: a few shapes that models consist of, because half precision is there to be
/// correct.
const HALF: [(OperatorClass, &[usize]); 32] = [
    (OperatorClass::Linear, &[32, 64, 64]),
    (OperatorClass::Linear, &[256, 128, 512]),
    (OperatorClass::Linear, &[256, 512, 512]),
    (OperatorClass::Attention, &[8, 4, 32, 32]),
    (OperatorClass::Attention, &[4, 4, 128, 32]),
    (OperatorClass::FullAttention, &[8, 4, 32, 32]),
    (OperatorClass::LayerNorm, &[32, 32]),
    (OperatorClass::LayerNorm, &[512, 128]),
    (OperatorClass::RmsNorm, &[32, 32]),
    (OperatorClass::RmsNorm, &[512, 128]),
    (OperatorClass::Activation, &[32, 128]),
    (OperatorClass::Activation, &[512, 512]),
    (OperatorClass::Relu, &[512, 512]),
    (OperatorClass::GatedActivation, &[512, 512]),
    (OperatorClass::Rotary, &[512, 128]),
    (OperatorClass::Residual, &[32, 32]),
    (OperatorClass::Residual, &[512, 128]),
    (OperatorClass::Dropout, &[512, 128]),
    (OperatorClass::Embedding, &[512, 256, 128, 128]),
    (OperatorClass::ClassToken, &[65, 192]),
    (OperatorClass::TiedHead, &[32, 32, 256]),
    (OperatorClass::TiedHead, &[512, 128, 256]),
    (OperatorClass::Convolution, &[4, 4, 3, 128, 8, 8]),
    (OperatorClass::Convolution, &[4, 8, 64, 64, 3, 1]),
    (OperatorClass::Convolution, &[4, 8, 64, 256, 1, 1]),
    (OperatorClass::BatchNorm, &[4, 64, 64]),
    (OperatorClass::MaxPool, &[4, 64, 64]),
    (OperatorClass::MeanPool, &[4, 64, 64]),
    (OperatorClass::CrossEntropy, &[32, 256]),
    (OperatorClass::CrossEntropy, &[512, 256]),
    (OperatorClass::Rounding, &[2, 32]),
    (OperatorClass::Rounding, &[4, 128]),
];

/// The cases timed in addition on GPUs, in every format: shapes of models that are worth a GPU, whose kernels reach
/// rates that small ones do not.
const LARGE: [(OperatorClass, &[usize]); 27] = [
    (OperatorClass::Linear, &[4096, 768, 2304]),
    (OperatorClass::Linear, &[4096, 768, 3072]),
    (OperatorClass::Linear, &[4096, 3072, 768]),
    (OperatorClass::Linear, &[16_384, 1024, 4096]),
    (OperatorClass::Linear, &[16_384, 4096, 1024]),
    (OperatorClass::Linear, &[8192, 2048, 2048]),
    (OperatorClass::Linear, &[4096, 4096, 4096]),
    (OperatorClass::Attention, &[4, 12, 1024, 64]),
    (OperatorClass::Attention, &[8, 16, 512, 64]),
    (OperatorClass::FullAttention, &[8, 12, 512, 64]),
    (OperatorClass::LayerNorm, &[4096, 768]),
    (OperatorClass::LayerNorm, &[16_384, 1024]),
    (OperatorClass::RmsNorm, &[16_384, 2048]),
    (OperatorClass::Activation, &[4096, 3072]),
    (OperatorClass::Activation, &[16_384, 4096]),
    (OperatorClass::GatedActivation, &[8192, 5504]),
    (OperatorClass::Rotary, &[8192, 2048]),
    (OperatorClass::Residual, &[4096, 768]),
    (OperatorClass::Residual, &[16_384, 1024]),
    (OperatorClass::Dropout, &[16_384, 1024]),
    (OperatorClass::Embedding, &[4096, 50_257, 1024, 768]),
    (OperatorClass::TiedHead, &[4096, 768, 50_257]),
    (OperatorClass::CrossEntropy, &[4096, 50_257]),
    (OperatorClass::Convolution, &[32, 56, 64, 64, 3, 1]),
    (OperatorClass::Convolution, &[32, 14, 1024, 256, 1, 1]),
    (OperatorClass::BatchNorm, &[32, 3136, 64]),
    (OperatorClass::Relu, &[32, 200_704]),
];

/// (blocks, hidden) of larger models, for GPUs.
const LARGE_PARAMETERS: [[usize; 2]; 2] = [[6, 768], [12, 1024]];

/// Of the shapes of an operator that processors are timed at, every this many are on other devices. A software device is
/// there to try a program without a GPU, and compiles each kernel for longer than it runs; a GPU is for larger shapes.
const SPARSE: usize = 6;

/// Returns every case that is timed on devices of this speed that compute in these formats.
pub(super) fn grid(formats: &[NumberFormat], speed: Speed) -> Vec<Case> {
    let mut cases = small();
    cases.retain(|case| formats.contains(&case.format));
    match speed {
        Speed::Software => sparse(&cases),
        Speed::Processors => cases,
        Speed::Gpu => {
            let mut cases = sparse(&cases);
            cases.extend(larger().into_iter().filter(|case| formats.contains(&case.format)));
            cases
        }
    }
}

/// Returns the first of every [`SPARSE`] cases of each operator and format.
fn sparse(cases: &[Case]) -> Vec<Case> {
    let alike = cases.chunk_by(|one, next| (one.operator, one.format) == (next.operator, next.format));
    alike.flat_map(|alike| alike.iter().step_by(SPARSE)).copied().collect()
}

fn larger() -> Vec<Case> {
    let mut cases = Vec::new();
    for format in NumberFormat::ALL {
        cases.extend(LARGE.map(|(operator, shape)| Case::new(operator, format, shape)));
        let over = OperatorClass::ALL.into_iter().filter(|class| class.is_over_parameters());
        let over = over.filter(|class| (*class == OperatorClass::Rounding) == (format != NumberFormat::Fp32));
        cases.extend(over.flat_map(|class| LARGE_PARAMETERS.map(|shape| Case::new(class, format, &shape))));
    }
    cases
}

/// Returns the cases timed on every device.
fn small() -> Vec<Case> {
    use OperatorClass::{
        Accumulate, Activation, AdamW, Attention, BatchNorm, ClassToken, Convolution, CrossEntropy, Dropout, Embedding,
        Flatten, FullAttention, GatedActivation, Lamb, Lars, LayerNorm, Linear, MaxPool, MeanPool, Momentum, Relu,
        Residual, RmsNorm, Rotary, Sgd, TiedHead,
    };
    let mut cases = Vec::new();
    let mut add = |operator, shape: &[usize]| cases.push(Case::new(operator, NumberFormat::Fp32, shape));
    for [inputs, outputs] in LINEAR {
        let rows = LINEAR_ROWS.into_iter().filter(|rows| rows * inputs * outputs <= LINEAR_MAX);
        rows.for_each(|rows| add(Linear, &[rows, inputs, outputs]));
    }
    ATTENTION.iter().for_each(|shape| add(Attention, shape));
    FULL_ATTENTION.iter().for_each(|shape| add(FullAttention, shape));
    for operator in [LayerNorm, RmsNorm, Activation, Residual, Dropout] {
        POINTWISE.iter().for_each(|shape| add(operator, shape));
    }
    for operator in [Relu, GatedActivation, Rotary] {
        WIDE.iter().for_each(|shape| add(operator, shape));
    }
    EMBEDDING.iter().for_each(|shape| add(Embedding, shape));
    CLASS_TOKEN.iter().for_each(|shape| add(ClassToken, shape));
    TIED_HEAD.iter().for_each(|shape| add(TiedHead, shape));
    CONVOLUTION.iter().for_each(|shape| add(Convolution, shape));
    MAPS.iter().for_each(|shape| add(BatchNorm, shape));
    MAX_POOL.iter().for_each(|shape| add(MaxPool, shape));
    MAPS.iter().for_each(|shape| add(MeanPool, shape));
    CROSS_ENTROPY.iter().for_each(|shape| add(CrossEntropy, shape));
    for operator in [AdamW, Sgd, Momentum, Lars, Lamb, Accumulate, Flatten] {
        PARAMETERS.iter().for_each(|shape| add(operator, shape));
    }
    for format in [NumberFormat::Fp16, NumberFormat::Bf16] {
        cases.extend(HALF.map(|(operator, shape)| Case::new(operator, format, shape)));
    }
    cases
}

impl Case {
    fn new(operator: OperatorClass, format: NumberFormat, shape: &[usize]) -> Self {
        let mut dimensions = [0; 6];
        dimensions[..shape.len()].copy_from_slice(shape);
        Self { operator, format, dimensions }
    }

    /// Returns the case that times what is wanted: exactly, or over a model with about as many parameters, up to a number,
    /// in as many tensors; `None` where an output is no square.
    pub(super) fn of(wanted: &OperatorCase, parameters_max: usize) -> Option<Self> {
        let OperatorCase { operator, format, ref shape, .. } = *wanted;
        let mut shape: Vec<usize> = shape.iter().map(|size| *size as usize).collect();
        if operator.is_over_parameters() {
            return Some(Self::new(operator, format, &prepare::model_of([shape[0].min(parameters_max), shape[1]])));
        }
        let is_square = |pixels: usize| pixels.isqrt().pow(2) == pixels;
        match operator {
            OperatorClass::Convolution => {
                let [pixels, side] = [shape[1], shape[1].isqrt()];
                shape[1] = side;
                is_square(pixels)
            }
            OperatorClass::MaxPool => is_square(shape[1]),
            OperatorClass::Embedding => shape[0].is_multiple_of(shape[2]),
            OperatorClass::ClassToken => shape[0] > 1,
            _ => true,
        }
        .then(|| Self::new(operator, format, &shape))
    }

    /// Returns the elements of input and result together, about.
    pub(super) fn elements(self) -> usize {
        let [a, b, c, d, _, stride] = self.dimensions;
        match self.operator {
            OperatorClass::Linear | OperatorClass::TiedHead => a * (b + c),
            OperatorClass::Attention | OperatorClass::FullAttention => 4 * a * b * c * d,
            OperatorClass::Embedding => a * d,
            OperatorClass::Convolution => a * b * b * (c * stride * stride + d),
            OperatorClass::BatchNorm | OperatorClass::MaxPool | OperatorClass::MeanPool => 2 * a * b * c,
            class if class.is_over_parameters() => prepare::parameters_of(self.dimensions)[0] as usize,
            _ => 2 * a * b,
        }
    }

    /// Returns the dimensions as the class names them.
    pub(super) fn shape(self) -> Vec<u64> {
        let mut sizes = self.dimensions.map(|size| size as u64);
        if self.operator.is_over_parameters() {
            let [parameters, tensors] = prepare::parameters_of(self.dimensions);
            return vec![parameters, tensors];
        }
        if self.operator == OperatorClass::Convolution {
            sizes[1] *= sizes[1];
        }
        sizes[..self.operator.dimensions()].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The most parameters.
    const MOST: usize = 1 << 25;

    #[test]
    fn what_is_wanted_is_timed_at_its_shape() {
        let wanted = |operator, shape: &[u64]| OperatorCase {
            operator,
            format: NumberFormat::Fp32,
            ranks: 1,
            shape: shape.to_vec(),
        };
        for (operator, shape) in [
            (OperatorClass::Linear, &[7, 3, 5][..]),
            (OperatorClass::Convolution, &[2, 49, 3, 8, 3, 2]),
            (OperatorClass::MaxPool, &[2, 16, 8]),
            (OperatorClass::Embedding, &[64, 100, 32, 16]),
        ] {
            let case = Case::of(&wanted(operator, shape), MOST).expect("it can be timed");
            assert_eq!(case.shape(), shape);
        }
        assert_eq!(Case::of(&wanted(OperatorClass::Convolution, &[2, 48, 3, 8, 3, 2]), MOST), None);
        for [parameters, tensors] in [[800_000, 52], [125_000_000, 148], [1000, 4]] {
            let case = Case::of(&wanted(OperatorClass::AdamW, &[parameters, tensors]), MOST);
            let found = case.expect("it can be timed").shape();
            assert!((found[1] as f64 / tensors as f64).ln().abs() < 2.0, "{found:?}");
            let ratio = found[0] as f64 / parameters.min(MOST as u64) as f64;
            assert!((0.5..2.0).contains(&ratio) || parameters < 10_000, "{found:?}");
        }
    }

    #[test]
    fn gpus_are_timed_at_more_and_nothing_twice() {
        let (few, all) = (grid(&NumberFormat::ALL, Speed::Software), grid(&NumberFormat::ALL, Speed::Gpu));
        assert_eq!(few, all[..few.len()]);
        let different: BTreeSet<_> = all.iter().map(|case| (case.operator, case.format, case.dimensions)).collect();
        assert_eq!(different.len(), all.len());
        let formats = |format| all[few.len()..].iter().filter(|case| case.format == format).count();
        assert!(NumberFormat::ALL.into_iter().all(|format| formats(format) > LARGE.len()));
        let processors = grid(&NumberFormat::ALL, Speed::Processors);
        let single: Vec<_> = processors.into_iter().filter(|case| case.format == NumberFormat::Fp32).collect();
        assert_eq!(grid(&[NumberFormat::Fp32], Speed::Processors), single);
    }

    #[test]
    fn software_devices_are_timed_at_fewer_shapes_of_every_class() {
        let (few, all) = (grid(&NumberFormat::ALL, Speed::Software), grid(&NumberFormat::ALL, Speed::Processors));
        let classes =
            |cases: &[Case]| -> BTreeSet<_> { cases.iter().map(|case| (case.operator, case.format)).collect() };
        assert_eq!(classes(&few), classes(&all));
        assert!(
            few.len() * 2 < all.len() && few.iter().all(|case| all.contains(case)),
            "{} of {}",
            few.len(),
            all.len()
        );
    }
}
