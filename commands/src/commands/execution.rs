//! Running a plan: what `train` and `run` share. Everything that a run leaves behind goes into one folder.

use super::train::described;
use crate::allocator::ALLOCATOR;
use crate::arguments::{KEEP, MAX_SKIPPED, ReliabilityArguments};
use crate::failure::{Exit, Failure};
use crate::files;
use crate::history::{History, Outcome};
use crate::interrupt::on_interrupt;
use crate::output::{Output, json};
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use trainyard_data::{DataReport, DataSource, SampleKind};
use trainyard_executor::process_group::World;
use trainyard_executor::{
    AllocationMeter, Evaluation, HeldOutReport, HyperParameters, RunEnd, RunError, RunEvent, RunOptions, RunReport,
    Span, StepReport, describe, dropout_beside, oversubscription, refusal, run_in,
};
use trainyard_hardware_profiles::DeviceKind;
use trainyard_history::Kind;
use trainyard_models::Dropout;
use trainyard_plan::document::{
    COMPARISON_SCHEMA, ComparisonDocument, Errors, Figures, Files, Loss, Phases, PlanDocument, Prediction,
};
use trainyard_plan::{Activity, Decay, Interval, LearningRate, Method, Plan, StageId, StreamKind, Timeline};
use trainyard_planner::forward_passes;
use trainyard_reports::{self as reports, Picture, Process, Scheme, StepPoint};
use trainyard_units::{Instant, Invalid, Seconds, counted, human_count, human_duration};

/// A run to execute, and the places of its results.
pub(crate) struct Execution<'a> {
    /// The ranks.
    pub(crate) world: &'a World,
    /// The plan with its prediction.
    pub(crate) document: &'a PlanDocument,
    /// The plan document's file.
    pub(crate) plan_file: PathBuf,
    /// The simulated step, if the plan was made for this machine; only then does the prediction apply to this run.
    pub(crate) predicted: Option<&'a Timeline>,
    /// The training data.
    pub(crate) data: DataSource,
    /// `true` if nobody has told yet what it is.
    pub(crate) tells_data: bool,
    /// Number of optimizer steps of the training in the end, resumed ones included.
    pub(crate) steps: u64,
    /// Seed of the initial parameters and of the order of data.
    pub(crate) seed: u64,
    /// The folder of all results.
    pub(crate) folder: PathBuf,
    pub(crate) checkpoint: PathBuf,
    /// `true` to resume from the newest checkpoint.
    pub(crate) resume: bool,
    /// The kind of devices that compute.
    pub(crate) device: DeviceKind,
    /// Number of processor threads to use; `None` for all of the machine.
    pub(crate) threads: Option<usize>,
    /// The interval and the number of checkpoints, and the number of steps that may be skipped.
    pub(crate) reliability: ReliabilityArguments,
    /// The weights to start from, in place of random ones.
    pub(crate) weights: Option<PathBuf>,
}

impl Execution<'_> {
    /// Returns the schedule of the learning rate: that of the planned steps, however many are run, so that a run that goes on
    /// has the rates that it would have had.
    fn learning_rate(&self) -> LearningRate {
        LearningRate::of(&self.document.job.training, self.document.prediction.steps)
    }

    /// Warns of steps after those over which the learning rate decays.
    fn warn_of_low_rate(&self, output: &Output) {
        let (rate, planned) = (self.learning_rate(), self.document.prediction.steps);
        if self.steps > planned && rate.decay != Decay::Constant {
            output.warn(format!(
                "the learning rate has decayed to {} after the {} of the plan, and stays there for {} more; a plan for all of \
                 them decays over all",
                rate.last,
                counted(planned, "step"),
                human_count(self.steps - planned)
            ));
        }
    }

    /// Warns of a `config.json` beside the weights that drops out where the plan's model says nothing of that.
    fn warn_of_dropout(&self, plan: &Plan, output: &Output) {
        let asked = self.weights.as_deref().map(dropout_beside).unwrap_or_default();
        if plan.model().dropout() == Dropout::default() && asked.is_on() {
            output.warn(format!(
                "nothing is dropped out, though `config.json` beside the weights says so: plan with \
                 `dropout = {asked}` under [training], or with this `config.json` as the model"
            ));
        }
    }

    /// Warns of adapters beside weights that nobody trained.
    fn warn_of_random_base(&self, plan: &Plan, output: &Output) {
        if plan.method() == Method::Lora && self.weights.is_none() && !self.resume {
            output.warn("adapters are trained beside random weights; `--weights PATH` begins with those of a model");
        }
    }

    /// Tells the optimizer and its numbers in a line: jobs may leave them to defaults.
    fn recipe(&self, plan: &Plan) -> String {
        let training = &self.document.job.training;
        let (optimizer, rate) = (self.document.plan.optimizer, self.learning_rate());
        let HyperParameters { weight_decay, decays_all, .. } = HyperParameters::with(optimizer, training);
        let except = if weight_decay > 0.0 && !decays_all { " except of biases and norms" } else { "" };
        let warm_up = match rate.warm_up {
            0 => String::new(),
            steps => format!(" after {} of warm-up", counted(steps, "step")),
        };
        let then = match rate.decay {
            Decay::Constant => String::new(),
            decay => format!(", {decay} decay to {} at step {}", rate.last, rate.steps),
        };
        let clipping =
            training.clips_at().map_or_else(String::new, |norm| format!(", gradient norm clipped at {norm}"));
        let shares = plan.model().dropout();
        let dropout = if shares.is_on() { format!(", dropout {shares}") } else { String::new() };
        format!(
            "{optimizer}, learning rate {}{warm_up}{then}, weight decay {weight_decay}{except}{clipping}{dropout}",
            rate.peak
        )
    }
}

