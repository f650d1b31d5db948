//! Security group roles and the ingress rules a user may add to the groups of a managed cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Role of a security group in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SecurityGroupRole {
    /// The SSH jump host.
    Bastion,
    /// Every node, control planes included.
    Node,
    /// Control plane nodes.
    #[serde(rename = "controlplane")]
    ControlPlane,
    /// The load balancer of the Kubernetes API.
    ApiserverLb,
    /// The group that the cluster's own cloud controller opens for Services of type LoadBalancer.
    Lb,
    /// The additional node group of EKS clusters.
    NodeEksAdditional,
}

impl SecurityGroupRole {
    /// Every role.
    pub const ALL: [Self; 6] =
        [Self::Bastion, Self::Node, Self::ControlPlane, Self::ApiserverLb, Self::Lb, Self::NodeEksAdditional];

    /// The role with this name, which must match exactly; `None` for other names.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }

    /// Whether instances get the group of this role.
    pub const fn concerns_machines(self) -> bool {
        matches!(self, Self::Node | Self::ControlPlane | Self::Lb)
    }

    /// The name of the role in the API, e.g. as a key of `securityGroupOverrides`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bastion => "bastion",
            Self::Node => "node",
            Self::ControlPlane => "controlplane",
            Self::ApiserverLb => "apiserver-lb",
            Self::Lb => "lb",
            Self::NodeEksAdditional => "node-eks-additional",
        }
    }
}

/// IP protocol of an ingress rule, by name or IANA number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IngressProtocol {
    /// Every protocol; ports are ignored.
    #[serde(rename = "-1")]
    All,
    /// IP in IP encapsulation (protocol 4), e.g. Calico's overlay.
    #[serde(rename = "4")]
    IpInIp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP for IPv4; the ports are ICMP type and code.
    Icmp,
    /// ICMP for IPv6 (protocol 58).
    #[serde(rename = "58")]
    Icmpv6,
    /// Encapsulating Security Payload, IPsec (protocol 50).
    #[serde(rename = "50")]
    Esp,
}

/// One ingress rule of a security group in a managed cluster. A rule admits all of its sources, which are of one kind:
/// ranges, security groups, or the NAT gateways. A rule without a source admits the control plane's security group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressRule {
    /// Description of the rule in AWS, e.g. `Prometheus scrapes`. A changed description has no effect on an existing
    /// rule. AWS allows 255 characters of letters, digits, spaces and `._-:/()#,@[]+=&;{}!$*`.
    pub description: String,

    /// Protocol to admit: `tcp`, `udp`, `icmp`, or a number as a string: `-1` for all protocols, `4` for IP in IP, `50`
    /// for ESP, `58` for ICMPv6.
    pub protocol: IngressProtocol,

    /// First port of the range, 0 to 65535. For ICMP the ICMP type; -1 means all types.
    pub from_port: i64,

    /// Last port of the range; for a single port the same as `fromPort`. For ICMP the ICMP code; -1 means all codes.
    pub to_port: i64,

    /// IPv4 ranges to admit, e.g. `192.0.2.0/24`. A rule cannot have both ranges and source security groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 60), inner(length(max = 43)))]
    pub cidr_blocks: Vec<String>,

    /// IPv6 ranges to admit, e.g. `2001:db8::/32`. As with IPv4 ranges, a rule cannot have both ranges and source
    /// security groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 60), inner(length(max = 43)))]
    pub ipv6_cidr_blocks: Vec<String>,

    /// Ids of the security groups to admit, e.g. `sg-0a1b2c3d`: security groups of this VPC or of a peered VPC.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 60))]
    pub source_security_group_ids: Vec<String>,

    /// Roles of the security groups of this cluster to admit, e.g. `node`. Use roles for security groups that are
    /// created with the cluster and have no id yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 60))]
    pub source_security_group_roles: Vec<SecurityGroupRole>,

    /// Whether to admit the public addresses of the cluster's NAT gateways, that is, traffic that leaves private
    /// subnets and comes back through an internet-facing load balancer. Excludes every other source. Default: false.
    #[serde(rename = "natGatewaysIPsSource", default, skip_serializing_if = "std::ops::Not::not")]
    pub nat_gateways_ips_source: bool,
}

/// Ingress that a pod network needs between all nodes of a managed cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CniSpec {
    /// Ingress rules for traffic between all nodes, control plane nodes included. The list replaces the default rules
    /// for Calico (TCP 179 and IP in IP); an empty list means no rules. Cilium with VXLAN needs UDP 8472 and TCP 4240.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub cni_ingress_rules: Vec<CniIngressRule>,
}

/// One ingress rule between the nodes of a managed cluster. The sources are always the cluster's own security groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CniIngressRule {
    /// Description of the rule between the nodes in AWS, e.g. `VXLAN (cilium)`. A changed description has no effect on
    /// an existing rule.
    pub description: String,

    /// Protocol between the nodes: a name (`tcp`, `udp`, `icmp`) or any IANA number as a string, e.g. `4` for IP in IP;
    /// `-1` admits all protocols.
    pub protocol: String,

    /// First port between the nodes, e.g. 8472; -1 for protocols without ports.
    pub from_port: i64,

    /// Last port between the nodes, e.g. 8472; 65535 for protocols without ports.
    pub to_port: i64,
}

impl CniIngressRule {
    /// The rules that Calico needs between nodes. They are the default of a cluster without rules for the pod network
    /// in its spec.
    pub fn calico() -> Vec<Self> {
        vec![
            Self { description: "bgp (calico)".to_owned(), protocol: "tcp".to_owned(), from_port: 179, to_port: 179 },
            Self {
                description: "IP-in-IP (calico)".to_owned(),
                protocol: "4".to_owned(),
                from_port: -1,
                to_port: 65535,
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_role_is_its_name_on_the_wire() {
        for role in SecurityGroupRole::ALL {
            assert_eq!(serde_json::to_value(role).expect("a string"), role.as_str());
            assert_eq!(SecurityGroupRole::named(role.as_str()), Some(role));
        }
        for other in ["", "controlPlane", "nodes"] {
            assert_eq!(SecurityGroupRole::named(other), None);
        }
    }

    #[test]
    fn protocols_are_read_by_name_and_by_number() {
        let cases = [
            ("-1", IngressProtocol::All),
            ("4", IngressProtocol::IpInIp),
            ("tcp", IngressProtocol::Tcp),
            ("udp", IngressProtocol::Udp),
            ("icmp", IngressProtocol::Icmp),
            ("58", IngressProtocol::Icmpv6),
            ("50", IngressProtocol::Esp),
        ];
        for (wire, expected) in cases {
            let protocol: IngressProtocol = serde_json::from_value(wire.into()).expect("a protocol");
            assert_eq!(protocol, expected);
        }
    }

    #[test]
    fn a_rule_keeps_every_source() {
        let yaml = "{description: metrics, protocol: tcp, fromPort: 9100, toPort: 9100, \
                    sourceSecurityGroupIds: [sg-0a], sourceSecurityGroupRoles: [controlplane, apiserver-lb], \
                    natGatewaysIPsSource: true}";
        let rule: IngressRule = serde_saphyr::from_str(yaml).expect("a rule");
        assert_eq!(rule.source_security_group_ids, ["sg-0a"]);
        assert_eq!(rule.source_security_group_roles, [SecurityGroupRole::ControlPlane, SecurityGroupRole::ApiserverLb]);
        assert!(rule.nat_gateways_ips_source);
    }
}
