//! The documentation against the repository: links, code blocks, and the pages that repeat what the code says.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this is test code, where a panic is a failed test"
)]

mod dashboard;
mod flags;
mod fleet;
mod kube_state_metrics;
mod links;
mod markdown;
mod readme;
mod rooms;

use std::fs;
use std::path::{Path, PathBuf};

/// Documents outside the book.
const OUTSIDE: [&str; 5] = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "examples/README.md"];

fn repository(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: impl AsRef<Path>) -> String {
    let file = repository(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Names of what a folder of the repository holds.
fn names_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(repository(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Paths of the pages of the book, relative to the repository.
fn pages() -> Vec<String> {
    let of_folder = |folder: &str| {
        let names = names_in(folder).into_iter();
        let pages = names.filter_map(|name| Some(format!("{folder}/{}.md", name.strip_suffix(".md")?)));
        pages.collect::<Vec<_>>()
    };
    let mut pages = [of_folder("docs"), of_folder("docs/bring-your-own"), of_folder("docs/contributing")].concat();
    pages.sort();
    pages
}

/// Paths of all documents.
fn documents() -> Vec<String> {
    OUTSIDE.iter().map(|&path| path.to_owned()).chain(pages()).collect()
}
