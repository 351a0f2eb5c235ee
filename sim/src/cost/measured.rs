//! Operators on a measured machine: what calibration timed, carried over to other shapes.

use crate::machine::MachineError;
use trainyard_hardware_profiles::{CorrectedPhase, MeasuredMachine, NumberFormat, OperatorClass, OperatorSample};
use trainyard_plan::operators::{Image, Layer, Mask, OperatorKind, Pass, Pool, Sharing};
use trainyard_plan::{Held, Optimizer, Precision};
use trainyard_units::{Bytes, Seconds};

/// A measured machine with this many ranks at work at the same time.
#[derive(Clone, Copy)]
pub(crate) struct MeasuredPricing<'a> {
    pub(crate) machine: &'a MeasuredMachine,
    pub(crate) ranks: u32,
    pub(crate) precision: Precision,
}

impl MeasuredPricing<'_> {
    /// One pass of a layer over `samples` samples on one of the ranks that share it.
    pub(crate) fn layer(
        &self,
        layer: &Layer,
        pass: Pass,
        samples: u64,
        sharing: Sharing,
    ) -> Result<Seconds, MachineError> {
        let mut total = Seconds::ZERO;
        for operator in &layer.operators {
            total += self.operator(operator.on_rank(samples, sharing), pass)?;
        }
        let phase = match pass {
            Pass::Forward => CorrectedPhase::Forward,
            Pass::Backward => CorrectedPhase::Backward,
        };
        Ok(total * self.machine.correction(phase))
    }

    fn operator(&self, operator: OperatorKind, pass: Pass) -> Result<Seconds, MachineError> {
        let (class, shape) = class_and_shape(operator).ok_or_else(|| self.unmeasured(operator.name()))?;
        self.price(class, format_of(self.precision), &shape, |sample| match pass {
            Pass::Forward => sample.forward_s,
            Pass::Backward => sample.backward_s,
        })
    }

    /// Adding one micro-batch's gradients to the sum.
    pub(crate) fn accumulate(&self, held: Held) -> Result<Seconds, MachineError> {
        Ok(self.over(OperatorClass::Accumulate, held)? * self.machine.correction(CorrectedPhase::Backward))
    }

    /// Copying the first micro-batch's gradients into one flat buffer.
    pub(crate) fn flatten(&self, held: Held) -> Result<Seconds, MachineError> {
        Ok(self.over(OperatorClass::Flatten, held)? * self.machine.correction(CorrectedPhase::Backward))
    }

    /// The optimizer's update, and the copy in the format of compute that follows it where there is one.
    pub(crate) fn update(&self, optimizer: Optimizer, held: Held) -> Result<Seconds, MachineError> {
        let class = match optimizer {
            Optimizer::AdamW | Optimizer::Adam => OperatorClass::AdamW,
            Optimizer::Sgd => OperatorClass::Sgd,
            Optimizer::Momentum => OperatorClass::Momentum,
            Optimizer::Lars => OperatorClass::Lars,
            Optimizer::Lamb => OperatorClass::Lamb,
            Optimizer::RmsProp => return Err(self.unmeasured(&optimizer.to_string())),
        };
        let format = format_of(self.precision);
        let rounding = match format {
            NumberFormat::Fp32 => Seconds::ZERO,
            NumberFormat::Fp16 | NumberFormat::Bf16 => {
                let shape = [held.parameters, u64::from(held.tensors)];
                self.price(OperatorClass::Rounding, format, &shape, |sample| sample.forward_s)?
            }
        };
        Ok((self.over(class, held)? + rounding) * self.machine.correction(CorrectedPhase::Optimizer))
    }

    /// Bytes copied from one place of main memory to another.
    pub(crate) fn copy(&self, bytes: Bytes) -> Seconds {
        bytes / self.machine.copy_bandwidth * self.machine.correction(CorrectedPhase::Communication)
    }

    /// Something that is done once over parameters or gradients, in single precision.
    fn over(&self, class: OperatorClass, held: Held) -> Result<Seconds, MachineError> {
        let shape = [held.parameters, u64::from(held.tensors)];
        self.price(class, NumberFormat::Fp32, &shape, |sample| sample.forward_s)
    }

    /// The time of an operator at a shape that was probably not measured: seconds over work, in logarithms, from all
    /// measured shapes, each weighted by the inverse fourth power of its distance in the logarithms of dimensions
    /// (Shepard, "A two-dimensional interpolation function for irregularly-spaced data", 1968). At a measured shape
    /// it is the measured time. Where so many ranks were not measured, it is the time among the next larger number.
    fn price(
        &self,
        class: OperatorClass,
        format: NumberFormat,
        shape: &[u64],
        time: impl Fn(&OperatorSample) -> f64,
    ) -> Result<Seconds, MachineError> {
        if shape.contains(&0) {
            return Ok(Seconds::ZERO);
        }
        let of_class = || self.machine.operators.iter().filter(|s| s.operator == class && s.format == format);
        let ranks = of_class().map(|sample| sample.ranks).filter(|ranks| *ranks >= self.ranks).min();
        let (mut weights, mut sum) = (0.0, 0.0);
        for sample in of_class().filter(|sample| Some(sample.ranks) == ranks) {
            let squared_distance: f64 =
                sample.shape.iter().zip(shape).map(|(a, b)| (*a as f64 / *b as f64).ln().powi(2)).sum();
            let weight = (squared_distance + NEAREST).powi(-2);
            weights += weight;
            sum += weight * (time(sample).max(SHORTEST) / work(class, &sample.shape)).ln();
        }
        if weights > 0.0 {
            return Ok(Seconds((sum / weights).exp() * work(class, shape)));
        }
        let in_format = if format == NumberFormat::Fp32 { String::new() } else { format!(" in {}", self.precision) };
        Err(self.unmeasured(&format!("{class:?}{in_format}")))
    }

    fn unmeasured(&self, operator: &str) -> MachineError {
        MachineError::Unmeasured { machine: self.machine.name.clone(), operator: operator.into(), ranks: self.ranks }
    }
}

