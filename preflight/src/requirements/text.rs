//! The list of requirements for people.

use std::fmt::Write as _;

use strum::IntoEnumIterator as _;

use super::requirement::{Requirement, Requirements};
use crate::rule::Category;

/// The requirements, grouped by category. `file` is the file with the objects of the cluster, which the last line
/// names.
pub fn text(requirements: &Requirements, file: &str) -> String {
    let Requirements { cluster, region, .. } = requirements;
    let mut text = format!(
        "Cluster {cluster} in {region} needs this.\n\
         + has to be created\n\
         = is named by the cluster, or there anyway\n\n"
    );
    for category in Category::iter() {
        let of_category = requirements.requirements.iter();
        let lines: String = of_category.filter(|requirement| requirement.category == category).map(line).collect();
        if !lines.is_empty() {
            let title = category.to_string();
            let _ = write!(text, "{title}\n{}\n{lines}\n", "-".repeat(title.len()));
        }
    }
    text + &format!("When it is there, check it: capa-rs check network -f {file}\n")
}

fn line(requirement: &Requirement) -> String {
    let sign = if requirement.object.exists { '=' } else { '+' };
    format!("{sign} {} ({})\n", requirement.sentence, requirement.rules.join(", "))
}
