//! Follows the instance of a machine.

use std::time::Duration;

use capa_api::common::{ControlPlaneTarget, IdentityReference, Initialization, MachineRole};
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason, find};
use capa_api::machine::{InstanceState, LaunchRecord, LaunchRequest, MachineNetworkInUse};
use capa_api::meta;
use capa_cloud::{Instance, Observation};
use capa_network::{Problem, drift};
use capa_runtime::reconcile::{Next, ReconcileError};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::dereference::{self, Access};
use super::memory::{Place, Pool};
use super::plan::{self, Ending};
use super::{MachineContext, MachineScope, Owners, apply, lookup, request, targets};
use crate::kubernetes_api::KubernetesError;

/// Where the instance of a machine is looked for.
pub(super) struct Whereabouts {
    pub(super) access: Access,
    pub(super) cluster_tag: String,
    pub(super) region: String,
    pub(super) role: MachineRole,
    /// The targets that its instance is, or was, registered in.
    pub(super) targets: Vec<ControlPlaneTarget>,
    /// Why they are not known yet, where a source has them to come.
    pending_targets: Option<Problem>,
    identity_ref: IdentityReference,
    cluster_name: String,
}

/// Finds the way to the instance: as frozen at launch, else (status lost) as the network sources say. An `Err` carries
/// the scope with the condition that says why there is none.
pub(super) async fn whereabouts(
    mut scope: MachineScope,
    owners: &Owners,
    context: &MachineContext,
) -> Result<Result<(MachineScope, Whereabouts), MachineScope>, KubernetesError> {
    let cluster_name = owners
        .cluster
        .as_ref()
        .and_then(|cluster| cluster.metadata.name.clone());
    let labelled = || meta::cluster_name_label(&scope.machine.metadata).map(str::to_owned);
    let cluster_name = cluster_name.or_else(labelled).unwrap_or_default();
    let frozen = scope.status.network.clone().unwrap_or_default();
    let mut pending_targets = None;
    let (region, identity_ref, cluster_tag, targets) = match (frozen.region, owners.cluster.as_deref()) {
        (Some(region), _) => (
            Some(region),
            frozen.identity_ref,
            frozen.cluster_tag,
            frozen.control_plane_targets,
        ),
        (None, Some(cluster)) => {
            let merged = dereference::network(&scope.machine, cluster, context).await;
            if let Some(problem) = merged.problem {
                let update = ConditionType::NetworkReady.is_false(problem.reason, problem.message);
                return Ok(Err(scope.stop(update, Next::Retry)));
            }
            let role = owners.role(&scope.machine);
            pending_targets = merged.pending_targets.filter(|_| role == MachineRole::ControlPlane);
            (
                merged.network.region,
                merged.network.identity_ref,
                merged.network.cluster_tag,
                merged.network.control_plane_targets,
            )
        }
        (None, None) => (
            scope.machine.spec.region.clone(),
            scope.machine.spec.identity_ref.clone(),
            None,
            scope.machine.spec.control_plane_targets.clone(),
        ),
    };
    let Some(region) = region else {
        let message = "no source supplies region, so the instance cannot be looked for: set spec.region";
        return Ok(Err(scope.stop(
            ConditionType::NetworkReady.is_false(Reason::MissingField, message),
            Next::Retry,
        )));
    };
    let identity_ref = identity_ref.unwrap_or_else(IdentityReference::controller_default);
    let cluster_tag = cluster_tag.unwrap_or_else(|| cluster_name.clone());
    match dereference::access(&scope, &identity_ref, &region, &cluster_name, context).await? {
        Ok(access) => {
            scope.say(ConditionType::IdentityReady.is_true(Reason::Ready));
            let whereabouts = Whereabouts {
                access,
                cluster_tag,
                region,
                role: owners.role(&scope.machine),
                targets,
                pending_targets,
                identity_ref,
                cluster_name,
            };
            Ok(Ok((scope, whereabouts)))
        }
        Err(update) => Ok(Err(scope.stop(update, Next::Retry))),
    }
}

