//! From a measured row to the plans and the machine it stands for.
//!
//! A knob that the row leaves empty was set as well as its authors could: every setting that fits into memory is a
//! candidate, and the fastest is the prediction.

mod model;
pub(crate) mod system;

use crate::table::Row;
use std::cmp::Ordering;
use std::fmt::Display;
use std::sync::Arc;
use trainyard_hardware_profiles::{Catalog, Stack, StageCut, catalog};
use trainyard_models::{Divisible, Model, Sample};
use trainyard_plan::{
    Architecture, BATCH_MAX, BatchSpec, ClusterSpec, GradientReduction, Mesh, Offload, Optimizer, ParallelSpec, Plan,
    PlanSpec, Precision, Recompute, ScheduleName, StageSpec, Stages, StateSharding, Store, divisors,
};
use trainyard_sim::{Machine, Outcome, image_decoding, layer_costs, simulate, step_time_bound};
use trainyard_units::Seconds;

/// Runs of layers on a stage that are tried where an interleaved row does not state them.
const INTERLEAVED: std::ops::RangeInclusive<u32> = 2..=4;

/// The most layouts that are tried for a row that leaves them open.
const CANDIDATES_MAX: usize = 4096;
/// The same with those that are no plans.
const TRIES_MAX: usize = 16 * CANDIDATES_MAX;

/// Why a row cannot be predicted, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unsupported {
    /// The thing that the simulator cannot express, or that the row does not tell.
    pub reason: String,
}

impl Unsupported {
    pub(crate) fn new(reason: impl Display) -> Self {
        Self { reason: reason.to_string() }
    }
}

/// A row as the simulator understands it.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Where it ran.
    pub machine: Machine,
    /// Every plan that the row may mean: one, unless it leaves knobs open.
    pub plans: Vec<Plan>,
    /// The time in which the processors decode the images of a step, where the framework leaves that to them.
    pub decoding: Seconds,
}

/// The plan and the machine of a measured row.
///
/// # Errors
///
/// When the simulator cannot express the row, or the row tells too little.
pub fn configure(row: &Row) -> Result<Configuration, Unsupported> {
    configure_in(row, catalog())
}

/// The same with GPUs, machines and stacks of another catalog.
///
/// # Errors
///
/// As [`configure`].
pub(crate) fn configure_in(row: &Row, catalog: &Catalog) -> Result<Configuration, Unsupported> {
    let machine = system::machine(row, catalog)?;
    let knobs = Knobs::of(row, &machine)?;
    let mut plans = Vec::new();
    let mut problem = None;
    for (tried, layout) in knobs.layouts(row).into_iter().enumerate() {
        match knobs.plan(layout, &machine) {
            Ok(plan) => plans.push(plan),
            Err(error) => problem = Some(error),
        }
        if plans.len() > CANDIDATES_MAX || tried > TRIES_MAX {
            return Err(Unsupported::new(format!("the row leaves more than {CANDIDATES_MAX} layouts open")));
        }
    }
    if plans.is_empty() {
        return Err(problem.unwrap_or_else(|| knobs.contradiction(row)));
    }
    let images = if matches!(knobs.model.sample(), Sample::Image(_)) { knobs.global } else { 0 };
    let decoding = image_decoding(&machine, images);
    Ok(Configuration { machine, plans, decoding })
}

