//! Target groups of the load balancers of the API server. Pure.

use std::collections::BTreeMap;

use capa_api::common::Tags;
use capa_api::conditions::Reason;
use capa_cloud::elb::target_group::{Call, PREFIXES};
use capa_cloud::elb::{Listener, Protocol, TargetGroup};
use capa_cloud::managed::Observed;

use super::attributes::differing;
use super::balancers::{WantedListener, WantedTargetGroup};
use super::inputs::Inputs;
use super::ledger::Ledger;
use super::plan::{Plan, PlanContext, Wanted, Why};
use super::reference::{Id, Kind, Ref};

/// The protocol of all target groups.
const PROTOCOL: Protocol = Protocol::Tcp;
/// Whether targets see the addresses of clients.
const PRESERVE_CLIENT_IP: &str = "preserve_client_ip.enabled";
/// Whether connections end as soon as a target is unhealthy. API servers close their own connections.
const TERMINATION: &str = "target_health_state.unhealthy.connection_termination.enabled";
/// For how many seconds an unhealthy target still serves its connections.
const DRAINING: &str = "target_health_state.unhealthy.draining_interval_seconds";

/// The references of all target groups that the spec asks for.
pub(super) fn wanted(inputs: &Inputs) -> impl Iterator<Item = Ref> {
    let listeners = inputs.load_balancers.iter().flat_map(|balancer| &balancer.listeners);
    listeners.map(|listener| listener.group.target.clone())
}

/// Compares the ledger with the observation. A target group with the tag of the cluster belongs to it. The wanted one
/// is identified by its name, or by the listener that forwards to it, because CAPA gives its target groups random
/// names.
pub(super) fn update_ledger(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    let Some(groups) = seen.elb.target_groups.shown() else {
        return;
    };
    let owned = groups.iter().filter(|group| inputs.names.owns(&group.tags));
    let names: Vec<Ref> = wanted(inputs).collect();
    for balancer in &inputs.load_balancers {
        let arn = ledger.id(&balancer.target).map(str::to_owned);
        for listener in &balancer.listeners {
            let target = &listener.group.target;
            let by_name = owned.clone().find(|group| group.name == target.name);
            let attached = || attached_to(seen, arn.as_deref()?, listener, owned.clone());
            if let Some(group) = by_name.or_else(attached) {
                ledger.found(target, &group.arn, &names);
            }
        }
    }
    for group in owned {
        ledger.surplus(Kind::TargetGroup, &group.arn);
    }
    ledger.update(Kind::TargetGroup, |arn| {
        let shown = groups.iter().find(|group| group.arn == arn);
        shown.map(|group| inputs.names.ownership(&group.tags))
    });
}

/// The target group of the same kind that a listener of the load balancer forwards to.
fn attached_to<'a>(
    seen: &Observed,
    load_balancer: &str,
    wanted: &WantedListener,
    mut owned: impl Iterator<Item = &'a TargetGroup>,
) -> Option<&'a TargetGroup> {
    let name = &wanted.group.target.name;
    let prefix = PREFIXES.into_iter().find(|prefix| name.starts_with(prefix))?;
    let mut listeners = seen.elb.listeners.shown()?.iter();
    let listener = listeners.find(|shown| shown.load_balancer_arn == load_balancer && shown.port == wanted.port)?;
    owned.find(|group| {
        let is_like = group.port == wanted.port && group.protocol == PROTOCOL && group.name.starts_with(prefix);
        is_like && listener.target_group_arns == [group.arn.as_str()]
    })
}

/// Creates a target group, and keeps it as the spec asks.
pub(super) fn keep(context: &PlanContext<'_>, wanted: &WantedTargetGroup, port: i32, tags: &Tags, plan: &mut Plan) {
    let target = &wanted.target;
    match context.wanted(target, plan) {
        Some(Wanted::Missing) => create(context, wanted, port, tags, plan),
        Some(Wanted::Shown(arn)) => keep_as_wanted(context, wanted, port, arn, plan),
        None => {}
    }
}

