//! The subnets and security groups of load balancers, of both generations. Pure.

use std::collections::BTreeSet;

use capa_api::cluster::security_group::SecurityGroupRole;
use capa_api::conditions::Reason;

use super::balancers::Place;
use super::plan::{Plan, PlanContext, Why};
use super::reference::{Id, Kind, Ref};

/// The subnets and security groups of a load balancer that an observation shows.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) subnets: &'a [&'a str],
    pub(super) zones: &'a [&'a str],
    pub(super) security_groups: &'a [String],
}

/// The subnets for a new load balancer. Adds a problem if there are none, unless the spec already has a problem with
/// the load balancer.
pub(super) fn subnets(context: &PlanContext<'_>, target: &Ref, places: &[Place], plan: &mut Plan) -> Option<Vec<Id>> {
    if !places.is_empty() {
        return Some(places.iter().map(|place| place.subnet.clone()).collect());
    }
    if !context.is_wrong(target) {
        let message = format!("{target} waits for the subnets, about which SubnetsReady says more");
        plan.problem(target, Reason::WaitingForSubnets, message);
    }
    None
}

/// The security groups: like CAPA, the group of the load balancer role, and those that the spec lists.
pub(super) fn security_groups(additional: &[String]) -> Vec<Id> {
    let own = Ref::new(Kind::SecurityGroup, SecurityGroupRole::ApiserverLb.as_str());
    let additional = additional.iter().map(|id| Id::Known(id.clone()));
    additional.chain([Id::Of(own)]).collect()
}

/// The resources that must exist before a load balancer: the internet gateway, through which clients reach public
/// addresses, and the VPC.
pub(super) fn needed(context: &PlanContext<'_>) -> Vec<Ref> {
    let gateway = &context.inputs.internet_gateway;
    let attachment = gateway.part(Kind::InternetGatewayAttachment);
    let mut needed = context.checked();
    needed.extend([context.inputs.vpc.target.clone(), gateway.clone(), attachment]);
    needed
}

/// The security groups, if the load balancer has others.
pub(super) fn other_security_groups(
    context: &PlanContext<'_>,
    additional: &[String],
    shown: Shown<'_>,
) -> Option<(Vec<Id>, Why)> {
    let groups = security_groups(additional);
    let ids: BTreeSet<&str> = groups.iter().map(|id| context.ledger.resolve(id)).collect::<Option<_>>()?;
    let shown: BTreeSet<&str> = shown.security_groups.iter().map(String::as_str).collect();
    if ids == shown {
        return None;
    }
    let why = Why::Differs { field: "securityGroups", is: list(shown), wanted: list(ids) };
    Some((groups, why))
}

/// The subnets in zones in which the load balancer has none. The load balancer keeps its subnets, because other ones
/// would change its addresses.
pub(super) fn missing_subnets(context: &PlanContext<'_>, places: &[Place], shown: Shown<'_>) -> Option<(Vec<Id>, Why)> {
    let is_missing = |place: &&Place| {
        let Some(id) = context.ledger.resolve(&place.subnet) else {
            return false;
        };
        let zone = place.zone.as_deref().or_else(|| zone_of(context, id));
        !shown.subnets.contains(&id) && !zone.is_some_and(|zone| shown.zones.contains(&zone))
    };
    let missing: Vec<Id> = places.iter().filter(is_missing).map(|place| place.subnet.clone()).collect();
    if missing.is_empty() {
        return None;
    }
    let ids = missing.iter().filter_map(|id| context.ledger.resolve(id));
    let why = Why::Differs {
        field: "subnets",
        is: list(shown.subnets.iter().copied()),
        wanted: format!("those and {}", list(ids)),
    };
    Some((missing, why))
}

fn zone_of<'a>(context: &PlanContext<'a>, subnet: &str) -> Option<&'a str> {
    let mut subnets = context.seen.ec2.subnets.shown()?.iter();
    let shown = subnets.find(|shown| shown.id == subnet);
    shown.map(|shown| shown.zone.as_str())
}

fn list<'a>(ids: impl IntoIterator<Item = &'a str>) -> String {
    ids.into_iter().collect::<Vec<_>>().join(", ")
}
