//! The report of a check for people.

use std::fmt::Write as _;

use capa_api::cluster::status::FindingSeverity;
use capa_preflight::{Category, Finding, Outcome, Report, Rule, RuleAnswer};
use strum::IntoEnumIterator as _;

/// Whether a text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// With ANSI colours.
    Coloured,
    /// Without colours.
    Plain,
}

/// ANSI codes of colours.
#[derive(Clone, Copy)]
enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Grey = 90,
}

impl Style {
    fn paint(self, colour: Colour, text: &str) -> String {
        match self {
            Self::Coloured => format!("\u{1b}[{}m{text}\u{1b}[0m", colour as u8),
            Self::Plain => text.to_owned(),
        }
    }
}

/// The report, grouped by what the rules are about.
pub(super) fn report<F: 'static>(report: &Report<F>, style: Style, verbose: bool) -> String {
    let mut text = String::new();
    for category in Category::iter() {
        let answers: Vec<&RuleAnswer<F>> = report.of_category(category).collect();
        let shown = answers.iter().filter(|answer| verbose || answer.outcome != Outcome::NotApplicable);
        let lines: String = shown.map(|answer| line(answer, style)).collect();
        if !lines.is_empty() {
            let title = category.to_string();
            let _ = write!(text, "{title}\n{}\n{lines}\n", "-".repeat(title.len()));
        }
    }
    text + &summary(report, style)
}

fn line<F: 'static>(answer: &RuleAnswer<F>, style: Style) -> String {
    let Rule { id, title, .. } = answer.rule;
    match &answer.outcome {
        Outcome::Passed => format!("{} {id} {title}\n", style.paint(Colour::Green, "√")),
        Outcome::NotApplicable => {
            format!("{} {id} {title}: nothing of this is asked for\n", style.paint(Colour::Grey, "-"))
        }
        Outcome::Unknown(missing) => {
            format!("{} {id} {title}\n    not checked: {missing}\n", style.paint(Colour::Yellow, "?"))
        }
        Outcome::Failed(findings) => {
            let is_blocked = findings.iter().any(|finding| finding.severity == FindingSeverity::Blocking);
            let sign = if is_blocked { style.paint(Colour::Red, "×") } else { style.paint(Colour::Yellow, "‼") };
            let details = details(findings, style);
            format!("{sign} {id} {title}\n{details}    see docs/preflight.md#{}\n", id.to_lowercase())
        }
    }
}

/// The problem of each object. A line that consecutive findings share appears once.
fn details(findings: &[Finding], style: Style) -> String {
    let mut text = String::new();
    let mut told_fix = "";
    for finding in findings {
        let colour = match finding.severity {
            FindingSeverity::Blocking => Colour::Red,
            FindingSeverity::Warning => Colour::Yellow,
        };
        let problem = if finding.message.contains(&finding.object) {
            finding.message.clone()
        } else {
            format!("{}: {}", finding.object, finding.message)
        };
        let _ = writeln!(text, "    {}", style.paint(colour, &problem));
        if finding.fix != told_fix {
            let _ = writeln!(text, "      fix: {}", finding.fix);
            told_fix = &finding.fix;
        }
        if let Some(command) = &finding.command {
            let _ = writeln!(text, "      $ {command}");
        }
    }
    let breaks = findings.first().map_or("", |finding| finding.breaks);
    format!("    breaks: {breaks}\n{text}")
}

fn summary<F: 'static>(report: &Report<F>, style: Style) -> String {
    let of = |severity| report.findings().filter(|finding| finding.severity == severity).count();
    let (blocking, warnings) = (of(FindingSeverity::Blocking), of(FindingSeverity::Warning));
    let unknown = report.unknown().count();
    let passed = report.answers.iter().filter(|answer| answer.outcome == Outcome::Passed).count();
    let sign = match (blocking, warnings) {
        (0, _) if report.is_incomplete() => style.paint(Colour::Yellow, "?"),
        (0, 0) => style.paint(Colour::Green, "√"),
        (0, _) => style.paint(Colour::Yellow, "‼"),
        _ => style.paint(Colour::Red, "×"),
    };
    format!("{sign} {blocking} blocking, {warnings} warnings, {passed} rules kept, {unknown} not checked\n")
}

/// The explanation of a rule.
pub(super) fn explanation<F: 'static>(rule: &Rule<F>) -> String {
    format!(
        "{} {}\n\nCategory: {}\nSeverity: {}\nBreaks:   {}\nSee:      docs/preflight.md#{}\n",
        rule.id,
        rule.title,
        rule.category,
        rule.severity,
        rule.breaks,
        rule.id.to_lowercase()
    )
}

#[cfg(test)]
mod tests {
    use capa_api::network::NetworkVpc;
    use capa_preflight::facts::{Answer, Availability, Demand, Facts, Vpc, VpcDns};
    use capa_preflight::{Selection, check, rule};

    use super::*;

    fn facts() -> Facts {
        let mut demand = Demand::default();
        demand.network.vpc = Some(NetworkVpc { id: "vpc-0000000a".to_owned(), ..NetworkVpc::default() });
        Facts {
            demand,
            vpc: Answer::Found(Some(Vpc {
                id: "vpc-0000000a".to_owned(),
                state: Availability::Available,
                ..Vpc::default()
            })),
            vpc_dns: Answer::Found(VpcDns { support: true, hostnames: false }),
            ..Facts::default()
        }
    }

    fn text(style: Style, verbose: bool) -> String {
        let only = ["V1", "V2", "V3", "V4", "V6"].map(str::to_owned).into();
        let selection = Selection { only, ..Selection::default() };
        report(&check(&facts(), &selection), style, verbose)
    }

    #[test]
    fn a_report_is_grouped_and_tells_what_breaks_and_how_to_mend_it() {
        let expected = "\
VPC
---
√ V1 The VPC exists, and is available
√ V2 The VPC has DNS support
× V3 The VPC gives instances DNS host names
    breaks: The cloud controller does not find the instance of a node by its name, and private DNS names of VPC \
endpoints do not work.
    vpc-0000000a has no DNS host names
      fix: set enableDnsHostnames of the VPC
      $ aws --region  ec2 modify-vpc-attribute --vpc-id vpc-0000000a --enable-dns-hostnames '{\"Value\":true}'
    see docs/preflight.md#v3
? V4 The DHCP options have the domain name of the region and Amazon's DNS server, unless nodes are named otherwise
    not checked: the DHCP options could not be looked up

× 1 blocking, 0 warnings, 2 rules kept, 1 not checked
";
        assert_eq!(text(Style::Plain, false), expected);
        assert!(text(Style::Plain, true).contains("- V6 "), "what is not asked for is shown on request");
        let coloured = text(Style::Coloured, false);
        assert!(coloured.contains("\u{1b}[31m×\u{1b}[0m V3"), "{coloured}");
    }

    #[test]
    fn an_explanation_needs_no_facts() {
        let text = explanation(rule("G8").unwrap());
        assert!(text.starts_with("G8 All machines admit") && text.contains("Severity: Blocking"), "{text}");
    }
}
