//! The README is read in two minutes.

use crate::read;

/// Lines that the README may have.
const LINES: usize = 120;
/// Columns that a line of it may have.
const COLUMNS: usize = 120;

#[test]
fn the_readme_is_short() {
    let readme = read("README.md");
    assert!(readme.lines().count() <= LINES, "{} lines", readme.lines().count());
    for line in readme.lines() {
        assert!(line.chars().count() <= COLUMNS, "too wide: {line}");
    }
}
