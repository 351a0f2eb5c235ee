//! How a command ends: exit codes, and errors as users read them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::process::ExitCode;
use trainyard_units::Invalid;

/// The exit codes that scripts may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Done = 0,
    /// A failure that is not the input's fault.
    Failed = 1,
    /// Wrong usage or input.
    Input = 2,
    /// There is no feasible plan.
    NoPlan = 3,
    /// There is a plan, but none within the deadline or budget.
    MissedGoal = 4,
    /// The run ended early; its checkpoint is complete.
    Interrupted = 5,
    /// The command was interrupted, and there is no checkpoint of it: 128 and the number of Ctrl-C's signal, as shells have it.
    Stopped = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What of the input is wrong, for programs that call commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The field of a file, or the flag.
    pub(crate) field: Option<String>,
    pub(crate) value: Option<String>,
    /// What it may be instead.
    pub(crate) allowed: Option<String>,
}

impl From<&Invalid> for Fault {
    fn from(invalid: &Invalid) -> Self {
        let field = Some(invalid.field().to_owned()).filter(|field| !field.is_empty());
        Self { field, value: invalid.given().map(Into::into), allowed: invalid.allowed().map(Into::into) }
    }
}

/// The schema of [`ErrorDocument`].
const ERROR_SCHEMA: &str = "trainyard.error/1";

/// Why a command failed, as programs read it: one line on standard error with `--format json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ErrorDocument {
    /// `trainyard.error/1`.
    schema: String,
    /// The exit code.
    exit_code: u8,
    /// What failed.
    message: String,
    /// Why, from the outermost reason to the innermost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
    /// What may be done about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The field of a file, or the flag, that is wrong; absent where it is no single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// What stands there.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// What may stand there.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<String>,
}

impl ErrorDocument {
    /// Returns what failed and why, in one sentence.
    pub(crate) fn told(self) -> String {
        std::iter::once(self.message).chain(self.causes).collect::<Vec<_>>().join(": ")
    }
}

/// The reason why a command failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    code: Exit,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
    /// Boxed, so that results with other facts beside it stay small.
    fault: Box<Fault>,
}

impl Failure {
    /// Creates a failure of wrong usage or input.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new(Exit::Input, message)
    }

    /// Creates a failure with this exit code.
    pub(crate) fn new(code: Exit, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), causes: Vec::new(), hint: None, fault: Box::default() }
    }

    /// Creates the failure of a command that its caller stopped.
    pub(crate) fn stopped() -> Self {
        Self::new(Exit::Interrupted, "the command was stopped before it ended")
    }

    /// Creates a failure from a library's error and its causes.
    pub(crate) fn of(code: Exit, error: &(dyn Error + 'static)) -> Self {
        let mut failure = Self::new(code, error.to_string());
        let mut invalid = error.downcast_ref::<Invalid>();
        let mut source = error.source();
        while let Some(cause) = source {
            failure.causes.push(cause.to_string());
            invalid = invalid.or_else(|| cause.downcast_ref());
            source = cause.source();
        }
        match invalid {
            Some(invalid) => failure.at(invalid),
            None => failure,
        }
    }

    /// Adds a cause.
    pub(crate) fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Adds the field that is the cause, and its advice.
    pub(crate) fn because_of(self, invalid: &Invalid) -> Self {
        self.because(invalid.to_string()).maybe_hint(invalid.hint()).at(invalid)
    }

    /// Says what of the input is wrong.
    pub(crate) fn at(mut self, fault: impl Into<Fault>) -> Self {
        *self.fault = fault.into();
        self
    }

    /// Adds advice for the user.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds advice for the user, if there is some.
    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    /// Returns the failure of a whole because of this one of a part.
    pub(crate) fn inside(&self, whole: Self, place: &str) -> Self {
        let told = whole.because(format!("{place}: {}", self.message));
        let told = self.causes.iter().fold(told, Self::because).maybe_hint(self.hint.clone());
        told.at((*self.fault).clone())
    }

    pub(crate) fn code(&self) -> Exit {
        self.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn causes(&self) -> &[String] {
        &self.causes
    }

    pub(crate) fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    pub(crate) fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Returns the failure with its texts as they may be shown.
    pub(crate) fn document(&self, told: impl Fn(&str) -> String) -> ErrorDocument {
        let given = |text: &Option<String>| text.as_deref().map(&told);
        ErrorDocument {
            schema: ERROR_SCHEMA.into(),
            exit_code: self.code as u8,
            message: told(&self.message),
            causes: self.causes.iter().map(|cause| told(cause)).collect(),
            hint: given(&self.hint),
            field: given(&self.fault.field),
            value: given(&self.fault.value),
            allowed: given(&self.fault.allowed),
        }
    }
}
