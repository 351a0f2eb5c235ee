//! Operators on a measured machine: what calibration timed, carried over to other shapes.

use super::costs::{Costs, Placed};
use super::device::{DeviceCosts, LinkCosts, Peaks, Usage};
use super::operation::Operation;
use super::timed::{class_and_shape, class_of_update, format_of, timed_parts, work_of_operator};
use super::work::{Kernels, LayerWork};
use crate::machine::{Machine, MachineError};
use crate::wiring::Wiring;
use trainyard_hardware_profiles::{
    CollectiveOperation, CorrectedPhase, DeviceKind, DevicePosition, MeasuredMachine, NumberFormat, OperatorClass,
    OperatorSample,
};
use trainyard_plan::operators::{AttentionKernel, Layer, LayerRole, Operator, OperatorKind, Pass, Sharing, Tuned};
use trainyard_plan::{
    Collective, Collectives, Content, CopyDirection, Exchange, GradientCompression, Lifetime, Method, NotExecutable,
    Optimizer, ParameterCounts, Plan, Precision, Rank, Recompute, Resident, StageId, Store, kept_elsewhere,
    not_executable,
};
use trainyard_units::{Bytes, BytesPerSecond, Invalid, Seconds};

impl DeviceCosts for MeasuredMachine {
    fn layer(
        &self,
        usage: Usage<'_>,
        layer: &Layer,
        samples: u64,
        sharing: Sharing,
    ) -> Result<LayerWork, MachineError> {
        let pricing = MeasuredPricing::new(self, usage);
        Ok(LayerWork {
            forward: Kernels::fixed(pricing.layer(layer, Pass::Forward, samples, sharing)?),
            backward: Kernels::fixed(pricing.layer(layer, Pass::Backward, samples, sharing)?),
            cores: vec![Kernels::fixed(pricing.attention_core(layer, samples, sharing)?)],
            weights_share: pricing.weights_share(layer, samples, sharing)?,
            spread: 0.0,
        })
    }

    fn accumulate(&self, usage: Usage<'_>, held: ParameterCounts) -> Result<Seconds, MachineError> {
        MeasuredPricing::new(self, usage).accumulate(held)
    }

    fn update(
        &self,
        usage: Usage<'_>,
        optimizer: Optimizer,
        held: ParameterCounts,
        _touched: u64,
    ) -> Result<Seconds, MachineError> {
        MeasuredPricing::new(self, usage).update(optimizer, held)
    }

    fn memory_rate(&self) -> f64 {
        self.copy_bandwidth.0
    }

    fn streaming(&self, bytes: f64) -> Seconds {
        Seconds(bytes / self.memory_rate())
    }

    /// Its devices are processors: their memory is the machine's.
    fn host_bandwidth(&self) -> BytesPerSecond {
        self.copy_bandwidth
    }

    fn peaks(&self, _precision: Precision) -> Option<Peaks> {
        None
    }

    fn has_units(&self, precision: Precision) -> Result<(), MachineError> {
        if knows(self, precision) {
            return Ok(());
        }
        let operator = format!("any operator in {precision}");
        Err(unmeasured(self, operator, 1))
    }

    fn admits(&self, _machine: &Machine, plan: &Plan) -> Result<(), MachineError> {
        let Some(NotExecutable { field, value, allowed }) = not_executable(plan) else { return Ok(()) };
        let rule = format!("the measured machine `{}` runs only {allowed}", self.name);
        Err(Invalid::breaks(field, value, rule).with_hint(format!("use {allowed}")).into())
    }

    fn overlap_slowdown(&self) -> Option<f64> {
        self.overlap_slowdown
    }

    /// That of the executor keeps no scores on processors, and the weights on GPUs.
    fn attention(&self) -> Option<AttentionKernel> {
        Some(if self.device.is_cpu() { AttentionKernel::Flash } else { AttentionKernel::Unfused })
    }

    /// Processors let go layer by layer. The memory of GPUs was not looked at that closely.
    fn lifetime(&self) -> Option<Lifetime> {
        (self.device == DeviceKind::Cpu).then_some(Lifetime::Layer)
    }

