//! Security groups with their rules, and the calls that change those of managed clusters.

use capa_api::common::Tags;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Traffic {
    /// `tcp`, `udp`, `icmp`, `icmpv6`, the number of another protocol, or `-1` for all protocols.
    pub protocol: String,
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
    /// Whether it is all traffic.
    pub fn is_all(&self) -> bool {
        self.protocol == "-1"
    }

    /// Traffic in the one form in which AWS shows it: by the names of protocols that have one, and without ports for
    /// protocols that have none.
    pub fn new(protocol: &str, first_port: i64, last_port: i64) -> Self {
        let protocol = match protocol.to_ascii_lowercase().as_str() {
            "all" | "-1" => "-1".to_owned(),
            "6" => "tcp".to_owned(),
            "17" => "udp".to_owned(),
            "1" => "icmp".to_owned(),
            "58" => "icmpv6".to_owned(),
            other => other.to_owned(),
        };
        let has_ports = ["tcp", "udp", "icmp", "icmpv6"].contains(&protocol.as_str());
        let ports = i32::try_from(first_port).ok().zip(i32::try_from(last_port).ok());
        Self { ports: ports.filter(|_| has_ports), protocol }
    }
}

impl<I> Rule<I> {
    /// The same rule with another form of the ids.
    ///
    /// # Errors
    /// The error of `id`.
    pub fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Rule<J>, E> {
        Ok(Rule {
            traffic: self.traffic.clone(),
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
    fn traffic_has_one_form_however_it_is_written() {
        let traffic = |protocol: &str, ports| Traffic { protocol: protocol.to_owned(), ports };
        for (protocol, first, last, expected) in [
            ("TCP", 443, 443, traffic("tcp", Some((443, 443)))),
            ("6", 443, 443, traffic("tcp", Some((443, 443)))),
            ("all", 0, 65_535, traffic("-1", None)),
            ("-1", -1, -1, traffic("-1", None)),
            ("4", -1, 65_535, traffic("4", None)),
            ("50", 0, 0, traffic("50", None)),
            ("58", -1, -1, traffic("icmpv6", Some((-1, -1)))),
            ("icmp", 8, -1, traffic("icmp", Some((8, -1)))),
        ] {
            assert_eq!(Traffic::new(protocol, first, last), expected, "{protocol}");
        }
    }
}
