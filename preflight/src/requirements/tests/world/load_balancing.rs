//! Target groups and load balancers.

use std::collections::BTreeMap;

use capa_api::cluster::load_balancer::LoadBalancerScheme;
use capa_cloud::elb::{LoadBalancerKind, LoadBalancerState, Protocol, TargetType};

use super::{EXISTING_BALANCER_GROUP, World, id};
use crate::facts::{Answer, HealthCheck, IpAddressType, Listener, LoadBalancer, Subnet, TargetGroup};
use crate::requirements::{GroupUse, Object, Wanted};

impl<'a> World<'a> {
    fn listeners(&self) -> Vec<Listener> {
        self.all(|object, wanted| match wanted {
            Wanted::Listener { port, target_groups } if self.has(object, &Wanted::LoadBalancer) => Some(Listener {
                protocol: Protocol::Tcp,
                port: *port,
                target_group_arns: target_groups.iter().map(id).collect(),
                ..Listener::default()
            }),
            _ => None,
        })
    }

    pub(super) fn target_groups(&self) -> Vec<TargetGroup> {
        let forwarded: Vec<String> =
            self.listeners().into_iter().flat_map(|listener| listener.target_group_arns).collect();
        let group = |object: &'a Object, port: i32| {
            let check = self.of(object, |is| match is {
                Wanted::HealthCheck { path, interval_seconds, threshold } => {
                    Some((Protocol::Https, Some((*path).to_owned()), *interval_seconds, *threshold))
                }
                _ => None,
            });
            // The health check that AWS gives a target group without one.
            let (protocol, path, interval_seconds, threshold) = check.unwrap_or((Protocol::Tcp, None, 30, 3));
            let attributes = self.all(|of, is| match is {
                Wanted::Attribute { key, value } if of == object => Some(((*key).to_owned(), (*value).to_owned())),
                _ => None,
            });
            TargetGroup {
                arn: id(object),
                protocol: Protocol::Tcp,
                port,
                vpc_id: self.vpc_object().map(id).unwrap_or_default(),
                target_type: TargetType::Instance,
                health_check: HealthCheck {
                    protocol,
                    port: "traffic-port".to_owned(),
                    path,
                    interval_seconds,
                    healthy_threshold: threshold,
                    unhealthy_threshold: threshold,
                },
                load_balancer_arns: if forwarded.contains(&id(object)) { vec!["balancer".to_owned()] } else { vec![] },
                attributes: Answer::Found(attributes.into_iter().collect()),
            }
        };
        self.all(|object, wanted| match wanted {
            Wanted::TargetGroup { port } => Some(group(object, *port)),
            _ => None,
        })
    }

    pub(super) fn load_balancers(&self, subnets: &[Subnet]) -> Vec<LoadBalancer> {
        let objects = self.all(|object, wanted| (*wanted == Wanted::LoadBalancer).then_some(object));
        let group = self.all(|object, wanted| {
            let is_of_balancer = *wanted == Wanted::SecurityGroup(GroupUse::LoadBalancer);
            is_of_balancer.then(|| id(object))
        });
        let balancer = |object: &Object| {
            let used = self.of(object, |is| match is {
                Wanted::Subnets(subnets) => Some(subnets.iter().map(id).collect::<Vec<_>>()),
                _ => None,
            });
            let used = used.unwrap_or_default();
            let used = subnets.iter().filter(|subnet| used.contains(&subnet.id));
            let host = self.demand.endpoint.as_ref().map(|endpoint| endpoint.host.clone());
            LoadBalancer {
                arn: "balancer".to_owned(),
                name: "api".to_owned(),
                dns_name: host.unwrap_or_default(),
                balancer_type: LoadBalancerKind::Network,
                scheme: LoadBalancerScheme::Internal,
                state: LoadBalancerState::Active,
                vpc_id: self.vpc_object().map(id).unwrap_or_default(),
                ip_address_type: if self.has(object, &Wanted::DualStack) {
                    IpAddressType::Dualstack
                } else {
                    IpAddressType::Ipv4
                },
                zones: used.map(|subnet| (subnet.zone.clone(), subnet.id.clone())).collect(),
                security_group_ids: if object.exists {
                    vec![EXISTING_BALANCER_GROUP.to_owned()]
                } else {
                    group.iter().cloned().chain(["sg-load-balancer".to_owned()]).take(1).collect()
                },
                attributes: Answer::Found(BTreeMap::new()),
                listeners: Answer::Found(self.listeners()),
            }
        };
        objects.into_iter().map(balancer).collect()
    }
}
