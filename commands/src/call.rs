//! Commands called by other programs: the same words, and the same bytes of the document.

use crate::caller::{self, Caller, on_behalf_of};
use crate::failure::{Exit, Failure, Fault};
use crate::listener::{Event, Listener};
use crate::misused::misused;
use crate::output::Output;
use crate::parsing::parse;
use crate::{checked, dispatch, printed, threads};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_planner::Cancellation;

/// A call of a command.
///
/// ```
/// use trainyard_commands::{Call, Listener};
///
/// let call = Call::new(["show", "gpus", "t4", "--format", "json"]);
/// let answer = call.answer(Listener::new(|_| ())).expect("the catalog has it");
/// assert!(answer.text.starts_with("{\n  \"name\": \"t4\""));
/// let refusal = Call::new(["show", "gpus", "t5"]).answer(Listener::new(|_| ())).expect_err("there is none");
/// assert_eq!(refusal.exit, 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Call {
    words: Vec<OsString>,
    caller: Caller,
}

/// What a command answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What the command line prints on standard output: a document with `--format json`, a page without.
    pub text: String,
}

/// The reason why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The exit code that the command line has.
    pub exit: u8,
    pub message: String,
    pub causes: Vec<String>,
    /// What the user may do about it.
    pub hint: Option<String>,
    /// The field of a file, or the flag, that is wrong.
    pub field: Option<String>,
    /// What is there.
    pub value: Option<String>,
    /// What may be there.
    pub allowed: Option<String>,
    /// What the command printed all the same, such as the plan that comes nearest to a goal.
    pub text: String,
}

impl Call {
    /// Creates a call with these words, as they stand on the command line after `trainyard`.
    pub fn new<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Self {
        let program = OsString::from("trainyard");
        let words = std::iter::once(program).chain(words.into_iter().map(Into::into)).collect();
        Self { words, caller: Caller::default() }
    }

    /// Adds texts that stand in place of files with these names, which words refer to.
    #[must_use]
    pub fn with_texts(mut self, texts: BTreeMap<String, String>) -> Self {
        self.caller.texts = texts;
        self
    }

    /// Adds a flag by which the command is stopped: searches as soon as may be, others before they write anything.
    #[must_use]
    pub fn until(mut self, cancellation: Cancellation) -> Self {
        self.caller.cancellation = cancellation;
        self
    }

    /// Does it. The listener hears notes, warnings and progress.
    ///
    /// # Errors
    ///
    /// When the command line would end with another exit code than 0.
    #[expect(clippy::result_large_err, reason = "it is returned once for a command")]
    pub fn answer(self, listener: Listener) -> Result<Answer, Refusal> {
        let printed = Arc::new(Mutex::new(String::new()));
        let sheet = Arc::clone(&printed);
        let listener = Listener::new(move |event| match event {
            Event::Result(text) => sheet.lock().unwrap_or_else(PoisonError::into_inner).push_str(text),
            other => listener.hear(other),
        });
        let Self { words, caller } = self;
        let cancellation = caller.cancellation.clone();
        let ended = on_behalf_of(caller, || done(&words, listener));
        let text = std::mem::take(&mut *printed.lock().unwrap_or_else(PoisonError::into_inner));
        match ended {
            _ if cancellation.is_cancelled() => Err(Refusal::of(&Failure::stopped(), String::new())),
            Ok(_) => Ok(Answer { text }),
            Err(failure) => Err(Refusal::of(&failure, text)),
        }
    }
}

fn done(words: &[OsString], listener: Listener) -> Result<Exit, Failure> {
    let arguments = printed::resolved(parse(words).map_err(|error| misused(&error, words))?)?;
    let output = Output::new(&arguments.global).heard_by(listener);
    let (history, command) = (checked(&arguments, words)?, arguments.command);
    let (caller, wanted) = (caller::current(), threads::wanted(&command));
    threads::called(wanted, move || on_behalf_of(caller, || dispatch(command, &history, &output)))?
}

