//! The tables of files in docs/architecture.md against the sources.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::{markdown, read, repository};

const PAGE: &str = "docs/architecture.md";

#[test]
fn the_tables_of_files_equal_the_sources() {
    let copy = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("architecture.md");
    fs::write(&copy, read(PAGE)).unwrap();
    let script = repository("hack/docs/files.sh");
    let output = Command::new(script).arg(&copy).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        fs::read_to_string(copy).unwrap() == read(PAGE),
        "{PAGE} is not up to date: run `make generate`"
    );
}

#[test]
fn every_file_in_a_table_says_what_it_holds() {
    let page = read(PAGE);
    let tables = page
        .split("<!-- files of ")
        .skip(1)
        .filter(|part| part.contains("| --- | --- |"));
    let mut files = 0;
    for row in tables.flat_map(str::lines).filter(|line| line.starts_with("| `")) {
        let cells = markdown::cells(row).unwrap_or_else(|| panic!("a file without a description: {row}"));
        assert_eq!(cells.len(), 2, "{row}");
        files += 1;
    }
    assert!(files > 50, "only {files} files");
}
