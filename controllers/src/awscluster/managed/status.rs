//! The status of a managed AWSCluster, and the time of its next pass. Pure.

use std::time::Duration;

use capa_api::cluster::AWSCluster;
use capa_api::cluster::status::AWSClusterStatus;
use capa_api::common::Initialization;
use capa_api::conditions::{self, ConditionStatus, ConditionType, ConditionUpdate, Reason, find, holds, is_false};
use capa_api::meta;
use capa_cloud::Timing;
use capa_runtime::reconcile::Next;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::condition;
use super::inputs::Inputs;
use super::plan::{Plan, PlanContext};
use super::planners;
use super::preview::Preview;
use super::problem::Problem;
use super::step_result::StepResult;
use crate::pause::not_paused;

/// The most characters of a plan in the status.
const MAX_PLAN_CHARACTERS: usize = 100_000;

/// The reason for a resource that cannot be deleted because it is in use.
pub(super) fn in_use(cluster: &AWSCluster, timing: &Timing, now: Timestamp) -> Reason {
    let deleted_at = cluster.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let is_blocked = deleted_at.is_some_and(|at| at + timing.managed_deletion_age < now);
    if is_blocked { Reason::DeletionBlocked } else { Reason::Deleting }
}

/// The result of one pass.
pub(super) struct Summary {
    updates: Vec<ConditionUpdate>,
    is_provisioned: bool,
    /// Whether a call was refused, so that the interval between passes grows.
    has_failed: bool,
    /// The time after which the provider's own rate limits allow a deferred call.
    deferred: Option<Duration>,
    /// Whether nothing is under way, neither in AWS nor by a call.
    is_settled: bool,
    has_problem: bool,
    /// Whether AWS has accepted a call, so that the next observation shows more.
    has_done: bool,
    /// Whether the pass tried to change tags, for which nothing waits.
    has_tagged: bool,
    /// Whether AWS may not show every resource for certain yet.
    may_hide_anything: bool,
}

/// The time after which the provider's own rate limits allow a call.
fn deferred(result: &StepResult) -> Option<Duration> {
    result.failure.as_ref()?.retry_after
}

impl Summary {
    /// The summary of a pass. `endpoint` is the condition about the endpoint, and `later` names the part of the cluster
    /// that this release does not create.
    pub(super) fn of(
        context: &PlanContext<'_>,
        plan: &Plan,
        results: &[StepResult],
        endpoint: ConditionUpdate,
        later: Option<String>,
        was_provisioned: bool,
    ) -> Self {
        let mut updates = condition::conditions(context, plan, results);
        updates.push(ConditionType::IdentityReady.is_true(Reason::Ready));
        updates.push(endpoint);
        let ready = if was_provisioned && !context.is_deleted {
            ready_again(context, plan)
        } else {
            ready(&updates, later, context.is_deleted)
        };
        let is_provisioned = was_provisioned || ready.status == ConditionStatus::True;
        updates.push(ready);
        let (of_tags, others): (Vec<_>, Vec<_>) = results.iter().partition(|result| result.target.is_of_tags());
        let failures = || others.iter().filter_map(|result| result.failure.as_ref());
        Self {
            updates,
            is_provisioned,
            has_failed: failures().any(|failure| !failure.is_transient) || planners::is_incomplete(context),
            deferred: results.iter().filter_map(deferred).min(),
            is_settled: others.is_empty() && plan.waits.is_empty(),
            has_problem: !plan.problems.is_empty(),
            has_done: others.iter().any(|result| result.failure.is_none()),
            has_tagged: !of_tags.is_empty(),
            may_hide_anything: context.ledger.may_hide_anything(),
        }
    }

