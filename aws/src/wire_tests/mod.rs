//! The adapter over the wire, against a server that a test scripts.

mod actions;
mod calls;
mod credentials;
mod fake;
mod fleet;
mod following;
mod limits;
mod replacements;
mod targets;
mod templates;
