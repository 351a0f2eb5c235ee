//! Valid plans. A [`Plan`] that exists can be lowered; nothing downstream checks its degrees again.

use crate::mesh::Mesh;
use crate::partition::Stages;
use crate::spec::{
    BatchSpec, ClusterSpec, Collectives, Optimizer, ParallelSpec, PlanSpec, Precision, Pricing, Recompute, ScheduleName,
};
use trainyard_models::{Family, Model, ModelError, OperatorGraph};

/// The largest product of degrees that is taken for meant.
const RANKS_MAX: u64 = 1 << 20;
/// The largest batch that is taken for meant.
const BATCH_MAX: u64 = 1 << 32;
/// The most tasks of a step, one for each stage and direction of each micro-batch: what a simulation holds in a few
/// hundred megabytes.
const STEP_TASKS_MAX: u64 = 1 << 21;

/// A plan whose parts fit together.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    model: Model,
    graph: OperatorGraph,
    cluster: ClusterSpec,
    mesh: Mesh,
    batch: BatchSpec,
    schedule: ScheduleName,
    stages: Stages,
    precision: Precision,
    recompute: Recompute,
    collectives: Collectives,
    optimizer: Optimizer,
    pricing: Pricing,
}

/// Why a plan as written cannot be carried out by anybody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The model is not one.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A count is zero or absurdly large.
    #[error("`{field}` is {value}, but it must be from 1 to {maximum}")]
    OutOfRange {
        /// Path of the field in the plan.
        field: &'static str,
        /// What was written.
        value: u64,
        /// The largest value accepted.
        maximum: u64,
    },
    /// The batch sizes contradict each other.
    #[error(
        "`batch.global` is {global}, but batch.micro {micro} × batch.accumulation {accumulation} × parallel.data {data} = {product}"
    )]
    Batch {
        /// Samples of a step.
        global: u64,
        /// Samples at once.
        micro: u64,
        /// Micro-batches per replica.
        accumulation: u64,
        /// Replicas.
        data: u32,
        /// What the parts multiply to.
        product: u128,
    },
    /// Tensor parallelism does not divide the heads.
    #[error("`parallel.tensor` is {tensor}, but it must divide the {heads} attention heads of `{model}`")]
    IndivisibleHeads {
        /// Ranks per layer.
        tensor: u32,
        /// Attention heads.
        heads: u64,
        /// The model's name.
        model: String,
    },
    /// This family cannot be split inside layers.
    #[error("`parallel.tensor` is {tensor}, but `{model}` of family {family} cannot be split inside its layers")]
    TensorUnsupported {
        /// Ranks per layer.
        tensor: u32,
        /// The model's family.
        family: Family,
        /// The model's name.
        model: String,
    },
    /// The stages do not cover the layers in order.
    #[error("`stages` must cover layers 0 to {last} in order without gaps: {problem}")]
    Stages {
        /// Index of the last layer.
        last: usize,
        /// What is wrong.
        problem: String,
    },
    /// The step has more micro-batches than can be simulated.
    #[error(
        "batch.accumulation {accumulation} × parallel.pipeline {pipeline} make {tasks} tasks in a step, but there may be at most {STEP_TASKS_MAX}"
    )]
    TooManyTasks {
        /// Micro-batches per replica.
        accumulation: u64,
        /// Stages.
        pipeline: u32,
        /// Tasks of a step.
        tasks: u64,
    },
    /// Schedule and pipeline degree contradict each other.
    #[error("`schedule` is {schedule}, but `parallel.pipeline` is {pipeline}: {rule}")]
    Schedule {
        /// The schedule.
        schedule: ScheduleName,
        /// Stages.
        pipeline: u32,
        /// What is allowed.
        rule: &'static str,
    },
}

impl PlanError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Model(error) => error.hint(),
            Self::Batch { global, micro, data, .. } => {
                let replica = micro.checked_mul(u64::from(*data))?;
                Some(if global.is_multiple_of(replica) {
                    format!("batch.accumulation {} fits", global / replica)
                } else {
                    format!("the global batch must be a multiple of batch.micro × parallel.data = {replica}")
                })
            }
            Self::TooManyTasks { .. } => Some("a larger batch.micro or a smaller batch.global makes fewer".into()),
            Self::IndivisibleHeads { heads, tensor, .. } => {
                let fits = (1..=u64::from(*tensor)).rev().find(|t| heads % t == 0)?;
                Some(format!("parallel.tensor {fits} divides them"))
            }
            _ => None,
        }
    }
}

impl Plan {
    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The model's operators.
    pub fn graph(&self) -> &OperatorGraph {
        &self.graph
    }

    /// The machines, by name.
    pub fn cluster(&self) -> &ClusterSpec {
        &self.cluster
    }

    /// The ranks.
    pub fn mesh(&self) -> Mesh {
        self.mesh
    }

    /// Batch sizes.
    pub fn batch(&self) -> BatchSpec {
        self.batch
    }

    /// Order of micro-batches.
    pub fn schedule(&self) -> ScheduleName {
        self.schedule
    }

    /// Layers of each stage.
    pub fn stages(&self) -> &Stages {
        &self.stages
    }

    /// Number formats.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// What is computed again.
    pub fn recompute(&self) -> Recompute {
        self.recompute
    }

    /// How gradients are summed over replicas.
    pub fn collectives(&self) -> Collectives {
        self.collectives
    }

