//! Instances of classic load balancers.

use super::super::answer::{Answer, Refusal};
use super::super::caller::CallerIdentity;
use super::super::request::Request;
use super::super::state::{AccountState, Shared};
use super::super::xml::Element;
use super::calls::{instances, required};
use super::facts::MotoRegion;
use super::targets::{Group, GroupFacts, Health, TargetId};
use super::{answer, list, with_account};

/// The facts of every classic load balancer: it is always in use, and its targets are instances.
pub(super) const FACTS: GroupFacts<'_> = GroupFacts { vpc_id: "", in_use: true };

/// RegisterInstancesWithLoadBalancer.
pub(super) async fn register(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let (group, _) = load_balancer(shared, request, caller).await?;
    let region = &request.scope.region;
    let left: Vec<TargetId> = with_account(shared, &caller.account, |account, now| {
        let named = instances(request);
        let known = &account.instances;
        let exists = |id: &str| !known.is_hidden_from(caller, id, now) && known.exists(id, region);
        if let Some(unknown) = named.iter().find(|target| !exists(&target.id)) {
            return Err(not_valid(&unknown.id));
        }
        for target in named {
            account.targets.register(&group, target, now);
        }
        Ok(account.targets.of(&group, &account.instances, now))
    })?;
    answer(request, vec![registered(&left)])
}

/// DeregisterInstancesFromLoadBalancer. An instance that is not registered is not an error.
pub(super) async fn deregister(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let (group, name) = load_balancer(shared, request, caller).await?;
    let region = MotoRegion { account: &caller.account, scope: &request.scope };
    let delay = region.connection_draining(shared, &name).await?;
    let left: Vec<TargetId> = with_account(shared, &caller.account, |account, now| {
        for target in instances(request) {
            account.targets.deregister(&group, &target, delay, now);
        }
        account.targets.of(&group, &account.instances, now)
    });
    answer(request, vec![registered(&left)])
}

/// DescribeInstanceHealth of all registered instances, or of the named ones, which must be registered.
pub(super) async fn health(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let (group, _) = load_balancer(shared, request, caller).await?;
    let named = instances(request);
    let states = with_account(shared, &caller.account, |account, now| {
        let AccountState { targets, instances, .. } = account;
        let registered = targets.of(&group, instances, now);
        if let Some(unknown) = named.iter().find(|target| !registered.contains(target)) {
            return Err(not_valid(&unknown.id));
        }
        let shown = if named.is_empty() { registered } else { named };
        let described: Vec<_> = shown
            .into_iter()
            .map(|target| describe(&target, targets.health(&group, FACTS, &target, instances, now)))
            .collect();
        Ok(described)
    })?;
    answer(request, vec![list("InstanceStates", states)])
}

async fn load_balancer(
    shared: &Shared,
    request: &Request,
    caller: &CallerIdentity,
) -> Result<(Group, String), Refusal> {
    let name = required(request, "LoadBalancerName")?;
    let region = MotoRegion { account: &caller.account, scope: &request.scope };
    region.classic(shared, name).await?;
    let group = Group::Classic(request.scope.region.clone(), name.to_owned());
    Ok((group, name.to_owned()))
}

fn not_valid(instance: &str) -> Refusal {
    let message = format!("Could not find EC2 instance {instance}.");
    Refusal::new(400, "InvalidInstance", message)
}

fn registered(targets: &[TargetId]) -> Element {
    list("Instances", targets.iter().map(|target| vec![Element::text("InstanceId", &target.id)]))
}

fn describe(target: &TargetId, health: Health) -> Vec<Element> {
    let (state, reason, description) = match health {
        Health::Healthy => ("InService", "N/A", "N/A"),
        Health::Draining => ("InService", "N/A", "Instance deregistration currently in progress."),
        Health::Stopped => ("OutOfService", "Instance", "Instance is in stopped state."),
        Health::Unhealthy | Health::NotInUse | Health::NotRegistered => (
            "OutOfService",
            "Instance",
            "Instance has failed at least the UnhealthyThreshold number of health checks consecutively.",
        ),
    };
    vec![
        Element::text("InstanceId", &target.id),
        Element::text("State", state),
        Element::text("ReasonCode", reason),
        Element::text("Description", description),
    ]
}
