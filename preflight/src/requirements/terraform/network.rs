//! The VPC, its subnets and their routes.

use std::collections::BTreeSet;

use ::hcl::Expression;
use ::hcl::structure::Block;

use super::Document;
use super::hcl::{at, attribute, block, call, id, label, path, resource, value, variable};
use crate::requirements::object::Object;
use crate::requirements::wanted::{Wanted, WayOut, Zone};

/// Minimum number of bits by which the prefixes of subnets are longer than the prefix of the VPC.
const SUBNET_BITS: u32 = 4;
/// The same number for IPv6, where VPCs have a prefix of 56 bits and subnets one of 64 bits.
const IPV6_SUBNET_BITS: u32 = 8;

pub(super) fn blocks(document: &Document<'_>) -> Vec<Block> {
    let mut blocks = zones(document);
    let Some(vpc) = document.vpc() else {
        return blocks;
    };
    let subnets: Vec<&Object> = document
        .of(false)
        .filter(|requirement| matches!(requirement.wanted, Wanted::Subnet(_)))
        .map(|requirement| &requirement.object)
        .collect();
    let network = Network { document, vpc, bits: bits(subnets.len()), has_ipv6: document.wants(vpc, &Wanted::Ipv6) };
    if vpc.exists {
        blocks.extend((!subnets.is_empty()).then(|| network.ranges("subnet_cidr_blocks", "IPv4")));
        let wants_ipv6 = network.has_ipv6 && !subnets.is_empty();
        blocks.extend(wants_ipv6.then(|| network.ranges("subnet_ipv6_cidr_blocks", "IPv6")));
    } else {
        blocks.extend(network.vpc());
    }
    for (subnet, number) in subnets.into_iter().zip(0_u32..) {
        blocks.push(network.subnet(subnet, number));
        blocks.extend(network.routes(subnet));
    }
    for requirement in document.of(false) {
        if let Wanted::NatGateway(subnet) = &requirement.wanted {
            blocks.extend(network.nat_gateway(&requirement.object, subnet));
        }
    }
    blocks
}

/// Whether this is a default route to an internet gateway that the configuration does not create.
pub(super) const fn leads_to_existing_gateway(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::DefaultRoute(WayOut::InternetGateway(None)))
}

/// The number of bits that distinguish this many subnets.
fn bits(subnets: usize) -> u32 {
    subnets.next_power_of_two().trailing_zeros().max(SUBNET_BITS)
}

/// A data source for the zones in which new subnets can lie: those that no subnet names. Local Zones and Wavelength
/// Zones are excluded, because an account has to opt in to them.
fn zones(document: &Document<'_>) -> Vec<Block> {
    let all = document.requirements.requirements.iter();
    let named: BTreeSet<&str> = all
        .filter_map(|requirement| match &requirement.wanted {
            Wanted::Zone(Zone::Named(zone)) => Some(zone.as_str()),
            _ => None,
        })
        .collect();
    let is_needed = document.of(false).any(|requirement| matches!(requirement.wanted, Wanted::Zone(Zone::Free(_))));
    let filter = Block::builder("filter")
        .add_attribute(attribute("name", "opt-in-status"))
        .add_attribute(attribute("values", vec!["opt-in-not-required"]));
    let named: Vec<&str> = named.into_iter().collect();
    let excluded = (!named.is_empty()).then(|| attribute("exclude_names", named));
    let zones = block("data", "aws_availability_zones", "free")
        .add_attribute(attribute("state", "available"))
        .add_attributes(excluded)
        .add_block(filter.build());
    is_needed.then(|| zones.build()).into_iter().collect()
}

/// The new parts of a network.
struct Network<'a> {
    document: &'a Document<'a>,
    vpc: &'a Object,
    bits: u32,
    has_ipv6: bool,
}

impl<'a> Network<'a> {
    fn vpc(&self) -> Vec<Block> {
        let (document, vpc) = (self.document, self.vpc);
        let cidr_block = document.wanted(vpc).find_map(|wanted| match wanted {
            Wanted::Vpc { cidr_block } => cidr_block.as_deref(),
            _ => None,
        });
        let apart = document.wanted(vpc).find_map(|wanted| match wanted {
            Wanted::ApartFrom(ranges) => Some(format!(", which overlaps none of {}", ranges.join(", "))),
            _ => None,
        });
        let description = format!("IPv4 range of the VPC{}", apart.unwrap_or_default());
        let tenancy = document.wants(vpc, &Wanted::DefaultTenancy);
        // A new VPC has the DHCP options of the region.
        let block = resource("aws_vpc", &label(vpc))
            .add_attribute(attribute("cidr_block", path(&["var", "vpc_cidr_block"])))
            .add_attribute(attribute("enable_dns_support", document.wants(vpc, &Wanted::DnsSupport)))
            .add_attribute(attribute("enable_dns_hostnames", document.wants(vpc, &Wanted::DnsHostnames)))
            .add_attributes(tenancy.then(|| attribute("instance_tenancy", "default")))
            .add_attributes(self.has_ipv6.then(|| attribute("assign_generated_ipv6_cidr_block", true)))
            .add_attribute(attribute("tags", document.tags(vpc)));
        let mut blocks = vec![
            variable("vpc_cidr_block", path(&["string"]).into(), &description, cidr_block.map(Expression::from)),
            block.build(),
        ];
        let gateways = document.of(false).filter(|requirement| requirement.wanted == Wanted::InternetGateway);
        blocks.extend(gateways.map(|requirement| {
            resource("aws_internet_gateway", &label(&requirement.object))
                .add_attribute(attribute("vpc_id", id(vpc)))
                .add_attribute(attribute("tags", document.tags(&requirement.object)))
                .build()
        }));
        if self.has_ipv6 {
            let gateway = resource("aws_egress_only_internet_gateway", "main");
            blocks.push(gateway.add_attribute(attribute("vpc_id", id(vpc))).build());
        }
        blocks
    }