    /// State that the executor keeps in main memory counts, because that is the device's own; with one micro-batch,
    /// gradients come to be as activations are let go, which processors count layer by layer; and adapters share inputs.
    fn resident(&self, plan: &Plan, stage: StageId, held: Resident) -> Resident {
        let once = held.activations.as_f64() * (1.0 - share_of_copies(plan, stage));
        let held = Resident { activations: Bytes(once as u64), ..held };
        let optimizer_state = held.optimizer_state + kept_elsewhere(plan, stage, Store::Host);
        let together = plan.batch().accumulation == 1 && self.lifetime().is_none();
        let at_once = if together { held.activations.0 } else { 0 };
        Resident { optimizer_state, gradients: Bytes(held.gradients.0.saturating_sub(at_once)), ..held }
    }

    fn links(&self) -> &dyn LinkCosts {
        self
    }
}

/// Returns the part of a stage's activations that the executor keeps once and counts have twice: inputs of adapters
/// that stand beside one product, but for the first, and those behind attention, which keeps its output; unless what is
/// dropped out of them makes them others.
fn share_of_copies(plan: &Plan, stage: StageId) -> f64 {
    if plan.method() == Method::Full || plan.recompute() == Recompute::Full {
        return 0.0;
    }
    let (micro, element, sharing) = (plan.batch().micro, plan.precision().element_bytes(), plan.sharing());
    let bytes = |operator: &Operator| operator.stored(micro, sharing).bytes(element).as_f64();
    let (mut all, mut copies) = (0.0, 0.0);
    for layer in plan.stages().chunks_of(stage).flatten().map(|layer| plan.graph().layer(layer)) {
        all += layer.operators.iter().map(bytes).sum::<f64>();
        for at in 0..layer.operators.len() {
            copies += bytes(&layer.operators[at]) * copied_input(&layer.operators[..=at]);
        }
    }
    if all > 0.0 { copies / all } else { 0.0 }
}

/// Returns the part of what the last of some operators keeps that is kept already.
fn copied_input(operators: &[Operator]) -> f64 {
    let kind = |back: usize| Some(operators.get(operators.len().checked_sub(1 + back)?)?.kind);
    let Some(OperatorKind::Tuned(Tuned::Adapter { inputs, rank, dropout: false, .. })) = kind(0) else { return 0.0 };
    let is_kept = match kind(1) {
        Some(OperatorKind::Tuned(Tuned::Adapter { .. })) => true,
        Some(OperatorKind::Tuned(Tuned::Frozen { .. })) => matches!(kind(2), Some(OperatorKind::Attention(_))),
        _ => false,
    };
    if is_kept { inputs as f64 / (inputs + rank) as f64 } else { 0.0 }
}

/// Everything takes the time that was measured, whatever else goes on.
impl LinkCosts for MeasuredMachine {
    fn transfers(&self, _of: &Costs<'_>, pairs: Vec<Vec<Rank>>, bytes: Bytes) -> Result<Vec<Placed>, MachineError> {
        let time = measured(self, CollectiveOperation::Send, 2 * pairs.len() as u32, bytes)?;
        Ok(pairs.into_iter().map(|pair| (pair, Operation::taking(time))).collect())
    }

    fn transfer_parts(&self, _of: &Costs<'_>) -> u64 {
        1
    }

    fn exchanges(
        &self,
        of: &Costs<'_>,
        exchange: Exchange,
        groups: Vec<Vec<Rank>>,
    ) -> Result<Vec<Placed>, MachineError> {
        let members = groups.first().map_or(0, Vec::len) as u32;
        let bytes = carried(of.plan, exchange);
        let exchanged = measured_collective(self, exchange.collective, members, bytes)?;
        // What ranks share out lies in one buffer, out of tensors and back; so does what leaves a GPU.
        let in_place = exchange.collective == Collective::AllReduce && self.device == DeviceKind::Cpu;
        let pricing = MeasuredPricing::new(self, of.usage());
        let copied = if in_place { Seconds::ZERO } else { pricing.flatten(exchange.held)? };
        let time = exchanged + copied;
        Ok(groups.into_iter().map(|group| (group, Operation::taking(time))).collect())
    }

    fn sent(&self, of: &Costs<'_>, exchange: Exchange, _members: u64) -> (Collective, Bytes, u64) {
        let bytes = carried(of.plan, exchange);
        (exchange.collective, bytes, (bytes.0 / exchange.held.parameters.max(1)).max(1))
    }

