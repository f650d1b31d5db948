//! The network that an infrastructure object publishes.

use capa_api::cluster::subnet::SubnetSpec;
use capa_api::meta::{GROUP, MANAGED_BY_ANNOTATION};
use serde_json::{Map, Value, json};

/// The kind whose objects may publish their network in CAPA's fields while another controller manages them.
const CAPA_KIND: (&str, &str) = (GROUP, "AWSCluster");

/// The network that an object publishes: its `status.network`. An AWSCluster that another controller manages also
/// publishes those of CAPA's fields that `status.network` lacks. This function does not check the types of the fields.
pub(crate) fn infrastructure_network(group: &str, kind: &str, object: &Value) -> Option<Value> {
    let published = object.pointer("/status/network").filter(|network| !network.is_null());
    let pointer = format!("/metadata/annotations/{}", MANAGED_BY_ANNOTATION.replace('/', "~1"));
    let is_managed_elsewhere = (group, kind) == CAPA_KIND && object.pointer(&pointer).is_some();
    match published {
        Some(published) if is_managed_elsewhere => Some(completed(published, from_capa_fields(object))),
        Some(published) => Some(published.clone()),
        None => is_managed_elsewhere.then(|| Value::Object(from_capa_fields(object))),
    }
}

/// The published network, completed with the CAPA fields that it lacks. The security groups of each role count as a
/// separate field.
fn completed(published: &Value, capa: Map<String, Value>) -> Value {
    let Some(fields) = published.as_object() else {
        return published.clone();
    };
    let mut network = fields.clone();
    for (field, value) in capa {
        match (network.get(&field), value) {
            (Some(groups @ Value::Object(_)), Value::Object(of_capa)) if field == "securityGroups" => {
                let groups = completed(groups, of_capa);
                network.insert(field, groups);
            }
            (Some(present), _) if !is_absent(present) => {}
            (_, value) => {
                network.insert(field, value);
            }
        }
    }
    Value::Object(network)
}

/// Whether the network contract counts a value as absent.
fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// CAPA's fields of `spec` and `status.networkStatus` in the form of the contract. A field that is absent in the object
/// is absent in the result and does not affect other fields.
fn from_capa_fields(object: &Value) -> Map<String, Value> {
    let mut network = Map::new();
    let same = ["region", "controlPlaneTargets", "identityRef", "additionalTags", "sshKeyName"];
    for field in same {
        copy(object, &format!("/spec/{field}"), &mut network, field);
    }
    if network.get("controlPlaneTargets").is_none() {
        let balancers = [
            ("controlPlaneLoadBalancer", "apiServerElb"),
            ("secondaryControlPlaneLoadBalancer", "secondaryAPIServerELB"),
        ];
        let targets = balancers.iter().filter_map(|(field, observed)| target(object, field, observed));
        network.insert("controlPlaneTargets".to_owned(), Value::Array(targets.collect()));
    }
    let ipv6 = object.pointer("/spec/network/vpc/ipv6").filter(|ipv6| !ipv6.is_null());
    if let Some(subnets) = object.pointer("/spec/network/subnets") {
        let of_contract = |subnets: &Vec<Value>| {
            let of_nodes = subnets.iter().filter(|subnet| !is_for_pods_only(subnet));
            of_nodes.map(|given| subnet(given, ipv6.is_some())).collect()
        };
        let subnets = subnets.as_array().map_or_else(|| subnets.clone(), of_contract);
        network.insert("subnets".to_owned(), subnets);
    }
    network.insert("securityGroups".to_owned(), security_groups(object));
    let mut lookup = Map::new();
    for (given, field) in [("Format", "format"), ("Org", "org"), ("BaseOS", "baseOS")] {
        copy(object, &format!("/spec/imageLookup{given}"), &mut lookup, field);
    }
    if !lookup.is_empty() {
        network.insert("imageLookup".to_owned(), Value::Object(lookup));
    }
    let id = object.pointer("/spec/network/vpc/id").filter(|id| !is_absent(id));
    if let Some(id) = id {
        let range = ipv6.and_then(|ipv6| ipv6.get("cidrBlock")).filter(|range| !is_absent(range));
        let ranges: Vec<_> = range.into_iter().collect();
        network.insert("vpc".to_owned(), json!({ "id": id, "ipv6CidrBlocks": ranges }));
    }
    if let Some(bucket) = object.pointer("/spec/s3Bucket").filter(|bucket| bucket.is_object()) {
        network.insert("bootstrapStorage".to_owned(), json!({ "s3": bootstrap_bucket(bucket) }));
    }
    network
}

