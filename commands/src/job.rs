//! Jobs: a file, flags, or both; and the files that a job names.

use crate::advice;
use crate::arguments::{GoalArguments, JobArguments, SearchArguments};
use crate::caller;
use crate::diagnose::from_toml;
use crate::failure::{Exit, Failure};
use crate::flags::{self, Typed, as_typed};
use crate::{files, kinds, quotas, read};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use trainyard_hardware_profiles::{
    ClusterFile, Constants, DeviceKind, MeasuredMachine, PriceTable, catalog as hardware,
};
use trainyard_models::{ModelSpec, catalog, find, find_published};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{DpoSpec, Fixed, GlobalBatch, JobSpec, ModelChoice, TuningObjective};
use trainyard_planner::{JobError, Limits, NoPlan, Problem, Resources, problem, recommend};
use trainyard_units::similar;

/// The name that stands for the machine that the program runs on.
pub(crate) const LOCAL: &str = "local";

/// Default path of the profile of this machine's processors; that of its GPUs follows. The environment may name
/// another.
const LOCAL_PROFILE: &str = "runs/local-profile.toml";
const LOCAL_CUDA_PROFILE: &str = "runs/local-cuda-profile.toml";
const LOCAL_WGPU_PROFILE: &str = "runs/local-wgpu-profile.toml";

/// A job with the file that it was read from.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) spec: JobSpec,
    file: Option<PathBuf>,
    /// The constants file of a flag, relative to the working directory.
    constants: Option<PathBuf>,
    /// The table of prices of a flag, relative to the working directory.
    prices: Option<PathBuf>,
    /// The flags that set fields of it.
    typed: Vec<Typed>,
}

/// Returns the path of the profile of this machine's devices of a kind, which may not exist yet.
pub(crate) fn local_profile(kind: DeviceKind) -> PathBuf {
    let usual = match kind {
        DeviceKind::Cpu => LOCAL_PROFILE,
        DeviceKind::Cuda => LOCAL_CUDA_PROFILE,
        DeviceKind::Wgpu => LOCAL_WGPU_PROFILE,
    };
    std::env::var_os("TRAINYARD_PROFILE").filter(|path| !path.is_empty()).map_or_else(|| usual.into(), PathBuf::from)
}

/// Reads the job that file and flags describe; flags override the file.
pub(crate) fn read(arguments: &JobArguments) -> Result<Job, Failure> {
    let file = arguments.job.clone();
    let mut spec: JobSpec = match &file {
        Some(path) => from_toml("job", &job_text(path, arguments)?, path)?,
        None => JobSpec::default(),
    };
    if let Some(name) = &arguments.model {
        refuse_hub_name(name)?;
        spec.model = model_choice(name, file.as_deref());
    }
    if arguments.tokens.is_some() || arguments.samples.is_some() || arguments.lengths.is_some() {
        (spec.data.tokens, spec.data.samples) = (arguments.tokens, arguments.samples);
        spec.data.packing = spec.data.packing.filter(|_| arguments.lengths.is_some());
        spec.data.lengths = arguments.lengths.as_ref().map(|path| beside_job(&path.to_string_lossy(), file.as_deref()));
    }
    if arguments.dataset.is_some() {
        spec.data.dataset.clone_from(&arguments.dataset);
    }
    spec.data.bytes_per_sample = arguments.bytes_per_sample.or(spec.data.bytes_per_sample);
    spec.data.storage = arguments.storage.or(spec.data.storage);
    if let Some(samples) = arguments.global_batch {
        spec.training.global_batch = Some(GlobalBatch::Exactly(samples));
    }
    if arguments.epochs.is_some() || arguments.steps.is_some() {
        (spec.training.epochs, spec.training.steps) = (arguments.epochs, arguments.steps);
        spec.training.target = None;
    }
    spec.model.seq_len = arguments.seq_len.or(spec.model.seq_len);
    spec.model.decoder_seq_len = arguments.decoder_seq_len.or(spec.model.decoder_seq_len);
    if let Some(method) = arguments.fine_tune.filter(|method| spec.training.method != Some(*method)) {
        spec.training = spec.training.by(method);
    }
    if let Some(reference) = arguments.dpo {
        spec.training.objective = Some(TuningObjective::Dpo);
        spec.training.dpo = Some(DpoSpec { reference: Some(reference) });
    }
    if let Some(rank) = arguments.lora_rank {
        spec.training.lora.get_or_insert_default().rank = Some(rank);
    }
    spec.training.optimizer = arguments.optimizer.or(spec.training.optimizer);
    if let Some(path) = &arguments.constants {
        spec.cluster.constants = Some(path.display().to_string());
    }
    if let Some(path) = &arguments.prices {
        spec.cluster.prices = Some(path.display().to_string());
    }
    let (constants, prices) = (arguments.constants.clone(), arguments.prices.clone());
    let mut job = Job { spec, file, constants, prices, typed: flags::of_job(arguments) };
    job.take_data_set_of_model();
    Ok(job)
}

