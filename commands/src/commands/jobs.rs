//! `trainyard train` for lists of jobs. All of them are read, checked and planned before the first one starts; then
//! they run side by side, each in a process of its own, so that one that fails takes no other along.

use super::beside_weights;
use super::execution::{data_flags, run_words, runnable, stop_on_interrupt};
use super::preparation::{check_data, check_weights, count, place, profile, profile_path, source};
use crate::arguments::{Device, TrainArguments, UNTIL_INPUT_ENDS};
use crate::diagnose;
use crate::failure::{ErrorDocument, Exit, Failure};
use crate::files;
use crate::flags::{self, in_each_job};
use crate::history::{History, Outcome};
use crate::job::{self, Job};
use crate::output::{Output, json};
use crate::read;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use trainyard_calibration::profile_to_toml;
use trainyard_data::{DataReport, DataSource, SampleKind};
use trainyard_hardware_profiles::{DeviceKind, MeasuredMachine};
use trainyard_history::Kind;
use trainyard_host::{Clock, cores};
use trainyard_models::Model;
use trainyard_plan::document::{ComparisonDocument, PlanDocument};
use trainyard_plan::list::{
    JOBS_SCHEMA, JobEnd, JobFigures, JobListSpec, JobOutcome, JobsDocument, ListedJobSpec, VARIANTS_MAX, Variant,
};
use trainyard_plan::{DataSpec, JobSpec, place_at};
use trainyard_planner::Limits;
use trainyard_reports as reports;
use trainyard_units::{Seconds, human_duration};

/// Number of plans that are ranked for each job; only the best runs.
const TOP: usize = 1;
/// Interval at which the stop flag is checked.
const POLL: Duration = Duration::from_millis(100);
/// Maximum number of tables in a path; no field of a job is as deep.
const DEPTH_MAX: usize = 8;
/// The key of the seed, which may vary besides the paths of a job.
const SEED: &str = "seed";

/// The reason why jobs side by side do not run on GPUs.
const ON_PROCESSORS: &str = "jobs that run side by side share processor threads";

/// Returns `true` if a file's content is that of a list of jobs.
pub(crate) fn is_list(file: &Path) -> bool {
    job::has_table(file, &["job"])
}

/// Trains all jobs of a list.
pub(crate) fn train(
    file: &Path,
    arguments: &TrainArguments,
    history: &History,
    output: &Output,
) -> Result<Exit, Failure> {
    only_for_jobs(arguments)?;
    let spec: JobListSpec = diagnose::from_toml("list of jobs", &read::text("list of jobs", file)?, file)?;
    let devices = devices(&spec, file)?;
    let mut jobs = listed(&spec, devices, file, arguments)?;
    check(&mut jobs, file, arguments)?;
    let plans = plan(&mut jobs, file, arguments, output)?;
    let name = file.file_stem().map_or("jobs".into(), |name| name.to_string_lossy());
    let folder = files::run_folder(arguments.out.as_deref(), &name)?;
    let plans: Vec<(PathBuf, String)> =
        plans.into_iter().map(|(name, text)| (folder.join("plans").join(name), text)).collect();
    files::write_all(&plans)?;
    output.note(format!("run       {} jobs on {devices} devices; {}", jobs.len(), folder.display()));

    let command = |job: &Listed| [command(job, &folder, arguments), history.words()].concat();
    let runs = jobs.into_iter().map(|job| Run { command: command(&job), job, outcome: None }).collect();
    let mut queue = Queue { runs, folder: folder.clone(), free: devices, clock: Clock::start(), output };
    let stopped = queue.run(stop_on_interrupt())?;
    let document = document(spec, devices, queue);
    let written = files::write(&folder.join("jobs.json"), json(&document));
    let kept = history.keep(Outcome::new(Kind::Run, "jobs.json", &document, (&document).into()), output);
    output.result(&document, || reports::jobs(&document, output.width()));
    kept.tell(output);
    let exit = verdict(&document, stopped, &folder);
    match (written, &exit) {
        (Err(failure), Ok(_)) => return Err(failure),
        (Err(failure), Err(_)) => output.failure(&failure),
        (Ok(()), _) => {}
    }
    exit
}

