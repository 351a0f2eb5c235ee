//! What launchers start on every machine: a script with the arguments that tell it the plan.

use super::Target;
use super::deepspeed;
use super::downloads;
use super::draft::Draft;
use super::ending::{Completion, newest_of_trainer, run_and_tell};
use super::error::LaunchError;
use super::field::Field;
use super::fine_tuning;
use super::megatron;
use super::places::Places;
use super::reclaims::asks_for_checkpoints;
use super::recommender;
use super::script::command_with;
use super::software::Engine;
use super::starter::{self, Script, Starter};
use super::training_arguments::{self, Sharding};
use trainyard_plan::{Collectives, LaunchFile, Precision, StateSharding};

/// A script with the arguments that express the plan.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) script: Script,
    /// What is started instead of the script, if anything.
    pub(super) starter: Option<Starter>,
    /// Where that lies.
    pub(super) starter_at: &'static str,
    /// Its arguments, in groups; each group stands on one line.
    pub(super) arguments: Vec<Vec<String>>,
    /// The search for a checkpoint to resume from, if the launcher must name it to the script.
    pub(super) resume: Option<Resume>,
    /// The test of whether there is nothing left to do.
    pub(super) completion: Completion,
    /// `true` if ranks write a checkpoint and stop on SIGTERM.
    pub(super) is_told: bool,
    /// The packages that the script needs, as `pip install` takes them, where they are known.
    pub(super) packages: Vec<String>,
    /// The command that installs a PyTorch with kernels for the GPUs, where the usual one has none.
    pub(super) pytorch: Option<String>,
    /// Files that must lie beside the script, besides the starter.
    pub(super) files: Vec<LaunchFile>,
    /// A description of the program, for the heads of files.
    pub(super) what: &'static str,
}

impl Program {
    /// Returns the program of a script that reads the arguments of transformers' Trainer.
    pub(super) fn of_trainer(
        draft: &mut Draft<'_>,
        arguments: Vec<(String, String)>,
        places: Places,
        files: Vec<LaunchFile>,
    ) -> Self {
        let (script, what) = fine_tuning::script(draft);
        let (results, is_told) = (places.results(draft), asks_for_checkpoints(draft));
        let stop_steps = is_told.then(|| draft.job.stop_steps());
        let packages = training_arguments::packages(draft, arguments.iter().map(|(name, _)| name.as_str()));
        let is_module = matches!(script, Script::Module(_));
        let channels_last = draft.job.lays_channels_last();
        if channels_last {
            draft.remark(
                "steps are predicted with the network's maps channels last: start.py lays out the model of the Trainer so; a \
                 script with a loop of its own does with model.to(memory_format=torch.channels_last)",
            );
        }
        let gradient_hook = draft.gradient_hook();
        if gradient_hook.is_some() {
            draft.tells(&[Field::GradientCompression]);
        }
        let starter = (is_told || is_module || channels_last || gradient_hook.is_some()).then(|| Starter {
            script: script.clone(),
            stop_steps,
            channels_last,
            gradient_hook,
            search: None,
        });
        Self {
            script,
            starter,
            starter_at: if draft.target == Target::Kubernetes { starter::IN_POD } else { starter::FILE },
            arguments: training_arguments::words(arguments),
            completion: Completion::of_trainer(&results, draft.job.steps()),
            resume: Some(Resume::new(results)),
            is_told,
            packages,
            pytorch: pytorch(draft),
            files,
            what,
        }
    }

    /// Returns the script and its arguments.
    fn words(&self) -> Vec<Vec<String>> {
        let starter = self.starter.iter().map(|_| self.starter_at.to_owned());
        let script = match &self.script {
            Script::File(name) => Some(name.clone()),
            Script::Module(_) => None,
        };
        let mut words = vec![starter.chain(script).collect()];
        words.extend(self.arguments.iter().cloned());
        words
    }

    /// Returns the files that must lie beside the script.
    pub(super) fn files(&self) -> Vec<LaunchFile> {
        self.starter.iter().map(Starter::file).chain(self.files.iter().cloned()).collect()
    }

