//! The table as Markdown, for the README.

use super::explain::plain;
use super::{Consequence, Field, When, fields};

/// A row of the README: all fields of a kind of which the same is to be said.
struct Row {
    first: &'static Field,
    names: Vec<String>,
}

/// The table as Markdown: one row for all fields of a kind of which the same is to be said.
pub fn table() -> String {
    let mut rows: Vec<Row> = Vec::new();
    for field in fields() {
        let said = |row: &&mut Row| {
            let other = row.first;
            (other.kind, other.when, other.consequence, other.instead)
                == (field.kind, field.when, field.consequence, field.instead)
        };
        match rows.iter_mut().find(said) {
            Some(row) => row.names.push(name(field)),
            None => rows.push(Row {
                first: field,
                names: vec![name(field)],
            }),
        }
    }
    let lines = rows.iter().map(|Row { first, names }| {
        format!(
            "| {} | {}{} | {} | {} |\n",
            first.kind,
            names.join(", "),
            if first.when == When::Changed {
                ", changed later"
            } else {
                ""
            },
            happens(first.consequence),
            first.instead
        )
    });
    let header = "| kind | fields of `spec` | what happens | what to do instead |\n| --- | --- | --- | --- |\n";
    std::iter::once(header.to_owned()).chain(lines).collect()
}

fn name(field: &Field) -> String {
    let neutral: Vec<String> = field
        .neutral
        .iter()
        .map(|value| format!("`{}`", plain(value)))
        .collect();
    match neutral.as_slice() {
        [] => format!("`{}`", field.path),
        neutral => format!("`{}` (but {})", field.path, neutral.join(", ")),
    }
}

fn happens(consequence: Consequence) -> String {
    match consequence.condition {
        Some((condition, reason)) => format!("{}: `{condition}=False/{reason}`", consequence.what),
        None => consequence.what.to_owned(),
    }
}