/// Returns the exit of the command.
fn verdict(document: &JobsDocument, stopped: bool, folder: &Path) -> Result<Exit, Failure> {
    let (all, failed) = (document.jobs.len(), document.count(JobEnd::Failed));
    let (interrupted, left) = (document.count(JobEnd::Interrupted), document.count(JobEnd::NotStarted));
    // A job may be interrupted by itself, and all may be done when they are told to stop.
    if interrupted + left > 0 && (stopped || failed == 0) {
        let hint = format!(
            "what they said is in {}, and how each goes on; `trainyard run` runs plans in {} that did not start",
            folder.join("logs").display(),
            folder.join("plans").display()
        );
        let not_started = if left > 0 { format!(", {left} did not start") } else { String::new() };
        let why = format!("{interrupted} of {all} jobs were interrupted{not_started}");
        let code = if interrupted > 0 { Exit::Interrupted } else { Exit::Stopped };
        return Err(Failure::new(code, why).hint(hint));
    }
    if failed > 0 {
        let hint = format!("what they said is in {}", folder.join("logs").display());
        return Err(Failure::new(Exit::Failed, format!("{failed} of {all} jobs failed")).hint(hint));
    }
    Ok(Exit::Done)
}

/// One job of the list, planned or ready to be planned.
struct Listed {
    name: String,
    entry: u32,
    varied: Variant,
    seed: u64,
    devices: u32,
    data: DataSource,
    what: What,
}

/// The problem to plan, or its plan.
enum What {
    Job(Box<Job>),
    Planned {
        document: Box<PlanDocument>,
        /// The user's file; a plan that was made here is written with the others.
        file: Option<PathBuf>,
    },
}

fn refused(file: &Path) -> Failure {
    Failure::input(format!("cannot train the jobs of `{}`", file.display()))
}

/// Reports a failure in a job of a list as one of the list.
fn inside(file: &Path, place: &str, failure: &Failure) -> Failure {
    failure.inside(Failure::new(failure.code(), refused(file).message()), place)
}

/// Returns the failure of an entry's field with a value that is not allowed.
fn wrong(file: &Path, entry: usize, field: &str, problem: impl std::fmt::Display, hint: &str) -> Failure {
    refused(file).because(format!("in `job[{entry}].{field}`: {problem}")).hint(hint)
}

/// Returns the number of processor threads that the jobs share.
fn devices(spec: &JobListSpec, file: &Path) -> Result<u32, Failure> {
    let all = u32::try_from(cores()).unwrap_or(u32::MAX);
    let devices = spec.devices.unwrap_or(all);
    if (1..=all).contains(&devices) {
        return Ok(devices);
    }
    let problem = format!("`devices` is {devices}, but this machine has 1 to {all} processor threads to give");
    Err(refused(file).because(problem).hint("leave it out to take them all"))
}