/// The name of a run's log of steps, in its folder.
pub(super) const METRICS: &str = "metrics.jsonl";

/// The predicted time from one checkpoint to the next, so that a run that is killed has not worked for nothing.
const CHECKPOINT_INTERVAL: Seconds = Seconds(600.0);
/// Number of lines that a short run prints where no progress bar can be drawn.
const LINES: u64 = 10;
/// Seconds of steps after which another line is printed.
const QUIET_S: f64 = 30.0;

/// `true` once the user wants a run to stop.
static STOP: AtomicBool = AtomicBool::new(false);

/// Stops a run when the standard input ends, which its parent holds open for as long as the parent lives.
pub(crate) fn stop_when_input_ends() -> Result<(), Failure> {
    let until_its_end = || {
        // Any input is ignored; an error counts as the end.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        STOP.store(true, Ordering::Relaxed);
    };
    let thread = std::thread::Builder::new().spawn(until_its_end);
    thread.map(drop).map_err(|error| {
        Failure::new(Exit::Failed, "cannot wait for the end of the standard input").because(error.to_string())
    })
}

/// Returns a flag that becomes `true` on Ctrl-C; a second Ctrl-C ends the program at once.
pub(crate) fn stop_on_interrupt() -> &'static AtomicBool {
    on_interrupt(|| {
        STOP.store(true, Ordering::Relaxed);
        // What is under way may take long.
        eprintln!("\nstopping as soon as what is under way is done; again to stop at once");
    });
    &STOP
}

/// Returns the plan of a document, if it is valid and this machine can run it.
pub(crate) fn runnable(
    document: &PlanDocument,
    file: &Path,
    device: DeviceKind,
    threads: Option<usize>,
    output: &Output,
) -> Result<Plan, Failure> {
    let cannot = || Failure::input(format!("cannot run plan `{}`", file.display()));
    let plan = Plan::try_from(document.plan.clone())
        .map_err(|error| cannot().because(format!("in `plan`: {error}")).maybe_hint(error.hint()))?;
    if let Some(refusal) = refusal(&plan) {
        return Err(cannot().because(refusal.to_string()).maybe_hint(refusal.hint()));
    }
    evaluation(document, &plan)
        .map_err(|error| cannot().because(format!("in `job`: {error}")).maybe_hint(error.hint()))?;
    let here = super::device::find(device)?.count;
    let count = threads.filter(|_| device.is_cpu()).unwrap_or(here);
    if count > here {
        output.warn(format!(
            "{} are more than this machine has ({here}): they wait for each other, and the prediction is not for them",
            counted(count as u64, "thread")
        ));
    }
    if let Some(warning) = oversubscription(&plan, device, count) {
        output.warn(warning);
    }
    Ok(plan)
}

