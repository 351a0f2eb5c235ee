//! What a program that calls a command hands over besides its arguments: texts in place of files, and when to stop.
//!
//! A command reads it on the thread on which it was called. On the command line there is none of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_planner::Cancellation;

/// What a call brings along.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// Texts by the names under which arguments refer to them, as if they were files.
    pub(crate) texts: BTreeMap<String, String>,
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

/// Returns the text that stands in place of a file, if there is one of this name, in whatever folder.
pub(crate) fn text(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    CALLER.with_borrow(|caller| caller.texts.get(name).cloned())
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
}