impl Configuration {
    /// The fastest plan that fits into memory, simulated; the fastest of all if none fits.
    ///
    /// # Errors
    ///
    /// When the machine does not admit any of the plans.
    pub fn predict(&self) -> Result<(&Plan, Outcome), Unsupported> {
        if let [plan] = self.plans.as_slice() {
            return simulate(plan, &self.machine).map(|outcome| (plan, outcome)).map_err(Unsupported::new);
        }
        let mut bounded = Vec::new();
        for plan in &self.plans {
            let bound = step_time_bound(plan, &self.machine).map_err(Unsupported::new)?;
            bounded.push((!fits(plan, &self.machine), bound.0, plan));
        }
        bounded.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let some_fit = bounded.first().is_some_and(|(too_large, ..)| !too_large);
        let mut best: Option<(&Plan, Outcome)> = None;
        for (too_large, bound, plan) in bounded {
            let beaten = best.as_ref().is_some_and(|(_, outcome)| outcome.step_time.0 <= bound);
            if beaten || (too_large && some_fit) {
                break;
            }
            let outcome = simulate(plan, &self.machine).map_err(Unsupported::new)?;
            let order = best.as_ref().map(|(_, known)| outcome.step_time.0.total_cmp(&known.step_time.0));
            if order.is_none_or(Ordering::is_lt) {
                best = Some((plan, outcome));
            }
        }
        best.ok_or_else(|| Unsupported::new("there is no plan to simulate"))
    }
}

fn fits(plan: &Plan, machine: &Machine) -> bool {
    trainyard_sim::footprint(plan, machine).fits_without_margin().is_ok()
}

/// Settings that do not depend on the layout, read from the row.
struct Knobs {
    model: Model,
    architecture: Arc<Architecture>,
    /// Among which a tensor-parallel degree divides layers; one where none can.
    heads: u64,
    /// Layers between the first, which takes the input, and the last, which computes the loss.
    blocks: u32,
    /// The dimension that replicas may divide among them besides data.
    divisible: Option<Divisible>,
    cluster: ClusterSpec,
    global: u64,
    precision: Precision,
    optimizer: Optimizer,
    schedule: ScheduleName,
    /// States that replicas may share out, and when gradients are then reduced.
    shardings: Vec<(StateSharding, GradientReduction)>,
    gpus_per_node: u32,
    offload: Offload,
    /// Stages, as the row or its method states them.
    pipeline: Option<u32>,
}

/// One setting of the knobs that a row may leave open.
#[derive(Clone, Copy)]
struct Layout {
    parallel: ParallelSpec,
    virtual_stages: u32,
    micro: u64,
    recompute: Recompute,
    sharding: StateSharding,
    reduction: GradientReduction,
}

impl Knobs {
    fn of(row: &Row, machine: &Machine) -> Result<Self, Unsupported> {
        let stack = machine.stack.as_ref();
        let model = model::model(row, machine)?;
        let global = row.global_batch.ok_or_else(|| Unsupported::new("the row does not tell `global_batch`"))?;
        if global > BATCH_MAX {
            return Err(Unsupported::new(format!("its `global_batch` is {global}, more than {BATCH_MAX}")));
        }
        let architecture = Architecture::new(model.clone());
        Ok(Self {
            heads: model.tensor_heads().unwrap_or(1),
            blocks: architecture.graph().len().saturating_sub(2) as u32,
            divisible: architecture.graph().divisible(),
            model,
            architecture,
            cluster: ClusterSpec::of(&row.system, row.nodes),
            global,
            precision: precision(&row.precision)?,
            optimizer: optimizer(&row.optimizer)?,
            schedule: schedule(row),
            shardings: shardings(row.zero_stage, stack)?,
            gpus_per_node: row.gpus_per_node,
            offload: offload(&row.offload)?,
            pipeline: row.pp.or_else(|| stack.pipeline_of(&row.stack_version)),
        })
    }

    /// Every setting of the open knobs that divides what it must divide.
    fn layouts(&self, row: &Row) -> Vec<Layout> {
        let recompute: &[Recompute] = match row.recompute {
            None => &[Recompute::None, Recompute::Full],
            Some("full") => &[Recompute::Full],
            Some("selective") => &[Recompute::Selective],
            Some(_) => &[Recompute::None],
        };
        let mut layouts = Vec::new();
        for parallel in self.degrees(row).into_iter().flat_map(|parallel| self.with_experts(row, parallel)) {
            let replica = self.global / u64::from(parallel.data);
            let micros: Vec<u64> = match row.micro_batch {
                Some(micro) => vec![micro],
                None => divisors(replica),
            };
            for virtual_stages in self.virtual_stages(row, parallel.pipeline) {
                for micro in &micros {
                    for (sharding, reduction) in self.shardings_of(parallel) {
                        let layout = |recompute: &Recompute| Layout {
                            parallel,
                            virtual_stages,
                            micro: *micro,
                            recompute: *recompute,
                            sharding,
                            reduction,
                        };
                        layouts.extend(recompute.iter().map(layout));
                    }
                }
            }
        }
        layouts
    }

