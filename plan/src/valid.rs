//! Valid plans. A [`Plan`] that exists can be lowered; nothing downstream checks its degrees again.

use crate::check;
use crate::input::InputSpec;
use crate::memory::LayerMemory;
use crate::mesh::Mesh;
use crate::offload::Offload;
use crate::parameters::{Held, held_of};
use crate::partition::Stages;
use crate::schedules::{Pipeline, ScheduleName};
use crate::spec::{
    BatchSpec, ClusterSpec, Collectives, GradientCompression, GradientReduction, Optimizer, ParallelSpec, PlanSpec,
    Precision, Pricing, Recompute, StateSharding,
};
use std::sync::{Arc, OnceLock};
use trainyard_models::{Family, Model, ModelError, OperatorGraph};

/// The largest product of degrees, in ranks, that is taken for meant.
pub const RANKS_MAX: u32 = 1 << 20;
/// The largest batch, in samples, that is taken for meant.
pub const BATCH_MAX: u64 = 1 << 32;

/// A model with its operators, which all its plans share.
#[derive(Debug, PartialEq)]
pub struct Architecture {
    model: Model,
    graph: OperatorGraph,
    micro_batch_max: u64,
}

impl Architecture {
    /// Of a model.
    pub fn new(model: Model) -> Arc<Self> {
        let graph = model.graph();
        Arc::new(Self { micro_batch_max: check::micro_batch_max(&graph), graph, model })
    }

    /// Samples that a micro-batch of the model can have at most.
    pub fn micro_batch_max(&self) -> u64 {
        self.micro_batch_max
    }

    /// Whether a micro-batch of so many samples can be priced: asked by whoever prices layers before there is a plan.
    ///
    /// # Errors
    ///
    /// When its arithmetic or the bytes that it moves are beyond counting.
    pub fn check_micro_batch(&self, micro: u64) -> Result<(), PlanError> {
        check::micro_batch(micro, self.micro_batch_max)
    }

    /// The model's operators.
    pub fn graph(&self) -> &OperatorGraph {
        &self.graph
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }
}

/// A plan whose parts fit together: what is written, with what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    spec: PlanSpec,
    architecture: Arc<Architecture>,
    mesh: Mesh,
    stages: Stages,
    /// What a rank holds of each of the layers that differ: asked for often, and the same for a plan's life.
    held_of_kinds: Vec<Held>,
    /// What a micro-batch needs in each of them, once it was asked for.
    memory_of_kinds: OnceLock<Vec<LayerMemory>>,
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
        "batch.accumulation {accumulation} × parallel.pipeline {pipeline} make {tasks} tasks in a step, but there may be at most {maximum}"
    )]
    TooManyTasks {
        /// Micro-batches per replica.
        accumulation: u64,
        /// Stages.
        pipeline: u32,
        /// Tasks of a step.
        tasks: u64,
        /// The most that may be.
        maximum: u64,
    },
    /// Schedule and pipeline degree contradict each other.
    #[error("`schedule` is {schedule}, but `parallel.pipeline` is {pipeline}: {rule}")]
    Schedule {
        /// The schedule.
        schedule: ScheduleName,
        /// Stages.
        pipeline: u32,
        /// What is allowed.
        rule: String,
    },
    /// Two fields contradict each other.
    #[error("`{field}` is {value}, but {rule}")]
    Contradiction {
        /// Path of the field in the plan.
        field: &'static str,
        /// What was written.
        value: String,
        /// What is allowed.
        rule: String,
        /// What would be.
        hint: String,
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
            Self::Contradiction { hint, .. } => Some(hint.clone()),
            Self::TooManyTasks { .. } => Some("a larger batch.micro or a smaller batch.global makes fewer".into()),
            Self::IndivisibleHeads { heads, tensor, .. } => {
                let fits = (1..=u64::from(*tensor)).rev().find(|t| heads % t == 0)?;
                Some(format!("parallel.tensor {fits} divides them"))
            }
            _ => None,
        }
    }
}

/// Methods of [`Plan`] that read the field of [`PlanSpec`] of the same name.
macro_rules! reads {
    ($($field:ident: $type:ty),+ $(,)?) => {
        impl Plan {
            $(#[doc = concat!("[`PlanSpec::", stringify!($field), "`].")]
            pub fn $field(&self) -> $type {
                self.spec.$field
            })+
        }
    };
}

reads! {
    batch: BatchSpec,
    schedule: ScheduleName,
    precision: Precision,
    recompute: Recompute,
    state_sharding: StateSharding,
    sharding_ranks: Option<u32>,
    gradient_reduction: GradientReduction,
    gradient_compression: GradientCompression,
    offload: Offload,
    collectives: Collectives,
    optimizer: Optimizer,
    input: Option<InputSpec>,
    pricing: Pricing,
}

