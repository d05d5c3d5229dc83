//! The reader of a command's output may close it before its end, as in `consort status | head -1`. Then the
//! command ends at once and silently, like programs that the signal SIGPIPE ends. Rust's standard library
//! ignores the signal, and the print panics instead, so that the unwinding releases all resources.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

/// Exit code in a shell for a program that SIGPIPE ended.
const BROKEN_PIPE: u8 = 128 + 13;

/// Runs a command until its end, or until the reader of its output closes it.
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

/// True for the standard library's panic after a line without a reader.
fn is_broken_pipe(payload: &(dyn Any + Send)) -> bool {
    let text = payload.downcast_ref::<String>();
    text.is_some_and(|text| text.starts_with("failed printing to std") && text.contains("Broken pipe"))
}