pub(super) async fn reconcile(
    scope: MachineScope,
    owners: &Owners,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    let Some(id) = dereference::instance_id(&scope.machine) else {
        return Ok(scope);
    };
    let (mut scope, whereabouts) = match whereabouts(scope, owners, context).await? {
        Ok(found) => found,
        Err(stopped) => return Ok(stopped),
    };
    match whereabouts.access.cloud.instance(&scope.key(), &id) {
        // The store wakes us with its first listing; until then what was last known stands.
        Observation::Unknown => Ok(unseen(scope, &id, &whereabouts)),
        Observation::Absent => Ok(absent(scope, &id, &whereabouts, context)),
        Observation::Seen(instance) => {
            let believed = dereference::recorded_instance_id(&scope.machine).is_some();
            let owner_name = dereference::machine_name(&scope.machine);
            if !believed && !lookup::is_ours(&instance, &whereabouts.cluster_tag, scope.namespace(), owner_name) {
                let message = format!(
                    "instance {id}, which the spec names, does not carry the tags of this machine: it is left alone"
                );
                return Ok(scope.stop(
                    ConditionType::InstanceReady.is_false(Reason::NotOwned, message),
                    Next::AwaitChange,
                ));
            }
            if let Some(problem) = &whereabouts.pending_targets {
                // What is recovered is for life.
                let update = ConditionType::NetworkReady.is_false(problem.reason, problem.message.clone());
                return Ok(scope.stop(update, Next::Retry));
            }
            scope
                .status
                .network
                .get_or_insert_with(|| recovered(&instance, &whereabouts));
            if scope.status.launch.as_ref().is_none_or(|record| record.attempt == 0) {
                scope.status.launch = recovered_launch(&scope, &instance, owners, context).await;
            }
            let scope = up_to_date(scope, owners, context).await;
            seen(scope, &instance, &whereabouts, context).await
        }
    }
}

/// Tells whether the sources still say what the machine was launched with. A source that cannot be read now says nothing.
async fn up_to_date(mut scope: MachineScope, owners: &Owners, context: &MachineContext) -> MachineScope {
    let (Some(cluster), Some(in_use)) = (&owners.cluster, &scope.status.network) else {
        return scope;
    };
    let mut merged = dereference::network(&scope.machine, cluster, context).await;
    // A source that cannot be read now may not keep a pass from following its instance.
    if merged.problem.is_some() {
        return scope;
    }
    if dereference::names_subnet(&scope.machine.spec) {
        // The machine's own subnet won at launch and its spec cannot change.
        merged.network.subnets.clear();
    }
    let role = owners.role(&scope.machine);
    let update = match drift(
        &merged.network,
        &scope.machine.spec.additional_security_groups,
        in_use,
        role,
    ) {
        None => ConditionType::NetworkUpToDate.is_true(Reason::Ready),
        Some(difference) => {
            let message = format!("{difference}: running machines keep what they have, replace the Machine to follow");
            ConditionType::NetworkUpToDate.is_false(Reason::Drifted, message)
        }
    };
    scope.say(update);
    scope
}

/// What can be told of the network of an instance whose status was lost.
fn recovered(instance: &Instance, whereabouts: &Whereabouts) -> MachineNetworkInUse {
    MachineNetworkInUse {
        account_id: Some(whereabouts.access.account_id.clone()),
        region: Some(whereabouts.region.clone()),
        availability_zone: Some(instance.availability_zone.clone()),
        subnet_id: instance.subnet_id.clone(),
        identity_ref: Some(whereabouts.identity_ref.clone()),
        control_plane_targets: whereabouts.targets.clone(),
        cluster_tag: Some(whereabouts.cluster_tag.clone()),
        ..MachineNetworkInUse::default()
    }
}

/// The record of the launch of an instance whose status was lost, as far as it can be told: image, type and groups are
/// those that the spec and the sources name, and nothing is called from it any more. `None` where no group is known.
async fn recovered_launch(
    scope: &MachineScope,
    instance: &Instance,
    owners: &Owners,
    context: &MachineContext,
) -> Option<LaunchRecord> {
    let (machine, spec) = (&scope.machine, &scope.machine.spec);
    let merged = dereference::network(machine, owners.cluster.as_deref()?, context).await;
    let role = owners.role(machine);
    let groups = merged.network.security_groups.iter();
    let groups = groups.flat_map(|groups| groups.all.iter().chain(groups.of_role(role)));
    let additional = spec
        .additional_security_groups
        .iter()
        .filter_map(|group| group.id.as_ref());
    let security_group_ids: Vec<String> = groups.chain(additional).cloned().collect();
    let token = instance.client_token.clone().filter(|token| !token.is_empty());
    let first_token = || format!("{}-1", scope.uid());
    let request = LaunchRequest {
        client_token: token.unwrap_or_else(first_token),
        subnet_id: instance.subnet_id.clone()?,
        image_id: request::image_id(spec)?.to_owned(),
        instance_type: spec.instance_type.clone(),
        security_group_ids,
        parameters_hash: "recovered".to_owned(),
        requested_at: Time(instance.launch_time?),
    };
    (!request.security_group_ids.is_empty()).then(|| LaunchRecord {
        attempt: apply::attempt_of(&request.client_token, scope.uid())
            .unwrap_or(1)
            .max(1),
        request: Some(request),
        holder: Some(context.memory.holder().to_owned()),
        failed_instances: None,
        instance_id: Some(instance.id.clone()),
    })
}

