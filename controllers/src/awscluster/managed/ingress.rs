//! The rules for incoming traffic that the security groups of a managed cluster have: the same as CAPA's for the same spec.
//! Pure.

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::load_balancer::{LoadBalancerScheme, LoadBalancerSpec, LoadBalancerType};
use capa_api::cluster::network::NetworkSpec;
use capa_api::cluster::security_group::{IngressProtocol, IngressRule, SecurityGroupRole};
use capa_cloud::ec2::security_group::Traffic;
use ipnet::IpNet;

/// The description of the rules that let network load balancers reach the control plane. In the group `lb`, which the
/// cluster's cloud controller uses too, the provider removes no other rules.
pub(super) const LOAD_BALANCER_TRAFFIC: &str = "Allow NLB traffic to the control plane instances.";
const API: &str = "Kubernetes API";
const ANY: &str = "0.0.0.0/0";

/// A rule that a security group is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedRule {
    pub(crate) traffic: Traffic,
    pub(crate) from: Origin,
    pub(crate) description: String,
}

/// Where traffic comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A range, IPv4 or IPv6.
    Range(IpNet),
    /// All ranges of the VPC.
    Vpc,
    /// The addresses of the NAT gateways.
    NatGateways,
    /// The cluster's security group of a role.
    Role(SecurityGroupRole),
    /// A security group of somebody else.
    Group(String),
}

/// The rules of the group of a role, and what is wrong with the spec. `port` is that of the API server.
pub(super) fn rules(spec: &AWSClusterSpec, role: SecurityGroupRole, port: i64) -> (Vec<WantedRule>, Vec<String>) {
    let mut rules = Rules::default();
    let network = spec.network.clone().unwrap_or_default();
    match role {
        SecurityGroupRole::ControlPlane => control_plane(&network, port, &mut rules),
        SecurityGroupRole::Node => node(&network, &mut rules),
        SecurityGroupRole::ApiserverLb => api_load_balancer(spec, port, &mut rules),
        SecurityGroupRole::Lb => load_balancer_traffic(spec, port, &mut rules),
        SecurityGroupRole::Bastion | SecurityGroupRole::NodeEksAdditional => {}
    }
    (rules.rules, rules.problems)
}

/// The rules of one group so far.
#[derive(Default)]
struct Rules {
    rules: Vec<WantedRule>,
    problems: Vec<String>,
}

impl Rules {
    /// Adds a rule, unless there is one for the same traffic from the same source: AWS has it once.
    fn add(&mut self, description: &str, traffic: &Traffic, from: Origin) {
        let mut rules = self.rules.iter();
        if !rules.any(|rule| rule.traffic == *traffic && rule.from == from) {
            self.rules.push(WantedRule {
                traffic: traffic.clone(),
                from,
                description: description.to_owned(),
            });
        }
    }

    fn add_range(&mut self, path: &str, description: &str, traffic: &Traffic, text: &str) {
        match text.parse::<IpNet>() {
            // AWS shows a range by its first address.
            Ok(range) => self.add(description, traffic, Origin::Range(range.trunc())),
            Err(_) => self
                .problems
                .push(format!("{path}: {text:?} is no range, such as 10.0.0.0/16")),
        }
    }

    /// Adds the rules of the spec at this path. One without a source admits the control plane.
    fn add_all(&mut self, path: &str, rules: &[IngressRule]) {
        for rule in rules {
            let traffic = Traffic::new(protocol(rule.protocol), rule.from_port, rule.to_port);
            let before = self.rules.len() + self.problems.len();
            for range in rule.cidr_blocks.iter().chain(&rule.ipv6_cidr_blocks) {
                self.add_range(path, &rule.description, &traffic, range);
            }
            for id in &rule.source_security_group_ids {
                self.add(&rule.description, &traffic, Origin::Group(id.clone()));
            }
            for role in &rule.source_security_group_roles {
                if matches!(role, SecurityGroupRole::Bastion | SecurityGroupRole::NodeEksAdditional) {
                    let role = role.as_str();
                    self.problems
                        .push(format!("{path}: the cluster has no security group of the role {role}"));
                } else {
                    self.add(&rule.description, &traffic, Origin::Role(*role));
                }
            }
            if rule.nat_gateways_ips_source {
                self.add(&rule.description, &traffic, Origin::NatGateways);
            }
            let has_source = !rule.cidr_blocks.is_empty()
                || !rule.ipv6_cidr_blocks.is_empty()
                || !rule.source_security_group_ids.is_empty()
                || !rule.source_security_group_roles.is_empty()
                || rule.nat_gateways_ips_source;
            if !has_source && before == self.rules.len() + self.problems.len() {
                self.add(
                    &rule.description,
                    &traffic,
                    Origin::Role(SecurityGroupRole::ControlPlane),
                );
            }
        }
    }

