//! The infrastructure that has exactly what a list of requirements asks for, and otherwise what breaks rules.

use std::collections::BTreeMap;

use capa_api::common::ControlPlaneTarget;
use capa_api::network::{NetworkSubnet, NetworkVpc};

use super::super::*;
use crate::facts::{
    AclEntry, Answer, Demand, DhcpOptions, Facts, HealthCheck, Listener, LoadBalancer, NatGateway, NetworkAcl, Route,
    RouteTable, RouteTarget, SecurityGroup, SecurityGroupRule, Subnet, TargetGroup, Vpc, VpcDns, Zone as ZoneFact,
};
use crate::reach::Traffic;
use crate::rules::traffic::AclTraffic;

const ACCOUNT: &str = "111122223333";
const EXISTING_BALANCER_GROUP: &str = "sg-0000000f";
/// Range of a VPC that exists, with which no cluster of the tests overlaps.
const EXISTING_RANGE: &str = "172.20.0.0/16";

/// Id of an object: a new one gets an id that has its name.
pub(super) fn id(object: &Object) -> String {
    let prefix = match object.kind {
        _ if object.exists => return object.name.clone(),
        Kind::Vpc => "vpc",
        Kind::Subnet => "subnet",
        Kind::SecurityGroup => "sg",
        Kind::NatGateway => "nat",
        Kind::TargetGroup => "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup",
        _ => "new",
    };
    format!("{prefix}-{}", object.name)
}

fn zone_name(zone: &Zone, subnet: &Object) -> String {
    match zone {
        Zone::Named(name) => name.clone(),
        Zone::Free(_) if subnet.exists => format!("zone-of-{}", subnet.name),
        Zone::Free(number) => format!("free-{number}"),
    }
}

/// The demand of users who have created what was missing, and name it now.
pub(super) fn completed(demand: &Demand, requirements: &Requirements) -> Demand {
    let mut demand = demand.clone();
    let network = &mut demand.network;
    let new = |requirement: &&Requirement| !requirement.object.exists;
    for Requirement { object, wanted, .. } in requirements.requirements.iter().filter(new) {
        let id = id(object);
        match wanted {
            Wanted::Vpc { .. } => {
                network.vpc = Some(NetworkVpc {
                    id,
                    ..NetworkVpc::default()
                });
            }
            Wanted::Subnet(SubnetUse {
                is_public,
                has_machines: true,
            }) => {
                let zone = requirements.requirements.iter().find_map(|other| match &other.wanted {
                    Wanted::Zone(zone) if other.object == *object => Some(zone_name(zone, object)),
                    _ => None,
                });
                network.subnets.push(NetworkSubnet {
                    id,
                    availability_zone: zone,
                    public: Some(*is_public),
                    ..NetworkSubnet::default()
                });
            }
            Wanted::SecurityGroup(purpose) => {
                let groups = network.security_groups.get_or_insert_default();
                match purpose {
                    GroupUse::Machines => groups.all.push(id),
                    GroupUse::ControlPlane => groups.control_plane.push(id),
                    GroupUse::Workers => groups.worker.push(id),
                    GroupUse::LoadBalancer => {}
                }
            }
            Wanted::TargetGroup { .. } => network.control_plane_targets.push(ControlPlaneTarget {
                target_group_arn: Some(id),
                ..ControlPlaneTarget::default()
            }),
            _ => {}
        }
    }
    demand
}

/// A world that grows by one requirement after another.
pub(super) struct World<'a> {
    demand: &'a Demand,
    requirements: Vec<&'a Requirement>,
}

impl<'a> World<'a> {
    pub(super) const fn new(demand: &'a Demand, requirements: Vec<&'a Requirement>) -> Self {
        Self { demand, requirements }
    }

    fn all<T>(&self, wanted: impl Fn(&'a Object, &'a Wanted) -> Option<T>) -> Vec<T> {
        let requirements = self.requirements.iter();
        requirements
            .filter_map(|requirement| wanted(&requirement.object, &requirement.wanted))
            .collect()
    }

