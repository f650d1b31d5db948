//! The report of a check for CI systems, in which each rule is a test case.

use anyhow::Result;
use capa_preflight::{Category, Finding, Outcome, Report, RuleAnswer};
use quick_xml::Writer;
use quick_xml::events::{BytesText, Event};
use strum::IntoEnumIterator as _;

/// The report in the format of JUnit.
pub(super) fn report<F: 'static>(report: &Report<F>) -> Result<String> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.create_element("testsuites").with_attribute(("name", "capa-rs check")).write_inner_content(|writer| {
        for category in Category::iter() {
            let answers: Vec<&RuleAnswer<F>> = report.of_category(category).collect();
            if answers.is_empty() {
                continue;
            }
            let count = |wanted: fn(&Outcome) -> bool| answers.iter().filter(|answer| wanted(&answer.outcome)).count();
            let failures = count(|outcome| matches!(outcome, Outcome::Failed(_)));
            let skipped = count(|outcome| matches!(outcome, Outcome::NotApplicable | Outcome::Unknown(_)));
            writer
                .create_element("testsuite")
                .with_attribute(("name", category.to_string().as_str()))
                .with_attribute(("tests", answers.len().to_string().as_str()))
                .with_attribute(("failures", failures.to_string().as_str()))
                .with_attribute(("skipped", skipped.to_string().as_str()))
                .write_inner_content(|writer| answers.iter().try_for_each(|answer| test_case(writer, answer)))?;
        }
        Ok(())
    })?;
    Ok(String::from_utf8(writer.into_inner())? + "\n")
}

fn test_case<F: 'static>(writer: &mut Writer<Vec<u8>>, answer: &RuleAnswer<F>) -> std::io::Result<()> {
    let name = format!("{} {}", answer.rule.id, answer.rule.title);
    let element = writer
        .create_element("testcase")
        .with_attribute(("classname", answer.rule.category.to_string().as_str()))
        .with_attribute(("name", name.as_str()));
    match &answer.outcome {
        Outcome::Passed => element.write_empty()?,
        Outcome::NotApplicable => {
            element.write_inner_content(|writer| skipped(writer, "nothing of this is asked for"))?
        }
        Outcome::Unknown(missing) => element.write_inner_content(|writer| skipped(writer, missing))?,
        Outcome::Failed(findings) => {
            element.write_inner_content(|writer| findings.iter().try_for_each(|finding| failure(writer, finding)))?
        }
    };
    Ok(())
}

fn skipped(writer: &mut Writer<Vec<u8>>, why: &str) -> std::io::Result<()> {
    writer.create_element("skipped").with_attribute(("message", why)).write_empty().map(drop)
}

fn failure(writer: &mut Writer<Vec<u8>>, finding: &Finding) -> std::io::Result<()> {
    let command = finding.command.as_deref().unwrap_or_default();
    let text = format!("breaks: {}\nfix: {}\n{command}", finding.breaks, finding.fix);
    writer
        .create_element("failure")
        .with_attribute(("type", finding.severity.to_string().as_str()))
        .with_attribute(("message", format!("{}: {}", finding.object, finding.message).as_str()))
        .write_inner_content(|writer| writer.write_event(Event::Text(BytesText::new(&text))))
        .map(drop)
}

#[cfg(test)]
mod tests {
    use capa_api::network::NetworkVpc;
    use capa_preflight::facts::{Answer, Availability, Demand, Facts, Vpc};
    use capa_preflight::{Selection, check};

    use super::*;

    #[test]
    fn each_rule_is_a_test_and_texts_are_escaped() {
        let mut demand = Demand::default();
        demand.network.vpc = Some(NetworkVpc { id: "vpc-<\"&".to_owned(), ..NetworkVpc::default() });
        let facts = Facts {
            demand,
            vpc: Answer::Found(Some(Vpc { id: "vpc-<\"&".to_owned(), state: Availability::Pending, ..Vpc::default() })),
            ..Facts::default()
        };
        let only = ["V1", "V2", "V6"].map(str::to_owned).into();
        let selection = Selection { only, ..Selection::default() };
        let text = report(&check(&facts, &selection)).unwrap();
        assert!(text.contains(r#"<testsuite name="VPC" tests="3" failures="1" skipped="2">"#), "{text}");
        assert!(text.contains("vpc-&lt;&quot;&amp; is pending"), "{text}");
        assert_eq!(text.matches("<testcase").count(), 3, "{text}");
    }
}
