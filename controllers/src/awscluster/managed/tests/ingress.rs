//! The rules of security groups that follow from a spec.

use capa_api::cluster::security_group::SecurityGroupRole;
use capa_cloud::ec2::IpProtocol;

use super::super::ingress::{LOAD_BALANCER_TRAFFIC, Origin, WantedRule, ports, rules, traffic};
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
    let balancer = ["tcp 6443 from NatGateways: Kubernetes API", "tcp 6443 from 0.0.0.0/0: Kubernetes API"];
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
    assert_eq!(shown(&both, ApiserverLb), ["tcp 6443 from Vpc: Kubernetes API", nat, any]);
    let described = |rule: &str| format!("{rule}: {LOAD_BALANCER_TRAFFIC}");
    let traffic = ["tcp 6443 from Vpc", "tcp 6443 from 0.0.0.0/0", "tcp 9345 from 0.0.0.0/0"].map(described);
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
    let others = RULE.iter().filter(|(other, _)| *other != name && !(*other == "cidrBlocks" && is_source(name)));
    let fields: Vec<&str> = others.map(|(_, text)| *text).chain([field]).collect();
    format!("[{{{}}}]", fields.join(", "))
}

#[test]
fn each_field_of_the_rules_changes_what_is_admitted() {
    for (field, expected) in [
        ("description: e", "tcp 1-2 from 10.0.0.0/8: e"),
        ("protocol: udp", "udp 1-2 from 10.0.0.0/8: d"),
        ("fromPort: 2", "tcp 2 from 10.0.0.0/8: d"),
        ("toPort: 3", "tcp 1-3 from 10.0.0.0/8: d"),
        ("cidrBlocks: [10.1.0.0/16]", "tcp 1-2 from 10.1.0.0/16: d"),
        ("ipv6CidrBlocks: ['2001:db8::/32']", "tcp 1-2 from 2001:db8::/32: d"),
        ("sourceSecurityGroupIds: [sg-1]", "tcp 1-2 from sg-1: d"),
        ("sourceSecurityGroupRoles: [lb]", "tcp 1-2 from lb: d"),
        ("natGatewaysIPsSource: true", "tcp 1-2 from NatGateways: d"),
    ] {
        let rules = rule_with(field);
        for (list, role) in [
            (format!("network: {{additionalControlPlaneIngressRules: {rules}}}"), SecurityGroupRole::ControlPlane),
            (format!("network: {{additionalNodeIngressRules: {rules}}}"), SecurityGroupRole::Node),
            (format!("controlPlaneLoadBalancer: {{ingressRules: {rules}}}"), SecurityGroupRole::ApiserverLb),
            (
                format!("secondaryControlPlaneLoadBalancer: {{name: b, ingressRules: {rules}}}"),
                SecurityGroupRole::ApiserverLb,
            ),
        ] {
            let found = shown(&list, role);
            assert!(found.iter().any(|rule| rule == expected), "{list}: {found:?}");
        }
    }
    for (network, expected) in [
        ("cni: {cniIngressRules: [{description: e, protocol: udp, fromPort: 1, toPort: 2}]}", "udp 1-2 from node: e"),
        ("cni: {cniIngressRules: [{description: d, protocol: tcp, fromPort: 1, toPort: 2}]}", "tcp 1-2 from node: d"),
        ("cni: {cniIngressRules: [{description: d, protocol: udp, fromPort: 2, toPort: 2}]}", "udp 2 from node: d"),
        ("cni: {cniIngressRules: [{description: d, protocol: udp, fromPort: 1, toPort: 3}]}", "udp 1-3 from node: d"),
        ("nodePortIngressRuleCidrBlocks: [10.2.0.0/16]", "tcp 30000-32767 from 10.2.0.0/16: Node Port Services"),
    ] {
        let found = shown(&format!("network: {{{network}}}"), SecurityGroupRole::Node);
        assert!(found.iter().any(|rule| rule == expected), "{network}: {found:?}");
    }
}

#[test]
fn rules_of_the_spec_are_expanded_and_merged() {
    let rules = "network: {cni: {cniIngressRules: [{description: vxlan, protocol: udp, fromPort: 8472, toPort: \
                 8472}]}, nodePortIngressRuleCidrBlocks: [10.1.2.3/16], additionalNodeIngressRules: [{description: \
                 metrics, protocol: tcp, fromPort: 9100, toPort: 9100, cidrBlocks: [10.0.0.7/8, 10.0.0.0/8], \
                 ipv6CidrBlocks: ['2001:DB8::/32']}, {description: groups, protocol: tcp, fromPort: 9100, toPort: \
                 9100, sourceSecurityGroupIds: [sg-1], sourceSecurityGroupRoles: [lb]}, {description: nat, protocol: \
                 tcp, fromPort: 9100, toPort: 9100, natGatewaysIPsSource: true}, {description: again, protocol: tcp, \
                 fromPort: 9100, toPort: 9100, cidrBlocks: [10.0.0.0/8]}, {description: bare, protocol: '-1', \
                 fromPort: -1, toPort: -1}]}";
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
        assert_eq!(traffic(IpProtocol::Udp, first, last).is_ok(), is_right, "{first} to {last}");
        assert!(traffic(IpProtocol::IP_IN_IP, first, last).is_ok(), "a protocol without ports");
    }
}

#[test]
fn type_and_code_of_icmp_are_no_range() {
    for (kind, code, is_right) in [
        (8, 0, true),
        (128, 0, true),
        (3, 4, true),
        (8, -1, true),
        (-1, -1, true),
        (-1, 0, false),
        (256, 0, false),
        (8, 256, false),
    ] {
        for protocol in ["icmp", "1", "icmpv6", "58"] {
            assert_eq!(traffic(protocol.parse().unwrap(), kind, code).is_ok(), is_right, "{protocol} {kind} {code}");
        }
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
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert!(problem.contains(named) && problem.contains("additionalControlPlaneIngressRules"));
        assert!(rules.iter().all(|rule| rule.description != "x"), "{rules:?}");
    }
}

#[test]
fn a_protocol_of_the_pod_network_that_is_none_is_named() {
    let rule = "{description: overlay, protocol: vxlan, fromPort: 1, toPort: 1}";
    let spec = read(&format!("{{region: eu-west-1, network: {{cni: {{cniIngressRules: [{rule}]}}}}}}"));
    let (rules, problems) = rules(&spec, SecurityGroupRole::Node, 6443, false);
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert!(problem.contains("\"overlay\"") && problem.contains("\"vxlan\" is no protocol"), "{problem}");
    assert!(rules.iter().all(|rule| rule.description != "overlay"), "{rules:?}");
}
