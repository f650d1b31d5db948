//! Whether each file of the sources says what it holds.

use std::fs;
use std::path::{Path, PathBuf};

use crate::repository;

/// The folders with Rust code.
const SOURCES: [&str; 13] = [
    "api",
    "aws",
    "cloud",
    "controllers",
    "e2e",
    "examples",
    "fake-aws",
    "fleet",
    "network",
    "preflight",
    "runtime",
    "simulation",
    "src",
];

/// The files in a folder. Those of tests are left out: their names say it.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_file_begins_with_what_it_holds() {
    let mut files = Vec::new();
    for folder in SOURCES {
        rust_files(&repository(folder), &mut files);
    }
    assert!(files.len() > 500, "only {} files", files.len());
    let silent = |file: &&PathBuf| !fs::read_to_string(file).unwrap().starts_with("//! ");
    let silent: Vec<&PathBuf> = files.iter().filter(silent).collect();
    assert!(silent.is_empty(), "{silent:?}");
}
