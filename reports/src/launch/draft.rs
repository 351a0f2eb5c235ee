//! A draft of launch files: what was told, what is noted, and what is left blank.

use super::downloads;
use super::error::LaunchError;
use super::field::{FOLLOWING, Field, is_said, left_to_the_user, place, value};
use super::form;
use super::job::Job;
use super::network;
use super::software::Engine;
use super::usual_rate;
use super::yaml::leaves_the_line;
use super::{LaunchOptions, Target};
use crate::show::published;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_history::short_name;
use trainyard_models::find;
use trainyard_plan::{Assumption, Blank, GradientCompression, LaunchFile, Optimizer};

/// A command-line flag for something that a plan does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flag {
    /// The training script.
    Script,
    /// The container image.
    Image,
    /// The IAM role.
    Role,
    /// The location of the data.
    Data,
    /// The location of checkpoints and results.
    Results,
    /// The peak learning rate; takes precedence over that of the job.
    LearningRate,
    /// The weights to start from.
    Weights,
}

impl Flag {
    const ALL: [Self; 7] =
        [Self::Script, Self::Image, Self::Role, Self::Data, Self::Results, Self::LearningRate, Self::Weights];

    /// Returns the flag as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Script => "--script",
            Self::Image => "--image",
            Self::Role => "--role",
            Self::Data => "--data",
            Self::Results => "--results",
            Self::LearningRate => "--learning-rate",
            Self::Weights => "--weights",
        }
    }

    /// Returns an example of a value that it may have.
    pub(super) fn example(self) -> &'static str {
        match self {
            Self::Script => "train.py",
            Self::Image => "registry.example.com/training:1",
            Self::Role => "arn:aws:iam::111122223333:role/training",
            Self::Data => "/data",
            Self::Results => "/results",
            Self::LearningRate => "3e-4",
            Self::Weights => "gpt2-xl",
        }
    }

    /// Creates the error for a refused value.
    pub(super) fn refused(self, value: &str, rule: &'static str) -> LaunchError {
        LaunchError::Option { flag: self.name(), value: value.to_owned(), rule, example: self.example() }
    }

    fn given(self, options: &LaunchOptions) -> Option<&str> {
        match self {
            Self::Script => options.script.as_deref(),
            Self::Image => options.image.as_deref(),
            Self::Role => options.role.as_deref(),
            Self::Data => options.data.as_deref(),
            Self::Results => options.results.as_deref(),
            Self::LearningRate => options.learning_rate.as_deref(),
            Self::Weights => options.weights.as_deref(),
        }
    }
}

/// Finished files with the notes about them.
#[derive(Clone, Debug)]
pub(super) struct Finished {
    pub(super) files: Vec<LaunchFile>,
    pub(super) blanks: Vec<Blank>,
    pub(super) assumed: Vec<Assumption>,
    pub(super) notes: Vec<String>,
}

/// The content of a file's head.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) lines: Vec<String>,
}

/// A draft of launch files: collects which fields the files express.
#[derive(Clone, Debug)]
pub(super) struct Draft<'a> {
    pub(super) target: Target,
    pub(super) engine: Engine,
    pub(super) job: &'a Job<'a>,
    options: &'a LaunchOptions,
    told: BTreeSet<Field>,
    notes: Vec<String>,
    blanks: BTreeMap<Flag, Blank>,
    /// What no flag sets.
    by_hand: Vec<Blank>,
    assumed: BTreeMap<Field, Assumption>,
    asked: BTreeSet<Flag>,
}

/// The titles of lists: what has no value yet, what has one that nobody stated, and what the files leave out.
pub(super) const TO_FILL_IN: &str = "To fill in";
pub(super) const ASSUMED: &str = "Assumed, to check";
pub(super) const UNCOVERED: &str = "Not covered by these files";

/// The mark of a launch file: what tells it from one that somebody else wrote.
pub const WRITTEN_BY: &str = "Written by `trainyard export`.";

impl<'a> Draft<'a> {
    /// Creates an empty draft.
    pub(super) fn new(target: Target, job: &'a Job<'a>, options: &'a LaunchOptions) -> Result<Self, LaunchError> {
        for flag in Flag::ALL {
            let Some(value) = flag.given(options) else { continue };
            if flag == Flag::LearningRate && !value.parse().is_ok_and(|rate: f64| rate > 0.0 && rate.is_finite()) {
                let rule = "it must be a number above 0";
                return Err(flag.refused(value, rule));
            }
            if flag == Flag::LearningRate && is_too_high(value, job.plan().optimizer()) {
                let rule = "it must be at most 1: this optimizer changes each weight by up to the rate in a step";
                return Err(flag.refused(value, rule));
            }
            if value.trim().is_empty() || value.chars().any(leaves_the_line) {
                let rule = "it must be text on one line";
                return Err(flag.refused(value, rule));
            }
        }
        let (told, asked) = (BTreeSet::from(FOLLOWING), BTreeSet::new());
        let (engine, notes) = (Engine::of(job, target), Vec::new());
        let (blanks, by_hand, assumed) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        let mut draft = Self { target, engine, job, options, told, notes, blanks, by_hand, assumed, asked };
        draft.tells_the_stack();
        Ok(draft)
    }

