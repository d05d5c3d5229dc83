//! Whoever reads what a command prints may go before its end, as in `consort status | head -1`. Then the command ends at
//! once and without a word, as those do that the signal SIGPIPE ends. Rust's standard library ignores the signal, and what
//! prints panics instead: so that everything that is held is let go on the way out.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

/// What a shell says of a program that SIGPIPE ended.
const BROKEN_PIPE: u8 = 128 + 13;

/// Runs a command as long as somebody reads what it prints.
pub(crate) fn ends_quietly(command: impl FnOnce() -> ExitCode) -> ExitCode {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        if !is_broken_pipe(panicked.payload()) {
            usual(panicked);
        }
    }));
    match panic::catch_unwind(AssertUnwindSafe(command)) {
        Ok(code) => code,
        Err(payload) if is_broken_pipe(&*payload) => ExitCode::from(BROKEN_PIPE),
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Whether it is the standard library's panic for a line that nobody reads.
fn is_broken_pipe(payload: &(dyn Any + Send)) -> bool {
    let text = payload.downcast_ref::<String>();
    text.is_some_and(|text| text.starts_with("failed printing to std") && text.contains("Broken pipe"))
}
