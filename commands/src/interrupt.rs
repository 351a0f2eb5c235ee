//! What Ctrl-C and other requests to end do to a command that works for long.

use crate::failure::Exit;
use std::sync::Once;
#[cfg(unix)]
use std::sync::{Arc, atomic::AtomicBool};

/// Calls `stop` on the first SIGINT, SIGTERM or SIGHUP; the second ends the program at once. Signals that were ignored
/// when the program was started stay ignored: `nohup` keeps SIGHUP from it, a shell's scripts keep Ctrl-C from their
/// background processes. Only the first `stop` of a program is called.
pub(crate) fn on_interrupt(stop: impl Fn() + Send + 'static) {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| listen(stop));
}

#[cfg(unix)]
fn listen(stop: impl Fn() + Send + 'static) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = ignored(&status);
    let is_heard = |signal: &i32| ignored >> (signal - 1) & 1 == 0;
    let heard: Vec<i32> = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_heard).collect();
    let (ready, heeded) = std::sync::mpsc::channel();
    // If signals cannot be handled, or no thread can be started, they end the program by the system's default.
    let listener = std::thread::Builder::new().spawn(move || {
        let Ok(mut signals) = signal_hook::iterator::Signals::new(&heard) else { return };
        end_at_the_second(&heard);
        drop(ready);
        if signals.forever().next().is_some() {
            stop();
        }
    });
    if listener.is_ok() {
        // Nothing is ever sent: this returns with an error once the thread listens or never will.
        let _: Result<(), _> = heeded.recv();
    }
}

/// Ends the program at the second of these signals. The handler itself does, so that it does not matter what became of the
/// thread that heard the first one: what it says may wait for a reader, or have none any more.
#[cfg(unix)]
fn end_at_the_second(heard: &[i32]) {
    use signal_hook::flag;
    let is_second = Arc::new(AtomicBool::new(false));
    for signal in heard {
        // Where this fails the first signal is heard all the same.
        let _ = flag::register_conditional_shutdown(*signal, Exit::Stopped as i32, is_second.clone())
            .and_then(|_| flag::register(*signal, is_second.clone()));
    }
}

#[cfg(not(unix))]
fn listen(_: impl Fn() + Send + 'static) {}

/// Returns the signals that a process ignores, a bit for each, from the text of `/proc/PID/status`; 0 where there is no
/// such file.
#[cfg(unix)]
fn ignored(status: &str) -> u64 {
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        assert_eq!(ignored("Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"), 0x1001);
        assert_eq!(ignored(""), 0);
    }
}
