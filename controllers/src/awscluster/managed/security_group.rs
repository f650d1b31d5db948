//! Security groups and their rules for incoming traffic. Pure.

use std::collections::BTreeSet;

use capa_api::cluster::security_group::SecurityGroupRole;
use capa_api::conditions::{ConditionType, Reason};
use capa_cloud::ec2::security_group::{Call, Rule, Source, Traffic};
use capa_cloud::ec2::{NatGateway, NatGatewayState, RouteTable, SecurityGroup};
use capa_cloud::managed::Observed;
use ipnet::IpNet;

use super::ingress::{LOAD_BALANCER_TRAFFIC, Origin, WantedRule, known};
use super::inputs::{Inputs, WantedSecurityGroup};
use super::ledger::{IsOwned, Ledger, Presence};
use super::plan::{Plan, PlanContext, Wanted, Why};
use super::planner::{Planner, tags_by_id};
use super::reference::{Id, Kind, LOAD_BALANCERS, Ref};
use super::{default_security_group, nat_gateway};

/// The most rules of a group, unless AWS has raised the quota.
const MAX_RULES: usize = 60;

/// The planner of the security groups.
pub(super) const PLANNER: Planner = Planner {
    kinds: &[Kind::SecurityGroup, Kind::SecurityGroupRules, Kind::DefaultSecurityGroupRules],
    condition: ConditionType::ClusterSecurityGroupsReady,
    waiting: Reason::WaitingForVpc,
    is_optional: false,
    only_in_managed_vpc: false,
    wanted: |inputs| own(inputs).map(|group| group.target.clone()).collect(),
    tags: |inputs| {
        let tags = |role| inputs.names.security_group_tags(role);
        own(inputs).map(|group| (group.target.clone(), tags(group.role))).collect()
    },
    tags_shown: |seen| tags_by_id(&seen.ec2.security_groups, |group| (&group.id, &group.tags)),
    answer: |seen| seen.ec2.security_groups.answer(),
    update_ledger,
    plan,
};

/// The groups that the provider creates.
fn own(inputs: &Inputs) -> impl Iterator<Item = &WantedSecurityGroup> {
    inputs.security_groups.iter().filter(|group| group.brought.is_none())
}

/// The groups of the user, with their ids.
fn brought(inputs: &Inputs) -> impl Iterator<Item = (&WantedSecurityGroup, &str)> {
    let groups = inputs.security_groups.iter();
    groups.filter_map(|group| Some((group, group.brought.as_deref()?)))
}

/// Compares the ledger with the observation. A group with the tag of the cluster belongs to it, and its name identifies
/// the wanted one. Others are recorded under their ids, and deleted with the cluster.
fn update_ledger(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    let Some(groups) = seen.ec2.security_groups.shown() else {
        return;
    };
    // Groups that the user brings belong to the user, whatever tags they have.
    for (wanted, id) in brought(inputs) {
        if groups.iter().any(|group| group.id == id) {
            ledger.shared(&wanted.target, id);
        }
    }
    let is_brought = |id: &str| brought(inputs).any(|(_, brought)| brought == id);
    let owned = groups.iter();
    let owned = owned.filter(|group| inputs.names.owns(&group.tags) && !is_brought(&group.id));
    let names = (PLANNER.wanted)(inputs);
    for wanted in own(inputs) {
        let name = inputs.names.security_group(wanted.role);
        if let Some(group) = owned.clone().find(|group| group.name == name) {
            ledger.found(&wanted.target, &group.id, &names);
        }
    }
    for group in owned {
        ledger.surplus(Kind::SecurityGroup, &group.id);
    }
    ledger.update(Kind::SecurityGroup, |id| {
        let shown = groups.iter().find(|group| group.id == id);
        shown.map(|group| {
            if is_brought(&group.id) {
                return IsOwned::Yes;
            }
            inputs.names.ownership(&group.tags)
        })
    });
    // A name is unique in a VPC, so the group that has it now replaces one that is gone.
    for wanted in own(inputs) {
        let name = inputs.names.security_group(wanted.role);
        let is_gone = matches!(ledger.presence(&wanted.target), Presence::Vanished(_));
        let current = groups.iter().find(|group| group.name == name);
        if let Some(group) = current.filter(|group| is_gone && inputs.names.owns(&group.tags)) {
            ledger.assign(&wanted.target, &group.id);
        }
    }
}

