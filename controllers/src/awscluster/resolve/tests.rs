use capa_api::common::ControlPlaneTarget;
use capa_api::conditions::ConditionStatus;
use capa_cloud::CloudError;
use capa_cloud::ec2::Subnet;
use capa_cloud::elb::Listener;
use serde_json::{Value, json};

use super::*;

const SUBNET: &str = "subnet-0000000a";

fn spec(network: &Value) -> AWSClusterSpec {
    serde_json::from_value(json!({"region": "eu-west-1", "unmanaged": true, "network": network})).unwrap()
}

fn published(network: &MachineNetwork) -> Published<'_> {
    Published { network, failure_domains: &[], of_this_spec: true }
}

fn refused() -> NetworkLookup {
    NetworkLookup::Failed(CloudError::answered("DescribeSubnets", "UnauthorizedOperation", "no"))
}

#[test]
fn what_was_known_of_subnets_and_vpc_outlives_a_refused_lookup() {
    let before: MachineNetwork = serde_json::from_value(json!({
        "region": "eu-west-1",
        "subnets": [
            {"id": SUBNET, "availabilityZone": "eu-west-1a", "public": true},
            {"id": "subnet-0000000b", "availabilityZone": "eu-west-1b"},
        ],
        "vpc": {"id": "vpc-0000000a", "cidrBlocks": ["10.0.0.0/16"]},
    }))
    .unwrap();
    let spec = spec(&json!({"vpc": {"id": "vpc-0000000a"}, "subnets": [{"id": SUBNET}, {"id": "subnet-0000000c"}]}));
    for lookup in [refused(), NetworkLookup::NoIdentity] {
        let resolved = resolve(&spec, "dev", 6443, &lookup, Some(published(&before)));
        let added = NetworkSubnet { id: "subnet-0000000c".to_owned(), ..NetworkSubnet::default() };
        assert_eq!(resolved.network.subnets, [before.subnets[0].clone(), added]);
        assert_eq!(resolved.network.vpc, before.vpc);
        assert_eq!(resolved.failure_domains.len(), 1);
    }
    let disabled = resolve(&spec, "dev", 6443, &NetworkLookup::Disabled, Some(published(&before)));
    assert_eq!(disabled.failure_domains, []);
    let elsewhere = AWSClusterSpec { region: Some("eu-west-9".to_owned()), ..spec };
    let moved = resolve(&elsewhere, "dev", 6443, &refused(), Some(published(&before)));
    assert_eq!((moved.failure_domains, moved.subnets), (vec![], Supply::Unverified));
}

