//! As much of Markdown as the documentation uses.

use std::collections::BTreeMap;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// Targets of the links and images of a document.
pub(crate) fn links(text: &str) -> Vec<String> {
    let targets = Parser::new(text).filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.into_string()),
        _ => None,
    });
    targets.collect()
}

/// The anchors of a document's headings, as GitHub and mdBook make them.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let anchors = headings(text).into_iter().map(|heading| {
        let anchor = anchor(&heading);
        let count = seen.entry(anchor.clone()).or_default();
        *count += 1;
        if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
    });
    anchors.collect()
}

/// The text of each heading.
fn headings(text: &str) -> Vec<String> {
    let mut headings = Vec::new();
    let mut open: Option<String> = None;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => open = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => headings.extend(open.take()),
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut open {
                    heading.push_str(&part);
                }
            }
            _ => {}
        }
    }
    headings
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        letter => letter.is_alphanumeric().then(|| letter.to_ascii_lowercase()),
    });
    kept.collect()
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
fn cells_are_those_of_rows_with_content() {
    assert_eq!(cells("| a | `b` |"), Some(vec!["a", "`b`"]));
    assert_eq!(cells("| --- | --- |"), None);
    assert_eq!(cells("no row"), None);
}