fn create(context: &PlanContext<'_>, wanted: &WantedTargetGroup, port: i32, tags: &Tags, plan: &mut Plan) {
    let target = &wanted.target;
    let mut groups = context.seen.elb.target_groups.shown().into_iter().flatten();
    if let Some(other) = groups.find(|group| group.name == target.name) {
        let message = format!(
            "{} has the name that a target group of the cluster is to have, and is in {} or does not have the \
             cluster's tag: delete it",
            other.arn, other.vpc_id
        );
        return plan.problem(target, Reason::Conflict, message);
    }
    let call = Call::CreateTargetGroup {
        vpc: Id::from(&context.inputs.vpc.target),
        name: target.name.clone(),
        port,
        health_check: wanted.health_check.clone(),
        tags: tags.clone(),
    };
    plan.step_after(target, Why::Missing, call, context.checked());
}

fn keep_as_wanted(context: &PlanContext<'_>, wanted: &WantedTargetGroup, port: i32, arn: &str, plan: &mut Plan) {
    let mut groups = context.seen.elb.target_groups.shown().into_iter().flatten();
    let Some(group) = groups.find(|group| group.arn == arn) else {
        return;
    };
    if group.port != port || group.protocol != PROTOCOL {
        let message = format!(
            "{arn} has the protocol {} and the port {}, which AWS does not change: delete it, and the provider creates \
             one with {PROTOCOL} and {port}",
            group.protocol, group.port
        );
        return plan.problem(&wanted.target, Reason::Conflict, message);
    }
    let target = wanted.target.part(Kind::TargetGroupAttributes);
    if group.health_check != wanted.health_check {
        let why = Why::Differs {
            field: "health check",
            is: group.health_check.to_string(),
            wanted: wanted.health_check.to_string(),
        };
        let call = Call::ModifyTargetGroup { group: Id::from(arn), health_check: wanted.health_check.clone() };
        plan.step(&target, why, call);
    }
    let attributes = BTreeMap::from([
        (PRESERVE_CLIENT_IP, wanted.preserves_client_ip.to_string()),
        (TERMINATION, false.to_string()),
        (DRAINING, 300.to_string()),
    ]);
    // Targets that see the addresses of clients would refuse their traffic.
    if let Err(Some(error)) = group.attributes.answer() {
        plan.problem(&target, error.class.reason(), error.to_string());
    } else if let Some((attributes, why)) = differing(group.attributes.shown(), attributes) {
        let group = Id::from(arn);
        plan.step(&target, why, Call::ModifyTargetGroupAttributes { group, attributes });
    }
}

/// Deletes target groups that no listener of the spec needs, after the listeners that forward to them. A target group
/// that a listener of another user needs stays.
pub(super) fn remove_unwanted(context: &PlanContext<'_>, plan: &mut Plan) {
    let names: Vec<Ref> = wanted(context.inputs).collect();
    let unwanted = context.ledger.of_kind(Kind::TargetGroup);
    for target in unwanted.filter(|target| !names.contains(target)) {
        let Some(arn) = context.deletable(target, plan) else {
            continue;
        };
        let users = context.seen.elb.listeners.shown().into_iter().flatten();
        let users = users.filter(|listener| listener.target_group_arns.iter().any(|group| group == arn));
        let after: Option<Vec<Ref>> = users.map(|listener| end_of(context, listener, plan)).collect();
        if let Some(after) = after {
            let call = Call::DeleteTargetGroup { group: Id::from(arn) };
            plan.step_after(target, Why::Unwanted, call, after);
        }
    }
}

/// The planned step after which a listener no longer forwards to its target group.
fn end_of(context: &PlanContext<'_>, listener: &Listener, plan: &Plan) -> Option<Ref> {
    let balancer = context.ledger.with_id(&listener.load_balancer_arn)?;
    let own = Ref::listener(&balancer.name, listener.port.into());
    let has_step = |target: &Ref| plan.steps.iter().any(|step| step.target == *target);
    [balancer.clone(), own].into_iter().find(has_step)
}

/// Deletes target groups after the load balancers that use them.
pub(super) fn delete(context: &PlanContext<'_>, plan: &mut Plan) {
    for target in context.ledger.of_kind(Kind::TargetGroup) {
        if let Some(arn) = context.deletable(target, plan) {
            let call = Call::DeleteTargetGroup { group: Id::from(arn) };
            plan.step_after(target, Why::Unwanted, call, context.recorded(&[Kind::LoadBalancer]));
        }
    }
}