    fn of<T>(&self, object: &Object, wanted: impl Fn(&'a Wanted) -> Option<T>) -> Option<T> {
        let found = self.all(|of, is| if of == object { wanted(is) } else { None });
        found.into_iter().next()
    }

    fn has(&self, object: &Object, wanted: &Wanted) -> bool {
        self.of(object, |is| (is == wanted).then_some(())).is_some()
    }

    fn tags(&self, object: &Object) -> BTreeMap<String, String> {
        let tags = self.all(|of, is| match is {
            Wanted::Tag { key, value } if of == object => Some((key.clone(), (*value).to_owned())),
            _ => None,
        });
        tags.into_iter().collect()
    }

    /// The facts.
    pub(super) fn facts(&self) -> Facts {
        let subnets = self.subnets();
        let zones = subnets.iter().map(|subnet| ZoneFact {
            name: subnet.zone.clone(),
            zone_type: "availability-zone".to_owned(),
            state: "available".to_owned(),
        });
        let resolves = self.all(|_, wanted| (*wanted == Wanted::Resolves).then_some("10.0.0.9".to_owned()));
        let (vpc, vpc_dns, dhcp_options) = self.vpc();
        Facts {
            demand: self.demand.clone(),
            account_id: Answer::Found(ACCOUNT.to_owned()),
            zones: Answer::Found(zones.collect()),
            vpc: Answer::Found(vpc),
            vpc_dns: Answer::Found(vpc_dns),
            dhcp_options: Answer::Found(dhcp_options),
            route_tables: Answer::Found(self.route_tables()),
            nat_gateways: Answer::Found(self.nat_gateways()),
            network_acls: Answer::Found(self.network_acls()),
            vpc_endpoints: Answer::Found(vec![]),
            security_groups: Answer::Found(self.security_groups()),
            target_groups: Answer::Found(self.target_groups()),
            load_balancers: Answer::Found(self.load_balancers(&subnets)),
            endpoint_addresses: Answer::Found(resolves),
            subnets: Answer::Found(subnets),
            ..Facts::default()
        }
    }

    fn vpc_object(&self) -> Option<&'a Object> {
        self.all(|object, wanted| matches!(wanted, Wanted::Vpc { .. }).then_some(object))
            .pop()
    }

    fn range(&self) -> String {
        let of_new = self.all(|_, wanted| match wanted {
            Wanted::Vpc { cidr_block } => cidr_block.clone(),
            _ => None,
        });
        of_new.into_iter().next().unwrap_or_else(|| EXISTING_RANGE.to_owned())
    }

