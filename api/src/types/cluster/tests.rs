use kube::CustomResourceExt as _;

use super::*;
use crate::cluster::load_balancer::{HealthCheckProtocol, LoadBalancerScheme, LoadBalancerType};
use crate::cluster::preflight::PodNetwork;
use crate::common::IdentityKind;

fn spec(yaml: &str) -> AWSClusterSpec {
    serde_saphyr::from_str(yaml).expect("a spec")
}

#[test]
fn an_unmanaged_cluster_is_read_whole() {
    let spec = spec(
        r#"
        region: eu-west-1
        unmanaged: true
        preflight: {mode: Report, cni: Cilium, skipRules: [S7]}
        identityRef: {kind: AWSClusterRoleIdentity, name: team-a}
        controlPlaneEndpoint: {host: api.prod.example.org, port: 6443}
        controlPlaneTargets:
        - targetGroupARN: arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/prod-api/0123456789abcdef
        network:
          vpc: {id: vpc-0a1b2c3d}
          subnets:
          - {id: subnet-0000000a, availabilityZone: eu-west-1a}
          - {id: subnet-0000000b}
          securityGroupOverrides: {node: sg-0000000a, controlplane: sg-0000000b}
        additionalTags: {cost-centre: "42"}
        "#,
    );
    assert!(spec.unmanaged);
    assert_eq!(spec.region(), Some("eu-west-1"));
    assert_eq!(spec.effective_identity_ref().kind, IdentityKind::AWSClusterRoleIdentity);
    assert_eq!(spec.endpoint(), Some(("api.prod.example.org", 6443)));
    assert_eq!(spec.vpc_id(), Some("vpc-0a1b2c3d"));
    let zones: Vec<_> = spec.subnets().iter().map(|subnet| subnet.availability_zone.as_deref()).collect();
    assert_eq!(zones, [Some("eu-west-1a"), None]);
    let network = spec.network.as_ref().expect("a network");
    assert_eq!(network.security_group_overrides["controlplane"], "sg-0000000b");
    let target_group = spec.control_plane_targets[0].target_group_arn.as_deref().expect("an ARN");
    assert!(target_group.ends_with("targetgroup/prod-api/0123456789abcdef"));
    let preflight = spec.preflight.as_ref().expect("preflight");
    assert_eq!(preflight.skip_rules, ["S7"]);
    assert_eq!(preflight.cni, Some(PodNetwork::Cilium));
    assert_eq!(spec.additional_tags["cost-centre"], "42");
}

#[test]
fn the_smallest_managed_cluster_is_read() {
    let spec =
        spec("{region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: nlb, healthCheckProtocol: HTTPS}}");
    assert!(!spec.unmanaged);
    let load_balancer = spec.control_plane_load_balancer.as_ref().expect("a load balancer");
    assert_eq!(load_balancer.load_balancer_type, LoadBalancerType::Nlb);
    assert_eq!(load_balancer.effective_health_check_protocol(), HealthCheckProtocol::Https);
    assert_eq!(spec.effective_identity_ref(), IdentityReference::controller_default());
    assert!(spec.subnets().is_empty());
}

#[test]
fn absent_fields_stay_absent_when_written_back() {
    let yaml = "{region: eu-west-1, network: {vpc: {id: vpc-0a}, subnets: [{id: subnet-0a}]}}";
    let written = serde_json::to_value(spec(yaml)).expect("JSON");
    let expected = serde_json::json!({
        "region": "eu-west-1",
        "network": {
            "vpc": {"id": "vpc-0a", "availabilityZoneSelection": "Ordered", "subnetSchema": "PreferPrivate"},
            "subnets": [{"id": "subnet-0a"}],
        },
    });
    assert_eq!(written, expected);
}

#[test]
fn fields_of_a_newer_version_do_not_stop_reading() {
    assert_eq!(spec("{region: eu-west-1, notYetKnown: {a: 1}}").region(), Some("eu-west-1"));
}

