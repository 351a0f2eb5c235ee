//! How a command ends: exit codes, and errors as users read them.

use std::error::Error;
use std::process::ExitCode;

/// The exit codes that scripts may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Something failed that the input is not to blame for.
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

/// Why a command did not do what it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    code: Exit,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    /// Wrong usage or input.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new(Exit::Input, message)
    }

    /// A failure with this exit code.
    pub(crate) fn new(code: Exit, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), causes: Vec::new(), hint: None }
    }

    /// An error of a library, with what caused it.
    pub(crate) fn of(code: Exit, error: &dyn Error) -> Self {
        let mut failure = Self::new(code, error.to_string());
        let mut source = error.source();
        while let Some(cause) = source {
            failure.causes.push(cause.to_string());
            source = cause.source();
        }
        failure
    }

    /// Adds what led to it.
    pub(crate) fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Adds what the user may do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds what the user may do about it, if anybody knows.
    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
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