    /// The executor's two ends send each other their copies, one after the other.
    fn reduce_shared(&self, of: &Costs<'_>, held: ParameterCounts) -> Result<Vec<Placed>, MachineError> {
        let [first, last] = of.holders_of_shared();
        let mut there = self.transfers(of, of.layout().pairs(first.0, last.0), held.gradient_bytes())?;
        let back = self.transfers(of, of.layout().pairs(last.0, first.0), held.gradient_bytes())?;
        for ((_, operation), (_, other)) in there.iter_mut().zip(back) {
            operation.phases.extend(other.phases);
        }
        Ok(there)
    }

    fn copy(&self, of: &Costs<'_>, _rank: Rank, _way: CopyDirection, _store: Store, bytes: Bytes) -> Operation {
        Operation::taking(MeasuredPricing::new(self, of.usage()).copy(bytes))
    }

    fn host_update(
        &self,
        of: &Costs<'_>,
        _rank: Rank,
        _store: Store,
        held: ParameterCounts,
    ) -> Result<Operation, MachineError> {
        Ok(Operation::taking(MeasuredPricing::new(self, of.usage()).update(of.plan.optimizer(), held)?))
    }

    fn together(
        &self,
        _wiring: &Wiring<'_>,
        collective: Collective,
        _algorithm: Collectives,
        groups: &[Vec<DevicePosition>],
        bytes: Bytes,
    ) -> Result<Seconds, MachineError> {
        let ranks = match collective {
            Collective::Transfer => 2 * groups.len() as u32,
            _ => groups.iter().map(|group| group.len() as u32).fold(0, u32::max),
        };
        measured_collective(self, collective, ranks, bytes)
    }

    /// The executor keeps what it gathered, and its ranks themselves move what they exchange.
    fn overlaps_inside_layers(&self) -> bool {
        false
    }
}

/// Bytes of what ranks bring together: weights in single precision, gradients in that of compute, or as the plan
/// compresses them.
fn carried(plan: &Plan, exchange: Exchange) -> Bytes {
    let halves = [GradientCompression::Fp16, GradientCompression::Bf16];
    let compressed = halves.contains(&plan.gradient_compression());
    exchange.held.weight_bytes(match exchange.content {
        Content::Gradients if compressed => Precision::Fp16Mixed.element_bytes(),
        Content::Gradients => plan.precision().element_bytes(),
        Content::Weights => Precision::Fp32.element_bytes(),
    })
}

/// A measured machine with this many ranks at work at the same time.
#[derive(Clone, Copy)]
pub(crate) struct MeasuredPricing<'a> {
    pub(crate) machine: &'a MeasuredMachine,
    pub(crate) ranks: u32,
    pub(crate) precision: Precision,
    /// `true` if training drops something out.
    pub(crate) drops_out: bool,
}

impl<'a> MeasuredPricing<'a> {
    fn new(machine: &'a MeasuredMachine, usage: Usage<'_>) -> Self {
        let Usage { ranks, precision, drops_out, .. } = usage;
        Self { machine, ranks, precision, drops_out }
    }

    /// One pass of a layer over `samples` samples on one of the ranks that share it.
    pub(crate) fn layer(
        &self,
        layer: &Layer,
        pass: Pass,
        samples: u64,
        sharing: Sharing,
    ) -> Result<Seconds, MachineError> {
        let mut total = Seconds::ZERO;
        let operators = if layer.frozen && pass == Pass::Backward { &[][..] } else { &layer.operators };
        let fullest = fullest_share(layer, sharing);
        for operator in operators {
            let kind = operator.on_rank(samples, sharing);
            total += self.operator(kind, pass)? * if is_of_experts(kind) { fullest } else { 1.0 };
        }
        let phase = match pass {
            Pass::Forward => CorrectedPhase::Forward,
            Pass::Backward => CorrectedPhase::Backward,
        };
        Ok(total * self.machine.correction(phase))
    }

    /// The core of a layer's attention, forward: what selective recomputation does again.
    fn attention_core(&self, layer: &Layer, samples: u64, sharing: Sharing) -> Result<Seconds, MachineError> {
        let mut total = Seconds::ZERO;
        for operator in &layer.operators {
            let operator = operator.on_rank(samples, sharing);
            if let OperatorKind::Attention(_) = operator {
                total += self.operator(operator, Pass::Forward)?;
            }
        }
        Ok(total * self.machine.correction(CorrectedPhase::Backward))
    }

