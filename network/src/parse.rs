//! Reads a network of the contract from JSON.

use capa_api::network::MachineNetwork;
use capa_api::network_schema::{self, Step};
use serde_json::{Map, Value};
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

/// Reads a network. A field that is null or an empty string counts as absent, and so does an object with such fields
/// only.
pub(crate) fn parse(network: &Value) -> Result<MachineNetwork, WrongType> {
    serde_path_to_error::deserialize(&without_absent(network, false)).map_err(|error| {
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

/// The network without the fields that count as absent. The value of a tag may be empty.
fn without_absent(network: &Value, is_tags: bool) -> Value {
    match network {
        Value::Object(fields) => {
            let is_empty = |value: &Value| value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty);
            let is_set = |value: &Value| !value.is_null() && (is_tags || !is_empty(value));
            let set = fields.iter().filter(|(_, value)| is_set(value));
            let set = set.map(|(name, value)| (name, value, without_absent(value, name == "additionalTags")));
            let is_emptied =
                |before: &Value, after: &Value| before != after && after.as_object().is_some_and(Map::is_empty);
            let set = set.filter(|(_, before, after)| !is_emptied(before, after));
            set.map(|(name, _, value)| (name.clone(), value)).collect()
        }
        Value::Array(items) => items.iter().map(|item| without_absent(item, is_tags)).collect(),
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
            (json!({"region": "r", "subnets": "hunter2"}), "subnets", "a list of objects with id"),
            (json!({"subnets": [{"id": "subnet-1"}, {"id": ["hunter2"]}]}), "subnets[1].id", "a string"),
            (json!({"subnets": [{"availabilityZone": "hunter2"}]}), "subnets[0]", "an object with id"),
            (json!({"subnets": [{"id": "subnet-1", "public": "hunter2"}]}), "subnets[0].public", "true or false"),
            (
                json!({"subnets": [{"id": "subnet-1", "roles": ["hunter2"]}]}),
                "subnets[0].roles[0]",
                "one of ControlPlane, Worker",
            ),
            (json!({"securityGroups": {"all": "hunter2"}}), "securityGroups.all", "a list of strings"),
            (json!({"vpc": {"cidrBlocks": ["10.0.0.0/16"]}}), "vpc", "an object with id"),
            (json!({"additionalTags": {"a.b/c": 1}}), "additionalTags.a.b/c", "a string"),
            (json!({"identityRef": {"kind": "hunter2", "name": "n"}}), "identityRef.kind", identities),
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
    fn empty_strings_and_lists_count_as_absent_except_in_a_tag() {
        let network = json!({
            "vpc": {"id": "", "cidrBlocks": []},
            "sshKeyName": "",
            "subnets": [{"id": "subnet-1", "availabilityZone": ""}],
            "additionalTags": {"team": ""},
        });
        let network = parse(&network).unwrap();
        assert_eq!((network.vpc, network.ssh_key_name), (None, None));
        assert_eq!(network.subnets[0].availability_zone, None);
        assert_eq!(network.additional_tags["team"], "");
    }

    #[test]
    fn the_path_of_a_wrong_type_is_cut() {
        let network = json!({"additionalTags": {"x".repeat(100_000): 1}});
        assert_eq!(parse(&network).unwrap_err().path.chars().count(), MAX_SHOWN_CHARACTERS);
    }
}