fn plan(context: &PlanContext<'_>, plan: &mut Plan) {
    if context.is_unseen(&context.seen.ec2.security_groups) {
        return;
    }
    if context.is_deleted {
        return delete(context, plan);
    }
    for wanted in own(context.inputs) {
        let target = &wanted.target;
        match context.wanted(target, plan) {
            Some(Wanted::Missing) => create(context, wanted, plan),
            Some(Wanted::Shown(id)) => keep_rules(context, wanted, id, plan),
            None => {}
        }
    }
    default_security_group::plan(context, plan);
}

fn shown<'a>(context: &PlanContext<'a>, is: impl Fn(&SecurityGroup) -> bool) -> Option<&'a SecurityGroup> {
    context.seen.ec2.security_groups.shown()?.iter().find(|group| is(group))
}

fn create(context: &PlanContext<'_>, wanted: &WantedSecurityGroup, plan: &mut Plan) {
    let names = &context.inputs.names;
    let name = names.security_group(wanted.role);
    if let Some(taken) = shown(context, |group| group.name == name) {
        let message = format!(
            "{} has the name {name} that a security group of the cluster is to have, and is not this cluster's{}: \
             delete it, or give one of the two clusters another name",
            taken.id,
            names.other_owner(&taken.tags)
        );
        return plan.problem(&wanted.target, Reason::Conflict, message);
    }
    let call = Call::CreateSecurityGroup {
        vpc: Id::from(&context.inputs.vpc.target),
        name,
        description: names.security_group_description(wanted.role),
        tags: names.security_group_tags(wanted.role),
    };
    plan.step_after(&wanted.target, Why::Missing, call, context.checked());
}

/// Adds missing rules, and removes rules that the spec does not name. A rule that a missing rule replaces is removed
/// after the missing one is added, so that the traffic is not interrupted. AWS may refuse a missing rule that names a
/// group of the user for ever, so such a rule keeps no other one.
fn keep_rules(context: &PlanContext<'_>, wanted: &WantedSecurityGroup, id: &str, plan: &mut Plan) {
    let Some(group) = shown(context, |group| group.id == id) else {
        return;
    };
    let target = wanted.target.part(Kind::SecurityGroupRules);
    let rules = resolved(context, wanted, &target, plan);
    let is_same =
        |shown: &Rule<String>, rule: &Rule<Id>| shown.traffic == rule.traffic && is_from(context, shown, rule);
    let is_missing = |rule: &&Rule<Id>| !group.ingress.iter().any(|shown| is_same(shown, rule));
    let missing: Vec<&Rule<Id>> = rules.iter().filter(is_missing).collect();
    // AWS refuses all rules of a call if one of them names a group that does not exist.
    let (of_user, others): (Vec<_>, Vec<_>) = missing.iter().copied().cloned().partition(names_group_of_user);
    for rules in [&others, &of_user] {
        if !rules.is_empty() {
            let (group, rules) = (Id::from(id), rules.clone());
            plan.step(&target, Why::Missing, Call::AuthorizeSecurityGroupIngress { group, rules });
        }
    }
    let is_full = group.ingress.len() + missing.len() > MAX_RULES;
    let is_replaced = |shown: &Rule<String>| !is_full && others.iter().any(|rule| rule.traffic == shown.traffic);
    let is_ours = |shown: &Rule<String>| {
        wanted.role != SecurityGroupRole::Lb
            || shown.description.starts_with(LOAD_BALANCER_TRAFFIC.trim_end_matches('.'))
    };
    let is_wanted = |shown: &Rule<String>| rules.iter().any(|rule| is_same(shown, rule));
    let extra = group.ingress.iter().filter(|shown| is_ours(shown) && !is_wanted(shown));
    let extra = extra.filter(|shown| !is_replaced(shown));
    let extra: Vec<Rule<Id>> = extra.map(known).collect();
    if !extra.is_empty() && is_certain(context, wanted, &target, plan) {
        let group = Id::from(id);
        plan.step(&target, Why::Unwanted, Call::RevokeSecurityGroupIngress { group, rules: extra });
    }
}