/// The target for a named load balancer. The name comes from the spec, or else from the status, if the other controller
/// has chosen it. A block without any name describes no target: other tools store such a block in every AWSCluster.
fn target(object: &Value, field: &str, observed: &str) -> Option<Value> {
    let balancer = object.pointer(&format!("/spec/{field}"))?;
    let named = balancer.get("name").filter(|name| !is_absent(name));
    let name = named.or_else(|| {
        let observed = object.pointer(&format!("/status/networkStatus/{observed}/name"));
        observed.filter(|name| !is_absent(name))
    })?;
    let kind = balancer.get("loadBalancerType").and_then(Value::as_str);
    match kind.unwrap_or("classic") {
        "disabled" => None,
        "classic" => Some(json!({ "classicLoadBalancerName": name })),
        _ => {
            let mut target = Map::from_iter([("loadBalancerName".to_owned(), name.clone())]);
            let port = object.pointer("/spec/controlPlaneEndpoint/port");
            if let Some(port) = port.filter(|port| port.as_i64() != Some(0)) {
                target.insert("port".to_owned(), port.clone());
            }
            Some(Value::Object(target))
        }
    }
}

fn bootstrap_bucket(given: &Value) -> Value {
    let mut bucket = Map::new();
    copy(given, "/name", &mut bucket, "bucket");
    for field in ["presignedURLDuration", "bestEffortDeleteObjects"] {
        copy(given, &format!("/{field}"), &mut bucket, field);
    }
    Value::Object(bucket)
}

/// Whether the tags of a subnet reserve it for pods. No node is placed in such a subnet.
fn is_for_pods_only(given: &Value) -> bool {
    let tags = given.get("tags").cloned().and_then(|tags| serde_json::from_value(tags).ok());
    let tagged = SubnetSpec { tags: tags.unwrap_or_default(), ..SubnetSpec::default() };
    tagged.is_for_pods_only()
}

/// A subnet in the form of the contract. In CAPA the `id` of a subnet is the AWS id. If CAPA created the subnet, `id`
/// is a name and `resourceID` is the AWS id. Machines have IPv6 only in a VPC with `ipv6`: a subnet may have an IPv6
/// range that its cluster does not use.
fn subnet(given: &Value, uses_ipv6: bool) -> Value {
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
    if !uses_ipv6 && given.get("isIpv6") == Some(&Value::Bool(true)) {
        subnet.remove("ipv6");
    }
    Value::Object(subnet)
}

/// The security groups by role, as CAPA attaches them: `node` and `lb` to every machine. For a role that is not in the
/// status, the group comes from `securityGroupOverrides`.
fn security_groups(object: &Value) -> Value {
    let at = |pointer: String| object.pointer(&pointer).filter(|id| !is_absent(id));
    let of = |role: &str| {
        let in_use = at(format!("/status/networkStatus/securityGroups/{role}/id"));
        in_use.or_else(|| at(format!("/spec/network/securityGroupOverrides/{role}")))
    };
    let all: Vec<_> = ["node", "lb"].iter().filter_map(|role| of(role)).collect();
    let control_plane: Vec<_> = of("controlplane").into_iter().collect();
    json!({"all": all, "controlPlane": control_plane})
}

/// Copies a field unless it is absent.
fn copy(from: &Value, pointer: &str, into: &mut Map<String, Value>, field: &str) {
    let found = from.pointer(pointer).filter(|value| !is_absent(value));
    if let Some(value) = found {
        into.insert(field.to_owned(), value.clone());
    }
}

#[cfg(test)]
mod tests {
    use capa_api::network::MachineNetwork;

    use super::*;