/// Expands a list into its jobs.
fn listed(spec: &JobListSpec, devices: u32, file: &Path, arguments: &TrainArguments) -> Result<Vec<Listed>, Failure> {
    if spec.jobs.is_empty() {
        return Err(refused(file).because("it has no [[job]]"));
    }
    let mut names = BTreeSet::new();
    let mut jobs = Vec::new();
    for (index, entry) in spec.jobs.iter().enumerate() {
        check_entry(entry, devices, file, index)?;
        let variants = entry.variants();
        let several = variants.len() > 1;
        for (number, varied) in variants.into_iter().enumerate() {
            let (name, what) = read(entry, &varied, file, index)?;
            let name = if several { format!("{name}-{}", number + 1) } else { name };
            if !names.insert(name.to_lowercase()) {
                return Err(wrong(
                    file,
                    index,
                    "name",
                    format!("another job is called `{name}`"),
                    "give each its own name",
                ));
            }
            let (data, ranks) = match &what {
                What::Job(job) => (source(&job.spec.data, |path| job.path(path), None), 1),
                What::Planned { document, .. } => {
                    let ranks = u32::try_from(document.plan.parallel.ranks()).unwrap_or(u32::MAX);
                    (data_of(entry, file, index), ranks)
                }
            };
            let data = data.map_err(|failure| inside(file, &format!("in `job[{index}]`"), &failure))?;
            let seed = varied.get(SEED).and_then(serde_json::Value::as_u64).or(entry.seed).unwrap_or(arguments.seed);
            let wants = entry.devices.unwrap_or(ranks);
            if wants > devices {
                let problem = format!("the plan has {wants} ranks, but the jobs share {devices} devices");
                return Err(wrong(file, index, "plan", problem, "say how many it gets with `devices`"));
            }
            jobs.push(Listed { name, entry: index as u32, varied, seed, devices: wants, data, what });
        }
    }
    Ok(jobs)
}

/// Refuses entries that contradict themselves.
fn check_entry(entry: &ListedJobSpec, devices: u32, file: &Path, index: usize) -> Result<(), Failure> {
    let in_place = entry.first_in_place().filter(|field| entry.plan.is_none() || *field != "data");
    if entry.file.is_some() && entry.plan.is_some() {
        return Err(wrong(file, index, "plan", "there is a `file` as well", "keep one of them"));
    }
    if let (true, Some(field)) = (entry.file.is_some() || entry.plan.is_some(), in_place) {
        let other = if entry.file.is_some() { "file" } else { "plan" };
        return Err(wrong(file, index, field, format!("`{other}` says it already"), "keep one of them, or use `vary`"));
    }
    if entry.devices.is_some_and(|own| !(1..=devices).contains(&own)) {
        let problem = format!("it is {}, but the jobs share {devices}", entry.devices.unwrap_or(0));
        return Err(wrong(file, index, "devices", problem, "jobs that get fewer run side by side"));
    }
    for (path, values) in &entry.vary {
        let field = format!("vary.{path}");
        if values.is_empty() {
            return Err(wrong(file, index, &field, "it has no values", "list at least one"));
        }
        if path == SEED && values.iter().any(|value| value.as_u64().is_none()) {
            return Err(wrong(file, index, &field, "a seed is a whole number of at least 0", "seed = [1, 2, 3]"));
        }
        if path != SEED && entry.plan.is_some() {
            let hint = "name the job file instead, so that each variant is planned";
            return Err(wrong(file, index, &field, "a plan runs as it is; only `seed` may vary", hint));
        }
    }
    if entry.variant_count() > VARIANTS_MAX {
        let problem = format!("its values make more than {VARIANTS_MAX} combinations");
        return Err(wrong(file, index, "vary", problem, "list fewer values, or vary fewer paths at a time"));
    }
    Ok(())
}

/// Reads the job of an entry with the values of a variant, and its name.
fn read(entry: &ListedJobSpec, varied: &Variant, list: &Path, index: usize) -> Result<(String, What), Failure> {
    let within = |failure: Failure| inside(list, &format!("in `job[{index}]`"), &failure);
    let stem = |path: &Path| path.file_stem().map_or("job".into(), |name| name.to_string_lossy().into_owned());
    if let Some(path) = &entry.plan {
        let path = files::beside(list, Path::new(path));
        let document = Box::new(read::plan(&path).map_err(within)?);
        let name = files::plain_name(&entry.name.clone().unwrap_or_else(|| stem(&path)));
        return Ok((name, What::Planned { document, file: Some(path) }));
    }
    let (spec, path) = match &entry.file {
        Some(path) => {
            let path = files::beside(list, Path::new(path));
            let text = read::text("job", &path).map_err(within)?;
            (diagnose::from_toml("job", &text, &path).map_err(within)?, path)
        }
        None => (in_place(entry), list.to_owned()),
    };
    let spec = with(&spec, varied).map_err(|(path, problem)| {
        wrong(list, index, &format!("vary.{path}"), problem, "a path is one of a job file, training.learning_rate")
    })?;
    let called = spec.model.name.clone().or_else(|| spec.model.file.as_deref().map(|file| stem(Path::new(file))));
    let own = if entry.file.is_some() { Some(stem(&path)) } else { called };
    let name = entry.name.clone().or(own).unwrap_or_else(|| format!("job-{}", index + 1));
    Ok((files::plain_name(&name), What::Job(Box::new(Job::of(spec, path, None)))))
}

