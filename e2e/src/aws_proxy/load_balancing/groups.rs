//! Targets of target groups.

use super::super::answer::{Answer, Refusal};
use super::super::caller::CallerIdentity;
use super::super::instances::RUNNING;
use super::super::request::Request;
use super::super::state::{AccountState, Shared};
use super::super::xml::Element;
use super::calls::{required, targets};
use super::facts::{MotoRegion, TargetGroup};
use super::targets::{Group, GroupFacts, Health, TargetId, is_instance};
use super::{answer, list, with_account};

/// RegisterTargets: registers all targets or, where one is invalid, none.
pub(super) async fn register(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let (arn, facts) = group(shared, request, caller).await?;
    let targets = targets(request, &facts)?;
    let region = &request.scope.region;
    with_account(shared, &caller.account, |account, now| {
        for target in targets.iter().filter(|target| is_instance(target)) {
            let is_hidden = account.instances.is_hidden_from(caller, &target.id, now);
            if is_hidden || !account.instances.is_in_vpc(&target.id, region, &facts.vpc_id) {
                let message = format!("Instance ID '{}' is not valid", target.id);
                return Err(Refusal::new(400, "InvalidTarget", message));
            }
            if account.instances.state(&target.id, now) != RUNNING {
                let message = "The following targets are not in a running state and cannot be registered: ".to_owned()
                    + &target.id;
                return Err(Refusal::new(400, "InvalidTarget", message));
            }
        }
        for target in targets {
            account.targets.register(&Group::TargetGroup(arn.clone()), target, now);
        }
        Ok(())
    })?;
    answer(request, Vec::new())
}

/// DeregisterTargets. A target that is not registered is not an error.
pub(super) async fn deregister(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let (arn, facts) = group(shared, request, caller).await?;
    let region = MotoRegion { account: &caller.account, scope: &request.scope };
    let delay = region.deregistration_delay(shared, &arn).await?;
    let targets = targets(request, &facts)?;
    with_account(shared, &caller.account, |account, now| {
        for target in targets {
            let group = Group::TargetGroup(arn.clone());
            account.targets.deregister(&group, &target, delay, now);
        }
    });
    answer(request, Vec::new())
}

/// DescribeTargetHealth of the named targets, or of all targets that are registered or draining.
pub(super) async fn health(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let (arn, facts) = group(shared, request, caller).await?;
    let named = targets(request, &facts)?;
    let group = Group::TargetGroup(arn);
    let descriptions = with_account(shared, &caller.account, |account, now| {
        let AccountState { targets, instances, .. } = account;
        let shown = if named.is_empty() { targets.of(&group, instances, now) } else { named };
        let described: Vec<_> = shown
            .into_iter()
            .map(|target| {
                let health = targets.health(&group, facts.as_facts(), &target, instances, now);
                describe(&target, health)
            })
            .collect();
        described
    });
    answer(request, vec![list("TargetHealthDescriptions", descriptions)])
}

async fn group(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<(String, TargetGroup), Refusal> {
    let arn = required(request, "TargetGroupArn")?;
    let region = MotoRegion { account: &caller.account, scope: &request.scope };
    Ok((arn.to_owned(), region.target_group(shared, arn).await?))
}

impl TargetGroup {
    pub(super) fn as_facts(&self) -> GroupFacts<'_> {
        GroupFacts { vpc_id: &self.vpc_id, in_use: self.in_use }
    }
}

fn describe(target: &TargetId, health: Health) -> Vec<Element> {
    let (state, reason, description) = match health {
        Health::Healthy => ("healthy", "", ""),
        Health::Unhealthy => ("unhealthy", "Target.FailedHealthChecks", "Health checks failed"),
        Health::Draining => ("draining", "Target.DeregistrationInProgress", "Target deregistration is in progress"),
        Health::Stopped => ("unused", "Target.InvalidState", "Target is in the stopped state"),
        Health::NotInUse => {
            ("unused", "Target.NotInUse", "Target group is not configured to receive traffic from the load balancer")
        }
        Health::NotRegistered => ("unused", "Target.NotRegistered", "Target is not registered to the target group"),
    };
    let mut health_elements = vec![Element::text("State", state)];
    if !reason.is_empty() {
        health_elements.push(Element::text("Reason", reason));
        health_elements.push(Element::text("Description", description));
    }
    let port = target.port.to_string();
    let id = vec![Element::text("Id", &target.id), Element::text("Port", &port)];
    vec![
        Element::parent("Target", id),
        Element::text("HealthCheckPort", &port),
        Element::parent("TargetHealth", health_elements),
    ]
}
