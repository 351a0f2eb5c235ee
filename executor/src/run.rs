//! Runs a plan: ranks as threads of this process or of several, each with its own pool of processor threads.

use crate::device::{
    DeviceError, Devices, check_format, computes_in_place, device, free_memory, main_memory, reserved_memory,
};
use crate::groups::Groups;
use crate::guard::{Finding, Guard, Verdict};
use crate::loader::{Loader, LoaderError};
use crate::memory::{AllocationMeter, MemoryShortage, MemoryWatch, check_memory, fits};
use crate::network::{Network, ParameterKey};
use crate::optimizer::HyperParameters;
use crate::precision::LossScale;
use crate::process_group::{GroupError, ProcessGroup, RankError, Reduction, World, run_ranks};
use crate::refusal::{network, wanted};
use crate::report::{
    CheckpointReport, HeldOutReport, Phase, ResumedFrom, RunEvent, RunReport, Span, StepReport, phases_of,
};
use crate::trainer::{StepResult, Trainer, TrainerOptions};
use crate::weights::{FirstWeights, WeightError};
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use trainyard_checkpoint::{
    self as checkpoint, Base, Checkpoint, CheckpointError, DataEntry, Hold, LossScalerState, Open, Progress, Writer,
};
use trainyard_data::{DataError, DataSource, Dataset, Slice};
use trainyard_hardware_profiles::DeviceKind;
use trainyard_host::{Clock, processor_time, threads_per_rank};
use trainyard_models::Model;
use trainyard_plan::document::Phases;
use trainyard_plan::{LearningRate, Plan, Precision, Rank};
use trainyard_units::Invalid;

mod adapter;
mod companions;
mod evaluating;
mod gathering;
mod reporting;
mod saving;

pub use evaluating::Evaluation;
use evaluating::evaluate;
use reporting::report;

/// Steps left out of the statistics at the start of a run: memory is touched for the first time and caches fill.
const WARM_UP_STEPS: usize = 3;

/// The steps whose spans are kept, to choose a representative one from.
const SPANS_KEPT: usize = 32;

/// Options of a training run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The data to train on.
    pub data: DataSource,
    /// Optimizer steps that the training shall have when it is done, those of resumed runs included.
    pub steps: u64,
    /// The learning rate schedule.
    pub learning_rate: LearningRate,
    /// The optimizer's other numbers.
    pub hyper_parameters: HyperParameters,
    /// The greatest norm that the gradient of all parameters may have (Pascanu et al., arXiv:1211.5063, section 3.2).
    pub clip_norm: Option<f64>,
    /// Steps in a row whose gradients may be other than finite, and are not taken, before the run ends.
    pub skips_max: u32,
    /// Seed of first parameters, of the data order and of dropout.
    pub seed: u64,
    /// The checkpoint path: a folder of checkpoints, or one checkpoint to resume from, beside which new ones are
    /// written.
    pub checkpoint: Option<PathBuf>,
    /// Steps after which a checkpoint is written, again and again; one is written at the end in any case.
    pub checkpoint_every: Option<u64>,
    /// Number of checkpoints to keep.
    pub keep: usize,
    /// When and on how many held-out samples the model is evaluated besides both ends; if left out, on 128 at the end, and before
    /// the first step where that is cheap.
    pub evaluation: Option<Evaluation>,
    /// `true` to resume from the newest checkpoint there.
    pub resume: bool,
    /// The kind of device that ranks compute on.
    pub device: DeviceKind,
    /// Processor threads that the run may use; all of the machine without it.
    pub threads: Option<usize>,
    /// A file or folder of weights in the safetensors format to start from, under Hugging Face's names, in place of
    /// random ones. A resumed run goes on from its checkpoint instead, which of adapters does not hold what they stand
    /// beside: that is read again, here or where it was.
    pub weights: Option<PathBuf>,
    /// Tells of allocated memory; without it, the system is asked, where it tells.
    pub allocations: Option<AllocationMeter>,
    /// The plan as the user wrote it, kept in checkpoint and report.
    pub plan_document: serde_json::Value,
    /// `true` to use this crate's own kernels where they apply, as outside of tests.
    #[cfg(test)]
    pub(crate) kernels: bool,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// Measurements of the run.
    pub report: RunReport,
    /// Path of the last checkpoint.
    pub checkpoint: Option<PathBuf>,
}

