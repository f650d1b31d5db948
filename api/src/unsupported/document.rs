//! The table as Markdown, for docs/fields-without-effect.md.

use std::fmt::Write as _;

use super::explain::plain;
use super::{Field, without_effect};

/// The table as Markdown: one list for each alternative.
pub fn document() -> String {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for field in without_effect() {
        match groups.iter_mut().find(|(alternative, _)| *alternative == field.alternative) {
            Some((_, names)) => names.push(name(field)),
            None => groups.push((field.alternative, vec![name(field)])),
        }
    }
    let mut text = String::new();
    for (alternative, names) in groups {
        let fields = names.join("\n- ");
        let _ = writeln!(text, "**Instead:** {}\n\n- {fields}\n", sentence(alternative));
    }
    text.trim_end().to_owned() + "\n"
}

/// The words as a sentence.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(char::to_uppercase).into_iter().flatten();
    first.chain(letters).chain(['.']).collect()
}

fn name(field: &Field) -> String {
    let neutral: Vec<String> = field.neutral.iter().map(|value| format!("`{}`", plain(value))).collect();
    match neutral.as_slice() {
        [] => format!("`{}`", field.path),
        neutral => format!("`{}` (except {})", field.path, neutral.join(", ")),
    }
}
