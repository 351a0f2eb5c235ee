//! What the user sees: results on standard output, everything else on standard error.

use crate::arguments::{Colour, Format, Global};
use crate::failure::{Exit, Failure};
use crate::listener::{Event, Listener, Screen};
use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::{Arc, OnceLock};
use trainyard_reports::{Width, harmless};

/// Width in columns of a report that goes into a file or a pipe.
const PIPE_WIDTH: u16 = 100;
/// Range of widths in columns outside which reports are hard to read.
const WIDTHS: std::ops::RangeInclusive<u16> = 60..=140;

/// The form of results and messages, and the streams to which they go.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line or a fact about the terminal")]
pub(crate) struct Output {
    format: Format,
    colour: bool,
    quiet: bool,
    verbose: bool,
    width: Width,
    /// `true` if progress may be redrawn on one line.
    live: bool,
    /// `true` if this is one of many processes and another prints for all.
    mute: bool,
    /// Who hears everything, if it is not for the streams of this process.
    listener: Option<Listener>,
    /// The reason why a result could not be printed.
    unwritten: Arc<OnceLock<String>>,
}

impl Output {
    /// Creates the output that the flags and the terminal ask for.
    pub(crate) fn new(global: &Global) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colour = match global.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => !set("NO_COLOR") && (set("CLICOLOR_FORCE") || (stderr().is_terminal() && !dumb)),
        };
        let columns = terminal_size::terminal_size_of(stdout()).map_or(PIPE_WIDTH, |(columns, _)| columns.0);
        Self {
            format: global.format,
            colour,
            quiet: global.quiet,
            verbose: global.verbose,
            width: Width(columns.clamp(*WIDTHS.start(), *WIDTHS.end())),
            live: stderr().is_terminal() && !dumb && !global.quiet,
            mute: false,
            listener: None,
            unwritten: Arc::default(),
        }
    }

    /// Returns this output with everything going to a listener.
    pub(crate) fn heard_by(self, listener: Listener) -> Self {
        Self { live: true, colour: false, listener: Some(listener), ..self }
    }

    /// Returns this output restricted to errors: another process prints everything else.
    pub(crate) fn muted(&self) -> Self {
        Self { quiet: true, live: false, mute: true, ..self.clone() }
    }

    /// Returns the width of reports.
    pub(crate) fn width(&self) -> Width {
        self.width
    }

    /// Returns `true` if all details shall be shown.
    pub(crate) fn verbose(&self) -> bool {
        self.verbose
    }

    /// Prints a result: the page for people, or the document for programs.
    pub(crate) fn result<T: Serialize>(&self, document: &T, page: impl FnOnce() -> String) {
        match self.format {
            Format::Table => self.page(&page()),
            Format::Json => self.as_it_is(&json(document)),
        }
    }

    /// Returns `true` if results are for programs.
    pub(crate) fn programs(&self) -> bool {
        matches!(self.format, Format::Json)
    }

    /// Prints a document for programs while it is made. A reader that closes the pipe is no error.
    pub(crate) fn stream<T: Serialize>(&self, document: &T) -> Result<(), Failure> {
        if let Some(listener) = &self.listener {
            let text = json_of(document)
                .map_err(|error| Failure::new(Exit::Failed, "cannot write the document").because(error.to_string()))?;
            listener.hear(Event::Result(&text));
            return Ok(());
        }
        let mut out = BufWriter::new(stdout().lock());
        let written = serde_json::to_writer_pretty(&mut out, document)
            .map_err(|error| (error.io_error_kind(), error.to_string()));
        let ended =
            |()| writeln!(out).and_then(|()| out.flush()).map_err(|error| (Some(error.kind()), error.to_string()));
        match written.and_then(ended) {
            Ok(()) | Err((Some(ErrorKind::BrokenPipe), _)) => Ok(()),
            Err((_, cause)) => Err(Failure::new(Exit::Failed, "cannot write the document").because(cause)),
        }
    }

    /// Prints a text for people on standard output. Names in it come from files, which are not trusted.
    pub(crate) fn page(&self, text: &str) {
        self.as_it_is(&harmless(text));
    }

    /// Prints a text for programs on standard output. A reader that closes the pipe is no error.
    pub(crate) fn as_it_is(&self, text: &str) {
        if self.mute {
            return;
        }
        if let Some(listener) = &self.listener {
            return listener.hear(Event::Result(text));
        }
        let written = stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
        if let Some(error) = written.err().filter(|error| error.kind() != ErrorKind::BrokenPipe) {
            // The first error is the one to report.
            let _ = self.unwritten.set(error.to_string());
        }
    }

    /// Returns the failure if not all of a result could be printed, for example because the disk is full.
    pub(crate) fn unwritten(&self) -> Option<Failure> {
        let cause = self.unwritten.get()?;
        Some(Failure::new(Exit::Failed, "cannot write the result to standard output").because(cause.clone()))
    }

    /// Prints a message about progress, unless the output is quiet.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        match &self.listener {
            _ if self.quiet => {}
            Some(listener) => listener.hear(Event::Note(text.as_ref())),
            None => {
                let _ = writeln!(stderr(), "{}", harmless(text.as_ref()));
            }
        }
    }

    /// Prints a warning, unless the output is quiet.
    pub(crate) fn warn(&self, text: impl AsRef<str>) {
        match &self.listener {
            _ if self.quiet => {}
            Some(listener) => listener.hear(Event::Warning(text.as_ref())),
            None => {
                let _ = writeln!(stderr(), "{} {}", self.paint("warning:", AnsiColor::Yellow), harmless(text.as_ref()));
            }
        }
    }

    /// Prints the reason why a command failed: as JSON on one line where results are JSON.
    pub(crate) fn failure(&self, failure: &Failure) {
        let told = |text: &str| short(&harmless(text));
        if self.format == Format::Json {
            let line = serde_json::to_string(&failure.document(told)).expect("texts are what JSON can hold");
            let _ = writeln!(stderr(), "{line}");
            return;
        }
        let error = format!("{} {}\n", self.paint("error:", AnsiColor::Red), told(failure.message()));
        let causes = failure.causes().iter().map(|cause| format!("  caused by: {}\n", told(cause)));
        let painted = self.paint("hint:", AnsiColor::Cyan);
        let hint = failure.hint_text().map(|hint| format!("\n{painted} {}\n", told(hint)));
        let text: String = std::iter::once(error).chain(causes).chain(hint).collect();
        let _ = stderr().write_all(text.as_bytes());
    }

    fn paint(&self, word: &str, colour: AnsiColor) -> String {
        if !self.colour {
            return word.into();
        }
        let style = Style::new().bold().fg_color(Some(colour.into()));
        format!("{style}{word}{style:#}")
    }

    /// Creates a progress bar on standard error, hidden where nobody would see it move.
    pub(crate) fn bar(&self, length: u64, template: &str) -> ProgressBar {
        let target = match &self.listener {
            Some(listener) => Screen::target(listener.clone()),
            None if self.live => ProgressDrawTarget::stderr(),
            None => ProgressDrawTarget::hidden(),
        };
        let style = ProgressStyle::with_template(template).expect("templates are constants").progress_chars("━╸ ");
        ProgressBar::with_draw_target(Some(length), target).with_style(style)
    }

    /// Returns `true` if bars are drawn; otherwise long work prints a line now and then.
    pub(crate) fn live(&self) -> bool {
        self.live
    }
}