impl Plan {
    /// The plan as it is written.
    pub fn spec(&self) -> &PlanSpec {
        &self.spec
    }

    /// [`PlanSpec::cluster`].
    pub fn cluster(&self) -> &ClusterSpec {
        &self.spec.cluster
    }

    /// [`PlanSpec::stack`].
    pub fn stack(&self) -> Option<&str> {
        self.spec.stack.as_deref()
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.architecture.model
    }

    /// The model's operators.
    pub fn graph(&self) -> &OperatorGraph {
        &self.architecture.graph
    }

    pub(crate) fn memory_of_kinds(&self, counted: impl FnOnce() -> Vec<LayerMemory>) -> &[LayerMemory] {
        self.memory_of_kinds.get_or_init(counted)
    }

    pub(crate) fn held_of_kinds(&self) -> &[Held] {
        &self.held_of_kinds
    }

    /// The ranks.
    pub fn mesh(&self) -> Mesh {
        self.mesh
    }

    /// Layers of each stage.
    pub fn stages(&self) -> &Stages {
        &self.stages
    }

    /// The pipeline that micro-batches go through in a step.
    pub fn pipeline(&self) -> Pipeline {
        Pipeline {
            schedule: self.spec.schedule,
            stages: self.stages.count(),
            runs: self.stages.runs(),
            micro_batches: u32::try_from(self.spec.batch.accumulation).expect("checked with the number of tasks"),
        }
    }

    /// The same plan with its samples brought in another way.
    ///
    /// # Errors
    ///
    /// When a count of the input is out of range.
    pub fn with_input(mut self, input: InputSpec) -> Result<Self, PlanError> {
        input.check()?;
        self.spec.input = Some(input);
        Ok(self)
    }

    /// Samples of a step that one replica computes.
    pub fn samples_per_replica(&self) -> u64 {
        self.spec.batch.global / u64::from(self.mesh.data())
    }
}

impl TryFrom<PlanSpec> for Plan {
    type Error = PlanError;

    fn try_from(spec: PlanSpec) -> Result<Self, PlanError> {
        let architecture = Architecture::new(Model::try_from(spec.model)?);
        let model = architecture.model.spec();
        Self::of(architecture, PlanSpec { model, ..spec })
    }
}

impl Plan {
    /// The plan of `spec`, whose model is that of `architecture`: a search makes many plans of one.
    ///
    /// # Errors
    ///
    /// When its parts do not fit together.
    pub fn of(architecture: Arc<Architecture>, spec: PlanSpec) -> Result<Self, PlanError> {
        let graph = &architecture.graph;
        check_degrees(&architecture.model, spec.parallel, &spec.cluster)?;
        check_batch(spec.batch, spec.parallel.data)?;
        check::cluster(&spec)?;
        check::parallel(&spec, graph)?;
        architecture.check_micro_batch(spec.batch.micro)?;
        check::tasks(&spec, graph.len())?;
        check::schedule(&spec)?;
        check::sharding(&spec)?;
        spec.input.map_or(Ok(()), InputSpec::check)?;
        let (pipeline, runs) = (spec.parallel.pipeline, spec.virtual_stages);
        let stages = Stages::from_specs(&spec.stages, graph.len(), pipeline, runs, spec.schedule)?;
        let mesh = Mesh::new(spec.parallel, spec.placement, spec.sharding_ranks);
        let held_of_kinds =
            graph.distinct().iter().map(|layer| held_of(layer, spec.batch.micro, mesh.sharing())).collect();
        Ok(Self { spec, architecture, mesh, stages, held_of_kinds, memory_of_kinds: OnceLock::new() })
    }
}

pub(crate) fn range(field: &'static str, value: u64, maximum: u64) -> Result<(), PlanError> {
    if (1..=maximum).contains(&value) { Ok(()) } else { Err(PlanError::OutOfRange { field, value, maximum }) }
}

fn check_degrees(model: &Model, parallel: ParallelSpec, cluster: &ClusterSpec) -> Result<(), PlanError> {
    range("parallel.data", u64::from(parallel.data), u64::from(RANKS_MAX))?;
    range("parallel.tensor", u64::from(parallel.tensor), 1 << 10)?;
    range("parallel.pipeline", u64::from(parallel.pipeline), 1 << 10)?;
    range("cluster.instances", u64::from(cluster.instances), u64::from(RANKS_MAX))?;
    range("parallel.context", u64::from(parallel.context), 1 << 10)?;
    range("parallel.expert", u64::from(parallel.expert), u64::from(RANKS_MAX))?;
    let ranks = [parallel.tensor, parallel.pipeline, parallel.context]
        .into_iter()
        .fold(u64::from(parallel.data), |product, degree| product.saturating_mul(u64::from(degree)));
    range("parallel.data × parallel.tensor × parallel.pipeline × parallel.context", ranks, u64::from(RANKS_MAX))?;
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