/// Whether operators of a machine were timed in the number format in which layers of this precision compute.
pub(crate) fn knows(machine: &MeasuredMachine, precision: Precision) -> bool {
    let format = format_of(precision);
    format == NumberFormat::Fp32 || machine.operators.iter().any(|sample| sample.format == format)
}

/// The format in which layers compute.
fn format_of(precision: Precision) -> NumberFormat {
    match precision {
        Precision::Fp32 | Precision::Tf32 => NumberFormat::Fp32,
        Precision::Fp16Mixed => NumberFormat::Fp16,
        Precision::Bf16Mixed => NumberFormat::Bf16,
    }
}

/// Keeps the weight of a shape that was measured finite.
const NEAREST: f64 = 1e-6;

/// The shortest time that a clock tells apart.
const SHORTEST: f64 = 1e-9;

/// What makes an operator's time grow: arithmetic for products, elements for the rest.
fn work(class: OperatorClass, shape: &[u64]) -> f64 {
    let product = |dimensions: &[u64]| dimensions.iter().map(|size| *size as f64).product::<f64>();
    match (class, shape) {
        (OperatorClass::Attention | OperatorClass::FullAttention, [samples, heads, sequence, _]) => {
            product(&[*samples, *heads, *sequence, *sequence])
        }
        (OperatorClass::Embedding, [rows, _, _, width]) => product(&[*rows, *width]),
        (OperatorClass::Convolution, [samples, pixels, inputs, outputs, side, _]) => {
            product(&[*samples, *pixels, *inputs, *outputs, *side, *side])
        }
        (class, [parameters, _]) if class.is_over_parameters() => *parameters as f64,
        _ => product(shape),
    }
}