    fn purpose(&self, object: &Object) -> Option<&'a SubnetUse> {
        self.of(object, |is| match is {
            Wanted::Subnet(purpose) => Some(purpose),
            _ => None,
        })
    }

    fn vpc(&self) -> (Option<Vpc>, VpcDns, Option<DhcpOptions>) {
        let Some(object) = self.vpc_object() else {
            return (None, VpcDns::default(), None);
        };
        let when = |is: bool, value: &str, otherwise: &str| if is { value } else { otherwise }.to_owned();
        let is_apart = self.of(object, |is| matches!(is, Wanted::ApartFrom(_)).then_some(()));
        let overlapping = self.demand.cluster_cidrs.first().map_or("", String::as_str);
        let vpc = Vpc {
            id: id(object),
            state: "available".to_owned(),
            owner_id: when(self.has(object, &Wanted::OwnAccount), ACCOUNT, "999999999999"),
            cidr_blocks: vec![when(
                is_apart.is_some() || overlapping.is_empty(),
                &self.range(),
                overlapping,
            )],
            ipv6_cidr_blocks: self
                .has(object, &Wanted::Ipv6)
                .then(|| "2001:db8::/56".to_owned())
                .into_iter()
                .collect(),
            tenancy: when(self.has(object, &Wanted::DefaultTenancy), "default", "dedicated"),
            dhcp_options_id: "dopt-1".to_owned(),
        };
        let dns = VpcDns {
            support: self.has(object, &Wanted::DnsSupport),
            hostnames: self.has(object, &Wanted::DnsHostnames),
        };
        let dhcp = self.of(object, |is| match is {
            Wanted::DhcpOptions { domain } => Some(DhcpOptions {
                id: "dopt-1".to_owned(),
                domain_names: domain.iter().cloned().collect(),
                domain_name_servers: vec!["AmazonProvidedDNS".to_owned()],
            }),
            _ => None,
        });
        (Some(vpc), dns, dhcp)
    }

    fn subnet_objects(&self) -> Vec<&'a Object> {
        self.all(|object, wanted| matches!(wanted, Wanted::Subnet(_)).then_some(object))
    }

    fn zone(&self, object: &Object) -> Option<String> {
        self.of(object, |is| match is {
            Wanted::Zone(zone) => Some(zone_name(zone, object)),
            _ => None,
        })
    }

    fn subnets(&self) -> Vec<Subnet> {
        let objects = self.subnet_objects().into_iter().zip(1..);
        let subnet = |(object, number): (&Object, u8)| {
            // A subnet whose zone nobody asks for lies where another one of its kind does.
            let others = self.all(|other, wanted| match wanted {
                Wanted::Subnet(other_use) if other != object && Some(other_use) == self.purpose(object) => Some(other),
                _ => None,
            });
            let declared = self
                .demand
                .network
                .subnets
                .iter()
                .find(|subnet| subnet.id == id(object));
            let declared = declared.and_then(|subnet| subnet.availability_zone.clone());
            let mut elsewhere = others.into_iter().filter_map(|other| self.zone(other));
            let elsewhere = elsewhere.find(|zone| Some(zone) != declared.as_ref());
            let mut tags = self.tags(object);
            if object.exists && !self.has(object, &Wanted::RoomForTag) {
                tags.extend((0..50).map(|number| (format!("tag-{number}"), String::new())));
            }
            Subnet {
                id: id(object),
                vpc_id: self.vpc_object().map(id).unwrap_or_default(),
                state: "available".to_owned(),
                zone: self
                    .zone(object)
                    .or(elsewhere)
                    .unwrap_or_else(|| "elsewhere".to_owned()),
                cidr_block: self.range().replace(".0.0/16", &format!(".{number}.0/24")),
                ipv6_cidr_blocks: if self.has(object, &Wanted::Ipv6) {
                    vec![format!("2001:db8:0:{number}::/64")]
                } else {
                    vec![]
                },
                assigns_ipv6: self.has(object, &Wanted::Ipv6),
                assigns_public_ip: false,
                free_addresses: self
                    .of(object, |is| match is {
                        Wanted::FreeAddresses(count) => Some(*count),
                        _ => None,
                    })
                    .unwrap_or_default(),
                outpost_arn: (!self.has(object, &Wanted::AvailabilityZone)).then(|| "outpost".to_owned()),
                tags,
            }
        };
        objects.map(subnet).collect()
    }

    fn default_route(&self, object: &Object) -> Option<RouteTarget> {
        let has_gateway = |gateway: &Option<Object>| {
            let gateway = gateway.as_ref();
            gateway.is_none_or(|gateway| self.has(gateway, &Wanted::InternetGateway))
        };
        self.of(object, |is| match is {
            Wanted::DefaultRoute(WayOut::NatGateway(gateway)) => Some(RouteTarget::NatGateway(id(gateway))),
            Wanted::DefaultRoute(WayOut::InternetGateway(gateway)) if has_gateway(gateway) => {
                Some(RouteTarget::InternetGateway("igw-1".to_owned()))
            }
            Wanted::DefaultRoute(WayOut::AnyOrEndpoints(_)) => Some(RouteTarget::TransitGateway("tgw-1".to_owned())),
            _ => None,
        })
    }

    fn route_tables(&self) -> Vec<RouteTable> {
        let table = |object: &Object| RouteTable {
            id: format!("rtb-{}", object.name),
            is_main: false,
            subnet_ids: vec![id(object)],
            routes: self
                .default_route(object)
                .into_iter()
                .map(|target| Route {
                    destination: "0.0.0.0/0".to_owned(),
                    target,
                    is_blackhole: false,
                })
                .collect(),
        };
        self.subnet_objects().into_iter().map(table).collect()
    }

    /// A NAT gateway works in a public subnet.
    fn nat_gateways(&self) -> Vec<NatGateway> {
        self.all(|object, wanted| match wanted {
            Wanted::NatGateway(subnet) => {
                let is_public = matches!(self.default_route(subnet), Some(RouteTarget::InternetGateway(_)));
                let works = is_public && self.subnet_objects().contains(&subnet);
                Some(NatGateway {
                    id: id(object),
                    subnet_id: id(subnet),
                    state: if works { "available" } else { "failed" }.to_owned(),
                })
            }
            _ => None,
        })
    }

    fn network_acls(&self) -> Vec<NetworkAcl> {
        let entry = |(traffic, number): (&AclTraffic, i32)| AclEntry {
            number,
            is_egress: traffic.is_egress,
            allows: true,
            protocol: "6".to_owned(),
            cidr_block: if traffic.with_subnets {
                self.range()
            } else {
                "0.0.0.0/0".to_owned()
            },
            ports: traffic
                .traffic
                .ports
                .map(|(first, last)| (u16::try_from(first).unwrap(), u16::try_from(last).unwrap())),
        };
        let list = |object: &'a Object| {
            let wanted = self.of(object, |is| match is {
                Wanted::NetworkAcl(traffic) => Some(traffic),
                _ => None,
            });
            NetworkAcl {
                id: format!("acl-{}", object.name),
                subnet_ids: vec![id(object)],
                entries: wanted.into_iter().flatten().zip(1..).map(entry).collect(),
            }
        };
        self.subnet_objects().into_iter().map(list).collect()
    }

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

    fn security_groups(&self) -> Vec<SecurityGroup> {
        self.all(|object, wanted| match wanted {
            Wanted::SecurityGroup(_) => Some(self.security_group(object, id(object))),
            Wanted::LoadBalancer if object.exists => {
                Some(self.security_group(object, EXISTING_BALANCER_GROUP.to_owned()))
            }
            _ => None,
        })
    }

    fn listeners(&self) -> Vec<Listener> {
        self.all(|object, wanted| match wanted {
            Wanted::Listener { port, target_groups } if self.has(object, &Wanted::LoadBalancer) => Some(Listener {
                protocol: "TCP".to_owned(),
                port: *port,
                target_group_arns: target_groups.iter().map(id).collect(),
            }),
            _ => None,
        })
    }

    fn target_groups(&self) -> Vec<TargetGroup> {
        let forwarded: Vec<String> = self
            .listeners()
            .into_iter()
            .flat_map(|listener| listener.target_group_arns)
            .collect();
        let group = |object: &'a Object, port: i32| {
            let check = self.of(object, |is| match is {
                Wanted::HealthCheck {
                    path,
                    interval_seconds,
                    threshold,
                } => Some(("HTTPS", Some((*path).to_owned()), *interval_seconds, *threshold)),
                _ => None,
            });
            // The health check that AWS gives a target group without one.
            let (protocol, path, interval_seconds, threshold) = check.unwrap_or(("TCP", None, 30, 3));
            let attributes = self.all(|of, is| match is {
                Wanted::Attribute { key, value } if of == object => Some(((*key).to_owned(), (*value).to_owned())),
                _ => None,
            });
            TargetGroup {
                arn: id(object),
                protocol: "TCP".to_owned(),
                port,
                vpc_id: self.vpc_object().map(id).unwrap_or_default(),
                target_type: "instance".to_owned(),
                health_check: HealthCheck {
                    protocol: protocol.to_owned(),
                    port: "traffic-port".to_owned(),
                    path,
                    interval_seconds,
                    healthy_threshold: threshold,
                    unhealthy_threshold: threshold,
                },
                load_balancer_arns: if forwarded.contains(&id(object)) {
                    vec!["balancer".to_owned()]
                } else {
                    vec![]
                },
                attributes: Answer::Found(attributes.into_iter().collect()),
            }
        };
        self.all(|object, wanted| match wanted {
            Wanted::TargetGroup { port } => Some(group(object, *port)),
            _ => None,
        })
    }

    fn load_balancers(&self, subnets: &[Subnet]) -> Vec<LoadBalancer> {
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
                balancer_type: "network".to_owned(),
                scheme: "internal".to_owned(),
                state: "active".to_owned(),
                vpc_id: self.vpc_object().map(id).unwrap_or_default(),
                ip_address_type: if self.has(object, &Wanted::DualStack) {
                    "dualstack"
                } else {
                    "ipv4"
                }
                .to_owned(),
                zones: used.map(|subnet| (subnet.zone.clone(), subnet.id.clone())).collect(),
                security_group_ids: if object.exists {
                    vec![EXISTING_BALANCER_GROUP.to_owned()]
                } else {
                    group
                        .iter()
                        .cloned()
                        .chain(["sg-load-balancer".to_owned()])
                        .take(1)
                        .collect()
                },
                attributes: Answer::Found(BTreeMap::new()),
                listeners: Answer::Found(self.listeners()),
            }
        };
        objects.into_iter().map(balancer).collect()
    }
}
