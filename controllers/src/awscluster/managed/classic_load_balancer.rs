//! The Classic Load Balancer of the API server. Pure.

use std::collections::BTreeSet;

use capa_api::conditions::{ConditionType, Reason};
use capa_cloud::elb::ClassicLoadBalancer;
use capa_cloud::elb::classic_load_balancer::Call;
use capa_cloud::managed::Observed;

use super::attachments::{self, Shown};
use super::classic_balancer::WantedClassicLoadBalancer;
use super::endpoint::{self, Address};
use super::inputs::Inputs;
use super::ledger::{Ledger, Presence};
use super::plan::{Plan, PlanContext, Wanted, Why};
use super::planner::{Planner, tags_by_id};
use super::reference::{Id, Kind, Ref};

/// The planner of the Classic Load Balancer.
pub(super) const PLANNER: Planner = Planner {
    kinds: &[Kind::ClassicLoadBalancer, Kind::ClassicLoadBalancerAttributes],
    condition: ConditionType::LoadBalancerReady,
    waiting: Reason::WaitingForVpc,
    is_optional: true,
    only_in_managed_vpc: false,
    wanted: |inputs| {
        let wanted = inputs.classic_load_balancer.iter();
        wanted.map(|balancer| balancer.target.clone()).collect()
    },
    tags: |inputs| {
        let wanted = inputs.classic_load_balancer.iter();
        wanted.map(|balancer| (balancer.target.clone(), balancer.tags.clone())).collect()
    },
    tags_shown: |seen| tags_by_id(&seen.elb.classic_load_balancers, |balancer| (&balancer.name, &balancer.tags)),
    answer: |seen| seen.elb.classic_load_balancers.answer(),
    update_ledger,
    plan,
};

/// The names of the load balancers that the spec asks for, that are recorded, or whose address is the endpoint.
pub(super) fn names(inputs: &Inputs, ledger: &Ledger) -> Vec<String> {
    let wanted = inputs.classic_load_balancer.iter().map(|balancer| &balancer.target);
    let of_endpoint = endpoint::of(inputs).filter(|target| target.kind == Kind::ClassicLoadBalancer);
    let all = wanted.chain(ledger.of_kind(Kind::ClassicLoadBalancer)).chain(of_endpoint);
    let names: BTreeSet<&String> = all.map(|target| &target.name).collect();
    names.into_iter().cloned().collect()
}

/// Compares the ledger with the observation. The tag shows that a load balancer belongs to the cluster. Its id is its
/// name, so a load balancer elsewhere may have the same id.
fn update_ledger(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    let Some(balancers) = seen.elb.classic_load_balancers.shown() else {
        return;
    };
    let vpc = ledger.id(&inputs.vpc.target).map(str::to_owned);
    let here = balancers.iter().filter(|balancer| Some(&balancer.vpc_id) == vpc.as_ref());
    for balancer in here.clone().filter(|balancer| inputs.names.owns(&balancer.tags)) {
        ledger.assign(&Ref::new(Kind::ClassicLoadBalancer, &balancer.name), &balancer.name);
    }
    ledger.update(Kind::ClassicLoadBalancer, |name| {
        let shown = here.clone().find(|balancer| balancer.name == name);
        shown.map(|balancer| inputs.names.ownership(&balancer.tags))
    });
}

fn plan(context: &PlanContext<'_>, plan: &mut Plan) {
    if context.is_unseen(&context.seen.elb.classic_load_balancers) {
        return;
    }
    if !context.is_deleted
        && let Some(wanted) = &context.inputs.classic_load_balancer
    {
        keep(context, wanted, plan);
    }
    remove_unwanted(context, plan);
}

/// The load balancer that an observation shows under this name.
fn shown<'a>(context: &PlanContext<'a>, name: &str) -> Option<&'a ClassicLoadBalancer> {
    let mut balancers = context.seen.elb.classic_load_balancers.shown()?.iter();
    balancers.find(|balancer| balancer.name == name)
}

/// The address that can become the endpoint, once the load balancer takes connections.
pub(super) fn address<'a>(context: &PlanContext<'a>) -> Option<Address<'a>> {
    let wanted = context.inputs.classic_load_balancer.as_ref()?;
    let Presence::Shown(name) = context.presence(&wanted.target) else {
        return None;
    };
    let balancer = shown(context, name)?;
    let is_wanted = balancer.scheme == wanted.scheme && !balancer.dns_name.is_empty();
    let takes_connections = is_wanted && balancer.listeners.contains(&wanted.listener);
    takes_connections.then_some(Address {
        target: &wanted.target,
        host: &balancer.dns_name,
        has_to_resolve: wanted.has_to_resolve,
    })
}

fn keep(context: &PlanContext<'_>, wanted: &WantedClassicLoadBalancer, plan: &mut Plan) {
    let target = &wanted.target;
    if context.is_wrong(target) || endpoint::has_another(context, target) {
        return;
    }
    match context.wanted(target, plan) {
        Some(Wanted::Missing) => create(context, wanted, plan),
        Some(Wanted::Shown(name)) => {
            if let Some(balancer) = shown(context, name) {
                keep_as_wanted(context, wanted, balancer, plan);
            }
        }
        None => {}
    }
}