fn in_place(entry: &ListedJobSpec) -> JobSpec {
    JobSpec {
        model: entry.model.clone().unwrap_or_default(),
        data: entry.data.clone().unwrap_or_default(),
        training: entry.training.clone().unwrap_or_default(),
        ..JobSpec::default()
    }
}

/// Returns a job with other values at some paths; fails with the path that cannot have its value, and the reason.
fn with(spec: &JobSpec, varied: &Variant) -> Result<JobSpec, (String, String)> {
    let mut value = serde_json::to_value(spec).expect("a job holds only what JSON can hold");
    let mut spec = spec.clone();
    for (path, wanted) in varied.iter().filter(|(path, _)| *path != SEED) {
        if path.split('.').count() > DEPTH_MAX {
            return Err((path.clone(), format!("it leads through more than {DEPTH_MAX} tables")));
        }
        place_at(&mut value, path).map_err(|problem| (path.clone(), problem))?.clone_from(wanted);
        // One by one, so that the path that is wrong can be named.
        spec = serde_json::from_value(value.clone()).map_err(|error| (path.clone(), error.to_string()))?;
    }
    Ok(spec)
}

/// Returns the training data of a plan in a list.
fn data_of(entry: &ListedJobSpec, list: &Path, index: usize) -> Result<DataSource, Failure> {
    let data = entry.data.clone().unwrap_or_default();
    let other = DataSpec { path: None, held_out: None, tokenizer: None, ..data.clone() };
    if other != DataSpec::default() {
        return Err(wrong(
            list,
            index,
            "data",
            "beside a plan it has only `path`, `held_out` and `tokenizer`",
            "the plan says the rest",
        ));
    }
    source(&data, |path| files::beside(list, Path::new(path)), None)
}

/// Checks models, weights and data before anything is measured. Data that several jobs share is read once.
fn check(jobs: &mut [Listed], file: &Path, arguments: &TrainArguments) -> Result<(), Failure> {
    let mut known: BTreeMap<String, DataReport> = BTreeMap::new();
    for listed in jobs {
        let within = |failure: Failure| inside(file, &format!("job `{}`", listed.name), &failure);
        let (data, seed) = (&listed.data, listed.seed);
        let mut look = |model: &Model, batch: u64| -> Result<DataReport, Failure> {
            check_weights(arguments.weights.as_deref(), model)?;
            let asked = format!("{data:?} {:?} {batch}", SampleKind::of(model));
            if let Some(report) = known.get(&asked) {
                return Ok(report.clone());
            }
            let report = check_data(data, model, batch, seed)?;
            beside_weights::check((arguments.weights.as_deref(), None), &report)?;
            known.insert(asked, report.clone());
            Ok(report)
        };
        match &mut listed.what {
            What::Job(job) => {
                place(job, arguments.on.as_deref()).map_err(within)?;
                count(job, |problem| look(&problem.model, problem.global_batches.min())).map_err(within)?;
            }
            What::Planned { document, .. } => {
                let plan = trainyard_plan::Plan::try_from(document.plan.clone())
                    .map_err(|error| within(Failure::input("cannot run its plan").because(error.to_string())))?;
                look(plan.model(), plan.batch().global).map_err(within)?;
            }
        }
    }
    Ok(())
}

