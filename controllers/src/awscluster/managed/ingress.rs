//! The rules for incoming traffic that the security groups of a managed cluster have. They equal CAPA's, except for the
//! differences that `docs/managed.md` lists. Pure.

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::load_balancer::{LoadBalancerScheme, LoadBalancerSpec, LoadBalancerType};
use capa_api::cluster::network::NetworkSpec;
use capa_api::cluster::security_group::{IngressProtocol, IngressRule, SecurityGroupRole};
use capa_cloud::ec2::IpProtocol;
use capa_cloud::ec2::security_group::{Rule, Traffic};
use ipnet::IpNet;

use super::classic_balancer::instance_port;
use super::reference::Id;

/// The description of the rules that let network load balancers reach the control plane. In the group `lb`, which the
/// cluster's cloud controller uses too, the provider removes no other rules. CAPA names the port before the full stop.
pub(super) const LOAD_BALANCER_TRAFFIC: &str = "Allow NLB traffic to the control plane instances.";
const API: &str = "Kubernetes API";
const ANY: &str = "0.0.0.0/0";
/// The roles of the security groups of a cluster.
pub(super) const HAVE_GROUPS: [SecurityGroupRole; 4] =
    [SecurityGroupRole::ApiserverLb, SecurityGroupRole::Lb, SecurityGroupRole::ControlPlane, SecurityGroupRole::Node];

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

