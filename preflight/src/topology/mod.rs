//! Pictures of the infrastructure of a cluster, with the findings of the checks.

mod dot;
mod mermaid;
mod picture;
mod svg;
#[cfg(test)]
mod tests;

use crate::facts::Facts;
use crate::report::Report;
use picture::Picture;

/// A diagram for Mermaid, which GitHub and many wikis show.
pub fn mermaid(facts: &Facts, report: &Report) -> String {
    mermaid::drawn(&Picture::new(facts, report))
}

/// A graph for Graphviz.
pub fn dot(facts: &Facts, report: &Report) -> String {
    dot::drawn(&Picture::new(facts, report))
}

/// A picture that a browser can show.
pub fn svg(facts: &Facts, report: &Report) -> String {
    svg::drawn(&Picture::new(facts, report))
}

/// The last part of an ARN, which identifies the object; any other id is unchanged.
fn short(id: &str) -> &str {
    if id.starts_with("arn:") { id.split(':').next_back().unwrap_or(id) } else { id }
}