/// Runs the plan, writes the measurements, and shows them beside the prediction.
pub(crate) fn execute(
    execution: &Execution<'_>,
    plan: &Plan,
    history: &History,
    output: &Output,
) -> Result<Exit, Failure> {
    let training = &execution.document.job.training;
    let options = RunOptions {
        data: execution.data.clone(),
        steps: execution.steps,
        learning_rate: execution.learning_rate(),
        hyper_parameters: HyperParameters::with(plan.optimizer(), training),
        clip_norm: training.clips_at(),
        skips_max: execution.reliability.max_skipped,
        seed: execution.seed,
        checkpoint: Some(execution.checkpoint.clone()),
        checkpoint_every: execution.reliability.checkpoint_every.or_else(|| usual_interval(execution.document)),
        keep: usize::from(execution.reliability.keep),
        evaluation: evaluation(execution.document, plan).expect("what can be run was checked"),
        resume: execution.resume,
        device: execution.device,
        threads: execution.threads,
        weights: execution.weights.clone(),
        allocations: Some(AllocationMeter { start: || ALLOCATOR.start(), peak_bytes: || ALLOCATOR.peak() }),
        plan_document: serde_json::to_value(execution.document).expect("documents hold only what JSON can hold"),
    };
    let (world, stop) = (execution.world, stop_on_interrupt());
    if !world.is_root() {
        // Only the first process reports progress and writes results.
        return run_in(world, plan, &options, &|_| {}, stop)
            .map(|_| Exit::Done)
            .map_err(|error| ended(&error, execution, output));
    }
    execution.warn_of_dropout(plan, output);
    execution.warn_of_random_base(plan, output);
    execution.warn_of_low_rate(output);
    if let Some(part) = reports::trained_part(plan) {
        output.note(format!("trains    {part}"));
    }
    output.note(format!("optimizer {}", execution.recipe(plan)));
    let watch = Watch::new(execution, plan, output)?;
    let outcome = run_in(world, plan, &options, &|event| watch.event(event), stop).map_err(|error| {
        watch.discard(&execution.folder);
        ended(&error, execution, output)
    })?;
    let outcome = outcome.expect("the first rank lives in this process");
    watch.bar.finish_and_clear();
    warn_of(&outcome.report, options.evaluation, output);
    warn_of_learning(&outcome.report, plan.batch().global, output);
    let checkpoint = outcome.checkpoint.as_deref();
    let (document, written) = keep(execution, &outcome.report, checkpoint, output);
    let kept = history.keep(kept(execution, &document, &outcome.report), output);
    output.result(&document, || reports::comparison(&document, output.width()));
    kept.tell(output);
    if outcome.report.end == RunEnd::Interrupted {
        let message = format!(
            "the run was interrupted after {} of {}",
            human_count(document.steps),
            counted(execution.steps, "step")
        );
        let hint = format!("its checkpoint is complete; `{}` goes on", resumption(execution, checkpoint));
        if let Err(failure) = written {
            output.failure(&failure);
        }
        return Err(Failure::new(Exit::Interrupted, message).hint(hint));
    }
    written.map(|()| Exit::Done)
}

/// Returns the run's entry for the history: predicted beside measured, the measurements, and the plan with the files
/// that it names.
fn kept(execution: &Execution<'_>, document: &ComparisonDocument, report: &RunReport) -> Outcome {
    Outcome::new(Kind::Run, "comparison.json", document, (document, report).into())
        .with("measurement.json", json(report))
        .with("plan.json", json(execution.document))
        .with_all(files::named_by(execution.document, &execution.plan_file))
}

/// Returns the failure of a run. If a rank of several processes failed, others may wait for it for ever: the job is
/// then ended here.
fn ended(error: &RunError, execution: &Execution<'_>, output: &Output) -> Failure {
    let failure = failure(error, execution);
    if execution.world.processes() > 1 && matches!(error, RunError::EndedEarly { .. }) {
        output.failure(&failure);
        execution.world.abort(failure.code() as i32);
    }
    failure
}

/// Returns the failure of a run, with the checkpoint to resume from.
fn failure(error: &RunError, execution: &Execution<'_>) -> Failure {
    let RunError::EndedEarly { checkpoint, .. } = error else {
        let code = if error.is_input() { Exit::Input } else { Exit::Failed };
        return Failure::of(code, error).maybe_hint(error.hint());
    };
    let advice = error.hint().map_or_else(String::new, |hint| format!("{hint}; "));
    Failure::of(Exit::Interrupted, error).hint(format!("{advice}`{}` goes on", resumption(execution, Some(checkpoint))))
}

