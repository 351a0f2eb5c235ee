//! Running a plan: what `train` and `run` share. Everything that a run leaves behind goes into one folder.

use super::comparison::{comparison, draw, traces};
use super::watch::{Watch, warn_of, warn_of_learning};
use crate::allocator::ALLOCATOR;
use crate::arguments::{KEEP, MAX_SKIPPED, ReliabilityArguments, TrainArguments};
use crate::failure::{Exit, Failure};
use crate::files;
use crate::history::{History, Outcome};
use crate::interrupt::on_interrupt;
use crate::output::{Output, json};
use crate::read;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use trainyard_data::DataSource;
use trainyard_executor::process_group::World;
use trainyard_executor::{
    AllocationMeter, Evaluation, HyperParameters, RunEnd, RunError, RunOptions, RunReport, dropout_beside,
    oversubscription, refusal, run_in,
};
use trainyard_hardware_profiles::DeviceKind;
use trainyard_history::Kind;
use trainyard_models::Dropout;
use trainyard_plan::document::{ComparisonDocument, Files, PlanDocument};
use trainyard_plan::{Decay, LearningRate, Method, Plan, Timeline};
use trainyard_planner::forward_passes;
use trainyard_reports::{self as reports, Scheme};
use trainyard_units::{Invalid, Seconds, counted, human_count};

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

    /// Warns of steps after those over which the learning rate decays, and of a rate that is still rising at the end.
    fn warn_of_low_rate(&self, output: &Output) {
        let (rate, planned) = (self.learning_rate(), self.document.prediction.steps);
        if let Some(warning) = unfinished_warm_up(rate, self.steps) {
            output.warn(warning);
        }
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

/// Returns a warning if a training ends while its learning rate still rises.
fn unfinished_warm_up(rate: LearningRate, steps: u64) -> Option<String> {
    (rate.warm_up > steps).then(|| {
        format!(
            "the learning rate rises for {}, but the training has {}: it ends at {} of {}; fewer `warm_up_steps` reach all of it",
            counted(rate.warm_up, "step"),
            human_count(steps),
            rate.at(steps),
            rate.peak
        )
    })
}

/// The predicted time from one checkpoint to the next, so that a run that is killed has not worked for nothing.
const CHECKPOINT_INTERVAL: Seconds = Seconds(600.0);

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
        // What is under way may take long. A reader of what is said may have been ended by the same Ctrl-C.
        let _ = writeln!(std::io::stderr(), "\nstopping as soon as what is under way is done; again to stop at once");
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
    warn_of_learning(&outcome.report, watch.passes(&outcome.report), output);
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
        .with_all(read::named_by(execution.document, &execution.plan_file))
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

/// Returns the words behind `trainyard` that run a plan on this data as `train` with these arguments would.
pub(crate) fn run_words(plan: &Path, data: &DataSource, seed: u64, arguments: &TrainArguments) -> Vec<String> {
    let mut words = vec!["run".to_owned(), path(plan)];
    words.extend(data_flags(data));
    words.extend(["--seed".into(), seed.to_string()]);
    words.extend(arguments.weights.iter().flat_map(|weights| ["--weights".into(), path(weights)]));
    words.extend(reliability_flags(arguments.reliability));
    words
}

/// Returns the command-line flags of the data.
pub(crate) fn data_flags(data: &DataSource) -> Vec<String> {
    let given = [("--tokenizer", &data.tokenizer), ("--held-out", &data.held_out)];
    let given = given.into_iter().filter_map(|(flag, file)| Some([flag.into(), path(file.as_ref()?)]));
    ["--data".into(), path(&data.path)].into_iter().chain(given.flatten()).collect()
}

/// Returns the command-line flags of checkpoints and skipped steps, where they differ from the defaults.
fn reliability_flags(arguments: ReliabilityArguments) -> Vec<String> {
    let ReliabilityArguments { checkpoint_every, keep, max_skipped } = arguments;
    let flags = [
        ("--checkpoint-every", checkpoint_every),
        ("--keep", Some(u64::from(keep)).filter(|_| keep != KEEP)),
        ("--max-skipped", Some(u64::from(max_skipped)).filter(|_| max_skipped != MAX_SKIPPED)),
    ];
    let given = flags.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?.to_string()]));
    given.flatten().collect()
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
    written.extend(planned(execution));
    // What cannot be made again is written first: a disk may have no room for the rest.
    let first = files::write_all(&[(&measurement, json(report)), (&file("comparison.json"), json(&document))]);
    let result = first.and_then(|()| files::write_all(&written));
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

/// Returns the plan for the folder of a run, where it is not there already: the files that it names are named from there.
fn planned(execution: &Execution<'_>) -> Option<(PathBuf, String)> {
    let copy = execution.folder.join("plan.json");
    if files::folder_of(&execution.plan_file) == execution.folder {
        return None;
    }
    let mut document = execution.document.clone();
    let cluster = &mut document.plan.cluster;
    for named in [&mut cluster.profile, &mut cluster.file, &mut cluster.constants].into_iter().flatten() {
        let target = files::beside(&execution.plan_file, Path::new(named.as_str()));
        *named = files::relative(&execution.folder, &target).display().to_string();
    }
    Some((copy, json(&document)))
}

/// Adds to a failure to write results that the training is done, and where its weights are.
fn unwritten(failure: Failure, execution: &Execution<'_>) -> Failure {
    let checkpoint = execution.checkpoint.display();
    failure.maybe_hint(Some(format!("the training is complete, its checkpoint is `{checkpoint}`")))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn a_learning_rate_that_still_rises_at_the_end_is_warned_of() {
        let training = trainyard_plan::TrainingSpec {
            learning_rate: Some(0.5),
            warm_up_steps: Some(10),
            ..trainyard_plan::TrainingSpec::default()
        };
        let warning = |steps| unfinished_warm_up(LearningRate::of(&training, steps), steps);
        let told = warning(4).expect("it ends before");
        assert!(told.contains("10 steps") && told.contains("ends at 0.2 of 0.5"), "{told}");
        assert_eq!(warning(10), None);
    }

    const ALONE: &str = "commands::execution::tests::a_program_that_is_signalled_twice";

    fn wait() {
        std::thread::sleep(Duration::from_millis(300));
    }

    /// Ignored because the signals are the whole process's.
    #[test]
    #[ignore = "runs alone, in the process that the_second_signal_ends_a_program_that_nobody_reads starts"]
    fn a_program_that_is_signalled_twice() {
        let stop = stop_on_interrupt();
        for _ in 0..2 {
            let own = std::process::id().to_string();
            assert!(Command::new("kill").args(["-TERM", &own]).status().expect("kill is there").success());
            wait();
            assert!(stop.load(Ordering::Relaxed));
        }
        panic!("it is still there");
    }

    /// As of `trainyard train job.toml 2>&1 | tee log`, where Ctrl-C ends `tee` too.
    #[test]
    fn the_second_signal_ends_a_program_that_nobody_reads() {
        let program = std::env::current_exe().expect("a path");
        let mut child = Command::new(program)
            .args(["--exact", ALONE, "--ignored", "--nocapture"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program of the tests starts");
        drop(child.stderr.take());
        assert_eq!(child.wait().expect("it ends").code(), Some(Exit::Stopped as i32));
    }
}
