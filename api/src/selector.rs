//! Label selectors: their schema and their evaluation.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use schemars::{Schema, SchemaGenerator, json_schema};

/// The pattern of a label key.
const LABEL_KEY: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?\
                         [A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
/// The pattern of a label value, which may be empty.
const LABEL_VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";

/// Schema of a label selector with the limits of Kubernetes.
pub fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": {
                "description": "Labels an object must have, each with exactly this value.",
                "type": "object",
                "maxProperties": 64,
                "additionalProperties": { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE },
                "x-kubernetes-validations": [{
                    "rule": format!("self.all(key, size(key) <= 317 && key.matches('{LABEL_KEY}'))"),
                    "message": "a label key is a name of letters, digits, - _ . with an optional DNS prefix before a \
                                slash",
                }],
            },
            "matchExpressions": {
                "description": "Conditions on labels; all of them must hold, together with `matchLabels`.",
                "type": "array",
                "maxItems": 64,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "description": "One condition on one label.",
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {
                            "description": "Label that the condition is about.",
                            "type": "string",
                            "maxLength": 317,
                            "pattern": LABEL_KEY,
                        },
                        "operator": {
                            "description": "How the label relates to `values`: In, NotIn, Exists or DoesNotExist.",
                            "type": "string",
                            "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                        },
                        "values": {
                            "description": "Values for In and NotIn, at least one; empty for Exists and DoesNotExist.",
                            "type": "array",
                            "maxItems": 64,
                            "x-kubernetes-list-type": "atomic",
                            "items": { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE },
                        },
                    },
                    "x-kubernetes-validations": [{
                        "rule": "self.operator in ['In', 'NotIn'] == (has(self.values) && size(self.values) > 0)",
                        "message": "In and NotIn need values, Exists and DoesNotExist have none",
                    }],
                },
            },
        },
        "x-kubernetes-map-type": "atomic",
    })
}

/// Whether the selector has no requirement. In Kubernetes such a selector matches every object; some users of selectors
/// must not.
pub fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// Whether the labels meet every requirement. An operator that Kubernetes does not know matches nothing.
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let by_labels = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    by_labels
        && selector
            .match_expressions
            .iter()
            .flatten()
            .all(|expression| holds(expression, labels))
}

fn holds(expression: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&expression.key);
    let listed = |value| expression.values.as_ref().is_some_and(|values| values.contains(value));
    match expression.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

/// The selector in the text form of the API server's parameter `labelSelector`, for example `a=b,c in (d,e)`.
pub fn text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let equal = labels.map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().map(requirement_text);
    equal.chain(expressions).collect::<Vec<_>>().join(",")
}

fn requirement_text(requirement: &LabelSelectorRequirement) -> String {
    let LabelSelectorRequirement { key, operator, values } = requirement;
    let values = values.as_deref().unwrap_or_default().join(",");
    match operator.as_str() {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "DoesNotExist" => format!("!{key}"),
        _ => key.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(value: serde_json::Value) -> LabelSelector {
        serde_json::from_value(value).unwrap()
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn every_requirement_must_hold() {
        let team_a = labels(&[("team", "a"), ("tier", "prod")]);
        let cases = [
            (json!({}), true),
            (json!({"matchLabels": {"team": "a"}}), true),
            (json!({"matchLabels": {"team": "b"}}), false),
            (json!({"matchLabels": {"team": "a", "zone": "x"}}), false),
            (
                json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a", "b"]}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "absent", "operator": "NotIn", "values": ["a"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
                false,
            ),
            (json!({"matchExpressions": [{"key": "team", "operator": "In"}]}), false),
            (
                json!({"matchExpressions": [{"key": "team", "operator": "Like", "values": ["a"]}]}),
                false,
            ),
            (
                json!({
                    "matchLabels": {"team": "a"},
                    "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}],
                }),
                false,
            ),
        ];
        for (requirements, expected) in cases {
            assert_eq!(
                matches(&selector(requirements.clone()), &team_a),
                expected,
                "{requirements}"
            );
        }
    }

    #[test]
    fn a_selector_without_requirements_is_empty() {
        assert!(is_empty(&selector(json!({}))));
        assert!(is_empty(&selector(json!({"matchLabels": {}, "matchExpressions": []}))));
        assert!(!is_empty(&selector(json!({"matchLabels": {"team": "a"}}))));
    }

    #[test]
    fn a_selector_has_the_text_form_of_the_api_server() {
        let all = selector(json!({
            "matchLabels": {"team": "a", "zone": ""},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["x", "y"]},
                {"key": "tier", "operator": "NotIn", "values": ["z"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "new", "operator": "Exists"},
            ],
        }));
        assert_eq!(text(&all), "team=a,zone=,tier in (x,y),tier notin (z),!old,new");
    }
}
