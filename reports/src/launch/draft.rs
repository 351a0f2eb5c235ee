//! A draft of launch files: what was told, what is noted, and what is left blank.

use super::error::LaunchError;
use super::field::Field;
use super::job::Job;
use super::{LaunchOptions, Target};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_plan::{Blank, LaunchFile};

/// Something that a plan does not know and a flag can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flag {
    /// The training script.
    Script,
    /// The container image.
    Image,
    /// The IAM role.
    Role,
    /// Where the data is.
    Data,
    /// Where checkpoints and results go.
    Results,
    /// The peak learning rate, before that of the job.
    LearningRate,
}

impl Flag {
    const ALL: [Self; 6] = [Self::Script, Self::Image, Self::Role, Self::Data, Self::Results, Self::LearningRate];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Script => "--script",
            Self::Image => "--image",
            Self::Role => "--role",
            Self::Data => "--data",
            Self::Results => "--results",
            Self::LearningRate => "--learning-rate",
        }
    }

    fn given(self, options: &LaunchOptions) -> Option<&str> {
        match self {
            Self::Script => options.script.as_deref(),
            Self::Image => options.image.as_deref(),
            Self::Role => options.role.as_deref(),
            Self::Data => options.data.as_deref(),
            Self::Results => options.results.as_deref(),
            Self::LearningRate => options.learning_rate.as_deref(),
        }
    }
}

/// Files with what is to be said about them.
#[derive(Clone, Debug)]
pub(super) struct Finished {
    pub(super) files: Vec<LaunchFile>,
    pub(super) blanks: Vec<Blank>,
    pub(super) notes: Vec<String>,
}

/// What the head of a file says.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) lines: Vec<String>,
}

/// A draft of launch files.
#[derive(Clone, Debug)]
pub(super) struct Draft<'a> {
    pub(super) target: Target,
    pub(super) job: &'a Job<'a>,
    options: &'a LaunchOptions,
    told: BTreeSet<Field>,
    notes: Vec<String>,
    blanks: BTreeMap<Flag, Blank>,
    asked: BTreeSet<Flag>,
}

impl<'a> Draft<'a> {
    /// An empty draft.
    pub(super) fn new(target: Target, job: &'a Job<'a>, options: &'a LaunchOptions) -> Result<Self, LaunchError> {
        for flag in Flag::ALL {
            let Some(value) = flag.given(options) else { continue };
            if flag == Flag::LearningRate && !value.parse().is_ok_and(|rate: f64| rate > 0.0 && rate.is_finite()) {
                let rule = "it must be a number above 0";
                return Err(LaunchError::Option { flag: flag.name(), value: value.to_owned(), rule });
            }
            if value.is_empty() || value.chars().any(char::is_control) {
                let rule = "it must be text on one line";
                return Err(LaunchError::Option { flag: flag.name(), value: value.to_owned(), rule });
            }
        }
        let (told, asked) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self { target, job, options, told, notes: Vec::new(), blanks: BTreeMap::new(), asked })
    }

    /// The files tell these fields.
    pub(super) fn tells(&mut self, fields: &[Field]) {
        self.told.extend(fields);
    }

    /// What the plan says of a field, which the files then tell; nothing where it says what any training does.
    pub(super) fn told(&mut self, field: Field) -> Option<String> {
        self.told.insert(field);
        field.value(self.job)
    }

    /// The files do not tell a field, if the plan says anything there, and a note says what to do about it.
    pub(super) fn note(&mut self, field: Field, advice: &str) {
        if let Some(value) = self.told(field) {
            self.notes.push(format!("{} is {value}: {advice}", field.path()));
        }
    }

    /// Something else that the reader should know.
    pub(super) fn remark(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Why the target cannot express a field.
    pub(super) fn cannot(&self, field: Field, why: impl Into<String>) -> LaunchError {
        let value = field.value(self.job).unwrap_or_else(|| "the plain one".into());
        LaunchError::Inexpressible { field: field.path(), value, why: why.into(), others: Vec::new() }
    }

    /// What the user says with a flag, or a word that stands for it.
    pub(super) fn asks(&mut self, flag: Flag, placeholder: &str, what: &str) -> String {
        self.asked.insert(flag);
        if let Some(value) = flag.given(self.options) {
            return value.to_owned();
        }
        let blank = Blank { placeholder: placeholder.into(), what: what.into(), flag: flag.name().into() };
        self.blanks.insert(flag, blank);
        placeholder.to_owned()
    }

    /// What the user says with a flag, or what is usual.
    pub(super) fn asks_or(&mut self, flag: Flag, usual: &str) -> String {
        self.asked.insert(flag);
        flag.given(self.options).unwrap_or(usual).to_owned()
    }

    /// The peak learning rate: what the user says, else what the job does.
    pub(super) fn learning_rate(&mut self) -> Option<String> {
        self.asked.insert(Flag::LearningRate);
        let of_job = self.told(Field::LearningRate);
        Flag::LearningRate.given(self.options).map(ToOwned::to_owned).or(of_job)
    }

    /// The same, or a word that stands for it.
    pub(super) fn learning_rate_or_blank(&mut self, what: &str) -> String {
        let rate = self.learning_rate();
        rate.unwrap_or_else(|| self.asks(Flag::LearningRate, "LEARNING_RATE", what))
    }

    /// The file of the plan document.
    pub(super) fn plan_file(&self) -> String {
        self.options.plan.clone().unwrap_or_else(|| "plan.json".into())
    }

    /// Whether the user says something with a flag.
    pub(super) fn given(&self, flag: Flag) -> bool {
        flag.given(self.options).is_some()
    }

    /// What the head of a file says, once everything was told: refuses what the target cannot express and notes what it
    /// leaves out.
    pub(super) fn close(&mut self, what: &str) -> Result<Head, LaunchError> {
        for field in Field::ALL.into_iter().filter(|field| !self.told.contains(field)) {
            let Some(value) = field.value(self.job) else { continue };
            if field.decides() {
                return Err(self.cannot(field, format!("launch files for {} cannot express it", self.target.name())));
            }
            self.notes.push(format!("{} is {value}: these files do not set it", field.path()));
        }
        for flag in Flag::ALL {
            if self.given(flag) && !self.asked.contains(&flag) {
                return Err(LaunchError::Unused { flag: flag.name(), target: self.target.name() });
            }
        }
        Ok(self.head(what))
    }

    fn head(&self, what: &str) -> Head {
        let mut lines = vec![what.to_owned()];
        if !self.blanks.is_empty() {
            lines.extend([String::new(), "To fill in:".into()]);
            lines.extend(self.blanks.values().map(|blank| format!("- {}: {}", blank.placeholder, blank.what)));
        }
        if !self.notes.is_empty() {
            lines.extend([String::new(), "What the plan says and these files do not:".into()]);
            lines.extend(self.notes.iter().map(|note| format!("- {note}")));
        }
        Head { lines: lines.iter().map(|line| line.replace(char::is_control, " ")).collect() }
    }

    /// The files with what is to be said about them.
    pub(super) fn finished(self, files: Vec<LaunchFile>) -> Finished {
        Finished { files, blanks: self.blanks.into_values().collect(), notes: self.notes }
    }
}

impl Head {
    /// As comments that begin with `#`.
    pub(super) fn comment(&self) -> String {
        let line = |line: &String| if line.is_empty() { "#\n".to_owned() } else { format!("# {line}\n") };
        self.lines.iter().map(line).collect()
    }
}
