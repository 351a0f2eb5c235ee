//! Which parts of a plan fit together: each rule is stated once.

use crate::fine_tuning::{BaseFormat, FineTuningSpec, Method, TuningKind};
use crate::input::{INPUT_COUNT_MAX, InputSpec};
use crate::offload::Offload;
use crate::schedules::{Accumulation, ScheduleName};
use crate::spec::{BatchSpec, ClusterSpec, ParallelSpec, PlanSpec, StateSharding};
use std::fmt::Display;
use trainyard_models::{Divisible, Model, Operator, OperatorGraph, Pass};
use trainyard_units::Invalid;

/// The largest number of FLOPs of a micro-batch's forward pass, and of bytes that one operator moves for it: a trillion
/// parameters over hundreds of thousands of tokens. All sums of either are then within 64 bits.
const MICRO_BATCH_MAX: f64 = 2.0 * (1_u64 << 60) as f64;

/// The largest number of tasks in a step: as many as a simulation holds in a few hundred megabytes.
const STEP_TASKS_MAX: u64 = 1 << 21;

/// The largest product of degrees, in ranks, that is accepted; a larger one is taken for a mistake.
pub const RANKS_MAX: u32 = 1 << 20;
/// The largest batch, in samples, that is accepted; a larger one is taken for a mistake.
pub const BATCH_MAX: u64 = 1 << 32;

fn range(field: &str, value: impl Into<u64>, maximum: impl Into<u64>) -> Result<(), Invalid> {
    let (value, allowed) = (value.into(), 1..=maximum.into());
    if allowed.contains(&value) { Ok(()) } else { Err(Invalid::range(field, value, allowed)) }
}

fn wrong(field: &str, value: impl Display, rule: impl Into<String>, hint: impl Into<String>) -> Invalid {
    Invalid::breaks(field, value, rule).with_hint(hint)
}

/// Returns the largest divisor of `number` that is at most `wanted`.
fn divisor_near(number: u64, wanted: u32) -> u64 {
    (1..=u64::from(wanted).min(number)).rev().find(|divisor| number.is_multiple_of(*divisor)).unwrap_or(1)
}

/// Checks that degrees are in range, and that tensor parallelism has heads to share out.
pub(crate) fn degrees(model: &Model, parallel: ParallelSpec, cluster: &ClusterSpec) -> Result<(), Invalid> {
    let ParallelSpec { data, tensor, pipeline, context, expert, .. } = parallel;
    range("parallel.data", data, RANKS_MAX)?;
    range("parallel.tensor", tensor, 1_u64 << 10)?;
    range("parallel.pipeline", pipeline, 1_u64 << 10)?;
    range("cluster.instances", cluster.instances, RANKS_MAX)?;
    range("parallel.context", context, 1_u64 << 10)?;
    range("parallel.expert", expert, RANKS_MAX)?;
    range("parallel.data × parallel.tensor × parallel.pipeline × parallel.context", parallel.ranks(), RANKS_MAX)?;
    let name = model.name();
    match model.tensor_heads() {
        Some(heads) if !heads.is_multiple_of(u64::from(tensor)) => {
            let rule = format!("it must divide the {heads} attention heads of `{name}`");
            let hint = format!("parallel.tensor {} divides them", divisor_near(heads, tensor));
            Err(wrong("parallel.tensor", tensor, rule, hint))
        }
        None if tensor > 1 => {
            let rule = format!("`{name}` of family {} cannot be split inside its layers", model.family());
            Err(Invalid::breaks("parallel.tensor", tensor, rule))
        }
        _ => Ok(()),
    }
}

