//! Label selectors: their schema, and their conversion to kube's type.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
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

/// The selector as kube's type, which matches labels and is written as the API server's parameter `labelSelector`.
/// `None` if an operator is unknown to Kubernetes or lacks the values that it needs: such a selector matches nothing. A
/// selector without requirements matches every object; a caller that must not allow this has to check for it.
pub fn parsed(selector: &LabelSelector) -> Option<Selector> {
    selector.clone().try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::core::SelectorExt;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_with_an_unknown_operator_or_without_values_is_none() {
        let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let matches = |expressions: serde_json::Value| {
            let selector = serde_json::from_value(json!({"matchExpressions": [expressions]})).unwrap();
            parsed(&selector).map(|selector| selector.matches(&labels))
        };
        assert_eq!(matches(json!({"key": "team", "operator": "In", "values": ["a"]})), Some(true));
        assert_eq!(matches(json!({"key": "team", "operator": "In"})), None);
        assert_eq!(matches(json!({"key": "team", "operator": "Like", "values": ["a"]})), None);
        assert!(parsed(&LabelSelector::default()).is_some_and(|all| all.selects_all()));
    }
}
