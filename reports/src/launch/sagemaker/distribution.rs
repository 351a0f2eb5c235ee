//! What starts the ranks of a SageMaker job.
//!
//! # Source
//!
//! Amazon SageMaker Developer Guide, "Distributed training in Amazon SageMaker AI"; "The SageMaker model parallel library
//! v2 reference"; SageMaker Python SDK, "The SageMaker Distributed Model Parallel Library", for version 1; images of
//! PyTorch and its Python: the same SDK, 2.257, `image_uri_config/pytorch.json`; their CUDA: AWS Deep Learning Containers,
//! "Available images" (`2.8.0-gpu-py312-cu129-ubuntu22.04-sagemaker`); NVIDIA DALI User Guide, "Installation".

use super::Training;
use crate::launch::draft::Draft;
use crate::launch::error::LaunchError;
use crate::launch::field::{DALI_PACKAGE, Field};
use serde_json::{Map, Value, json};
use trainyard_hardware_profiles::Instance;
use trainyard_plan::{
    Axis, Collectives, Offload, Placement, Plan, Precision, Recompute, ScheduleName, StateSharding, Store,
};

/// Instance families on which version 2 of SageMaker's library for model parallelism runs.
const MODEL_PARALLEL_2: [&str; 5] = ["p4d", "p4de", "p5", "p5e", "p5en"];

/// The library that starts ranks and communicates between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    /// PyTorch's own launcher, torchrun.
    Torchrun,
    /// SageMaker's library for data parallelism.
    DataParallel,
    /// SageMaker's library for model parallelism, version 1, with pipelines.
    ModelParallel1,
    /// Version 2 of that library, upon fully sharded data parallelism, without pipelines.
    ModelParallel2,
}

/// The way to start the ranks of a job.
#[derive(Clone, Debug)]
pub(super) struct Distribution {
    pub(super) library: Library,
    /// Parameters of a library for model parallelism.
    parameters: Map<String, Value>,
    /// Number of ranks on a machine.
    processes: u32,
    /// `true` for a job of one rank, which needs no launcher.
    alone: bool,
}

/// Chooses the distribution of a plan.
pub(super) fn of(draft: &mut Draft<'_>, instance: &Instance) -> Result<Distribution, LaunchError> {
    let plan = draft.job.plan();
    let parallel = plan.mesh().parallel();
    let newer = MODEL_PARALLEL_2.contains(&instance.family());
    let shared = [parallel.tensor, parallel.context, parallel.expert].iter().any(|degree| *degree > 1);
    // A plan that names its software runs on that, not on SageMaker's libraries for model parallelism.
    let named = draft.job.stack().is_some();
    let (library, parameters) = if !named && (parallel.pipeline > 1 || (shared && !newer)) {
        (Library::ModelParallel1, version_1(draft)?)
    } else if !named && (shared || (newer && plan.offload() == Offload::NONE && draft.job.sharding_ranks().is_some())) {
        (Library::ModelParallel2, version_2(draft)?)
    } else if plan.collectives() == Collectives::Smddp {
        if instance.smddp.as_ref().is_none_or(|runs| !runs.value) {
            return Err(draft.cannot(Field::Collectives, "SageMaker's library for data parallelism does not run there"));
        }
        draft.tells(&[Field::Collectives]);
        (Library::DataParallel, Map::new())
    } else {
        (Library::Torchrun, Map::new())
    };
    let (processes, machines) = (draft.job.processes(), draft.job.machines());
    Ok(Distribution { library, parameters, processes, alone: processes * machines == 1 })
}