    /// The part of a layer's backward pass that is for gradients of weights, as far as the executor postpones them:
    /// one of the two products that backward has for each product of a layer that follows another.
    fn weights_share(&self, layer: &Layer, samples: u64, sharing: Sharing) -> Result<f64, MachineError> {
        if layer.role == LayerRole::Input || layer.frozen {
            return Ok(0.0);
        }
        let (mut all, mut weights) = (Seconds::ZERO, Seconds::ZERO);
        for operator in &layer.operators {
            let operator = operator.on_rank(samples, sharing);
            let time = self.operator(operator, Pass::Backward)?;
            all += time;
            let is_product = matches!(
                operator,
                OperatorKind::Linear { .. }
                    | OperatorKind::ExpertLinear { .. }
                    | OperatorKind::TiedHead { .. }
                    | OperatorKind::Tuned(Tuned::Adapter { .. })
            );
            if is_product {
                weights += time * 0.5;
            }
        }
        Ok(if all > Seconds::ZERO { weights.0 / all.0 } else { 0.0 })
    }

    fn operator(&self, operator: OperatorKind, pass: Pass) -> Result<Seconds, MachineError> {
        let unknown = || unmeasured(self.machine, operator.name().into(), self.ranks);
        let parts = timed_parts(operator, self.drops_out).ok_or_else(unknown)?;
        let one = |(times, part): (u64, OperatorKind)| {
            let (class, shape) = class_and_shape(part).ok_or_else(unknown)?;
            Ok(self.one(class, &shape, pass)? * times as f64)
        };
        let whole = parts.into_iter().map(one).sum::<Result<Seconds, MachineError>>()?;
        // Of the two products that backward has for each of a layer, one is for the gradient of weights.
        let is_frozen = matches!(operator, OperatorKind::Tuned(Tuned::Frozen { .. }));
        Ok(if is_frozen && pass == Pass::Backward { whole * 0.5 } else { whole })
    }

    fn one(&self, class: OperatorClass, shape: &[u64], pass: Pass) -> Result<Seconds, MachineError> {
        self.price(class, format_of(self.precision), shape, |sample| match pass {
            Pass::Forward => sample.forward_s,
            Pass::Backward => sample.backward_s,
        })
    }

    /// Adding one micro-batch's gradients to the sum.
    pub(crate) fn accumulate(&self, held: ParameterCounts) -> Result<Seconds, MachineError> {
        Ok(self.over(OperatorClass::Accumulate, held)? * self.machine.correction(CorrectedPhase::Backward))
    }

    /// Copying what ranks share out into one flat buffer and back.
    pub(crate) fn flatten(&self, held: ParameterCounts) -> Result<Seconds, MachineError> {
        Ok(self.over(OperatorClass::Flatten, held)? * self.machine.correction(CorrectedPhase::Backward))
    }

    /// The optimizer's update, and the copy in the format of compute that follows it where there is one.
    pub(crate) fn update(&self, optimizer: Optimizer, held: ParameterCounts) -> Result<Seconds, MachineError> {
        let class =
            class_of_update(optimizer).ok_or_else(|| unmeasured(self.machine, optimizer.to_string(), self.ranks))?;
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
    fn over(&self, class: OperatorClass, held: ParameterCounts) -> Result<Seconds, MachineError> {
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
            sum += weight * (time(sample).max(SHORTEST) / work_of_operator(class, &sample.shape)).ln();
        }
        if weights > 0.0 {
            return Ok(Seconds((sum / weights).exp() * work_of_operator(class, shape)));
        }
        let in_format = if format == NumberFormat::Fp32 { String::new() } else { format!(" in {}", self.precision) };
        Err(unmeasured(self.machine, format!("{class:?}{in_format}"), self.ranks))
    }
}

/// Tells that a profile holds no measurement that could price an operator or a collective.
fn unmeasured(machine: &MeasuredMachine, operator: String, ranks: u32) -> MachineError {
    let why = format!("the profile of `{}` has no measurement of it for {ranks} concurrent ranks", machine.name);
    Invalid::missing(operator, why).with_hint("measure again with `trainyard calibrate`").into()
}

