//! How a release of the program is linked.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        // GNU ld drops the unwinding tables of the functions that it drops, which rust-lld keeps: 7 of 60 MB.
        println!("cargo::rustc-link-arg-bins=-fuse-ld=bfd");
        // The loader reads all relocations at each start, and they stay in memory: 4 MB, packed 0.1 MB. It takes glibc
        // 2.36.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