/// Returns the steps from one checkpoint to the next if the user states none: those that are predicted to take as long as
/// the job says, or ten minutes. The same for all processes, which have the same document.
fn usual_interval(document: &PlanDocument) -> Option<u64> {
    document.plan.cluster.profile.as_ref()?;
    let stated = document.job.campaign.as_ref().and_then(|campaign| campaign.checkpoint_interval.as_deref());
    let interval = stated.and_then(|stated| stated.parse().ok()).unwrap_or(CHECKPOINT_INTERVAL);
    Some((interval.0 / document.prediction.step_time_s).ceil().max(1.0) as u64)
}

/// Returns when and on how much the model is evaluated, if the job says so.
fn evaluation(document: &PlanDocument, plan: &Plan) -> Result<Option<Evaluation>, Invalid> {
    let asked = forward_passes(document, plan)?.evaluations;
    Ok(asked.map(|asked| Evaluation { every: asked.interval, samples: asked.samples }))
}

/// Warns of what happened in a run that ended well.
fn warn_of(report: &RunReport, asked: Option<Evaluation>, output: &Output) {
    let held_out = report.data.held_out_samples as u64;
    if let Some(Evaluation { samples, .. }) = asked.filter(|asked| asked.samples > held_out) {
        output.warn(format!(
            "the model was evaluated on {}, all that are held out; `campaign.evaluation` says {}",
            counted(held_out, "sample"),
            human_count(samples)
        ));
    }
    for slow in &report.slow_ranks {
        let longer = (slow.compute_s / slow.median_s - 1.0) * 100.0;
        output.warn(format!(
            "rank {} computes {longer:.0} % longer than the median of stage {}: {} of a step",
            slow.rank,
            slow.stage,
            human_duration(Seconds(slow.compute_s))
        ));
    }
    if let [first, ..] = report.other_heads.as_slice() {
        let count = counted(report.other_heads.len() as u64, "tensor");
        let more = if report.other_heads.len() > 1 { ", …" } else { "" };
        output
            .warn(format!("the training goes without {count} of the weights, of other tasks' heads: `{first}`{more}"));
    }
    if report.data.corrupt_samples > 0 {
        let (count, files) = (counted(report.data.corrupt_samples as u64, "sample"), &report.data.path);
        output.warn(format!("{count} of {files} could not be decoded, and others were trained on in their place"));
    }
    if report.skipped_steps > 0 {
        let were = if report.skipped_steps == 1 { "was" } else { "were" };
        let steps = counted(report.skipped_steps, "step");
        output.warn(format!("{steps} {were} skipped, because a gradient was NaN or infinite"));
    }
}

/// Warns of a training that diverged, and of one that learnt its samples by heart.
fn warn_of_learning(report: &RunReport, batch: u64, output: &Output) {
    let (loss, passes) = (report.loss, passes(report, batch));
    if loss.last > DIVERGED * loss.first || loss.last.is_nan() {
        output.warn(format!(
            "the loss ended at {:.3}, far above the {:.3} that it began with: the training diverged; a lower `learning_rate`, \
             `warm_up_steps` or `gradient_clip` may keep it from that",
            loss.last, loss.first
        ));
    } else if let Some(held_out) =
        loss.held_out.filter(|held_out| passes >= MANY_PASSES && *held_out > MEMORISED * loss.last)
    {
        output.warn(format!(
            "the held-out loss is {held_out:.3}, that of the last step {:.3}: after {passes:.0} passes over the data the model knows \
             its samples by heart; more data, fewer steps or `dropout` help",
            loss.last
        ));
    }
}

/// A loss that ends at this many times its first value did not just vary from step to step.
const DIVERGED: f64 = 2.0;

/// Passes over the data from which a much lower loss of trained samples tells that they are known by heart.
const MANY_PASSES: f64 = 5.0;
const MEMORISED: f64 = 1.5;

/// Returns how often a training has passed over its data.
fn passes(report: &RunReport, batch: u64) -> f64 {
    let steps = report.resumed_from + report.steps.len() as u64;
    (steps * batch) as f64 / report.data.training_samples.max(1) as f64
}

