//! The tables of docs/architecture.md against the files of the crates.

use std::collections::BTreeMap;

use crate::{markdown, names_in, read};

/// The folders that have a table, with the names in its first column. A table names its folder in its first header.
fn tables() -> BTreeMap<String, Vec<String>> {
    let page = read("docs/architecture.md");
    let mut tables = BTreeMap::new();
    let mut open: Option<(String, Vec<String>)> = None;
    for line in page.lines().chain([""]) {
        if let Some(cells) = markdown::cells(line) {
            let names = cells[0].split(", ").map(|name| name.trim_matches('`').to_owned());
            match &mut open {
                Some((_, rows)) => rows.extend(names),
                None => open = Some((cells[0].trim_matches('`').to_owned(), Vec::new())),
            }
        } else if !line.starts_with('|')
            && let Some((folder, rows)) = open.take()
        {
            tables.insert(folder, rows);
        }
    }
    tables.retain(|folder, _| folder.contains("/src/") || folder.ends_with("/src"));
    tables
}

/// What a folder holds, files without their ending and folders with a slash; test modules aside.
fn rooms(folder: &str) -> Vec<String> {
    let names = names_in(folder).into_iter();
    let rooms = names.filter_map(|name| match name.strip_suffix(".rs") {
        Some("lib" | "mod" | "tests") => None,
        Some(_) => Some(name),
        None if name == "tests" => None,
        // A module that has a file and a folder of one name is one room.
        None => Some(format!("{name}/")),
    });
    let rooms: Vec<String> = rooms.collect();
    let is_folder_of_file = |room: &String| {
        room.strip_suffix('/')
            .is_some_and(|name| rooms.contains(&format!("{name}.rs")))
    };
    let mut rooms: Vec<String> = rooms.iter().filter(|room| !is_folder_of_file(room)).cloned().collect();
    rooms.sort();
    rooms
}

#[test]
fn the_tables_of_rooms_name_every_file() {
    let tables = tables();
    assert!(tables.len() >= 5, "{:?}", tables.keys());
    for (folder, mut named) in tables {
        named.sort();
        named.retain(|name| name != "mod.rs");
        assert_eq!(named, rooms(&folder), "the table of {folder} in docs/architecture.md");
    }
}
