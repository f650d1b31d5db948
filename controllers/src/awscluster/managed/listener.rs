//! Listeners of the load balancers of the API server. Pure.

use capa_api::conditions::Reason;
use capa_cloud::elb::listener::Call;
use capa_cloud::elb::{Listener, Protocol};

use super::balancers::{WantedListener, WantedLoadBalancer};
use super::ledger::Presence;
use super::plan::{Plan, PlanContext, Why};
use super::reference::{Id, Ref};

/// The protocol of all listeners.
const PROTOCOL: Protocol = Protocol::Tcp;

/// The listeners of a load balancer that an observation shows.
fn of<'a>(context: &PlanContext<'a>, load_balancer: &str) -> impl Iterator<Item = &'a Listener> {
    let listeners = context.seen.elb.listeners.shown().into_iter().flatten();
    listeners.filter(move |listener| listener.load_balancer_arn == load_balancer)
}

/// Whether a listener forwards to its target group.
pub(super) fn is_there(context: &PlanContext<'_>, load_balancer: &str, wanted: &WantedListener) -> bool {
    let group = context.ledger.id(&wanted.group.target);
    let mut listeners = of(context, load_balancer);
    listeners.any(|listener| listener.port == wanted.port && group.is_some_and(|group| forwards_to(listener, group)))
}

fn forwards_to(listener: &Listener, group: &str) -> bool {
    listener.target_group_arns == [group]
}

/// Creates the listeners of a load balancer, corrects them, and removes those of the cluster that the spec does not
/// name.
pub(super) fn keep(context: &PlanContext<'_>, balancer: &WantedLoadBalancer, plan: &mut Plan) {
    let Presence::Shown(arn) = context.presence(&balancer.target) else {
        for wanted in &balancer.listeners {
            create(balancer, wanted, plan);
        }
        return;
    };
    for wanted in &balancer.listeners {
        match of(context, arn).find(|listener| listener.port == wanted.port) {
            None => create(balancer, wanted, plan),
            Some(listener) => correct(context, wanted, listener, plan),
        }
    }
    let is_endpoint =
        |port| balancer.is_endpoint && context.inputs.endpoint.as_ref().is_some_and(|(_, of)| *of == port);
    let is_wanted = |listener: &&Listener| {
        let mut wanted = balancer.listeners.iter();
        is_endpoint(listener.port) || wanted.any(|wanted| wanted.port == listener.port)
    };
    for listener in of(context, arn).filter(|listener| !is_wanted(listener)) {
        // Other users may have added listeners.
        if context.inputs.names.owns(&listener.tags) {
            let target = Ref::listener(&balancer.target.name, listener.port.into());
            let call = Call::DeleteListener { listener: Id::from(listener.arn.as_str()) };
            plan.step(&target, Why::Unwanted, call);
        }
    }
}

fn create(balancer: &WantedLoadBalancer, wanted: &WantedListener, plan: &mut Plan) {
    let call = Call::CreateListener {
        load_balancer: Id::from(&balancer.target),
        group: Id::from(&wanted.group.target),
        port: wanted.port,
        tags: balancer.tags.clone(),
    };
    plan.step(&wanted.target, Why::Missing, call);
}

fn correct(context: &PlanContext<'_>, wanted: &WantedListener, listener: &Listener, plan: &mut Plan) {
    if listener.protocol != PROTOCOL {
        let message = format!(
            "{} has the protocol {}: delete it, and the provider creates one with {PROTOCOL}",
            listener.arn, listener.protocol
        );
        return plan.problem(&wanted.target, Reason::Conflict, message);
    }
    let Some(group) = context.ledger.id(&wanted.group.target) else {
        return;
    };
    if forwards_to(listener, group) {
        return;
    }
    if !context.inputs.names.owns(&listener.tags) {
        let message = format!(
            "{} is on the port {} and does not have the cluster's tag: delete it, and the provider creates its own",
            listener.arn, listener.port
        );
        return plan.problem(&wanted.target, Reason::Conflict, message);
    }
    let why =
        Why::Differs { field: "target group", is: listener.target_group_arns.join(", "), wanted: group.to_owned() };
    let call =
        Call::ModifyListener { listener: Id::from(listener.arn.as_str()), group: Id::from(&wanted.group.target) };
    plan.step(&wanted.target, why, call);
}
