//! Permanent errors of a machine's AWS calls, and the inputs of the calls.

use capa_api::common::ElasticIpPool;
use capa_api::conditions::ConditionUpdate;
use capa_api::contract::Machine;
use capa_api::machine::AWSMachineSpec;
use capa_cloud::{CloudError, Fault, Parameter, Subject, UserData};
use capa_network::Merged;

use super::context::MachineContext;
use super::inputs::location::InstanceLocation;
use super::memory::LaunchKind;
use super::scope::{Blocked, MachineScope};
use crate::call_fingerprint::CallFingerprint;
use crate::launching::replacement::Replacement;

/// The inputs of the calls of a launch: spec, network sources, identity with its Secret, and bootstrap data.
pub(super) fn launch_fingerprint(
    spec: &AWSMachineSpec,
    user_data: &UserData,
    merged: &Merged,
    location: &InstanceLocation,
) -> CallFingerprint {
    // The types contain neither floats nor unordered maps, so equal values have equal JSON.
    let spec = serde_json::to_vec(spec).unwrap_or_default();
    let network = serde_json::to_vec(&merged.network).unwrap_or_default();
    CallFingerprint::of(&"launch", &(spec, network, user_data.expose(), credentials_and_region(location)))
}

/// The kind of a launch: what it has in common with the launches of the other machines of its template and version.
/// The condition of a refused launch names nothing else.
pub(super) fn kind_of_launch(
    scope: &MachineScope,
    owner: &Machine,
    merged: &Merged,
    location: &InstanceLocation,
) -> LaunchKind {
    let metadata = &scope.machine.metadata;
    let spec = serde_json::to_vec(&scope.machine.spec).unwrap_or_default();
    let network = serde_json::to_vec(&merged.network).unwrap_or_default();
    let made_from = Replacement::of(metadata).to_string();
    let (cluster, version) = (&location.cluster_name, &owner.spec.version);
    let facts = (spec, network, made_from, scope.namespace(), cluster, version, credentials_and_region(location));
    LaunchKind(CallFingerprint::of(&"kind", &facts).inputs)
}

/// Whether EC2 refuses all launches of a kind with this error. Errors about a subnet, a tag or user data concern one
/// machine, and so may errors about a permission.
pub(super) fn concerns_kind(error: &CloudError) -> bool {
    let Some(Subject::Parameter { parameter, fault, .. }) = error.subject.as_deref() else {
        return false;
    };
    let is_common = match parameter {
        Parameter::Image
        | Parameter::InstanceType
        | Parameter::KeyPair
        | Parameter::InstanceProfile
        | Parameter::SecurityGroup
        | Parameter::Volume => true,
        Parameter::Subnet | Parameter::Tags => false,
    };
    let depends_on_subnet = matches!(fault, Fault::OtherVpc | Fault::NotOffered | Fault::Full);
    error.class.is_permanent() && is_common && !depends_on_subnet
}

/// Ends the pass of a machine that has recently shown the refusal of its kind. Such a machine looks up its instance as
/// often as a single machine would ask EC2.
///
/// # Errors
/// The refusal, unless EC2 accepts launches of the kind by now.
pub(super) fn await_kind(scope: &MachineScope, kind: LaunchKind, context: &MachineContext) -> Result<(), Blocked> {
    if context.memory.kinds().is_accepted(kind) {
        return Ok(());
    }
    let (refusals, now) = (context.memory.refusals(), context.kubernetes.uptime());
    match refusals.active_backoff(scope.uid(), of_kind(kind), now, &context.timing) {
        None => Ok(()),
        Some(refusal) => Err(Blocked::new(refusal.condition, refusal.next)),
    }
}

/// The block of a launch whose kind EC2 refuses.
pub(super) fn shown_of_kind(
    scope: &MachineScope,
    kind: LaunchKind,
    condition: ConditionUpdate,
    context: &MachineContext,
) -> Blocked {
    let (refusals, now) = (context.memory.refusals(), context.kubernetes.uptime());
    let next = refusals.refused(scope.uid(), of_kind(kind), condition.clone(), now, &context.timing);
    Blocked::new(condition, next)
}

fn of_kind(kind: LaunchKind) -> CallFingerprint {
    CallFingerprint::of(&"launch of its kind", &kind)
}

/// A call of a deletion. Each instance and each host is a call of its own, because AWS may allow the end of one and
/// refuse that of another.
#[derive(Hash)]
pub(super) enum DeletionCall<'a> {
    /// The lookup of the machine's instances.
    Lookup,
    /// The termination of the instance with this id.
    Terminate(&'a str),
    /// The release of the host with this id.
    ReleaseHost(&'a str),
    /// The release of the machine's Elastic IPs.
    ReleaseAddresses,
}

/// The inputs of a call of a deletion.
pub(super) fn of_deletion(call: &DeletionCall<'_>, location: &InstanceLocation) -> CallFingerprint {
    CallFingerprint::of(&("deletion", call), &credentials_and_region(location))
}

/// The inputs of the allocation and the association of an Elastic IP.
pub(super) fn of_elastic_ip(pool: &ElasticIpPool, location: &InstanceLocation) -> CallFingerprint {
    let pool = serde_json::to_vec(pool).unwrap_or_default();
    CallFingerprint::of(&"Elastic IP", &(pool, credentials_and_region(location)))
}

/// The credentials and the region of the calls.
fn credentials_and_region(location: &InstanceLocation) -> [&str; 3] {
    [&location.identity_key, &location.account_id, &location.region]
}

/// Sets the inputs of the following calls of the pass.
///
/// # Errors
/// The permanent error of an earlier call with these inputs, until the time of the next call.
pub(super) fn await_change(
    scope: &mut MachineScope,
    inputs: CallFingerprint,
    context: &MachineContext,
) -> Result<(), Blocked> {
    scope.inputs = Some(inputs);
    let (refusals, now) = (context.memory.refusals(), context.kubernetes.uptime());
    match refusals.active_backoff(scope.uid(), inputs, now, &context.timing) {
        None => Ok(()),
        Some(refusal) => Err(Blocked::new(refusal.condition, refusal.next)),
    }
}

/// Records a permanent error of a call with the inputs of the pass. The flow is then blocked until the next call is
/// due.
pub(super) fn record(scope: &MachineScope, mut blocked: Blocked, context: &MachineContext) -> Blocked {
    if blocked.is_refused()
        && let Some(inputs) = scope.inputs
    {
        let now = context.kubernetes.uptime();
        let condition = blocked.condition.clone();
        let refusals = context.memory.refusals();
        blocked.next = refusals.refused(scope.uid(), inputs, condition, now, &context.timing);
        blocked.cause = None;
    }
    blocked
}
