//! Calls of libraries that panic on some files where they should tell of them.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// `true` while a panic of this thread is caught and returned as an error.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `call`, or the message of its panic. Nothing that it could leave half done may be used after
/// it.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                before(panic);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(outer);
    result.map_err(message)
}

fn message(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().map_or("no reason", |text| text).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_its_words() {
        assert_eq!(guarded(|| 1), Ok(1));
        assert_eq!(guarded(|| -> i32 { panic!("meant by a test") }), Err("meant by a test".into()));
        let place = 3;
        assert_eq!(guarded(|| -> i32 { panic!("meant at {place}") }), Err("meant at 3".into()));
    }
}