    /// States that so many replicas may share out: where there is one, nothing.
    fn shardings_of(&self, parallel: ParallelSpec) -> Vec<(StateSharding, GradientReduction)> {
        let shared = if parallel.data > 1 { self.shardings.len() } else { 1 };
        self.shardings[..shared].to_vec()
    }

    /// The same degrees with experts spread over as many replicas as the row states; if it does not, over as many as
    /// possible, over those of a machine, or over none, and over none where it states its replicas, which then hold the
    /// same. Tables are always divided (Naumov et al., arXiv:1906.00091, section 4).
    fn with_experts(&self, row: &Row, parallel: ParallelSpec) -> Vec<ParallelSpec> {
        if let Some(expert) = row.ep {
            return vec![ParallelSpec { expert, ..parallel }];
        }
        let Some(divisible) = self.divisible else { return vec![parallel] };
        let admitted = |ranks: &u64| divisible.admits(*ranks);
        let possible: Vec<u64> = divisors(u64::from(parallel.data)).into_iter().filter(admitted).collect();
        let most = possible.last().copied().unwrap_or(1);
        let beside = |ranks: &&u64| **ranks * u64::from(parallel.tensor) <= u64::from(self.gpus_per_node);
        let near = possible.iter().rfind(beside).copied().unwrap_or(1);
        let mut degrees = match divisible {
            Divisible::TableColumns(_) => vec![most],
            Divisible::Experts(_) if row.dp.is_some() => vec![1],
            Divisible::Experts(_) => vec![1, near, most],
        };
        degrees.dedup();
        degrees.into_iter().map(|expert| ParallelSpec { expert: expert as u32, ..parallel }).collect()
    }

    /// Runs of layers on each stage: as many as the row states, or those that the schedule leaves open.
    fn virtual_stages(&self, row: &Row, pipeline: u32) -> Vec<u32> {
        match (self.schedule, row.virtual_stages) {
            (ScheduleName::Interleaved, None | Some(1)) if pipeline == 1 => vec![1],
            (ScheduleName::Interleaved, None) => {
                INTERLEAVED.filter(|runs| self.blocks.is_multiple_of(pipeline.saturating_mul(*runs))).collect()
            }
            (ScheduleName::Interleaved, Some(stated)) => vec![stated],
            _ => vec![1],
        }
    }

    /// The degrees that the row states, or those it leaves open that divide GPUs, batch and heads.
    fn degrees(&self, row: &Row) -> Vec<ParallelSpec> {
        if let Some(stated) = stated(row) {
            // GPUs of a machine may stay idle.
            let placed = stated.ranks() <= row.gpus();
            let divided = self.global.is_multiple_of(u64::from(stated.data));
            return [stated].into_iter().filter(|_| placed && divided).collect();
        }
        let context = row.cp.unwrap_or(1);
        if !row.gpus().is_multiple_of(u64::from(context)) {
            return Vec::new();
        }
        let gpus = row.gpus() / u64::from(context);
        let admits = |known: Option<u32>, value: u64| known.is_none_or(|known| u64::from(known) == value);
        let mut degrees = Vec::new();
        for tensor in divisors(gpus) {
            for pipeline in divisors(gpus / tensor) {
                let data = gpus / tensor / pipeline;
                let given = admits(row.tp, tensor) && admits(self.pipeline, pipeline) && admits(row.dp, data);
                // What nobody stated stays where it is sensible: tensor groups inside a machine.
                let sensible = (row.tp.is_some() || tensor <= u64::from(row.gpus_per_node))
                    && pipeline <= u64::from(self.blocks)
                    && self.heads.is_multiple_of(tensor)
                    && self.global.is_multiple_of(data);
                if given && sensible {
                    let [data, tensor, pipeline] = [data, tensor, pipeline].map(|degree| degree as u32);
                    let sequence = row.sequence_parallel && tensor > 1;
                    degrees.push(ParallelSpec { data, tensor, pipeline, context, sequence, ..ParallelSpec::default() });
                }
            }
        }
        degrees
    }