/// Returns `true` if the file of a job, or the text in its place, has one of these tables at its top. A stream, which can be
/// read only once, is taken to have none.
pub(crate) fn has_table(file: &Path, names: &[&str]) -> bool {
    if !file.is_file() && !caller::has(file) {
        return false;
    }
    let text = read::text("job", file).unwrap_or_default();
    let table: toml::Table = trainyard_documents::from_toml(&text).unwrap_or_default();
    names.iter().any(|name| table.contains_key(*name))
}

/// Returns `true` if a file's content is that of a fleet: it has a pool or a list of jobs.
pub(crate) fn is_fleet(file: &Path) -> bool {
    has_table(file, &["pool", "job"])
}

/// Reads the text of a job file. A path that is not a job file may be a model, which has a flag.
fn job_text(path: &Path, arguments: &JobArguments) -> Result<String, Failure> {
    let name = path.to_string_lossy();
    if !path.exists() && !caller::has(path) && !read::is_model_path(&name) {
        let failure = Failure::input(format!("there is no job file `{name}`"));
        let known = match find(&name) {
            Ok(_) => Some(&*name),
            Err(_) => meant(&name),
        };
        return Err(match known.filter(|_| arguments.model.is_none()) {
            Some(model) => failure.hint(format!("did you mean `--model {model}`?")),
            None => failure.hint("a job is a TOML file; flags can say it too, beginning with --model NAME"),
        });
    }
    let failed = match read::text("job", path) {
        Ok(text) => match kinds::document("job", &text, path) {
            Some(told) => return Err(told),
            None if !read::is_config(path) => return Ok(text),
            None => Failure::input(format!("cannot read job `{name}`")).because("it is JSON, and a job is TOML"),
        },
        Err(failure) => failure,
    };
    let is_model = path.exists() && read::holds_model(path);
    Err(if is_model { failed.hint(format!("a model goes after its flag: `--model {name}`")) } else { failed })
}

/// Returns the model of the catalog that a name is near to. Names that begin alike are near only if they are about as
/// long, or of the same kin: `bert` is near to `bert-base`, and `bar` is not near to `bart-base`.
fn meant(name: &str) -> Option<&'static str> {
    let known = similar(name, catalog().map(|entry| entry.model.name()))?;
    let kin = |name: &str| name.split('-').next().map(str::to_owned);
    let (short, long) = (name.len().min(known.len()), name.len().max(known.len()));
    (kin(name) == kin(known) || 2 * short >= long).then_some(known)
}

/// Refuses a name of the Hugging Face Hub, `deepseek-ai/DeepSeek-V2`, whose shape the catalog does not have: nothing is
/// fetched.
fn refuse_hub_name(name: &str) -> Result<(), Failure> {
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|end| ["json", "toml", "onnx"].iter().any(|known| end == *known));
    let Some((owner, model)) = name.split_once('/').filter(|_| !is_file && !path.exists() && !caller::has(path)) else {
        return Ok(());
    };
    let is_no_name = owner.is_empty() || owner.starts_with('.') || model.is_empty() || model.contains('/');
    if is_no_name || find_published(name).is_some() {
        return Ok(());
    }
    let known = meant(&model.to_lowercase());
    let fetched = format!("`hf download {name} config.json` fetches its shape; name that file with --model");
    let hint =
        known.map_or_else(|| fetched.clone(), |known| format!("did you mean `--model {known}`? Otherwise {fetched}"));
    Err(Failure::input(format!("`--model` is {name}, a name of the Hugging Face Hub, from which nothing is fetched"))
        .hint(hint))
}