/// Whether all wanted rules are known. An invalid rule of the spec, or a source that is not known yet, may belong to an
/// existing rule.
fn is_certain(context: &PlanContext<'_>, wanted: &WantedSecurityGroup, rules: &Ref, plan: &Plan) -> bool {
    let is_wrong = plan.problems.iter().any(|problem| problem.target == wanted.target);
    let is_waiting = plan.waits.iter().any(|wait| wait.target == *rules);
    let ec2 = &context.seen.ec2;
    let knows_nat_gateways = if context.inputs.vpc.brought.is_some() {
        let is_wrong = context.inputs.problems.iter().any(|problem| problem.target.kind == Kind::Subnet);
        !is_wrong && !context.inputs.subnets.is_empty() && ec2.nat_gateways.shown().is_some()
    } else {
        ec2.addresses.shown().is_some()
    };
    !is_wrong && !is_waiting && knows_nat_gateways && ec2.vpcs.shown().is_some()
}

fn names_group_of_user(rule: &Rule<Id>) -> bool {
    matches!(rule.source, Source::Group(Id::Known(_)))
}

/// Whether a rule that AWS shows has the source of a wanted one.
fn is_from(context: &PlanContext<'_>, shown: &Rule<String>, wanted: &Rule<Id>) -> bool {
    match (&shown.source, &wanted.source) {
        (Source::Cidr(is), Source::Cidr(wanted))
        | (Source::Ipv6Cidr(is), Source::Ipv6Cidr(wanted))
        | (Source::PrefixList(is), Source::PrefixList(wanted))
        | (Source::Group(is), Source::Group(Id::Known(wanted))) => is == wanted,
        (Source::Group(is), Source::Group(Id::Of(wanted))) => context.ledger.id(wanted) == Some(is),
        _ => false,
    }
}

/// The wanted rules with one source each. The plan waits for a source that is not known yet, and opens nothing wider
/// instead.
fn resolved(context: &PlanContext<'_>, wanted: &WantedSecurityGroup, target: &Ref, plan: &mut Plan) -> Vec<Rule<Id>> {
    let mut rules: Vec<Rule<Id>> = vec![];
    for rule in &wanted.rules {
        for source in sources(context, rule, target, plan) {
            let is_there = |other: &Rule<Id>| other.traffic == rule.traffic && other.source == source;
            if !rules.iter().any(is_there) {
                let (traffic, description): (Traffic, String) = (rule.traffic, rule.description.clone());
                rules.push(Rule { traffic, source, description });
            }
        }
    }
    rules
}

fn sources(context: &PlanContext<'_>, wish: &WantedRule, target: &Ref, plan: &mut Plan) -> Vec<Source<Id>> {
    match &wish.from {
        Origin::Range(IpNet::V4(range)) => vec![Source::Cidr(range.to_string())],
        Origin::Range(IpNet::V6(range)) => vec![Source::Ipv6Cidr(range.to_string())],
        // A group of the cluster has the same form, whether the spec names its id or its role.
        Origin::Group(id) => {
            let own = context.ledger.with_id(id).map(Id::from);
            vec![Source::Group(own.unwrap_or_else(|| Id::Known(id.clone())))]
        }
        Origin::Role(role) => vec![Source::Group(Id::Of(Ref::new(Kind::SecurityGroup, role.as_str())))],
        Origin::Vpc => {
            let id = context.ledger.id(&context.inputs.vpc.target);
            let mut shown = context.seen.ec2.vpcs.shown().into_iter().flatten();
            let own = shown.find(|vpc| Some(vpc.id.as_str()) == id);
            if own.is_none() {
                plan.wait(target, Reason::Creating, "AWS does not show the VPC, whose ranges are admitted");
            }
            let ranges = own.into_iter().flat_map(|vpc| vpc.cidr_blocks.iter().cloned());
            ranges.map(Source::Cidr).collect()
        }
        Origin::NatGateways if context.inputs.vpc.brought.is_some() => addresses_of_user(context, target, plan),
        Origin::NatGateways => {
            let mut found = vec![];
            for address in addresses(context) {
                if let Some(public_ip) = public_ip(context, address) {
                    found.push(Source::Cidr(format!("{public_ip}/32")));
                } else if context.seen.ec2.addresses.shown().is_some() {
                    let message = format!("the {address} is not known yet");
                    plan.wait(target, Reason::WaitingForNatGateways, message);
                }
            }
            found
        }
    }
}