impl Refusal {
    fn of(failure: &Failure, text: String) -> Self {
        let Fault { field, value, allowed } = failure.fault().clone();
        Self {
            exit: failure.code() as u8,
            message: failure.message().into(),
            causes: failure.causes().to_vec(),
            hint: failure.hint_text().map(Into::into),
            field,
            value,
            allowed,
            text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> Listener {
        Listener::new(|_| ())
    }

    fn texts<const N: usize>(texts: [(&str, &str); N]) -> BTreeMap<String, String> {
        texts.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
    }

    #[test]
    fn a_job_in_place_of_a_file_is_planned_as_the_file_would_be() {
        let job = "[model]\nname = \"gpt2\"\n[data]\ntokens = 1e8\n[training]\nglobal_batch = 64\n\
                   [cluster]\ninstances = [\"g4dn.xlarge\"]\nmax_instances = 2\n";
        let words = ["plan", "<job>.toml", "--format", "json", "--history", "off"];
        let given = Call::new(words).with_texts(texts([("<job>.toml", job)])).answer(quiet()).expect("a plan");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("job.toml");
        std::fs::write(&path, job).expect("room");
        let path = path.display().to_string();
        let read = Call::new(["plan", &path, "--format", "json", "--history", "off"]).answer(quiet());
        assert_eq!(read.expect("a plan"), given);
    }

    #[test]
    fn a_refusal_names_the_field_the_value_and_what_is_allowed() {
        let job = "[model]\nname = \"gpt2\"\n[data]\ntokens = 1e8\n[training]\nglobal_batch = 0\n";
        let call = Call::new(["plan", "<job>.toml", "--history", "off"]).with_texts(texts([("<job>.toml", job)]));
        let refusal = call.answer(quiet()).expect_err("no batch");
        assert_eq!((refusal.exit, refusal.field.as_deref()), (2, Some("training.global_batch")), "{refusal:?}");
        assert_eq!(refusal.value.as_deref(), Some("0"));
        assert!(refusal.allowed.is_some(), "{refusal:?}");

        let slip = job.replace("global_batch", "global_bach");
        let call = Call::new(["plan", "<job>.toml", "--history", "off"]).with_texts(texts([("<job>.toml", &slip)]));
        let refusal = call.answer(quiet()).expect_err("a slip");
        assert_eq!(refusal.field.as_deref(), Some("training.global_bach"));
        assert!(refusal.allowed.is_some_and(|allowed| allowed.contains("`global_batch`")));
        assert_eq!(refusal.hint.as_deref(), Some("did you mean `global_batch`?"));

        let refusal = Call::new(["plan", "--pricing", "cheap"]).answer(quiet()).expect_err("no such terms");
        assert_eq!((refusal.field.as_deref(), refusal.value.as_deref()), (Some("--pricing"), Some("cheap")));
        assert!(refusal.allowed.is_some_and(|allowed| allowed.contains("spot")));
    }

    #[test]
    fn a_plan_that_misses_its_goal_comes_with_the_refusal() {
        let words = "plan --model gpt2 --tokens 1e10 --global-batch 64 --instances g4dn.xlarge --max-instances 1 \
                     --deadline 1h --format json --history off";
        let refusal = Call::new(words.split_whitespace()).answer(quiet()).expect_err("it takes days");
        assert_eq!(refusal.exit, 4);
        assert!(refusal.text.starts_with("{\n  \"schema\": \"trainyard.plan/1\""), "{refusal:?}");
    }

    #[test]
    fn a_command_that_is_stopped_answers_and_writes_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let out = folder.path().join("plan.json").display().to_string();
        let words = ["plan", "--model", "gpt2", "--tokens", "1e8", "--global-batch", "64", "--out", &out];
        let cancellation = Cancellation::default();
        cancellation.cancel();
        let call = Call::new(words.into_iter().chain(["--history", "off"])).until(cancellation);
        let refusal = call.answer(quiet()).expect_err("it was stopped");
        assert_eq!((refusal.exit, refusal.text.as_str()), (5, ""));
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
    }

    #[test]
    fn a_call_is_checked_and_searches_as_the_command_line_does() {
        let words = ["show", "gpus", "t4", "--history", "no/such/folder/history.db"];
        let refusal = Call::new(words).answer(quiet()).expect_err("no folder");
        assert!(refusal.exit == 2 && refusal.message.contains("there is no folder `no/such/folder`"), "{refusal:?}");
        let job = "plan --model gpt2 --tokens 1e8 --global-batch 64 --instances g4dn.xlarge --max-instances 2 --format json \
                   --history off";
        let one = Call::new(job.split_whitespace().chain(["--threads", "1"])).answer(quiet()).expect("a plan");
        assert_eq!(Call::new(job.split_whitespace()).answer(quiet()).expect("a plan"), one);
        let words: Vec<OsString> = "trainyard plan --model gpt2 --threads 3".split(' ').map(Into::into).collect();
        let command = parse(&words).expect("words").command;
        assert_eq!(threads::called(threads::wanted(&command), rayon::current_num_threads).expect("threads"), 3);
    }

    #[test]
    fn progress_is_heard() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let sheet = Arc::clone(&heard);
        let listener = Listener::new(move |event| {
            if let Event::Progress(text) = event {
                sheet.lock().expect("one at a time").push(text.to_owned());
            }
        });
        let words = "what-if --model gpt2 --tokens 1e8 --global-batch 64 --instances g4dn.xlarge --vary instances=1..3 \
                     --history off";
        Call::new(words.split_whitespace()).answer(listener).expect("cases");
        let heard = heard.lock().expect("one at a time");
        assert!(heard.iter().any(|text| text.contains("of 3")), "{heard:?}");
    }
}