/// Returns a profile, if it was measured on the processors that jobs share.
fn of_processors(profile: MeasuredMachine, file: &Path) -> Result<MeasuredMachine, Failure> {
    if profile.device == DeviceKind::Cpu {
        return Ok(profile);
    }
    Err(Failure::input(format!("cannot run the jobs of `{}`", file.display()))
        .because(format!("their profile was measured on {}, but {ON_PROCESSORS}", profile.device.name()))
        .hint("train each job by itself"))
}

/// Plans the jobs that are not planned yet, each on its share of the machine. Returns the files to be written into the
/// folder of plans.
fn plan(
    jobs: &mut [Listed],
    file: &Path,
    arguments: &TrainArguments,
    output: &Output,
) -> Result<Vec<(String, String)>, Failure> {
    let limits = job::limits(&arguments.search, TOP)?;
    let machines = profiles(jobs, &limits, file, arguments, output)?;
    let (mut texts, mut shares) = (Vec::new(), BTreeSet::new());
    for listed in jobs {
        let within = |failure: Failure| inside(file, &format!("job `{}`", listed.name), &failure);
        let name = plan_name(listed);
        let threads = Some(listed.devices as usize);
        let job = match &listed.what {
            What::Planned { document, file } => {
                let file = file.as_deref().unwrap_or(Path::new(&name));
                runnable(document, file, DeviceKind::Cpu, threads, output).map_err(within)?;
                continue;
            }
            What::Job(job) => job,
        };
        let path = profile_path(job, arguments.device);
        let number = machines.iter().position(|(known, _)| *known == path).expect("every job has its profile");
        let share = machines[number].1.share(listed.devices);
        let profile_name = profile_name(number, listed.devices);
        let constants_name = format!("{}-constants.toml", listed.name);
        let constants = job.constants().map_err(within)?.map(|(own, _)| own);
        if shares.insert((number, listed.devices)) {
            texts.push((profile_name.clone(), profile_to_toml(&share)));
        }
        texts.extend(constants.as_ref().map(|own| (constants_name.clone(), own.to_toml())));
        let constants = constants.map(|own| (own, constants_name.as_str()));
        let problem = job.problem_on(share, &profile_name, constants).map_err(within)?;
        let document = Box::new(job::solve(&problem, &limits, job).map_err(within)?);
        runnable(&document, Path::new(&name), DeviceKind::Cpu, threads, output).map_err(within)?;
        if let Some(why) = &document.missed {
            return Err(within(Failure::new(Exit::MissedGoal, why.clone())));
        }
        texts.push((name.clone(), json(&document)));
        listed.what = What::Planned { document, file: None };
    }
    Ok(texts)
}

/// Returns the profiles of all jobs that are to be planned, each by its path with all that its jobs need.
fn profiles(
    jobs: &[Listed],
    limits: &Limits,
    file: &Path,
    arguments: &TrainArguments,
    output: &Output,
) -> Result<Vec<(PathBuf, MeasuredMachine)>, Failure> {
    let mut machines: Vec<(PathBuf, MeasuredMachine)> = Vec::new();
    for listed in jobs {
        let What::Job(job) = &listed.what else { continue };
        let path = profile_path(job, arguments.device);
        let known = machines.iter().position(|(known, _)| *known == path);
        // What was measured anew for one job need not be measured again for the next.
        let again = arguments.recalibrate && known.is_none();
        let machine = of_processors(profile(job, limits, arguments.device, again, output)?, file)?;
        match known {
            Some(number) => machines[number].1 = machine,
            None => machines.push((path, machine)),
        }
    }
    Ok(machines)
}

fn plan_name(job: &Listed) -> String {
    format!("{}.json", job.name)
}

/// Returns the file name of a share of a profile, by the profile's number: most lists have one profile.
fn profile_name(number: usize, devices: u32) -> String {
    match number {
        0 => format!("profile-{devices}.toml"),
        other => format!("profile-{devices}-{}.toml", other + 1),
    }
}