/// Whether the instance has ever run, as far as the object shows it: then nothing is ever launched in its place. An id of
/// another instance in the spec has ended the pass before.
fn has_run(scope: &MachineScope) -> bool {
    let before = scope.machine.status.as_ref();
    let left_pending = before.and_then(|status| status.instance_state).is_some_and(|state| {
        matches!(
            state,
            InstanceState::Running | InstanceState::Stopping | InstanceState::Stopped
        )
    });
    // What was said once stays so while the instance goes from state to state.
    let said = before.and_then(|status| find(&status.conditions, ConditionType::InstanceReady));
    left_pending
        || scope.status.provisioned()
        || scope
            .machine
            .spec
            .provider_id
            .as_deref()
            .is_some_and(|id| !id.is_empty())
        || said.is_some_and(|condition| condition.reason == Reason::Terminated.as_str())
}

async fn seen(
    mut scope: MachineScope,
    instance: &Instance,
    whereabouts: &Whereabouts,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    let running = instance.state == InstanceState::Running;
    if let Some((field, named)) = dereference::names_another(&scope.machine.spec, &instance.id) {
        let message = format!(
            "spec.{field} is {named:?}, and the instance of this machine is {}: it was written by somebody else and cannot \
             be changed; delete the Machine to replace it",
            instance.id
        );
        scope.status.instance_state = Some(instance.state);
        let update = ConditionType::InstanceReady.is_false(Reason::InvalidSpec, message);
        return Ok(scope.stop(update, Next::AwaitChange));
    }
    if running && scope.machine.spec.provider_id.as_deref().is_none_or(str::is_empty) {
        let provider_id = format!("aws:///{}/{}", instance.availability_zone, instance.id);
        scope.machine = context
            .kubernetes
            .publish_ids(&scope.machine, &provider_id, &instance.id)
            .await?;
    }
    let status = &mut scope.status;
    status.instance_state = Some(instance.state);
    status.failure_domain = Some(instance.availability_zone.clone());
    if !instance.addresses.is_empty() {
        status.addresses.clone_from(&instance.addresses);
    }
    if running {
        status.initialization = Some(Initialization {
            provisioned: Some(true),
        });
    }
    status.ready = Some(status.provisioned());
    for condition in [ConditionType::BootstrapDataReady, ConditionType::NetworkReady] {
        scope.say(condition.is_true(Reason::Ready));
    }
    let ended = matches!(instance.state, InstanceState::ShuttingDown | InstanceState::Terminated);
    let has_run = has_run(&scope);
    if ended && !has_run {
        return Ok(ended_before_running(
            scope,
            instance,
            &whereabouts.cluster_name,
            context,
        ));
    }
    let mut update = instance_ready(instance);
    if instance.state == InstanceState::Pending
        && let Some(error) = whereabouts.access.cloud.reading_failure()
    {
        update.message = format!("{}, and AWS does not show what becomes of it: {error}", update.message);
    }
    scope.say(update);
    Ok(targets::follow(scope, instance, whereabouts))
}

/// Of a machine that was seen before, what was last known stands. The first look must not be waited for in silence.
fn unseen(scope: MachineScope, id: &str, whereabouts: &Whereabouts) -> MachineScope {
    match whereabouts.access.cloud.reading_failure() {
        Some(error) if !scope.status.provisioned() => {
            let message = format!("instance {id} cannot be looked up: {error}");
            let update = ConditionType::InstanceReady.is_unknown(error.class.reason(), message);
            scope.stop(update, Next::AwaitChange)
        }
        _ => scope,
    }
}

/// An instance that died in `pending` is a failed attempt: final if the request is to blame, else another one follows.
fn ended_before_running(
    mut scope: MachineScope,
    instance: &Instance,
    cluster_name: &str,
    context: &MachineContext,
) -> MachineScope {
    let now = context.kubernetes.now();
    let ending = plan::ended_before_running(instance, scope.status.launch.as_ref(), now, &context.timing);
    let why = instance.state_reason.as_ref();
    let mut message = format!("instance {} ended before it ran", instance.id);
    if let Some(reason) = why {
        message = format!("{message}: {}: {}", reason.code, reason.message);
    }
    let failed = |what: &str| ConditionType::InstanceReady.is_false(Reason::Failed, format!("{message}: {what}"));
    match ending {
        Ending::Final => {
            scope.say(failed("delete the Machine to replace it"));
            scope
        }
        Ending::Awaited => {
            scope.say(failed("another one is launched once it is terminated"));
            scope
        }
        Ending::NextAttempt(rest) if rest.is_zero() => {
            if why.is_some_and(|reason| reason.code == "Server.InsufficientInstanceCapacity") {
                let pool = Pool {
                    namespace: scope.namespace().to_owned(),
                    cluster: cluster_name.to_owned(),
                    instance_type: scope.machine.spec.instance_type.clone(),
                };
                let zone = Place::Zone(instance.availability_zone.clone());
                context.memory.refused_capacity(&pool, zone, now);
            }
            apply::give_up(&mut scope);
            context.clouds.forget(&scope.key());
            scope.stop(failed("another one is launched"), Next::Requeue(Duration::ZERO))
        }
        Ending::NextAttempt(rest) => scope.stop(failed("another one is launched"), Next::Requeue(rest)),
    }
}