    /// Why a row that states its degrees has no plan.
    fn contradiction(&self, row: &Row) -> Unsupported {
        let (gpus, global) = (row.gpus(), self.global);
        Unsupported::new(match (row.dp, stated(row), row.pp) {
            (Some(data), _, _) if !global.is_multiple_of(u64::from(data)) => {
                format!("the global batch of {global} samples cannot be divided among dp {data} replicas")
            }
            (_, Some(parallel), _) if parallel.ranks() > gpus => {
                let ParallelSpec { data, tensor, pipeline, context, .. } = parallel;
                let context = if context > 1 { format!(" × cp {context}") } else { String::new() };
                format!(
                    "dp {data} × tp {tensor} × pp {pipeline}{context} are more ranks than the {gpus} GPUs of the row"
                )
            }
            (_, _, Some(pipeline)) if self.schedule == ScheduleName::Interleaved => {
                format!("{} layers cannot be cut into two to four runs on each of pp {pipeline} stages", self.blocks)
            }
            _ => format!("no degrees of parallelism divide {gpus} GPUs, {} heads and {global} samples", self.heads),
        })
    }

    fn plan(&self, layout: Layout, machine: &Machine) -> Result<Plan, Unsupported> {
        let Layout { parallel, virtual_stages, micro, recompute, sharding, reduction } = layout;
        // Where the framework cuts stages by price, layers are priced before there is a plan.
        self.architecture.check_micro_batch(micro).map_err(Unsupported::new)?;
        let schedule = if parallel.pipeline == 1 { ScheduleName::None } else { self.schedule };
        let accumulation = (self.global / u64::from(parallel.data)).checked_div(micro).unwrap_or(0);
        let spec = PlanSpec {
            parallel,
            batch: BatchSpec { global: self.global, micro, accumulation },
            schedule,
            virtual_stages,
            stages: self.stages(layout, machine)?,
            precision: self.precision,
            recompute,
            state_sharding: sharding,
            gradient_reduction: reduction,
            offload: self.offload,
            optimizer: self.optimizer,
            ..PlanSpec::plain(self.model.spec(), self.cluster.clone(), 0)
        };
        Plan::of(Arc::clone(&self.architecture), spec).map_err(Unsupported::new)
    }

    /// The stages as the row's framework cuts them.
    fn stages(&self, layout: Layout, machine: &Machine) -> Result<Vec<StageSpec>, Unsupported> {
        let (blocks, runs) = (self.blocks, layout.parallel.pipeline.saturating_mul(layout.virtual_stages));
        let cut = machine.stack.stage_cut;
        if cut == StageCut::EqualBlocks && blocks.is_multiple_of(runs) {
            return Ok(equal_blocks(blocks as usize, runs as usize));
        }
        let impossible = || Unsupported::new(format!("{blocks} layers cannot be cut into {runs} runs"));
        if cut == StageCut::EqualLayers {
            let alike = vec![1.0; blocks as usize + 2];
            return Stages::balanced(&alike, runs).map(|stages| stages.specs()).ok_or_else(impossible);
        }
        let prices =
            layer_costs(self.architecture.graph(), layout.micro, Mesh::from(layout.parallel), self.precision, machine)
                .map_err(Unsupported::new)?;
        Stages::balanced(&prices.weights(layout.recompute), runs).map(|stages| stages.specs()).ok_or_else(impossible)
    }
}

/// The same number of blocks in each stage, the first with the embedding before them, the last with the head after.
fn equal_blocks(blocks: usize, stages: usize) -> Vec<StageSpec> {
    let each = blocks / stages;
    (0..stages)
        .map(|stage| {
            let first = if stage == 0 { 0 } else { 1 + stage * each };
            let end = if stage + 1 == stages { blocks + 2 } else { 1 + (stage + 1) * each };
            StageSpec { first, layers: end - first }
        })
        .collect()
}