    /// The optimizer.
    pub fn optimizer(&self) -> Optimizer {
        self.optimizer
    }

    /// How the machines are paid.
    pub fn pricing(&self) -> Pricing {
        self.pricing
    }

    /// Samples of a step that one replica computes.
    pub fn samples_per_replica(&self) -> u64 {
        self.batch.global / u64::from(self.mesh.data())
    }

    /// Optimizer steps in one pass over `samples` samples; the last, incomplete batch counts as a step.
    pub fn steps_per_epoch(&self, samples: u64) -> u64 {
        samples.div_ceil(self.batch.global)
    }

    /// The plan as it is written.
    pub fn spec(&self) -> PlanSpec {
        PlanSpec {
            model: self.model.spec(),
            cluster: self.cluster.clone(),
            parallel: ParallelSpec {
                data: self.mesh.data(),
                tensor: self.mesh.tensor(),
                pipeline: self.mesh.pipeline(),
            },
            batch: self.batch,
            schedule: self.schedule,
            stages: self.stages.specs(),
            precision: self.precision,
            recompute: self.recompute,
            collectives: self.collectives,
            optimizer: self.optimizer,
            pricing: self.pricing,
        }
    }
}

impl TryFrom<PlanSpec> for Plan {
    type Error = PlanError;

    fn try_from(spec: PlanSpec) -> Result<Self, PlanError> {
        let model = Model::try_from(spec.model)?;
        let graph = model.graph();
        check_degrees(&model, spec.parallel, &spec.cluster)?;
        check_batch(spec.batch, spec.parallel.data)?;
        check_tasks(spec.batch, spec.parallel.pipeline)?;
        check_schedule(spec.schedule, spec.parallel.pipeline)?;
        let stages = Stages::from_specs(&spec.stages, graph.len(), spec.parallel.pipeline)?;
        Ok(Self {
            model,
            graph,
            cluster: spec.cluster,
            mesh: Mesh::from(spec.parallel),
            batch: spec.batch,
            schedule: spec.schedule,
            stages,
            precision: spec.precision,
            recompute: spec.recompute,
            collectives: spec.collectives,
            optimizer: spec.optimizer,
            pricing: spec.pricing,
        })
    }
}

fn range(field: &'static str, value: u64, maximum: u64) -> Result<(), PlanError> {
    if (1..=maximum).contains(&value) { Ok(()) } else { Err(PlanError::OutOfRange { field, value, maximum }) }
}

fn check_degrees(model: &Model, parallel: ParallelSpec, cluster: &ClusterSpec) -> Result<(), PlanError> {
    range("parallel.data", u64::from(parallel.data), RANKS_MAX)?;
    range("parallel.tensor", u64::from(parallel.tensor), 1 << 10)?;
    range("parallel.pipeline", u64::from(parallel.pipeline), 1 << 10)?;
    range("cluster.instances", u64::from(cluster.instances), RANKS_MAX)?;
    let ranks = u64::from(parallel.data) * u64::from(parallel.tensor) * u64::from(parallel.pipeline);
    range("parallel.data × parallel.tensor × parallel.pipeline", ranks, RANKS_MAX)?;
    let (tensor, name) = (parallel.tensor, model.name().to_owned());
    match model.tensor_heads() {
        Some(heads) if !heads.is_multiple_of(u64::from(tensor)) => {
            Err(PlanError::IndivisibleHeads { tensor, heads, model: name })
        }
        None if tensor > 1 => Err(PlanError::TensorUnsupported { tensor, family: model.family(), model: name }),
        _ => Ok(()),
    }
}

fn check_batch(batch: BatchSpec, data: u32) -> Result<(), PlanError> {
    range("batch.global", batch.global, BATCH_MAX)?;
    range("batch.micro", batch.micro, BATCH_MAX)?;
    range("batch.accumulation", batch.accumulation, BATCH_MAX)?;
    let product = u128::from(batch.micro) * u128::from(batch.accumulation) * u128::from(data);
    if product == u128::from(batch.global) {
        return Ok(());
    }
    let BatchSpec { global, micro, accumulation } = batch;
    Err(PlanError::Batch { global, micro, accumulation, data, product })
}

/// Tasks of a step: forward and backward of each micro-batch on each stage.
fn step_tasks(accumulation: u64, pipeline: u32) -> u64 {
    2 * accumulation * u64::from(pipeline)
}

/// Whether a step with this many micro-batches on this many stages can be simulated.
pub fn is_simulable(accumulation: u64, pipeline: u32) -> bool {
    step_tasks(accumulation, pipeline) <= STEP_TASKS_MAX
}

fn check_tasks(batch: BatchSpec, pipeline: u32) -> Result<(), PlanError> {
    let accumulation = batch.accumulation;
    if is_simulable(accumulation, pipeline) {
        return Ok(());
    }
    Err(PlanError::TooManyTasks { accumulation, pipeline, tasks: step_tasks(accumulation, pipeline) })
}

fn check_schedule(schedule: ScheduleName, pipeline: u32) -> Result<(), PlanError> {
    let rule = match (schedule, pipeline) {
        (ScheduleName::None, 2..) => "a pipeline needs one of gpipe, 1f1b",
        (ScheduleName::GPipe | ScheduleName::OneForwardOneBackward, 1) => "a single stage has the schedule none",
        _ => return Ok(()),
    };
    Err(PlanError::Schedule { schedule, pipeline, rule })
}
