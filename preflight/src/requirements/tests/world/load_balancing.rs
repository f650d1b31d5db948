//! Target groups and load balancers.

use std::collections::BTreeMap;

use capa_api::cluster::load_balancer::{HealthCheckTiming, LoadBalancerScheme};
use capa_cloud::elb::{LoadBalancerKind, LoadBalancerState, Protocol, TargetType};
use capa_cloud::managed::Seen;

use super::{EXISTING_BALANCER_GROUP, World, id};
use crate::facts::{Answer, HealthCheck, IpAddressType, Listener, LoadBalancer, Subnet, TargetGroup};
use crate::requirements::{GroupUse, Object, Wanted};

/// ARN of the load balancer.
pub(super) const BALANCER: &str = "balancer";

impl<'a> World<'a> {
    pub(super) fn listeners(&self) -> Vec<Listener> {
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
            TargetGroup {
                arn: id(object),
                name: String::new(),
                protocol: Protocol::Tcp,
                port,
                vpc_id: self.vpc_object().map(id).unwrap_or_default(),
                target_type: TargetType::Instance,
                health_check: HealthCheck {
                    protocol,
                    port: "traffic-port".to_owned(),
                    path,
                    timing: HealthCheckTiming {
                        interval_seconds: interval_seconds.into(),
                        timeout_seconds: 10,
                        threshold_count: threshold.into(),
                        unhealthy_threshold_count: threshold.into(),
                    },
                },
                load_balancer_arns: if forwarded.contains(&id(object)) { vec![BALANCER.to_owned()] } else { vec![] },
                attributes: Seen::NotAsked,
                tags: [].into(),
            }
        };
        self.all(|object, wanted| match wanted {
            Wanted::TargetGroup { port } => Some(group(object, *port)),
            _ => None,
        })
    }

    /// The attributes of all target groups and load balancers.
    pub(super) fn attributes(&self) -> BTreeMap<String, Answer<BTreeMap<String, String>>> {
        let of_group = |object: &'a Object| {
            let attributes = self.all(|of, is| match is {
                Wanted::Attribute { key, value } if of == object => Some(((*key).to_owned(), (*value).to_owned())),
                _ => None,
            });
            (id(object), Answer::Found(attributes.into_iter().collect()))
        };
        let groups = self.all(|object, wanted| matches!(wanted, Wanted::TargetGroup { .. }).then(|| of_group(object)));
        let balancer = (BALANCER.to_owned(), Answer::Found(BTreeMap::new()));
        groups.into_iter().chain([balancer]).collect()
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
                arn: BALANCER.to_owned(),
                name: "api".to_owned(),
                dns_name: host.unwrap_or_default(),
                kind: LoadBalancerKind::Network,
                scheme: LoadBalancerScheme::Internal,
                state: LoadBalancerState::Active,
                vpc_id: self.vpc_object().map(id).unwrap_or_default(),
                ip_address_type: if self.has(object, &Wanted::DualStack) {
                    IpAddressType::Dualstack
                } else {
                    IpAddressType::Ipv4
                },
                subnets: used.map(|subnet| (subnet.zone.clone(), subnet.id.clone())).collect(),
                security_group_ids: if object.exists {
                    vec![EXISTING_BALANCER_GROUP.to_owned()]
                } else {
                    group.iter().cloned().chain(["sg-load-balancer".to_owned()]).take(1).collect()
                },
                attributes: Seen::NotAsked,
                tags: [].into(),
            }
        };
        objects.into_iter().map(balancer).collect()
    }
}
