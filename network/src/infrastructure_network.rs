//! The network that an infrastructure object publishes.

use capa_api::meta::{GROUP, MANAGED_BY_ANNOTATION};
use serde_json::{Map, Value, json};

/// The kind whose objects may publish their network in CAPA's fields while another controller manages them.
const CAPA_KIND: (&str, &str) = (GROUP, "AWSCluster");

/// The network that an object publishes: its `status.network`; without one, CAPA's fields of an AWSCluster that another
/// controller manages. The types of the fields are not checked here.
pub(crate) fn infrastructure_network(group: &str, kind: &str, object: &Value) -> Option<Value> {
    let network = object.pointer("/status/network").filter(|network| !network.is_null());
    network.cloned().or_else(|| {
        let pointer = format!("/metadata/annotations/{}", MANAGED_BY_ANNOTATION.replace('/', "~1"));
        let is_managed_elsewhere = (group, kind) == CAPA_KIND && object.pointer(&pointer).is_some();
        is_managed_elsewhere.then(|| from_capa_fields(object)).flatten()
    })
}

/// `spec.region`, `spec.network` and `status.networkStatus` as the contract has them; nothing without a subnet.
fn from_capa_fields(object: &Value) -> Option<Value> {
    let subnets = object.pointer("/spec/network/subnets")?;
    let subnets = match subnets.as_array() {
        Some(subnets) if subnets.is_empty() => return None,
        Some(subnets) => subnets.iter().map(subnet).collect(),
        None => subnets.clone(),
    };
    let mut network = Map::new();
    network.insert("subnets".to_owned(), subnets);
    network.insert("securityGroups".to_owned(), security_groups(object));
    let same = [
        "region",
        "controlPlaneTargets",
        "identityRef",
        "additionalTags",
        "sshKeyName",
    ];
    for field in same {
        copy(object, &format!("/spec/{field}"), &mut network, field);
    }
    if let Some(id) = object.pointer("/spec/network/vpc/id") {
        network.insert("vpc".to_owned(), json!({ "id": id }));
    }
    if let Some(bucket) = object.pointer("/spec/s3Bucket").filter(|bucket| bucket.is_object()) {
        network.insert("bootstrapStorage".to_owned(), json!({ "s3": bootstrap_bucket(bucket) }));
    }
    Some(Value::Object(network))
}

fn bootstrap_bucket(given: &Value) -> Value {
    let mut bucket = Map::new();
    copy(given, "/name", &mut bucket, "bucket");
    for field in ["presignedURLDuration", "bestEffortDeleteObjects"] {
        copy(given, &format!("/{field}"), &mut bucket, field);
    }
    Value::Object(bucket)
}

/// In CAPA the `id` of a subnet is AWS's id, or a name with AWS's id in `resourceID` where CAPA created the subnet.
fn subnet(given: &Value) -> Value {
    let mut subnet = Map::new();
    for (pointer, field) in [
        ("/id", "id"),
        ("/resourceID", "id"),
        ("/availabilityZone", "availabilityZone"),
        ("/isPublic", "public"),
        ("/isIpv6", "ipv6"),
        ("/zoneType", "zoneType"),
    ] {
        copy(given, pointer, &mut subnet, field);
    }
    Value::Object(subnet)
}

/// The security groups by role, as CAPA attaches them: `node` and `lb` to every machine.
fn security_groups(object: &Value) -> Value {
    let of = |role: &str| object.pointer(&format!("/status/networkStatus/securityGroups/{role}/id"));
    let all: Vec<_> = ["node", "lb"].iter().filter_map(|role| of(role)).collect();
    let control_plane: Vec<_> = of("controlplane").into_iter().collect();
    json!({"all": all, "controlPlane": control_plane})
}

/// Copies a field unless it is empty.
fn copy(from: &Value, pointer: &str, into: &mut Map<String, Value>, field: &str) {
    let found = from.pointer(pointer).filter(|value| !value.is_null() && *value != "");
    if let Some(value) = found {
        into.insert(field.to_owned(), value.clone());
    }
}

