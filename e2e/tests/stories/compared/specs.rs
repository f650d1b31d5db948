//! The specs that both providers get.

use capa_e2e::user::Network;
use serde_json::{Value, json};

use crate::stories::scenario::{OURS, REGION};

/// The public IPv4 pool of the user in each account.
pub(super) const POOL: &str = "ipv4pool-ec2-0123456789abcdef0";

/// The cluster of each spec.
pub(super) const CLUSTER: &str = "dev";

/// The AWSClusters, by what is special about each. CAPA leaves its tags, so that none has the network of another one of
/// the user.
pub(super) fn aws_clusters(networks: [&Network; 2]) -> Vec<(&'static str, String)> {
    let mut specs = of_own_networks();
    specs.extend(in_networks_of_the_user(networks));
    specs.into_iter().map(|(what, spec)| (what, aws_cluster(spec))).collect()
}

fn of_own_networks() -> Vec<(&'static str, Value)> {
    let nlb = |mut fields: Value| {
        fields["loadBalancerType"] = json!("nlb");
        fields
    };
    let subnet = |id: &str, zone: &str, cidr_block: &str, is_public: bool| {
        let zone = format!("{REGION}{zone}");
        json!({"id": id, "availabilityZone": zone, "cidrBlock": cidr_block, "isPublic": is_public})
    };
    let rule = |port: u16, sources: &str, source: &str| {
        json!({
            "description": "of the spec", "protocol": "tcp", "fromPort": port, "toPort": port, sources: [source],
        })
    };
    vec![
        ("the default", json!({})),
        ("network load balancer", json!({"controlPlaneLoadBalancer": nlb(json!({}))})),
        (
            "internal network load balancer",
            json!({"controlPlaneLoadBalancer": nlb(json!({"scheme": "internal", "crossZoneLoadBalancing": true}))}),
        ),
        ("internal classic load balancer", json!({"controlPlaneLoadBalancer": {"scheme": "internal"}})),
        (
            "one zone, the default security group emptied",
            json!({"network": {"vpc": {"availabilityZoneUsageLimit": 1, "emptyRoutesDefaultVPCSecurityGroup": true}}}),
        ),
        (
            "subnets of the spec",
            json!({"network": {
                "vpc": {"cidrBlock": "10.8.0.0/16"},
                "subnets": [
                    subnet("front", "a", "10.8.0.0/24", true),
                    subnet("front-b", "b", "10.8.1.0/24", true),
                    subnet("back", "a", "10.8.16.0/20", false),
                    subnet("back-b", "b", "10.8.32.0/20", false),
                ],
            }}),
        ),
        (
            "additional rules and listeners",
            json!({
                "controlPlaneLoadBalancer": nlb(json!({
                    "name": "api",
                    "additionalListeners": [{"port": 9345, "protocol": "TCP"}],
                    "ingressRules": [rule(6443, "cidrBlocks", "192.0.2.0/24")],
                })),
                "network": {
                    "additionalControlPlaneIngressRules": [rule(9345, "sourceSecurityGroupRoles", "node")],
                    "additionalNodeIngressRules": [rule(9100, "cidrBlocks", "10.0.0.0/16")],
                    "nodePortIngressRuleCidrBlocks": ["198.51.100.0/24"],
                },
            }),
        ),
        ("client addresses kept", json!({"controlPlaneLoadBalancer": nlb(json!({"preserveClientIP": true}))})),
        (
            "secondary load balancer",
            json!({
                "controlPlaneLoadBalancer": nlb(json!({})),
                "secondaryControlPlaneLoadBalancer": nlb(json!({"name": "inside", "scheme": "internal"})),
            }),
        ),
        (
            "addresses of a pool",
            json!({
                "controlPlaneLoadBalancer": nlb(json!({})),
                "network": {"vpc": {"elasticIpPool": {"publicIpv4Pool": POOL, "publicIpv4PoolFallbackOrder": "none"}}},
            }),
        ),
        (
            "no load balancer",
            json!({
                "controlPlaneLoadBalancer": {"loadBalancerType": "disabled"},
                "controlPlaneEndpoint": {"host": "api.example.org", "port": 6443},
            }),
        ),
        (
            "rules of a pod network",
            json!({"network": {"cni": {"cniIngressRules": [
                {"description": "VXLAN", "protocol": "udp", "fromPort": 4789, "toPort": 4789},
                {"description": "probes", "protocol": "tcp", "fromPort": 4240, "toPort": 4240},
            ]}}}),
        ),
        (
            "tags and health checks",
            json!({
                "additionalTags": {"team": "platform"},
                "controlPlaneLoadBalancer": nlb(json!({
                    "healthCheckProtocol": "HTTPS", "healthCheck": {"thresholdCount": 3},
                })),
            }),
        ),
    ]
}

fn in_networks_of_the_user([first, second]: [&Network; 2]) -> Vec<(&'static str, Value)> {
    let brought = |network: &Network| {
        let ids = [network.public_subnet_ids(), network.private_subnet_ids()].concat();
        let subnets: Vec<Value> = ids.into_iter().map(|id| json!({"id": id})).collect();
        json!({"vpc": {"id": network.vpc_id}, "subnets": subnets})
    };
    let mut with_groups = brought(second);
    with_groups["securityGroupOverrides"] = json!({
        "node": second.node_security_group_id,
        "controlplane": second.control_plane_security_group_id,
    });
    vec![
        ("a VPC of the user", json!({"network": brought(first)})),
        ("a VPC and groups of the user", json!({"network": with_groups})),
    ]
}

/// An AWSCluster with this spec. The names of load balancers do not resolve where the tests run.
fn aws_cluster(mut spec: Value) -> String {
    spec["region"] = json!(REGION);
    spec["controlPlaneLoadBalancer"]["dnsResolutionCheck"] = json!("None");
    if let Some(secondary) = spec.get_mut("secondaryControlPlaneLoadBalancer") {
        secondary["dnsResolutionCheck"] = json!("None");
    }
    json!({"apiVersion": OURS, "kind": "AWSCluster", "metadata": {"name": CLUSTER}, "spec": spec}).to_string()
}
