//! Rules about the routes of subnets.

use std::collections::BTreeSet;

use capa_api::cluster::status::FindingSeverity::{Blocking, Warning};

use crate::facts::{Facts, MachineDemand, NatGatewayState, Route, RouteTarget, Subnet};
use crate::lookup::{default_destination, has_ipv4};
use crate::rule::{Category::Subnets, Checked, Problem, Rule, ShownBy, Skipped, applies, of_each};
use crate::rules::endpoints::missing_services;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "S5",
        category: Subnets,
        severity: Blocking,
        title: "Every private subnet has a default route to a NAT gateway, transit gateway or appliance, or all VPC \
                endpoints that nodes need",
        breaks: "Nodes cannot pull images and never join the cluster.",
        shown_by: ShownBy::Moto,
        check: private_routes,
    },
    Rule {
        id: "S6",
        category: Subnets,
        severity: Blocking,
        title: "The subnets of machines with a public address have a default route to an internet gateway",
        breaks: "The machines have addresses that nobody reaches, and reach nobody.",
        shown_by: ShownBy::Moto,
        check: public_routes,
    },
    Rule {
        id: "S7",
        category: Subnets,
        severity: Warning,
        title: "The NAT gateway of a subnet lies in the same zone",
        breaks: "The outage of another zone cuts the nodes off, and traffic between zones costs money.",
        shown_by: ShownBy::Moto,
        check: nat_zones,
    },
];

/// The default route of a subnet: that for IPv4, or for IPv6 where the subnet has no IPv4.
fn default_route<'a>(facts: &'a Facts, subnet: &Subnet) -> Result<Option<&'a Route>, Skipped> {
    let table = facts.route_table(subnet)?;
    Ok(table.routes.iter().find(|route| route.destination == default_destination(subnet)))
}

/// Whether the default route of a subnet leads to an internet gateway.
pub(super) fn is_public(facts: &Facts, subnet: &Subnet) -> Result<bool, Skipped> {
    let route = default_route(facts, subnet)?;
    Ok(route.is_some_and(|route| matches!(route.target, RouteTarget::InternetGateway(_)) && !route.is_blackhole))
}

/// The machines that may be launched in a subnet.
fn machines_of<'a>(facts: &'a Facts, subnet: &Subnet) -> impl Iterator<Item = &'a MachineDemand> {
    let network = &facts.demand.network;
    facts.demand.machines.iter().filter(|machines| machines.subnet_ids(network).contains(subnet.id.as_str()))
}

/// Whether the machines ask for a public address.
fn want_public_address(machines: &MachineDemand) -> bool {
    machines.spec.public_ip == Some(true)
}

fn private_routes(facts: &Facts) -> Checked {
    of_each(facts.subnets_of(None)?.into_iter().map(|subnet| private_route(facts, subnet)))
}

fn private_route(facts: &Facts, subnet: &Subnet) -> Result<Option<Problem>, Skipped> {
    let id = &subnet.id;
    let route = default_route(facts, subnet)?;
    let (message, fix) = match route {
        // Machines with public addresses use such a route, which S6 checks.
        Some(route) if matches!(route.target, RouteTarget::InternetGateway(_)) && !route.is_blackhole => {
            let machines: Vec<_> = machines_of(facts, subnet).collect();
            let want_addresses = machines.iter().any(|machines| want_public_address(machines));
            if machines.is_empty() || want_addresses || subnet.assigns_public_ip || !has_ipv4(subnet) {
                return Ok(None);
            }
            (
                format!("{id} is public, and its machines have no public address"),
                "use a private subnet, or set publicIP: true",
            )
        }
        Some(route) if route.is_blackhole => {
            (format!("the default route of {id} leads to {}, which is gone", route.target.id()), "replace the route")
        }
        Some(route) if matches!(route.target, RouteTarget::Local | RouteTarget::VpcEndpoint(_)) => return Ok(None),
        Some(route) => match nat_problem(facts, &route.target)? {
            None => return Ok(None),
            Some(problem) => (format!("the default route of {id} leads to {problem}"), "replace the route"),
        },
        None if missing_services(facts, subnet)?.is_empty() => return Ok(None),
        None => (
            format!("{id} has no default route, and not all VPC endpoints that nodes need"),
            "add a default route to a NAT gateway, or the VPC endpoints of E2",
        ),
    };
    let target = if has_ipv4(subnet) { "--nat-gateway-id <nat>" } else { "--egress-only-internet-gateway-id <eigw>" };
    let command = set_default_route(facts, subnet, route, target)?;
    Ok(Some(Problem::new(id, message, fix).fixed_by(command)))
}

