//! Generated parts of Markdown files. Two markers with the name of a part enclose it.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context, Result};

/// Prints a text, or makes it the part with this name of a Markdown file.
pub(crate) fn print_or_update(file: Option<&Path>, name: &str, text: &str) -> Result<()> {
    match file {
        None => Ok(io::stdout().lock().write_all(text.as_bytes())?),
        Some(file) => update(file, name, text),
    }
}

/// Replaces the part with this name.
pub(crate) fn update(file: &Path, name: &str, content: &str) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
    let [begin, end] = markers(name);
    let updated = with_part(&text, name, content)
        .with_context(|| format!("{} lacks the lines {begin} and {end}", file.display()))?;
    fs::write(file, updated).with_context(|| format!("failed to write {}", file.display()))
}

/// The text with this content between the markers; `None` if a marker is missing.
pub(crate) fn with_part(text: &str, name: &str, content: &str) -> Option<String> {
    let [begin, end] = markers(name);
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{content}\n{end}{after}"))
}

fn markers(name: &str) -> [String; 2] {
    [format!("<!-- {name}: written by `make generate` -->\n"), format!("<!-- {name}: end -->\n")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_between_the_markers_is_replaced() {
        let text = "before\n<!-- part: written by `make generate` -->\nold\n<!-- part: end -->\nafter\n";
        let expected = "before\n<!-- part: written by `make generate` -->\n\nnew\n\n<!-- part: end -->\nafter\n";
        assert_eq!(with_part(text, "part", "new\n"), Some(expected.to_owned()));
        assert_eq!(with_part(text, "other", "new\n"), None);
    }
}