/// What calibration times an operator as; nothing for operators that the executor does not have.
fn class_and_shape(operator: OperatorKind) -> Option<(OperatorClass, Vec<u64>)> {
    Some(match operator {
        OperatorKind::Linear { rows, inputs, outputs, .. } => (OperatorClass::Linear, vec![rows, inputs, outputs]),
        OperatorKind::Attention(attention) => {
            let class = match attention.mask {
                Mask::Full => OperatorClass::FullAttention,
                Mask::Causal | Mask::Window(_) => OperatorClass::Attention,
            };
            (class, vec![attention.samples, attention.heads, attention.queries, attention.head_width])
        }
        OperatorKind::LayerNorm { rows, width } => (OperatorClass::LayerNorm, vec![rows, width]),
        OperatorKind::RmsNorm { rows, width } => (OperatorClass::RmsNorm, vec![rows, width]),
        OperatorKind::Activation { rows, width } => (OperatorClass::Activation, vec![rows, width]),
        OperatorKind::Relu { rows, width } => (OperatorClass::Relu, vec![rows, width]),
        OperatorKind::GatedActivation { rows, width } => (OperatorClass::GatedActivation, vec![rows, width]),
        OperatorKind::Rotary { rows, width } => (OperatorClass::Rotary, vec![rows, width]),
        OperatorKind::Residual { rows, width, .. } => (OperatorClass::Residual, vec![rows, width]),
        OperatorKind::Embedding { rows, vocab, positions, width, .. } => {
            // Without learned positions there is nothing to add: as if there were one.
            (OperatorClass::Embedding, vec![rows, vocab, positions.max(1), width])
        }
        OperatorKind::ClassToken { rows, width, .. } => (OperatorClass::ClassToken, vec![rows, width]),
        OperatorKind::TiedHead { rows, width, vocab, .. } => (OperatorClass::TiedHead, vec![rows, width, vocab]),
        OperatorKind::CrossEntropy { rows, vocab } => (OperatorClass::CrossEntropy, vec![rows, vocab]),
        OperatorKind::Image(image) => return class_and_shape_of_image(image),
        _ => return None,
    })
}

fn class_and_shape_of_image(image: Image) -> Option<(OperatorClass, Vec<u64>)> {
    Some(match image {
        Image::Convolution(convolution) => {
            let [depth, height, width] = convolution.kernel;
            let plain = convolution.groups == 1 && !convolution.transposed && depth == 1 && height == width;
            if !plain {
                return None;
            }
            let pixels = convolution.output.iter().product();
            let stride = convolution.input[1].div_ceil(convolution.output[1].max(1)).max(1);
            let shape = vec![convolution.samples, pixels, convolution.inputs, convolution.outputs, height, stride];
            (OperatorClass::Convolution, shape)
        }
        Image::Norm { samples, pixels, channels, frozen: false } => {
            (OperatorClass::BatchNorm, vec![samples, pixels, channels])
        }
        Image::Pool { samples, windows, channels, kind: Pool::Max, .. } => {
            (OperatorClass::MaxPool, vec![samples, windows, channels])
        }
        Image::Pool { samples, pixels, channels, kind: Pool::Mean, .. } => {
            (OperatorClass::MeanPool, vec![samples, pixels, channels])
        }
        _ => return None,
    })
}