    /// Tells which engine is started: the software of the plan, or another where nobody knows how to start it.
    fn tells_the_stack(&mut self) {
        if self.job.stack().is_none_or(|stack| Engine::of_stack(&stack.name).is_some()) {
            self.tells(&[Field::Stack]);
        } else {
            self.note(Field::Stack, "no launch file starts it; what these start may be faster or slower");
        }
    }

    /// Records that the files express these fields.
    pub(super) fn tells(&mut self, fields: &[Field]) {
        self.told.extend(fields);
    }

    /// Returns the plan's value of a field and records that the files express it; `None` for the usual value.
    pub(super) fn told(&mut self, field: Field) -> Option<String> {
        self.told.insert(field);
        value(field, self.job)
    }

    /// Records that the files do not express a field, and adds a note on what to do about it if the plan has a value
    /// there.
    pub(super) fn note(&mut self, field: Field, advice: &str) {
        if let Some(value) = self.told(field) {
            self.notes.push(format!("{} is {value}: {advice}", place(field, self.job)));
        }
    }

    /// Records a value in the files that neither the plan nor the job has a field for, but that goes with one.
    pub(super) fn assumes(&mut self, beside: Field, written: &str, what: &str) {
        let assumption = Assumption { written: written.into(), what: what.into(), field: beside.path().into() };
        self.assumed.insert(beside, assumption);
    }

    /// Records a value in the files, `weight_decay 0.1`, of a field that the job may leave open.
    pub(super) fn writes(&mut self, field: Field, written: String) {
        self.told.insert(field);
        if !is_said(field, self.job) {
            let assumption = Assumption { written, what: field.about().into(), field: field.path().into() };
            self.assumed.insert(field, assumption);
        }
    }