/// Returns the command that resumes a stopped run, with this as its newest checkpoint.
fn resumption(execution: &Execution<'_>, checkpoint: Option<&Path>) -> String {
    let mut words = vec!["trainyard".to_owned(), "run".into(), path(&execution.plan_file)];
    words.extend(data_flags(&execution.data));
    words.extend(["--steps".into(), execution.steps.to_string(), "--seed".into(), execution.seed.to_string()]);
    words.extend(execution.threads.iter().flat_map(|count| ["--threads".into(), count.to_string()]));
    // By default a run computes on the devices that the profile was measured on, which is what was predicted.
    if execution.predicted.is_none() {
        words.extend(["--device".into(), execution.device.name().into()]);
    }
    if execution.world.processes() > 1 {
        words.extend(["--launcher".into(), "mpi".into()]);
    }
    words.extend(reliability_flags(execution.reliability));
    words.extend(["--checkpoint".into(), path(resumed_from(execution, checkpoint)), "--resume".into()]);
    reports::command(&words)
}

/// Returns the checkpoint from which a run that ended here resumes: the newest in the folder of checkpoints, unless
/// another one was named.
fn resumed_from<'a>(execution: &'a Execution<'_>, newest: Option<&'a Path>) -> &'a Path {
    match newest {
        // New checkpoints go beside the one that was resumed from.
        Some(newest) if newest != execution.checkpoint => files::folder_of(newest),
        _ => &execution.checkpoint,
    }
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// Returns the command-line flags of the data.
pub(crate) fn data_flags(data: &DataSource) -> Vec<String> {
    let given = [("--tokenizer", &data.tokenizer), ("--held-out", &data.held_out)];
    let given = given.into_iter().filter_map(|(flag, file)| Some([flag.into(), path(file.as_ref()?)]));
    ["--data".into(), path(&data.path)].into_iter().chain(given.flatten()).collect()
}

/// Returns the command-line flags of checkpoints and skipped steps, where they differ from the defaults.
pub(crate) fn reliability_flags(arguments: ReliabilityArguments) -> Vec<String> {
    let ReliabilityArguments { checkpoint_every, keep, max_skipped } = arguments;
    let flags = [
        ("--checkpoint-every", checkpoint_every),
        ("--keep", Some(u64::from(keep)).filter(|_| keep != KEEP)),
        ("--max-skipped", Some(u64::from(max_skipped)).filter(|_| max_skipped != MAX_SKIPPED)),
    ];
    let given = flags.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?.to_string()]));
    given.flatten().collect()
}

/// The observers of each step: the progress bar and the metrics log.
struct Watch<'a> {
    bar: ProgressBar,
    metrics: Mutex<std::fs::File>,
    output: &'a Output,
    /// `true` if nobody has told yet what the data is.
    tells_data: bool,
    /// The classes of the model, if it has some.
    classes: Option<u64>,
    batch: f64,
    steps: u64,
    lines: Mutex<Lines>,
}

/// The lines that a run prints: when the last one was.
#[derive(Default)]
struct Lines {
    steps: u64,
    spent_s: f64,
    last_s: f64,
}

impl Lines {
    /// Counts a step. Returns the seconds that are left if it is told of: the first and the last one, some between, and one
    /// after each half minute.
    fn after(&mut self, step: &StepReport, steps: u64) -> Option<f64> {
        self.steps += 1;
        self.spent_s += step.seconds;
        let ends = [1, steps].contains(&step.step) || step.step.is_multiple_of(steps.div_ceil(LINES));
        if !ends && self.spent_s - self.last_s < QUIET_S {
            return None;
        }
        self.last_s = self.spent_s;
        Some(steps.saturating_sub(step.step) as f64 * self.spent_s / self.steps as f64)
    }
}

impl<'a> Watch<'a> {
    fn new(execution: &Execution<'_>, plan: &Plan, output: &'a Output) -> Result<Self, Failure> {
        Ok(Self {
            bar: output.bar(execution.steps, "training {bar:30} {pos}/{len}  {msg}  {eta} left"),
            metrics: Mutex::new(files::create(&execution.folder.join(METRICS))?),
            output,
            tells_data: execution.tells_data,
            classes: SampleKind::of(plan.model()).and_then(|kind| kind.classes()),
            batch: execution.document.plan.batch.global as f64,
            steps: execution.steps,
            lines: Mutex::default(),
        })
    }