/// Why a run did not end well.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The plan is not one for this executor, or an option has a value that it cannot have.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is nothing to compute on.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The plan does not fit into what is free of this machine's memory.
    #[error(transparent)]
    Memory(#[from] MemoryShortage),
    /// The data is not usable.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A checkpoint could not be read or written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The weights to start from are not usable.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// The training is already as long as was asked for.
    #[error("`steps` is {asked}, but the checkpoint `{}` has {done} already", path.display())]
    NothingToDo {
        /// Steps asked for.
        asked: u64,
        /// Steps done.
        done: u64,
        /// The checkpoint.
        path: PathBuf,
    },
    /// Gradients were no numbers for too long. The last checkpoint is whole.
    #[error("{skipped} steps in a row up to step {step} had gradients that are no numbers; the loss was {loss}")]
    Diverged {
        /// The last step.
        step: u64,
        /// Steps that were not taken.
        skipped: u32,
        /// The last loss.
        loss: f32,
    },
    /// A rank failed.
    #[error("rank {rank} failed: {reason}")]
    Rank {
        /// The rank that failed, numbered in the whole job.
        rank: usize,
        /// The error message of the rank.
        reason: String,
    },
    /// The run ended early, but a whole checkpoint is there to go on from.
    #[error("the run ended early; the checkpoint of step {step} is whole: `{}`", checkpoint.display())]
    EndedEarly {
        /// The newest whole checkpoint.
        checkpoint: PathBuf,
        step: u64,
        /// The cause.
        source: Box<RunError>,
    },
}

impl RunError {
    /// Returns `true` if the input is at fault, rather than something that happened during the run.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Invalid(_)
            | Self::Device(_)
            | Self::Memory(_)
            | Self::Data(_)
            | Self::Weights(_)
            | Self::NothingToDo { .. } => true,
            Self::Checkpoint(error) => error.is_input(),
            Self::Diverged { .. } | Self::Rank { .. } | Self::EndedEarly { .. } => false,
        }
    }

    /// Returns what the user may do about the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Invalid(invalid) => invalid.hint(),
            Self::Device(error) => Some(error.hint.clone()),
            Self::Memory(shortage) => Some(shortage.hint.clone()),
            Self::Weights(error) => Some(error.hint().into()),
            Self::Checkpoint(error) => error.hint(),
            Self::NothingToDo { .. } => Some("ask for more with --steps".into()),
            Self::Diverged { .. } => Some("a lower learning rate, a longer warm-up or clipping may help".into()),
            Self::EndedEarly { source, .. } => source.hint(),
            Self::Data(error) => Some(error.hint().into()),
            Self::Rank { .. } => None,
        }
    }
}