/// The measured time among `ranks` ranks of a machine. Gathering or scattering that was not measured is one of the two
/// rounds of a sum.
fn measured_collective(
    machine: &MeasuredMachine,
    collective: Collective,
    ranks: u32,
    bytes: Bytes,
) -> Result<Seconds, MachineError> {
    let Some(operation) = timed_as(collective) else {
        return Err(unmeasured(machine, format!("{collective:?}"), ranks));
    };
    let moved = |operation| machine.collectives.iter().any(|sample| sample.operation == operation);
    if collective == Collective::AllToAll && !moved(operation) {
        // A rank gets as many bytes from all others as when it gathers such a buffer.
        return measured_collective(machine, Collective::AllGather, ranks, bytes);
    }
    let one_round = matches!(collective, Collective::AllGather | Collective::ReduceScatter);
    let timed = || machine.collectives.iter().any(|sample| sample.operation == operation && sample.ranks >= ranks);
    if one_round && !timed() {
        let both_rounds = measured(machine, CollectiveOperation::AllReduce, ranks, bytes)?;
        return Ok(both_rounds * 0.5);
    }
    measured(machine, operation, ranks, bytes)
}

/// The operation of a profile; none for collectives that the executor does not have.
fn timed_as(collective: Collective) -> Option<CollectiveOperation> {
    Some(match collective {
        Collective::AllReduce => CollectiveOperation::AllReduce,
        Collective::AllGather => CollectiveOperation::AllGather,
        Collective::ReduceScatter => CollectiveOperation::ReduceScatter,
        Collective::Transfer => CollectiveOperation::Send,
        Collective::AllToAll => CollectiveOperation::AllToAll,
        Collective::Broadcast => return None,
    })
}

/// The time of an operation among `ranks` ranks, or among the next larger number that was measured: between measured
/// sizes a straight line, and the last ratio beyond.
fn measured(
    machine: &MeasuredMachine,
    operation: CollectiveOperation,
    ranks: u32,
    bytes: Bytes,
) -> Result<Seconds, MachineError> {
    if ranks < 2 {
        return Ok(Seconds::ZERO);
    }
    let of_operation = || machine.collectives.iter().filter(|sample| sample.operation == operation);
    let measured_ranks = of_operation().map(|sample| sample.ranks).filter(|measured| *measured >= ranks).min();
    let mut points: Vec<(f64, f64)> = of_operation()
        .filter(|sample| Some(sample.ranks) == measured_ranks)
        .map(|sample| (sample.bytes as f64, sample.seconds))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let seconds = interpolate(&points, bytes.as_f64());
    let corrected = |seconds| Seconds(seconds * machine.correction(CorrectedPhase::Communication));
    seconds.map(corrected).ok_or_else(|| unmeasured(machine, format!("{operation:?}"), ranks))
}

/// Tells whether operators of a machine were timed in the number format in which layers of this precision compute.
fn knows(machine: &MeasuredMachine, precision: Precision) -> bool {
    let format = format_of(precision);
    format == NumberFormat::Fp32 || machine.operators.iter().any(|sample| sample.format == format)
}

/// Keeps the weight of a shape that was measured finite.
const NEAREST: f64 = 1e-6;

/// The shortest time that a clock tells apart.
const SHORTEST: f64 = 1e-9;

/// Returns how many times the mean the ranks that share the experts of a layer wait for the fullest of them: the executor
/// sends every token to the experts that it chose, and nothing makes it choose evenly.
fn fullest_share(layer: &Layer, sharing: Sharing) -> f64 {
    let of = |operator: &Operator| match operator.kind {
        OperatorKind::Routing(routing) => routing.fullest_share(sharing.expert),
        _ => 1.0,
    };
    layer.operators.iter().map(of).fold(1.0, f64::max)
}

/// Returns `true` for what is computed of the tokens that experts of a rank get, in a layer that has experts.
fn is_of_experts(kind: OperatorKind) -> bool {
    matches!(
        kind,
        OperatorKind::ExpertLinear { .. }
            | OperatorKind::Tuned(Tuned::Frozen { experts: 2.., .. })
            | OperatorKind::Activation { .. }
            | OperatorKind::Relu { .. }
            | OperatorKind::GatedActivation { .. }
    )
}