    /// Removes the files that were created for a run that never made a step.
    fn discard(&self, folder: &Path) {
        self.bar.finish_and_clear();
        if self.metrics.lock().is_ok_and(|file| file.metadata().is_ok_and(|file| file.len() == 0)) {
            files::discard(folder, METRICS);
        }
    }

    fn event(&self, event: RunEvent) {
        match event {
            RunEvent::Begun { data, resumed } => self.begun(&data, resumed),
            RunEvent::Step(step) => self.step(step),
            // The result tells of the last one.
            RunEvent::HeldOut(found) if found.step < self.steps => self.held_out(found),
            RunEvent::HeldOut(_) => {}
        }
    }

    /// Tells what the model is trained on, how often, and from where on.
    fn begun(&self, data: &DataReport, resumed: Option<(PathBuf, u64)>) {
        if self.tells_data {
            self.output.note(format!("data      {}", described(data)));
        }
        let passes = (self.steps as f64 * self.batch) / data.training_samples.max(1) as f64;
        let passes =
            if passes < 1.0 { format!("{:.1} % of a pass", passes * 100.0) } else { format!("{passes:.1} passes") };
        self.output.note(format!(
            "samples   {} to train on, {} held out; {} are {passes}",
            human_count(data.training_samples as u64),
            human_count(data.held_out_in_all.unwrap_or(data.held_out_samples) as u64),
            counted(self.steps, "step")
        ));
        if let (Some(wanted), found @ 1..) = (self.classes, data.classes.len() as u64)
            && wanted > found
        {
            let path = &data.path;
            self.output.warn(format!(
                "{path} has samples of {found} of the model's {wanted} classes; it never sees the others"
            ));
        }
        if let Some((checkpoint, step)) = resumed {
            let [step, steps] = [step, self.steps].map(human_count);
            self.output.note(format!("resume    {}, written after step {step} of {steps}", checkpoint.display()));
        }
    }

    fn log(&self, line: &str) {
        // A log that cannot be written must not end a training.
        let _ = self.metrics.lock().map(|mut file| writeln!(file, "{line}"));
    }

    fn held_out(&self, found: HeldOutReport) {
        self.log(&serde_json::json!({ "held_out": found }).to_string());
        let accuracy = found.accuracy.map_or_else(String::new, |share| format!("  accuracy {:.1} %", share * 100.0));
        self.output.note(format!("  step {:>5} held-out loss {:.3}{accuracy}", found.step, found.loss));
    }

    fn step(&self, step: StepReport) {
        self.log(&serde_json::to_string(&step).expect("a step holds only what JSON can hold"));
        if step.skipped {
            let why = match step.loss_scale {
                Some(scale) if step.loss.is_finite() => {
                    format!("scaled by {scale}, a gradient overflows fp16; the scale is lowered")
                }
                _ => format!("a gradient is NaN or infinite, the loss is {}", step.loss),
            };
            self.output.note(format!("  step {:>5} skipped: {why}", step.step));
        }
        let said = format!("loss {:.3}  {:.1} samples/s", step.loss, self.batch / step.seconds);
        if let Some(left) = self.lines.lock().ok().and_then(|mut lines| lines.after(&step, self.steps)) {
            let left = if left > QUIET_S { format!("  {} left", human_duration(Seconds(left))) } else { String::new() };
            if !self.output.live() {
                self.output.note(format!("  step {:>5} of {}  {said}{left}", step.step, self.steps));
            }
        }
        self.bar.set_position(step.step);
        self.bar.set_message(said);
    }
}

