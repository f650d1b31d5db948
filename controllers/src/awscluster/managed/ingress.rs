//! The rules for incoming traffic that the security groups of a managed cluster have. They are CAPA's, but for what
//! `docs/managed.md` lists. Pure.

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
/// The roles of the security groups of a cluster.
pub(super) const HAVE_GROUPS: [SecurityGroupRole; 4] = [
    SecurityGroupRole::ApiserverLb,
    SecurityGroupRole::Lb,
    SecurityGroupRole::ControlPlane,
    SecurityGroupRole::Node,
];

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
pub(super) fn rules(
    spec: &AWSClusterSpec,
    role: SecurityGroupRole,
    port: i64,
    has_nat_gateways: bool,
) -> (Vec<WantedRule>, Vec<String>) {
    let mut rules = Rules {
        has_nat_gateways,
        wanted: vec![],
        problems: vec![],
    };
    let network = spec.network.clone().unwrap_or_default();
    match role {
        SecurityGroupRole::ControlPlane => control_plane(&network, port, &mut rules),
        SecurityGroupRole::Node => node(&network, &mut rules),
        SecurityGroupRole::ApiserverLb => api_load_balancer(spec, port, &mut rules),
        SecurityGroupRole::Lb => load_balancer_traffic(spec, port, &mut rules),
        SecurityGroupRole::Bastion | SecurityGroupRole::NodeEksAdditional => {}
    }
    (rules.wanted, rules.problems)
}

/// The rules of one group so far.
struct Rules {
    has_nat_gateways: bool,
    wanted: Vec<WantedRule>,
    problems: Vec<String>,
}

impl Rules {
    /// Adds a rule, unless there is one for the same traffic from the same source: AWS has it once.
    fn add(&mut self, description: &str, traffic: &Traffic, from: Origin) {
        let mut rules = self.wanted.iter();
        if !rules.any(|rule| rule.traffic == *traffic && rule.from == from) {
            self.wanted.push(WantedRule {
                traffic: traffic.clone(),
                from,
                description: description.to_owned(),
            });
        }
    }

    fn add_range(&mut self, path: &str, description: &str, traffic: &Traffic, text: &str) {
        match range(text) {
            Ok(range) => self.add(description, traffic, range),
            Err(problem) => self.problems.push(format!("{path}: {problem}")),
        }
    }

    /// Adds the rules of the spec at this path. One that is wrong in any part adds nothing.
    fn add_all(&mut self, path: &str, rules: &[IngressRule]) {
        for rule in rules {
            let traffic = || traffic(protocol(rule.protocol), rule.from_port, rule.to_port);
            match self.sources(rule).and_then(|sources| Ok((sources, traffic()?))) {
                Ok((sources, traffic)) => {
                    for source in sources {
                        self.add(&rule.description, &traffic, source);
                    }
                }
                Err(problem) => {
                    let name = &rule.description;
                    self.problems.push(format!("{path} {name:?}: {problem}"));
                }
            }
        }
    }

    /// The sources of a rule, which are of one kind. A rule without a source admits the control plane.
    fn sources(&self, rule: &IngressRule) -> Result<Vec<Origin>, String> {
        let ranges = rule.cidr_blocks.iter().chain(&rule.ipv6_cidr_blocks);
        let ranges: Vec<Origin> = ranges.map(|text| range(text)).collect::<Result<_, _>>()?;
        let ids = rule.source_security_group_ids.iter().cloned().map(Origin::Group);
        let roles = rule.source_security_group_roles.iter();
        if let Some(role) = roles.clone().find(|role| !HAVE_GROUPS.contains(role)) {
            return Err(format!(
                "the cluster has no security group of the role {}",
                role.as_str()
            ));
        }
        let groups: Vec<Origin> = ids.chain(roles.copied().map(Origin::Role)).collect();
        match (ranges.is_empty(), groups.is_empty(), rule.nat_gateways_ips_source) {
            (true, true, false) => Ok(vec![Origin::Role(SecurityGroupRole::ControlPlane)]),
            (false, true, false) => Ok(ranges),
            (true, false, false) => Ok(groups),
            (true, true, true) if self.has_nat_gateways => Ok(vec![Origin::NatGateways]),
            (true, true, true) => Err("the cluster has no NAT gateways to admit".to_owned()),
            _ => Err("ranges, security groups and NAT gateways exclude each other: list a rule for each".to_owned()),
        }
    }

