//! Rules about subnets.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::cluster::status::FindingSeverity::{Blocking, Warning};
use capa_api::network::ZoneType;

use super::traffic::{AclTraffic, of_network_acls};
use crate::facts::{Demand, Facts, MachineDemand, MachineRole, Subnet};
use crate::lookup::{DEFAULT_ROUTE, has_ipv4, ranges};
use crate::reach::acl_allows;
use crate::rule::{Category::Subnets, Checked, Problem, Rule, ShownBy, Skipped, applies, known};
use crate::rules::routes::is_public;
use crate::traffic_text::traffic_text;

/// Addresses that a load balancer needs in each of its subnets. Source: the user guide for Network Load Balancers.
pub(crate) const ADDRESSES_OF_A_LOAD_BALANCER: i32 = 8;

/// Maximum number of tags of a resource. Source: the user guide of EC2, «Tag your Amazon EC2 resources».
const MAX_TAGS: usize = 50;

/// Key of the tag with which the cloud controller finds subnets for load balancers of Services.
pub(crate) const fn role_tag_key(is_public: bool) -> &'static str {
    if is_public { "kubernetes.io/role/elb" } else { "kubernetes.io/role/internal-elb" }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "S1",
        category: Subnets,
        severity: Blocking,
        title: "Every subnet exists, is available and lies in the VPC",
        breaks: "Launches into the subnet fail.",
        shown_by: ShownBy::Moto,
        check: exist,
    },
    Rule {
        id: "S2",
        category: Subnets,
        severity: Blocking,
        title: "Every subnet lies in its declared zone, and machines have a subnet in each of their failure domains",
        breaks: "Machines without a subnet wait for ever.",
        shown_by: ShownBy::Moto,
        check: zones,
    },
    Rule {
        id: "S3",
        category: Subnets,
        severity: Warning,
        title: "The subnets of the control plane lie in three zones, as far as it has so many machines",
        breaks: "The outage of one zone takes the majority of etcd with it.",
        shown_by: ShownBy::Moto,
        check: spread,
    },
    Rule {
        id: "S4",
        category: Subnets,
        severity: Blocking,
        title: "The subnets have free addresses for all machines, and for load balancers",
        breaks: "Launches fail, or an update cannot add its machine.",
        shown_by: ShownBy::Moto,
        check: addresses,
    },
    Rule {
        id: "S8",
        category: Subnets,
        severity: Warning,
        title: "The network ACLs allow HTTPS out, answers in, and the traffic between nodes",
        breaks: "Nodes reach neither registries nor each other.",
        shown_by: ShownBy::Moto,
        check: network_acls,
    },
    Rule {
        id: "S9",
        category: Subnets,
        severity: Warning,
        title: "The subnets have the tag kubernetes.io/cluster/<cluster> with the value shared or owned",
        breaks: "The cloud controller finds no subnets for load balancers of Services.",
        shown_by: ShownBy::Moto,
        check: cluster_tags,
    },
    Rule {
        id: "S10",
        category: Subnets,
        severity: Warning,
        title: "Private subnets have the tag kubernetes.io/role/internal-elb, public ones kubernetes.io/role/elb",
        breaks: "Load balancers of Services are created in no subnet or in a wrong one.",
        shown_by: ShownBy::Moto,
        check: role_tags,
    },
    Rule {
        id: "S11",
        category: Subnets,
        severity: Warning,
        title: "The subnets have room for another tag",
        breaks: "Nobody can add the tags that the cloud controller looks for.",
        shown_by: ShownBy::Moto,
        check: tag_count,
    },
    Rule {
        id: "S12",
        category: Subnets,
        severity: Blocking,
        title: "Control plane machines are placed in availability zones, not in Local or Wavelength Zones or on \
                Outposts",
        breaks: "Network Load Balancers do not reach the machines, and many instance types are missing.",
        shown_by: ShownBy::Recorded,
        check: zone_types,
    },
    Rule {
        id: "S13",
        category: Subnets,
        severity: Warning,
        title: "For IPv6, every subnet has one IPv6 range and assigns addresses from it",
        breaks: "Nodes get no IPv6 address.",
        shown_by: ShownBy::Moto,
        check: ipv6,
    },
];