    /// The status with the conditions of the pass.
    pub(super) fn status(&self, cluster: &AWSCluster, recorded: AWSClusterStatus, now: Timestamp) -> AWSClusterStatus {
        let updates = self.updates.iter().cloned().chain([not_paused(&cluster.metadata)]);
        AWSClusterStatus {
            ready: Some(self.is_provisioned),
            initialization: self.is_provisioned.then_some(Initialization { provisioned: Some(true) }),
            conditions: conditions::merge(&recorded.conditions, updates, cluster.metadata.generation, now),
            network_status: None,
            ..recorded
        }
    }

    /// The time of the next pass. A wait equals the time for which AWS has not matched the spec, so that it doubles.
    pub(super) fn next(&self, before: &[Condition], timing: &Timing, now: Timestamp) -> Next {
        if let Some(deferred) = self.deferred {
            return Next::Deferred(deferred);
        }
        if self.has_failed {
            return Next::Retry;
        }
        if self.has_done {
            return Next::Requeue(timing.managed_poll);
        }
        if self.is_settled && (self.has_problem || self.has_tagged) {
            // A user may fix the resources in AWS, which causes no event. Or another client keeps setting the same
            // tags.
            return Next::Requeue(timing.resolve_retry_cap);
        }
        if self.is_settled && self.may_hide_anything {
            // An observation that shows a resource after this age proves that it exists. A later observation without
            // it proves nothing then.
            return Next::Requeue(timing.unseen_age);
        }
        if self.is_settled {
            return Next::AwaitChange;
        }
        let waits = self.updates.iter().filter(|update| update.status == ConditionStatus::False);
        let since = waits.filter_map(|update| {
            let condition = find(before, update.condition)?;
            is_false(condition).then_some(condition.last_transition_time.0)
        });
        let age = since.max().and_then(|since| now.duration_since(since).try_into().ok());
        let age: Duration = age.unwrap_or_default();
        Next::Requeue(age.clamp(timing.managed_poll, timing.managed_poll_cap))
    }
}

/// `Ready` after an observation, until the cluster is provisioned, and during its deletion.
fn ready(updates: &[ConditionUpdate], later: Option<String>, is_deleted: bool) -> ConditionUpdate {
    let is_false = |update: &ConditionUpdate| ConditionType::Ready.is_false(update.reason, update.text());
    let is_of_endpoint = |update: &&ConditionUpdate| update.condition == ConditionType::ControlPlaneEndpointReady;
    let missing = updates.iter().filter(|update| update.status != ConditionStatus::True);
    let (endpoint, others): (Vec<_>, Vec<_>) = missing.partition(is_of_endpoint);
    match (others.into_iter().min_by_key(|update| update.reason.is_expected()), later) {
        (Some(worst), _) => is_false(worst),
        (None, _) if is_deleted => {
            ConditionType::Ready.is_false(Reason::Deleting, "the AWSCluster is being deleted".to_owned())
        }
        (None, Some(message)) => ConditionType::Ready.is_false(Reason::NotManagedYet, message),
        (None, None) => {
            let is_true = || ConditionType::Ready.is_true(Reason::Ready);
            endpoint.first().map_or_else(is_true, |endpoint| is_false(endpoint))
        }
    }
}

/// `Ready` of a provisioned cluster. While it is False, no MachineHealthCheck of the cluster remediates machines, so it
/// becomes False only after a permanent loss.
fn ready_again(context: &PlanContext<'_>, plan: &Plan) -> ConditionUpdate {
    let is_lasting = |problem: &&Problem| match problem.reason {
        Reason::NotFound | Reason::NotOwned | Reason::Conflict => problem.target == context.inputs.vpc.target,
        Reason::Failed => context.inputs.endpoint_load_balancers.contains(&problem.target),
        _ => false,
    };
    match plan.problems.iter().find(is_lasting) {
        Some(problem) => ConditionType::Ready.is_false(problem.reason, problem.message.clone()),
        None => ConditionType::Ready.is_true(Reason::Ready),
    }
}