/// The rules of the group of a role, and the problems of the spec. `port` is that of the API server.
pub(super) fn rules(
    spec: &AWSClusterSpec,
    role: SecurityGroupRole,
    port: i64,
    has_nat_gateways: bool,
) -> (Vec<WantedRule>, Vec<String>) {
    let mut rules = Rules { has_nat_gateways, wanted: vec![], problems: vec![] };
    let network = spec.network.clone().unwrap_or_default();
    match role {
        SecurityGroupRole::ControlPlane => control_plane(&network, &server_ports(spec, port), &mut rules),
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
    /// Adds a rule, unless there is one for the same traffic from the same source, because AWS stores such a rule once.
    fn add(&mut self, description: &str, traffic: Traffic, from: Origin) {
        let mut rules = self.wanted.iter();
        if !rules.any(|rule| rule.traffic == traffic && rule.from == from) {
            self.wanted.push(WantedRule { traffic, from, description: description.to_owned() });
        }
    }

    fn add_range(&mut self, path: &str, description: &str, traffic: Traffic, text: &str) {
        match range(text) {
            Ok(range) => self.add(description, traffic, range),
            Err(problem) => self.problems.push(format!("{path}: {problem}")),
        }
    }

    /// Adds the rules of the spec at this path. A rule with any error adds nothing.
    fn add_all(&mut self, path: &str, rules: &[IngressRule]) {
        for rule in rules {
            let traffic = || traffic(protocol(rule.protocol), rule.from_port, rule.to_port);
            match self.sources(rule).and_then(|sources| Ok((sources, traffic()?))) {
                Ok((sources, traffic)) => {
                    for source in sources {
                        self.add(&rule.description, traffic, source);
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
            return Err(format!("the cluster has no security group of the role {}", role.as_str()));
        }
        let groups: Vec<Origin> = ids.chain(roles.copied().map(Origin::Role)).collect();
        match (ranges.is_empty(), groups.is_empty(), rule.nat_gateways_ips_source) {
            (true, true, false) => Ok(vec![Origin::Role(SecurityGroupRole::ControlPlane)]),
            (false, true, false) => Ok(ranges),
            (true, false, false) => Ok(groups),
            (true, true, true) if self.has_nat_gateways => Ok(vec![Origin::NatGateways]),
            (true, true, true) => Err("the cluster has no NAT gateways to admit".to_owned()),
            _ => Err("ranges, security groups and NAT gateways exclude each other: write a separate rule for each"
                .to_owned()),
        }
    }

    /// The traffic of the pod network, between all nodes.
    fn add_pod_network(&mut self, network: &NetworkSpec) {
        for rule in network.effective_cni_ingress_rules() {
            let name = &rule.description;
            let protocol = rule.protocol.parse::<IpProtocol>();
            match protocol.and_then(|protocol| traffic(protocol, rule.from_port, rule.to_port)) {
                Ok(traffic) => {
                    for role in [SecurityGroupRole::ControlPlane, SecurityGroupRole::Node] {
                        self.add(name, traffic, Origin::Role(role));
                    }
                }
                Err(problem) => self.problems.push(format!("network.cni.cniIngressRules {name:?}: {problem}")),
            }
        }
    }
}

/// The traffic of a rule of the spec. Protocols without ports may be written with any.
pub(super) fn traffic(protocol: IpProtocol, first_port: i64, last_port: i64) -> Result<Traffic, String> {
    match protocol {
        IpProtocol::Tcp | IpProtocol::Udp => ports(first_port, last_port)?,
        IpProtocol::Icmp | IpProtocol::Icmpv6 => type_and_code(first_port, last_port)?,
        IpProtocol::All | IpProtocol::Number(_) => {}
    }
    Ok(Traffic::new(protocol, first_port, last_port))
}

/// Whether these are the type and the code of an ICMP message, which the API has in the place of the ports. -1 stands
/// for all of them, and all types have all codes.
fn type_and_code(kind: i64, code: i64) -> Result<(), String> {
    let is_known = |number: i64| (-1..=255).contains(&number);
    if is_known(kind) && is_known(code) && (kind != -1 || code == -1) {
        return Ok(());
    }
    Err(format!(
        "{kind} (fromPort) and {code} (toPort) are not a type and a code of ICMP, which are 0 to 255, or -1 for all"
    ))
}

/// Whether these are ports.
pub(super) fn ports(first: i64, last: i64) -> Result<(), String> {
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
    Traffic::new(IpProtocol::Tcp, port, port)
}

fn protocol(protocol: IngressProtocol) -> IpProtocol {
    match protocol {
        IngressProtocol::All => IpProtocol::All,
        IngressProtocol::IpInIp => IpProtocol::IP_IN_IP,
        IngressProtocol::Tcp => IpProtocol::Tcp,
        IngressProtocol::Udp => IpProtocol::Udp,
        IngressProtocol::Icmp => IpProtocol::Icmp,
        IngressProtocol::Icmpv6 => IpProtocol::Icmpv6,
        IngressProtocol::Esp => IpProtocol::ESP,
    }
}

/// `ports` are those of the API servers.
fn control_plane(network: &NetworkSpec, ports: &[i64], rules: &mut Rules) {
    use SecurityGroupRole::{ApiserverLb, ControlPlane, Node};
    rules.add_pod_network(network);
    for port in ports {
        for role in [ApiserverLb, ControlPlane, Node] {
            rules.add(API, tcp(*port), Origin::Role(role));
        }
    }
    rules.add("etcd", tcp(2379), Origin::Role(ControlPlane));
    rules.add("etcd peer", tcp(2380), Origin::Role(ControlPlane));
    rules.add_all("network.additionalControlPlaneIngressRules", &network.additional_control_plane_ingress_rules);
}

fn node(network: &NetworkSpec, rules: &mut Rules) {
    rules.add_pod_network(network);
    let node_ports = Traffic::new(IpProtocol::Tcp, 30_000, 32_767);
    for range in network.effective_node_port_cidr_blocks() {
        let path = "network.nodePortIngressRuleCidrBlocks";
        rules.add_range(path, "Node Port Services", node_ports, range);
    }
    for role in [SecurityGroupRole::ControlPlane, SecurityGroupRole::Node] {
        rules.add("Kubelet API", tcp(10_250), Origin::Role(role));
    }
    rules.add_all("network.additionalNodeIngressRules", &network.additional_node_ingress_rules);
}

/// A load balancer of the API server, with its path in the spec and the ports that forward to the API server.
struct Balancer {
    path: &'static str,
    spec: LoadBalancerSpec,
    ports: Vec<i64>,
}

/// The load balancers of the API server. `port` is that which the Cluster names.
fn balancers(spec: &AWSClusterSpec, port: i64) -> Vec<Balancer> {
    let first = Balancer {
        path: "controlPlaneLoadBalancer",
        spec: spec.effective_control_plane_load_balancer(),
        ports: client_ports(spec, port),
    };
    let second = spec.secondary_control_plane_load_balancer.clone();
    let second = second.map(|second| Balancer {
        path: "secondaryControlPlaneLoadBalancer",
        spec: second,
        ports: vec![instance_port(spec, port)],
    });
    let all = std::iter::once(first).chain(second);
    all.filter(|balancer| balancer.spec.load_balancer_type != LoadBalancerType::Disabled).collect()
}

/// The ports by which clients reach the first load balancer: the one that the Cluster names, and that of the endpoint,
/// which nodes and kubeconfigs have.
fn client_ports(spec: &AWSClusterSpec, port: i64) -> Vec<i64> {
    let of_endpoint = spec.endpoint().map(|(_, of_endpoint)| i64::from(of_endpoint));
    let has_balancer = spec.effective_control_plane_load_balancer().load_balancer_type != LoadBalancerType::Disabled;
    let of_endpoint = of_endpoint.filter(|of_endpoint| has_balancer && *of_endpoint != port);
    std::iter::once(port).chain(of_endpoint).collect()
}

/// The ports of the API servers behind the first load balancer.
fn server_ports(spec: &AWSClusterSpec, port: i64) -> Vec<i64> {
    let ports = client_ports(spec, port).into_iter();
    ports.map(|port| instance_port(spec, port)).collect()
}

/// Nodes reach an internal load balancer from the VPC, and an internet-facing one through the NAT gateways. The ingress
/// rules of the spec admit other clients. Without any such rule, all addresses are admitted.
fn api_load_balancer(spec: &AWSClusterSpec, port: i64, rules: &mut Rules) {
    let balancers = balancers(spec, port);
    for Balancer { spec, ports, .. } in &balancers {
        let from = match spec.scheme {
            LoadBalancerScheme::Internal => Origin::Vpc,
            LoadBalancerScheme::InternetFacing => Origin::NatGateways,
        };
        for port in ports {
            rules.add(API, tcp(*port), from.clone());
        }
    }
    for Balancer { path, spec, .. } in &balancers {
        rules.add_all(&format!("{path}.ingressRules"), &spec.ingress_rules);
    }
    if balancers.iter().all(|balancer| balancer.spec.ingress_rules.is_empty()) {
        for port in balancers.iter().flat_map(|balancer| &balancer.ports) {
            rules.add_range("", API, tcp(*port), ANY);
        }
    }
}

/// The rules for the traffic from network load balancers to the control plane, with the addresses of the load balancers
/// or of the clients.
fn load_balancer_traffic(spec: &AWSClusterSpec, port: i64, rules: &mut Rules) {
    let balancers = balancers(spec, port).into_iter();
    for Balancer { spec, ports, .. } in balancers.filter(|balancer| is_network(&balancer.spec)) {
        let additional = spec.additional_listeners.iter().map(|listener| listener.port);
        for port in ports.into_iter().chain(additional) {
            if spec.preserve_client_ip {
                rules.add_range("", LOAD_BALANCER_TRAFFIC, tcp(port), ANY);
            } else {
                rules.add(LOAD_BALANCER_TRAFFIC, tcp(port), Origin::Vpc);
            }
        }
    }
}

fn is_network(spec: &LoadBalancerSpec) -> bool {
    spec.load_balancer_type == LoadBalancerType::Nlb
}

/// A rule that AWS shows, in the form for a call.
pub(super) fn known(rule: &Rule<String>) -> Rule<Id> {
    let Ok(rule) = rule.try_map(&mut |id: &String| Ok::<Id, std::convert::Infallible>(Id::Known(id.clone())));
    rule
}
