//! What a command gets besides its arguments: texts in place of files, and when to stop.
//!
//! A command reads it on the thread on which it was called. Another program that calls it hands over texts of its own; on
//! the command line there are those of the streams that were read before.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use trainyard_planner::Cancellation;

/// What a call brings along.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// Texts by the names under which arguments refer to them, as if they were files.
    pub(crate) texts: BTreeMap<String, String>,
    /// Texts of streams by the paths under which arguments refer to them.
    pub(crate) streams: BTreeMap<PathBuf, String>,
    /// Stops the call.
    pub(crate) cancellation: Cancellation,
}

thread_local! {
    static CALLER: RefCell<Caller> = RefCell::default();
}

/// Calls `work` on behalf of a caller.
pub(crate) fn on_behalf_of<T>(caller: Caller, work: impl FnOnce() -> T) -> T {
    let before = CALLER.replace(caller);
    let done = work();
    CALLER.set(before);
    done
}

/// Returns what the present call brings along.
pub(crate) fn current() -> Caller {
    CALLER.with_borrow(Clone::clone)
}

/// Returns the text that stands in place of a file: that of a stream at this path, or one of this name, in whatever folder.
pub(crate) fn text(path: &Path) -> Option<String> {
    let name = path.file_name().and_then(OsStr::to_str);
    let named = |caller: &Caller| caller.texts.get(name?).cloned();
    CALLER.with_borrow(|caller| caller.streams.get(path).cloned().or_else(|| named(caller)))
}

/// Returns `true` if a path is that of a stream, which was read and has no other name.
pub(crate) fn is_stream(path: &Path) -> bool {
    CALLER.with_borrow(|caller| caller.streams.contains_key(path))
}

/// Returns `true` if a text stands in place of this file.
pub(crate) fn has(path: &Path) -> bool {
    text(path).is_some()
}

/// Returns the flag by which the caller stops the command.
pub(crate) fn cancellation() -> Cancellation {
    CALLER.with_borrow(|caller| caller.cancellation.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_one_call() {
        let path = Path::new("examples/<job>.toml");
        let texts = BTreeMap::from([("<job>.toml".into(), "text".into())]);
        let caller = Caller { texts, ..Caller::default() };
        assert_eq!(on_behalf_of(caller, || text(path)).as_deref(), Some("text"));
        assert!(!has(path));
    }

    #[test]
    fn a_stream_is_at_its_path_and_nowhere_else() {
        let streams = BTreeMap::from([("-".into(), "text".into())]);
        on_behalf_of(Caller { streams, ..Caller::default() }, || {
            assert_eq!(text(Path::new("-")).as_deref(), Some("text"));
            assert!(!has(Path::new("./-")) && !is_stream(Path::new("a/-")));
        });
    }
}