    /// Returns lines of a shell that start the program with a launcher, from its newest checkpoint if there is one.
    pub(super) fn command(&self, start: &str) -> String {
        match &self.resume {
            Some(resume) => resume.search() + &command_with(start, &self.words(), Some(Resume::ARGUMENT)),
            None => command_with(start, &self.words(), None),
        }
    }

    /// Returns the lines of a shell that start the program unless it has finished, hand on the SIGTERM for which ranks
    /// write a checkpoint, and end with 0 only once it has finished.
    pub(super) fn run(&self, start: &str) -> String {
        let command = self.command(start);
        if self.is_told {
            return self.completion.begin() + &run_and_tell(&command);
        }
        self.completion.run(&command)
    }

    /// Returns [`Self::run`] for a shell that has to write the starter itself.
    pub(super) fn run_in_pod(&self, start: &str) -> String {
        let written = self.starter.as_ref().map(|starter| starter.written_at(self.starter_at));
        written.unwrap_or_default() + &self.run(start)
    }
}

/// The search for the newest checkpoint of transformers' Trainer, which starts anew unless its script is told to
/// resume.
#[derive(Clone, Debug)]
pub(super) struct Resume {
    /// The folder of checkpoints.
    results: String,
}

impl Resume {
    /// The argument that names the checkpoint, if there is one.
    pub(super) const ARGUMENT: &'static str = "${LATEST:+--resume_from_checkpoint \"${LATEST%/*}\"}";

    /// Creates the search in a folder of checkpoints.
    pub(super) fn new(results: String) -> Self {
        Self { results }
    }

    /// Returns shell lines that look for the newest checkpoint that is complete.
    pub(super) fn search(&self) -> String {
        format!("LATEST=$({})\n", newest_of_trainer(&self.results))
    }
}

/// Returns the program that runs the plan under a launcher that only starts processes: Megatron-LM's scripts, or a
/// script with the arguments of transformers' Trainer.
pub(super) fn program(draft: &mut Draft<'_>, places: Places) -> Result<Program, LaunchError> {
    if draft.engine == Engine::Megatron {
        return megatron::program(draft, places);
    }
    data_parallel(draft, places)
}

/// Returns a script with the arguments of transformers' Trainer, which shards states by FSDP or by DeepSpeed; for
/// recommendation models one of the user's own.
pub(super) fn data_parallel(draft: &mut Draft<'_>, places: Places) -> Result<Program, LaunchError> {
    if recommender::has_tables(draft) {
        return recommender::program(draft, places);
    }
    let (sharding, files) = if draft.engine == Engine::Deepspeed {
        (Sharding::Deepspeed, vec![deepspeed::config_file(draft, deepspeed::Reader::Trainer)?])
    } else {
        (Sharding::Fsdp, Vec::new())
    };
    let arguments = training_arguments::arguments(draft, sharding, places)?;
    Ok(Program::of_trainer(draft, arguments, places, files))
}

/// Returns the command that installs a PyTorch with kernels for the GPUs, and notes it, where PyPI's newest has none. Images
/// of SageMaker have one of their own.
pub(super) fn pytorch(draft: &mut Draft<'_>) -> Option<String> {
    let gpu = draft.job.gpu().filter(|_| draft.target != Target::Sagemaker)?;
    let index = &gpu.pytorch_index.as_ref()?.value;
    let command = format!("pip install torch --index-url https://download.pytorch.org/whl/{index}");
    draft.remark(format!(
        "PyTorch from PyPI has no kernels for {} GPUs since release 2.11 (\"no kernel image is available\"): {command}",
        gpu.generation
    ));
    Some(command)
}

/// Returns NCCL's threads for sockets and the sockets of each, of which there are `connections` in all: few threads with at
/// most eight sockets each, as NCCL has them on EC2. It takes at most 16 threads.
fn threads_and_sockets(connections: u32) -> (u32, u32) {
    let parts = |threads: &u32| connections.is_multiple_of(*threads) && connections / threads <= 8;
    let threads = (1..=16).find(parts).unwrap_or(1);
    (threads, connections / threads)
}