/// A straight line between the two nearest of some points in order of x; beyond the ends, the end's ratio of y to x
/// upward, and the end's y downward. Nothing without points.
fn interpolate(points: &[(f64, f64)], x: f64) -> Option<f64> {
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

/// A machine of which these operators were timed.
#[cfg(test)]
pub(super) fn machine(operators: impl IntoIterator<Item = OperatorSample>) -> MeasuredMachine {
    MeasuredMachine {
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
        operators: operators.into_iter().collect(),
        collectives: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::cases_of_layers;
    use trainyard_hardware_profiles::CollectiveSample;
    use trainyard_hardware_profiles::OperatorCase;
    use trainyard_plan::operators::{OperatorGraph, Routing};

    #[test]
    fn attention_keeps_its_weights_on_gpus_and_nothing_on_processors() {
        let kept = |device| {
            let machine = MeasuredMachine { device, ..machine([]) };
            DeviceCosts::attention(&machine).is_some_and(|kernel| !kernel.is_fused())
        };
        assert!(!kept(DeviceKind::Cpu) && kept(DeviceKind::Cuda) && kept(DeviceKind::Wgpu));
    }

    #[test]
    fn cores_are_those_of_attention_and_weights_have_half_of_the_products_behind_the_first_layer() {
        let graph = trainyard_models::find("gpt2").expect("in the catalog").model.graph();
        let [input, block] = [&graph.distinct()[0], &graph.distinct()[1]];
        // Every operator was measured once, at its own shape: one second forward and two backward.
        let measured = [input, block].into_iter().flat_map(|layer| &layer.operators).map(|operator| {
            let (operator, shape) = class_and_shape(operator.on_rank(1, Sharing::WHOLE)).expect("the family runs");
            let (forward_s, backward_s) = (1.0, 2.0);
            let format = NumberFormat::Fp32;
            OperatorSample { operator, format, ranks: 1, threads: 1, shape, forward_s, backward_s, spread: 0.0 }
        });
        let machine = machine(measured);
        let pricing = MeasuredPricing { machine: &machine, ranks: 1, precision: Precision::Fp32, drops_out: false };
        let core = |layer| pricing.attention_core(layer, 1, Sharing::WHOLE).expect("measured").0;
        assert!((core(block) - 1.0).abs() < 1e-3 && core(input).abs() < 1e-9);
        let share = |layer| pricing.weights_share(layer, 1, Sharing::WHOLE).expect("measured");
        // Of four products of two seconds each, half.
        let all = 2.0 * block.operators.len() as f64;
        assert!((share(block) - 4.0 / all).abs() < 1e-3, "{}", share(block));
        assert!(share(input).abs() < 1e-9);
    }

    #[test]
    fn frozen_products_have_half_a_backward_pass_and_adapters_share_inputs() {
        let model = trainyard_models::find("gpt2").expect("in the catalog").model.clone();
        let adapters = trainyard_models::Adapters { rank: 8, dropout: false, targets: Vec::new(), quantised: None };
        let tuned = |adapters| {
            let tuning = trainyard_models::Tuning::Adapters(adapters);
            trainyard_models::tuned(&model, &tuning).expect("it has adapters")
        };
        let graph = tuned(adapters.clone());
        let cases = cases_of_layers(&graph, 1, Sharing::WHOLE, 1, Precision::Fp32);
        // Whatever it is, it takes a second forward and two backward.
        let machine = machine(cases.into_iter().map(|OperatorCase { operator, format, ranks, shape }| {
            OperatorSample { operator, format, ranks, threads: 1, shape, forward_s: 1.0, backward_s: 2.0, spread: 0.0 }
        }));
        let pricing = MeasuredPricing { machine: &machine, ranks: 1, precision: Precision::Fp32, drops_out: false };
        let seconds = |at: usize, pass| pricing.layer(&graph.distinct()[at], pass, 1, Sharing::WHOLE).expect("known").0;
        let operators = &graph.distinct()[1].operators;
        let adapters_of = operators.iter().filter(|own| matches!(own.kind, OperatorKind::Tuned(Tuned::Adapter { .. })));
        let (count, adapted) = (operators.len() as f64, adapters_of.count() as f64);
        assert!((adapted - 4.0).abs() < 1e-9);
        // Two products and a sum for each adapter.
        assert!((seconds(1, Pass::Forward) - (count + 2.0 * adapted)).abs() < 1e-3);
        // One second for each of the four products that are not trained.
        assert!((seconds(1, Pass::Backward) - (2.0 * (count + 2.0 * adapted) - 4.0)).abs() < 1e-3);
        assert!(seconds(0, Pass::Forward) > 0.0 && seconds(0, Pass::Backward).abs() < 1e-9);

        let copied = |graph: &OperatorGraph| -> Vec<bool> {
            let operators = &graph.distinct()[1].operators;
            (1..=operators.len()).map(|end| copied_input(&operators[..end]) > 0.0).collect()
        };
        // Of GPT-2's four adapters that behind attention has an input that is kept anyway.
        assert_eq!(copied(&graph).iter().filter(|copied| **copied).count(), 1);
        let dropping = tuned(trainyard_models::Adapters { dropout: true, ..adapters });
        assert!(!copied(&dropping).contains(&true));
    }

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
        let machine = machine(vec![sample(64, 1e-3), sample(256, 3e-3)]);
        let pricing = MeasuredPricing { machine: &machine, ranks: 1, precision: Precision::Fp32, drops_out: false };
        let time =
            |rows| pricing.operator(OperatorKind::LayerNorm { rows, width: 64 }, Pass::Forward).expect("measured").0;
        assert!((time(64) / 1e-3 - 1.0).abs() < 1e-3 && (time(256) / 3e-3 - 1.0).abs() < 1e-3);
        assert!(time(64) < time(128) && time(128) < time(256) && time(256) < time(512));
        let elsewhere = MeasuredPricing { ranks: 2, ..pricing };
        assert!(elsewhere.operator(OperatorKind::LayerNorm { rows: 64, width: 64 }, Pass::Forward).is_err());
    }

    #[test]
    fn experts_cost_as_many_products_and_routing_what_it_consists_of() {
        let graph = trainyard_models::find("mixtral-8x7b").expect("in the catalog").model.graph();
        let operators =
            || graph.distinct()[1..].iter().flat_map(|layer| &layer.operators).map(|o| o.on_rank(1, Sharing::WHOLE));
        let sample = |operator, shape| OperatorSample {
            operator,
            format: NumberFormat::Fp32,
            ranks: 1,
            threads: 1,
            shape,
            forward_s: 1.0,
            backward_s: 2.0,
            spread: 0.0,
        };
        let places = 2 * 32_768;
        let machine = machine(vec![
            sample(OperatorClass::Linear, vec![places / 8, 4096, 2 * 14_336]),
            sample(OperatorClass::CrossEntropy, vec![32_768, 8]),
            sample(OperatorClass::Embedding, vec![places, 32_768, 1, 4096]),
            sample(OperatorClass::Residual, vec![places, 4096]),
        ]);
        let pricing = MeasuredPricing { machine: &machine, ranks: 1, precision: Precision::Fp32, drops_out: false };
        let price = |operator| pricing.operator(operator, Pass::Backward).expect("measured").0;
        let wide = operators().find(|o| matches!(o, OperatorKind::ExpertLinear { inputs: 4096, .. })).expect("one");
        assert!((price(wide) - 8.0 * 2.0).abs() < 1e-3);
        let dispatch = operators().find(|o| matches!(o, OperatorKind::Routing(Routing::Dispatch(_)))).expect("one");
        assert!((price(dispatch) - 2.0).abs() < 1e-3);
        let combine = operators().find(|o| matches!(o, OperatorKind::Routing(Routing::Combine(_)))).expect("one");
        assert!((price(combine) - 6.0).abs() < 1e-2, "{}", price(combine));
        let masked = trainyard_models::find("alpa-moe-380m").expect("in the catalog").model.graph();
        let masked = masked.distinct().iter().flat_map(|layer| &layer.operators).map(|o| o.on_rank(1, Sharing::WHOLE));
        let masked = masked.filter(|o| matches!(o, OperatorKind::Routing(_)));
        assert!(masked.into_iter().all(|operator| pricing.operator(operator, Pass::Forward).is_err()));
    }

    #[test]
    fn an_all_to_all_that_was_not_measured_is_a_gathering() {
        let sample = |operation, seconds| CollectiveSample { operation, ranks: 2, bytes: 1024, seconds };
        let mut machine = machine(Vec::new());
        machine.collectives = vec![sample(CollectiveOperation::AllGather, 3.0)];
        let time = |machine: &MeasuredMachine| {
            measured_collective(machine, Collective::AllToAll, 2, Bytes(1024)).expect("measured").0
        };
        assert!((time(&machine) - 3.0).abs() < 1e-9);
        machine.collectives.push(sample(CollectiveOperation::AllToAll, 2.0));
        assert!((time(&machine) - 2.0).abs() < 1e-9);
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
