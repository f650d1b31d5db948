//! Imports between the files of a crate run one way: no file imports, directly or by way of others, a file that
//! imports it. A module may use its parents freely: an import of a parent module is not counted.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this is test code, where a panic is a failed test"
)]

mod circles;
mod modules;
mod tokens;

use std::fs;
use std::path::{Path, PathBuf};

use circles::{Circle, circles};
use modules::Crate;

/// The source folders that are looked at.
const SOURCES: [&str; 12] = [
    "api/src",
    "network/src",
    "preflight/src",
    "cloud/src",
    "aws/src",
    "fake-aws/src",
    "runtime/src",
    "controllers/src",
    "fleet/src",
    "simulation/src",
    "e2e/src",
    "src",
];

fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from)
}

fn read(folder: &Path, file: &str) -> Option<String> {
    fs::read_to_string(folder.join(file)).ok()
}

/// The circles of all crates, their files named from the root of the workspace.
fn circles_of_workspace() -> Vec<Circle> {
    let mut found = Vec::new();
    for source in SOURCES {
        let folder = root().join(source);
        let imports = Crate::load(|file| read(&folder, file)).imports();
        assert!(!imports.is_empty() || source == "src", "{source}: no import was found");
        found.extend(circles(&imports).into_iter().map(|circle| circle.within(source)));
    }
    found
}

#[test]
fn imports_between_files_run_one_way() {
    let circles: Vec<String> = circles_of_workspace().iter().map(Circle::to_string).collect();
    assert!(circles.is_empty(), "these files import each other in circles:\n{}", circles.join("\n"));
}

/// Whether a file calls itself pure in the comment at its head.
fn is_pure(source: &str) -> bool {
    let head = source.lines().take_while(|line| line.starts_with("//!"));
    let words: Vec<&str> = head.flat_map(str::split_whitespace).collect();
    words.iter().any(|word| matches!(*word, "Pure." | "pure."))
}

#[test]
fn pure_files_import_pure_files_only() {
    let mut impure = Vec::new();
    let mut pure = 0;
    // The crates api and network are pure as a whole.
    for source in ["cloud/src", "controllers/src"] {
        let folder = root().join(source);
        let is_pure = |file: &str| read(&folder, file).is_some_and(|text| is_pure(&text));
        for (file, imported) in Crate::load(|file| read(&folder, file)).imports() {
            if is_pure(&file) {
                pure += 1;
                let others = imported.keys().filter(|other| !is_pure(other));
                impure.extend(others.map(|other| format!("{source}/{file} imports {source}/{other}")));
            }
        }
    }
    assert!(pure > 0, "no file calls itself pure");
    assert!(impure.is_empty(), "\n{}", impure.join("\n"));
}