/// Writes all results of a run. The comparison is returned even where it cannot be written.
fn keep(
    execution: &Execution<'_>,
    report: &RunReport,
    checkpoint: Option<&Path>,
    output: &Output,
) -> (ComparisonDocument, Result<(), Failure>) {
    let file = |name: &str| execution.folder.join(name);
    let (measurement, trace) = (file("measurement.json"), file("trace.json"));
    let mut written = vec![(trace.clone(), traces(execution.predicted, &report.timeline))];
    let prediction = execution.predicted.map(|_| &execution.document.prediction);
    let mut document = comparison(execution.document, prediction, report);
    let plot = file("loss.svg");
    let unit = reports::loss_unit(&document.plan.model);
    let drawn = draw(report, document.predicted.as_ref(), unit);
    match &drawn {
        Ok(picture) => written.push((plot.clone(), picture.svg(Scheme::Auto))),
        Err(why) => output.warn(format!("no plot: {why}")),
    }
    let phases = file("phases.svg");
    let phases_drawn = reports::phases(&document);
    if let Ok(picture) = &phases_drawn {
        written.push((phases.clone(), picture.svg(Scheme::Auto)));
    }
    document.files = Files {
        plan: Some(path(&execution.plan_file)),
        measurement: path(&measurement),
        trace: Some(path(&trace)),
        plot: drawn.is_ok().then(|| path(&plot)),
        phases: phases_drawn.is_ok().then(|| path(&phases)),
        checkpoint: checkpoint.map(path),
    };
    // What cannot be made again is written first: a disk may have no room for the rest.
    let first = files::write_all(&[(&measurement, json(report)), (&file("comparison.json"), json(&document))]);
    let all: Vec<(&Path, &String)> = written.iter().map(|(path, text)| (path.as_path(), text)).collect();
    let result = first.and_then(|()| files::write_all(&all));
    if result.is_err() {
        let there = |path: &PathBuf| path.exists();
        let named = |path: Option<String>| path.filter(|path| there(&path.into()));
        let files = &mut document.files;
        files.measurement = named(Some(std::mem::take(&mut files.measurement))).unwrap_or_default();
        files.trace = named(files.trace.take());
        files.plot = named(files.plot.take());
        files.phases = named(files.phases.take());
    }
    (document, result.map_err(|failure| unwritten(failure, execution)))
}

/// Adds to a failure to write results that the training is done, and where its weights are.
fn unwritten(failure: Failure, execution: &Execution<'_>) -> Failure {
    let checkpoint = execution.checkpoint.display();
    failure.maybe_hint(Some(format!("the training is complete, its checkpoint is `{checkpoint}`")))
}

fn draw(report: &RunReport, predicted: Option<&Figures>, unit: &str) -> Result<Picture, String> {
    let drawable = report.steps.iter().filter(|step| step.loss.is_finite());
    let points: Vec<StepPoint> =
        drawable.map(|step| StepPoint { step: step.step, loss: step.loss, seconds: step.seconds }).collect();
    let finite = report.evaluations.iter().filter(|found| found.loss.is_finite());
    let held_out: Vec<(u64, f64)> = finite.map(|found| (found.step, found.loss)).collect();
    reports::training(&points, predicted, &held_out, unit)
}

/// Compares predicted and measured figures. `prediction` is absent where none was made for this machine.
pub(crate) fn comparison(
    document: &PlanDocument,
    prediction: Option<&Prediction>,
    report: &RunReport,
) -> ComparisonDocument {
    let steps = report.steps.len() as f64;
    let predicted = prediction.map(|prediction| Figures {
        all_steps_s: Some(prediction.step_time_s * steps),
        ..predicted(document, prediction)
    });
    let measured = measured(report);
    let deviation = |predicted: f64, measured: f64| predicted / measured - 1.0;
    let error = predicted.as_ref().map(|predicted| Errors {
        phases: phase_errors(&predicted.phases, &measured),
        step_time: deviation(predicted.step_time_s, measured.step_time_s),
        samples_per_s: deviation(predicted.samples_per_s, measured.samples_per_s),
        memory: predicted
            .memory_bytes
            .zip(measured.memory_bytes)
            .map(|(predicted, measured)| deviation(predicted as f64, measured as f64)),
    });
    let device = &report.device;
    ComparisonDocument {
        schema: COMPARISON_SCHEMA.into(),
        plan: document.plan.clone(),
        device: describe(device.kind, &device.processor, device.cores as usize),
        steps: report.steps.len() as u64,
        predicted,
        measured,
        error,
        loss: Loss {
            first: report.loss.first,
            last: report.loss.last,
            held_out: report.loss.held_out,
            accuracy: report.loss.accuracy,
            evaluated_samples: Some(report.data.held_out_samples as u64),
            held_out_samples: report.data.held_out_in_all.map(|samples| samples as u64),
        },
        files: Files::default(),
    }
}

/// Share of a step below which a phase's error in percent means nothing.
const PHASE_SHARE_MIN: f64 = 0.01;

fn phase_errors(predicted: &Phases, measured: &Figures) -> BTreeMap<String, f64> {
    let least = PHASE_SHARE_MIN * measured.step_time_s;
    let both = predicted.named().into_iter().zip(measured.phases.named());
    both.filter(|(_, (_, measured))| *measured >= least)
        .map(|((name, predicted), (_, measured))| (name.to_owned(), predicted / measured - 1.0))
        .collect()
}