/// Returns the model that a flag names: of the catalog, or of a file.
fn model_choice(name: &str, job: Option<&Path>) -> ModelChoice {
    let is_file = || Path::new(name).exists() || caller::has(Path::new(name));
    if let Some(entry) = find(name).ok().or_else(|| find_published(name).filter(|_| !is_file())) {
        return ModelChoice { name: Some(entry.model.name().into()), ..ModelChoice::default() };
    }
    if !read::is_model_path(name) {
        return ModelChoice { name: Some(name.into()), ..ModelChoice::default() };
    }
    let path = Some(beside_job(name, job));
    if read::is_config(Path::new(name)) {
        ModelChoice { config: path, ..ModelChoice::default() }
    } else {
        ModelChoice { file: path, ..ModelChoice::default() }
    }
}

/// Rewrites a path of a flag as a job would name it: relative to the job's file, if there is one.
pub(crate) fn beside_job(path: &str, job: Option<&Path>) -> String {
    let folder = job.and_then(Path::parent);
    folder.map_or_else(|| path.into(), |folder| files::relative(folder, Path::new(path)).display().to_string())
}

impl Job {
    /// Creates a job from the content of a file; the constants of a flag override those that it names.
    pub(crate) fn of(mut spec: JobSpec, file: PathBuf, constants: Option<&Path>) -> Self {
        if let Some(path) = constants {
            spec.cluster.constants = Some(path.display().to_string());
        }
        let mut job =
            Self { spec, file: Some(file), constants: constants.map(Into::into), prices: None, typed: Vec::new() };
        job.take_data_set_of_model();
        job
    }

    /// Takes the data set that the file of the model names, if the job states neither a data set nor bytes per sample;
    /// a measured machine was measured with its own. Errors in that file are reported when its model is read.
    fn take_data_set_of_model(&mut self) {
        let (data, cluster) = (&self.spec.data, &self.spec.cluster);
        if data.dataset.is_some() || data.bytes_per_sample.is_some() || cluster.profile.is_some() {
            return;
        }
        let is_toml = |path: &PathBuf| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"));
        let file = self.spec.model.file.as_ref().map(|file| self.path(file)).filter(is_toml);
        self.spec.data.dataset = file.and_then(|path| read::data_set_of_model(&path));
    }

    /// Returns the file of the job if no flag says more, and it can be read again.
    pub(crate) fn file_that_says_all(&self) -> Option<&Path> {
        let is_alone = self.typed.is_empty() && self.constants.is_none() && self.prices.is_none();
        self.file.as_deref().filter(|file| is_alone && !caller::is_stream(file))
    }

    /// Overrides machines and goal by flags.
    pub(crate) fn aim(&mut self, goal: &GoalArguments) -> Result<(), Failure> {
        fn set<T: Clone>(field: &mut Option<T>, flag: Option<&T>) {
            if let Some(value) = flag {
                *field = Some(value.clone());
            }
        }
        self.typed.extend(flags::of_goal(goal));
        let (cluster, aim) = (&mut self.spec.cluster, &mut self.spec.goal);
        set(&mut aim.objective, goal.objective.as_ref());
        set(&mut aim.deadline, goal.deadline.as_ref());
        set(&mut aim.budget, goal.budget.as_ref());
        if let Some(path) = &goal.cluster {
            cluster.file = Some(beside_job(&path.display().to_string(), self.file.as_deref()));
        }
        set(&mut cluster.instances, goal.instances.as_ref());
        set(&mut cluster.max_instances, goal.max_instances.as_ref());
        set(&mut cluster.region, goal.region.as_ref());
        set(&mut cluster.pricing, goal.pricing.as_ref());
        set(&mut cluster.service, goal.service.as_ref());
        set(&mut cluster.transport, goal.transport.as_ref());
        set(&mut cluster.stack, goal.stack.as_ref());
        set(&mut cluster.memory_margin, goal.memory_margin.as_ref());
        if let Some(path) = &goal.quotas {
            cluster.quotas = Some(quotas::read(path, cluster)?);
        }
        Ok(())
    }

