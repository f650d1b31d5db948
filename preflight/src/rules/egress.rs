//! Rules about the connections that machines open: what their security groups must allow.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use super::machine_groups::{certain, first_certain, group_sets, in_vpc, of_known_groups, peer_in};
use super::traffic::{self, Side};
use crate::facts::{DhcpOptions, Facts, MachineRole, SecurityGroup, Traffic};
use crate::reach::{Peer, allow, egress};
use crate::rule::{Checked, Problem, Skipped, of_each};
use crate::traffic_text::{cli_permissions, traffic_text};

/// Addresses of Amazon's DNS server in every VPC. Source: the user guide of VPC, «Amazon DNS server».
const AMAZON_DNS: [&str; 2] = ["169.254.169.253", "fd00:ec2::253"];

/// The ranges of the DNS servers of the VPC whose traffic security groups filter: not Amazon's, whose address is also
/// the third one of each range of the VPC. Without known DHCP options, which V4 reports, there are none.
fn filtered_dns_servers(facts: &Facts) -> Vec<String> {
    let Some(DhcpOptions { domain_name_servers, .. }) = facts.dhcp_options.found().and_then(Option::as_ref) else {
        return Vec::new();
    };
    let blocks = facts.vpc.found().and_then(Option::as_ref).into_iter().flat_map(|vpc| &vpc.cidr_blocks);
    let third = |block: &String| block.parse::<Ipv4Net>().ok()?.hosts().nth(1).map(IpAddr::from);
    let mut amazons: Vec<IpAddr> = blocks.filter_map(third).collect();
    amazons.extend(AMAZON_DNS.iter().filter_map(|address| address.parse::<IpAddr>().ok()));
    let servers = domain_name_servers.iter().filter_map(|server| server.trim().parse::<IpAddr>().ok());
    servers.filter(|server| !amazons.contains(server)).map(|server| IpNet::from(server).to_string()).collect()
}

/// The other sides of the connections that machines open.
struct Destinations<'a> {
    /// Destination of the default route of all machines.
    everywhere: &'static str,
    /// Whether a subnet of machines has a default route. Without one, nodes reach only the endpoints of the VPC and its
    /// time and DNS servers.
    has_default_route: bool,
    in_vpc: Peer<'a>,
    control_plane: Peer<'a>,
    /// Whether the name of the endpoint of the control plane resolves to public addresses.
    has_public_endpoint: bool,
}

impl<'a> Destinations<'a> {
    fn of(facts: &'a Facts) -> Result<Self, Skipped> {
        let in_vpc = in_vpc(facts)?;
        let everywhere = facts.default_destination_of_machines()?;
        let has_default_route = facts.subnets_of(None)?.iter().any(|subnet| {
            let table = facts.route_table(subnet).ok();
            table.is_some_and(|table| table.routes.iter().any(|route| route.destination == everywhere))
        });
        let role = Some(MachineRole::ControlPlane);
        let control_plane = Peer {
            group_ids: facts.demand.group_ids(role),
            found_by: facts.demand.with_security_group_filters(role),
            ..in_vpc.clone()
        };
        let balancers = facts.endpoint_balancers().unwrap_or_default();
        let has_public_endpoint = !balancers.is_empty() && balancers.iter().all(|balancer| balancer.is_public());
        Ok(Self { everywhere, has_default_route, in_vpc, control_plane, has_public_endpoint })
    }

    /// The other side, and its name in messages.
    fn peer(&self, side: Side) -> (Peer<'a>, &'static str) {
        match side {
            Side::Anywhere if self.has_default_route => (peer_in([self.everywhere]), self.everywhere),
            Side::Anywhere => (self.in_vpc.clone(), self.everywhere),
            Side::ControlPlane if self.has_public_endpoint && self.has_default_route => {
                (peer_in([self.everywhere]), "the control plane")
            }
            Side::ControlPlane => (self.control_plane.clone(), "the control plane"),
            Side::Machines => (self.control_plane.clone(), "other machines"),
            Side::Workers | Side::LoadBalancers | Side::Vpc => (self.in_vpc.clone(), "the VPC"),
        }
    }
}

pub(super) fn outgoing(facts: &Facts) -> Checked {
    let destinations = Destinations::of(facts)?;
    let dns_servers = filtered_dns_servers(facts);
    let dns = (Traffic::udp(53), (peer_in(dns_servers.iter().map(String::as_str)), "the DNS servers of the VPC"));
    let mut answers = Vec::new();
    for role in [MachineRole::ControlPlane, MachineRole::Worker] {
        let sets = match group_sets(facts, role) {
            Err(Skipped::NotApplicable) => continue,
            sets => sets?,
        };
        let of_role = traffic::outgoing(&facts.demand).into_iter();
        let of_role = of_role.filter(|flow| flow.rule == "G10" && flow.role == role);
        let wanted: Vec<_> = of_role
            .map(|flow| (flow.traffic, destinations.peer(flow.side)))
            .chain((!dns_servers.is_empty()).then(|| dns.clone()))
            .collect();
        answers.extend(sets.iter().map(|set| {
            let refused = wanted.iter().filter(|(traffic, (peer, _))| !allow(egress(&set.groups), *traffic, peer));
            let refused = refused.map(|(traffic, (peer, name))| {
                (set.filters(egress(&set.groups), *traffic, peer), (*traffic, (*name, peer)))
            });
            let refused = first_certain(refused)?;
            Ok(refused.map(|(traffic, peer)| egress_problem(facts, &set.groups, traffic, peer)))
        }));
    }
    of_each(answers)
}

/// The problem that the groups do not allow connections to the peer.
fn egress_problem(
    facts: &Facts,
    groups: &[&SecurityGroup],
    traffic: Traffic,
    (name, peer): (&str, &Peer<'_>),
) -> Problem {
    let ids: Vec<&str> = groups.iter().map(|group| group.id.as_str()).collect();
    let message = format!("the security groups {} do not allow {} to {name}", ids.join(", "), traffic_text(traffic));
    let group = ids.last().copied().unwrap_or_default();
    let range = peer.ranges.first().copied().unwrap_or_default();
    let fix = format!("allow {} to {name}", traffic_text(traffic));
    let command = format!("ec2 authorize-security-group-egress --group-id {group} {}", cli_permissions(traffic, range));
    of_known_groups(facts, Problem::new(ids.join(","), message, fix)).fixed_by(facts.aws(&command))
}

pub(super) fn konnectivity(facts: &Facts) -> Checked {
    let flows = traffic::outgoing(&facts.demand);
    let Some(flow) = flows.iter().find(|flow| flow.rule == "G12") else {
        return Err(Skipped::NotApplicable);
    };
    let anywhere = peer_in([facts.default_destination_of_machines()?]);
    // The hosted control plane may have addresses in the VPC.
    let in_vpc = in_vpc(facts)?;
    of_each(group_sets(facts, flow.role)?.iter().map(|set| {
        if [&anywhere, &in_vpc].into_iter().any(|peer| allow(egress(&set.groups), flow.traffic, peer)) {
            return Ok(None);
        }
        certain(set.found_by)?;
        Ok(Some(egress_problem(facts, &set.groups, flow.traffic, ("the hosted control plane", &anywhere))))
    }))
}