#[test]
fn the_partition_follows_the_region() {
    let cases = [
        ("{}", "aws"),
        ("{region: eu-west-1}", "aws"),
        ("{region: cn-north-1}", "aws-cn"),
        ("{region: us-gov-west-1}", "aws-us-gov"),
        ("{region: us-iso-east-1}", "aws-iso"),
        ("{region: us-isob-east-1}", "aws-iso-b"),
        ("{region: eu-isoe-west-1}", "aws-iso-e"),
        ("{region: us-isof-south-1}", "aws-iso-f"),
        ("{region: eusc-de-east-1}", "aws-eusc"),
        ("{region: eu-west-1, partition: aws-cn}", "aws-cn"),
        ("{region: cn-north-1, partition: ''}", "aws-cn"),
    ];
    for (yaml, expected) in cases {
        assert_eq!(spec(yaml).effective_partition(), expected, "{yaml}");
    }
}

#[test]
fn the_preflight_mode_defaults_to_report() {
    let cases = [
        ("{}", PreflightMode::Report),
        ("{preflight: {cni: Calico}}", PreflightMode::Report),
        ("{preflight: {mode: Disabled}}", PreflightMode::Disabled),
        ("{preflight: {mode: Require}}", PreflightMode::Require),
    ];
    for (yaml, expected) in cases {
        assert_eq!(spec(yaml).effective_preflight_mode(), expected, "{yaml}");
    }
}

#[test]
fn an_endpoint_needs_host_and_port() {
    let cases = [
        ("{}", None),
        ("{controlPlaneEndpoint: {}}", None),
        ("{controlPlaneEndpoint: {host: '', port: 6443}}", None),
        ("{controlPlaneEndpoint: {host: api.example.org}}", None),
        ("{controlPlaneEndpoint: {host: api.example.org, port: 0}}", None),
        ("{controlPlaneEndpoint: {host: api.example.org, port: 443}}", Some(("api.example.org", 443))),
    ];
    for (yaml, expected) in cases {
        assert_eq!(spec(yaml).endpoint(), expected, "{yaml}");
    }
}

#[test]
fn an_empty_vpc_id_or_region_counts_as_absent() {
    assert_eq!(spec("{network: {vpc: {id: ''}}}").vpc_id(), None);
    assert_eq!(spec("{network: {}}").vpc_id(), None);
    assert_eq!(spec("{region: ''}").region(), None);
}

#[test]
fn the_image_lookup_is_there_when_one_of_its_fields_is() {
    let lookup = spec("{imageLookupOrg: '123456789012', imageLookupBaseOS: ''}").image_lookup();
    let expected = ImageLookup { org: Some("123456789012".to_owned()), ..ImageLookup::default() };
    assert_eq!(lookup, Some(expected));
    assert_eq!(spec("{imageLookupFormat: ''}").image_lookup(), None);
}

#[test]
fn the_kind_is_named_as_cluster_api_expects() {
    let crd = AWSCluster::crd();
    assert_eq!(crd.metadata.name.as_deref(), Some("awsclusters.infrastructure.cluster.x-k8s.io"));
    assert_eq!(crd.spec.names.short_names, Some(vec!["awsc".to_owned()]));
    assert_eq!(crd.spec.names.categories, Some(vec!["cluster-api".to_owned()]));
}

#[test]
fn the_default_load_balancer_is_classic_and_internet_facing() {
    let silent = spec("{}").effective_control_plane_load_balancer();
    assert_eq!(silent.load_balancer_type, LoadBalancerType::Classic);
    assert_eq!(silent.scheme, LoadBalancerScheme::InternetFacing);
    let given = spec("{controlPlaneLoadBalancer: {loadBalancerType: nlb}}").effective_control_plane_load_balancer();
    assert_eq!(given.load_balancer_type, LoadBalancerType::Nlb);
}