    /// Returns the communication hook of DistributedDataParallel by which replicas sum gradients in the plan's form, as
    /// PyTorch names it.
    pub(super) fn gradient_hook(&self) -> Option<&'static str> {
        match self.job.plan().gradient_compression() {
            GradientCompression::Fp16 if self.engine == Engine::Ddp => Some("fp16_compress_hook"),
            GradientCompression::Bf16 if self.engine == Engine::Ddp => Some("bf16_compress_hook"),
            _ => None,
        }
    }

    /// Adds another remark for the reader.
    pub(super) fn remark(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Creates the error for a field that the target cannot express.
    pub(super) fn cannot(&self, field: Field, why: impl Into<String>) -> LaunchError {
        let value = value(field, self.job).unwrap_or_else(|| "the plain one".into());
        LaunchError::Inexpressible { field: field.path(), value, why: why.into(), others: Vec::new() }
    }

    /// Returns the folder for results that the user names, or a placeholder. Where several machines train, each rank reads
    /// there from where to go on.
    pub(super) fn results_folder(&mut self) -> String {
        if self.job.machines() > 1 && !self.asked.contains(&Flag::Results) {
            self.remark("the folder for checkpoints must be one that all machines share");
            if self.engine == Engine::Megatron && self.target != Target::Accelerate {
                self.remark("all machines need the data at the path of --data-path; the index of the data, which rank 0 alone writes, lies in the folder for checkpoints (--data-cache-path)");
            }
        }
        self.asks(Flag::Results, "RESULTS", "folder for checkpoints and results")
    }

    /// Returns the user's value of a flag, or a placeholder.
    pub(super) fn asks(&mut self, flag: Flag, placeholder: &str, what: &str) -> String {
        self.asked.insert(flag);
        if let Some(value) = flag.given(self.options) {
            return value.to_owned();
        }
        let blank = Blank { placeholder: placeholder.into(), what: what.into(), flag: Some(flag.name().into()) };
        self.blanks.insert(flag, blank);
        placeholder.to_owned()
    }

    /// Records something in the files that is to be filled in and that no flag sets.
    pub(super) fn leaves(&mut self, placeholder: &str, what: impl Into<String>) {
        self.by_hand.push(Blank { placeholder: placeholder.into(), what: what.into(), flag: None });
    }

    /// Returns the user's training script, or the name that the files have for it.
    pub(super) fn script(&mut self) -> String {
        self.asks(Flag::Script, "train.py", "your training script, which reads the data itself")
    }

    /// Returns the user's value of a flag, or the usual one.
    pub(super) fn asks_or(&mut self, flag: Flag, usual: &str) -> String {
        self.asked.insert(flag);
        flag.given(self.options).unwrap_or(usual).to_owned()
    }

    /// Returns the weights that the user wants to start from, or a placeholder where a model is fine-tuned; otherwise adds
    /// a remark that weights are random.
    pub(super) fn weights(&mut self) -> Option<String> {
        if self.job.is_fine_tuning() {
            let what = "the model that is fine-tuned: a folder, or a name on the Hugging Face Hub";
            return Some(self.asks(Flag::Weights, "WEIGHTS", what));
        }
        self.asked.insert(Flag::Weights);
        let given = Flag::Weights.given(self.options).map(ToOwned::to_owned);
        if given.is_none() {
            self.remark("trains from scratch: weights are initialised randomly; --weights names some to start from");
        }
        given
    }

    /// Returns `true` if the weights may come from the Hugging Face Hub.
    pub(super) fn reads_the_hub(&self) -> bool {
        let is_name = |weights: &str| !weights.starts_with(['/', '.', '~']);
        self.starts_from_weights() && Flag::Weights.given(self.options).is_none_or(is_name)
    }

    /// Returns `true` if the training starts from weights that there are already.
    pub(super) fn starts_from_weights(&self) -> bool {
        self.job.is_fine_tuning() || self.given(Flag::Weights)
    }

    /// Returns `true` if the cluster file of the machines has several kinds.
    pub(super) fn has_other_kinds(&self) -> bool {
        self.options.other_kinds
    }

    /// Returns the peak learning rate: the user's, else the job's.
    pub(super) fn learning_rate(&mut self) -> Option<String> {
        self.asked.insert(Flag::LearningRate);
        let of_job = self.told(Field::LearningRate);
        Flag::LearningRate.given(self.options).map(ToOwned::to_owned).or(of_job)
    }

    /// Returns the peak learning rate, or a placeholder, with usual ones where some are known.
    pub(super) fn learning_rate_or_blank(&mut self, what: &str) -> String {
        let usual = self.published_rate().map(|rate| format!(", {rate}"));
        let usual = usual.unwrap_or_else(|| usual_rate::told(self.job));
        let rate = self.learning_rate();
        rate.unwrap_or_else(|| self.asks(Flag::LearningRate, "LEARNING_RATE", &format!("{what}{usual}")))
    }

    /// Tells the learning rate of the model's published pretraining, where the job is one too, by the same optimizer.
    fn published_rate(&self) -> Option<String> {
        let plan = self.job.plan();
        let is_alike = plan.optimizer().is_adam() && !self.job.is_fine_tuning();
        let entry = find(plan.model().name()).ok().filter(|_| is_alike)?;
        let tokens = plan.model().tokens_per_sample().map(|tokens| tokens * plan.batch().global);
        let rate = entry.learning_rate.as_ref()?;
        Some(if self.given(Flag::Weights) { usual_rate::of_further_training(rate) } else { published(rate, tokens) })
    }

    /// Returns the name of the folder in which a place that serves for many plans keeps what this one writes: that of the
    /// job, and letters that differ where the plan, its job, or what it starts from does.
    pub(super) fn folder(&self) -> String {
        let document = self.job.document();
        let started = [&self.options.weights, &self.options.learning_rate];
        let text = json!([document.plan, document.job, started]).to_string();
        format!("{}-{}", self.job.name(), short_name(&text))
    }

    /// Returns the file name of the plan document.
    pub(super) fn plan_file(&self) -> String {
        self.options.plan.clone().unwrap_or_else(|| "plan.json".into())
    }

    /// Returns `true` if the user gave a flag.
    pub(super) fn given(&self, flag: Flag) -> bool {
        self.value(flag).is_some()
    }

    /// Returns the user's value of a flag, if there is one.
    pub(super) fn value(&self, flag: Flag) -> Option<&'a str> {
        flag.given(self.options)
    }

    /// Returns the head of a file once all fields are recorded: refuses fields that the target cannot express, and values
    /// of flags that it cannot use, and notes fields that the files leave out.
    pub(super) fn close(&mut self, what: &str) -> Result<Head, LaunchError> {
        if self.engine != Engine::Executor && self.asked.contains(&Flag::Weights) && self.reads_the_hub() {
            self.remark(hub_token(self.target));
            if let Some(note) = downloads::told(self) {
                self.remark(note);
            }
        }
        if let Some(network) = network::told(self) {
            self.remark(network);
        }
        if self.job.has_unusual_optimizer() {
            self.remark(
                "the optimizer is adamw because the job names none: networks with batch normalisation are usually trained by SGD with momentum; it decides memory and time too, so plan again with --optimizer sgd-momentum",
            );
        }
        for field in Field::ALL.iter().copied().filter(|field| !self.told.contains(field)) {
            let Some(value) = value(field, self.job) else { continue };
            if field.decides() {
                return Err(self.cannot(field, format!("launch files for {} cannot express it", self.target.name())));
            }
            self.notes.push(if field == Field::Instance {
                format!("these files start no machines: run them on {value}")
            } else {
                let open = left_to_the_user(field, self.job);
                format!("{} is {value}: {}", place(field, self.job), open.unwrap_or("these files do not set it"))
            });
        }
        for flag in Flag::ALL {
            if self.given(flag) && !self.asked.contains(&flag) {
                return Err(LaunchError::Unused { flag: flag.name(), target: self.target.name() });
            }
            if let Some(value) = flag.given(self.options) {
                form::check(self, flag, value)?;
            }
        }
        Ok(self.head(what))
    }

    fn head(&self, what: &str) -> Head {
        let mut lines = vec![what.to_owned()];
        let blanks = to_fill_in(self.blanks.values().chain(&self.by_hand));
        let sections = [(TO_FILL_IN, &blanks), (ASSUMED, &assumed(self.assumed.values())), (UNCOVERED, &self.notes)];
        for (title, items) in sections.into_iter().filter(|(_, items)| !items.is_empty()) {
            lines.extend([String::new(), format!("{title}:")]);
            lines.extend(items.iter().map(|item| format!("- {item}")));
        }
        lines.extend([String::new(), WRITTEN_BY.into()]);
        Head { lines: lines.iter().map(|line| line.replace(leaves_the_line, " ")).collect() }
    }

    /// Returns the files with the notes about them.
    pub(super) fn finished(self, files: Vec<LaunchFile>) -> Finished {
        let blanks = self.blanks.into_values().chain(self.by_hand).collect();
        let assumed = self.assumed.into_values().collect();
        Finished { files, blanks, assumed, notes: self.notes }
    }
}

