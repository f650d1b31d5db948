//! Tests every rule with infrastructure that passes it, and with infrastructure that breaks it.

mod bad;
mod other;

use std::collections::BTreeSet;

use crate::facts::{Answer, Facts, Failure, FailureKind};
use crate::report::{Finding, Outcome, Report, Selection, check};
use crate::rules::rules;
use crate::testing::{GOOD, good};
use bad::{Bad, bad};

fn findings(report: &Report) -> Vec<Finding> {
    report.findings().cloned().collect()
}

#[test]
fn good_infrastructure_keeps_every_rule() {
    for answer in check(&good(), &Selection::default()).answers {
        assert_eq!(answer.outcome, Outcome::Passed, "{}: {}", answer.rule.id, answer.rule.title);
    }
}

/// Other crates check against the file, and the documentation draws it.
#[test]
fn the_file_with_good_facts_has_the_form_of_saved_facts() {
    let text = serde_json::to_string_pretty(&good()).unwrap() + "\n";
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/good.json"), &text).unwrap();
    } else {
        assert_eq!(GOOD, text, "run the test with UPDATE_FIXTURES=1");
    }
}

#[test]
fn every_rule_has_infrastructure_that_breaks_it() {
    let ids: Vec<&str> = rules().iter().map(|rule| rule.id).collect();
    let shown: BTreeSet<&str> = bad().iter().map(|bad| bad.rule).collect();
    assert_eq!(shown, ids.iter().copied().collect(), "rules with a world that breaks them");
    for Bad { rule, object, says, break_it } in bad() {
        let mut facts = good();
        break_it(&mut facts);
        assert_ne!(facts, good(), "{rule}: {says}");
        let report = check(&facts, &Selection::default());
        let found = findings(&report);
        let of_rule: Vec<&Finding> = found.iter().filter(|finding| finding.rule == rule).collect();
        assert!(
            of_rule.iter().any(|finding| finding.object == object && finding.message.contains(says)),
            "{rule} {object} says {says:?} is not among {found:#?}"
        );
    }
}

#[test]
fn ids_are_unique_and_begin_with_the_letter_of_their_category() {
    let ids: BTreeSet<&str> = rules().iter().map(|rule| rule.id).collect();
    assert_eq!(ids.len(), rules().len());
    assert!(ids.len() >= 60, "{} rules", ids.len());
    for rule in rules() {
        assert!(rule.id.starts_with(rule.category.letter()), "{}", rule.id);
        assert!(
            rule.title.chars().next().is_some_and(char::is_uppercase) && !rule.title.ends_with('.'),
            "{}",
            rule.title
        );
        assert!(rule.breaks.ends_with('.'), "{}", rule.breaks);
    }
}

#[test]
fn unanswered_questions_are_no_findings() {
    let of_aws = Facts { demand: good().demand, ..Facts::default() };
    // The rules whose findings depend on the spec alone.
    let known: [&str; 0] = [];
    for facts in [Facts::default(), of_aws] {
        let report = check(&facts, &Selection::default());
        let found = findings(&report);
        assert!(found.iter().all(|finding| known.contains(&finding.rule)), "{found:#?}");
    }
}

#[test]
fn an_unknown_object_hides_no_problem_of_another() {
    let mut facts = good();
    let denied = Failure {
        call: "GetInstanceProfile".to_owned(),
        kind: FailureKind::Denied,
        code: Some("AccessDenied".to_owned()),
        message: "no".to_owned(),
    };
    let profiles = &mut facts.instance_profiles;
    profiles.insert("control-plane".to_owned(), Answer::Failed(denied));
    let only_m6 = Selection { only: ["M6".to_owned()].into(), ..Selection::default() };
    let outcome = &check(&facts, &only_m6).answers[0].outcome;
    assert!(matches!(outcome, Outcome::Unknown(missing) if missing.contains("GetInstanceProfile")), "{outcome:?}");
    facts.instance_profiles.insert("nodes".to_owned(), Answer::Found(None));
    let found = findings(&check(&facts, &only_m6));
    assert_eq!(found.iter().map(|finding| &finding.object).collect::<Vec<_>>(), ["nodes"]);
}

#[test]
fn findings_of_a_rule_are_told_apart_by_their_object() {
    for bad in bad() {
        let mut facts = good();
        (bad.break_it)(&mut facts);
        let report = check(&facts, &Selection::default());
        let mut seen = BTreeSet::new();
        for finding in report.findings() {
            assert!(seen.insert((finding.rule, finding.object.clone())), "{}: {finding:#?}", bad.rule);
            assert!(finding.message.len() <= 1024 && finding.fix.len() <= 1024 && finding.object.len() <= 256);
            assert!(!finding.fix.is_empty() && !finding.fix.ends_with('.'), "{}", finding.fix);
        }
    }
}

#[test]
fn a_selection_names_rules_or_categories() {
    let ids = |only: &[&str], skip: &[&str]| -> Vec<&str> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let selection = Selection { only: names(only), skip: names(skip) };
        check(&good(), &selection).answers.iter().map(|answer| answer.rule.id).collect()
    };
    assert_eq!(ids(&["V2", "I"], &["I3"]), ["I1", "I2", "I4", "I5", "V2"]);
    assert_eq!(ids(&[], &["V2"]).len(), rules().len() - 1);
}

#[test]
fn facts_survive_saving_and_find_the_same_when_redacted() {
    for bad in bad() {
        let mut facts = good();
        (bad.break_it)(&mut facts);
        let saved = serde_json::to_value(&facts).unwrap();
        let loaded: Facts = serde_json::from_value(saved.clone()).unwrap();
        assert_eq!(loaded, facts, "{}", bad.rule);
        let redacted: Facts = serde_json::from_value(crate::redact(saved)).unwrap();
        let ids = |facts: &Facts| -> Vec<&str> {
            check(facts, &Selection::default()).findings().map(|finding| finding.rule).collect()
        };
        assert_eq!(ids(&redacted), ids(&facts), "{}", bad.rule);
    }
}
