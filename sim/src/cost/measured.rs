//! Operators on a measured machine: what calibration timed, carried over to other shapes.

use crate::machine::MachineError;
use trainyard_hardware_profiles::{MeasuredMachine, OperatorClass, OperatorSample};
use trainyard_plan::operators::{Layer, OperatorKind, Pass, Sharing};
use trainyard_plan::{Held, Optimizer};
use trainyard_units::Seconds;

/// A measured machine with this many ranks at work at the same time.
#[derive(Clone, Copy)]
pub(crate) struct MeasuredPricing<'a> {
    pub(crate) machine: &'a MeasuredMachine,
    pub(crate) ranks: u32,
}

impl MeasuredPricing<'_> {
    /// One pass of a layer over `samples` samples.
    pub(crate) fn layer(&self, layer: &Layer, pass: Pass, samples: u64) -> Result<Seconds, MachineError> {
        let mut total = Seconds::ZERO;
        for operator in &layer.operators {
            total += self.operator(operator.on_rank(samples, Sharing::WHOLE), pass)?;
        }
        Ok(total)
    }

    fn operator(&self, operator: OperatorKind, pass: Pass) -> Result<Seconds, MachineError> {
        let (class, shape) = class_and_shape(operator).ok_or_else(|| self.unmeasured(operator.name()))?;
        self.price(class, &shape, |sample| match pass {
            Pass::Forward => sample.forward_s,
            Pass::Backward => sample.backward_s,
        })
    }

    /// Adding one micro-batch's gradients to the sum.
    pub(crate) fn accumulate(&self, held: Held) -> Result<Seconds, MachineError> {
        self.price(OperatorClass::Accumulate, &[held.parameters, u64::from(held.tensors)], |sample| sample.forward_s)
    }

    /// Copying the first micro-batch's gradients into one flat buffer.
    pub(crate) fn flatten(&self, held: Held) -> Result<Seconds, MachineError> {
        self.price(OperatorClass::Flatten, &[held.parameters, u64::from(held.tensors)], |sample| sample.forward_s)
    }

    /// The optimizer's update.
    pub(crate) fn update(&self, optimizer: Optimizer, held: Held) -> Result<Seconds, MachineError> {
        let class = match optimizer {
            Optimizer::AdamW => OperatorClass::AdamW,
            Optimizer::Sgd => OperatorClass::Sgd,
            other => unreachable!("a measured machine admits no plan with {other}"),
        };
        self.price(class, &[held.parameters, u64::from(held.tensors)], |sample| sample.forward_s)
    }

    /// The time of an operator at a shape that was probably not measured: seconds over work, in logarithms, from all
    /// measured shapes, each weighted by the inverse fourth power of its distance in the logarithms of dimensions
    /// (Shepard, "A two-dimensional interpolation function for irregularly-spaced data", 1968). At a measured shape
    /// it is the measured time.
    fn price(
        &self,
        class: OperatorClass,
        shape: &[u64],
        time: impl Fn(&OperatorSample) -> f64,
    ) -> Result<Seconds, MachineError> {
        let (mut weights, mut sum) = (0.0, 0.0);
        for sample in self.machine.operators.iter().filter(|s| s.operator == class && s.ranks == self.ranks) {
            let squared_distance: f64 =
                sample.shape.iter().zip(shape).map(|(a, b)| (*a as f64 / *b as f64).ln().powi(2)).sum();
            let weight = (squared_distance + NEAREST).powi(-2);
            weights += weight;
            sum += weight * (time(sample).max(SHORTEST) / work(class, &sample.shape)).ln();
        }
        if weights > 0.0 {
            return Ok(Seconds((sum / weights).exp() * work(class, shape)));
        }
        Err(self.unmeasured(&format!("{class:?}")))
    }

    fn unmeasured(&self, operator: &str) -> MachineError {
        MachineError::Unmeasured { machine: self.machine.name.clone(), operator: operator.into(), ranks: self.ranks }
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
        (OperatorClass::Attention, [samples, heads, sequence, _]) => product(&[*samples, *heads, *sequence, *sequence]),
        (OperatorClass::Embedding, [rows, _, _, width]) => product(&[*rows, *width]),
        (
            OperatorClass::AdamW | OperatorClass::Sgd | OperatorClass::Accumulate | OperatorClass::Flatten,
            [parameters, _],
        ) => *parameters as f64,
        _ => product(shape),
    }
}

/// What calibration times an operator as; nothing for operators that the executor does not have.
fn class_and_shape(operator: OperatorKind) -> Option<(OperatorClass, Vec<u64>)> {
    Some(match operator {
        OperatorKind::Linear { rows, inputs, outputs, .. } => (OperatorClass::Linear, vec![rows, inputs, outputs]),
        OperatorKind::Attention(attention) => (
            OperatorClass::Attention,
            vec![attention.samples, attention.heads, attention.queries, attention.head_width],
        ),
        OperatorKind::LayerNorm { rows, width } => (OperatorClass::LayerNorm, vec![rows, width]),
        OperatorKind::Activation { rows, width } => (OperatorClass::Activation, vec![rows, width]),
        OperatorKind::Residual { rows, width, dropout: true } => (OperatorClass::Residual, vec![rows, width]),
        OperatorKind::Embedding { rows, vocab, positions, width, .. } => {
            (OperatorClass::Embedding, vec![rows, vocab, positions, width])
        }
        OperatorKind::TiedHead { rows, width, vocab, .. } => (OperatorClass::TiedHead, vec![rows, width, vocab]),
        OperatorKind::CrossEntropy { rows, vocab } => (OperatorClass::CrossEntropy, vec![rows, vocab]),
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

    #[test]
    fn a_measured_shape_has_its_measured_time_and_others_lie_between() {
        let sample = |rows, forward_s| OperatorSample {
            operator: OperatorClass::LayerNorm,
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
            devices: 1,
            memory: trainyard_units::Bytes(1),
            measured: "2026-11-21".into(),
            framework: "test".into(),
            copy_bandwidth: trainyard_units::BytesPerSecond(1.0),
            operators: vec![sample(64, 1e-3), sample(256, 3e-3)],
            collectives: Vec::new(),
        };
        let pricing = MeasuredPricing { machine: &machine, ranks: 1 };
        let time =
            |rows| pricing.operator(OperatorKind::LayerNorm { rows, width: 64 }, Pass::Forward).expect("measured").0;
        assert!((time(64) / 1e-3 - 1.0).abs() < 1e-3 && (time(256) / 3e-3 - 1.0).abs() < 1e-3);
        assert!(time(64) < time(128) && time(128) < time(256) && time(256) < time(512));
        let elsewhere = MeasuredPricing { machine: &machine, ranks: 2 };
        assert!(elsewhere.operator(OperatorKind::LayerNorm { rows: 64, width: 64 }, Pass::Forward).is_err());
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