fn exist(facts: &Facts) -> Checked {
    let subnets = facts.of_network(&facts.subnets, "the subnets")?;
    let vpc = facts.vpc.found().and_then(Option::as_ref);
    let ids = facts.demand.subnet_ids(None);
    applies(!ids.is_empty())?;
    let mut problems = Vec::new();
    for id in ids {
        let Some(subnet) = subnets.iter().find(|subnet| subnet.id == id) else {
            let message = format!("{id} does not exist in {}", facts.demand.region);
            problems.push(Problem::new(id, message, "correct the id or the region, or create the subnet"));
            continue;
        };
        if !subnet.is_available() {
            let message = format!("{id} is {}", subnet.state);
            problems.push(Problem::new(id, message, "wait until the subnet is available"));
        }
        if let Some(vpc) = vpc.filter(|vpc| vpc.id != subnet.vpc_id) {
            let message = format!("{id} lies in {}, not in {}", subnet.vpc_id, vpc.id);
            problems.push(Problem::new(id, message, "name subnets of one VPC"));
        }
    }
    let command = facts.aws("ec2 describe-subnets --query 'Subnets[].[SubnetId,VpcId,State]'");
    Ok(problems.into_iter().map(|problem| problem.fixed_by(command.clone())).collect())
}

fn zones(facts: &Facts) -> Checked {
    let subnets = facts.subnets_of(None)?;
    let mut problems = Vec::new();
    for subnet in &subnets {
        let declared = facts.demand.network.subnets.iter().find(|declared| declared.id == subnet.id);
        let declared = declared.and_then(|declared| declared.availability_zone.as_ref());
        if let Some(zone) = declared.filter(|zone| **zone != subnet.zone) {
            let message = format!("{} lies in {}, and {zone} is declared", subnet.id, subnet.zone);
            problems.push(Problem::new(&subnet.id, message, "correct availabilityZone, or leave it out"));
        }
    }
    for machines in &facts.demand.machines {
        let served: BTreeSet<&str> =
            facts.subnets_of(Some(machines.role))?.into_iter().map(|subnet| subnet.zone.as_str()).collect();
        let network = &facts.demand.network;
        let in_domains = machines.failure_domains.iter().all(|zone| served.contains(zone.as_str()));
        let takes_network = !machines.spec.names_subnet() && !network.subnets.is_empty();
        if in_domains && takes_network && machines.subnet_ids(network).is_empty() {
            let message = format!("no subnet of the network is for the machines of {}", machines.template);
            let fix = "add a subnet for their role; machines with publicIP: true use public subnets, others do not";
            problems.push(Problem::new(&machines.template, message, fix));
        }
        for zone in machines.failure_domains.iter().filter(|zone| !served.contains(zone.as_str())) {
            let message = format!("failure domain {zone} has no subnet for {}", machines.template);
            problems.push(Problem::new(
                &machines.template,
                message,
                "add a subnet of the zone, or choose another failure domain",
            ));
        }
    }
    Ok(problems)
}

/// The number of zones that the control plane machines should use; `None` if none of their templates is known.
pub(crate) fn control_plane_zones(demand: &Demand) -> Option<usize> {
    let machines = demand.machines.iter();
    let replicas = machines
        .filter(|machines| machines.role == MachineRole::ControlPlane)
        .map(|machines| machines.replicas)
        .max()?;
    Some(usize::try_from(replicas).unwrap_or_default().min(3))
}

fn spread(facts: &Facts) -> Checked {
    let Some(wanted) = control_plane_zones(&facts.demand) else {
        return Err(Skipped::NotApplicable);
    };
    let subnets = facts.subnets_of(Some(MachineRole::ControlPlane))?;
    let zones: BTreeSet<&str> = subnets.iter().map(|subnet| subnet.zone.as_str()).collect();
    if zones.len() >= wanted {
        return Ok(vec![]);
    }
    let zones: Vec<&str> = zones.into_iter().collect();
    let problem = Problem::new(
        "control plane",
        format!("the subnets of the control plane lie in {} alone", zones.join(" and ")),
        "add subnets in further zones",
    );
    Ok(vec![problem])
}