/// Checks that batch sizes are in range, and that the parts of the global batch make it up.
pub(crate) fn batch(batch: BatchSpec, data: u32) -> Result<(), Invalid> {
    let BatchSpec { global, micro, accumulation } = batch;
    range("batch.global", global, BATCH_MAX)?;
    range("batch.micro", micro, BATCH_MAX)?;
    range("batch.accumulation", accumulation, BATCH_MAX)?;
    let product = u128::from(micro) * u128::from(accumulation) * u128::from(data);
    if product == u128::from(global) {
        return Ok(());
    }
    let rule = format!("batch.micro {micro} × batch.accumulation {accumulation} × parallel.data {data} = {product}");
    let replica = micro * u64::from(data);
    let hint = if global.is_multiple_of(replica) {
        format!("batch.accumulation {} fits", global / replica)
    } else {
        format!("the global batch must be a multiple of batch.micro × parallel.data = {replica}")
    };
    Err(wrong("batch.global", global, rule, hint))
}

/// Checks that the counts of an input pipeline are in range.
pub(crate) fn input(input: InputSpec) -> Result<(), Invalid> {
    range("input.workers", input.workers, INPUT_COUNT_MAX)?;
    range("input.prefetch", input.prefetch.max(1), INPUT_COUNT_MAX)
}

/// Checks that context, expert and sequence parallelism have something to split.
pub(crate) fn parallel(spec: &PlanSpec, graph: &OperatorGraph) -> Result<(), Invalid> {
    let parallel = spec.parallel;
    if parallel.sequence && parallel.tensor == 1 {
        let rule = "parallel.tensor is 1, and sequence parallelism shares tokens among the ranks of a tensor group";
        return Err(wrong("parallel.sequence", true, rule, "set parallel.sequence = false"));
    }
    if parallel.context > 1 {
        let Some(tokens) = graph.tokens_shared_by_context() else {
            let rule = "the model has no self-attention whose tokens could be shared";
            return Err(wrong("parallel.context", parallel.context, rule, "set parallel.context = 1"));
        };
        if !tokens.is_multiple_of(u64::from(parallel.context)) {
            let hint = format!("parallel.context {} divides them", divisor_near(tokens, parallel.context));
            let rule = format!("it must divide the {tokens} tokens of a sample");
            return Err(wrong("parallel.context", parallel.context, rule, hint));
        }
    }
    if parallel.folded_experts && parallel.tensor > 1 && !parallel.sequence {
        let rule = "ranks of a tensor group that share experts out share tokens too";
        return Err(wrong("parallel.folded_experts", true, rule, "set parallel.sequence = true"));
    }
    if parallel.expert_ranks() == 1 {
        return Ok(());
    }
    let copies = u64::from(parallel.data) * u64::from(parallel.context);
    let replicas = if parallel.folded_experts {
        (1, "replicas times parts of a sample (parallel.context)", copies)
    } else {
        (1, "replicas (parallel.data)", u64::from(parallel.data))
    };
    let to_divide = match graph.divisible() {
        None => {
            let rule = "the model has no experts or embedding tables";
            return Err(wrong("parallel.expert", parallel.expert, rule, "set parallel.expert = 1"));
        }
        Some(Divisible::Experts(experts)) => {
            let each = if parallel.folded_experts { u64::from(parallel.tensor) } else { 1 };
            vec![(each, "experts of a layer", experts), replicas]
        }
        Some(Divisible::TableColumns(columns)) if u64::from(parallel.expert) > columns => {
            let rule = format!("the model's embedding tables have {columns} columns");
            return Err(wrong("parallel.expert", parallel.expert, rule, format!("set parallel.expert = {columns}")));
        }
        Some(Divisible::TableColumns(_)) => vec![replicas],
    };
    for (each, what, number) in to_divide {
        if !number.is_multiple_of(each * u64::from(parallel.expert)) {
            let hint =
                format!("parallel.expert {} divides them", divisor_near(number / each.min(number), parallel.expert));
            let times = if each > 1 { format!(", times parallel.tensor {each},") } else { String::new() };
            let rule = format!("it{times} must divide the {number} {what}");
            return Err(wrong("parallel.expert", parallel.expert, rule, hint));
        }
    }
    Ok(())
}

