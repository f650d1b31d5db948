//! `capa-rs`: see `capa-rs --help`.

fn main() {}