/// Why a rank stopped early. Others hear its message alone, which therefore tells causes too.
#[derive(Debug, thiserror::Error)]
enum WorkerError {
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error("cannot start its threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    #[error("gradients are no numbers in step {step}")]
    Diverged { step: u64, skipped: u32, loss: f32 },
    #[error("{}", with_causes(.0))]
    Samples(#[from] LoaderError),
    #[error("{}", with_causes(.0))]
    Checkpoint(#[from] CheckpointError),
    #[error("{}", with_causes(.0))]
    Weights(#[from] WeightError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Returns an error's message and those of its causes.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Finds out what is wrong with weights that a training of `model` is to start from. Reads none of their values.
///
/// # Errors
///
/// When they are not those of the model, or the model cannot be trained here.
pub fn check_weights(path: &Path, model: &Model) -> Result<(), RunError> {
    FirstWeights::find(path, model, &Network::new(model)?)?;
    Ok(())
}

/// State of a run that all ranks share.
struct Job<'a> {
    plan: &'a Plan,
    network: &'a Network,
    options: &'a RunOptions,
    data: &'a Arc<Dataset>,
    /// The manifest's entry for the data.
    entry: &'a DataEntry,
    resumed: Option<&'a Checkpoint>,
    /// The folder that checkpoints are written to.
    checkpoints: Option<PathBuf>,
    /// Opens their files.
    open: Open<'a>,
    /// The newest whole checkpoint, with its steps.
    whole: &'a Mutex<Option<(PathBuf, u64)>>,
    first_weights: Option<&'a FirstWeights>,
    /// The weights beside which adapters are trained, where they are none of random values.
    base: Option<&'a Base>,
    threads: usize,
    /// `true` if all ranks are those of this process.
    is_alone: bool,
    clock: Clock,
    memory: MemoryWatch,
    observer: &'a (dyn Fn(RunEvent) + Sync),
    stop: &'a AtomicBool,
}

/// The results of one rank at the end of the run.
#[derive(Default)]
struct WorkerOutcome {
    steps: Vec<StepReport>,
    phases: Vec<Phases>,
    /// The spans of the last steps, with the step's number.
    spans: VecDeque<(u64, f64, Vec<Span>)>,
    evaluations: Vec<HeldOutReport>,
    interrupted: bool,
    /// Seconds that it waited for samples.
    waited_s: f64,
    memory: Option<u64>,
    /// Seconds of processor time that its process had for the steps.
    processor_s: Option<f64>,
    /// Samples that its process met and could not decode, by number.
    corrupt: BTreeSet<usize>,
    /// Steps of the whole training that were skipped.
    skipped: u64,
    /// The checkpoints written; filled on the first rank only.
    checkpoints: Vec<CheckpointReport>,
}

/// Trains `plan`. `observer` hears of each step and evaluation as it ends; when `stop` becomes true, the step is finished and the run
/// ends with [`crate::RunEnd::Interrupted`]. Either way a checkpoint is written at the end, if a place was given.
///
/// # Errors
///
/// When the plan, the data or the checkpoint is not usable, nothing is written. When something fails later, a rank or
/// the disk, the error is [`RunError::EndedEarly`] if there is a whole checkpoint to go on from.
pub fn run(
    plan: &Plan,
    options: &RunOptions,
    observer: &(dyn Fn(RunEvent) + Sync),
    stop: &AtomicBool,
) -> Result<RunOutcome, RunError> {
    let world = World::threads(plan.mesh().ranks() as usize);
    run_in(&world, plan, options, observer, stop).map(|outcome| outcome.expect("the first rank lives in this process"))
}

/// Performs [`run`] with the ranks of `world`, which are as many as those of the plan. All its processes must call it,
/// with files under the same paths. The process of rank 0 hears of steps, is asked to stop, and returns the outcome;
/// the others return `None`.
///
/// # Errors
///
/// As those of [`run`]. Where there are several processes, end the job with [`World::abort`] then.
pub fn run_in(
    world: &World,
    plan: &Plan,
    options: &RunOptions,
    observer: &(dyn Fn(RunEvent) + Sync),
    stop: &AtomicBool,
) -> Result<Option<RunOutcome>, RunError> {
    run_on(world, plan, options, observer, stop, &checkpoint::create)
}

/// Performs [`run_in`] with checkpoint files opened by `open`.
fn run_on(
    world: &World,
    plan: &Plan,
    options: &RunOptions,
    observer: &(dyn Fn(RunEvent) + Sync),
    stop: &AtomicBool,
    open: Open<'_>,
) -> Result<Option<RunOutcome>, RunError> {
    let network = network(plan)?;
    if world.ranks() != plan.mesh().ranks() as usize {
        return Err(Invalid::value("ranks", world.ranks(), "as many as the plan has").into());
    }
    check(options)?;
    check_format(plan, options.device)?;
    check_room(world, plan, options.device)?;
    let wanted = wanted(plan)?;
    let data = Dataset::open(&options.data, &wanted, plan.batch().global as usize, options.seed)?;
    let evaluated = options.evaluation.map_or(evaluating::USUAL_SAMPLES, |evaluation| evaluation.samples);
    let data = Arc::new(data.evaluating(usize::try_from(evaluated).unwrap_or(usize::MAX)));
    let entry = DataEntry { bytes: data.bytes(), checksum: data.checksum().to_owned() };
    // Asked before anything is written: the one that is resumed from may be gone later.
    let checkpoints = options.checkpoint.as_deref().map(|path| checkpoint::home(path).to_owned());
    let _hold = checkpoints.as_deref().map(|folder| prepare(folder, world, options)).transpose()?;
    let resumed = resume(plan, &network, options, &entry)?;
    let whole = Mutex::new(resumed.as_ref().map(|from| (from.path().to_owned(), from.manifest().progress.step)));
    let base = match (&resumed, options.weights.as_deref()) {
        _ if !network.has_adapters() => None,
        (Some(checkpoint), given) => adapter::base_of(checkpoint, given)?,
        (None, given) => given.map(adapter::base).transpose()?,
    };
    let kept = base.as_ref().map(|base| Path::new(&base.path));
    let first_weights = kept.or(options.weights.as_deref().filter(|_| resumed.is_none()));
    let first_weights = first_weights.map(|path| FirstWeights::find(path, plan.model(), &network)).transpose()?;
    let threads =
        options.threads.map_or(world.threads_per_rank(), |cores| threads_per_rank(cores, world.ranks_on_host()));
    let job = Job {
        plan,
        network: &network,
        options,
        data: &data,
        entry: &entry,
        resumed: resumed.as_ref(),
        checkpoints,
        open,
        whole: &whole,
        first_weights: first_weights.as_ref(),
        base: base.as_ref(),
        threads,
        is_alone: world.processes() == 1,
        clock: Clock::start(),
        memory: MemoryWatch::start(options.allocations),
        observer,
        stop,
    };
    let outcomes = collect(run_ranks(world, |group| work(&job, group)), world.local().start)
        .map_err(|error| ended_early(error, &whole))?;
    if !world.is_root() {
        return Ok(None);
    }
    let report = report(&job, &outcomes);
    let checkpoint = newest(&whole).filter(|_| options.checkpoint.is_some()).map(|(path, _)| path);
    Ok(Some(RunOutcome { report, checkpoint }))
}

/// Checks that the ranks known to be on this host fit into its memory.
fn check_room(world: &World, plan: &Plan, device: DeviceKind) -> Result<(), RunError> {
    // Which ranks other processes of this host have is not known where there are several hosts.
    let all_here = world.ranks_on_host() == world.ranks();
    let here = if all_here { 0..world.ranks() } else { world.local() };
    let first_place = if all_here { 0 } else { world.places_on_host().start };
    let here: Vec<(Rank, usize)> = here.map(|rank| Rank(rank as u32)).zip(first_place..).collect();
    let places: Vec<usize> = here.iter().map(|(_, place)| *place).collect();
    let Some(free) = free_memory(device, &places)? else {
        return Ok(check_memory(plan, here.into_iter().map(|(rank, _)| rank))?);
    };
    let count = Devices::find(device)?.count;
    for (gpu, available) in free {
        let ranks = here.iter().filter(|(_, place)| place % count == gpu).map(|(rank, _)| *rank);
        fits(plan, ranks, &format!("the memory of GPU {gpu}"), available)?;
    }
    Ok(())
}

fn newest(whole: &Mutex<Option<(PathBuf, u64)>>) -> Option<(PathBuf, u64)> {
    // A rank that panicked did not do so while it noted a checkpoint.
    whole.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}

/// Wraps `error` with the newest whole checkpoint, if there is one to resume from.
fn ended_early(error: RunError, whole: &Mutex<Option<(PathBuf, u64)>>) -> RunError {
    match newest(whole) {
        Some((checkpoint, step)) => RunError::EndedEarly { checkpoint, step, source: Box::new(error) },
        None => error,
    }
}

/// Returns the number of tokens of a sample.
fn sequence(plan: &Plan) -> usize {
    plan.model().tokens_per_sample().unwrap_or(1) as usize
}

fn check(options: &RunOptions) -> Result<(), Invalid> {
    if options.steps == 0 {
        return Err(Invalid::value("steps", 0, "at least 1"));
    }
    let rate = options.learning_rate.peak;
    if !(rate.is_finite() && rate > 0.0) {
        return Err(Invalid::value("learning_rate", rate, "a positive number"));
    }
    let wrong = |field, value: &dyn std::fmt::Display, allowed| Err(Invalid::value(field, value, allowed));
    if options.checkpoint_every == Some(0) {
        return wrong("checkpoint_every", &0, "at least 1");
    }
    if options.keep == 0 {
        return wrong("keep", &0, "at least 1");
    }
    if options.resume && options.checkpoint.is_none() {
        return wrong("resume", &true, "given together with a checkpoint folder");
    }
    Ok(())
}

/// Sees to a place for checkpoints before the training: afterwards it would be lost.
fn prepare(folder: &Path, world: &World, options: &RunOptions) -> Result<Option<Hold>, RunError> {
    let hold = world.is_root().then(|| Hold::take(folder)).transpose()?;
    if !options.resume && checkpoint::holds_some(folder)? {
        return Err(CheckpointError::Occupied { path: folder.to_owned() }.into());
    }
    Ok(hold)
}

/// Opens the checkpoint to resume from, if the run is to be resumed.
fn resume(
    plan: &Plan,
    network: &Network,
    options: &RunOptions,
    data: &DataEntry,
) -> Result<Option<Checkpoint>, RunError> {
    let Some(folder) = options.checkpoint.as_ref().filter(|_| options.resume) else { return Ok(None) };
    let checkpoint = Checkpoint::open(folder)?;
    let manifest = checkpoint.manifest();
    let mismatch = |field, found: String, expected: String| {
        Err(CheckpointError::Mismatch { path: checkpoint.path().to_owned(), field, found, expected }.into())
    };
    if manifest.progress.seed != options.seed {
        return mismatch("seed", manifest.progress.seed.to_string(), options.seed.to_string());
    }
    if manifest.data != *data {
        let text = |data: &DataEntry| {
            format!("{} bytes, checksum {} with tokenizer and held-out data", data.bytes, data.checksum)
        };
        return mismatch("data", text(&manifest.data), text(data));
    }
    let optimizer = plan.optimizer().to_string();
    if manifest.optimizer != optimizer {
        return mismatch("optimizer", manifest.optimizer.clone(), optimizer);
    }
    saving::check_model(&checkpoint, &options.plan_document)?;
    saving::check(&checkpoint, network, plan)?;
    if manifest.progress.step >= options.steps {
        let (done, path) = (manifest.progress.step, checkpoint.path().to_owned());
        return Err(RunError::NothingToDo { asked: options.steps, done, path });
    }
    Ok(Some(checkpoint))
}

/// Returns the outcomes that ranks from `start` on know of, or the error of the first that failed by itself.
fn collect(
    results: Vec<Result<Vec<WorkerOutcome>, RankError<WorkerError>>>,
    start: usize,
) -> Result<Vec<WorkerOutcome>, RunError> {
    let mut outcomes = Vec::new();
    let (mut first, mut told) = (None, None);
    for (rank, result) in (start..).zip(results) {
        let error = match result {
            Ok(known) => {
                outcomes.extend(known);
                continue;
            }
            // Told of another's failure; that one has its own message.
            Err(RankError::Failed(WorkerError::Group(GroupError::RankFailed { rank, reason }))) => {
                told.get_or_insert(RunError::Rank { rank, reason });
                continue;
            }
            Err(RankError::Failed(WorkerError::Diverged { step, skipped, loss })) => {
                RunError::Diverged { step, skipped, loss }
            }
            Err(RankError::Failed(WorkerError::Checkpoint(error))) => error.into(),
            Err(RankError::Failed(error)) => RunError::Rank { rank, reason: error.to_string() },
            Err(RankError::Panicked(reason) | RankError::NotStarted(reason)) => RunError::Rank { rank, reason },
        };
        first.get_or_insert(error);
    }
    first.or(told).map_or(Ok(outcomes), Err)
}

/// Runs one rank from start to end.
fn work(job: &Job<'_>, world: ProcessGroup) -> Result<Vec<WorkerOutcome>, WorkerError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(job.threads).build()?;
    // Burn divides its work over the pool it is called from, so ranks do not fight for one.
    pool.install(|| {
        #[cfg(test)]
        crate::kernels::testing::use_kernels(job.options.kernels);
        let groups = Groups::new(world, job.plan, job.options.device)?;
        let trainer = trainer(job, groups)?;
        let at = job.plan.mesh().coordinates(Rank(trainer.world().rank() as u32));
        let batch = job.plan.batch();
        let slice = Slice { micro: batch.micro, accumulation: batch.accumulation, replica: u64::from(at.data) };
        let Progress { step: first, position, .. } = job.start();
        let steps = job.options.steps - first;
        let read = || Loader::start(job.data.clone(), slice, position, batch.global, steps);
        let mut loader = trainer.reads_data().then(read).transpose()?;
        train(job, trainer, loader.as_mut())
    })
}

impl Job<'_> {
    /// Returns the progress of the training before the first step of this run.
    fn start(&self) -> Progress {
        self.resumed.map_or_else(|| Progress::start(self.options.seed), |from| from.manifest().progress)
    }
}

/// Makes a trainer with first or resumed values.
fn trainer(job: &Job<'_>, groups: Groups) -> Result<Trainer, WorkerError> {
    let Job { network, options, first_weights, .. } = *job;
    let device = device(options.device, groups.world.place_on_host())?;
    let own = TrainerOptions {
        hyper_parameters: options.hyper_parameters,
        clip: options.clip_norm,
        seed: options.seed,
        clock: job.clock,
        device,
        main_memory: main_memory(options.device),
    };
    let resumed = job.resumed.map(|checkpoint| saving::Resumed::new(network, checkpoint));
    let unread = RefCell::new(None);
    let values = |key: ParameterKey| {
        let parameter = network.parameter(key);
        if let Some(resumed) = resumed.as_ref().filter(|_| parameter.is_adapter || !network.has_adapters()) {
            return resumed.values(key);
        }
        match first_weights.filter(|_| !parameter.is_adapter) {
            Some(weights) => weights.values(key, parameter).unwrap_or_else(|error| {
                unread.replace(Some(error));
                vec![0.0; parameter.elements()]
            }),
            None => parameter.first_values(key, options.seed),
        }
    };
    let mut trainer = Trainer::new(job.plan, network.clone(), groups, &values, &own);
    if let Some(resumed) = resumed {
        resumed.restore(&mut trainer)?;
    }
    match unread.into_inner() {
        Some(error) => Err(error.into()),
        None => Ok(trainer),
    }
}

fn train(
    job: &Job<'_>,
    mut trainer: Trainer,
    mut loader: Option<&mut Loader>,
) -> Result<Vec<WorkerOutcome>, WorkerError> {
    let rank = trainer.world().rank();
    let mut outcome = WorkerOutcome::default();
    let mut progress = job.start();
    let mut guard = Guard::new(job.options.skips_max, &progress);
    if rank == 0 {
        let resumed = job.resumed.map(|from| Box::new(resumed_from(from)));
        (job.observer)(RunEvent::Begun { data: job.data.report(), resumed });
    }
    trainer.world().barrier()?;
    let trained = job.options.steps.saturating_mul(job.plan.batch().global);
    if job.resumed.is_none() && evaluating::begins(job.options.evaluation, job.data.held_out_samples(), trained) {
        evaluate(job, &mut outcome, &mut trainer, 0)?;
    }
    let had = processor_time();
    while progress.step < job.options.steps && !outcome.interrupted {
        let start = trainer.now();
        let batch = match &mut loader {
            Some(loader) => {
                let loaded = loader.load()?;
                outcome.waited_s += loaded.waited_s;
                loaded.batches
            }
            None => Vec::new(),
        };
        let with_data = trainer.now();
        let step = progress.step + 1;
        let scale_can_fall = trainer.loss_scale().can_fall();
        let result = trainer.step(&batch, progress.position, job.options.learning_rate.at(step))?;
        let (loss, stop) = agree(&mut trainer, result, rank == 0 && job.stop.load(Ordering::Relaxed))?;
        let seconds = trainer.now() - start;
        let verdict = guard.judge(Finding { loss, updated: !result.skipped, scale_can_fall });
        advance(&mut progress, job, *trainer.loss_scale(), &guard, verdict);
        trainer.record_data(start, with_data);
        let report = StepReport { step, loss: f64::from(loss), seconds, ..StepReport::default() };
        note(&mut outcome, &trainer, told(job, &result, report));
        if rank == 0 {
            (job.observer)(RunEvent::Step(outcome.steps[outcome.steps.len() - 1]));
        }
        if verdict == Verdict::Hopeless {
            return Err(WorkerError::Diverged { step, skipped: guard.in_a_row(), loss });
        }
        let last = step == job.options.steps;
        outcome.interrupted = stop && !last;
        if last || stop || job.options.checkpoint_every.is_some_and(|every| step.is_multiple_of(every)) {
            // Before anything else is done: who asked to stop may not wait long.
            save(job, &mut outcome, &trainer, progress)?;
        }
        if !last && !stop && job.options.evaluation.is_some_and(|evaluation| step.is_multiple_of(evaluation.every)) {
            evaluate(job, &mut outcome, &mut trainer, step)?;
        }
    }
    outcome.processor_s = processor_time().zip(had).map(|(now, before)| now - before);
    outcome.memory = if computes_in_place(job.options.device) {
        job.memory.peak()
    } else {
        reserved_memory(job.options.device, trainer.world().places_of_process())
    };
    outcome.skipped = progress.skipped_steps;
    evaluate(job, &mut outcome, &mut trainer, progress.step)?;
    outcome.corrupt = job.data.corrupt_samples();
    Ok(gathering::gathered(trainer.world(), job.clock, outcome)?)
}

/// Tells of the checkpoint that a run goes on from.
fn resumed_from(checkpoint: &Checkpoint) -> ResumedFrom {
    let Progress { step, position, .. } = checkpoint.manifest().progress;
    // It was read and compared before.
    let plan = checkpoint.plan().unwrap_or_default();
    ResumedFrom { checkpoint: checkpoint.path().to_owned(), step, position, plan }
}

/// Counts a step.
fn advance(progress: &mut Progress, job: &Job<'_>, scale: LossScale, guard: &Guard, verdict: Verdict) {
    *progress = Progress {
        step: progress.step + 1,
        position: progress.position + job.plan.batch().global,
        updates: progress.updates + u64::from(verdict == Verdict::Updated),
        skipped_steps: guard.skipped(),
        skipped_in_a_row: guard.in_a_row(),
        seed: progress.seed,
        loss_scaler: scale
            .is_dynamic()
            .then(|| LossScalerState { scale: scale.value(), steps_since_change: scale.good_steps() }),
    };
}

/// Writes a checkpoint, notes it, and only then removes older ones: if that fails, the new one is what there is to go on
/// from.
fn save(job: &Job<'_>, outcome: &mut WorkerOutcome, trainer: &Trainer, progress: Progress) -> Result<(), WorkerError> {
    if let Some(saved) = saving::save(job, trainer, progress)? {
        let is_writer = saved.report.is_some();
        outcome.checkpoints.extend(saved.report);
        let path = saved.path.clone();
        *job.whole.lock().expect("nobody panics while noting a checkpoint") = Some((saved.path, progress.step));
        if let Some(folder) = job.checkpoints.as_ref().filter(|_| is_writer) {
            Writer::prune(folder, &path, job.options.keep)?;
        }
    }
    Ok(())
}

/// Adds to a step's loss and time everything else that is reported of it.
fn told(job: &Job<'_>, result: &StepResult, step: StepReport) -> StepReport {
    let tokens = job.plan.model().tokens_per_sample();
    StepReport {
        tokens_per_s: tokens.map(|tokens| (tokens * job.plan.batch().global) as f64 / step.seconds),
        learning_rate: Some(job.options.learning_rate.at(step.step)),
        gradient_norm: Some(result.gradient_norm).filter(|norm| norm.is_finite()),
        loss_scale: (job.plan.precision() == Precision::Fp16Mixed).then_some(f64::from(result.loss_scale)),
        skipped: result.skipped,
        ..step
    }
}

/// Makes all ranks agree on a step's loss and on whether it is the last step.
fn agree(trainer: &mut Trainer, result: StepResult, stop: bool) -> Result<(f32, bool), GroupError> {
    let started = trainer.now_and_waited();
    let mut known = vec![result.loss, f32::from(u8::from(stop))];
    trainer.world().all_reduce(&mut known, Reduction::Sum)?;
    trainer.record_exchange(Phase::Communication, None, started);
    Ok((known[0], known[1] > 0.0))
}

fn note(outcome: &mut WorkerOutcome, trainer: &Trainer, step: StepReport) {
    outcome.steps.push(step);
    outcome.phases.push(phases_of(trainer.spans(), step.seconds));
    if outcome.spans.len() == SPANS_KEPT {
        outcome.spans.pop_front();
    }
    outcome.spans.push_back((step.step, trainer.now() - step.seconds, trainer.spans().to_vec()));
}

#[cfg(test)]
mod tests;
