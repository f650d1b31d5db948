//! Links between documents.

use std::path::{Component, Path, PathBuf};

use crate::{documents, markdown, names_in, pages, read, repository};

/// The path without `..` and `.`, or `None` where it leaves the repository.
fn resolved(from: &str, target: &str) -> Option<PathBuf> {
    let mut path = PathBuf::from(from);
    path.pop();
    for part in Path::new(target).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            _ if !path.pop() => return None,
            _ => {}
        }
    }
    Some(path)
}

/// What is wrong with a link.
fn problem(from: &str, link: &str) -> Option<String> {
    if link.starts_with("https://") || link.starts_with("http://") {
        return None;
    }
    let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = if target.is_empty() { Some(PathBuf::from(from)) } else { resolved(from, target) };
    let Some(path) = path else {
        return Some(format!("{from} links to {link}, which is outside the repository"));
    };
    if !repository(&path).exists() {
        return Some(format!("{from} links to {link}, which does not exist"));
    }
    if from.starts_with("docs/") && !path.starts_with("docs") {
        return Some(format!("{from} links to {link}, which is not part of the book"));
    }
    let is_dead = !anchor.is_empty() && !markdown::anchors(&read(&path)).iter().any(|known| known == anchor);
    is_dead.then(|| format!("{from} links to {link}, but {} has no such heading", path.display()))
}

#[test]
fn no_relative_link_or_anchor_is_dead() {
    let mut problems = Vec::new();
    for document in documents() {
        let links = markdown::links(&read(&document));
        problems.extend(links.iter().filter_map(|link| problem(&document, link)));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_page_is_in_the_summary_once() {
    let mut listed: Vec<String> =
        markdown::links(&read("docs/SUMMARY.md")).iter().map(|page| format!("docs/{page}")).collect();
    listed.sort();
    let pages: Vec<String> = pages().into_iter().filter(|page| page != "docs/SUMMARY.md").collect();
    assert_eq!(listed, pages);
}

#[test]
fn the_readme_of_the_examples_lists_every_file() {
    let links = markdown::links(&read("examples/README.md"));
    let mut listed: Vec<&String> = links.iter().filter(|link| !link.contains('/')).collect();
    listed.sort();
    let files = names_in("examples");
    assert_eq!(listed, files.iter().filter(|name| *name != "README.md").collect::<Vec<_>>());
}

#[test]
fn dead_links_are_noticed() {
    assert_eq!(problem("docs/iam.md", "metrics.md#metrics"), None);
    assert_eq!(problem("README.md", "docs/metrics.md"), None);
    for link in ["nothing.md", "metrics.md#nothing", "#nothing", "../README.md", "../../README.md"] {
        assert!(problem("docs/iam.md", link).is_some(), "{link}");
    }
}
