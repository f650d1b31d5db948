//! Reads a network of the contract from JSON.

use capa_api::network::MachineNetwork;
use capa_api::network_schema::{self, Step};
use serde_json::Value;
use serde_path_to_error::Segment;

/// Maximum length of a path in a message, because users choose the keys of maps in the object.
const MAX_SHOWN_CHARACTERS: usize = 200;

/// A value that does not have the type of the network contract. The value itself is not stored, because it may be a
/// secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WrongType {
    /// Path of the field in the contract; empty for the whole network.
    pub(crate) path: String,
    /// The type that the contract requires, in words.
    pub(crate) expected: String,
}

/// The same error with its path below `status.network`.
pub(crate) fn in_contract(wrong: WrongType) -> WrongType {
    let path = match wrong.path.as_str() {
        "" => "status.network".to_owned(),
        path => format!("status.network.{path}"),
    };
    WrongType { path, ..wrong }
}

/// Reads a network. A field that is null counts as absent.
pub(crate) fn parse(network: &Value) -> Result<MachineNetwork, WrongType> {
    serde_path_to_error::deserialize(&without_nulls(network)).map_err(|error| {
        let path = error.path();
        let steps = path.iter().filter_map(|segment| match segment {
            Segment::Map { key } => Some(Step::Field(key)),
            Segment::Seq { .. } => Some(Step::Item),
            Segment::Enum { .. } | Segment::Unknown => None,
        });
        let shown: String = path.to_string().chars().take(MAX_SHOWN_CHARACTERS).collect();
        WrongType {
            path: if shown == "." { String::new() } else { shown },
            expected: network_schema::expected_type(steps),
        }
    })
}

fn without_nulls(network: &Value) -> Value {
    match network {
        Value::Object(fields) => {
            let set = fields.iter().filter(|(_, value)| !value.is_null());
            set.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrong_type_has_its_path_and_the_expected_type() {
        let identities = "one of AWSClusterControllerIdentity, AWSClusterRoleIdentity, AWSClusterStaticIdentity";
        let table = [
            (json!("hunter2"), "", "an object"),
            (
                json!({"region": "r", "subnets": "hunter2"}),
                "subnets",
                "a list of objects with id",
            ),
            (
                json!({"subnets": [{"id": "subnet-1"}, {"id": ["hunter2"]}]}),
                "subnets[1].id",
                "a string",
            ),
            (
                json!({"subnets": [{"availabilityZone": "hunter2"}]}),
                "subnets[0]",
                "an object with id",
            ),
            (
                json!({"subnets": [{"id": "subnet-1", "public": "hunter2"}]}),
                "subnets[0].public",
                "true or false",
            ),
            (
                json!({"subnets": [{"id": "subnet-1", "roles": ["hunter2"]}]}),
                "subnets[0].roles[0]",
                "one of ControlPlane, Worker",
            ),
            (
                json!({"securityGroups": {"all": "hunter2"}}),
                "securityGroups.all",
                "a list of strings",
            ),
            (json!({"vpc": {"cidrBlocks": []}}), "vpc", "an object with id"),
            (
                json!({"additionalTags": {"a.b/c": 1}}),
                "additionalTags.a.b/c",
                "a string",
            ),
            (
                json!({"identityRef": {"kind": "hunter2", "name": "n"}}),
                "identityRef.kind",
                identities,
            ),
        ];
        for (network, path, expected) in table {
            let wrong = parse(&network).unwrap_err();
            assert_eq!((wrong.path.as_str(), wrong.expected.as_str()), (path, expected));
        }
    }

    #[test]
    fn a_field_that_is_null_counts_as_absent() {
        let network = json!({"region": null, "subnets": [{"id": "subnet-1", "roles": null}], "vpc": null});
        assert!(parse(&network).is_ok());
    }

    #[test]
    fn the_path_of_a_wrong_type_is_cut() {
        let network = json!({"additionalTags": {"x".repeat(100_000): 1}});
        assert_eq!(parse(&network).unwrap_err().path.chars().count(), MAX_SHOWN_CHARACTERS);
    }
}
