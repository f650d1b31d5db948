//! Tests of the effect of each field of an AWSCluster's spec. `api/tests/data/effects.tsv` names these tests field by
//! field.

use std::collections::BTreeMap;

use capa_api::conditions::ConditionType;
use capa_api::unsupported;
use capa_cloud::targets::{Group, TargetKind};
use serde_json::{Value, json};

use super::{LOOKUP, NETWORK, Pass, Scene, aws_cluster};
use crate::testing::fields::{Row, assert_effect, laid_over, spec_with};

/// An endpoint, so that `Ready` does not report a missing one.
const ENDPOINT: &str = "controlPlaneEndpoint: {host: api.example.org, port: 6443}";

async fn pass(spec: &str) -> Pass {
    let scene = Scene::new();
    scene.aws.security_group("sg-0000000c", "vpc-00000001");
    let arn = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0123456789abcdef";
    scene.aws.load_balancer("api", 6443, arn);
    let classic = Group::Classic("classic".to_owned());
    scene.aws.group(&classic, TargetKind::Instance);
    scene.pass(&aws_cluster(spec)).await
}

/// The calls and the status of one pass over a new cluster with this spec.
async fn observed(spec: &str) -> Value {
    let pass = pass(spec).await;
    let conditions = pass.status().conditions.iter().map(|condition| {
        let is = format!("{}/{}", condition.status, condition.reason);
        let shown = json!({"is": is, "message": condition.message});
        (condition.type_.clone(), shown)
    });
    json!({
        "calls": pass.calls,
        "conditions": conditions.collect::<serde_json::Map<_, _>>(),
        "status": pass.status(),
    })
}

async fn assert_effects(rows: &[Row]) {
    let without = observed(NETWORK).await;
    for row in rows {
        assert_effect(row, &without, &observed(&spec_with(NETWORK, row)).await);
    }
}

#[tokio::test]
async fn the_mode_and_the_account_are_those_of_the_spec() {
    let missing = |identity: &str| {
        json!(format!(
            "{identity} does not exist: create it, or name another in identityRef"
        ))
    };
    assert_effects(&[
        (
            "unmanaged",
            "unmanaged: false, network: {vpc: {ipv6: {}}}",
            "/conditions/Ready/is",
            json!("False/NotManagedYet"),
        ),
        (
            "region",
            "region: us-east-1",
            "/status/network/region",
            json!("us-east-1"),
        ),
        (
            "identityRef.kind",
            "identityRef: {kind: AWSClusterStaticIdentity, name: default}",
            "/conditions/IdentityReady/message",
            missing("AWSClusterStaticIdentity/default"),
        ),
        (
            "identityRef.name",
            "identityRef: {kind: AWSClusterControllerIdentity, name: other}",
            "/conditions/IdentityReady/message",
            missing("AWSClusterControllerIdentity/other"),
        ),
        ("preflight.mode", "preflight: {mode: Disabled}", "/calls", json!([])),
    ])
    .await;
}

#[tokio::test]
async fn the_endpoint_needs_host_and_port() {
    assert_effects(&[
        (
            "controlPlaneEndpoint.host",
            "controlPlaneEndpoint: {host: api.example.org, port: 6443}",
            "/conditions/ControlPlaneEndpointReady/is",
            json!("True/Ready"),
        ),
        (
            "controlPlaneEndpoint.port",
            "controlPlaneEndpoint: {host: api.example.org, port: 6443}",
            "/status/controlPlaneEndpoint",
            json!({"host": "api.example.org", "port": 6443}),
        ),
    ])
    .await;
    for (half, says) in [
        (
            "{host: api.example.org}",
            "has the host api.example.org and no port: set port",
        ),
        (
            "{host: api.example.org, port: 0}",
            "has the host api.example.org and no port: set port",
        ),
        ("{port: 6443}", "has the port 6443 and no host: set host"),
    ] {
        let pass = pass(&format!("{NETWORK}, controlPlaneEndpoint: {half}")).await;
        let endpoint = ConditionType::ControlPlaneEndpointReady;
        assert_eq!(pass.condition(endpoint), "False/MissingField", "{half}");
        let message = format!("spec.controlPlaneEndpoint {says}");
        assert!(
            pass.message(endpoint).starts_with(&message),
            "{}",
            pass.message(endpoint)
        );
    }
}