/// Returns the command that runs a planned job.
fn command(job: &Listed, folder: &Path, arguments: &TrainArguments) -> Vec<String> {
    let What::Planned { document, file } = &job.what else { unreachable!("every job is planned by now") };
    let file = file.clone().unwrap_or_else(|| folder.join("plans").join(plan_name(job)));
    let mut words = run_words(&file, &job.data, job.seed, arguments);
    let numbers = [("--steps", document.prediction.steps), ("--threads", job.devices.into())];
    words.extend(numbers.iter().flat_map(|(flag, value)| [(*flag).to_owned(), value.to_string()]));
    words.extend(["--out".into(), of_job(folder, &job.name).display().to_string(), "--format".into(), "json".into()]);
    words.push(UNTIL_INPUT_ENDS.into());
    words
}

/// Returns the folder of a job's measurements, inside that of the list.
fn of_job(folder: &Path, name: &str) -> PathBuf {
    folder.join("runs").join(name)
}

/// A job with its command, and its outcome once it has ended.
struct Run {
    job: Listed,
    command: Vec<String>,
    outcome: Option<JobOutcome>,
}

/// The result of a process.
struct Ended {
    index: usize,
    result: std::io::Result<(ExitStatus, Vec<u8>, Vec<u8>)>,
}

/// The jobs, which start in the order of the list as soon as their devices are free.
struct Queue<'a> {
    runs: Vec<Run>,
    folder: PathBuf,
    free: u32,
    clock: Clock,
    output: &'a Output,
}

impl Queue<'_> {
    /// Runs all jobs. Returns `true` if the user stopped them.
    fn run(&mut self, stop: &AtomicBool) -> Result<bool, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(Exit::Failed, "cannot find this program").because(error.to_string()))?;
        let (sender, ended) = channel();
        // They may have been stopped while they were planned.
        let (mut next, mut running, mut told) = (0, BTreeMap::new(), stop.load(Ordering::Relaxed));
        loop {
            while !told && next < self.runs.len() && self.runs[next].job.devices <= self.free {
                if let Some(input) = self.start(next, &program, &sender) {
                    running.insert(next, (Some(input), self.clock.seconds()));
                    self.free -= self.runs[next].job.devices;
                }
                next += 1;
            }
            if running.is_empty() {
                return Ok(told);
            }
            if let Some(Ended { index, result }) = receive(&ended) {
                let (_, start_s) = running.remove(&index).expect("only what runs ends");
                self.free += self.runs[index].job.devices;
                self.end(index, start_s, result, told);
            }
            if !told && stop.load(Ordering::Relaxed) {
                told = true;
                for (input, _) in running.values_mut() {
                    *input = None;
                }
            }
        }
    }

    /// Starts a process; one that cannot be started has failed. The process stops after its current step when its input
    /// is dropped, or when this program ends for any reason.
    fn start(&mut self, index: usize, program: &Path, sender: &Sender<Ended>) -> Option<ChildStdin> {
        let run = &self.runs[index];
        let mut command = Command::new(program);
        command.args(&run.command).env("NO_COLOR", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        apart(&mut command);
        self.output.note(format!("  start   {}{}", run.job.name, tried(&run.job)));
        let started = command.spawn().and_then(|mut child| {
            let (input, sender) = (child.stdin.take(), sender.clone());
            std::thread::Builder::new().spawn(move || wait(index, child, &sender))?;
            Ok(input)
        });
        match started {
            Ok(input) => input,
            Err(error) => {
                let now = self.clock.seconds();
                self.end(index, now, Err(error), false);
                None
            }
        }
    }

    /// Writes the results of a process, which may have been `told` to stop.
    fn end(&mut self, index: usize, start_s: f64, result: std::io::Result<(ExitStatus, Vec<u8>, Vec<u8>)>, told: bool) {
        let end_s = self.clock.seconds();
        let run = &mut self.runs[index];
        let mut outcome = of(&run.job, JobEnd::Failed);
        (outcome.start_s, outcome.end_s) = (Some(start_s), Some(end_s));
        match result {
            Ok((status, document, log)) => {
                let log = String::from_utf8_lossy(&log);
                let kept = self.folder.join("logs").join(format!("{}.txt", run.job.name));
                // The results matter; a log that cannot be written must not discard them.
                let _ = files::write(&kept, log.as_bytes());
                let measured = serde_json::from_slice::<ComparisonDocument>(&document).ok();
                outcome.end = match status.code() {
                    Some(code) if code == Exit::Done as i32 && measured.is_some() => JobEnd::Done,
                    // A run that was told to stop shows its measurements. One that broke off has the same code if there
                    // is a checkpoint to resume from.
                    Some(code) if code == Exit::Interrupted as i32 && measured.is_some() => JobEnd::Interrupted,
                    _ => JobEnd::Failed,
                };
                let as_told = told && outcome.end == JobEnd::Interrupted;
                outcome.error = (outcome.end != JobEnd::Done && !as_told).then(|| reason(status, &log));
                outcome.measured = measured.as_ref().map(figures);
            }
            Err(error) => outcome.error = Some(error.to_string()),
        }
        let folder = of_job(&self.folder, &run.job.name);
        outcome.folder = folder.exists().then(|| folder.display().to_string());
        self.output.note(ended(&outcome));
        run.outcome = Some(outcome);
    }
}

