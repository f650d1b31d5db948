//! Security groups with their rules, and the calls that change those of managed clusters.

use capa_api::common::Tags;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use super::ip_protocol::IpProtocol;
use crate::resource::Effect;

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroup {
    /// Id, for example `sg-0a1b2c3d`.
    pub id: String,
    /// VPC of the group.
    pub vpc_id: String,
    /// Name, which is unique in the VPC.
    pub name: String,
    /// Account that owns the group.
    pub owner_id: String,
    /// The rules for incoming traffic, with one source each.
    pub ingress: Vec<Rule<String>>,
    /// The rules for outgoing traffic, with one destination each.
    pub egress: Vec<Rule<String>>,
    /// Tags.
    pub tags: Tags,
}

/// A rule for traffic in one direction. Protocol, ports and source identify the rule: a security group has each
/// combination only once, regardless of the descriptions. `I` is the type of the ids of groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule<I> {
    /// What the rule admits.
    pub traffic: Traffic,
    /// Where the traffic comes from, or goes to.
    pub source: Source<I>,
    /// Description in AWS; empty for none.
    pub description: String,
}

/// Protocol and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Traffic {
    /// Protocol.
    pub protocol: IpProtocol,
    /// First and last port, or type and code of ICMP. Absent for protocols without ports.
    pub ports: Option<(i32, i32)>,
}

/// The source of incoming traffic, or the destination of outgoing traffic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source<I> {
    /// An IPv4 range.
    Cidr(String),
    /// An IPv6 range.
    Ipv6Cidr(String),
    /// A prefix list.
    PrefixList(String),
    /// The interfaces of a security group.
    Group(I),
}

/// A call about a security group; each variant is an action of EC2.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames, Serialize)]
#[serde(rename_all_fields = "camelCase")]
#[allow(missing_docs)]
pub enum Call<I> {
    CreateSecurityGroup { vpc: I, name: String, description: String, tags: Tags },
    AuthorizeSecurityGroupIngress { group: I, rules: Vec<Rule<I>> },
    RevokeSecurityGroupIngress { group: I, rules: Vec<Rule<I>> },
    RevokeSecurityGroupEgress { group: I, rules: Vec<Rule<I>> },
    DeleteSecurityGroup { group: I },
}

impl Traffic {
    /// TCP connections to a port.
    pub const fn tcp(port: i32) -> Self {
        Self::range(IpProtocol::Tcp, port, port)
    }

    /// UDP packets to a port.
    pub const fn udp(port: i32) -> Self {
        Self::range(IpProtocol::Udp, port, port)
    }

    /// Packets to a range of ports.
    pub const fn range(protocol: IpProtocol, first: i32, last: i32) -> Self {
        Self { protocol, ports: Some((first, last)) }
    }

    /// Packets of a protocol without ports.
    pub const fn protocol(protocol: IpProtocol) -> Self {
        Self { protocol, ports: None }
    }

    /// Whether it is all traffic.
    pub fn is_all(&self) -> bool {
        self.protocol == IpProtocol::All
    }

    /// Traffic in the one form in which AWS shows it: without ports for protocols that have none.
    pub fn new(protocol: IpProtocol, first_port: i64, last_port: i64) -> Self {
        let ports = i32::try_from(first_port).ok().zip(i32::try_from(last_port).ok());
        Self { ports: ports.filter(|_| protocol.has_ports()), protocol }
    }
}

impl<I> Rule<I> {
    /// The same rule with another form of the ids.
    ///
    /// # Errors
    /// The error of `id`.
    pub fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Rule<J>, E> {
        Ok(Rule {
            traffic: self.traffic,
            source: match &self.source {
                Source::Cidr(range) => Source::Cidr(range.clone()),
                Source::Ipv6Cidr(range) => Source::Ipv6Cidr(range.clone()),
                Source::PrefixList(list) => Source::PrefixList(list.clone()),
                Source::Group(group) => Source::Group(id(group)?),
            },
            description: self.description.clone(),
        })
    }
}

impl<I> Call<I> {
    pub(super) fn effect(&self) -> Effect {
        match self {
            Self::CreateSecurityGroup { .. } => Effect::Create,
            Self::AuthorizeSecurityGroupIngress { .. }
            | Self::RevokeSecurityGroupIngress { .. }
            | Self::RevokeSecurityGroupEgress { .. } => Effect::Change,
            Self::DeleteSecurityGroup { .. } => Effect::Delete,
        }
    }

    pub(super) fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Call<J>, E> {
        let mapped = |rules: &[Rule<I>], id: &mut dyn FnMut(&I) -> Result<J, E>| {
            let rules = rules.iter().map(|rule| rule.try_map(id));
            rules.collect::<Result<Vec<Rule<J>>, E>>()
        };
        Ok(match self {
            Self::CreateSecurityGroup { vpc, name, description, tags } => Call::CreateSecurityGroup {
                vpc: id(vpc)?,
                name: name.clone(),
                description: description.clone(),
                tags: tags.clone(),
            },
            Self::AuthorizeSecurityGroupIngress { group, rules } => {
                Call::AuthorizeSecurityGroupIngress { group: id(group)?, rules: mapped(rules, id)? }
            }
            Self::RevokeSecurityGroupIngress { group, rules } => {
                Call::RevokeSecurityGroupIngress { group: id(group)?, rules: mapped(rules, id)? }
            }
            Self::RevokeSecurityGroupEgress { group, rules } => {
                Call::RevokeSecurityGroupEgress { group: id(group)?, rules: mapped(rules, id)? }
            }
            Self::DeleteSecurityGroup { group } => Call::DeleteSecurityGroup { group: id(group)? },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_protocols_have_ports() {
        let new = |protocol: &str, first, last| Traffic::new(protocol.parse().unwrap(), first, last);
        assert_eq!(new("tcp", 443, 443), Traffic::tcp(443));
        assert_eq!(new("58", -1, -1), Traffic::range(IpProtocol::Icmpv6, -1, -1));
        assert_eq!(new("icmp", 8, -1), Traffic::range(IpProtocol::Icmp, 8, -1));
        assert_eq!(new("-1", 0, 65_535), Traffic::protocol(IpProtocol::All));
        assert_eq!(new("4", -1, 65_535), Traffic::protocol(IpProtocol::IP_IN_IP));
    }
}