fn create(context: &PlanContext<'_>, wanted: &WantedClassicLoadBalancer, plan: &mut Plan) {
    let (target, name) = (&wanted.target, &wanted.target.name);
    let mut balancers = context.seen.elb.classic_load_balancers.shown().into_iter().flatten();
    // AWS treats names that differ only in case as equal.
    if let Some(other) = balancers.find(|balancer| balancer.name.eq_ignore_ascii_case(name)) {
        let message = format!(
            "a classic load balancer in {} has the name {} that the cluster's is to have, and is in another VPC or \
             does not have the cluster's tag: delete it, or set name in the spec",
            other.vpc_id, other.name
        );
        return plan.problem(target, Reason::Conflict, message);
    }
    if endpoint::report_lost(context, target, plan) {
        return;
    }
    let Some(subnets) = attachments::subnets(context, target, &wanted.places, plan) else {
        return;
    };
    let call = Call::CreateLoadBalancer {
        name: name.clone(),
        scheme: wanted.scheme,
        subnets,
        security_groups: attachments::security_groups(&wanted.additional_security_groups),
        listener: wanted.listener.clone(),
        tags: wanted.tags.clone(),
    };
    plan.step_after(target, Why::Missing, call, attachments::needed(context));
}

fn keep_as_wanted(
    context: &PlanContext<'_>,
    wanted: &WantedClassicLoadBalancer,
    balancer: &ClassicLoadBalancer,
    plan: &mut Plan,
) {
    if balancer.scheme != wanted.scheme {
        let message = format!(
            "{} was created with another scheme, which AWS does not change: set scheme of controlPlaneLoadBalancer \
             back",
            balancer.name
        );
        return plan.problem(&wanted.target, Reason::InvalidSpec, message);
    }
    keep_listener(wanted, balancer, plan);
    keep_settings(wanted, balancer, plan);
    keep_attachments(context, wanted, balancer, plan);
}

/// Other users may have added listeners.
fn keep_listener(wanted: &WantedClassicLoadBalancer, balancer: &ClassicLoadBalancer, plan: &mut Plan) {
    let mut listeners = balancer.listeners.iter();
    match listeners.find(|listener| listener.port == wanted.listener.port) {
        Some(listener) if *listener == wanted.listener => {}
        Some(listener) => {
            let message = format!(
                "{} has a listener {listener} on the port of the API server: delete it, and the provider creates {}",
                balancer.name, wanted.listener
            );
            plan.problem(&wanted.target, Reason::Conflict, message);
        }
        None => {
            let call = Call::CreateLoadBalancerListeners {
                load_balancer: Id::from(balancer.name.as_str()),
                listener: wanted.listener.clone(),
            };
            plan.step(&attributes(wanted), Why::Missing, call);
        }
    }
}

fn keep_settings(wanted: &WantedClassicLoadBalancer, balancer: &ClassicLoadBalancer, plan: &mut Plan) {
    let load_balancer = || Id::from(balancer.name.as_str());
    if balancer.health_check != wanted.health_check {
        let why = Why::Differs {
            field: "health check",
            is: balancer.health_check.to_string(),
            wanted: wanted.health_check.to_string(),
        };
        let call =
            Call::ConfigureHealthCheck { load_balancer: load_balancer(), health_check: wanted.health_check.clone() };
        plan.step(&attributes(wanted), why, call);
    }
    if let Some(shown) = balancer.attributes.shown().filter(|shown| **shown != wanted.attributes) {
        let why = Why::Differs { field: "attributes", is: shown.to_string(), wanted: wanted.attributes.to_string() };
        let call = Call::ModifyLoadBalancerAttributes { load_balancer: load_balancer(), attributes: wanted.attributes };
        plan.step(&attributes(wanted), why, call);
    }
}

fn keep_attachments(
    context: &PlanContext<'_>,
    wanted: &WantedClassicLoadBalancer,
    balancer: &ClassicLoadBalancer,
    plan: &mut Plan,
) {
    let load_balancer = || Id::from(balancer.name.as_str());
    let shown = Shown {
        subnets: &balancer.subnet_ids.iter().map(String::as_str).collect::<Vec<_>>(),
        zones: &balancer.zones.iter().map(String::as_str).collect::<Vec<_>>(),
        security_groups: &balancer.security_group_ids,
    };
    let groups = attachments::other_security_groups(context, &wanted.additional_security_groups, shown);
    if let Some((security_groups, why)) = groups {
        let call = Call::ApplySecurityGroupsToLoadBalancer { load_balancer: load_balancer(), security_groups };
        plan.step(&attributes(wanted), why, call);
    }
    if let Some((subnets, why)) = attachments::missing_subnets(context, &wanted.places, shown) {
        let call = Call::AttachLoadBalancerToSubnets { load_balancer: load_balancer(), subnets };
        plan.step(&attributes(wanted), why, call);
    }
}

fn attributes(wanted: &WantedClassicLoadBalancer) -> Ref {
    wanted.target.part(Kind::ClassicLoadBalancerAttributes)
}

/// Deletes the load balancers in a deletion of the cluster. In a living cluster, which has at most one classic load
/// balancer, any other one stays and is a problem, because its clients are unknown.
fn remove_unwanted(context: &PlanContext<'_>, plan: &mut Plan) {
    let wanted = context.inputs.classic_load_balancer.as_ref();
    let wanted = wanted.filter(|_| !context.is_deleted).map(|balancer| &balancer.target);
    let recorded = context.ledger.of_kind(Kind::ClassicLoadBalancer);
    for target in recorded.filter(|target| Some(*target) != wanted) {
        let Some(name) = context.deletable(target, plan) else {
            continue;
        };
        if context.is_deleted {
            let load_balancer = Id::from(name);
            plan.step(target, Why::Unwanted, Call::DeleteLoadBalancer { load_balancer });
        } else if !endpoint::report_kept(context, target, plan) {
            endpoint::report_unknown(target, plan);
        }
    }
}