    /// The traffic of the pod network, between all nodes.
    fn add_pod_network(&mut self, network: &NetworkSpec) {
        for rule in network.effective_cni_ingress_rules() {
            let name = &rule.description;
            match traffic(&rule.protocol, rule.from_port, rule.to_port) {
                Ok(traffic) => {
                    for role in [SecurityGroupRole::ControlPlane, SecurityGroupRole::Node] {
                        self.add(name, &traffic, Origin::Role(role));
                    }
                }
                Err(problem) => self
                    .problems
                    .push(format!("network.cni.cniIngressRules {name:?}: {problem}")),
            }
        }
    }
}

/// The traffic of a rule of the spec. Protocols without ports may be written with any.
fn traffic(protocol: &str, first_port: i64, last_port: i64) -> Result<Traffic, String> {
    let has_ports = Traffic::new(protocol, 0, 0).ports.is_some();
    if has_ports {
        ports(first_port, last_port)?;
    }
    Ok(Traffic::new(protocol, first_port, last_port))
}

/// Whether these are ports, or type and code of ICMP.
fn ports(first: i64, last: i64) -> Result<(), String> {
    let is_port = |port: i64| (-1..=65_535).contains(&port);
    if is_port(first) && is_port(last) && (first <= last || last == -1) {
        return Ok(());
    }
    Err(format!("{first} to {last} is no range of ports, which are 0 to 65535"))
}

/// A range, in the form in which AWS shows it: by its first address.
fn range(text: &str) -> Result<Origin, String> {
    let range = text.parse::<IpNet>();
    let range = range.map_err(|_| format!("{text:?} is no range, such as 10.0.0.0/16"))?;
    Ok(Origin::Range(range.trunc()))
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
        let (rules, problems) = rules(&read(&format!("{{region: eu-west-1, {spec}}}")), role, 6443, true);
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

    /// [`RULE`] with this field in place of its own, or beside the others. A source takes the place of the range.
    fn rule_with(field: &str) -> String {
        let name = field.split(':').next().unwrap_or_default();
        let is_source = |field: &str| field.contains("ource") || field.ends_with("CidrBlocks");
        let others = RULE
            .iter()
            .filter(|(other, _)| *other != name && !(*other == "cidrBlocks" && is_source(name)));
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
                     ['2001:DB8::/32']}, {description: groups, protocol: tcp, fromPort: 9100, toPort: 9100, \
                     sourceSecurityGroupIds: [sg-1], sourceSecurityGroupRoles: [lb]}, {description: nat, protocol: \
                     tcp, fromPort: 9100, toPort: 9100, natGatewaysIPsSource: true}, {description: again, protocol: tcp, fromPort: 9100, toPort: 9100, \
                     cidrBlocks: [10.0.0.0/8]}, {description: bare, protocol: '-1', fromPort: -1, toPort: -1}]}";
        let expected = [
            "udp 8472 from controlplane: vxlan",
            "udp 8472 from node: vxlan",
            "tcp 30000-32767 from 10.1.0.0/16: Node Port Services",
            "tcp 10250 from controlplane: Kubelet API",
            "tcp 10250 from node: Kubelet API",
            "tcp 9100 from 10.0.0.0/8: metrics",
            "tcp 9100 from 2001:db8::/32: metrics",
            "tcp 9100 from sg-1: groups",
            "tcp 9100 from lb: groups",
            "tcp 9100 from NatGateways: nat",
            "-1 from controlplane: bare",
        ];
        assert_eq!(shown(rules, SecurityGroupRole::Node), expected);
    }

    #[test]
    fn ports_beyond_their_range_are_named() {
        for (first, last, is_right) in [
            (1, 65_535, true),
            (8, -1, true),
            (-1, -1, true),
            (2, 1, false),
            (0, 65_536, false),
            (5_000_000_000, 5_000_000_000, false),
        ] {
            assert_eq!(ports(first, last).is_ok(), is_right, "{first} to {last}");
            assert_eq!(traffic("icmpv6", first, last).is_ok(), is_right, "{first} to {last}");
            assert!(traffic("4", first, last).is_ok(), "a protocol without ports");
        }
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
            ("natGatewaysIPsSource: true", "NAT gateways"),
            ("cidrBlocks: [10.0.0.0/8], sourceSecurityGroupRoles: [node]", "exclude"),
            ("cidrBlocks: [10.0.0.0/8], natGatewaysIPsSource: true", "exclude"),
        ] {
            let (rules, problems) = rules(&read(&rule(more)), SecurityGroupRole::ControlPlane, 6443, false);
            let [problem] = &problems[..] else {
                panic!("{problems:?}")
            };
            assert!(problem.contains(named) && problem.contains("additionalControlPlaneIngressRules"));
            assert!(rules.iter().all(|rule| rule.description != "x"), "{rules:?}");
        }
    }
}