/// NCCL's threads for sockets and the sockets of each where no connection is limited but by the processors.
///
/// # Source
///
/// NVIDIA NCCL 2.27, user guide, `NCCL_SOCKET_NTHREADS` and `NCCL_NSOCKS_PERTHREAD`: 4 of each on generic networks of 100 Gbit/s.
const ON_FAST_CARDS: (u32, u32) = (4, 4);

/// Returns the environment variables that the fabric and the number formats need.
pub(super) fn environment(draft: &mut Draft<'_>) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    let mut set = |name: &str, value: &str| variables.push((name.to_owned(), value.to_owned()));
    if draft.job.efa_cards().is_some() {
        set("FI_PROVIDER", "efa");
        if draft.job.efa_reads_gpus() {
            set("FI_EFA_USE_DEVICE_RDMA", "1");
        }
    }
    if draft.job.forces_sockets() {
        set("NCCL_NET", "Socket");
    }
    let limited = draft.job.priced_connections().map(threads_and_sockets);
    if let Some((threads, sockets)) = limited.or(draft.job.needs_several_sockets().then_some(ON_FAST_CARDS)) {
        set("NCCL_SOCKET_NTHREADS", &threads.to_string());
        set("NCCL_NSOCKS_PERTHREAD", &sockets.to_string());
    }
    draft.tells(&[Field::Transport]);
    let algorithm = match draft.job.plan().collectives() {
        Collectives::Ring => Some("Ring"),
        Collectives::Tree => Some("Tree"),
        Collectives::Nccl | Collectives::Hierarchical | Collectives::Smddp => None,
    };
    if let Some(algorithm) = algorithm {
        set("NCCL_ALGO", algorithm);
        draft.tells(&[Field::Collectives]);
    }
    // Without a named stack SageMaker's own library shards in groups.
    let by_library = draft.target == Target::Sagemaker && draft.job.stack().is_none();
    if let Some(shards) = draft.job.sharding_ranks().filter(|_| draft.engine == Engine::Fsdp && !by_library) {
        // Hybrid sharding: the mesh of devices that Accelerate gives to FSDP 2.
        let parallel = draft.job.plan().mesh().parallel();
        set("ACCELERATE_USE_PARALLELISM_CONFIG", "true");
        set("PARALLELISM_CONFIG_DP_REPLICATE_SIZE", &(parallel.data * parallel.context / shards).to_string());
        set("PARALLELISM_CONFIG_DP_SHARD_SIZE", &shards.to_string());
    }
    let shards = draft.engine == Engine::Fsdp && draft.job.plan().state_sharding() != StateSharding::None;
    if shards && draft.starts_from_weights() && draft.target != Target::Accelerate && !by_library {
        // While weights are loaded, transformers looks here for what its arguments say of FSDP; Accelerate's launcher sets it.
        set("ACCELERATE_USE_FSDP", "true");
    }
    if let Some(folder) = downloads::folder(draft) {
        set(downloads::VARIABLE, folder);
    }
    if draft.job.plan().precision() == Precision::Tf32 {
        set("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1");
    }
    if fine_tuning::is_trls(draft) || megatron::has_growing_experts(draft) {
        // Blocks that grow take tensors of any size. Without it the allocator keeps what smaller ones left.
        set("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
    }
    if megatron::wants_one_connection(draft) {
        set("CUDA_DEVICE_MAX_CONNECTIONS", "1");
    }
    of_the_cluster(draft, &mut variables);
    variables
}

/// Adds the variables of the cluster file, which take the place of others.
fn of_the_cluster(draft: &mut Draft<'_>, variables: &mut Vec<(String, String)>) {
    for (name, value) in draft.job.environment() {
        let Some((_, own)) = variables.iter_mut().find(|(own, _)| own == name) else {
            variables.push((name.clone(), value.clone()));
            continue;
        };
        if own != value {
            draft.remark(format!("{name} is {value}, as the cluster file says, where these files would set {own}"));
            own.clone_from(value);
        }
    }
}
