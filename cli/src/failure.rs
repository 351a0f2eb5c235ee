//! How a command ends: exit codes, and errors as users read them.

use std::error::Error;
use std::process::ExitCode;

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
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The reason why a command failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    code: Exit,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    /// Creates a failure of wrong usage or input.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new(Exit::Input, message)
    }

    /// Creates a failure with this exit code.
    pub(crate) fn new(code: Exit, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), causes: Vec::new(), hint: None }
    }

    /// Creates a failure from a library's error and its causes.
    pub(crate) fn of(code: Exit, error: &dyn Error) -> Self {
        let mut failure = Self::new(code, error.to_string());
        let mut source = error.source();
        while let Some(cause) = source {
            failure.causes.push(cause.to_string());
            source = cause.source();
        }
        failure
    }

    /// Adds a cause.
    pub(crate) fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
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
        self.causes.iter().fold(told, Self::because).maybe_hint(self.hint.clone())
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
}