/// The dimensions that decide how many tasks a step has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSize {
    /// The pipeline schedule.
    pub schedule: ScheduleName,
    /// Micro-batches per replica and step.
    pub accumulation: u64,
    /// Number of chunks of layers on all stages.
    pub chunks: u64,
    /// Number of layers whose weights are gathered, or activations copied, one by one; zero if they are always on the
    /// device.
    pub gathered_layers: u64,
}

impl StepSize {
    /// Returns the step size of a plan for a model of `layers` layers.
    pub fn of(spec: &PlanSpec, layers: usize) -> Self {
        let Offload { activations, parameters, .. } = spec.offload;
        let by_layer = spec.state_sharding == StateSharding::Parameters || activations.or(parameters).is_some();
        Self {
            schedule: spec.schedule,
            accumulation: spec.batch.accumulation,
            chunks: u64::from(spec.parallel.pipeline) * u64::from(spec.virtual_stages),
            gathered_layers: if by_layer { layers as u64 } else { 0 },
        }
    }

    /// Returns the number of passes: two or three for each micro-batch on each chunk of layers, or on each gathered
    /// layer.
    pub fn tasks(self) -> u64 {
        let steps = if self.schedule.flushes() { 1 } else { 3 };
        let passes = if self.schedule.splits_backward() { 3 } else { 2 };
        self.accumulation.saturating_mul(self.chunks.max(2 * self.gathered_layers)).saturating_mul(passes * steps)
    }

    /// Returns `true` if a step of this size can be simulated.
    pub fn is_simulable(self) -> bool {
        self.tasks() <= STEP_TASKS_MAX
    }
}

pub(crate) fn tasks(spec: &PlanSpec, layers: usize) -> Result<(), Invalid> {
    let size = StepSize::of(spec, layers);
    if size.is_simulable() {
        return Ok(());
    }
    let factors = format!("{} × {}", spec.batch.accumulation, spec.parallel.pipeline);
    let rule = format!("that makes {} tasks in a step, and there may be at most {STEP_TASKS_MAX}", size.tasks());
    let hint = "a larger batch.micro or a smaller batch.global makes fewer";
    Err(wrong("batch.accumulation × parallel.pipeline", factors, rule, hint))
}

/// Returns the largest micro-batch of a model, in samples.
pub(crate) fn micro_batch_max(graph: &OperatorGraph) -> u64 {
    // A sum that overflows saturates at eight times the allowed maximum.
    let moved = |operator: &Operator| operator.kind.traffic(Pass::Backward).bytes(4).as_f64();
    let operators = graph.distinct().iter().flat_map(|layer| &layer.operators);
    let most = operators.map(moved).fold(graph.flops(Pass::Forward).0, f64::max);
    (MICRO_BATCH_MAX / most.max(1.0)) as u64
}

/// Checks that a micro-batch has at most `most` samples.
pub(crate) fn micro_batch(micro: u64, most: u64) -> Result<(), Invalid> {
    if micro <= most {
        return Ok(());
    }
    let (rule, hint) = match most {
        0 => ("a single sample of this model is beyond counting".into(), "shorten model.seq_len, or take fewer layers"),
        _ => (
            format!("with a model of this size it must be at most {most}"),
            "take smaller micro-batches, and more of them (batch.accumulation)",
        ),
    };
    Err(wrong("batch.micro", micro, rule, hint))
}

/// Checks that the machines are described in one place.
pub(crate) fn cluster(spec: &PlanSpec) -> Result<(), Invalid> {
    match (&spec.cluster.profile, &spec.cluster.file) {
        (Some(_), Some(file)) => {
            let rule = "cluster.profile describes other machines";
            Err(wrong("cluster.file", file, rule, "leave one of the two out"))
        }
        _ => Ok(()),
    }
}

/// Checks schedule, stages, chunks of layers and micro-batches.
pub(crate) fn schedule(spec: &PlanSpec) -> Result<(), Invalid> {
    let pipeline = spec.parallel.pipeline;
    let rule = match (spec.schedule.is_pipelined(), pipeline) {
        (false, 2..) => format!("a pipeline needs one of {}", names(ScheduleName::is_pipelined).join(", ")),
        (true, 1) => "a single stage has the schedule none".into(),
        _ => return virtual_stages(spec).and_then(|()| micro_batches(spec)),
    };
    Err(Invalid::breaks("schedule", spec.schedule, format!("`parallel.pipeline` is {pipeline}: {rule}")))
}