fn addresses(facts: &Facts) -> Checked {
    let subnets = facts.subnets_of(None)?;
    applies(!subnets.is_empty())?;
    let mut problems = Vec::new();
    for role in [MachineRole::ControlPlane, MachineRole::Worker] {
        let of_role = facts.demand.machines.iter().filter(|machines| machines.role == role);
        let wanted: i64 = of_role.map(|machines| i64::from(missing(machines))).sum();
        let subnets = facts.subnets_of(Some(role))?;
        // AWS does not count IPv6 addresses.
        if subnets.iter().any(|subnet| !has_ipv4(subnet)) {
            continue;
        }
        let free: i64 = subnets.iter().map(|subnet| i64::from(subnet.free_addresses)).sum();
        if free < wanted {
            let (object, name) = match role {
                MachineRole::ControlPlane => ("control plane", "control plane machines"),
                MachineRole::Worker => ("workers", "workers"),
            };
            let message = format!("the subnets of {name} have fewer free addresses than the machines need");
            problems.push(Problem::new(object, message, "add a subnet, or free addresses"));
        }
    }
    for subnet in of_load_balancers(facts, &subnets) {
        if has_ipv4(subnet) && subnet.free_addresses < ADDRESSES_OF_A_LOAD_BALANCER {
            let message = format!("{} has fewer than 8 free addresses for load balancers", subnet.id);
            let problem = Problem::new(&subnet.id, message, "free addresses, or use another subnet for load balancers");
            problems.push(problem.with_severity(Warning));
        }
    }
    let command = facts.aws("ec2 describe-subnets --query 'Subnets[].[SubnetId,AvailableIpAddressCount]'");
    Ok(problems.into_iter().map(|problem| problem.fixed_by(command.clone())).collect())
}

/// The number of machines that have no addresses yet.
fn missing(machines: &MachineDemand) -> i32 {
    machines.replicas.saturating_sub(machines.existing).max(0)
}

/// Subnets that contain load balancers of the cluster, or in which the cloud controller may create them.
fn of_load_balancers<'a>(facts: &Facts, subnets: &[&'a Subnet]) -> Vec<&'a Subnet> {
    let balancers = facts.load_balancers.found();
    let used = balancers.into_iter().flatten().flat_map(|balancer| balancer.subnets.values());
    let used: BTreeSet<&String> = used.collect();
    let is_tagged =
        |subnet: &Subnet| [true, false].iter().any(|is_public| subnet.tags.contains_key(role_tag_key(*is_public)));
    let subnets = subnets.iter().copied();
    subnets.filter(|subnet| used.contains(&subnet.id) || is_tagged(subnet)).collect()
}

fn network_acls(facts: &Facts) -> Checked {
    let subnets = facts.subnets_of(None)?;
    let all_ranges = ranges(subnets.iter().copied());
    let mut problems = Vec::new();
    for subnet in &subnets {
        let Some(list) = facts.network_acl(&subnet.id)? else {
            continue;
        };
        let meant = |wanted: &AclTraffic| {
            if wanted.with_subnets { all_ranges.clone() } else { vec![DEFAULT_ROUTE] }
        };
        let wanted = of_network_acls(&facts.demand);
        let pairs = wanted.iter().flat_map(|wanted| meant(wanted).into_iter().map(move |range| (wanted, range)));
        let denied =
            pairs.into_iter().find(|(wanted, range)| !acl_allows(list, wanted.is_egress, wanted.traffic, range));
        if let Some((wanted, range)) = denied {
            let (direction, preposition) = if wanted.is_egress { ("out", "to") } else { ("in", "from") };
            let message = format!(
                "{} of {} does not allow {} {direction} {preposition} {range}",
                list.id,
                subnet.id,
                traffic_text(wanted.traffic)
            );
            problems.push(
                Problem::new(&subnet.id, message, "add an entry that allows the traffic before the one that denies it")
                    .fixed_by(facts.aws(&format!("ec2 describe-network-acls --network-acl-ids {}", list.id))),
            );
        }
    }
    Ok(problems)
}

