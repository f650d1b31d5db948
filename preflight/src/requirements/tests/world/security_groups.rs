//! Security groups.

use super::{ACCOUNT, EXISTING_BALANCER_GROUP, World, id};
use crate::facts::{SecurityGroup, SecurityGroupRule};
use crate::reach::Traffic;
use crate::requirements::{Kind, Object, Peer, Wanted};

impl World<'_> {
    fn rule(&self, traffic: Option<Traffic>, peer: &Peer) -> SecurityGroupRule {
        let mut rule = SecurityGroupRule {
            protocol: traffic.map_or("-1", |traffic| traffic.protocol).to_owned(),
            ports: traffic.and_then(|traffic| traffic.ports),
            ..SecurityGroupRule::default()
        };
        let range = match peer {
            Peer::Group(group) => {
                rule.group_ids.push(id(group));
                return rule;
            }
            Peer::LoadBalancer(_) => {
                rule.group_ids.push(EXISTING_BALANCER_GROUP.to_owned());
                return rule;
            }
            Peer::Vpc => self.vpc().0.and_then(|vpc| vpc.cidr_blocks.into_iter().next()),
            Peer::Anywhere => Some("0.0.0.0/0".to_owned()),
            Peer::Clients => Some("203.0.113.0/24".to_owned()),
        };
        rule.cidr_blocks.extend(range);
        rule
    }

    fn security_group(&self, object: &Object, id: String) -> SecurityGroup {
        let mut ingress = self.all(|of, is| match is {
            Wanted::Admits { traffic, from } if of == object => Some(self.rule(Some(*traffic), from)),
            _ => None,
        });
        if object.kind == Kind::SecurityGroup && object.exists && !self.has(object, &Wanted::RoomForRule) {
            ingress.push(SecurityGroupRule {
                protocol: "udp".to_owned(),
                ports: Some((1, 1)),
                cidr_blocks: (0..60).map(|number| format!("198.51.100.{number}/32")).collect(),
                ..SecurityGroupRule::default()
            });
        }
        SecurityGroup {
            name: object.name.clone(),
            vpc_id: self.vpc_object().map(self::id).unwrap_or_default(),
            owner_id: ACCOUNT.to_owned(),
            tags: self.tags(object),
            ingress,
            egress: self.all(|of, is| match is {
                Wanted::Allows { traffic, to } if of == object => Some(self.rule(*traffic, to)),
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
