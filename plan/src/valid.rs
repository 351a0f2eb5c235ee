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

/// The largest product of degrees, in ranks, that is accepted; a larger one is taken for a mistake.
pub const RANKS_MAX: u32 = 1 << 20;
/// The largest batch, in samples, that is accepted; a larger one is taken for a mistake.
pub const BATCH_MAX: u64 = 1 << 32;

/// A model with its operators, which all its plans share.
#[derive(Debug, PartialEq)]
pub struct Architecture {
    model: Model,
    graph: OperatorGraph,
    micro_batch_max: u64,
}

impl Architecture {
    /// Builds the operators of a model.
    pub fn new(model: Model) -> Arc<Self> {
        let graph = model.graph();
        Arc::new(Self { micro_batch_max: check::micro_batch_max(&graph), graph, model })
    }

    /// Returns the largest micro-batch of the model, in samples.
    pub fn micro_batch_max(&self) -> u64 {
        self.micro_batch_max
    }

    /// Checks that a micro-batch of `micro` samples can be priced, for callers that price layers before there is a
    /// plan.
    ///
    /// # Errors
    ///
    /// Fails if its arithmetic, or the bytes that it moves, are too large to count.
    pub fn check_micro_batch(&self, micro: u64) -> Result<(), PlanError> {
        check::micro_batch(micro, self.micro_batch_max)
    }

    /// Returns the model's operators.
    pub fn graph(&self) -> &OperatorGraph {
        &self.graph
    }

    /// Returns the model.
    pub fn model(&self) -> &Model {
        &self.model
    }
}

/// A valid plan: a [`PlanSpec`] whose parts fit together, with what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    spec: PlanSpec,
    architecture: Arc<Architecture>,
    mesh: Mesh,
    stages: Stages,
    /// Parameters that a rank holds of each kind of layer, cached because they are asked for often and never change.
    held_of_kinds: Vec<Held>,
    /// Memory that a micro-batch needs in each kind of layer, computed on first use.
    memory_of_kinds: OnceLock<Vec<LayerMemory>>,
}

/// Why a plan as written cannot be run by any software.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The model is invalid.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A count is zero or absurdly large.
    #[error("`{field}` is {value}, but it must be from 1 to {maximum}")]
    OutOfRange {
        /// Path of the field in the plan.
        field: &'static str,
        /// The value as written.
        value: u64,
        /// The largest value accepted.
        maximum: u64,
    },
    /// The batch sizes contradict each other.
    #[error(
        "`batch.global` is {global}, but batch.micro {micro} × batch.accumulation {accumulation} × parallel.data {data} = {product}"
    )]
    Batch {
        /// Samples per step (global batch).
        global: u64,
        /// Samples per micro-batch.
        micro: u64,
        /// Micro-batches per replica and step.
        accumulation: u64,
        /// Number of replicas.
        data: u32,
        /// The product of the parts.
        product: u128,
    },
    /// Tensor parallelism does not divide the heads.
    #[error("`parallel.tensor` is {tensor}, but it must divide the {heads} attention heads of `{model}`")]
    IndivisibleHeads {
        /// Tensor-parallel degree.
        tensor: u32,
        /// Number of attention heads.
        heads: u64,
        /// The model's name.
        model: String,
    },
    /// The model's family cannot be split inside layers.
    #[error("`parallel.tensor` is {tensor}, but `{model}` of family {family} cannot be split inside its layers")]
    TensorUnsupported {
        /// Tensor-parallel degree.
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
        /// The problem, in words.
        problem: String,
    },
    /// The step has more micro-batches than can be simulated.
    #[error(
        "batch.accumulation {accumulation} × parallel.pipeline {pipeline} make {tasks} tasks in a step, but there may be at most {maximum}"
    )]
    TooManyTasks {
        /// Micro-batches per replica and step.
        accumulation: u64,
        /// Number of pipeline stages.
        pipeline: u32,
        /// Number of tasks in a step.
        tasks: u64,
        /// The largest number accepted.
        maximum: u64,
    },
    /// Schedule and pipeline degree contradict each other.
    #[error("`schedule` is {schedule}, but `parallel.pipeline` is {pipeline}: {rule}")]
    Schedule {
        /// The schedule.
        schedule: ScheduleName,
        /// Number of pipeline stages.
        pipeline: u32,
        /// The rule, in words.
        rule: String,
    },
    /// Two fields contradict each other.
    #[error("`{field}` is {value}, but {rule}")]
    Contradiction {
        /// Path of the field in the plan.
        field: &'static str,
        /// The value as written.
        value: String,
        /// The rule, in words.
        rule: String,
        /// A suggestion for the user.
        hint: String,
    },
}

impl PlanError {
    /// Returns a suggestion for the user, if there is one.
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
    /// Returns the plan as it is written.
    pub fn spec(&self) -> &PlanSpec {
        &self.spec
    }

    /// Returns [`PlanSpec::cluster`].
    pub fn cluster(&self) -> &ClusterSpec {
        &self.spec.cluster
    }

    /// Returns [`PlanSpec::stack`].
    pub fn stack(&self) -> Option<&str> {
        self.spec.stack.as_deref()
    }

    /// Returns the model.
    pub fn model(&self) -> &Model {
        &self.architecture.model
    }

    /// Returns the model's operators.
    pub fn graph(&self) -> &OperatorGraph {
        &self.architecture.graph
    }

    pub(crate) fn memory_of_kinds(&self, counted: impl FnOnce() -> Vec<LayerMemory>) -> &[LayerMemory] {
        self.memory_of_kinds.get_or_init(counted)
    }

    pub(crate) fn held_of_kinds(&self) -> &[Held] {
        &self.held_of_kinds
    }

    /// Returns the ranks and their coordinates.
    pub fn mesh(&self) -> Mesh {
        self.mesh
    }

    /// Returns the layers of each stage.
    pub fn stages(&self) -> &Stages {
        &self.stages
    }

    /// Returns the pipeline that micro-batches go through in a step.
    pub fn pipeline(&self) -> Pipeline {
        Pipeline {
            schedule: self.spec.schedule,
            stages: self.stages.count(),
            runs: self.stages.runs(),
            micro_batches: u32::try_from(self.spec.batch.accumulation).expect("checked with the number of tasks"),
        }
    }

    /// Returns the same plan with another input pipeline.
    ///
    /// # Errors
    ///
    /// Fails if a count of the input is out of range.
    pub fn with_input(mut self, input: InputSpec) -> Result<Self, PlanError> {
        input.check()?;
        self.spec.input = Some(input);
        Ok(self)
    }

    /// Returns the number of samples of a step that one replica computes.
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
    /// Validates `spec`, whose model is that of `architecture`: a search makes many plans of one model.
    ///
    /// # Errors
    ///
    /// Fails if the parts of `spec` do not fit together.
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
