//! The `capa-rs` binary as a library: one module a subcommand.
