//! Valid plans. A [`Plan`] that exists can be lowered; nothing downstream checks its degrees again.

use crate::check;
use crate::fine_tuning::{FineTuningSpec, Method, TuningKind};
use crate::held_by_kinds::HeldByKinds;
use crate::input::InputSpec;
use crate::layer_memory::LayerMemory;
use crate::mesh::Mesh;
use crate::offload::Offload;
use crate::parameters::ParameterCounts;
use crate::partition::Stages;
use crate::schedules::{Pipeline, ScheduleName, StageId};
use crate::spec::{
    BatchSpec, ClusterSpec, Collectives, GradientCompression, GradientReduction, Optimizer, PlanSpec, Precision,
    Pricing, Recompute, StateSharding,
};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use trainyard_models::{Layer, Model, OperatorGraph, Sharing};
use trainyard_units::{Bytes, Invalid};

/// A model with its operators, which all its plans share.
#[derive(Debug, PartialEq)]
pub struct Architecture {
    model: Model,
    fine_tuning: Option<FineTuningSpec>,
    graph: OperatorGraph,
    micro_batch_max: u64,
    held: HeldByKinds,
}

impl Architecture {
    /// Builds the operators of a model.
    pub fn new(model: Model) -> Arc<Self> {
        let graph = model.graph();
        Arc::new(Self::of(model, graph, None))
    }

    /// Builds the operators of a model of which a part is trained.
    ///
    /// # Errors
    ///
    /// When the model has no such part.
    pub fn tuned(model: Model, fine_tuning: Option<&FineTuningSpec>) -> Result<Arc<Self>, Invalid> {
        let Some(spec) = fine_tuning else { return Ok(Self::new(model)) };
        let Some(spec) = spec.filled_in()? else { return Ok(Self::new(model)) };
        let graph = spec.graph(&model)?;
        Ok(Arc::new(Self::of(model, graph, Some(spec))))
    }

    fn of(model: Model, graph: OperatorGraph, fine_tuning: Option<FineTuningSpec>) -> Self {
        let micro_batch_max = check::micro_batch_max(&graph);
        Self { model, fine_tuning, graph, micro_batch_max, held: HeldByKinds::default() }
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
    pub fn check_micro_batch(&self, micro: u64) -> Result<(), Invalid> {
        check::micro_batch(micro, self.micro_batch_max)
    }

    /// Returns the model's operators.
    pub fn graph(&self) -> &OperatorGraph {
        &self.graph
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns which weights are trained, with every default filled in; `None` if all are.
    pub fn fine_tuning(&self) -> Option<&FineTuningSpec> {
        self.fine_tuning.as_ref()
    }
}

/// A valid plan: a [`PlanSpec`] whose parts fit together, with what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    spec: PlanSpec,
    architecture: Arc<Architecture>,
    mesh: Mesh,
    stages: Stages,
    /// Parameters that a rank holds of each kind of layer.
    parameters_of_kinds: Arc<[ParameterCounts]>,
    /// Memory that a micro-batch needs in each kind of layer, looked up on first use.
    memory_of_kinds: OnceLock<Arc<[LayerMemory]>>,
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

    /// Returns which weights are trained.
    pub fn method(&self) -> Method {
        self.spec.method()
    }

    /// Returns what is trained, and towards what.
    pub fn tuning_kind(&self) -> TuningKind {
        self.spec.tuning_kind()
    }

    /// Returns the tokens of a sample, both sequences of a pair, for models that read tokens.
    pub fn tokens_per_sample(&self) -> Option<u64> {
        let sequences = if self.tuning_kind().dpo { 2 } else { 1 };
        self.model().tokens_per_sample().map(|tokens| sequences * tokens)
    }

    /// Returns [`PlanSpec::stack`].
    pub fn stack(&self) -> Option<&str> {
        self.spec.stack.as_deref()
    }

    pub fn model(&self) -> &Model {
        &self.architecture.model
    }

    /// Returns the model's operators.
    pub fn graph(&self) -> &OperatorGraph {
        &self.architecture.graph
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
            chunks: self.stages.chunks_per_stage(),
            micro_batches: u32::try_from(self.spec.batch.accumulation).expect("checked with the number of tasks"),
        }
    }

    /// Returns the same plan with another input pipeline.
    ///
    /// # Errors
    ///
    /// Fails if a count of the input is out of range.
    pub fn with_input(mut self, input: InputSpec) -> Result<Self, Invalid> {
        check::input(input)?;
        self.spec.input = Some(input);
        Ok(self)
    }

    /// Returns how the ranks of a stage share its layers.
    pub fn sharing(&self) -> Sharing {
        self.mesh().sharing()
    }

