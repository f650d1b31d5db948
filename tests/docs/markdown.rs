//! As much of Markdown as the documentation uses.

use std::collections::BTreeMap;

/// A line of a document, and whether it is prose or belongs to a fenced block.
fn lines(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut fenced = false;
    text.lines().map(move |line| {
        let fence = line.trim_start().starts_with("```");
        let prose = !fenced && !fence;
        fenced ^= fence;
        (line, prose)
    })
}

/// The prose of a document, without fenced blocks and inline code.
fn prose(text: &str) -> String {
    let kept = lines(text).filter(|(_, prose)| *prose).map(|(line, _)| line);
    let kept: Vec<&str> = kept.collect();
    // Every other piece stands between backquotes.
    kept.join("\n").split('`').step_by(2).collect::<Vec<_>>().join("code")
}

/// Targets of the links and images of a document.
pub(crate) fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let targets = prose.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    targets.map(str::to_owned).collect()
}

/// The anchors of a document's headings, as GitHub and mdBook make them.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let headings = lines(text).filter(|(line, prose)| *prose && line.starts_with('#'));
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let anchors = headings.map(|(line, _)| {
        let anchor = anchor(line.trim_start_matches('#').trim());
        let count = seen.entry(anchor.clone()).or_default();
        *count += 1;
        if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
    });
    anchors.collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        letter => letter.is_alphanumeric().then(|| letter.to_ascii_lowercase()),
    });
    kept.collect()
}

/// Contents of the fenced blocks of a language, with the line at which each begins.
pub(crate) fn blocks(text: &str, language: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, bool, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (fence, &mut open) {
            (Some(named), None) => open = Some((index + 1, named == language, String::new())),
            (Some(_), Some(_)) => {
                if let Some((line, true, content)) = open.take() {
                    blocks.push((line, content));
                }
            }
            (None, Some((_, _, content))) => {
                content.push_str(line);
                content.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// The cells of a line of a table, but for the lines below headers.
pub(crate) fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
    let cells: Vec<&str> = row.split(" | ").map(str::trim).collect();
    (!cells.iter().all(|cell| *cell == "---")).then_some(cells)
}

/// Splits a document at its headings of this level (`## ` for instance): each heading with the text below it.
pub(crate) fn sections<'a>(text: &'a str, level: &str) -> Vec<(&'a str, &'a str)> {
    let marker = format!("\n{level}");
    let parts = text.split(marker.as_str()).skip(1);
    parts.filter_map(|part| part.split_once('\n')).collect()
}

#[test]
fn links_are_found_outside_code_only() {
    let text = "[a](b.md#c) and `[d](e.md)`\n```text\n[f](g.md)\n```\n![h](i.png)\n[over\ntwo](lines.md)";
    assert_eq!(links(text), ["b.md#c", "i.png", "lines.md"]);
}

#[test]
fn anchors_are_those_that_github_makes() {
    let text = "# What works, and `what` does not\n## Again\n## Again\n```sh\n# comment\n```";
    assert_eq!(anchors(text), ["what-works-and-what-does-not", "again", "again-1"]);
}

#[test]
fn blocks_are_distinguished_by_language() {
    let text = "```yaml\na: 1\n```\n\n```sh\nls\n```\n";
    assert_eq!(blocks(text, "yaml"), [(1, "a: 1\n".to_owned())]);
}

#[test]
fn cells_are_those_of_rows_with_content() {
    assert_eq!(cells("| a | `b` |"), Some(vec!["a", "`b`"]));
    assert_eq!(cells("| --- | --- |"), None);
    assert_eq!(cells("no row"), None);
}