#[test]
fn invalid_ids_are_left_out_of_the_status_and_named() {
    let spec = spec(&json!({
        "vpc": {"id": "vpc-x"},
        "subnets": [{"id": SUBNET}, {"id": "subnet-foo"}, {"id": "again", "resourceID": SUBNET}],
        "securityGroupOverrides": {"node": "sg-oops", "lb": "sg-0000000a"},
    }));
    for lookup in [refused(), NetworkLookup::NoIdentity, NetworkLookup::Disabled] {
        let resolved = resolve(&spec, "dev", 6443, &lookup, None);
        let ids: Vec<&str> = resolved.network.subnets.iter().map(|subnet| subnet.id.as_str()).collect();
        assert_eq!(ids, [SUBNET]);
        assert_eq!(resolved.network.vpc, None);
        assert_eq!(resolved.network.security_groups.unwrap().all, ["sg-0000000a"]);
        let said = &resolved.condition.message;
        assert_eq!(resolved.condition.reason, Reason::InvalidSpec, "{said}");
        for part in [
            "spec.network.vpc.id: vpc-x is no id",
            "spec.network.subnets: subnet-foo is no id",
            "spec.network.subnets: subnet-0000000a is declared more than once",
            "spec.network.securityGroupOverrides: sg-oops is no id",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let refused = matches!(lookup, NetworkLookup::Failed(_));
        assert_eq!(said.contains("could not be looked up"), refused, "{said}");
    }
}

#[test]
fn oversized_texts_are_left_out_of_the_status_and_named() {
    let long = "x".repeat(300);
    let spec: AWSClusterSpec = serde_json::from_value(json!({
        "region": long,
        "unmanaged": true,
        "sshKeyName": long,
        "imageLookupFormat": long,
        "imageLookupOrg": long,
        "imageLookupBaseOS": long,
        "network": {"subnets": [{"id": SUBNET, "availabilityZone": long}]},
    }))
    .unwrap();
    for lookup in [refused(), NetworkLookup::NoIdentity, NetworkLookup::Disabled] {
        let mut resolved = resolve(&spec, &long, 6443, &lookup, None);
        assert_eq!(resolved.network.take_oversized(), []);
        assert_eq!(resolved.blocked, Some(Blocked::All));
        assert_eq!(resolved.failure_domains, []);
        let said = &resolved.condition.message;
        assert_eq!(resolved.condition.reason, Reason::InvalidSpec, "{said}");
        for part in [
            "spec.region is no name",
            "the name of the Cluster",
            "spec.sshKeyName",
            "spec.imageLookupFormat",
            "spec.imageLookupOrg",
            "spec.imageLookupBaseOS",
            "availabilityZone",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains(&long), "{said}");
    }
}

#[test]
fn a_vpc_that_does_not_exist_is_the_first_thing_to_be_told() {
    let spec = spec(&json!({"vpc": {"id": "vpc-00000bad"}, "subnets": [{"id": SUBNET}]}));
    let subnet = Subnet {
        id: SUBNET.to_owned(),
        vpc_id: "vpc-0000000a".to_owned(),
        zone: "eu-west-1a".to_owned(),
        ..Subnet::default()
    };
    let found = FoundNetwork { subnets: vec![subnet], ..FoundNetwork::default() };
    let resolved = resolve(&spec, "dev", 6443, &NetworkLookup::Found(Box::new(found)), None);
    assert_eq!(resolved.condition.reason, Reason::NotFound);
    assert!(
        resolved.condition.message.starts_with("VPC vpc-00000bad does not exist"),
        "{}",
        resolved.condition.message
    );
}

#[test]
fn refused_tags_are_all_named_whatever_the_lookup() {
    let spec: AWSClusterSpec = serde_json::from_value(json!({
        "region": "eu-west-1",
        "unmanaged": true,
        "additionalTags": {"MachineName": "a", "kubernetes.io/cluster/y": "owned", "team": "a"},
    }))
    .unwrap();
    let resolved = |lookup| resolve(&spec, "dev", 6443, &lookup, None);
    // A network that another release accepted.
    let kept = NetworkLookup::Recorded(Box::new(resolved(NetworkLookup::Disabled).network), vec![]);
    for lookup in
        [NetworkLookup::Found(Box::default()), refused(), NetworkLookup::NoIdentity, NetworkLookup::Disabled, kept]
    {
        let resolved = resolved(lookup);
        let condition = &resolved.condition;
        assert_eq!((condition.status, condition.reason), (ConditionStatus::False, Reason::Conflict));
        for key in ["MachineName", "kubernetes.io/cluster/y"] {
            let named = format!("spec.additionalTags: {key} is a tag of the provider or of AWS: remove it");
            assert!(condition.message.contains(&named), "{}", condition.message);
        }
        assert!(!condition.message.contains("team"), "{}", condition.message);
        assert_eq!(resolved.blocked, Some(Blocked::All), "no machine of this cluster can be launched");
    }
}

#[test]
fn security_groups_of_unknown_roles_are_named_by_any_lookup() {
    let spec = spec(&json!({
        "subnets": [{"id": SUBNET}],
        "securityGroupOverrides": {"controlPlane": "sg-0000000a", "node": "sg-0000000b", "bastion": "sg-0000000c"},
    }));
    for lookup in [refused(), NetworkLookup::NoIdentity, NetworkLookup::Disabled] {
        let resolved = resolve(&spec, "dev", 6443, &lookup, None);
        let said = &resolved.condition.message;
        assert_eq!(resolved.condition.reason, Reason::InvalidSpec, "{said}");
        let named = "spec.network.securityGroupOverrides: controlPlane is no role: use one of node, controlplane, lb;";
        // Only the roles of machines have an effect on an unmanaged cluster.
        assert!(format!("{said};").contains(named) && !said.contains("bastion"), "{said}");
        assert_eq!(resolved.network.security_groups.unwrap().all, ["sg-0000000b"]);
    }
}

#[test]
fn targets_behind_a_named_load_balancer_outlive_a_refused_lookup() {
    let spec: AWSClusterSpec = serde_json::from_value(json!({
        "region": "eu-west-1",
        "unmanaged": true,
        "controlPlaneTargets": [{"loadBalancerName": "api"}],
    }))
    .unwrap();
    let before: MachineNetwork = serde_json::from_value(json!({
        "region": "eu-west-1",
        "controlPlaneTargets": [{"targetGroupARN": "arn:a"}],
    }))
    .unwrap();
    let throttled = CloudError::answered("DescribeLoadBalancers", "Throttling", "slowly");
    let found =
        FoundNetwork { named_load_balancers: [("api".to_owned(), Err(throttled))].into(), ..FoundNetwork::default() };
    let lookup = NetworkLookup::Found(Box::new(found));
    let targets = |before| {
        let resolved = resolve(&spec, "dev", 6443, &lookup, before);
        assert_eq!(resolved.condition.reason, Reason::Throttled);
        assert_eq!(resolved.blocked, Some(Blocked::ControlPlane));
        resolved.network.control_plane_targets
    };
    assert_eq!(targets(Some(published(&before))), before.control_plane_targets);
    // Without a known target group the name is published, and the machines look it up.
    assert_eq!(targets(None), spec.control_plane_targets);
}

#[test]
fn more_targets_than_a_machine_can_have_block_the_control_plane() {
    let groups: Vec<String> = (0..=ControlPlaneTarget::MAX_COUNT).map(|number| format!("arn:{number}")).collect();
    let listener = Listener { port: 6443, target_group_arns: groups, ..Listener::default() };
    let found = FoundNetwork {
        named_load_balancers: [("api".to_owned(), Ok(Some(vec![listener])))].into(),
        ..FoundNetwork::default()
    };
    let mut spec = spec(&json!({}));
    spec.control_plane_targets =
        vec![ControlPlaneTarget { load_balancer_name: Some("api".into()), ..ControlPlaneTarget::default() }];
    let resolved = resolve(&spec, "dev", 6443, &NetworkLookup::Found(Box::new(found)), None);
    assert_eq!(resolved.network.control_plane_targets.len(), ControlPlaneTarget::MAX_COUNT);
    assert_eq!((resolved.blocked, resolved.condition.reason), (Some(Blocked::ControlPlane), Reason::InvalidSpec));
    assert!(resolved.condition.message.contains("spec.controlPlaneTargets"), "{}", resolved.condition.message);
}