/// Longest word of a message, and longest message, in characters; and most lines of one.
const WORD_MAX: usize = 200;
const MESSAGE_MAX: usize = 2000;
const LINES_MAX: usize = 12;

/// Cuts what a message quotes at length: a file may hold keys and values of any size.
pub(crate) fn short(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace).map(|word| cut(word, WORD_MAX));
    let lines: Vec<String> = words.collect::<String>().lines().map(str::to_owned).collect();
    let more = lines.len().saturating_sub(LINES_MAX);
    let mut kept = lines[..lines.len() - more].join("\n");
    if more > 0 {
        kept = format!("{kept}\n… and {more} more lines");
    }
    cut(&kept, MESSAGE_MAX)
}

/// Leaves out the middle of a text that has more than `most` characters.
fn cut(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.into();
    }
    let head: String = text.chars().take(most * 3 / 4).collect();
    let tail: String = text.chars().skip(length - most / 8).collect();
    format!("{head}…({} characters)…{tail}", length - most * 3 / 4 - most / 8)
}

/// Formats a document as it is printed and written.
pub(crate) fn json<T: Serialize>(document: &T) -> String {
    json_of(document).expect("documents hold only what JSON can hold")
}

fn json_of<T: Serialize>(document: &T) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(document)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_message_quotes_at_length_is_cut() {
        let usual = format!("cannot read job `{}/job.toml`: unknown key `a`", "folder/".repeat(20));
        assert_eq!(short(&usual), usual);
        let long = short(&format!("unknown key `{}`, expected one of a, b", "k".repeat(300_000)));
        assert!(
            long.len() < 300 && long.starts_with("unknown key `kkk") && long.ends_with("expected one of a, b"),
            "{long}"
        );
        assert!(long.contains("characters"), "{long}");
        assert!(short(&"ä ".repeat(100_000)).chars().count() < MESSAGE_MAX + 100);
        assert_eq!(short(&"line\n".repeat(100)).lines().count(), LINES_MAX + 1);
    }
}
