//! The endpoint of the cluster, and the load balancer that has or had its address. Pure.

use capa_api::conditions::Reason;

use super::inputs::Inputs;
use super::ledger::Presence;
use super::plan::{Plan, PlanContext};
use super::reference::{Kind, Ref};

/// An address that takes connections, and can become the endpoint.
pub(super) struct Address<'a> {
    /// The load balancer.
    pub(super) target: &'a Ref,
    pub(super) host: &'a str,
    /// Whether the host has to resolve before.
    pub(super) has_to_resolve: bool,
}

/// The load balancer whose address is the published endpoint, according to its name: AWS composes addresses of the name
/// and random letters, as in `dev-0a1b2c.elb.eu-west-1.amazonaws.com`, or in
/// `internal-dev-123.eu-west-1.elb.amazonaws.com` for a classic one.
pub(super) fn of(inputs: &Inputs) -> Option<&Ref> {
    let (host, _) = inputs.endpoint.as_ref()?;
    let mut all = inputs.endpoint_load_balancers.iter();
    all.find(|target| {
        let is_classic = target.kind == Kind::ClassicLoadBalancer;
        let of_internal = host.strip_prefix("internal-").filter(|_| is_classic);
        let forms = of_internal.into_iter().chain([host.as_str()]);
        let mut rests = forms.filter_map(|host| host.strip_prefix(target.name.as_str()));
        // The region comes before `elb` in the address of a classic one.
        rests.any(|rest| rest.starts_with('-') && rest.split('.').nth(1 + usize::from(is_classic)) == Some("elb"))
    })
}

/// Whether the endpoint has this host.
pub(super) fn is_address(inputs: &Inputs, dns_name: &str) -> bool {
    inputs.endpoint.as_ref().is_some_and(|(host, _)| host == dns_name)
}

/// The load balancer that an observation shows with the address of the published endpoint.
fn holder<'a>(context: &PlanContext<'a>) -> Option<&'a Ref> {
    let network = context.seen.elb.load_balancers.shown().into_iter().flatten();
    let network = network.map(|balancer| (&balancer.dns_name, &balancer.arn));
    let classic = context.seen.elb.classic_load_balancers.shown().into_iter().flatten();
    let classic = classic.map(|balancer| (&balancer.dns_name, &balancer.name));
    let (_, id) = network.chain(classic).find(|(dns_name, _)| is_address(context.inputs, dns_name))?;
    context.ledger.with_id(id)
}

/// The load balancer that may be behind the endpoint under a former name in the spec. The host of an endpoint that the
/// user has set does not show which load balancer is behind it.
fn former<'a>(context: &'a PlanContext<'_>) -> Option<&'a Ref> {
    let wanted = &context.inputs.load_balancers;
    let first = wanted.iter().find(|balancer| balancer.is_endpoint)?;
    if context.inputs.endpoint.is_none() || context.ledger.is_recorded(&first.target) {
        return None;
    }
    let is_wanted = |target: &Ref| wanted.iter().any(|balancer| balancer.target == *target);
    let mut recorded = context.ledger.of_kind(Kind::LoadBalancer);
    recorded.find(|target| !is_wanted(target) && !context.ledger.is_surplus(target))
}

/// Whether the cluster has another load balancer for its endpoint than `target`, of another type or with another name.
/// The cluster keeps that load balancer, so `target` must not replace it.
pub(super) fn has_another(context: &PlanContext<'_>, target: &Ref) -> bool {
    let others = context.inputs.endpoint_load_balancers.iter().chain(holder(context)).chain(former(context));
    let mut presences = others.filter(|other| *other != target).map(|other| context.presence(other));
    presences.any(Presence::may_exist)
}

/// Adds a problem for the missing `target` if the published endpoint is the address of a load balancer, because a new
/// one would have another address. Returns whether there is a problem.
pub(super) fn report_lost(context: &PlanContext<'_>, target: &Ref, plan: &mut Plan) -> bool {
    let (Some(lost), Some((host, _))) = (of(context.inputs), &context.inputs.endpoint) else {
        return false;
    };
    let message = format!(
        "the {lost} does not exist any more, and no other one would have its address {host}, which is the endpoint of \
         the cluster: delete the Cluster, and create it again"
    );
    plan.problem(target, Reason::Failed, message);
    true
}

/// Adds a problem if `target`, which the spec no longer asks for, is the load balancer of the endpoint. Returns whether
/// it is.
pub(super) fn report_kept(context: &PlanContext<'_>, target: &Ref, plan: &mut Plan) -> bool {
    let kind = match target.kind {
        Kind::ClassicLoadBalancer => "classic",
        _ => "nlb",
    };
    let message = if context.inputs.endpoint_load_balancers.contains(target) {
        format!(
            "the cluster has the {target}, whose type does not change: set loadBalancerType of \
             controlPlaneLoadBalancer back to {kind}"
        )
    } else if holder(context) == Some(target) {
        format!(
            "the address of the {target} is the endpoint of the cluster: set name of controlPlaneLoadBalancer back to \
             {}",
            target.name
        )
    } else if former(context) == Some(target) {
        format!(
            "the {target} may be behind the endpoint of the cluster: set name of controlPlaneLoadBalancer back to {}",
            target.name
        )
    } else {
        return false;
    };
    plan.problem(target, Reason::InvalidSpec, message);
    true
}

/// Adds the problem of a load balancer with the tag of the cluster that the cluster has never asked for.
pub(super) fn report_unknown(target: &Ref, plan: &mut Plan) {
    let message = format!(
        "the {target} has the tag of the cluster, and the spec does not ask for it: delete it, or remove the tag"
    );
    plan.problem(target, Reason::Conflict, message);
}