    /// Resolves a path that the job names, which is relative to its file.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.file.as_deref().map_or_else(|| path.into(), |file| files::beside(file, Path::new(path)))
    }

    /// Reads the profile that the job names; `local` is the profile of this machine.
    fn profile(&self) -> Result<Option<(MeasuredMachine, PathBuf)>, Failure> {
        let Some(name) = &self.spec.cluster.profile else { return Ok(None) };
        let path = if name == LOCAL { local_profile(DeviceKind::Cpu) } else { self.path(name) };
        Ok(Some((read::profile(&path)?, path)))
    }

    /// Reads the cluster file that the job names.
    fn cluster_file(&self) -> Result<Option<(ClusterFile, PathBuf)>, Failure> {
        let Some(name) = &self.spec.cluster.file else { return Ok(None) };
        let path = self.path(name);
        Ok(Some((read::cluster(&path)?, path)))
    }

    /// Reads the constants that a flag or the job names.
    pub(crate) fn constants(&self) -> Result<Option<(Constants, PathBuf)>, Failure> {
        let named = self.spec.cluster.constants.as_ref().map(|name| self.path(name));
        let Some(path) = self.constants.clone().or(named) else { return Ok(None) };
        Ok(Some((read::constants(&path)?, path)))
    }

    /// Reads the prices that a flag or the job names.
    fn prices(&self) -> Result<Option<PriceTable>, Failure> {
        let named = self.spec.cluster.prices.as_ref().map(|name| self.path(name));
        self.prices.clone().or(named).as_deref().map(read::prices).transpose()
    }

    /// Reads the model in the file that the job names, if it names one.
    fn model_file(&self) -> Result<Option<ModelSpec>, Failure> {
        let choice = &self.spec.model;
        let name = choice.name.as_deref();
        match (&choice.file, &choice.config) {
            (Some(file), _) => read::model(&self.path(file), name).map(Some),
            (None, Some(config)) => read::config(&self.path(config), name).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Reads the file of lengths that the job names: a number of tokens on each line.
    fn lengths(&self) -> Result<Option<Vec<u64>>, Failure> {
        let Some(name) = &self.spec.data.lengths else { return Ok(None) };
        let path = self.path(name);
        let text = read::packed("lengths", &path)?;
        let length = |(number, line): (usize, &str)| {
            let wrong = || format!("line {} is `{}`, but it must be a number of tokens", number + 1, line.trim());
            line.trim().parse::<u64>().ok().filter(|tokens| *tokens > 0).ok_or_else(|| {
                Failure::input(format!("cannot read lengths `{}`", path.display()))
                    .because(wrong())
                    .hint("one whole number above 0 on each line: the tokens of a sample, as the model's tokenizer counts them")
            })
        };
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines.map(length).collect::<Result<_, _>>().map(Some)
    }

    /// Returns the planning problem of the job. `folder` is that of the plan document, to which the paths of machine
    /// files are relative.
    pub(crate) fn problem(&self, folder: &Path) -> Result<Problem, Failure> {
        self.ask(self.resources(folder)?)
    }

    /// Reads the files that the job names. `folder` is that of the plan document.
    pub(crate) fn resources(&self, folder: &Path) -> Result<Resources, Failure> {
        let seen_from = |path: PathBuf| files::relative(folder, &path).display().to_string();
        let (profile, profile_path) = self.profile()?.unzip();
        let (cluster_file, cluster_path) = self.cluster_file()?.unzip();
        let (constants, constants_path) = self.constants()?.unzip();
        Ok(Resources {
            model_file: self.model_file()?,
            profile,
            profile_path: profile_path.map(seen_from),
            cluster_file,
            cluster_path: cluster_path.map(seen_from),
            constants,
            constants_path: constants_path.map(seen_from),
            prices: self.prices()?,
            lengths: self.lengths()?,
        })
    }

    /// Returns the planning problem on a machine whose profile, and constants if there are some, are already read,
    /// under the names that the plan shall give them.
    pub(crate) fn problem_on(
        &self,
        profile: MeasuredMachine,
        name: &str,
        constants: Option<(Constants, &str)>,
    ) -> Result<Problem, Failure> {
        let profile_path = Some(name.into());
        let model_file = self.model_file()?;
        let (constants, constants_path) = constants.map(|(own, name)| (own, name.to_owned())).unzip();
        let profile = Some(profile);
        self.ask(Resources { model_file, profile, profile_path, constants, constants_path, ..Resources::default() })
    }

    /// Returns the problem without its machines: checks model, data and training before anything is measured.
    pub(crate) fn check(&self) -> Result<Problem, Failure> {
        let anywhere = JobSpec { cluster: trainyard_plan::ClusterChoice::default(), ..self.spec.clone() };
        let resources = Resources { model_file: self.model_file()?, ..Resources::default() };
        problem(&anywhere, resources).map_err(|error| self.explain(&error))
    }

    /// Returns the planning problem of the job with these files.
    pub(crate) fn ask(&self, resources: Resources) -> Result<Problem, Failure> {
        let problem = problem(&self.spec, resources).map_err(|error| self.explain(&error))?;
        Ok(problem.until(caller::cancellation()))
    }

    /// Returns the failure of a job that cannot be planned.
    pub(crate) fn explain(&self, error: &JobError) -> Failure {
        // A quota is valid input: it is a limit that leaves no plan.
        let exit = if matches!(error, JobError::OverQuota(_)) { Exit::NoPlan } else { Exit::Input };
        let (field, model) = (error.invalid().field(), &self.spec.model);
        let read = match field {
            "model" => model.file.as_ref().or(model.config.as_ref()),
            "cluster.file" => self.spec.cluster.file.as_ref(),
            _ => None,
        };
        let (invalid, advised) = flags::invalid(error.invalid(), &self.typed);
        let told = as_typed(&invalid.to_string(), &self.typed);
        let cause = match read {
            Some(path) => format!("{told} (read from `{}`)", self.path(path).display()),
            None => told,
        };
        let failure = match &self.file {
            Some(file) => Failure::new(exit, format!("cannot plan the job `{}`", file.display())).because(cause),
            None => Failure::new(exit, cause),
        };
        let flag = || match read {
            None => flag_for(field),
            Some(_) => None,
        };
        let failure = failure.at(&invalid);
        let strange = || (field == "cluster.instances").then(|| self.strange_family()).flatten();
        let example = || advice::example(field);
        let hint = strange().or(advised).or_else(flag).or_else(example);
        failure.maybe_hint(hint.or_else(|| error.hint()))
    }

    /// Returns the failure of the job if there is no plan for it.
    pub(crate) fn without_plan(&self, error: &NoPlan) -> Failure {
        // A plan that no stack can run, or for which there are no machines, is a fault of the input, not of the limits.
        let of_input = matches!(
            error,
            NoPlan::Unable { .. }
                | NoPlan::NoUnits { .. }
                | NoPlan::ShortJobs { .. }
                | NoPlan::TooFewMachines { .. }
                | NoPlan::Unlisted { .. }
        );
        let failure = match &self.file {
            Some(file) if of_input => {
                let told = as_typed(&error.to_string(), &self.typed);
                Failure::input(format!("cannot plan the job `{}`", file.display())).because(told)
            }
            _ => Failure::of(if of_input { Exit::Input } else { Exit::NoPlan }, error),
        };
        failure.maybe_hint(error.hint())
    }

    /// Advises about the first instance type that the job names of a family that the catalog does not have.
    fn strange_family(&self) -> Option<String> {
        let family = |name: &str| name.split_once('.').map(|(family, _)| family.to_owned());
        let known: BTreeSet<String> =
            hardware().instances().iter().filter_map(|instance| family(&instance.name)).collect();
        let named = self.spec.cluster.instances.iter().flatten().filter(|name| !name.contains('*'));
        let strange = named.filter_map(|name| family(name)).find(|family| !known.contains(family))?;
        if similar(&strange, known.iter().map(String::as_str)).is_some() {
            return None;
        }
        let all: Vec<&str> = known.iter().map(String::as_str).collect();
        Some(format!(
            "the catalog has no type of the family {strange}, but of {}; `trainyard show instances` lists them, and a \
             file that `cluster.file` of a job names describes other machines",
            all.join(", ")
        ))
    }
}

/// Returns the command-line flag for a field of a job.
fn flag_for(field: &str) -> Option<String> {
    let flag = match field {
        "model" => "--model NAME, or --model FILE",
        "data" => "--tokens N, --samples N, --steps N, or --dataset NAME with --epochs N",
        "data.tokens" => "--tokens N",
        "data.samples" => "--samples N",
        "data.bytes_per_sample" => "--bytes-per-sample SIZE or --dataset NAME",
        "data.lengths" => "--lengths FILE",
        "model.seq_len" => "--seq-len N",
        "model.decoder_seq_len" => "--decoder-seq-len N",
        "training.method" | "method" => "--fine-tune METHOD",
        "training.objective" => "--dpo",
        "training.lora.rank" => "--lora-rank N",
        "training.global_batch" => "--global-batch N",
        "training.steps" => "--steps N",
        "training.epochs" => "--epochs N",
        "goal.deadline" => "--deadline TIME",
        "goal.budget" => "--budget USD",
        "cluster.max_instances" => "--max-instances N",
        _ => return None,
    };
    Some(format!("on the command line it is {flag}"))
}

/// Returns the limits of a search that the flags set.
pub(crate) fn limits(search: &SearchArguments, top: usize) -> Result<Limits, Failure> {
    let fixed = Fixed::parse(&search.fix).map_err(|error| Failure::of(Exit::Input, &error).maybe_hint(error.hint()))?;
    Ok(Limits { top, max_simulations: search.max_simulations, fixed })
}

/// Finds the best plan of a problem.
pub(crate) fn solve(problem: &Problem, limits: &Limits, job: &Job) -> Result<PlanDocument, Failure> {
    recommend(problem, limits, &job.spec).map_err(|error| job.without_plan(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{Caller, on_behalf_of};
    use trainyard_plan::{LoraSpec, Method, TrainingSpec};

    /// The training of a job file that says `text` of it, with a method and a rank from flags.
    fn training(text: &str, fine_tune: Option<Method>, lora_rank: Option<u64>) -> TrainingSpec {
        let texts = [("<job>.toml".to_owned(), format!("[training]\n{text}"))].into();
        let job = Some("<job>.toml".into());
        let arguments = JobArguments { job, fine_tune, lora_rank, ..JobArguments::default() };
        on_behalf_of(Caller { texts, ..Caller::default() }, || read(&arguments)).expect("a job").spec.training
    }

    #[test]
    fn a_method_from_a_flag_leaves_out_the_settings_of_that_in_the_file() {
        let frozen = "method = \"frozen\"\ntrained_blocks = 4";
        let lora = LoraSpec { rank: Some(8), ..LoraSpec::default() };
        let adapted = TrainingSpec { method: Some(Method::Lora), lora: Some(lora), ..TrainingSpec::default() };
        assert_eq!(training(frozen, Some(Method::Lora), Some(8)), adapted);
        assert_eq!(training(frozen, None, None).trained_blocks, Some(4));
        let quantised = "method = \"qlora\"\nlora = { rank = 8, base = \"int8\" }";
        assert_eq!(training(quantised, Some(Method::Lora), None), adapted);
        assert_eq!(training(quantised, Some(Method::Full), None).lora, None);
    }
}
