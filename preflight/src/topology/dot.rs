//! Pictures as graphs for Graphviz.

use std::fmt::Write as _;

use capa_api::cluster::status::FindingSeverity;

use super::picture::{Node, Picture};
use super::short;

pub(super) fn drawn(picture: &Picture) -> String {
    let mut text = format!("digraph cluster {{\n  label={};\n  rankdir=TB;\n", quoted(&picture.title));
    text.push_str("  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
    for node in picture.balancers.iter().chain(&picture.machines) {
        let _ = writeln!(text, "  {}", vertex(node));
    }
    let _ = writeln!(text, "  subgraph cluster_vpc {{\n    label={};", quoted(&label(&picture.vpc)));
    for (number, (zone, subnets)) in picture.zones.iter().enumerate() {
        let _ = writeln!(text, "    subgraph cluster_zone{number} {{\n      label={};", quoted(zone));
        for subnet in subnets {
            let _ = writeln!(text, "      {}", vertex(subnet));
        }
        text.push_str("    }\n");
    }
    for group in &picture.groups {
        let _ = writeln!(text, "    {}", vertex(group));
    }
    text.push_str("  }\n");
    for node in picture.nodes() {
        for target in &node.leads_to {
            let _ = writeln!(text, "  {} -> {};", quoted(&node.id), quoted(target));
        }
    }
    text + "}\n"
}

fn vertex(node: &Node) -> String {
    let colour = match node.severity() {
        Some(FindingSeverity::Blocking) => ", color=\"#c62828\", penwidth=3",
        Some(FindingSeverity::Warning) => ", color=\"#ef6c00\", penwidth=2",
        None => "",
    };
    format!("{} [label={}{colour}];", quoted(&node.id), quoted(&label(node)))
}

/// The id, the lines and the findings of an object, one in a line.
fn label(node: &Node) -> String {
    let marks = node.marks.iter().map(|mark| format!("{} {}", mark.rule, mark.message));
    let lines = node.lines.iter().filter(|line| !line.is_empty()).cloned();
    let parts: Vec<String> = std::iter::once(short(&node.id).to_owned()).chain(lines).chain(marks).collect();
    parts.join("\n")
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}