/// Returns the parameters of version 1: pipelines over DistributedDataParallel.
fn version_1(draft: &mut Draft<'_>) -> Result<Map<String, Value>, LaunchError> {
    let plan = draft.job.plan();
    let parallel = plan.mesh().parallel();
    let schedule = match plan.schedule() {
        // The library's "interleaved" runs each backward pass as soon as it can, which is 1F1B.
        ScheduleName::None | ScheduleName::OneForwardOneBackward => "interleaved",
        ScheduleName::GPipe => "simple",
        _ => return Err(draft.cannot(Field::Schedule, "SageMaker's library for model parallelism runs gpipe and 1f1b")),
    };
    let sharded = match plan.state_sharding() {
        StateSharding::None => false,
        StateSharding::Optimizer => true,
        StateSharding::Gradients | StateSharding::Parameters => {
            let why =
                "SageMaker's library for model parallelism shards no more than the optimizer state beside a pipeline";
            return Err(draft.cannot(Field::StateSharding, why));
        }
    };
    let mut parameters = Map::new();
    let mut set = |name: &str, value: Value| parameters.insert(name.to_owned(), value);
    set("pipeline_parallel_degree", json!(parallel.pipeline));
    set("tensor_parallel_degree", json!(parallel.tensor));
    set("microbatches", json!(plan.batch().accumulation));
    set("pipeline", json!(schedule));
    set("optimize", json!(if parallel.sequence { "memory" } else { "speed" }));
    set("ddp", json!(true));
    set("shard_optimizer_state", json!(sharded));
    match plan.precision() {
        Precision::Fp16Mixed => set("fp16", json!(true)),
        Precision::Bf16Mixed | Precision::Fp8Mixed => set("bf16", json!(true)),
        Precision::Fp32 | Precision::Tf32 => None,
    };
    match placement(plan) {
        Some(order) => {
            set("placement_strategy", json!(order));
        }
        None => draft.remark(format!(
            "plan.placement is {}: the library has cluster (tensor ranks nearest, then stages) and spread (replicas nearest)",
            plan.mesh().placement()
        )),
    }
    draft.tells(&[Field::Placement]);
    offload(draft, "offload_activations", &mut parameters)?;
    draft.tells(&[Field::Pipeline, Field::Tensor, Field::Sequence, Field::Schedule, Field::StateSharding]);
    draft.note(Field::Stages, "auto_partition cuts by its own measure; smp.partition in the script cuts by hand");
    if plan.recompute() == Recompute::Full {
        draft.remark("plan.recompute is full: the script calls smp.set_activation_checkpointing for each layer");
    }
    Ok(parameters)
}

/// Returns the library's name for an order of ranks, where it has one: it writes axes from the farthest to the nearest,
/// cluster is DPT and spread is TPD. Axes of one rank have no order.
fn placement(plan: &Plan) -> Option<&'static str> {
    let placement = plan.mesh().placement();
    if placement == Placement::Spread {
        return None;
    }
    let parallel = plan.mesh().parallel();
    let matters = |axis: &Axis| match axis {
        Axis::Data => parallel.data > 1,
        Axis::Pipeline => parallel.pipeline > 1,
        Axis::Tensor => parallel.tensor > 1,
    };
    let of = |order: [Axis; 3]| -> Vec<Axis> { order.into_iter().filter(matters).collect() };
    let mut wanted = of(placement.order());
    wanted.reverse();
    [("cluster", [Axis::Data, Axis::Pipeline, Axis::Tensor]), ("spread", [Axis::Tensor, Axis::Pipeline, Axis::Data])]
        .into_iter()
        .find(|(_, order)| of(*order) == wanted)
        .map(|(name, _)| name)
}

/// Returns the parameters of version 2: tensor, context and expert parallelism upon fully sharded data parallelism.
fn version_2(draft: &mut Draft<'_>) -> Result<Map<String, Value>, LaunchError> {
    let plan = draft.job.plan();
    let parallel = plan.mesh().parallel();
    let among = match plan.state_sharding() {
        StateSharding::None => 1,
        StateSharding::Parameters => draft.job.sharding_ranks().unwrap_or(parallel.data * parallel.context),
        StateSharding::Optimizer | StateSharding::Gradients => {
            let why = "SageMaker's library for model parallelism shards everything or nothing";
            return Err(draft.cannot(Field::StateSharding, why));
        }
    };
    let mut parameters = Map::new();
    let mut set = |name: &str, value: u32| parameters.insert(name.to_owned(), json!(value));
    set("hybrid_shard_degree", among);
    for (name, degree) in [
        ("tensor_parallel_degree", parallel.tensor),
        ("context_parallel_degree", parallel.context),
        ("expert_parallel_degree", parallel.expert),
    ] {
        if degree > 1 {
            set(name, degree);
        }
    }
    offload(draft, "sm_activation_offloading", &mut parameters)?;
    draft.tells(&[Field::Tensor, Field::Context, Field::Expert, Field::StateSharding, Field::ShardingRanks]);
    draft.note(Field::Sequence, "the library decides by itself which tokens ranks of a tensor group share");
    Ok(parameters)
}

