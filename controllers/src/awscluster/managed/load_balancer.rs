//! Network load balancers of the API server, with their listeners and target groups. Pure.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::common::Tags;
use capa_api::conditions::{ConditionType, Reason};
use capa_cloud::elb::load_balancer::Call;
use capa_cloud::elb::{LoadBalancer, LoadBalancerKind, LoadBalancerState};
use capa_cloud::managed::Observed;

use super::attachments::{self, Shown};
use super::attributes::differing;
use super::balancers::WantedLoadBalancer;
use super::endpoint::{self, Address};
use super::inputs::Inputs;
use super::ledger::{Ledger, Presence};
use super::plan::{Plan, PlanContext, Wanted, Why};
use super::planner::{Planner, tags_by_id};
use super::reference::{Id, Kind, Ref};
use super::{listener, load_balancer_address, target_group};

/// The attribute that spreads connections over the zones.
const CROSS_ZONE: &str = "load_balancing.cross_zone.enabled";

/// The planner of the load balancers.
pub(super) const PLANNER: Planner = Planner {
    kinds: &[
        Kind::LoadBalancer,
        Kind::LoadBalancerAttributes,
        Kind::LoadBalancerAddress,
        Kind::TargetGroup,
        Kind::TargetGroupAttributes,
        Kind::Listener,
    ],
    condition: ConditionType::LoadBalancerReady,
    waiting: Reason::WaitingForVpc,
    is_optional: true,
    only_in_managed_vpc: false,
    wanted,
    tags,
    tags_shown: |seen| {
        let balancers = tags_by_id(&seen.elb.load_balancers, |balancer| (&balancer.arn, &balancer.tags));
        let groups = tags_by_id(&seen.elb.target_groups, |group| (&group.arn, &group.tags));
        let addresses = tags_by_id(&seen.ec2.addresses, |address| (&address.allocation_id, &address.tags));
        [balancers, groups, addresses].concat()
    },
    answer: |seen| {
        seen.elb.load_balancers.answer()?;
        seen.elb.target_groups.answer()?;
        seen.elb.listeners.answer()
    },
    update_ledger,
    plan,
};

fn wanted(inputs: &Inputs) -> Vec<Ref> {
    let balancers = inputs.load_balancers.iter().map(|balancer| &balancer.target);
    let addresses = load_balancer_address::wanted(inputs);
    let groups = target_group::wanted(inputs);
    balancers.cloned().chain(addresses).chain(groups).collect()
}

/// The tags of the load balancers, of their target groups and of their addresses.
fn tags(inputs: &Inputs) -> Vec<(Ref, Tags)> {
    let pairs = inputs.load_balancers.iter().flat_map(|balancer| {
        let groups = balancer.listeners.iter().map(|listener| &listener.group.target);
        let targets = std::iter::once(&balancer.target).chain(groups);
        targets.map(|target| (target.clone(), balancer.tags.clone()))
    });
    pairs.chain(load_balancer_address::tags(inputs)).collect()
}

/// The names of the load balancers that the spec asks for, that are recorded by name, that may have target groups, or
/// whose address is the endpoint.
pub(super) fn names(inputs: &Inputs, ledger: &Ledger) -> Vec<String> {
    let wanted = inputs.load_balancers.iter().map(|balancer| &balancer.target);
    let of_endpoint = endpoint::of(inputs).filter(|target| target.kind == Kind::LoadBalancer);
    let [network, _] = &inputs.endpoint_load_balancers;
    let of_groups = ledger.of_kind(Kind::TargetGroup).map(|_| network);
    let recorded = ledger.of_kind(Kind::LoadBalancer);
    let recorded = recorded.filter(|target| !ledger.is_surplus(target));
    let all = wanted.chain(recorded).chain(of_endpoint).chain(of_groups);
    let names: BTreeSet<&String> = all.map(|target| &target.name).collect();
    names.into_iter().cloned().collect()
}

