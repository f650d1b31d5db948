//! The location of a machine's instance: account, region, identity and targets, recorded or resolved.

use std::hash::Hash;
use std::sync::Arc;

use capa_api::common::{ControlPlaneTarget, IdentityReference, MachineRole};
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::contract::Cluster;
use capa_api::machine::{AWSMachine, AWSMachineStatus, DedicatedHost, LaunchRecord, MachineNetworkInUse};
use capa_api::meta;
use capa_api::network::{MachineNetwork, NetworkBootstrapBucket};
use capa_cloud::{CloudError, ErrorClass, RememberedAccount};
use capa_network::{Merged, Problem};
use capa_runtime::reconcile::Next;

use crate::awsmachine::context::MachineContext;
use crate::awsmachine::inputs;
use crate::awsmachine::scope::{FlowError, MachineScope, Session};
use crate::blocked::Blocked;
use crate::call_fingerprint::CallFingerprint;
use crate::identity::{self, IdentityError, IdentityRequest};
use crate::launching::forms;
use crate::launching::stored_bootstrap_data::StoredBootstrapData;
use crate::named_load_balancers::{Answers, keep_allowed_count, resolve_names};

/// The location of a machine's instance, or of its launch, with the AWS session for it.
pub(in crate::awsmachine) struct InstanceLocation {
    /// The AWS session of the identity in the region of the instance.
    pub(in crate::awsmachine) session: Session,
    /// Name of the Cluster.
    pub(in crate::awsmachine) cluster_name: String,
    pub(in crate::awsmachine) role: MachineRole,
    /// The load balancer targets of the instance.
    pub(in crate::awsmachine) targets: Vec<ControlPlaneTarget>,
    /// Why the targets are not known yet: the problem of the source that supplies them, or of the load balancer whose
    /// target groups they are.
    pub(in crate::awsmachine) pending_targets: Option<Problem>,
}

impl InstanceLocation {
    /// The fingerprint of a call with these inputs, and with the credentials and the region of the location.
    pub(in crate::awsmachine) fn fingerprint(&self, call: &impl Hash, inputs: &impl Hash) -> CallFingerprint {
        let Session { identity_key, account_id, region, .. } = &self.session;
        CallFingerprint::of(call, &(inputs, identity_key, account_id, region))
    }
}

/// The parts of a location that the status or the network sources supply.
struct LocationInputs {
    region: Option<String>,
    identity_ref: Option<IdentityReference>,
    cluster_tag: Option<String>,
    targets: Vec<ControlPlaneTarget>,
    pending_targets: Option<Problem>,
}

impl LocationInputs {
    fn recorded(network: MachineNetworkInUse) -> Self {
        Self {
            region: network.region,
            identity_ref: network.identity_ref,
            cluster_tag: network.cluster_tag,
            targets: network.control_plane_targets,
            pending_targets: None,
        }
    }

    fn of_sources(network: &MachineNetwork, pending_targets: Option<Problem>) -> Self {
        Self {
            region: network.region.clone(),
            identity_ref: network.identity_ref.clone(),
            cluster_tag: network.cluster_tag.clone(),
            targets: network.control_plane_targets.clone(),
            pending_targets,
        }
    }
}

/// The location of a launch. An open attempt keeps its recorded location, even if the sources have changed. Otherwise
/// the sources supply the location.
pub(super) async fn for_launch(
    scope: &MachineScope,
    merged: &Merged,
    context: &MachineContext,
) -> Result<InstanceLocation, FlowError> {
    let recorded = scope.status.network.clone();
    let recorded = recorded.filter(|network| scope.status.has_open_attempt() && network.region.is_some());
    let inputs = recorded.map_or_else(|| of_new_attempt(scope, merged), LocationInputs::recorded);
    connect(scope, inputs, context).await
}

/// The location of a new attempt. The machine is launched where it has its host, even if the sources have changed.
fn of_new_attempt(scope: &MachineScope, merged: &Merged) -> LocationInputs {
    let mut inputs = LocationInputs::of_sources(&merged.network, None);
    let host = scope.status.dedicated_host.as_ref().filter(|host| host.may_exist());
    inputs.region = host.and_then(|host| host.region.clone()).or(inputs.region);
    inputs
}