/// Returns how ranks get the token of the Hugging Face Hub, which some weights need.
fn hub_token(target: Target) -> &'static str {
    match target {
        Target::Kubernetes => {
            "gated weights need a token of the Hugging Face Hub: kubectl create secret generic hf-token --from-literal=token=…"
        }
        Target::Skypilot => "gated weights need a token of the Hugging Face Hub: sky jobs launch --secret HF_TOKEN",
        Target::Sagemaker => {
            "gated weights need a token of the Hugging Face Hub: HF_TOKEN in the environment of the job, or weights in S3"
        }
        _ => "gated weights need a token of the Hugging Face Hub: HF_TOKEN in the environment of all ranks",
    }
}

/// Returns `true` for a rate with which no training with the optimizer gets anywhere, such as 20 for 2e-4: those that divide
/// by the root of a mean of squares step by about the rate, whatever the gradient. The rates of the others have no such bound.
fn is_too_high(value: &str, optimizer: Optimizer) -> bool {
    let divides = optimizer.has_means() || optimizer == Optimizer::RmsProp;
    divides && value.parse().is_ok_and(|rate: f64| rate > 1.0)
}

/// Lists the placeholders to fill in, each with the flag that sets it.
pub(super) fn to_fill_in<'a>(blanks: impl IntoIterator<Item = &'a Blank>) -> Vec<String> {
    let told = |Blank { placeholder, what, flag }: &Blank| {
        let flag = flag.as_ref().map(|flag| format!(" ({flag})")).unwrap_or_default();
        format!("{placeholder}: {what}{flag}")
    };
    blanks.into_iter().map(told).collect()
}

/// Lists the assumed values that no job states, each with the field that does.
pub(super) fn assumed<'a>(assumed: impl IntoIterator<Item = &'a Assumption>) -> Vec<String> {
    let told = |Assumption { written, what, field }: &Assumption| format!("{written}: {what} ({field})");
    assumed.into_iter().map(told).collect()
}

impl Head {
    /// Formats the head as comments that begin with `#`.
    pub(super) fn comment(&self) -> String {
        let line = |line: &String| if line.is_empty() { "#\n".to_owned() } else { format!("# {line}\n") };
        self.lines.iter().map(line).collect()
    }
}