/// The addresses of the user's NAT gateways to which the subnets route: the subnets in the spec, and subnets that were
/// removed from it, because machines may use them.
fn addresses_of_user(context: &PlanContext<'_>, rules: &Ref, plan: &mut Plan) -> Vec<Source<Id>> {
    let tables = context.seen.ec2.route_tables.shown().map(Vec::as_slice).unwrap_or_default();
    let vpc = context.ledger.id(&context.inputs.vpc.target).unwrap_or_default();
    let subnets = context.ledger.of_kind(Kind::Subnet);
    let used = subnets.filter_map(|subnet| RouteTable::of_subnet(&subnet.name, vpc, tables)?.default_target());
    let used: BTreeSet<&str> = used.collect();
    let gateways = nat_gateway::live(context.seen).into_iter().flatten();
    let gateways = gateways.filter(|gateway| used.contains(gateway.id.as_str()));
    // A private NAT gateway never has a public address.
    let is_pending = |gateway: &&NatGateway| gateway.state == NatGatewayState::Pending;
    for gateway in gateways.clone().filter(is_pending) {
        let message = format!("{} is pending, and its address is not known yet", gateway.id);
        plan.wait(rules, Reason::WaitingForNatGateways, message);
    }
    if let Err(Some(error)) = context.seen.ec2.nat_gateways.answer() {
        let message = format!("AWS does not show your NAT gateways, from whose addresses nodes come: {error}");
        plan.wait(rules, error.class.reason(), message);
    }
    let addresses = gateways.flat_map(|gateway| &gateway.public_ips);
    addresses.map(|address| Source::Cidr(format!("{address}/32"))).collect()
}

/// The addresses of the NAT gateways: those that the spec asks for, and those of zones that were removed from it,
/// because machines may use them.
fn addresses<'a>(context: &PlanContext<'a>) -> BTreeSet<&'a Ref> {
    let wanted = context.inputs.nat_gateways.iter().map(|gateway| &gateway.address);
    let is_in_use = |address: &&Ref| {
        let Presence::Shown(id) = context.presence(address) else {
            return false;
        };
        nat_gateway::user_of(context.seen, id).is_some()
    };
    let recorded = context.ledger.of_kind(Kind::ElasticIp).filter(is_in_use);
    wanted.chain(recorded).collect()
}

fn public_ip<'a>(context: &PlanContext<'a>, address: &Ref) -> Option<&'a str> {
    let id = context.ledger.id(address)?;
    let mut addresses = context.seen.ec2.addresses.shown()?.iter();
    let shown = addresses.find(|address| address.allocation_id == id);
    shown.map(|address| address.public_ip.as_str())
}

/// Groups whose rules name each other cannot be deleted, so such rules are removed first.
fn delete(context: &PlanContext<'_>, plan: &mut Plan) {
    let groups = context.recorded(&[Kind::SecurityGroup]);
    let rules = groups.iter().map(|group| group.part(Kind::SecurityGroupRules));
    let users: Vec<Ref> = rules.chain(context.recorded(&LOAD_BALANCERS)).collect();
    for target in context.ledger.of_kind(Kind::SecurityGroup) {
        let Some(id) = context.deletable(target, plan) else {
            continue;
        };
        let group = shown(context, |group| group.id == id);
        let of_groups = group.into_iter().flat_map(|group| &group.ingress);
        let of_groups = of_groups.filter(|rule| matches!(&rule.source, Source::Group(source) if source != id));
        let of_groups: Vec<Rule<Id>> = of_groups.map(known).collect();
        if !of_groups.is_empty() {
            let call = Call::RevokeSecurityGroupIngress { group: Id::from(id), rules: of_groups };
            plan.step(&target.part(Kind::SecurityGroupRules), Why::Unwanted, call);
        }
        let call = Call::DeleteSecurityGroup { group: Id::from(id) };
        plan.step_after(target, Why::Unwanted, call, users.clone());
    }
}