/// The location of an instance: the location recorded at launch or, if the status was lost, the location from the
/// network sources.
pub(in crate::awsmachine) async fn recorded_or_resolved(
    scope: &MachineScope,
    context: &MachineContext,
) -> Result<InstanceLocation, FlowError> {
    let recorded = scope.status.network.clone().filter(|network| network.region.is_some());
    let inputs = match (recorded, scope.owners.cluster.as_deref()) {
        (Some(network), _) => LocationInputs::recorded(network),
        (None, Some(cluster)) => resolved(scope, cluster, context).await?,
        (None, None) => {
            let spec = &scope.machine.spec;
            LocationInputs {
                region: spec.region.clone(),
                identity_ref: spec.identity_ref.clone(),
                cluster_tag: None,
                targets: spec.control_plane_targets.clone(),
                pending_targets: None,
            }
        }
    };
    connect(scope, inputs, context).await
}

/// The location of a machine's bootstrap data: as recorded, or that of its instance.
pub(in crate::awsmachine) async fn of_kept(
    scope: &MachineScope,
    kept: &StoredBootstrapData,
    context: &MachineContext,
) -> Result<InstanceLocation, FlowError> {
    beside_instance(scope, (kept.region().map(str::to_owned), kept.identity_ref().cloned()), context).await
}

/// The location of a machine's Dedicated Host: as recorded, or that of its instance.
pub(in crate::awsmachine) async fn of_host(
    scope: &MachineScope,
    host: Option<&DedicatedHost>,
    context: &MachineContext,
) -> Result<InstanceLocation, FlowError> {
    let recorded = host.map(|host| (host.region.clone(), host.identity_ref.clone()));
    beside_instance(scope, recorded.unwrap_or_default(), context).await
}

/// The location of a resource that a machine has beside its instance: the given region and identity, or else those of
/// the instance.
async fn beside_instance(
    scope: &MachineScope,
    (region, identity_ref): (Option<String>, Option<IdentityReference>),
    context: &MachineContext,
) -> Result<InstanceLocation, FlowError> {
    if region.is_none() {
        return recorded_or_resolved(scope, context).await;
    }
    let inputs = LocationInputs {
        region,
        identity_ref,
        cluster_tag: scope.status.network.as_ref().and_then(|network| network.cluster_tag.clone()),
        targets: Vec::new(),
        pending_targets: None,
    };
    connect(scope, inputs, context).await
}

/// The bucket for bootstrap data in the network sources. `None` if no source supplies one, or without a Cluster,
/// because the sources are found through it.
pub(in crate::awsmachine) async fn bootstrap_bucket(
    scope: &MachineScope,
    context: &MachineContext,
) -> Result<Option<NetworkBootstrapBucket>, FlowError> {
    let Some(cluster) = scope.owners.cluster.as_deref() else {
        return Ok(None);
    };
    let merged = merged(scope, cluster, context).await?;
    Ok(merged.network.bootstrap_bucket().cloned())
}

async fn resolved(
    scope: &MachineScope,
    cluster: &Cluster,
    context: &MachineContext,
) -> Result<LocationInputs, FlowError> {
    let merged = merged(scope, cluster, context).await?;
    let is_control_plane = scope.owners.role(&scope.machine) == MachineRole::ControlPlane;
    let pending_targets = merged.pending_targets.clone().filter(|_| is_control_plane);
    Ok(LocationInputs::of_sources(&merged.network, pending_targets))
}

/// The network of the sources, where they can be used.
async fn merged(scope: &MachineScope, cluster: &Cluster, context: &MachineContext) -> Result<Arc<Merged>, FlowError> {
    let merged = inputs::network(scope, cluster, context).await?;
    if let Some(problem) = &merged.problem
        && !goes_on_without(problem, scope)
    {
        return Err(Blocked::new(inputs::network_not_ready(problem), Next::Retry).into());
    }
    Ok(merged)
}

/// Whether a deletion goes on without the network sources, as it does without a Cluster: the source no longer exists,
/// and the spec itself says where to look for the instance. The deletion waits for a source that exists, because the
/// source may supply the cluster tag of the instance.
fn goes_on_without(problem: &Problem, scope: &MachineScope) -> bool {
    let is_gone = matches!(problem.reason, Reason::NotFound | Reason::NoKindMatch);
    let is_deleted = scope.machine.metadata.deletion_timestamp.is_some();
    let spec = &scope.machine.spec;
    is_gone && is_deleted && spec.region.is_some() && spec.identity_ref.is_some()
}