/// Compares the ledger with the observation. A load balancer with the tag of the cluster belongs to it, and its unique
/// name identifies the wanted one. One that the cluster has never asked for is recorded under its ARN.
fn update_ledger(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    load_balancer_address::update_ledger(inputs, seen, ledger);
    let Some(balancers) = seen.elb.load_balancers.shown() else {
        return;
    };
    let owned = balancers.iter().filter(|balancer| inputs.names.owns(&balancer.tags));
    let mut names: Vec<Ref> = inputs.load_balancers.iter().map(|balancer| balancer.target.clone()).collect();
    names.extend(inputs.endpoint_load_balancers.iter().cloned());
    names.extend(ledger.of_kind(Kind::LoadBalancer).cloned());
    for balancer in owned {
        let target = Ref::new(Kind::LoadBalancer, &balancer.name);
        if names.contains(&target) || endpoint::is_address(inputs, &balancer.dns_name) {
            ledger.assign(&target, &balancer.arn);
        } else {
            ledger.surplus(Kind::LoadBalancer, &balancer.arn);
        }
    }
    ledger.update(Kind::LoadBalancer, |arn| {
        let shown = balancers.iter().find(|balancer| balancer.arn == arn);
        shown.map(|balancer| inputs.names.ownership(&balancer.tags))
    });
    target_group::update_ledger(inputs, seen, ledger);
}

fn plan(context: &PlanContext<'_>, plan: &mut Plan) {
    let elb = &context.seen.elb;
    if context.is_unseen(&elb.load_balancers)
        || context.is_unseen(&elb.target_groups)
        || context.is_unseen(&elb.listeners)
    {
        return wait_for_an_observation(context, plan);
    }
    if context.is_deleted {
        delete(context, plan);
        load_balancer_address::delete(context, plan);
        return target_group::delete(context, plan);
    }
    for wanted in &context.inputs.load_balancers {
        let target = &wanted.target;
        if context.is_wrong(target) || (wanted.is_endpoint && endpoint::has_another(context, target)) {
            continue;
        }
        match context.wanted(target, plan) {
            Some(Wanted::Missing) => create(context, wanted, plan),
            Some(Wanted::Shown(arn)) => keep(context, wanted, arn, plan),
            None => {}
        }
        for listener in &wanted.listeners {
            target_group::keep(context, &listener.group, listener.port, &wanted.tags, plan);
        }
        listener::keep(context, wanted, plan);
    }
    remove_unwanted(context, plan);
    target_group::remove_unwanted(context, plan);
}

/// AWS deletes a VPC even if target groups of it exist. So the deletion of the VPC waits for an observation of the
/// target groups.
fn wait_for_an_observation(context: &PlanContext<'_>, plan: &mut Plan) {
    let recorded = context.recorded(&[Kind::LoadBalancer, Kind::TargetGroup]);
    let may_exist = |target: &&Ref| context.presence(target) != Presence::Absent;
    for target in recorded.iter().filter(|_| context.is_deleted).filter(may_exist) {
        plan.wait(target, Reason::Deleting, "AWS does not show whether it exists");
    }
}

/// The load balancer that an observation shows under this ARN.
pub(super) fn shown<'a>(context: &PlanContext<'a>, arn: &str) -> Option<&'a LoadBalancer> {
    let mut balancers = context.seen.elb.load_balancers.shown()?.iter();
    balancers.find(|balancer| balancer.arn == arn)
}

/// The address that can become the endpoint, once the load balancer takes connections.
pub(super) fn address<'a>(context: &PlanContext<'a>) -> Option<Address<'a>> {
    let mut all = context.inputs.load_balancers.iter();
    let wanted = all.find(|balancer| balancer.is_endpoint)?;
    let Presence::Shown(arn) = context.presence(&wanted.target) else {
        return None;
    };
    let balancer = shown(context, arn)?;
    let is_wanted = balancer.scheme == wanted.scheme && !balancer.dns_name.is_empty();
    let is_working = is_wanted && balancer.state.works();
    let api = wanted.listeners.first()?;
    (is_working && listener::is_there(context, arn, api)).then_some(Address {
        target: &wanted.target,
        host: &balancer.dns_name,
        has_to_resolve: wanted.has_to_resolve,
    })
}

fn create(context: &PlanContext<'_>, wanted: &WantedLoadBalancer, plan: &mut Plan) {
    let (target, name) = (&wanted.target, &wanted.target.name);
    let mut balancers = context.seen.elb.load_balancers.shown().into_iter().flatten();
    if let Some(other) = balancers.find(|balancer| balancer.name == *name) {
        let message = format!(
            "{} has the name {name} that a load balancer of the cluster is to have, and is in {} or does not have the \
             cluster's tag: delete it, or set name in the spec",
            other.arn, other.vpc_id
        );
        return plan.problem(target, Reason::Conflict, message);
    }
    if wanted.is_endpoint && endpoint::report_lost(context, target, plan) {
        return;
    }
    let Some(subnets) = attachments::subnets(context, target, &wanted.places, plan) else {
        return;
    };
    load_balancer_address::allocate(context, wanted, plan);
    let call = Call::CreateLoadBalancer {
        name: name.clone(),
        scheme: wanted.scheme,
        subnets,
        addresses: wanted.addresses.iter().map(Id::from).collect(),
        security_groups: attachments::security_groups(&wanted.additional_security_groups),
        tags: wanted.tags.clone(),
    };
    plan.step_after(target, Why::Missing, call, attachments::needed(context));
}