/// Returns the names of the schedules for which a predicate holds.
fn names(is: impl Fn(ScheduleName) -> bool) -> Vec<&'static str> {
    ScheduleName::ALL.iter().filter(|schedule| is(**schedule)).map(|schedule| schedule.name()).collect()
}

fn virtual_stages(spec: &PlanSpec) -> Result<(), Invalid> {
    range("virtual_stages", spec.virtual_stages, 1_u64 << 10)?;
    let (schedule, chunks) = (spec.schedule, spec.schedule.chunks());
    if chunks.contains(&spec.virtual_stages) {
        return Ok(());
    }
    let fewest = chunks.start();
    let (rule, hint) = if schedule.is_interleaved() {
        let rule = format!("{schedule} needs at least {fewest} model chunks on each stage");
        (rule, format!("virtual_stages {fewest} is the fewest"))
    } else if *fewest > 1 {
        let rule = format!("{schedule} has exactly {fewest} model chunks on each stage");
        (rule, format!("set virtual_stages = {fewest}"))
    } else {
        let several = names(|schedule| *schedule.chunks().end() > 1).join(" and ");
        let rule = format!("only {several} have several model chunks on a stage");
        (rule, "set virtual_stages = 1".into())
    };
    Err(wrong("virtual_stages", spec.virtual_stages, rule, hint))
}

fn micro_batches(spec: &PlanSpec) -> Result<(), Invalid> {
    let (schedule, count, stages) = (spec.schedule, spec.batch.accumulation, u64::from(spec.parallel.pipeline));
    let (rule, hint) = match schedule.accumulation() {
        asked if asked.admits(count, stages) => return Ok(()),
        Accumulation::GroupsOfStages => {
            let next = count.div_ceil(stages) * stages;
            let rule = format!("{schedule} takes micro-batches in groups of parallel.pipeline {stages}");
            (rule, format!("batch.accumulation {next} is the next"))
        }
        Accumulation::Any | Accumulation::AtLeastStages => {
            let rule = format!("{schedule} needs at least as many micro-batches as there are stages, {stages}");
            (rule, format!("batch.accumulation {stages} is enough"))
        }
    };
    Err(wrong("batch.accumulation", count, rule, hint))
}

/// Checks that a plan which trains a part of its model has what software does with such models.
pub(crate) fn fine_tuning(spec: &PlanSpec) -> Result<(), Invalid> {
    let (method, kind) = (spec.method(), spec.tuning_kind());
    if kind == TuningKind::FULL {
        return Ok(());
    }
    let ParallelSpec { tensor, pipeline, context, expert, .. } = spec.parallel;
    let degrees = [
        ("parallel.tensor", tensor),
        ("parallel.pipeline", pipeline),
        ("parallel.context", context),
        ("parallel.expert", expert),
    ];
    // Of the software that there is, the executor of measured machines alone splits such models.
    let splits = if spec.cluster.profile.is_some() { &degrees[3..] } else { &degrees[..] };
    if let Some((field, degree)) = splits.iter().find(|(_, degree)| *degree > 1) {
        let rule = format!("fine_tuning.method is {kind}, for which there is data parallelism alone");
        return Err(wrong(field, degree, rule, format!("set {field} = 1, and state_sharding if weights do not fit")));
    }
    if spec.offload != Offload::NONE {
        let rule = format!("fine_tuning.method is {kind}, whose frozen weights stay on the devices");
        return Err(wrong("offload", spec.offload, rule, "set offload = \"none\""));
    }
    let base = spec.fine_tuning.as_ref().and_then(FineTuningSpec::base);
    if base == Some(BaseFormat::Int8) && spec.state_sharding == StateSharding::Parameters {
        let rule = "fine_tuning.lora.base is int8, and ZeRO-3 shares out weights in int8 in no software";
        return Err(wrong(
            "state_sharding",
            spec.state_sharding,
            rule,
            "set state_sharding = \"none\", or lora.base = \"nf4\"",
        ));
    }
    if method == Method::Qlora && spec.precision.master_bytes() == 0 {
        let rule = "quantised weights are computed with in half precision";
        return Err(wrong("precision", spec.precision, rule, "set precision = \"bf16-mixed\" or \"fp16-mixed\""));
    }
    Ok(())
}