/// Returns a process that ended within a short time, if one did.
fn receive(ended: &Receiver<Ended>) -> Option<Ended> {
    ended.recv_timeout(POLL).ok()
}

/// Waits for a process and sends its result, on a thread of its own.
fn wait(index: usize, child: Child, sender: &Sender<Ended>) {
    let result = child.wait_with_output().map(|output| (output.status, output.stdout, output.stderr));
    // The receiver outlives every process.
    let _ = sender.send(Ended { index, result });
}

/// Keeps the terminal's Ctrl-C from a process: this program tells it to stop, once.
#[cfg(unix)]
fn apart(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
fn apart(_: &mut Command) {}

/// Returns the reason why a process failed: the last error that it printed, or the signal that ended it.
fn reason(status: ExitStatus, log: &str) -> String {
    let told = log.lines().rev().find_map(|line| serde_json::from_str::<ErrorDocument>(line).ok());
    told.map_or_else(|| format!("it ended with {status}"), ErrorDocument::told)
}

fn figures(document: &ComparisonDocument) -> JobFigures {
    JobFigures {
        steps: document.steps,
        predicted_step_time_s: document.predicted.as_ref().map(|figures| figures.step_time_s),
        step_time_s: document.measured.step_time_s,
        samples_per_s: document.measured.samples_per_s,
        loss: document.loss,
    }
}

/// Returns the outcome of a job with the facts known before it starts.
fn of(job: &Listed, end: JobEnd) -> JobOutcome {
    let What::Planned { document, .. } = &job.what else { unreachable!("every job is planned by now") };
    JobOutcome {
        name: job.name.clone(),
        entry: job.entry,
        varied: job.varied.clone(),
        seed: job.seed,
        model: document.plan.model.name.clone(),
        devices: job.devices,
        end,
        best: false,
        error: None,
        start_s: None,
        end_s: None,
        measured: None,
        folder: None,
    }
}

fn document(list: JobListSpec, devices: u32, queue: Queue<'_>) -> JobsDocument {
    let jobs: Vec<JobOutcome> =
        queue.runs.into_iter().map(|run| run.outcome.unwrap_or_else(|| of(&run.job, JobEnd::NotStarted))).collect();
    let makespan_s = jobs.iter().filter_map(|job| job.end_s).fold(0.0, f64::max);
    let mut document = JobsDocument { schema: JOBS_SCHEMA.into(), list, devices, makespan_s, jobs };
    document.mark_best();
    document
}

/// Returns the values that a job tries, for a line of progress.
fn tried(job: &Listed) -> String {
    let values = reports::varied(&job.varied);
    if values.is_empty() { format!("  {}", data_flags(&job.data).join(" ")) } else { format!("  {values}") }
}

/// Tells how a job ended, for a line of progress.
fn ended(outcome: &JobOutcome) -> String {
    let took = outcome.end_s.unwrap_or(0.0) - outcome.start_s.unwrap_or(0.0);
    let how = match (outcome.end, outcome.measured, &outcome.error) {
        (JobEnd::Failed, _, Some(error)) => format!("failed  {}  {error}", outcome.name),
        (JobEnd::Interrupted, ..) => format!("stopped {}", outcome.name),
        (_, Some(measured), _) => {
            format!("done    {}  loss {:.3} → {:.3}", outcome.name, measured.loss.first, measured.loss.last)
        }
        _ => format!("ended   {}", outcome.name),
    };
    format!("  {how}, after {}", human_duration(Seconds(took)))
}

/// Refuses flags that do not apply to a list.
fn only_for_jobs(arguments: &TrainArguments) -> Result<(), Failure> {
    let own = [
        ("--data", arguments.data.is_some(), in_each_job("data")),
        ("--tokenizer", arguments.tokenizer.is_some(), in_each_job("data")),
        ("--held-out", arguments.held_out.is_some(), in_each_job("data")),
        ("--device", arguments.device.is_some_and(|device| device != Device::Cpu), ON_PROCESSORS.into()),
        ("--constants", arguments.job.constants.is_some(), "name them in the job's file".into()),
        ("--prices", arguments.job.prices.is_some(), "nothing is rented".into()),
    ];
    flags::refuse(
        flags::misplaced_of_job(&arguments.job, in_each_job).chain(own),
        "is for jobs, but this is a list of them",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn variant(path: &str, value: serde_json::Value) -> Variant {
        Variant::from([(path.to_owned(), value)])
    }

    #[test]
    fn a_variant_changes_one_field_of_a_job() {
        let spec = JobSpec::default();
        let faster = with(&spec, &variant("training.learning_rate", json!(0.01))).expect("a rate");
        assert_eq!(faster.training.learning_rate, Some(0.01));
        assert_eq!(JobSpec { training: spec.training.clone(), ..faster }, spec);
        assert_eq!(with(&spec, &variant("seed", json!(3))), Ok(spec.clone()));
        let (path, problem) = with(&spec, &variant("training.speed", json!(1))).expect_err("no such field");
        assert!(path == "training.speed" && problem.contains("unknown field `speed`"), "{problem}");
        let (_, problem) = with(&spec, &variant("training.steps", json!("many"))).expect_err("no number");
        assert!(problem.contains("many"), "{problem}");
        let (_, problem) = with(&spec, &variant(&vec!["training"; 100_000].join("."), json!(1))).expect_err("too deep");
        assert!(problem.contains("more than 8 tables"), "{problem}");
        let deep = variant("training.optimizer.kind", json!(1));
        assert!(with(&faster_with_optimizer(), &deep).is_err());
    }

    fn faster_with_optimizer() -> JobSpec {
        with(&JobSpec::default(), &variant("training.optimizer", json!("sgd"))).expect("an optimizer")
    }

    #[test]
    #[cfg(unix)]
    fn the_last_error_is_the_reason() {
        use std::os::unix::process::ExitStatusExt;
        let failed = ExitStatus::from_raw(1 << 8);
        let failure = Failure::new(Exit::Failed, "cannot go on").because("no room").hint("make some");
        let line = serde_json::to_string(&failure.document(str::to_owned)).expect("a document");
        assert_eq!(reason(failed, &format!("  step 1\n{line}\n")), "cannot go on: no room");
        assert!(reason(ExitStatus::from_raw(9), "").contains("signal: 9"));
    }
}