    fn managed_by(annotated: bool) -> Value {
        let annotations = if annotated { json!({MANAGED_BY_ANNOTATION: ""}) } else { json!({}) };
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
        assert_eq!((bucket.bucket.as_str(), bucket.presigned_url_duration.as_deref()), ("bootstrap", Some("30m")));
        assert_eq!(network.region.as_deref(), Some("eu-west-1"));
        assert_eq!(network.ssh_key_name, None);
        let subnets: Vec<_> = network
            .subnets
            .iter()
            .map(|subnet| (subnet.id.as_str(), subnet.availability_zone.as_deref(), subnet.public))
            .collect();
        assert_eq!(
            subnets,
            [("subnet-00000001", Some("eu-west-1a"), Some(false)), ("subnet-00000002", None, Some(true))]
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
        assert_eq!(infrastructure_network("example.org", "AWSCluster", &managed_by(true)), None);
        let mut ours = managed_by(false);
        ours["status"]["network"] = json!({"region": "us-east-1"});
        assert_eq!(infrastructure_network(GROUP, "AWSCluster", &ours), Some(json!({"region": "us-east-1"})));
    }

    #[test]
    fn each_capa_field_stands_for_itself() {
        let rows = [
            ("region", json!({"region": "r"}), json!({"region": "r"})),
            (
                "identityRef",
                json!({"identityRef": {"kind": "AWSClusterRoleIdentity", "name": "i"}}),
                json!({"identityRef": {"kind": "AWSClusterRoleIdentity", "name": "i"}}),
            ),
            (
                "network.vpc.id",
                json!({"network": {"vpc": {"id": "vpc-00000001"}}}),
                json!({"vpc": {"id": "vpc-00000001", "ipv6CidrBlocks": []}}),
            ),
            (
                "network.vpc.ipv6",
                json!({"network": {"vpc": {"id": "vpc-00000001", "ipv6": {"cidrBlock": "2001:db8::/56"}}}}),
                json!({"vpc": {"id": "vpc-00000001", "ipv6CidrBlocks": ["2001:db8::/56"]}}),
            ),
            (
                "network.subnets[].isIpv6 in a VPC with ipv6",
                json!({"network": {
                    "vpc": {"ipv6": {}}, "subnets": [{"id": "subnet-1", "isIpv6": true}, {"id": "subnet-2"}],
                }}),
                json!({"subnets": [{"id": "subnet-1", "ipv6": true}, {"id": "subnet-2"}]}),
            ),
            (
                "network.subnets[].isIpv6 in another VPC",
                json!({"network": {"subnets": [
                    {"id": "subnet-1", "isIpv6": true}, {"id": "subnet-2", "isIpv6": false},
                ]}}),
                json!({"subnets": [{"id": "subnet-1"}, {"id": "subnet-2", "ipv6": false}]}),
            ),
            (
                "network.subnets[] of pods",
                json!({"network": {"subnets": [
                    {"id": "subnet-1", "tags": {"sigs.k8s.io/cluster-api-provider-aws/association": "secondary"}},
                    {"id": "subnet-2", "tags": {"team": "a"}},
                ]}}),
                json!({"subnets": [{"id": "subnet-2"}]}),
            ),
            ("additionalTags", json!({"additionalTags": {"team": "a"}}), json!({"additionalTags": {"team": "a"}})),
            ("sshKeyName", json!({"sshKeyName": "k"}), json!({"sshKeyName": "k"})),
            ("imageLookupFormat", json!({"imageLookupFormat": "f"}), json!({"imageLookup": {"format": "f"}})),
            ("imageLookupOrg", json!({"imageLookupOrg": "1"}), json!({"imageLookup": {"org": "1"}})),
            ("imageLookupBaseOS", json!({"imageLookupBaseOS": "b"}), json!({"imageLookup": {"baseOS": "b"}})),
            (
                "network.securityGroupOverrides",
                json!({"network": {"securityGroupOverrides": {"node": "sg-1", "lb": "sg-2", "controlplane": "sg-3"}}}),
                json!({"securityGroups": {"all": ["sg-1", "sg-2"], "controlPlane": ["sg-3"]}}),
            ),
            ("s3Bucket", json!({"s3Bucket": {"name": "b"}}), json!({"bootstrapStorage": {"s3": {"bucket": "b"}}})),
            (
                "controlPlaneLoadBalancer",
                json!({"controlPlaneLoadBalancer": {"name": "api", "loadBalancerType": "classic"}}),
                json!({"controlPlaneTargets": [{"classicLoadBalancerName": "api"}]}),
            ),
            (
                "both load balancers",
                json!({
                    "controlPlaneEndpoint": {"host": "h", "port": 443},
                    "controlPlaneLoadBalancer": {"name": "int", "loadBalancerType": "nlb"},
                    "secondaryControlPlaneLoadBalancer": {"name": "ext", "loadBalancerType": "nlb"},
                }),
                json!({"controlPlaneTargets": [
                    {"loadBalancerName": "int", "port": 443}, {"loadBalancerName": "ext", "port": 443},
                ]}),
            ),
            (
                "a load balancer that is disabled, and one without a name",
                json!({
                    "controlPlaneLoadBalancer": {"name": "api", "loadBalancerType": "disabled"},
                    "secondaryControlPlaneLoadBalancer": {"loadBalancerType": "nlb"},
                }),
                json!({}),
            ),
            (
                "targets beside a load balancer",
                json!({
                    "controlPlaneTargets": [{"classicLoadBalancerName": "mine"}],
                    "controlPlaneLoadBalancer": {"name": "api", "loadBalancerType": "nlb"},
                }),
                json!({"controlPlaneTargets": [{"classicLoadBalancerName": "mine"}]}),
            ),
            (
                "controlPlaneTargets",
                json!({"controlPlaneTargets": [{"classicLoadBalancerName": "api"}]}),
                json!({"controlPlaneTargets": [{"classicLoadBalancerName": "api"}]}),
            ),
        ];
        for (field, spec, expected) in rows {
            let object = json!({"metadata": {"annotations": {MANAGED_BY_ANNOTATION: ""}}, "spec": spec});
            let mut read = infrastructure_network(GROUP, "AWSCluster", &object).unwrap();
            let fields = read.as_object_mut().unwrap();
            for field in ["securityGroups", "controlPlaneTargets"] {
                if expected.get(field).is_none() {
                    fields.remove(field);
                }
            }
            assert_eq!(read, expected, "{field}");
        }
    }

    #[test]
    fn a_load_balancer_that_the_other_controller_named_is_a_target() {
        let network_status =
            json!({"apiServerElb": {"name": "dev-apiserver"}, "secondaryAPIServerELB": {"name": "ext"}});
        let read = |spec: Value| {
            let object = json!({
                "metadata": {"annotations": {MANAGED_BY_ANNOTATION: ""}},
                "spec": spec,
                "status": {"networkStatus": network_status},
            });
            infrastructure_network(GROUP, "AWSCluster", &object).unwrap()["controlPlaneTargets"].clone()
        };
        let nlb = json!({"loadBalancerType": "nlb"});
        let named = json!({"loadBalancerType": "nlb", "name": "own"});
        assert_eq!(
            read(json!({"controlPlaneLoadBalancer": nlb, "secondaryControlPlaneLoadBalancer": nlb})),
            json!([{"loadBalancerName": "dev-apiserver"}, {"loadBalancerName": "ext"}])
        );
        assert_eq!(read(json!({"controlPlaneLoadBalancer": named})), json!([{"loadBalancerName": "own"}]));
        assert_eq!(read(json!({})), json!([]), "the spec asks for no load balancer");
    }

    #[test]
    fn a_field_of_the_status_precedes_the_capa_field() {
        let mut object = managed_by(true);
        object["status"]["network"] = json!({
            "region": "us-east-1", "subnets": [], "sshKeyName": "", "securityGroups": {"all": ["sg-0000000e"]},
        });
        let read = infrastructure_network(GROUP, "AWSCluster", &object).unwrap();
        let network: MachineNetwork = serde_json::from_value(read).unwrap();
        assert_eq!(network.region.as_deref(), Some("us-east-1"));
        assert_eq!(network.subnets.len(), 2, "an empty list counts as absent");
        assert_eq!(network.control_plane_targets.len(), 1);
        let groups = network.security_groups.unwrap();
        assert_eq!(groups.all, ["sg-0000000e"]);
        assert_eq!(groups.control_plane, ["sg-0000000c"]);
    }

    #[test]
    fn a_group_in_use_precedes_an_override() {
        let mut object = managed_by(true);
        object["spec"]["network"]["securityGroupOverrides"] = json!({"node": "sg-0000000e"});
        object["status"]["networkStatus"]["securityGroups"]["lb"] = json!({"id": ""});
        let read = infrastructure_network(GROUP, "AWSCluster", &object).unwrap();
        assert_eq!(read["securityGroups"]["all"], json!(["sg-0000000a"]));
    }

    #[test]
    fn a_field_of_a_wrong_type_is_passed_on_for_validation() {
        let mut object = managed_by(true);
        object["spec"]["network"]["subnets"] = json!("all of them");
        let read = infrastructure_network(GROUP, "AWSCluster", &object).unwrap();
        assert!(serde_json::from_value::<MachineNetwork>(read).is_err());
    }
}