/// A straight line between the two nearest of some points in order of x; beyond the ends, the end's ratio of y to x
/// upward, and the end's y downward. Nothing without points.
pub(crate) fn interpolate(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    if x <= first.0 {
        return Some(first.1);
    }
    if x >= last.0 {
        return Some(last.1 * x / last.0);
    }
    let above = points.iter().position(|point| point.0 >= x)?;
    let ((x0, y0), (x1, y1)) = (points[above - 1], points[above]);
    let share = if x1 > x0 { (x - x0) / (x1 - x0) } else { 1.0 };
    Some(y0 + share * (y1 - y0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_plan::operators::Convolution;

    #[test]
    fn a_measured_shape_has_its_measured_time_and_others_lie_between() {
        let sample = |rows, forward_s| OperatorSample {
            operator: OperatorClass::LayerNorm,
            format: NumberFormat::Fp32,
            ranks: 1,
            threads: 1,
            shape: vec![rows, 64],
            forward_s,
            backward_s: 0.0,
            spread: 0.0,
        };
        let machine = MeasuredMachine {
            schema: trainyard_hardware_profiles::PROFILE_SCHEMA.into(),
            name: "local".into(),
            processor: "test".into(),
            device: trainyard_hardware_profiles::DeviceKind::Cpu,
            devices: 1,
            memory: trainyard_units::Bytes(1),
            measured: "2026-11-21".into(),
            framework: "test".into(),
            copy_bandwidth: trainyard_units::BytesPerSecond(1.0),
            overlap_slowdown: None,
            corrections: Vec::new(),
            operators: vec![sample(64, 1e-3), sample(256, 3e-3)],
            collectives: Vec::new(),
        };
        let pricing = MeasuredPricing { machine: &machine, ranks: 1, precision: Precision::Fp32 };
        let time =
            |rows| pricing.operator(OperatorKind::LayerNorm { rows, width: 64 }, Pass::Forward).expect("measured").0;
        assert!((time(64) / 1e-3 - 1.0).abs() < 1e-3 && (time(256) / 3e-3 - 1.0).abs() < 1e-3);
        assert!(time(64) < time(128) && time(128) < time(256) && time(256) < time(512));
        let elsewhere = MeasuredPricing { ranks: 2, ..pricing };
        assert!(elsewhere.operator(OperatorKind::LayerNorm { rows: 64, width: 64 }, Pass::Forward).is_err());
    }

    #[test]
    fn every_operator_of_the_families_that_run_has_a_class_and_its_shape() {
        let families =
            ["gpt2", "llama-3-8b", "mistral-7b", "bert-large", "vit-b-16", "resnet18", "resnet50", "mnist-mlp"];
        for name in families {
            let graph =
                trainyard_models::find(name).unwrap_or_else(|_| panic!("{name} is in the catalog")).model.graph();
            for operator in graph.layers().flat_map(|layer| &layer.operators) {
                for sharing in [Sharing::WHOLE, Sharing { sequence: true, ..Sharing::tensor(2) }] {
                    let kind = operator.on_rank(2, sharing);
                    let (class, shape) = class_and_shape(kind).unwrap_or_else(|| panic!("{name}: {kind:?}"));
                    assert_eq!(shape.len(), class.dimensions(), "{kind:?}");
                    assert!(work(class, &shape) > 0.0 && !shape.contains(&0), "{kind:?}");
                }
            }
        }
    }

    #[test]
    fn a_convolution_is_known_by_its_output_and_stride() {
        let convolution = Convolution {
            samples: 2,
            input: [1, 56, 56],
            output: [1, 28, 28],
            inputs: 64,
            outputs: 128,
            kernel: [1, 3, 3],
            groups: 1,
            bias: false,
            transposed: false,
        };
        let of = |convolution| class_and_shape(OperatorKind::Image(Image::Convolution(convolution)));
        assert_eq!(of(convolution), Some((OperatorClass::Convolution, vec![2, 784, 64, 128, 3, 2])));
        assert_eq!(of(Convolution { groups: 32, ..convolution }), None);
        assert_eq!(of(Convolution { transposed: true, ..convolution }), None);
    }

    #[test]
    fn between_measurements_is_a_line_and_beyond_them_a_ratio() {
        let points = [(2.0, 1.0), (4.0, 3.0)];
        assert_eq!(interpolate(&points, 1.0), Some(1.0));
        assert_eq!(interpolate(&points, 3.0), Some(2.0));
        assert_eq!(interpolate(&points, 8.0), Some(6.0));
        assert_eq!(interpolate(&[], 8.0), None);
    }
}
