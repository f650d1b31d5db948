//! Subnets, their routes, and the name of the control plane endpoint.

use super::list::List;
use super::object::{Kind, Object};
use super::plan::{MachineSubnet, Plan};
use super::wanted::{SubnetUse, Wanted, WayOut, Zone};
use crate::facts::{Demand, MachineRole};
use crate::rule::Category::{Endpoints, Subnets};
use crate::rules::endpoints::SERVICES;
use crate::rules::subnets::{ADDRESSES_OF_A_LOAD_BALANCER, control_plane_zones, role_tag_key};
use crate::rules::traffic::of_network_acls;

pub(super) fn add(list: &mut List, demand: &Demand, plan: &Plan) {
    for subnet in &plan.subnets {
        add_place(list, demand, plan, subnet);
        add_route(list, plan, subnet);
        add_settings(list, demand, subnet);
    }
    if let Some(gateway) = plan.internet_gateway() {
        let rules: &[&str] = if plan.nat_gateways.is_empty() { &["S6"] } else { &["S5"] };
        list.add(Subnets, rules, &gateway, Wanted::InternetGateway);
    }
    for nat in &plan.nat_gateways {
        if !nat.is_shared {
            add_nat_subnet(list, demand, plan, &nat.subnet, &nat.zone);
        }
        list.add(Subnets, &["S5"], &nat.gateway, Wanted::NatGateway(nat.subnet.clone()));
    }
    if let Some(endpoint) = &demand.endpoint {
        let name = Object::existing(Kind::DnsName, &endpoint.host);
        list.add(Endpoints, &["E3", "L10"], &name, Wanted::Resolves);
    }
}

fn add_place(list: &mut List, demand: &Demand, plan: &Plan, subnet: &MachineSubnet) {
    let object = &subnet.object;
    let serves_control_plane = subnet.roles.contains(&MachineRole::ControlPlane) && demand.has_control_plane_machines();
    let purpose = SubnetUse { is_public: subnet.is_public, has_machines: true };
    list.add(Subnets, &["S1"], object, Wanted::Subnet(purpose));
    let is_spread = serves_control_plane && control_plane_zones(demand).is_some_and(|zones| zones > 1);
    // An unnamed zone matters only for the number of zones and for the NAT gateway.
    let zone = subnet.zone.clone().or_else(|| is_spread.then_some(Zone::Free(0)));
    let is_named = matches!(zone, Some(Zone::Named(_)));
    let has_nat = !object.exists && !plan.nat_gateways.is_empty();
    let wanting = [(is_named, "S2"), (is_spread, "S3"), (has_nat, "S7")];
    let rules: Vec<&str> = wanting.iter().filter(|(is, _)| *is).map(|(_, rule)| *rule).collect();
    if let Some(zone) = zone.filter(|_| !rules.is_empty()) {
        list.add(Subnets, &rules, object, Wanted::Zone(zone));
    }
    if serves_control_plane {
        list.add(Subnets, &["S12"], object, Wanted::AvailabilityZone);
    }
    let addresses = ADDRESSES_OF_A_LOAD_BALANCER + addresses(demand, plan, subnet);
    list.add(Subnets, &["S4"], object, Wanted::FreeAddresses(addresses));
}

/// The number of addresses that machines need in a subnet.
fn addresses(demand: &Demand, plan: &Plan, subnet: &MachineSubnet) -> i32 {
    let of_role = |role: &MachineRole| {
        let machines = demand.machines.iter().filter(|machines| machines.role == *role);
        let replicas: i32 = machines.map(|machines| machines.replicas).sum();
        let serving = plan.subnets.iter().filter(|subnet| subnet.roles.contains(role)).count();
        let serving = i32::try_from(serving).unwrap_or(i32::MAX).max(1);
        replicas / serving + i32::from(replicas % serving > 0)
    };
    subnet.roles.iter().map(of_role).sum()
}

fn add_route(list: &mut List, plan: &Plan, subnet: &MachineSubnet) {
    let own = plan.nat_gateways.iter().find(|nat| subnet.zone.as_ref() == Some(&nat.zone));
    let (rules, way): (&[&str], _) = match own {
        _ if subnet.is_public => (&["S6"], WayOut::InternetGateway(internet_gateway(plan, subnet))),
        Some(nat) if !subnet.object.exists => (&["S5", "S7"], WayOut::NatGateway(nat.gateway.clone())),
        _ => {
            let services = SERVICES.iter().map(|(service, _)| *service);
            (&["S5", "S7", "E2"], WayOut::AnyOrEndpoints(services.collect()))
        }
    };
    list.add(Subnets, rules, &subnet.object, Wanted::DefaultRoute(way));
}

/// The internet gateway of a new subnet, if the gateway is new as well.
fn internet_gateway(plan: &Plan, subnet: &MachineSubnet) -> Option<Object> {
    plan.internet_gateway().filter(|_| !subnet.object.exists)
}

fn add_settings(list: &mut List, demand: &Demand, subnet: &MachineSubnet) {
    let object = &subnet.object;
    list.add(Subnets, &["S8"], object, Wanted::NetworkAcl(of_network_acls(demand)));
    add_tags(list, demand, object, subnet.is_public);
    if object.exists {
        list.add(Subnets, &["S11"], object, Wanted::RoomForTag);
    }
    if demand.wants_ipv6 {
        list.add(Subnets, &["S13"], object, Wanted::Ipv6);
    }
}

fn add_tags(list: &mut List, demand: &Demand, object: &Object, is_public: bool) {
    let tag = |key, value| Wanted::Tag { key, value };
    list.add(Subnets, &["S9"], object, tag(demand.cluster_tag_key(), "shared"));
    let role = role_tag_key(is_public).to_owned();
    list.add(Subnets, &["S10"], object, tag(role, "1"));
}

/// The public subnet of a NAT gateway.
fn add_nat_subnet(list: &mut List, demand: &Demand, plan: &Plan, object: &Object, zone: &Zone) {
    let purpose = SubnetUse { is_public: true, has_machines: false };
    list.add(Subnets, &["S5"], object, Wanted::Subnet(purpose));
    list.add(Subnets, &["S7"], object, Wanted::Zone(zone.clone()));
    let route = WayOut::InternetGateway(plan.internet_gateway());
    list.add(Subnets, &["S5"], object, Wanted::DefaultRoute(route));
    // The cloud controller looks for public subnets when a Service needs a public load balancer.
    add_tags(list, demand, object, true);
}