#[tokio::test]
async fn the_published_network_is_the_one_that_the_spec_declares() {
    assert_effects(&[
        (
            "network.vpc.id",
            "network: {vpc: {id: vpc-00000002}}",
            "/conditions/NetworkReady/is",
            json!("False/NotFound"),
        ),
        (
            "network.subnets[].id",
            "network: {subnets: [{id: subnet-0000000b}]}",
            "/status/network/subnets/0/id",
            json!("subnet-0000000b"),
        ),
        (
            "network.subnets[].resourceID",
            "network: {subnets: [{id: private-b, resourceID: subnet-0000000b}]}",
            "/status/network/subnets/0/id",
            json!("subnet-0000000b"),
        ),
        (
            "network.subnets[].availabilityZone",
            "preflight: {mode: Disabled}, network: {subnets: [{id: subnet-0000000a, availabilityZone: eu-west-1c}]}",
            "/status/failureDomains/0/name",
            json!("eu-west-1c"),
        ),
        (
            "network.subnets[].isPublic",
            "network: {subnets: [{id: subnet-0000000a, isPublic: true}]}",
            "/status/network/subnets/0/public",
            json!(true),
        ),
        (
            "network.subnets[].isIpv6",
            "network: {subnets: [{id: subnet-0000000a, isIpv6: true}]}",
            "/status/network/subnets/0/ipv6",
            json!(true),
        ),
        (
            "network.subnets[].tags{}",
            "network: {subnets: [{id: subnet-0000000a, tags: {sigs.k8s.io/cluster-api-provider-aws/association: \
             secondary}}, \
             {id: subnet-0000000b}]}",
            "/status/network/subnets/0/id",
            json!("subnet-0000000b"),
        ),
        (
            "network.subnets[].zoneType",
            "network: {subnets: [{id: subnet-0000000a, zoneType: local-zone}]}",
            "/status/network/subnets/0/zoneType",
            json!("local-zone"),
        ),
        (
            "network.securityGroupOverrides{}",
            "network: {securityGroupOverrides: {node: sg-0000000c}}",
            "/status/network/securityGroups/all",
            json!(["sg-0000000c"]),
        ),
        (
            "additionalTags{}",
            "additionalTags: {team: a}",
            "/status/network/additionalTags/team",
            json!("a"),
        ),
        (
            "sshKeyName",
            "sshKeyName: operator",
            "/status/network/sshKeyName",
            json!("operator"),
        ),
        (
            "imageLookupFormat",
            "imageLookupFormat: 'acme-{{.BaseOS}}'",
            "/status/network/imageLookup/format",
            json!("acme-{{.BaseOS}}"),
        ),
        (
            "imageLookupOrg",
            "imageLookupOrg: '123456789012'",
            "/status/network/imageLookup/org",
            json!("123456789012"),
        ),
        (
            "imageLookupBaseOS",
            "imageLookupBaseOS: flatcar",
            "/status/network/imageLookup/baseOS",
            json!("flatcar"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_refused_tag_makes_ready_false_and_keeps_provisioned() {
    let scene = Scene::new();
    let reserved = format!("{NETWORK}, additionalTags: {{team: a, MachineName: mine}}");
    let fresh = scene.pass(&aws_cluster(&reserved)).await;
    let before = scene.pass(&aws_cluster(NETWORK)).await;
    assert_eq!(before.condition(ConditionType::Ready), "True/Ready");
    let edited = scene.edited(&before, &reserved).await;
    for pass in [&fresh, &edited] {
        assert!(pass.status().provisioned());
        assert_eq!(pass.zones(), ["eu-west-1a", "eu-west-1b"]);
        for condition in [ConditionType::NetworkReady, ConditionType::Ready] {
            assert_eq!(pass.condition(condition), "False/Conflict");
            let message = pass.message(condition);
            assert!(message.starts_with("spec.additionalTags: MachineName is"), "{message}");
        }
    }
    let mended = scene.edited(&edited, NETWORK).await;
    assert_eq!(mended.condition(ConditionType::NetworkReady), "True/Ready");
    assert_eq!(mended.condition(ConditionType::Ready), "True/Ready");
}

#[tokio::test]
async fn control_plane_targets_come_from_spec_or_load_balancer() {
    let arn = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0123456789abcdef";
    assert_effects(&[
        (
            "controlPlaneTargets[].targetGroupARN",
            "controlPlaneTargets: [{targetGroupARN: 'arn:a'}]",
            "/status/network/controlPlaneTargets/0/targetGroupARN",
            json!("arn:a"),
        ),
        (
            "controlPlaneTargets[].port",
            "controlPlaneTargets: [{targetGroupARN: 'arn:a', port: 443}]",
            "/status/network/controlPlaneTargets/0/port",
            json!(443),
        ),
        (
            "controlPlaneTargets[].loadBalancerName",
            "controlPlaneTargets: [{loadBalancerName: api}]",
            "/status/network/controlPlaneTargets/0/targetGroupARN",
            json!(arn),
        ),
        (
            "controlPlaneTargets[].classicLoadBalancerName",
            "controlPlaneTargets: [{classicLoadBalancerName: api}]",
            "/status/network/controlPlaneTargets/0/classicLoadBalancerName",
            json!("api"),
        ),
        (
            "controlPlaneLoadBalancer.name",
            "controlPlaneLoadBalancer: {name: classic}",
            "/status/network/controlPlaneTargets/0/classicLoadBalancerName",
            json!("classic"),
        ),
        (
            "controlPlaneLoadBalancer.loadBalancerType",
            "controlPlaneLoadBalancer: {name: api, loadBalancerType: nlb}",
            "/status/network/controlPlaneTargets/0/targetGroupARN",
            json!(arn),
        ),
        (
            "secondaryControlPlaneLoadBalancer.name",
            "controlPlaneLoadBalancer: {name: classic}, \
             secondaryControlPlaneLoadBalancer: {name: api, loadBalancerType: nlb, scheme: internal}",
            "/status/network/controlPlaneTargets/1/targetGroupARN",
            json!(arn),
        ),
        (
            "secondaryControlPlaneLoadBalancer.loadBalancerType",
            "secondaryControlPlaneLoadBalancer: {name: api, loadBalancerType: nlb, scheme: internal}",
            "/status/network/controlPlaneTargets/0/targetGroupARN",
            json!(arn),
        ),
    ])
    .await;
}

#[tokio::test]
async fn the_bucket_of_the_spec_is_published_for_machines() {
    assert_effects(&[
        (
            "s3Bucket.name",
            "s3Bucket: {name: bootstrap}",
            "/status/network/bootstrapStorage/s3/bucket",
            json!("bootstrap"),
        ),
        (
            "s3Bucket.presignedURLDuration",
            "s3Bucket: {name: bootstrap, presignedURLDuration: 30m}",
            "/status/network/bootstrapStorage/s3/presignedURLDuration",
            json!("30m"),
        ),
        (
            "s3Bucket.bestEffortDeleteObjects",
            "s3Bucket: {name: bootstrap, bestEffortDeleteObjects: true}",
            "/status/network/bootstrapStorage/s3/bestEffortDeleteObjects",
            json!(true),
        ),
    ])
    .await;
}

#[tokio::test]
async fn managed_mode_fields_are_named_and_ignored_when_unmanaged() {
    let rules = "[{description: d, protocol: tcp, fromPort: 1, toPort: 1, cidrBlocks: [10.0.0.0/8]}]";
    let vpc = |field: &str| format!("network: {{vpc: {{id: vpc-00000001, {field}}}}}");
    let subnet =
        |field: &str| format!("network: {{subnets: [{{id: subnet-0000000a, {field}}}, {{id: subnet-0000000b}}]}}");
    let set = BTreeMap::from([
        ("partition", "partition: aws-cn".to_owned()),
        (
            "controlPlaneLoadBalancer.scheme",
            "controlPlaneLoadBalancer: {loadBalancerType: nlb, scheme: internal}".to_owned(),
        ),
        (
            "controlPlaneLoadBalancer.crossZoneLoadBalancing",
            "controlPlaneLoadBalancer: {loadBalancerType: nlb, crossZoneLoadBalancing: true}".to_owned(),
        ),
        (
            "controlPlaneLoadBalancer.subnets",
            "controlPlaneLoadBalancer: {loadBalancerType: nlb, subnets: [subnet-0000000a]}".to_owned(),
        ),
        (
            "controlPlaneLoadBalancer.healthCheckProtocol",
            "controlPlaneLoadBalancer: {loadBalancerType: nlb, healthCheckProtocol: HTTPS}".to_owned(),
        ),
        (
            "controlPlaneLoadBalancer.healthCheck",
            "controlPlaneLoadBalancer: {loadBalancerType: nlb, healthCheck: {intervalSeconds: 10}}".to_owned(),
        ),
        (
            "controlPlaneLoadBalancer.additionalSecurityGroups",
            "controlPlaneLoadBalancer: {loadBalancerType: nlb, additionalSecurityGroups: [sg-0000000a]}".to_owned(),
        ),
        (
            "controlPlaneLoadBalancer.additionalListeners",
            "controlPlaneLoadBalancer: {loadBalancerType: nlb, additionalListeners: [{port: 8132}]}".to_owned(),
        ),
        (
            "controlPlaneLoadBalancer.ingressRules",
            "controlPlaneLoadBalancer: {loadBalancerType: nlb, ingressRules: [{description: d, protocol: tcp, \
             fromPort: 1, toPort: 1, cidrBlocks: [10.0.0.0/8]}]}"
                .to_owned(),
        ),
        (
            "controlPlaneLoadBalancer.disableHostsRewrite",
            "controlPlaneLoadBalancer: {loadBalancerType: nlb, disableHostsRewrite: true}".to_owned(),
        ),
        (
            "controlPlaneLoadBalancer.preserveClientIP",
            "controlPlaneLoadBalancer: {loadBalancerType: nlb, preserveClientIP: true}".to_owned(),
        ),
        (
            "controlPlaneLoadBalancer.targetGroupIPType",
            "controlPlaneLoadBalancer: {loadBalancerType: nlb, targetGroupIPType: ipv6}".to_owned(),
        ),
        (
            "controlPlaneLoadBalancer.dnsResolutionCheck",
            "controlPlaneLoadBalancer: {loadBalancerType: nlb, dnsResolutionCheck: None}".to_owned(),
        ),
        ("bastion", "bastion: {enabled: true}".to_owned()),
        (
            "s3Bucket.controlPlaneIAMInstanceProfile",
            "s3Bucket: {name: boot, controlPlaneIAMInstanceProfile: control-plane}".to_owned(),
        ),
        (
            "s3Bucket.nodesIAMInstanceProfiles",
            "s3Bucket: {name: boot, nodesIAMInstanceProfiles: [nodes]}".to_owned(),
        ),
        (
            "s3Bucket.additionalIAMRoles",
            "s3Bucket: {name: boot, additionalIAMRoles: [{name: reader, prefix: node-config}]}".to_owned(),
        ),
        ("network.cni", "network: {cni: {cniIngressRules: []}}".to_owned()),
        (
            "network.additionalControlPlaneIngressRules",
            format!("network: {{additionalControlPlaneIngressRules: {rules}}}"),
        ),
        (
            "network.additionalNodeIngressRules",
            format!("network: {{additionalNodeIngressRules: {rules}}}"),
        ),
        (
            "network.nodePortIngressRuleCidrBlocks",
            "network: {nodePortIngressRuleCidrBlocks: [10.0.0.0/8]}".to_owned(),
        ),
        ("network.subnets[].cidrBlock", subnet("cidrBlock: 10.9.0.0/24")),
        (
            "network.subnets[].ipv6CidrBlock",
            subnet("ipv6CidrBlock: 2001:db8:1234:1a00::/64"),
        ),
        ("network.subnets[].natGatewayId", subnet("natGatewayId: nat-00000001")),
        ("network.subnets[].parentZoneName", subnet("parentZoneName: eu-west-1b")),
        ("network.subnets[].routeTableId", subnet("routeTableId: rtb-00000001")),
        (
            "network.vpc.availabilityZoneSelection",
            vpc("availabilityZoneSelection: Random"),
        ),
        (
            "network.vpc.availabilityZoneUsageLimit",
            vpc("availabilityZoneUsageLimit: 1"),
        ),
        ("network.vpc.carrierGatewayId", vpc("carrierGatewayId: cagw-00000001")),
        ("network.vpc.cidrBlock", vpc("cidrBlock: 10.9.0.0/16")),
        (
            "network.vpc.elasticIpPool",
            vpc("elasticIpPool: {publicIpv4Pool: amazon}"),
        ),
        (
            "network.vpc.emptyRoutesDefaultVPCSecurityGroup",
            vpc("emptyRoutesDefaultVPCSecurityGroup: true"),
        ),
        ("network.vpc.internetGatewayId", vpc("internetGatewayId: igw-00000001")),
        ("network.vpc.ipamPool", vpc("ipamPool: {id: ipam-pool-1}")),
        ("network.vpc.ipv6", vpc("ipv6: {}")),
        (
            "network.vpc.privateDnsHostnameTypeOnLaunch",
            vpc("privateDnsHostnameTypeOnLaunch: ip-name"),
        ),
        (
            "network.vpc.secondaryCidrBlocks",
            vpc("secondaryCidrBlocks: [{ipv4CidrBlock: 100.64.0.0/16}]"),
        ),
        ("network.vpc.subnetSchema", vpc("subnetSchema: PreferPublic")),
        ("network.vpc.tags", vpc("tags: {team: a}")),
    ])
    .into_iter()
    .flat_map(|(field, set)| {
        let of_secondary = set.replace("controlPlaneLoadBalancer", "secondaryControlPlaneLoadBalancer");
        let secondary = (
            format!("secondary{}{}", "C", field.strip_prefix('c').unwrap_or_default()),
            of_secondary,
        );
        let has_secondary = field.starts_with("controlPlaneLoadBalancer");
        std::iter::once((field.to_owned(), set)).chain(has_secondary.then_some(secondary))
    })
    .collect::<BTreeMap<String, String>>();
    assert_eq!(set.keys().map(String::as_str).collect::<Vec<_>>(), sorted());
    let whole = format!("{NETWORK}, {ENDPOINT}, s3Bucket: {{name: boot}}");
    let without = pass(&whole).await;
    assert_eq!(without.message(ConditionType::Ready), "");
    for (field, set) in set {
        let with = pass(&laid_over(&whole, &set)).await;
        assert_eq!(with.condition(ConditionType::Ready), "True/Ready", "{set}");
        let message = with.message(ConditionType::Ready);
        let names = message.strip_prefix("of managed clusters only, ignored here: ");
        assert!(names.is_some_and(|names| names.starts_with(&field)), "{set}: {message}");
        assert_eq!(with.status().network, without.status().network, "{set}");
        assert_eq!(with.calls, LOOKUP, "{set}");
        let offered_later = "unmanaged: false, network: {vpc: {ipv6: {}}}";
        let managed = pass(&laid_over(&laid_over(NETWORK, &set), offered_later)).await;
        assert_eq!(managed.condition(ConditionType::Ready), "False/NotManagedYet", "{set}");
        assert_eq!(managed.calls, [""; 0], "{set}");
    }
}

#[tokio::test]
async fn security_groups_of_non_machine_roles_are_named_and_ignored() {
    let whole = format!("{NETWORK}, {ENDPOINT}");
    let without = pass(&whole).await;
    for role in ["apiserver-lb", "bastion", "node-eks-additional"] {
        let set = format!("network: {{securityGroupOverrides: {{{role}: sg-0000000c}}}}");
        let with = pass(&laid_over(&whole, &set)).await;
        assert_eq!(with.condition(ConditionType::NetworkReady), "True/Ready", "{role}");
        assert_eq!(with.condition(ConditionType::Ready), "True/Ready", "{role}");
        assert_eq!(
            with.message(ConditionType::Ready),
            format!("of managed clusters only, ignored here: network.securityGroupOverrides.{role}")
        );
        assert_eq!(with.status().network, without.status().network, "{role}");
    }
    let both = "bastion: {enabled: true}, network: {securityGroupOverrides: {bastion: sg-0000000c, lb: ''}}";
    let both = pass(&laid_over(&whole, both)).await;
    assert_eq!(
        both.message(ConditionType::Ready),
        "of managed clusters only, ignored here: bastion, network.securityGroupOverrides.bastion"
    );
}

/// The sorted paths of the fields without effect.
fn sorted() -> Vec<&'static str> {
    let mut paths: Vec<&str> = unsupported::fields().iter().map(|field| field.path).collect();
    paths.sort_unstable();
    paths
}