    /// The variable for the ranges of new subnets in an existing VPC. Only the owner of the VPC knows which ranges are
    /// free.
    fn ranges(&self, name: &str, family: &str) -> Block {
        let description = format!("{family} ranges of the new subnets by name: they are free in {}", self.vpc);
        let of = call("map", [path(&["string"]).into()]);
        variable(name, of, &description, None)
    }

    fn subnet(&self, subnet: &'a Object, number: u32) -> Block {
        let (document, vpc) = (self.document, self.vpc);
        let zone = document.wanted(subnet).find_map(|wanted| match wanted {
            Wanted::Zone(Zone::Named(zone)) => Some(zone.as_str().into()),
            Wanted::Zone(Zone::Free(number)) => {
                Some(at(&["data", "aws_availability_zones", "free", "names"], Expression::from(*number)))
            }
            _ => None,
        });
        let range = |variable: &str, of: &str, bits: u32| {
            if vpc.exists {
                at(&["var", variable], subnet.name.as_str())
            } else {
                call("cidrsubnet", [value(vpc, of), bits.into(), number.into()])
            }
        };
        let has_ipv6 = self.has_ipv6 && document.wants(subnet, &Wanted::Ipv6);
        let ipv6 = has_ipv6.then(|| {
            let range = range("subnet_ipv6_cidr_blocks", "ipv6_cidr_block", IPV6_SUBNET_BITS);
            [attribute("ipv6_cidr_block", range), attribute("assign_ipv6_address_on_creation", true)]
        });
        // A new subnet uses the default network ACL of the VPC, which allows all traffic.
        resource("aws_subnet", &label(subnet))
            .add_attribute(attribute("vpc_id", id(vpc)))
            .add_attributes(zone.map(|zone: Expression| attribute("availability_zone", zone)))
            .add_attribute(attribute("cidr_block", range("subnet_cidr_blocks", "cidr_block", self.bits)))
            .add_attributes(ipv6.into_iter().flatten())
            .add_attribute(attribute("tags", document.tags(subnet)))
            .build()
    }

    fn routes(&self, subnet: &'a Object) -> Vec<Block> {
        let name = label(subnet);
        let table_id = || Expression::from(path(&["aws_route_table", &name, "id"]));
        let mut blocks = vec![
            resource("aws_route_table", &name)
                .add_attribute(attribute("vpc_id", id(self.vpc)))
                .add_attribute(attribute("tags", self.document.tags_of_part(subnet)))
                .build(),
            resource("aws_route_table_association", &name)
                .add_attribute(attribute("subnet_id", id(subnet)))
                .add_attribute(attribute("route_table_id", table_id()))
                .build(),
        ];
        let way = self.document.wanted(subnet).find_map(|wanted| match wanted {
            Wanted::DefaultRoute(WayOut::NatGateway(gateway)) => Some(("nat_gateway_id", id(gateway))),
            Wanted::DefaultRoute(WayOut::InternetGateway(Some(gateway))) => Some(("gateway_id", id(gateway))),
            Wanted::DefaultRoute(WayOut::InternetGateway(None)) => {
                Some(("gateway_id", path(&["data", "aws_internet_gateway", "main", "id"]).into()))
            }
            _ => None,
        });
        let Some((key, gateway)) = way else {
            return blocks;
        };
        let ipv6 = (self.has_ipv6 && !self.vpc.exists).then(|| {
            let egress_only = path(&["aws_egress_only_internet_gateway", "main", "id"]);
            let (key, gateway) = match key {
                "nat_gateway_id" => ("egress_only_gateway_id", egress_only.into()),
                key => (key, gateway.clone()),
            };
            (format!("{name}_ipv6"), "destination_ipv6_cidr_block", "::/0", key, gateway)
        });
        let ipv4 = (name.clone(), "destination_cidr_block", "0.0.0.0/0", key, gateway);
        blocks.extend([Some(ipv4), ipv6].into_iter().flatten().map(|(name, of, range, key, gateway)| {
            resource("aws_route", &name)
                .add_attribute(attribute("route_table_id", table_id()))
                .add_attribute(attribute(of, range))
                .add_attribute(attribute(key, gateway))
                .build()
        }));
        blocks
    }

    fn nat_gateway(&self, gateway: &'a Object, subnet: &Object) -> Vec<Block> {
        let name = label(gateway);
        let address = resource("aws_eip", &name)
            .add_attribute(attribute("domain", "vpc"))
            .add_attribute(attribute("tags", self.document.tags(gateway)));
        // AWS refuses a NAT gateway in a subnet without a route to the internet.
        let route = path(&["aws_route", &label(subnet)]);
        let block = resource("aws_nat_gateway", &name)
            .add_attribute(attribute("allocation_id", path(&["aws_eip", &name, "id"])))
            .add_attribute(attribute("subnet_id", id(subnet)))
            .add_attribute(attribute("tags", self.document.tags(gateway)))
            .add_attribute(attribute("depends_on", vec![Expression::from(route)]));
        vec![address.build(), block.build()]
    }
}