/// The degrees of a row that states those of replicas, layers and stages; context parallelism is none unless it is
/// stated too.
fn stated(row: &Row) -> Option<ParallelSpec> {
    let (data, tensor, pipeline) = (row.dp?, row.tp?, row.pp?);
    let (context, sequence) = (row.cp.unwrap_or(1), row.sequence_parallel && tensor > 1);
    Some(ParallelSpec { data, tensor, pipeline, context, sequence, ..ParallelSpec::default() })
}

fn precision(text: &str) -> Result<Precision, Unsupported> {
    text.parse().map_err(|error| Unsupported::new(format!("precision {error}")))
}

fn schedule(row: &Row) -> ScheduleName {
    match row.schedule {
        Some("gpipe") => ScheduleName::GPipe,
        Some("interleaved-1f1b") => ScheduleName::Interleaved,
        _ if row.virtual_stages.is_some_and(|runs| runs > 1) => ScheduleName::Interleaved,
        _ => ScheduleName::OneForwardOneBackward,
    }
}

/// States that replicas share out in a stage of ZeRO (Rajbhandari et al., arXiv:1910.02054, section 5).
fn sharding(zero_stage: Option<u32>) -> Result<StateSharding, Unsupported> {
    match zero_stage {
        None | Some(0) => Ok(StateSharding::None),
        Some(1) => Ok(StateSharding::Optimizer),
        Some(2) => Ok(StateSharding::Gradients),
        Some(3) => Ok(StateSharding::Parameters),
        Some(other) => Err(Unsupported::new(format!("there is no ZeRO-{other}, only stages 0 to 3"))),
    }
}

/// States that replicas may share out: those that the row states, or, where it states nothing and the framework decides
/// by itself, nothing, the optimizer's state (gradients being reduced once a step) or all. The first is what one
/// replica does.
fn shardings(zero_stage: Option<u32>, stack: &Stack) -> Result<Vec<(StateSharding, GradientReduction)>, Unsupported> {
    let stated = sharding(zero_stage)?;
    let chosen: &[StateSharding] = match zero_stage {
        None if stack.chooses_sharding => &[StateSharding::None, StateSharding::Optimizer, StateSharding::Parameters],
        _ => &[stated],
    };
    Ok(chosen.iter().map(|sharding| (*sharding, reduction(*sharding))).collect())
}

/// Gradients that are shared out leave after each micro-batch, so that nobody keeps all of them: DeepSpeed's stages 2
/// and 3, and FSDP where nothing suspends its hooks.
fn reduction(sharding: StateSharding) -> GradientReduction {
    if sharding >= StateSharding::Gradients { GradientReduction::MicroBatch } else { GradientReduction::Step }
}

fn offload(text: &str) -> Result<Offload, Unsupported> {
    match text {
        "" => Ok(Offload::NONE),
        // The master weights; whoever keeps them in main memory updates them there.
        "optimizer fp32 copy" => Ok(Offload { optimizer: Some(Store::Host), ..Offload::NONE }),
        other => other.parse().map_err(|error| Unsupported::new(format!("offload {error}"))),
    }
}

fn optimizer(text: &str) -> Result<Optimizer, Unsupported> {
    match text {
        "adam" | "" => Ok(Optimizer::AdamW),
        other => other.parse().map_err(|error| Unsupported::new(format!("optimizer {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_blocks_cover_every_layer() {
        let stages = equal_blocks(12, 4);
        assert_eq!(stages.iter().map(|stage| stage.layers).collect::<Vec<_>>(), [4, 3, 3, 4]);
        assert_eq!(stages.iter().map(|stage| stage.first).collect::<Vec<_>>(), [0, 4, 7, 10]);
        assert_eq!(equal_blocks(7, 1), [StageSpec { first: 0, layers: 9 }]);
    }
}
