//! Pictures as Mermaid diagrams.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use capa_api::cluster::status::FindingSeverity;

use super::picture::{Node, Picture};
use super::short;

/// The numbers of the objects, which serve as names because Mermaid's names have no punctuation.
type Names<'a> = BTreeMap<&'a str, usize>;

pub(super) fn drawn(picture: &Picture) -> String {
    let names: Names<'_> = picture.nodes().enumerate().map(|(number, node)| (node.id.as_str(), number)).collect();
    let mut text = format!("---\ntitle: {}\n---\nflowchart TB\n", escaped(&picture.title));
    for node in &picture.balancers {
        let _ = writeln!(text, "  {}", shape(node, &names));
    }
    let _ = writeln!(text, "  subgraph vpc[\"{}\"]", label(&picture.vpc));
    for (number, (zone, subnets)) in picture.zones.iter().enumerate() {
        let _ = writeln!(text, "    subgraph zone{number}[\"{}\"]", escaped(zone));
        for subnet in subnets {
            let _ = writeln!(text, "      {}", shape(subnet, &names));
        }
        text.push_str("    end\n");
    }
    for group in &picture.groups {
        let _ = writeln!(text, "    {}", shape(group, &names));
    }
    text.push_str("  end\n");
    for node in &picture.machines {
        let _ = writeln!(text, "  {}", shape(node, &names));
    }
    for node in picture.nodes() {
        for target in node.leads_to.iter().filter_map(|id| names.get(id.as_str())) {
            let _ = writeln!(text, "  n{} --> n{target}", names.get(node.id.as_str()).copied().unwrap_or_default());
        }
    }
    text.push_str("  classDef blocking stroke:#c62828,stroke-width:3px\n");
    text.push_str("  classDef warning stroke:#ef6c00,stroke-width:2px\n");
    text
}

fn shape(node: &Node, names: &Names<'_>) -> String {
    let class = match node.severity() {
        Some(FindingSeverity::Blocking) => ":::blocking",
        Some(FindingSeverity::Warning) => ":::warning",
        None => "",
    };
    let number = names.get(node.id.as_str()).copied().unwrap_or_default();
    format!("n{number}[\"{}\"]{class}", label(node))
}

/// The id, the lines and the findings of an object.
fn label(node: &Node) -> String {
    let marks = node.marks.iter().map(|mark| format!("<b>{}</b> {}", mark.rule, escaped(&mark.message)));
    let lines = node.lines.iter().filter(|line| !line.is_empty()).map(|line| escaped(line));
    let parts: Vec<String> = std::iter::once(escaped(short(&node.id))).chain(lines).chain(marks).collect();
    parts.join("<br>")
}

/// Replaces characters with a meaning in Mermaid by entities.
fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '"' => "#quot;".to_owned(),
        '<' => "#lt;".to_owned(),
        '>' => "#gt;".to_owned(),
        '#' => "#35;".to_owned(),
        '\n' | '\r' => " ".to_owned(),
        other => other.to_string(),
    };
    text.chars().map(escape).collect()
}