#[cfg(test)]
mod tests {
    use capa_api::network::MachineNetwork;

    use super::*;

    fn managed_by(annotated: bool) -> Value {
        let annotations = if annotated {
            json!({MANAGED_BY_ANNOTATION: ""})
        } else {
            json!({})
        };
        json!({
            "metadata": {"annotations": annotations},
            "spec": {
                "region": "eu-west-1",
                "sshKeyName": "",
                "controlPlaneTargets": [{"classicLoadBalancerName": "api"}],
                "s3Bucket": {"name": "bootstrap", "presignedURLDuration": "30m"},
                "network": {
                    "vpc": {"id": "vpc-00000001"},
                    "subnets": [
                        {"id": "subnet-00000001", "availabilityZone": "eu-west-1a", "isPublic": false},
                        {"id": "made-by-capa", "resourceID": "subnet-00000002", "isPublic": true},
                    ],
                },
            },
            "status": {"ready": true, "networkStatus": {"securityGroups": {
                "node": {"id": "sg-0000000a"}, "lb": {"id": "sg-0000000b"}, "controlplane": {"id": "sg-0000000c"},
                "bastion": {"id": "sg-0000000d"},
            }}},
        })
    }

    #[test]
    fn capa_fields_of_externally_managed_clusters_are_a_network() {
        let read = infrastructure_network(GROUP, "AWSCluster", &managed_by(true)).unwrap();
        let network: MachineNetwork = serde_json::from_value(read).unwrap();
        let bucket = network.bootstrap_bucket().unwrap();
        assert_eq!(
            (bucket.bucket.as_str(), bucket.presigned_url_duration.as_deref()),
            ("bootstrap", Some("30m"))
        );
        assert_eq!(network.region.as_deref(), Some("eu-west-1"));
        assert_eq!(network.ssh_key_name, None);
        let subnets: Vec<_> = network
            .subnets
            .iter()
            .map(|subnet| (subnet.id.as_str(), subnet.availability_zone.as_deref(), subnet.public))
            .collect();
        assert_eq!(
            subnets,
            [
                ("subnet-00000001", Some("eu-west-1a"), Some(false)),
                ("subnet-00000002", None, Some(true))
            ]
        );
        let groups = network.security_groups.unwrap();
        assert_eq!(groups.all, ["sg-0000000a", "sg-0000000b"]);
        assert_eq!(groups.control_plane, ["sg-0000000c"]);
        assert_eq!(network.control_plane_targets.len(), 1);
        assert_eq!(network.vpc.unwrap().id, "vpc-00000001");
    }

    #[test]
    fn capa_fields_are_ignored_on_our_clusters_and_other_kinds() {
        assert_eq!(infrastructure_network(GROUP, "AWSCluster", &managed_by(false)), None);
        assert_eq!(
            infrastructure_network("example.org", "AWSCluster", &managed_by(true)),
            None
        );
        let mut without_subnets = managed_by(true);
        without_subnets["spec"]["network"]["subnets"] = json!([]);
        assert_eq!(infrastructure_network(GROUP, "AWSCluster", &without_subnets), None);
    }

    #[test]
    fn the_network_in_the_status_takes_precedence() {
        let mut object = managed_by(true);
        object["status"]["network"] = json!({"region": "us-east-1"});
        assert_eq!(
            infrastructure_network(GROUP, "AWSCluster", &object),
            Some(json!({"region": "us-east-1"}))
        );
    }

    #[test]
    fn a_field_of_a_wrong_type_is_passed_on_for_validation() {
        let mut object = managed_by(true);
        object["spec"]["network"]["subnets"] = json!("all of them");
        let read = infrastructure_network(GROUP, "AWSCluster", &object).unwrap();
        assert!(serde_json::from_value::<MachineNetwork>(read).is_err());
    }
}