/// Adds the offload of activations to main memory; the library can offload nothing else.
fn offload(draft: &mut Draft<'_>, key: &str, parameters: &mut Map<String, Value>) -> Result<(), LaunchError> {
    let offload = draft.job.plan().offload();
    if offload == (Offload { activations: Some(Store::Host), ..Offload::NONE }) {
        parameters.insert(key.into(), json!(true));
    } else if offload != Offload::NONE {
        let why = "SageMaker's library for model parallelism keeps nothing but activations in main memory";
        return Err(draft.cannot(Field::Offload, why));
    }
    draft.tells(&[Field::Offload]);
    Ok(())
}

impl Distribution {
    /// Returns `true` if ranks share layers or a library shards states.
    pub(super) fn is_model_parallel(&self) -> bool {
        matches!(self.library, Library::ModelParallel1 | Library::ModelParallel2)
    }

    /// Returns the versions of PyTorch and of Python in the library's newest image.
    pub(super) fn versions(&self) -> (&'static str, &'static str) {
        match self.library {
            Library::Torchrun => ("2.8.0", "py312"),
            Library::DataParallel => ("2.2.0", "py310"),
            Library::ModelParallel1 => ("1.13.1", "py39"),
            Library::ModelParallel2 => ("2.4.1", "py311"),
        }
    }

    /// Returns NVIDIA DALI's package for the CUDA of that image: 12.9, 12.1, 11.7 and 12.1. Packages serve for all releases
    /// of CUDA with the same first number.
    pub(super) fn dali(&self) -> &'static str {
        match self.library {
            Library::ModelParallel1 => "nvidia-dali-cuda110",
            Library::Torchrun | Library::DataParallel | Library::ModelParallel2 => DALI_PACKAGE,
        }
    }

    /// Returns the address of that image in a Region.
    pub(super) fn image(&self, region: &str) -> String {
        let (version, python) = self.versions();
        match self.library {
            Library::ModelParallel2 => format!(
                "658645717510.dkr.ecr.{region}.amazonaws.com/smdistributed-modelparallel:{version}-gpu-{python}-cu121"
            ),
            _ => format!("763104351884.dkr.ecr.{region}.amazonaws.com/pytorch-training:{version}-gpu-{python}"),
        }
    }

    /// Returns the `distribution` argument of the Python SDK's estimator; `None` for a single rank.
    pub(super) fn argument(&self) -> Option<Value> {
        let parameters = &self.parameters;
        let parallel = json!({ "modelparallel": { "enabled": true, "parameters": parameters } });
        match self.library {
            Library::Torchrun if self.alone => None,
            Library::Torchrun => Some(json!({ "torch_distributed": { "enabled": true } })),
            Library::DataParallel => Some(json!({ "smdistributed": { "dataparallel": { "enabled": true } } })),
            Library::ModelParallel1 => Some(json!({
                "smdistributed": parallel,
                "mpi": { "enabled": true, "processes_per_host": self.processes },
            })),
            Library::ModelParallel2 => {
                Some(json!({ "torch_distributed": { "enabled": true }, "smdistributed": parallel }))
            }
        }
    }

    /// Returns the hyperparameters that the container reads: what the SDK makes of the argument.
    pub(super) fn hyperparameters(&self, training: &Training) -> Vec<(String, Value)> {
        let named =
            |pairs: Vec<(&str, Value)>| pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let parameters = Value::Object(self.parameters.clone());
        match self.library {
            Library::Torchrun if self.alone => Vec::new(),
            Library::Torchrun => named(vec![
                ("sagemaker_torch_distributed_enabled", json!(true)),
                ("sagemaker_instance_type", json!(training.instance)),
            ]),
            Library::DataParallel => named(vec![
                ("sagemaker_distributed_dataparallel_enabled", json!(true)),
                ("sagemaker_instance_type", json!(training.instance)),
                ("sagemaker_distributed_dataparallel_custom_mpi_options", json!("")),
            ]),
            Library::ModelParallel1 => named(vec![
                ("sagemaker_mpi_enabled", json!(true)),
                ("sagemaker_mpi_num_of_processes_per_host", json!(self.processes)),
                ("sagemaker_mpi_custom_mpi_options", json!("")),
                ("sagemaker_distributed_dataparallel_enabled", json!(false)),
                ("sagemaker_instance_type", json!(training.instance)),
                ("mp_parameters", parameters),
            ]),
            Library::ModelParallel2 => named(vec![
                ("sagemaker_torch_distributed_enabled", json!(true)),
                ("sagemaker_distributed_dataparallel_enabled", json!(false)),
                ("sagemaker_instance_type", json!(training.instance)),
                ("mp_parameters", parameters),
            ]),
        }
    }
}
