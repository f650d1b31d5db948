//! The security groups of machines, as the rules about them see them: the sets of groups, the machines as the other
//! side of a connection, and what filters in templates leave open.

use crate::facts::{Facts, MachineRole, Rule, SecurityGroup, Traffic};
use crate::lookup::{DEFAULT_ROUTE, ranges};
use crate::reach::{Peer, filters_of_peer};
use crate::rule::{Problem, Skipped, applies};

/// The machines of a role, or all machines, as the other side of a connection.
pub(super) fn machines(facts: &Facts, role: Option<MachineRole>) -> Result<Peer<'_>, Skipped> {
    Ok(Peer {
        group_ids: facts.demand.group_ids(role),
        ranges: ranges(facts.subnets_of(role)?),
        found_by: facts.demand.with_security_group_filters(role),
    })
}

/// The machines of each role that has security groups. A rule that names a group of one role does not admit the other.
pub(super) fn machines_by_role(facts: &Facts) -> Result<Vec<Peer<'_>>, Skipped> {
    let mut peers = Vec::new();
    for role in [MachineRole::ControlPlane, MachineRole::Worker] {
        peers.push(machines(facts, Some(role))?);
    }
    peers.retain(|peer| !peer.group_ids.is_empty() || peer.found_by.is_some());
    Ok(peers)
}

/// The addresses in the ranges, as the other side of a connection.
pub(super) fn peer_in<'a>(ranges: impl IntoIterator<Item = &'a str>) -> Peer<'a> {
    Peer { ranges: ranges.into_iter().collect(), ..Peer::default() }
}

/// The addresses of the VPC, as the other side of a connection.
pub(super) fn in_vpc(facts: &Facts) -> Result<Peer<'_>, Skipped> {
    let vpc = facts.the_vpc()?;
    let is_ipv4 = facts.default_destination_of_machines()? == DEFAULT_ROUTE;
    let blocks = if is_ipv4 { &vpc.cidr_blocks } else { &vpc.ipv6_cidr_blocks };
    Ok(peer_in(blocks.iter().map(String::as_str)))
}

/// The existing security groups of machines of one template.
pub(super) struct Groups<'a> {
    pub(super) groups: Vec<&'a SecurityGroup>,
    /// The template, if it names more groups by filters.
    pub(super) found_by: Option<&'a str>,
}

impl<'a> Groups<'a> {
    /// The template whose filters may find a group that allows the traffic, or one that the rules name.
    pub(super) fn filters<'p, 'r>(
        &self,
        rules: impl IntoIterator<Item = &'r Rule<String>>,
        traffic: Traffic,
        peer: &Peer<'p>,
    ) -> Option<&'p str>
    where
        'a: 'p,
    {
        self.found_by.or_else(|| filters_of_peer(rules, traffic, peer))
    }
}

/// The sets of security groups that machines of a role have. If a group does not exist, G1 reports it, and the other
/// rules are unknown.
pub(super) fn group_sets(facts: &Facts, role: MachineRole) -> Result<Vec<Groups<'_>>, Skipped> {
    let sets = facts.demand.group_sets(role);
    applies(!sets.is_empty())?;
    let existing = sets.into_iter().map(|set| {
        let groups = facts.groups(&set.ids)?;
        if groups.len() < set.ids.len() {
            return Err(Skipped::Unknown("a security group does not exist: see G1".to_owned()));
        }
        Ok(Groups { groups, found_by: set.found_by })
    });
    existing.collect()
}

/// The first of several refusals that no filters can undo. Each comes with the template whose filters may find a group
/// that undoes it.
///
/// # Errors
/// Unknown, because filters may undo each of the refusals.
pub(super) fn first_certain<'a, T>(
    refusals: impl IntoIterator<Item = (Option<&'a str>, T)>,
) -> Result<Option<T>, Skipped> {
    let first = refusals.into_iter().min_by_key(|(found_by, _)| found_by.is_some());
    first.map(|(found_by, refusal)| certain(found_by).map(|()| refusal)).transpose()
}

/// What groups do not admit or allow is unknown if a template names more groups by filters.
pub(super) fn certain(found_by: Option<&str>) -> Result<(), Skipped> {
    match found_by {
        None => Ok(()),
        Some(template) => {
            Err(Skipped::Unknown(format!("{template} names security groups by filters, which are not looked up here")))
        }
    }
}

/// The problem that security groups do not admit or allow traffic, with a hint while not all templates are known.
pub(super) fn of_known_groups(facts: &Facts, problem: Problem) -> Problem {
    let demand = &facts.demand;
    let has = |role| demand.machines.iter().any(|machines| machines.role == role);
    let knows_control_plane = has(MachineRole::ControlPlane) || !demand.has_control_plane_machines();
    if knows_control_plane && has(MachineRole::Worker) {
        return problem;
    }
    let fix = format!("{}; if machine templates name more security groups that do, skip the rule", problem.fix);
    Problem { fix, ..problem }
}