fn instance_ready(instance: &Instance) -> ConditionUpdate {
    let id = &instance.id;
    let not_ready = |reason, message: String| ConditionType::InstanceReady.is_false(reason, message);
    let why = instance
        .state_reason
        .as_ref()
        .map(|reason| format!(": {}", reason.message))
        .unwrap_or_default();
    match instance.state {
        InstanceState::Running => ConditionType::InstanceReady.is_true(Reason::Ready),
        InstanceState::Pending => not_ready(Reason::Pending, format!("instance {id} is starting")),
        InstanceState::Stopping | InstanceState::Stopped => not_ready(
            Reason::Stopped,
            format!("instance {id} is stopped{why}: start it or delete the Machine"),
        ),
        InstanceState::ShuttingDown | InstanceState::Terminated => not_ready(
            Reason::Terminated,
            format!(
                "instance {id} was terminated{why}: delete the Machine to replace it, or let a MachineHealthCheck do so"
            ),
        ),
    }
}

/// Not found is not gone: a young instance may simply not show yet, and without a recorded account it may be another
/// account that was asked.
fn absent(mut scope: MachineScope, id: &str, whereabouts: &Whereabouts, context: &MachineContext) -> MachineScope {
    if !account_is_recorded(&scope) {
        let message = unproven(id, whereabouts);
        return scope.stop(
            ConditionType::InstanceReady.is_unknown(Reason::NotFound, message),
            Next::Retry,
        );
    }
    if let Some(rest) = youth(&scope, id, whereabouts, context) {
        watch_anew(&scope, id, whereabouts, context);
        scope.next = Next::Requeue(rest);
        return scope;
    }
    targets::leave(&mut scope, id, None, whereabouts);
    let message = format!(
        "instance {id} is not there any more: delete the Machine to replace it, or let a MachineHealthCheck do so"
    );
    scope.stop(
        ConditionType::InstanceReady.is_false(Reason::NotFound, message),
        Next::AwaitChange,
    )
}

/// What AWS did not show of a young instance is no proof when that is older either: AWS may not have been asked since.
pub(super) fn watch_anew(scope: &MachineScope, id: &str, whereabouts: &Whereabouts, context: &MachineContext) {
    context.clouds.forget(&scope.key());
    whereabouts.access.cloud.instance(&scope.key(), id);
}

/// Whether it is known in which account the instance lives; [`dereference::access`] has compared it then.
pub(super) fn account_is_recorded(scope: &MachineScope) -> bool {
    let network = scope.status.network.as_ref();
    network.is_some_and(|network| network.account_id.is_some())
}

/// What is said of an instance whose account was never recorded and that does not show.
pub(super) fn unproven(id: &str, whereabouts: &Whereabouts) -> String {
    format!(
        "instance {id}, which the spec names, does not show in {} of account {}, and whether it lives there was never \
         recorded: correct identity or region if it does not; if it is gone, annotation {}: {id} lets a deletion end \
         without it",
        whereabouts.region,
        whereabouts.access.account_id,
        meta::ABANDON_INSTANCE_ANNOTATION
    )
}

/// Time since then; a time that lies ahead, by another leader's clock, is no age.
pub(super) fn age(since: Timestamp, now: Timestamp) -> Duration {
    now.duration_since(since).try_into().unwrap_or_default()
}

/// How long until AWS's not showing the instance counts: it must have been old enough when it was looked for, which may
/// be long ago where AWS could not be asked or the process stood still. An instance without our record is old.
pub(super) fn youth(
    scope: &MachineScope,
    id: &str,
    whereabouts: &Whereabouts,
    context: &MachineContext,
) -> Option<Duration> {
    let requested_at = scope.status.launch.as_ref()?.request.as_ref()?.requested_at.0;
    let age = age(requested_at, context.kubernetes.now());
    let when_looked_for = age.saturating_sub(whereabouts.access.cloud.absence_age(id));
    context
        .timing
        .visibility_age
        .checked_sub(when_looked_for)
        .filter(|rest| !rest.is_zero())
}