    /// The traffic of the pod network, between all nodes.
    fn add_pod_network(&mut self, network: &NetworkSpec) {
        for rule in network.effective_cni_ingress_rules() {
            let traffic = Traffic::new(&rule.protocol, rule.from_port, rule.to_port);
            for role in [SecurityGroupRole::ControlPlane, SecurityGroupRole::Node] {
                self.add(&rule.description, &traffic, Origin::Role(role));
            }
        }
    }
}

fn tcp(port: i64) -> Traffic {
    Traffic::new("tcp", port, port)
}

fn protocol(protocol: IngressProtocol) -> &'static str {
    match protocol {
        IngressProtocol::All => "-1",
        IngressProtocol::IpInIp => "4",
        IngressProtocol::Tcp => "tcp",
        IngressProtocol::Udp => "udp",
        IngressProtocol::Icmp => "icmp",
        IngressProtocol::Icmpv6 => "58",
        IngressProtocol::Esp => "50",
    }
}

fn control_plane(network: &NetworkSpec, port: i64, rules: &mut Rules) {
    use SecurityGroupRole::{ApiserverLb, ControlPlane, Node};
    rules.add_pod_network(network);
    for role in [ApiserverLb, ControlPlane, Node] {
        rules.add(API, &tcp(port), Origin::Role(role));
    }
    rules.add("etcd", &tcp(2379), Origin::Role(ControlPlane));
    rules.add("etcd peer", &tcp(2380), Origin::Role(ControlPlane));
    rules.add_all(
        "network.additionalControlPlaneIngressRules",
        &network.additional_control_plane_ingress_rules,
    );
}

fn node(network: &NetworkSpec, rules: &mut Rules) {
    rules.add_pod_network(network);
    let node_ports = Traffic::new("tcp", 30_000, 32_767);
    for range in network.effective_node_port_cidr_blocks() {
        let path = "network.nodePortIngressRuleCidrBlocks";
        rules.add_range(path, "Node Port Services", &node_ports, range);
    }
    for role in [SecurityGroupRole::ControlPlane, SecurityGroupRole::Node] {
        rules.add("Kubelet API", &tcp(10_250), Origin::Role(role));
    }
    rules.add_all(
        "network.additionalNodeIngressRules",
        &network.additional_node_ingress_rules,
    );
}

/// The load balancers of the API server, each with its path in the spec.
fn balancers(spec: &AWSClusterSpec) -> Vec<(&'static str, LoadBalancerSpec)> {
    let first = spec.effective_control_plane_load_balancer();
    let second = spec.secondary_control_plane_load_balancer.clone();
    let second = second.map(|balancer| ("secondaryControlPlaneLoadBalancer", balancer));
    let all = [("controlPlaneLoadBalancer", first)].into_iter().chain(second);
    all.filter(|(_, balancer)| balancer.load_balancer_type != LoadBalancerType::Disabled)
        .collect()
}

/// Nodes reach an internal load balancer from the VPC, and an internet-facing one by the NAT gateways. Others reach either
/// of them as the spec says, or else from anywhere.
fn api_load_balancer(spec: &AWSClusterSpec, port: i64, rules: &mut Rules) {
    let balancers = balancers(spec);
    for (_, balancer) in &balancers {
        let from = match balancer.scheme {
            LoadBalancerScheme::Internal => Origin::Vpc,
            LoadBalancerScheme::InternetFacing => Origin::NatGateways,
        };
        rules.add(API, &tcp(port), from);
    }
    for (name, balancer) in &balancers {
        rules.add_all(&format!("{name}.ingressRules"), &balancer.ingress_rules);
    }
    let has_rules = balancers.iter().any(|(_, balancer)| !balancer.ingress_rules.is_empty());
    if !balancers.is_empty() && !has_rules {
        rules.add_range("", API, &tcp(port), ANY);
    }
}

