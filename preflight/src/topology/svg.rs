//! Pictures as SVG: rows of boxes, with a column for each zone.

use std::fmt::Write as _;

use capa_api::cluster::status::FindingSeverity;

use super::picture::{Mark, Node, Picture};
use super::short;

const BOX_WIDTH: usize = 300;
const GAP: usize = 20;
const LINE: usize = 18;
const PADDING: usize = 12;
/// Maximum number of characters of a line. Longer texts are wrapped.
const LINE_LENGTH: usize = 40;

/// A box with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) lines: Vec<Line>,
    severity: Option<FindingSeverity>,
}

/// A line of text in a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    style: &'static str,
}

/// The boxes of a picture from top to bottom, and the frames around the VPC and the zones.
pub(super) struct Layout {
    pub(super) boxes: Vec<Placed>,
    frames: Vec<(usize, usize, usize, usize, String)>,
    width: usize,
    height: usize,
}

pub(super) fn drawn(picture: &Picture) -> String {
    let layout = layout(picture);
    let (width, height) = (layout.width, layout.height);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} \
         {height}\" font-family=\"sans-serif\" font-size=\"13\">\n<style>{STYLE}</style>\n<rect width=\"100%\" \
         height=\"100%\" fill=\"#ffffff\"/>\n<text x=\"{GAP}\" y=\"30\" class=\"title\">{}</text>\n",
        escaped(&picture.title)
    );
    for (x, y, width, height, title) in &layout.frames {
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"10\" class=\"frame\"/>\n<text \
             x=\"{}\" y=\"{}\" class=\"name\">{}</text>",
            x + PADDING,
            y + LINE + 2,
            escaped(title)
        );
    }
    for placed in &layout.boxes {
        text.push_str(&rectangle(placed));
    }
    text + "</svg>\n"
}

const STYLE: &str = ".title{font-size:18px;font-weight:bold;fill:#212121}.name{font-weight:bold;fill:#212121}\
                     .line{fill:#424242}.blocking{fill:#c62828}.warning{fill:#ef6c00}\
                     .frame{fill:#f5f7fa;stroke:#b0bec5}.box{fill:#ffffff;stroke:#78909c;stroke-width:1.5}\
                     .box-blocking{fill:#ffebee;stroke:#c62828;stroke-width:2.5}\
                     .box-warning{fill:#fff8e1;stroke:#ef6c00;stroke-width:2}";

fn rectangle(placed: &Placed) -> String {
    let class = match placed.severity {
        Some(FindingSeverity::Blocking) => "box-blocking",
        Some(FindingSeverity::Warning) => "box-warning",
        None => "box",
    };
    let Placed { x, y, width, height, .. } = placed;
    let mut text =
        format!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\" class=\"{class}\"/>\n");
    for (number, line) in placed.lines.iter().enumerate() {
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\" class=\"{}\">{}</text>",
            x + PADDING,
            y + PADDING + LINE * (number + 1) - 4,
            line.style,
            escaped(&line.text)
        );
    }
    text
}

/// Places the boxes: load balancers, then the VPC with zones and security groups, then machines, then other findings.
pub(super) fn layout(picture: &Picture) -> Layout {
    let columns = picture.zones.len().max(2);
    let width = columns * (BOX_WIDTH + GAP * 2) + GAP * 3;
    let mut layout = Layout { boxes: vec![], frames: vec![], width, height: 0 };
    let mut y = 50;
    y = layout.row(&picture.balancers, GAP * 2, y, columns);
    let top = y;
    y += LINE * 2;
    y = layout.row(&marks_of(&picture.vpc), GAP * 2, y, columns);
    let mut bottom = y;
    for (number, (zone, subnets)) in picture.zones.iter().enumerate() {
        let x = GAP * 2 + number * (BOX_WIDTH + GAP * 2);
        let end = layout.row(subnets, x + GAP, y + LINE * 2, 1);
        layout.frames.push((x, y, BOX_WIDTH + GAP * 2 - 8, end - y, zone.clone()));
        bottom = bottom.max(end);
    }
    y = layout.row(&picture.groups, GAP * 2, bottom + GAP, columns);
    let title = format!("{}  {}", short(&picture.vpc.id), picture.vpc.lines.join(" "));
    layout.frames.insert(0, (GAP, top, width - GAP * 2, y - top, title));
    y = layout.row(&picture.machines, GAP * 2, y + GAP, columns);
    y = layout.row(&others(&picture.others), GAP * 2, y, columns);
    layout.height = y + GAP;
    layout
}

/// The box with the findings about the VPC itself.
fn marks_of(vpc: &Node) -> Vec<Node> {
    if vpc.marks.is_empty() {
        return vec![];
    }
    vec![Node { lines: vec![], ..vpc.clone() }]
}

fn others(marks: &[Mark]) -> Vec<Node> {
    if marks.is_empty() {
        return vec![];
    }
    vec![Node { id: "Other findings".to_owned(), marks: marks.to_vec(), ..Node::default() }]
}

impl Layout {
    /// Places boxes side by side, `columns` in a row, and returns the position below them.
    fn row(&mut self, nodes: &[Node], x: usize, mut y: usize, columns: usize) -> usize {
        for row in nodes.chunks(columns) {
            let mut tallest = 0;
            for (column, node) in row.iter().enumerate() {
                let placed = place(node, x + column * (BOX_WIDTH + GAP * 2), y);
                tallest = tallest.max(placed.height);
                self.boxes.push(placed);
            }
            y += tallest + GAP;
        }
        y
    }
}

fn place(node: &Node, x: usize, y: usize) -> Placed {
    let mut lines = wrapped(short(&node.id), "name");
    for line in node.lines.iter().filter(|line| !line.is_empty()) {
        lines.extend(wrapped(line, "line"));
    }
    for mark in &node.marks {
        let style = match mark.severity {
            FindingSeverity::Blocking => "blocking",
            FindingSeverity::Warning => "warning",
        };
        lines.extend(wrapped(&format!("{} {}", mark.rule, mark.message), style));
    }
    Placed { x, y, width: BOX_WIDTH, height: lines.len() * LINE + PADDING * 2, lines, severity: node.severity() }
}

/// A text in lines of at most [`LINE_LENGTH`] characters. Long words are cut.
fn wrapped(text: &str, style: &'static str) -> Vec<Line> {
    let mut lines: Vec<String> = vec![];
    for word in text.split_whitespace() {
        let characters: Vec<char> = word.chars().collect();
        for part in characters.chunks(LINE_LENGTH) {
            let part: String = part.iter().collect();
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + part.chars().count() <= LINE_LENGTH => {
                    line.push(' ');
                    line.push_str(&part);
                }
                _ => lines.push(part),
            }
        }
    }
    lines.into_iter().map(|text| Line { text, style }).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
