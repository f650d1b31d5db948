//! The VPC and its subnets.

use capa_api::machine::Tenancy;

use super::{ACCOUNT, EXISTING_RANGE, World, id, zone_name};
use crate::facts::{
    AclEntry, Availability, DhcpOptions, IpProtocol, NatGateway, NatGatewayState, NetworkAcl, Route, RouteTable,
    RouteTableAssociation, RouteTarget, Subnet, Vpc, VpcDns,
};
use crate::requirements::{Object, SubnetUse, Wanted, WayOut};
use crate::rules::traffic::AclTraffic;

impl<'a> World<'a> {
    pub(super) fn vpc_object(&self) -> Option<&'a Object> {
        self.all(|object, wanted| matches!(wanted, Wanted::Vpc { .. }).then_some(object)).pop()
    }

    pub(super) fn range(&self) -> String {
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

    pub(super) fn vpc(&self) -> (Option<Vpc>, VpcDns, Option<DhcpOptions>) {
        let Some(object) = self.vpc_object() else {
            return (None, VpcDns::default(), None);
        };
        let when = |is: bool, value: &str, otherwise: &str| if is { value } else { otherwise }.to_owned();
        let is_apart = self.of(object, |is| matches!(is, Wanted::ApartFrom(_)).then_some(()));
        let overlapping = self.demand.cluster_cidrs.first().map_or("", String::as_str);
        let vpc = Vpc {
            id: id(object),
            state: Availability::Available,
            owner_id: when(self.has(object, &Wanted::OwnAccount), ACCOUNT, "999999999999"),
            cidr_blocks: vec![when(is_apart.is_some() || overlapping.is_empty(), &self.range(), overlapping)],
            ipv6_cidr_blocks: self.has(object, &Wanted::Ipv6).then(|| "2001:db8::/56".to_owned()).into_iter().collect(),
            tenancy: if self.has(object, &Wanted::DefaultTenancy) { Tenancy::Default } else { Tenancy::Dedicated },
            dhcp_options_id: Some("dopt-1".to_owned()),
            ..Vpc::default()
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

    pub(super) fn subnets(&self) -> Vec<Subnet> {
        let objects = self.subnet_objects().into_iter().zip(1..);
        let subnet = |(object, number): (&Object, u8)| {
            // A subnet without a required zone lies in the same zone as another subnet of its kind.
            let others = self.all(|other, wanted| match wanted {
                Wanted::Subnet(other_use) if other != object && Some(other_use) == self.purpose(object) => Some(other),
                _ => None,
            });
            let declared = self.demand.network.subnets.iter().find(|subnet| subnet.id == id(object));
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
                state: Availability::Available,
                zone: self.zone(object).or(elsewhere).unwrap_or_else(|| "elsewhere".to_owned()),
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
                hostname_type: None,
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

    pub(super) fn route_tables(&self) -> Vec<RouteTable> {
        let table = |object: &Object| RouteTable {
            id: format!("rtb-{}", object.name),
            associations: vec![RouteTableAssociation {
                id: format!("rtbassoc-{}", object.name),
                subnet_id: id(object),
            }],
            routes: self
                .default_route(object)
                .into_iter()
                .map(|target| Route { destination: "0.0.0.0/0".to_owned(), target, is_blackhole: false })
                .collect(),
            ..RouteTable::default()
        };
        self.subnet_objects().into_iter().map(table).collect()
    }

    /// A NAT gateway works in a public subnet.
    pub(super) fn nat_gateways(&self) -> Vec<NatGateway> {
        self.all(|object, wanted| match wanted {
            Wanted::NatGateway(subnet) => {
                let is_public = matches!(self.default_route(subnet), Some(RouteTarget::InternetGateway(_)));
                let works = is_public && self.subnet_objects().contains(&subnet);
                Some(NatGateway {
                    id: id(object),
                    subnet_id: id(subnet),
                    state: if works { NatGatewayState::Available } else { NatGatewayState::Failed },
                    ..NatGateway::default()
                })
            }
            _ => None,
        })
    }

    pub(super) fn network_acls(&self) -> Vec<NetworkAcl> {
        let entry = |(traffic, number): (&AclTraffic, i32)| AclEntry {
            number,
            is_egress: traffic.is_egress,
            allows: true,
            protocol: IpProtocol::Tcp,
            cidr_block: if traffic.with_subnets { self.range() } else { "0.0.0.0/0".to_owned() },
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
}