/// What network load balancers send to the control plane: with their own addresses, or with those of the clients.
fn load_balancer_traffic(spec: &AWSClusterSpec, port: i64, rules: &mut Rules) {
    for (_, balancer) in balancers(spec) {
        if balancer.load_balancer_type != LoadBalancerType::Nlb {
            continue;
        }
        let additional = balancer.additional_listeners.iter().map(|listener| listener.port);
        for port in std::iter::once(port).chain(additional) {
            if balancer.preserve_client_ip {
                rules.add_range("", LOAD_BALANCER_TRAFFIC, &tcp(port), ANY);
            } else {
                rules.add(LOAD_BALANCER_TRAFFIC, &tcp(port), Origin::Vpc);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    /// The rules of a role in text.
    fn shown(spec: &str, role: SecurityGroupRole) -> Vec<String> {
        let (rules, problems) = rules(&read(&format!("{{region: eu-west-1, {spec}}}")), role, 6443);
        assert_eq!(problems, [""; 0]);
        let text = |rule: &WantedRule| {
            let ports = match rule.traffic.ports {
                Some((first, last)) if first == last => format!(" {first}"),
                Some((first, last)) => format!(" {first}-{last}"),
                None => String::new(),
            };
            let from = match &rule.from {
                Origin::Range(range) => range.to_string(),
                Origin::Role(role) => role.as_str().to_owned(),
                Origin::Group(id) => id.clone(),
                other => format!("{other:?}"),
            };
            format!("{}{ports} from {from}: {}", rule.traffic.protocol, rule.description)
        };
        rules.iter().map(text).collect()
    }

    #[test]
    fn the_default_rules_are_those_of_capa() {
        use SecurityGroupRole::{ApiserverLb, ControlPlane, Lb, Node};
        let pods = [
            "tcp 179 from controlplane: bgp (calico)",
            "tcp 179 from node: bgp (calico)",
            "4 from controlplane: IP-in-IP (calico)",
            "4 from node: IP-in-IP (calico)",
        ];
        let control_plane = [
            "tcp 6443 from apiserver-lb: Kubernetes API",
            "tcp 6443 from controlplane: Kubernetes API",
            "tcp 6443 from node: Kubernetes API",
            "tcp 2379 from controlplane: etcd",
            "tcp 2380 from controlplane: etcd peer",
        ];
        assert_eq!(shown("", ControlPlane), [&pods[..], &control_plane].concat());
        let node = [
            "tcp 30000-32767 from 0.0.0.0/0: Node Port Services",
            "tcp 10250 from controlplane: Kubelet API",
            "tcp 10250 from node: Kubelet API",
        ];
        assert_eq!(shown("", Node), [&pods[..], &node].concat());
        let balancer = [
            "tcp 6443 from NatGateways: Kubernetes API",
            "tcp 6443 from 0.0.0.0/0: Kubernetes API",
        ];
        assert_eq!(shown("", ApiserverLb), balancer);
        assert_eq!(shown("", Lb), [""; 0]);
    }

    #[test]
    fn rules_of_load_balancers_follow_the_scheme_of_each() {
        use SecurityGroupRole::{ApiserverLb, Lb};
        let internal = "controlPlaneLoadBalancer: {scheme: internal, loadBalancerType: nlb}";
        let both = format!(
            "{internal}, secondaryControlPlaneLoadBalancer: {{scheme: internet-facing, loadBalancerType: nlb, name: x, \
             preserveClientIP: true, additionalListeners: [{{port: 9345}}]}}"
        );
        let any = "tcp 6443 from 0.0.0.0/0: Kubernetes API";
        assert_eq!(shown(internal, ApiserverLb), ["tcp 6443 from Vpc: Kubernetes API", any]);
        let nat = "tcp 6443 from NatGateways: Kubernetes API";
        assert_eq!(
            shown(&both, ApiserverLb),
            ["tcp 6443 from Vpc: Kubernetes API", nat, any]
        );
        let described = |rule: &str| format!("{rule}: {LOAD_BALANCER_TRAFFIC}");
        let traffic = [
            "tcp 6443 from Vpc",
            "tcp 6443 from 0.0.0.0/0",
            "tcp 9345 from 0.0.0.0/0",
        ]
        .map(described);
        assert_eq!(shown(&both, Lb), traffic);
        let disabled = "controlPlaneLoadBalancer: {loadBalancerType: disabled}";
        assert_eq!(shown(disabled, ApiserverLb), [""; 0]);
    }

    /// The fields of a rule with the values that a test changes.
    const RULE: [(&str, &str); 5] = [
        ("description", "description: d"),
        ("protocol", "protocol: tcp"),
        ("fromPort", "fromPort: 1"),
        ("toPort", "toPort: 2"),
        ("cidrBlocks", "cidrBlocks: [10.0.0.0/8]"),
    ];

    /// [`RULE`] with this field in place of its own, or beside the others.
    fn rule_with(field: &str) -> String {
        let name = field.split(':').next().unwrap_or_default();
        let others = RULE.iter().filter(|(other, _)| *other != name);
        let fields: Vec<&str> = others.map(|(_, text)| *text).chain([field]).collect();
        format!("[{{{}}}]", fields.join(", "))
    }

    #[test]
    fn each_field_of_the_rules_changes_what_is_admitted() {
        for (of_control_plane, of_node, field, expected) in [
            (
                "network.additionalControlPlaneIngressRules[].description",
                "network.additionalNodeIngressRules[].description",
                "description: e",
                "tcp 1-2 from 10.0.0.0/8: e",
            ),
            (
                "network.additionalControlPlaneIngressRules[].protocol",
                "network.additionalNodeIngressRules[].protocol",
                "protocol: udp",
                "udp 1-2 from 10.0.0.0/8: d",
            ),
            (
                "network.additionalControlPlaneIngressRules[].fromPort",
                "network.additionalNodeIngressRules[].fromPort",
                "fromPort: 2",
                "tcp 2 from 10.0.0.0/8: d",
            ),
            (
                "network.additionalControlPlaneIngressRules[].toPort",
                "network.additionalNodeIngressRules[].toPort",
                "toPort: 3",
                "tcp 1-3 from 10.0.0.0/8: d",
            ),
            (
                "network.additionalControlPlaneIngressRules[].cidrBlocks[]",
                "network.additionalNodeIngressRules[].cidrBlocks[]",
                "cidrBlocks: [10.1.0.0/16]",
                "tcp 1-2 from 10.1.0.0/16: d",
            ),
            (
                "network.additionalControlPlaneIngressRules[].ipv6CidrBlocks[]",
                "network.additionalNodeIngressRules[].ipv6CidrBlocks[]",
                "ipv6CidrBlocks: ['2001:db8::/32']",
                "tcp 1-2 from 2001:db8::/32: d",
            ),
            (
                "network.additionalControlPlaneIngressRules[].sourceSecurityGroupIds[]",
                "network.additionalNodeIngressRules[].sourceSecurityGroupIds[]",
                "sourceSecurityGroupIds: [sg-1]",
                "tcp 1-2 from sg-1: d",
            ),
            (
                "network.additionalControlPlaneIngressRules[].sourceSecurityGroupRoles[]",
                "network.additionalNodeIngressRules[].sourceSecurityGroupRoles[]",
                "sourceSecurityGroupRoles: [lb]",
                "tcp 1-2 from lb: d",
            ),
            (
                "network.additionalControlPlaneIngressRules[].natGatewaysIPsSource",
                "network.additionalNodeIngressRules[].natGatewaysIPsSource",
                "natGatewaysIPsSource: true",
                "tcp 1-2 from NatGateways: d",
            ),
        ] {
            for (path, role) in [
                (of_control_plane, SecurityGroupRole::ControlPlane),
                (of_node, SecurityGroupRole::Node),
            ] {
                let list = path.split(['.', '[']).nth(1).unwrap_or_default();
                let found = shown(&format!("network: {{{list}: {}}}", rule_with(field)), role);
                assert!(found.iter().any(|rule| rule == expected), "{path}: {found:?}");
            }
        }
        for (path, network, expected) in [
            (
                "network.cni.cniIngressRules[].description",
                "cni: {cniIngressRules: [{description: e, protocol: udp, fromPort: 1, toPort: 2}]}",
                "udp 1-2 from node: e",
            ),
            (
                "network.cni.cniIngressRules[].protocol",
                "cni: {cniIngressRules: [{description: d, protocol: tcp, fromPort: 1, toPort: 2}]}",
                "tcp 1-2 from node: d",
            ),
            (
                "network.cni.cniIngressRules[].fromPort",
                "cni: {cniIngressRules: [{description: d, protocol: udp, fromPort: 2, toPort: 2}]}",
                "udp 2 from node: d",
            ),
            (
                "network.cni.cniIngressRules[].toPort",
                "cni: {cniIngressRules: [{description: d, protocol: udp, fromPort: 1, toPort: 3}]}",
                "udp 1-3 from node: d",
            ),
            (
                "network.nodePortIngressRuleCidrBlocks[]",
                "nodePortIngressRuleCidrBlocks: [10.2.0.0/16]",
                "tcp 30000-32767 from 10.2.0.0/16: Node Port Services",
            ),
        ] {
            let found = shown(&format!("network: {{{network}}}"), SecurityGroupRole::Node);
            assert!(found.iter().any(|rule| rule == expected), "{path}: {found:?}");
        }
    }

    #[test]
    fn rules_of_the_spec_are_expanded_and_merged() {
        let rules = "network: {cni: {cniIngressRules: [{description: vxlan, protocol: udp, fromPort: 8472, toPort: 8472}]}, \
                     nodePortIngressRuleCidrBlocks: [10.1.2.3/16], additionalNodeIngressRules: [{description: metrics, \
                     protocol: tcp, fromPort: 9100, toPort: 9100, cidrBlocks: [10.0.0.7/8, 10.0.0.0/8], ipv6CidrBlocks: \
                     ['2001:DB8::/32'], sourceSecurityGroupIds: [sg-1], sourceSecurityGroupRoles: [lb], \
                     natGatewaysIPsSource: true}, {description: again, protocol: tcp, fromPort: 9100, toPort: 9100, \
                     cidrBlocks: [10.0.0.0/8]}, {description: bare, protocol: '-1', fromPort: -1, toPort: -1}]}";
        let expected = [
            "udp 8472 from controlplane: vxlan",
            "udp 8472 from node: vxlan",
            "tcp 30000-32767 from 10.1.0.0/16: Node Port Services",
            "tcp 10250 from controlplane: Kubelet API",
            "tcp 10250 from node: Kubelet API",
            "tcp 9100 from 10.0.0.0/8: metrics",
            "tcp 9100 from 2001:db8::/32: metrics",
            "tcp 9100 from sg-1: metrics",
            "tcp 9100 from lb: metrics",
            "tcp 9100 from NatGateways: metrics",
            "-1 from controlplane: bare",
        ];
        assert_eq!(shown(rules, SecurityGroupRole::Node), expected);
    }

    #[test]
    fn wrong_ranges_and_roles_without_a_group_are_named() {
        let rule = |more: &str| {
            format!(
                "{{region: eu-west-1, network: {{additionalControlPlaneIngressRules: [{{description: x, protocol: tcp, \
                 fromPort: 1, toPort: 1, {more}}}]}}}}"
            )
        };
        for (more, named) in [
            ("cidrBlocks: [10.0.0.0]", "10.0.0.0"),
            ("sourceSecurityGroupRoles: [bastion]", "bastion"),
        ] {
            let (rules, problems) = rules(&read(&rule(more)), SecurityGroupRole::ControlPlane, 6443);
            let [problem] = &problems[..] else {
                panic!("{problems:?}")
            };
            assert!(problem.contains(named) && problem.contains("additionalControlPlaneIngressRules"));
            assert!(rules.iter().all(|rule| rule.description != "x"), "{rules:?}");
        }
    }
}