/// Checks that the processor can update what it is given.
pub(crate) fn update(spec: &PlanSpec) -> Result<(), Invalid> {
    if spec.optimizer.is_in_eight_bits() && spec.offload.optimizer.is_some() {
        let rule = format!("the kernels of {} run on GPUs alone, in bitsandbytes and torchao alike", spec.optimizer);
        let hint = format!("set optimizer = \"{}\", or offload without it", spec.optimizer.in_32_bits());
        return Err(wrong("offload", spec.offload, rule, hint));
    }
    Ok(())
}

/// Checks what is sharded, and over how many ranks.
pub(crate) fn sharding(spec: &PlanSpec) -> Result<(), Invalid> {
    let Some(ranks) = spec.sharding_ranks else { return Ok(()) };
    let copies = u64::from(spec.parallel.data) * u64::from(spec.parallel.context);
    if spec.state_sharding == StateSharding::None {
        let rule = "state_sharding is none, so nothing is sharded";
        return Err(wrong("sharding_ranks", ranks, rule, "leave sharding_ranks out, or set state_sharding"));
    }
    if spec.parallel.expert > 1 && u64::from(ranks) != copies {
        let rule = format!("with expert parallelism a state is sharded over all {copies} copies");
        return Err(wrong("sharding_ranks", ranks, rule, "leave sharding_ranks out"));
    }
    if ranks == 0 || !copies.is_multiple_of(u64::from(ranks)) {
        let rule = format!("it must divide the {copies} ranks that hold the same parameters");
        let hint = format!("sharding_ranks {} divides them", divisor_near(copies, ranks));
        return Err(wrong("sharding_ranks", ranks, rule, hint));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_models::{Family, Model, ModelSpec};

    #[test]
    fn a_micro_batch_is_refused_before_its_elements_are_beyond_counting() {
        let long = |seq_len| {
            let spec = ModelSpec {
                layers: Some(48),
                hidden: Some(1600),
                heads: Some(25),
                vocab: Some(50_257),
                seq_len: Some(seq_len),
                ..ModelSpec::new("long", Family::Gpt)
            };
            Model::try_from(spec).expect("a model").graph()
        };
        // Three and a half trillion operations a sample.
        assert!((100_000..10_000_000).contains(&micro_batch_max(&long(1024))));
        assert_eq!(micro_batch_max(&long(1 << 22)), 0);
        let widest = |family, head_width| ModelSpec {
            layers: Some(1),
            hidden: Some(1 << 16),
            heads: Some(if head_width == Some(1) { 1 << 22 } else { 1 << 16 }),
            vocab: Some(1000),
            seq_len: Some(1 << 22),
            head_width,
            ..ModelSpec::new("widest", family)
        };
        // 2⁶⁶ scores, and 2⁶⁰ of four bytes each in several places.
        for spec in [widest(Family::Llama, Some(1)), widest(Family::Gpt, None), widest(Family::T5, None)] {
            assert_eq!(micro_batch_max(&Model::try_from(spec).expect("a model").graph()), 0);
        }
        let graph = long(1 << 20);
        let most = micro_batch_max(&graph);
        assert!((1..1000).contains(&most), "{most}");
        let whole = trainyard_models::Sharing::WHOLE;
        let stored = |layer: &trainyard_models::Layer| layer.stored(most, whole).bytes(4).0;
        assert!(graph.layers().map(stored).sum::<u64>() < 1 << 62);
    }
}