/// Whether the address of the API server is known. `of_spec` is the condition that follows from the spec and the
/// Cluster.
pub(super) fn endpoint(of_spec: ConditionUpdate, inputs: &Inputs) -> ConditionUpdate {
    match inputs.endpoint_load_balancer() {
        Some(target) if of_spec.reason == Reason::WaitingForEndpoint => {
            let message = format!("the {target} is not the endpoint yet: look at LoadBalancerReady");
            ConditionType::ControlPlaneEndpointReady.is_false(Reason::WaitingForEndpoint, message)
        }
        _ => of_spec,
    }
}

/// `Ready` of an AWSCluster without a Cluster.
pub(super) fn waiting_for_owner() -> Vec<ConditionUpdate> {
    let message = "no Cluster owns this object: a Cluster must name it in spec.infrastructureRef";
    vec![ConditionType::Ready.is_false(Reason::WaitingForOwnerCluster, message)]
}

/// The status of a pass that did not observe AWS. All known values stay, and so does a `Ready` that is True, unless no
/// machine can be launched any more.
pub(super) fn stopped(cluster: &AWSCluster, updates: Vec<ConditionUpdate>, now: Timestamp) -> AWSClusterStatus {
    let mut status = cluster.status.clone().unwrap_or_default();
    let was_ready = status.provisioned() && holds(&status.conditions, ConditionType::Ready);
    let has_ready = updates.iter().any(|update| update.condition == ConditionType::Ready);
    let falls = |update: &&ConditionUpdate| !was_ready || is_without_identity(update);
    let ready = updates.first().filter(|_| !has_ready).filter(falls).map(|update| {
        let words = update.text();
        ConditionType::Ready.is_false(update.reason, words)
    });
    let updates = updates.into_iter().map(|update| match update.reason {
        // Existing machines keep working.
        Reason::DeletionBlocked | Reason::NotManagedYet if was_ready => {
            ConditionUpdate { status: ConditionStatus::True, ..update }
        }
        _ => update,
    });
    for update in updates.chain(ready).chain([not_paused(&cluster.metadata)]) {
        conditions::set(&mut status.conditions, update, cluster.metadata.generation, now);
    }
    status.network_status = None;
    status.plan = None;
    status
}

/// The status of a pass that only plans. `recorded` contains the records that later passes need.
pub(super) fn planned(
    cluster: &AWSCluster,
    recorded: AWSClusterStatus,
    context: &PlanContext<'_>,
    plan: &Plan,
    preview: &Preview,
    now: Timestamp,
) -> AWSClusterStatus {
    let message = format!(
        "the provider changes nothing of the network while the annotation {} is there: status.plan has what it would \
         do ({})",
        meta::PLAN_ONLY_ANNOTATION,
        preview.summary()
    );
    let works = recorded.provisioned() && !context.is_deleted;
    let ready = match ready_again(context, plan) {
        lost if works && lost.status != ConditionStatus::True => lost,
        _ if works => ConditionType::Ready.is_true(Reason::PlanOnly).with_message(message),
        _ => ConditionType::Ready.is_false(Reason::PlanOnly, message),
    };
    let identity = ConditionType::IdentityReady.is_true(Reason::Ready);
    let mut status = recorded;
    for update in [identity, ready, not_paused(&cluster.metadata)] {
        conditions::set(&mut status.conditions, update, cluster.metadata.generation, now);
    }
    status.network_status = None;
    status.plan = Some(preview.to_string().chars().take(MAX_PLAN_CHARACTERS).collect());
    status
}

/// Whether the condition says that the credentials of the cluster are lost.
fn is_without_identity(update: &ConditionUpdate) -> bool {
    let is_lost = matches!(
        update.reason,
        Reason::NotFound
            | Reason::NotAllowed
            | Reason::SourceNotAllowed
            | Reason::CredentialsFailed
            | Reason::AccountMismatch
    );
    update.condition == ConditionType::IdentityReady && is_lost
}
