//! What commands say, for programs that call them.

use indicatif::{ProgressDrawTarget, TermLike};
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// How often progress is told, in Hz.
const REFRESH: u8 = 10;
/// Width in columns for which progress is drawn.
const COLUMNS: u16 = 100;

/// What a command says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Part of the result: on the command line it goes to standard output.
    Result(&'a str),
    /// What was done besides, such as a file that was written.
    Note(&'a str),
    /// What the result should not be read without.
    Warning(&'a str),
    /// How far the command is, in place of what was said before; empty at its end.
    Progress(&'a str),
}

/// Who hears what a command says, on any thread.
#[derive(Clone)]
pub struct Listener(Arc<dyn Fn(Event<'_>) + Send + Sync>);

impl Listener {
    /// Creates a listener that calls a function.
    pub fn new(hear: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    pub(crate) fn hear(&self, event: Event<'_>) {
        (self.0)(event);
    }
}

impl Debug for Listener {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// A screen with one line, which is told whenever it was drawn.
#[derive(Debug)]
pub(crate) struct Screen {
    listener: Listener,
    line: Mutex<String>,
}

impl Screen {
    /// Returns where progress bars are drawn for a listener.
    pub(crate) fn target(listener: Listener) -> ProgressDrawTarget {
        ProgressDrawTarget::term_like_with_hz(Box::new(Self { listener, line: Mutex::default() }), REFRESH)
    }

    fn with_line(&self, change: impl FnOnce(&mut String)) {
        change(&mut self.line.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        COLUMNS
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.with_line(|line| line.push_str(text));
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.with_line(String::clear);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.with_line(|line| self.listener.hear(Event::Progress(line.trim())));
        Ok(())
    }
}