fn cluster_tags(facts: &Facts) -> Checked {
    let key = facts.demand.cluster_tag_key();
    let untagged = facts
        .subnets_of(None)?
        .into_iter()
        .filter(|subnet| !matches!(subnet.tags.get(&key).map(String::as_str), Some("shared" | "owned")));
    let problems = untagged.map(|subnet| {
        Problem::new(&subnet.id, format!("{} has no tag {key}", subnet.id), format!("tag the subnet with {key}=shared"))
            .fixed_by(facts.aws(&format!("ec2 create-tags --resources {} --tags Key={key},Value=shared", subnet.id)))
    });
    Ok(problems.collect())
}

fn role_tags(facts: &Facts) -> Checked {
    let mut problems = Vec::new();
    for subnet in facts.subnets_of(None)? {
        let is_public = is_public(facts, subnet)?;
        let kind = if is_public { "public" } else { "private" };
        let key = role_tag_key(is_public);
        if !subnet.tags.contains_key(key) {
            problems.push(
                Problem::new(
                    &subnet.id,
                    format!("the {kind} subnet {} has no tag {key}", subnet.id),
                    format!("tag the subnet with {key}=1"),
                )
                .fixed_by(facts.aws(&format!("ec2 create-tags --resources {} --tags Key={key},Value=1", subnet.id))),
            );
        }
    }
    Ok(problems)
}

fn tag_count(facts: &Facts) -> Checked {
    let full = facts.subnets_of(None)?.into_iter().filter(|subnet| subnet.tags.len() >= MAX_TAGS);
    let problems = full.map(|subnet| {
        let message = format!("{} has {MAX_TAGS} tags, the most that AWS allows", subnet.id);
        Problem::new(&subnet.id, message, "remove tags that nobody needs")
            .fixed_by(facts.aws(&format!("ec2 delete-tags --resources {} --tags Key=<key>", subnet.id)))
    });
    Ok(problems.collect())
}

fn zone_types(facts: &Facts) -> Checked {
    let zones = known(&facts.zones, "the zones")?;
    let types: BTreeMap<&str, Option<ZoneType>> =
        zones.iter().map(|zone| (zone.name.as_str(), zone.zone_type)).collect();
    applies(facts.demand.has_control_plane_machines())?;
    let mut problems = Vec::new();
    for subnet in facts.subnets_of(Some(MachineRole::ControlPlane))? {
        let zone_type = types.get(subnet.zone.as_str()).copied().flatten().unwrap_or(ZoneType::AvailabilityZone);
        let message = if subnet.outpost_arn.is_some() {
            format!("{} of the control plane is on an Outpost", subnet.id)
        } else if zone_type.is_edge() {
            format!("{} of the control plane is in {}, a {zone_type}", subnet.id, subnet.zone)
        } else {
            continue;
        };
        let fix = "use subnets in availability zones for the control plane; if this one is for workers, declare its \
                   zoneType";
        problems.push(Problem::new(&subnet.id, message, fix));
    }
    Ok(problems)
}

fn ipv6(facts: &Facts) -> Checked {
    applies(facts.demand.wants_ipv6)?;
    let mut problems = Vec::new();
    for subnet in facts.subnets_of(None)? {
        let id = &subnet.id;
        let (message, fix, command) = match subnet.ipv6_cidr_blocks.as_slice() {
            [] => (
                format!("{id} has no IPv6 range"),
                "associate an IPv6 range with the subnet",
                format!("ec2 associate-subnet-cidr-block --subnet-id {id} --ipv6-cidr-block <range>"),
            ),
            [_] if !subnet.assigns_ipv6 => (
                format!("{id} does not assign IPv6 addresses to instances"),
                "assign IPv6 addresses on creation",
                format!("ec2 modify-subnet-attribute --subnet-id {id} --assign-ipv6-address-on-creation"),
            ),
            [_] => continue,
            _ => (
                format!("{id} has several IPv6 ranges"),
                "keep one IPv6 range",
                "ec2 disassociate-subnet-cidr-block --association-id <association>".to_owned(),
            ),
        };
        problems.push(Problem::new(id, message, fix).fixed_by(facts.aws(&command)));
    }
    Ok(problems)
}
