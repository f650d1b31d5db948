//! Decides which load balancer targets a control plane machine may use, because a tenant may name the target group of
//! another tenant.
//!
//! [`GroupTags::refusal`](capa_cloud::targets::GroupTags::refusal) decides which groups are refused. A group in which
//! the instance is already registered is never refused.

use std::collections::BTreeMap;

use capa_api::common::{ControlPlaneTarget, MachineRole};
use capa_api::conditions::{ConditionType, Reason};
use capa_api::contract::Cluster;
use capa_api::meta;
use capa_cloud::targets::{Group, TargetAccess, TargetRequest, TargetUser};
use capa_runtime::reconcile::Next;
use jiff::Timestamp;

use super::plan::access_problem;
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::inputs::location::InstanceLocation;
use crate::awsmachine::scope::MachineScope;
use crate::blocked::Blocked;
use crate::target_forms;
use crate::target_users::{self, Claim, GroupUser};

/// The targets that a machine can be registered in, as far as their names tell, and the problems of the others.
pub(super) fn usable_targets(location: &InstanceLocation) -> (Vec<NamedTarget>, Vec<String>) {
    usable_by_name(&location.targets, location.role, &location.session.region, &location.session.account_id)
}

/// The request for a target. `on_record` is whether the status records that the instance is registered there.
pub(in crate::awsmachine) fn request(
    scope: &MachineScope,
    location: &InstanceLocation,
    (group, target): &NamedTarget,
    on_record: bool,
    context: &MachineContext,
) -> TargetRequest {
    // For a registered machine, the other users of the group do not matter.
    let used_by = (!on_record).then(|| other_user(scope, location, group, context));
    TargetRequest {
        target: target.clone(),
        user: TargetUser {
            cluster: format!("{}/{}", scope.namespace(), location.cluster_name),
            cluster_tag: location.session.cluster_tag.clone(),
            policy: context.target_policy,
            used_by: used_by.flatten(),
        },
        on_record,
    }
}

/// The reason why a machine is not launched. A rollout that continued without targets would replace the control plane
/// machines in service, one by one, with machines that never serve.
pub(in crate::awsmachine) enum TargetGate {
    /// AWS has not shown yet who owns the targets. The answer arrives soon, and wakes the machine.
    ReadPending(Blocked),
    /// The machine may not use a target, or the tags of a target cannot be read.
    Refused(Blocked),
}

impl TargetGate {
    /// The block of the launch.
    pub(in crate::awsmachine) fn blocked(self) -> Blocked {
        match self {
            Self::ReadPending(blocked) | Self::Refused(blocked) => blocked,
        }
    }
}

/// The reason to hold a launch back. `None` if the machine may use its targets.
pub(in crate::awsmachine) fn gate(
    scope: &MachineScope,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Option<TargetGate> {
    let (named, _) = usable_targets(location);
    if named.is_empty() {
        return None;
    }
    let requests: Vec<TargetRequest> =
        named.iter().map(|target| request(scope, location, target, false, context)).collect();
    let answers = location.session.cloud.ask_for_targets(&scope.key(), &requests);
    let answered = named.iter().zip(&requests).zip(&answers);
    let problems: Vec<(&TargetAccess, Reason, String)> = answered
        .filter_map(|(((group, _), request), access)| {
            let (reason, message) = access_problem(group, &request.user.cluster, access)?;
            Some((access, reason, message))
        })
        .collect();
    // A refusal is permanent, and more informative than a read in progress.
    let refused = problems.iter().find(|(access, ..)| **access != TargetAccess::Unknown);
    let (_, reason, _) = refused.or_else(|| problems.first())?;
    let messages: Vec<&str> = problems.iter().map(|(.., message)| message.as_str()).collect();
    let message = format!("no instance is launched: {}", messages.join("; "));
    let update = ConditionType::ControlPlaneTargetsReady.is_false(*reason, message);
    // The answer wakes the machine, and nothing tells when another Cluster has left a group.
    let blocked = Blocked::new(update, Next::Requeue(context.timing.resolve_retry_cap));
    Some(match refused {
        Some(_) => TargetGate::Refused(blocked),
        None => TargetGate::ReadPending(blocked),
    })
}

/// Another Cluster that uses the group, where it comes before the Cluster of this machine.
fn other_user(
    scope: &MachineScope,
    location: &InstanceLocation,
    group: &Group,
    context: &MachineContext,
) -> Option<String> {
    let kubernetes = context.kubernetes.as_ref();
    let mut users: BTreeMap<(String, String), Claim> = BTreeMap::new();
    for machine in kubernetes.aws_machines() {
        let claim = target_users::claim(&machine, group, &location.session.account_id, &location.session.region);
        if let (Some(claim), Some(name)) = (claim, meta::cluster_name_label(&machine.metadata)) {
            let namespace = machine.metadata.namespace.clone().unwrap_or_default();
            let known = users.entry((namespace, name.to_owned())).or_default();
            *known = claim.max(*known);
        }
    }
    if let Group::TargetGroup(arn) = group {
        for cluster in kubernetes.clusters_with_target_group(arn) {
            let metadata = &cluster.metadata;
            let key = |part: &Option<String>| part.clone().unwrap_or_default();
            users.entry((key(&metadata.namespace), key(&metadata.name))).or_default();
        }
    }
    let own = (scope.namespace().to_owned(), location.cluster_name.clone());
    let claim = users.remove(&own).unwrap_or_default();
    if users.is_empty() {
        return None;
    }
    let user = |((namespace, name), claim): ((String, String), Claim)| GroupUser {
        created: kubernetes.cluster(&namespace, &name).as_deref().and_then(created),
        namespace,
        name,
        claim,
    };
    let others: Vec<GroupUser> = users.into_iter().map(user).collect();
    target_users::first_other(&user((own, claim)), &others)
}

fn created(cluster: &Cluster) -> Option<Timestamp> {
    cluster.metadata.creation_timestamp.as_ref().map(|created| created.0)
}

/// A target of a machine, with the group that it names.
pub(super) type NamedTarget = (Group, ControlPlaneTarget);

/// The targets that the machine can be registered in, and the problems of the others. Workers have none.
fn usable_by_name(
    targets: &[ControlPlaneTarget],
    role: MachineRole,
    region: &str,
    account_id: &str,
) -> (Vec<NamedTarget>, Vec<String>) {
    let (mut usable, mut problems) = (Vec::new(), Vec::new());
    if role != MachineRole::ControlPlane {
        return (usable, problems);
    }
    for target in targets {
        let Some(group) = Group::of(target) else { continue };
        match target_forms::problem(&group, region, account_id) {
            Some(problem) => problems.push(problem),
            None => usable.push((group, target.clone())),
        }
    }
    (usable, problems)
}