fn predicted(document: &PlanDocument, prediction: &Prediction) -> Figures {
    let parallel = document.plan.parallel;
    let ranks_of_a_stage =
        [parallel.data, parallel.tensor, parallel.context].into_iter().map(u64::from).fold(1, u64::saturating_mul);
    Figures {
        step_time_s: prediction.step_time_s,
        interval_s: prediction.interval_s,
        all_steps_s: None,
        samples_per_s: prediction.samples_per_s,
        memory_bytes: Some(prediction.memory_bytes.of_one_pipeline().saturating_mul(ranks_of_a_stage)),
        phases: prediction.phases,
        processor_share: None,
    }
}

/// Returns the measured figures. Phases are those of the rank that computes longest, as a prediction's are.
pub(super) fn measured(report: &RunReport) -> Figures {
    let busy = |rank: &&trainyard_executor::RankReport| rank.phases.forward_s + rank.phases.backward_s;
    let busiest = report.ranks.iter().max_by(|a, b| busy(a).total_cmp(&busy(b)));
    Figures {
        step_time_s: report.step_time_s,
        interval_s: report.interval_s,
        all_steps_s: Some(report.steps.iter().map(|step| step.seconds).sum()),
        samples_per_s: report.samples_per_s,
        memory_bytes: report.memory_bytes,
        processor_share: report.processor_share,
        phases: busiest.map_or(report.phases, |rank| rank.phases),
    }
}

/// Returns a trace with the simulated step above the measured one of each rank.
fn traces(predicted: Option<&Timeline>, spans: &[Span]) -> String {
    let ranks = spans.iter().map(|span| span.rank).max().map_or(0, |last| last + 1);
    let measured: Vec<(String, Timeline)> = (0..ranks)
        .map(|rank| {
            let own = spans.iter().filter(|span| span.rank == rank);
            (format!("measured, rank {rank}"), Timeline { intervals: own.map(interval).collect(), window: None })
        })
        .collect();
    let predicted = predicted.map(|timeline| Process { name: "predicted", timeline });
    let measured = measured.iter().map(|(name, timeline)| Process { name, timeline });
    reports::trace(&predicted.into_iter().chain(measured).collect::<Vec<_>>())
}

fn interval(span: &Span) -> Interval {
    use trainyard_executor::Phase;
    let stage = StageId(span.stage);
    let micro_batch = span.micro_batch.unwrap_or(0);
    let (activity, stream) = match span.phase {
        Phase::Forward => (Activity::Forward { stage, micro_batch }, StreamKind::Compute(stage)),
        Phase::Backward => (Activity::Backward { stage, micro_batch }, StreamKind::Compute(stage)),
        Phase::Optimizer => (Activity::Update { stage }, StreamKind::Compute(stage)),
        Phase::Communication if span.micro_batch.is_some() => {
            (Activity::Message { stage, micro_batch }, StreamKind::SendForward(stage))
        }
        Phase::Communication | Phase::Reduce => {
            (Activity::ReduceGradients { stage, bucket: 0 }, StreamKind::Reduce(stage))
        }
        Phase::Gather => (Activity::GatherWeights { stage, layer: 0 }, StreamKind::Gather(stage)),
        Phase::Wait => (Activity::Wait { stage, micro_batch: span.micro_batch }, StreamKind::Wait(stage)),
    };
    let at = |seconds: f64| Instant::START.after(Seconds(seconds.max(0.0)));
    Interval { activity, stream, start: at(span.start_s), end: at(span.end_s.max(span.start_s)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_steps_are_told_of_each_half_minute() {
        let told = |seconds: f64, steps: u64| {
            let mut lines = Lines::default();
            let step = |step| StepReport { step, seconds, ..StepReport::default() };
            (1..=steps).filter(|number| lines.after(&step(*number), steps).is_some()).collect::<Vec<u64>>()
        };
        assert_eq!(told(0.1, 40), [1, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40]);
        assert_eq!(told(16.0, 100)[..6], [1, 3, 5, 7, 9, 10]);
        let mut lines = Lines::default();
        let first = StepReport { step: 1, seconds: 2.0, ..StepReport::default() };
        assert_eq!(lines.after(&first, 11), Some(20.0));
    }
}