fn keep(context: &PlanContext<'_>, wanted: &WantedLoadBalancer, arn: &str, plan: &mut Plan) {
    let Some(balancer) = shown(context, arn) else { return };
    let target = &wanted.target;
    if balancer.kind != LoadBalancerKind::Network || balancer.scheme != wanted.scheme {
        let message = format!(
            "{arn} was created with another type or scheme, which AWS cannot change: restore loadBalancerType and \
             scheme of {}",
            target.name
        );
        return plan.problem(target, Reason::InvalidSpec, message);
    }
    match &balancer.state {
        LoadBalancerState::Failed(reason) => {
            let message =
                format!("AWS could not create {arn}: {reason}; delete it, and the provider creates another one");
            return plan.problem(target, Reason::Failed, message);
        }
        LoadBalancerState::Provisioning => {
            plan.wait(target, Reason::Creating, format!("AWS provisions {arn}"));
        }
        LoadBalancerState::Active | LoadBalancerState::ActiveImpaired => {}
    }
    keep_attributes(wanted, balancer, plan);
    keep_attachments(context, wanted, balancer, plan);
}

fn keep_attributes(wanted: &WantedLoadBalancer, balancer: &LoadBalancer, plan: &mut Plan) {
    let attributes = BTreeMap::from([(CROSS_ZONE, wanted.is_cross_zone.to_string())]);
    let Some((attributes, why)) = differing(balancer.attributes.shown(), attributes) else {
        return;
    };
    let call = Call::ModifyLoadBalancerAttributes { load_balancer: Id::from(balancer.arn.as_str()), attributes };
    plan.step(&wanted.target.part(Kind::LoadBalancerAttributes), why, call);
}

fn keep_attachments(context: &PlanContext<'_>, wanted: &WantedLoadBalancer, balancer: &LoadBalancer, plan: &mut Plan) {
    let target = wanted.target.part(Kind::LoadBalancerAttributes);
    let load_balancer = || Id::from(balancer.arn.as_str());
    let (zones, present): (Vec<&str>, Vec<&str>) =
        balancer.subnets.iter().map(|(zone, subnet)| (zone.as_str(), subnet.as_str())).unzip();
    let shown = Shown { subnets: &present, zones: &zones, security_groups: &balancer.security_group_ids };
    let groups = attachments::other_security_groups(context, &wanted.additional_security_groups, shown);
    // A load balancer without security groups never gets any.
    if let Some((security_groups, why)) = groups.filter(|_| !balancer.security_group_ids.is_empty()) {
        let call = Call::SetSecurityGroups { load_balancer: load_balancer(), security_groups };
        plan.step(&target, why, call);
    }
    if let Some((missing, why)) = attachments::missing_subnets(context, &wanted.places, shown) {
        let present = present.into_iter().map(Id::from);
        let call = Call::SetSubnets { load_balancer: load_balancer(), subnets: present.chain(missing).collect() };
        plan.step(&target, why, call);
    }
}

/// Removes the second load balancer if the spec no longer asks for it. The first one stays, whatever type and name the
/// spec asks for. Clients may use one that the cluster has never asked for, so it stays too.
fn remove_unwanted(context: &PlanContext<'_>, plan: &mut Plan) {
    let names = wanted(context.inputs);
    let unwanted = context.ledger.of_kind(Kind::LoadBalancer);
    for target in unwanted.filter(|target| !names.contains(target)) {
        let Some(arn) = context.deletable(target, plan) else {
            continue;
        };
        if endpoint::report_kept(context, target, plan) {
            continue;
        }
        if context.ledger.is_surplus(target) {
            endpoint::report_unknown(target, plan);
        } else {
            delete_one(target, arn, plan);
        }
    }
}

fn delete(context: &PlanContext<'_>, plan: &mut Plan) {
    for target in context.ledger.of_kind(Kind::LoadBalancer) {
        if let Some(arn) = context.deletable(target, plan) {
            delete_one(target, arn, plan);
        }
    }
}

/// AWS deletes the listeners with their load balancer.
fn delete_one(target: &Ref, arn: &str, plan: &mut Plan) {
    let call = Call::DeleteLoadBalancer { load_balancer: Id::from(arn) };
    plan.step(target, Why::Unwanted, call);
}
