//! Tests of the effect of each field of an AWSCluster's spec.

use std::collections::BTreeMap;

use capa_api::conditions::ConditionType;
use capa_api::unsupported;
use capa_cloud::elb::TargetType;
use capa_cloud::targets::Group;
use serde_json::{Value, json};

use super::{LOOKUP, NETWORK, Pass, Scene, aws_cluster};
use crate::testing::fields::{assert_effect, effects, laid_over, spec_with};

/// An endpoint, so that `Ready` does not report a missing one.
const ENDPOINT: &str = "controlPlaneEndpoint: {host: api.example.org, port: 6443}";

async fn pass(spec: &str) -> Pass {
    let scene = Scene::new();
    scene.aws.security_group("sg-0000000c", "vpc-00000001");
    let arn = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0123456789abcdef";
    scene.aws.load_balancer("api", 6443, arn);
    let classic = Group::Classic("classic".to_owned());
    scene.aws.group(&classic, TargetType::Instance);
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

#[tokio::test]
async fn each_field_has_its_effect() {
    let without = observed(NETWORK).await;
    for row in effects("AWSCluster") {
        assert_effect(&row, &without, &observed(&spec_with(NETWORK, &row)).await);
    }
}

#[tokio::test]
async fn the_endpoint_needs_host_and_port() {
    for (half, says) in [
        ("{host: api.example.org}", "has the host api.example.org and no port: set port"),
        ("{host: api.example.org, port: 0}", "has the host api.example.org and no port: set port"),
        ("{port: 6443}", "has the port 6443 and no host: set host"),
    ] {
        let pass = pass(&format!("{NETWORK}, controlPlaneEndpoint: {half}")).await;
        let endpoint = ConditionType::ControlPlaneEndpointReady;
        assert_eq!(pass.condition(endpoint), "False/MissingField", "{half}");
        let message = format!("spec.controlPlaneEndpoint {says}");
        assert!(pass.message(endpoint).starts_with(&message), "{}", pass.message(endpoint));
    }
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
        ("s3Bucket.nodesIAMInstanceProfiles", "s3Bucket: {name: boot, nodesIAMInstanceProfiles: [nodes]}".to_owned()),
        (
            "s3Bucket.additionalIAMRoles",
            "s3Bucket: {name: boot, additionalIAMRoles: [{name: reader, prefix: node-config}]}".to_owned(),
        ),
        ("network.cni", "network: {cni: {cniIngressRules: []}}".to_owned()),
        (
            "network.additionalControlPlaneIngressRules",
            format!("network: {{additionalControlPlaneIngressRules: {rules}}}"),
        ),
        ("network.additionalNodeIngressRules", format!("network: {{additionalNodeIngressRules: {rules}}}")),
        ("network.nodePortIngressRuleCidrBlocks", "network: {nodePortIngressRuleCidrBlocks: [10.0.0.0/8]}".to_owned()),
        ("network.subnets[].cidrBlock", subnet("cidrBlock: 10.9.0.0/24")),
        ("network.subnets[].ipv6CidrBlock", subnet("ipv6CidrBlock: 2001:db8:1234:1a00::/64")),
        ("network.subnets[].natGatewayId", subnet("natGatewayId: nat-00000001")),
        ("network.subnets[].parentZoneName", subnet("parentZoneName: eu-west-1b")),
        ("network.subnets[].routeTableId", subnet("routeTableId: rtb-00000001")),
        ("network.vpc.availabilityZoneSelection", vpc("availabilityZoneSelection: Random")),
        ("network.vpc.availabilityZoneUsageLimit", vpc("availabilityZoneUsageLimit: 1")),
        ("network.vpc.carrierGatewayId", vpc("carrierGatewayId: cagw-00000001")),
        ("network.vpc.cidrBlock", vpc("cidrBlock: 10.9.0.0/16")),
        ("network.vpc.elasticIpPool", vpc("elasticIpPool: {publicIpv4Pool: amazon}")),
        ("network.vpc.emptyRoutesDefaultVPCSecurityGroup", vpc("emptyRoutesDefaultVPCSecurityGroup: true")),
        ("network.vpc.internetGatewayId", vpc("internetGatewayId: igw-00000001")),
        ("network.vpc.ipamPool", vpc("ipamPool: {id: ipam-pool-1}")),
        ("network.vpc.ipv6", vpc("ipv6: {}")),
        ("network.vpc.privateDnsHostnameTypeOnLaunch", vpc("privateDnsHostnameTypeOnLaunch: ip-name")),
        ("network.vpc.secondaryCidrBlocks", vpc("secondaryCidrBlocks: [{ipv4CidrBlock: 100.64.0.0/16}]")),
        ("network.vpc.subnetSchema", vpc("subnetSchema: PreferPublic")),
        ("network.vpc.tags", vpc("tags: {team: a}")),
    ])
    .into_iter()
    .flat_map(|(field, set)| {
        let of_secondary = set.replace("controlPlaneLoadBalancer", "secondaryControlPlaneLoadBalancer");
        let secondary = (format!("secondary{}{}", "C", field.strip_prefix('c').unwrap_or_default()), of_secondary);
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
