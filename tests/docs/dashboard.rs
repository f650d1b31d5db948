//! The Grafana dashboard and the alerts of `config/prometheus` against the tables of docs/metrics.md. A story of `e2e`
//! holds the table of metrics against what a manager serves.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::conditions::Reason;
use serde_json::Value;
use strum::VariantArray as _;

use crate::{markdown, read};

/// The beginning of a row about an alert in the page.
const ALERT: &str = "| `Capa";

/// Labels that Prometheus adds to every series, and that of a histogram's buckets.
const ADDED_LABELS: [&str; 5] = ["instance", "job", "le", "namespace", "pod"];
/// Words of PromQL that are no names.
const KEYWORDS: [&str; 11] =
    ["and", "bool", "by", "group_left", "group_right", "ignoring", "offset", "on", "or", "unless", "without"];

/// Labels of each name under which a documented metric has samples.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let page = read("docs/metrics.md");
    let rows =
        page.lines().filter(|line| line.starts_with("| `") && !line.starts_with(ALERT)).filter_map(markdown::cells);
    let named = rows.flat_map(|cells| {
        let word = |text: &str| text.trim_matches('`').to_owned();
        let labels = cells[2].split(", ").filter(|label| *label != "–").map(word);
        let labels: BTreeSet<String> = labels.collect();
        let suffixes: &[&str] = if cells[1] == "histogram" { &["_bucket", "_count", "_sum"] } else { &[""] };
        let names = suffixes.iter().map(|suffix| format!("{}{suffix}", word(cells[0])));
        names.map(|name| (name, labels.clone())).collect::<Vec<_>>()
    });
    named.collect()
}

/// Names of metrics and labels in an expression.
#[derive(Debug, Default, PartialEq)]
struct Names {
    metrics: BTreeSet<String>,
    labels: BTreeSet<String>,
}

impl Names {
    fn of(expression: &str) -> Self {
        let mut names = Self::default();
        let mut rest = expression;
        let mut grouping = false;
        while let Some(letter) = rest.chars().next() {
            let length = rest.find(|letter: char| !is_part_of_name(letter)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(length.max(letter.len_utf8()));
            rest = behind;
            match letter {
                '"' => rest = rest.split_once('"').unwrap().1,
                '[' => rest = rest.split_once(']').unwrap().1,
                '{' => {
                    let (matchers, behind) = rest.split_once('}').unwrap();
                    let matchers = matchers.split(',').filter_map(|matcher| matcher.split(['=', '!']).next());
                    names.labels.extend(matchers.map(|label| label.trim().to_owned()));
                    rest = behind;
                }
                ')' => grouping = false,
                'a'..='z' | 'A'..='Z' | '_' => {
                    let is_function = rest.trim_start().starts_with('(');
                    if KEYWORDS.contains(&word) {
                        grouping = is_function;
                    } else if grouping {
                        names.labels.insert(word.to_owned());
                    } else if !is_function && !is_aggregation(rest) {
                        names.metrics.insert(word.to_owned());
                    }
                }
                _ => {}
            }
        }
        names
    }
}

/// Variables of Grafana and durations count as one word.
fn is_part_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '$'
}

/// Whether an aggregation precedes this: `sum by (label) (…)`.
fn is_aggregation(behind: &str) -> bool {
    [" by (", " without ("].iter().any(|grouping| behind.starts_with(grouping))
}

fn expressions(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| match value.as_str().filter(|_| name == "expr") {
                Some(expression) => vec![expression.to_owned()],
                None => expressions(value),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(expressions).collect(),
        _ => Vec::new(),
    }
}

fn assert_documented(expressions: &[String]) {
    let documented = documented();
    for expression in expressions {
        let names = Names::of(expression);
        assert!(!names.metrics.is_empty(), "{expression}");
        let mut labels: BTreeSet<&str> = ADDED_LABELS.into();
        for metric in &names.metrics {
            let of_metric = documented.get(metric);
            let of_metric = of_metric.unwrap_or_else(|| panic!("no metric {metric} is served: {expression}"));
            labels.extend(of_metric.iter().map(String::as_str));
        }
        for label in &names.labels {
            assert!(labels.contains(label.as_str()), "no label {label} is served: {expression}");
        }
    }
}

#[test]
fn every_metric_of_the_dashboard_is_served() {
    let dashboard: Value = serde_json::from_str(&read("docs/grafana-dashboard.json")).unwrap();
    let expressions = expressions(&dashboard);
    assert!(expressions.len() > 10, "{expressions:?}");
    assert_documented(&expressions);
}

/// The PrometheusRule of the kustomize component.
fn rule() -> Value {
    serde_saphyr::from_str(&read("config/prometheus/prometheus_rule.yaml")).unwrap()
}

#[test]
fn every_metric_of_the_alerts_is_served() {
    let expressions = expressions(&rule());
    assert!(expressions.len() > 3, "{expressions:?}");
    assert_documented(&expressions);
}

#[test]
fn the_page_lists_the_alerts_of_the_rule() {
    let page = read("docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix(ALERT));
    let listed: Vec<String> = rows.map(|row| format!("Capa{}", row.split_once('`').unwrap().0)).collect();
    let rule = rule();
    let rules = rule["spec"]["groups"][0]["rules"].as_array().unwrap().iter();
    let alerts: Vec<&str> = rules.map(|rule| rule["alert"].as_str().unwrap()).collect();
    assert_eq!(listed, alerts);
}

#[test]
fn the_alert_about_ready_leaves_normal_stages_out() {
    let rule = rule();
    let rules = rule["spec"]["groups"][0]["rules"].as_array().unwrap().iter();
    let ready = rules.clone().find(|rule| rule["alert"] == "CapaObjectsAreNotReady").unwrap();
    let (_, excepted) = ready["expr"].as_str().unwrap().split_once("reason!~\"").unwrap();
    let excepted: Vec<&str> = excepted.split_once('"').unwrap().0.split('|').collect();
    for reason in Reason::VARIANTS {
        let is_excepted = excepted.iter().any(|pattern| match pattern.strip_suffix(".*") {
            Some(prefix) => reason.as_str().starts_with(prefix),
            None => reason.as_str() == *pattern,
        });
        assert_eq!(is_excepted, reason.is_expected(), "{reason}");
    }
}

#[test]
fn metric_names_are_distinguished_from_functions() {
    let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let names = |metrics: &[&str], labels: &[&str]| Names { metrics: set(metrics), labels: set(labels) };
    for (expression, expected) in [
        ("up", names(&["up"], &[])),
        ("sum by (phase) (up{region=~\"$region\"})", names(&["up"], &["phase", "region"])),
        ("rate(a_total[$__rate_interval]) / on (job) b > 5", names(&["a_total", "b"], &["job"])),
        ("histogram_quantile(0.99, sum by (le) (rate(a_bucket[5m])))", names(&["a_bucket"], &["le"])),
    ] {
        assert_eq!(Names::of(expression), expected, "{expression}");
    }
}