    /// Returns the parameters that one rank holds of `layers`, a part of one run. The last of several stages has its
    /// own copy of an embedding table that the first one holds too.
    pub fn held(&self, layers: &Range<usize>) -> ParameterCounts {
        let own = self.graph().order()[layers.clone()].iter().map(|kind| self.parameters_of_kinds[*kind]);
        let stages = self.stages();
        let copies = stages.at(0).0 != stages.at(stages.chunks() - 1).0 && layers.end == self.graph().len();
        let shared = if copies { self.shared_on_rank() } else { 0 };
        let any = u32::from(shared > 0);
        let copy = ParameterCounts {
            parameters: shared,
            tensors: any,
            matrices: any,
            in_32_bits: shared,
            ..ParameterCounts::default()
        };
        own.fold(copy, std::ops::Add::add)
    }

    /// Returns the parameters that one rank of a stage holds, over all its runs.
    pub fn held_by(&self, stage: StageId) -> ParameterCounts {
        self.stages()
            .chunks_of(stage)
            .map(|layers| self.held(&layers))
            .fold(ParameterCounts::default(), std::ops::Add::add)
    }

    /// Returns one rank's part of the embedding table that the first and the last layer share, in values.
    pub fn shared_on_rank(&self) -> u64 {
        self.graph().shared_parameters().div_ceil(u64::from(self.mesh().tensor()))
    }

    /// Iterates over the layers of some runs, with the memory of each.
    pub(crate) fn layers_in<'p>(
        &'p self,
        chunks: &'p [Range<usize>],
    ) -> impl Iterator<Item = (&'p Layer, LayerMemory)> {
        let distinct = self.graph().distinct();
        let held = || self.architecture.held.memory(&self.spec, self.sharing(), distinct);
        let memory = self.memory_of_kinds.get_or_init(held);
        let kinds = chunks.iter().flat_map(|layers| &self.graph().order()[layers.clone()]);
        kinds.map(move |kind| (&distinct[*kind], memory[*kind]))
    }

    /// Returns the bytes of activations that one micro-batch keeps in some layers between forward and backward.
    pub fn kept_activations(&self, layers: &Range<usize>) -> Bytes {
        self.layers_in(std::slice::from_ref(layers)).map(|(_, memory)| Bytes(memory.kept)).sum()
    }

    /// Returns the bytes that one rank sends for one micro-batch across the stage boundary after a layer.
    pub fn boundary_bytes(&self, layer: usize) -> Bytes {
        let Sharing { tensor, sequence, context, .. } = self.sharing();
        let parts = context * if sequence { tensor } else { 1 };
        let elements = self.graph().layer(layer).output_elements.div_ceil(parts) * self.batch().micro;
        Bytes(elements * self.precision().element_bytes())
    }

    /// Returns the number of samples of a step that one replica computes.
    pub fn samples_per_replica(&self) -> u64 {
        self.spec.batch.global / u64::from(self.mesh.data())
    }
}

impl TryFrom<PlanSpec> for Plan {
    type Error = Invalid;

    fn try_from(spec: PlanSpec) -> Result<Self, Invalid> {
        let model =
            Model::try_from(spec.model).map_err(|error| Invalid::inside("model", &error).maybe_hint(error.hint()))?;
        let architecture =
            Architecture::tuned(model, spec.fine_tuning.as_ref()).map_err(|error| error.within("fine_tuning"))?;
        let model = architecture.model.spec();
        Self::of(architecture, PlanSpec { model, ..spec })
    }
}

impl Plan {
    /// Validates `spec`, whose model is that of `architecture`, as is the part of it that is trained: a search makes many
    /// plans of one model.
    ///
    /// # Errors
    ///
    /// Fails if the parts of `spec` do not fit together.
    pub fn of(architecture: Arc<Architecture>, spec: PlanSpec) -> Result<Self, Invalid> {
        let graph = &architecture.graph;
        check::degrees(&architecture.model, spec.parallel, &spec.cluster)?;
        check::batch(spec.batch, spec.parallel.data)?;
        check::cluster(&spec)?;
        check::parallel(&spec, graph)?;
        let spec = PlanSpec { fine_tuning: architecture.fine_tuning.clone(), ..spec };
        check::fine_tuning(&spec)?;
        architecture.check_micro_batch(spec.batch.micro)?;
        check::tasks(&spec, graph.len())?;
        check::schedule(&spec)?;
        check::sharding(&spec)?;
        check::update(&spec)?;
        spec.input.map_or(Ok(()), check::input)?;
        let (pipeline, chunks) = (spec.parallel.pipeline, spec.virtual_stages);
        let stages = Stages::from_specs(&spec.stages, graph.len(), pipeline, chunks, spec.schedule)?;
        let mesh = Mesh::new(spec.parallel, spec.placement, spec.sharding_ranks);
        let parameters_of_kinds = architecture.held.parameters(&spec, &mesh, graph.distinct());
        Ok(Self { spec, architecture, mesh, stages, parameters_of_kinds, memory_of_kinds: OnceLock::new() })
    }
}