/// Connects to AWS with the identity in the region, and resolves the targets.
async fn connect(
    scope: &MachineScope,
    inputs: LocationInputs,
    context: &MachineContext,
) -> Result<InstanceLocation, FlowError> {
    let Some(region) = inputs.region else {
        // Only the spec of a machine that is being deleted can change.
        let remedy = match scope.machine.metadata.deletion_timestamp {
            Some(_) => "set spec.region, or let the cluster's infrastructure object publish status.network.region",
            None => "let the cluster's infrastructure object publish status.network.region",
        };
        let message = format!("no source supplies region, so the instance cannot be looked for: {remedy}");
        let missing = ConditionType::NetworkReady.is_false(Reason::MissingField, message);
        return Err(Blocked::new(missing, Next::Retry).into());
    };
    if let Some(problem) = forms::misnamed_region(&region) {
        return Err(Blocked::new(inputs::network_not_ready(&problem), Next::Retry).into());
    }
    let default_identity = IdentityReference::controller_default;
    let identity_ref = inputs.identity_ref.unwrap_or_else(default_identity);
    let cluster_name = cluster_name(scope);
    let cluster_tag = inputs.cluster_tag.unwrap_or_else(|| cluster_name.clone());
    let session = session(scope, region, identity_ref, cluster_tag, context).await?;
    validate_account(scope, &session.account_id).map_err(|update| Blocked::new(update, Next::Retry))?;
    let role = scope.owners.role(&scope.machine);
    let (targets, problem) = resolve_targets(inputs.targets, role, &session).await;
    let pending_targets = inputs.pending_targets.or(problem);
    Ok(InstanceLocation { session, cluster_name, role, targets, pending_targets })
}

/// The session of the identity in the region: that of an earlier flow of the pass, or a new one, for which the identity
/// is resolved and its account is looked up.
async fn session(
    scope: &MachineScope,
    region: String,
    identity_ref: IdentityReference,
    cluster_tag: String,
    context: &MachineContext,
) -> Result<Session, Blocked> {
    let is_wanted = |session: &&Session| {
        session.region == region && session.identity_ref == identity_ref && session.cluster_tag == cluster_tag
    };
    if let Some(session) = scope.sessions.lock().iter().find(is_wanted) {
        return Ok(session.clone());
    }
    let request = IdentityRequest {
        reference: &identity_ref,
        namespace: scope.namespace(),
        cluster_name: &cluster_name(scope),
        identity_namespace: &context.identity_namespace,
    };
    let not_ready = |update: ConditionUpdate| Blocked::new(update, Next::Retry);
    let resolved = identity::resolve(context.kubernetes.as_ref(), &request).await;
    let resolved = resolved.map_err(|error| match error {
        IdentityError::Unusable(problem) => {
            // The machine may no longer use the credentials that this process holds.
            context.clouds.forget(&scope.key());
            not_ready(problem.condition())
        }
        IdentityError::Unread(problem) => not_ready(problem.condition()),
    })?;
    let cloud = context.clouds.machines(&resolved, &region, &cluster_tag);
    let account_id = account_id(scope, cloud.as_ref(), &identity_ref, &region).await?;
    let session = Session { region, identity_ref, cluster_tag, account_id, identity_key: resolved.key, cloud };
    scope.sessions.lock().push(session.clone());
    Ok(session)
}

fn cluster_name(scope: &MachineScope) -> String {
    let cluster = scope.owners.cluster.as_ref();
    let name = cluster.and_then(|cluster| cluster.metadata.name.as_deref());
    let label = || meta::cluster_name_label(&scope.machine.metadata);
    name.or_else(label).unwrap_or_default().to_owned()
}

/// The account of the credentials. While AWS does not answer, a machine whose instance has run keeps the account of
/// AWS's last answer, so that an outage does not change its `Ready` condition. Every other machine waits for the
/// answer.
async fn account_id(
    scope: &MachineScope,
    cloud: &dyn RememberedAccount,
    identity: &IdentityReference,
    region: &str,
) -> Result<String, Blocked> {
    let is_deleted = scope.machine.metadata.deletion_timestamp.is_some();
    cloud.account_id().await.or_else(|error| {
        let may_be_old = scope.has_run() && !is_deleted && !error.class.is_permanent();
        let last = may_be_old.then(|| cloud.last_account_id()).flatten();
        last.ok_or_else(|| not_identified(identity, region, &error))
    })
}

