//! The table as Markdown, for docs/fields-without-effect.md.

use std::fmt::Write as _;

use super::explain::plain;
use super::{Field, fields};

/// The fields of a kind with the same consequence.
struct Group {
    first: &'static Field,
    names: Vec<String>,
}

/// The table as Markdown: a section for each kind, and in it one list for each consequence.
pub fn document() -> String {
    let mut groups: Vec<Group> = Vec::new();
    for field in fields() {
        let alike = |group: &&mut Group| {
            let other = group.first;
            (other.kind, other.when, other.consequence, other.instead)
                == (field.kind, field.when, field.consequence, field.instead)
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.names.push(name(field)),
            None => groups.push(Group {
                first: field,
                names: vec![name(field)],
            }),
        }
    }
    let mut text = String::new();
    let mut kind = "";
    for group in &groups {
        if kind != group.first.kind {
            kind = group.first.kind;
            let _ = writeln!(text, "## {kind}\n");
        }
        text.push_str(&section(group));
    }
    text.trim_end().to_owned() + "\n"
}

fn section(Group { first, names }: &Group) -> String {
    let happens = match first.consequence.condition {
        Some((condition, reason)) => format!("{} (`{condition}=False/{reason}`)", first.consequence.what),
        None => first.consequence.what.to_owned(),
    };
    let what = sentence(&happens);
    let instead = sentence(first.instead);
    let fields = names.join("\n- ");
    format!("**What happens:** {what}\\\n**Instead:** {instead}\n\n- {fields}\n\n")
}

/// The words as a sentence.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(char::to_uppercase).into_iter().flatten();
    first.chain(letters).chain(['.']).collect()
}

fn name(field: &Field) -> String {
    let neutral: Vec<String> = field
        .neutral
        .iter()
        .map(|value| format!("`{}`", plain(value)))
        .collect();
    match neutral.as_slice() {
        [] => format!("`{}`", field.path),
        neutral => format!("`{}` (except {})", field.path, neutral.join(", ")),
    }
}
