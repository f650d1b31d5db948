//! Security groups.

use super::{ACCOUNT, EXISTING_BALANCER_GROUP, World, id};
use crate::facts::{IpProtocol, Rule, SecurityGroup, Source, Traffic};
use crate::requirements::{Kind, Object, Peer, Wanted};
use crate::testing::rule;

impl World<'_> {
    /// The rule; `None` if the peer has no addresses.
    fn rule(&self, traffic: Option<Traffic>, peer: &Peer) -> Option<Rule<String>> {
        let source = match peer {
            Peer::Group(group) => Source::Group(id(group)),
            Peer::LoadBalancer(_) => Source::Group(EXISTING_BALANCER_GROUP.to_owned()),
            Peer::Vpc => Source::Cidr(self.vpc().0.and_then(|vpc| vpc.cidr_blocks.into_iter().next())?),
            Peer::Anywhere => Source::Cidr("0.0.0.0/0".to_owned()),
            Peer::Clients => Source::Cidr("203.0.113.0/24".to_owned()),
        };
        let protocol = traffic.map_or(IpProtocol::All, |traffic| traffic.protocol);
        Some(rule(&protocol.to_string(), traffic.and_then(|traffic| traffic.ports), source))
    }

    fn security_group(&self, object: &Object, id: String) -> SecurityGroup {
        let mut ingress = self.all(|of, is| match is {
            Wanted::Admits { traffic, from } if of == object => self.rule(Some(*traffic), from),
            _ => None,
        });
        if object.kind == Kind::SecurityGroup && object.exists && !self.has(object, &Wanted::RoomForRule) {
            let range = |number| Source::Cidr(format!("198.51.100.{number}/32"));
            ingress.extend((0..60).map(|number| rule("udp", Some((1, 1)), range(number))));
        }
        SecurityGroup {
            name: object.name.clone(),
            vpc_id: self.vpc_object().map(self::id).unwrap_or_default(),
            owner_id: ACCOUNT.to_owned(),
            tags: self.tags(object),
            ingress,
            egress: self.all(|of, is| match is {
                Wanted::Allows { traffic, to } if of == object => self.rule(*traffic, to),
                _ => None,
            }),
            id,
        }
    }

    pub(super) fn security_groups(&self) -> Vec<SecurityGroup> {
        self.all(|object, wanted| match wanted {
            Wanted::SecurityGroup(_) => Some(self.security_group(object, id(object))),
            Wanted::LoadBalancer if object.exists => {
                Some(self.security_group(object, EXISTING_BALANCER_GROUP.to_owned()))
            }
            _ => None,
        })
    }
}