fn not_identified(identity: &IdentityReference, region: &str, error: &CloudError) -> Blocked {
    let reason = match error.class {
        ErrorClass::Unauthorized => Reason::CredentialsFailed,
        ErrorClass::Throttled => Reason::Throttled,
        _ => Reason::Failed,
    };
    let message = format!("the credentials of {}/{} fail in {region}: {error}", identity.kind, identity.name);
    Blocked {
        condition: ConditionType::IdentityReady.is_false(reason, message),
        next: Next::Retry,
        cause: Some(error.class),
    }
}

/// Refuses credentials of another account than the recorded one, because that account would not show the instance.
fn validate_account(scope: &MachineScope, account_id: &str) -> Result<(), ConditionUpdate> {
    let message = match (account_in_use(scope), recorded_account(scope)) {
        (Some(recorded), _) if recorded != account_id => format!(
            "the credentials belong to account {account_id}, but the instance lives in {recorded}: give the identity \
             credentials of {recorded}"
        ),
        (None, Some(recorded)) if recorded != account_id => format!(
            "the credentials belong to account {account_id}, but annotation {annotation}: {recorded} says that an \
             instance may have been launched in {recorded} before the status was lost: give the identity credentials \
             of {recorded}, or remove the annotation if no instance of this machine lives there",
            annotation = meta::BLOCK_MOVE_ANNOTATION
        ),
        _ => match account_of_host(scope) {
            Some(of_host) if of_host != account_id => format!(
                "the credentials belong to account {account_id}, but the Dedicated Host of the machine is in \
                 {of_host}: give the identity credentials of {of_host}"
            ),
            _ => return Ok(()),
        },
    };
    Err(ConditionType::IdentityReady.is_false(Reason::AccountMismatch, message))
}

/// The number of digits of the id of an account
/// ([reference](https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-identifiers.html)).
const ACCOUNT_ID_DIGITS: usize = 12;

/// The account of the network in use.
pub(in crate::awsmachine) fn account_in_use(scope: &MachineScope) -> Option<&str> {
    scope.status.network.as_ref()?.account_id.as_deref()
}

/// The account of the machine's Dedicated Host.
fn account_of_host(scope: &MachineScope) -> Option<&str> {
    let host = scope.status.dedicated_host.as_ref().filter(|host| host.may_exist())?;
    host.account_id.as_deref()
}

/// The recorded account: that of the network in use, or else that of an attempt whose status was lost.
pub(in crate::awsmachine) fn recorded_account(scope: &MachineScope) -> Option<&str> {
    account_in_use(scope).or_else(|| account_of_lost_attempt(&scope.machine, &scope.status))
}

/// The account of an attempt whose record was lost with the status. The annotation that blocks `clusterctl move` during
/// an attempt contains it. `None` if the record or the spec names the instance: then no attempt is open.
pub(in crate::awsmachine) fn account_of_lost_attempt<'a>(
    machine: &'a AWSMachine,
    status: &AWSMachineStatus,
) -> Option<&'a str> {
    let is_lost = match &status.launch {
        None => true,
        Some(record @ LaunchRecord::Unreadable(_)) => record.instance_id().is_none(),
        Some(_) => false,
    };
    let is_known = machine.spec.claimed_instance_id().is_some();
    let value = meta::annotation(&machine.metadata, meta::BLOCK_MOVE_ANNOTATION)?;
    let is_account = value.len() == ACCOUNT_ID_DIGITS && value.bytes().all(|byte| byte.is_ascii_digit());
    (is_lost && !is_known && is_account).then_some(value)
}

/// The targets of a machine, with the target groups behind each load balancer in place of its name, and the problem of
/// a load balancer whose target groups are not known. Workers have no targets, so nothing is looked up for
/// them.
async fn resolve_targets(
    targets: Vec<ControlPlaneTarget>,
    role: MachineRole,
    session: &Session,
) -> (Vec<ControlPlaneTarget>, Option<Problem>) {
    if role != MachineRole::ControlPlane {
        return (targets, None);
    }
    let mut answers = Answers::new();
    for name in targets.iter().filter_map(|target| target.load_balancer_name.as_deref()) {
        answers.insert(name.to_owned(), session.cloud.listeners_of(name).await);
    }
    let (mut resolved, problems) = resolve_names(targets, &answers, &session.region, &session.account_id);
    resolved.retain(|target| target.load_balancer_name.is_none());
    let excess = keep_allowed_count(&mut resolved, "controlPlaneTargets of the network, in its source");
    // A deletion waits for what may be known soon, whatever else is wrong.
    (resolved, problems.into_iter().chain(excess).min_by_key(Problem::needs_a_change))
}
