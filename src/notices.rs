//! Messages that the commands print to standard error besides their failures.

use std::io::IsTerminal as _;

/// Tells a person at a terminal what the command is waiting for.
#[expect(clippy::print_stderr, reason = "progress is for people, and the report is for standard output")]
pub(crate) fn progress(doing: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("{doing}");
    }
}

/// Tells on standard error what the report leaves out.
#[expect(clippy::print_stderr, reason = "the report is for standard output, and may be read by a program")]
pub(crate) fn left_out(what: &str) {
    eprintln!("capa-rs: {what}");
}