/// The command that gives a route table a default route. EC2 refuses to create a route that exists.
fn set_default_route(
    facts: &Facts,
    subnet: &Subnet,
    existing: Option<&Route>,
    target: &str,
) -> Result<String, Skipped> {
    let table = &facts.route_table(subnet)?.id;
    let action = if existing.is_some() { "replace-route" } else { "create-route" };
    let flag = if has_ipv4(subnet) { "--destination-cidr-block" } else { "--destination-ipv6-cidr-block" };
    let destination = default_destination(subnet);
    Ok(facts.aws(&format!("ec2 {action} --route-table-id {table} {flag} {destination} {target}")))
}

fn nat_problem(facts: &Facts, target: &RouteTarget) -> Result<Option<String>, Skipped> {
    let RouteTarget::NatGateway(id) = target else {
        return Ok(None);
    };
    let gateways = facts.of_network(&facts.nat_gateways, "the NAT gateways")?;
    Ok(match gateways.iter().find(|gateway| gateway.id == *id) {
        // A route to a gateway that does not exist any more is a blackhole there, too.
        None if facts.is_in_shared_vpc() => None,
        None => Some(format!("{id}, which does not exist")),
        Some(gateway) if !matches!(gateway.state, NatGatewayState::Available | NatGatewayState::Pending) => {
            Some(format!("{id}, which is {}", gateway.state))
        }
        Some(_) => None,
    })
}

fn public_routes(facts: &Facts) -> Checked {
    let subnets = facts.subnets_of(None)?;
    let is_asked = |subnet: &&Subnet| machines_of(facts, subnet).any(want_public_address);
    let public: Vec<&Subnet> = subnets.into_iter().filter(is_asked).collect();
    applies(!public.is_empty())?;
    let mut problems = Vec::new();
    for subnet in public {
        if !is_public(facts, subnet)? {
            let message = format!("{} has no default route to an internet gateway", subnet.id);
            let fix = "add the route, or set publicIP: false";
            let route = default_route(facts, subnet)?;
            let command = set_default_route(facts, subnet, route, "--gateway-id <igw>")?;
            problems.push(Problem::new(&subnet.id, message, fix).fixed_by(command));
        }
    }
    Ok(problems)
}

fn nat_zones(facts: &Facts) -> Checked {
    let all = facts.of_network(&facts.subnets, "the subnets")?;
    let gateways = facts.of_network(&facts.nat_gateways, "the NAT gateways")?;
    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    for subnet in facts.subnets_of(None)? {
        let Some(RouteTarget::NatGateway(id)) = default_route(facts, subnet)?.map(|route| &route.target) else {
            continue;
        };
        used.insert(id);
        let gateway = gateways.iter().find(|gateway| gateway.id == *id);
        let place = gateway.and_then(|gateway| all.iter().find(|subnet| subnet.id == gateway.subnet_id));
        if let Some(place) = place.filter(|place| place.zone != subnet.zone) {
            let message = format!("{} in {} uses {id} in {}", subnet.id, subnet.zone, place.zone);
            let fix = "create a NAT gateway in the zone of the subnet, and route to it";
            problems.push(Problem::new(&subnet.id, message, fix).fixed_by(
                facts.aws("ec2 create-nat-gateway --subnet-id <public subnet of the zone> --allocation-id <address>"),
            ));
        }
    }
    applies(!used.is_empty())?;
    Ok(problems)
}
