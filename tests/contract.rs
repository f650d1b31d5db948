//! `docs/contract.md` and `docs/security.md` against the tests they name.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this is test code, where a panic is a failed test")]

use std::fs;
use std::path::PathBuf;

/// Requirements that have a row.
const ROWS: usize = 80;

fn read(path: &str) -> String {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The third column of each row of the table, in order.
fn rows(document: &str) -> Vec<String> {
    let rows = document.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, _, state] = cells.as_slice() else {
            return None;
        };
        Some((number.parse::<usize>().ok()?, (*state).to_owned()))
    });
    let (numbers, states): (Vec<_>, Vec<_>) = rows.unzip();
    assert_eq!(numbers, (1..=ROWS).collect::<Vec<_>>(), "one row a requirement, in order");
    states
}

/// Tests named like `` `name` in path ``.
fn tests(state: &str) -> Vec<(String, String)> {
    let named = state.split(", ").map(|test| {
        let (name, path) = test.split_once(" in ").unwrap_or_else(|| panic!("no test: {test}"));
        (name.trim_matches('`').to_owned(), path.to_owned())
    });
    named.collect()
}

/// Whether the source has a test of that name: a function right below the attribute of one.
fn has_test(source: &str, name: &str) -> bool {
    let mut marked = false;
    for line in source.lines().map(str::trim) {
        let is_function = ["fn ", "async fn "]
            .iter()
            .any(|start| line.strip_prefix(start).is_some_and(|rest| rest.starts_with(&format!("{name}("))));
        if is_function && marked {
            return true;
        }
        marked = line == "#[test]" || line.starts_with("#[tokio::test") || (marked && line.starts_with("#["));
    }
    false
}

#[test]
fn contract_rows_name_a_test_or_a_reason() {
    for (index, state) in rows(&read("docs/contract.md")).iter().enumerate() {
        let number = index + 1;
        if let Some(done) = state.strip_prefix("done: ") {
            for (name, path) in tests(done) {
                assert!(has_test(&read(&path), &name), "{number}: {path} has no test {name}");
            }
        } else {
            let why = state.strip_prefix("open: ").unwrap_or_default();
            assert!(why.len() > 10, "{number} is neither done nor open for a reason: {state}");
        }
    }
}

#[test]
fn threats_are_shown_by_tests_that_exist() {
    let page = read("docs/security.md");
    let table = page.split("| actor | asset |").nth(1).unwrap_or_default();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut threats = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, _, _, shown_by] = cells.as_slice() else {
            panic!("not four cells: {row}");
        };
        for (name, path) in tests(shown_by) {
            assert!(has_test(&read(&path), &name), "{path} has no test {name}");
        }
        threats += 1;
    }
    assert!(threats >= 10, "{threats} threats");
}

#[test]
fn a_function_that_is_no_test_shows_nothing() {
    assert!(has_test("#[tokio::test]\nasync fn it_works() {}", "it_works"));
    assert!(!has_test("async fn it_works() {}", "it_works"));
    assert!(!has_test("#[test]\nfn it_works_well() {}", "it_works"));
}
