//! The reports about the credentials of an identity from the objects that use it.

use std::hash::{DefaultHasher, Hash, Hasher};

use capa_api::cluster::AWSCluster;
use capa_api::common::IdentityReference;
use capa_api::conditions::{ConditionType, Reason, find, holds, is_false};
use capa_api::machine::AWSMachine;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use crate::kubernetes_api::IdentityKubernetes;

/// The message for an identity whose credentials AWS refuses for an object that uses it: the message of the first such
/// object. Objects that are being deleted are excluded, and so are paused objects, because their conditions are out of
/// date.
pub(super) fn refusal(kubernetes: &dyn IdentityKubernetes, reference: &IdentityReference) -> Option<String> {
    let clusters = kubernetes.clusters_naming(reference);
    let of_clusters = clusters.iter().filter_map(|cluster| {
        let status = cluster.status.as_ref()?;
        reported("AWSCluster", &cluster.metadata, &status.conditions)
    });
    let machines = kubernetes.machines_naming(reference);
    let of_machines = machines.iter().filter_map(|machine| {
        let status = machine.status.as_ref()?;
        reported("AWSMachine", &machine.metadata, &status.conditions)
    });
    // In the order of kinds and names, so that the message stays the same from pass to pass.
    let (object, message) = of_clusters.chain(of_machines).min()?;
    Some(format!("{object} reports: {message}"))
}

/// The name of an object and its message, if AWS refuses the credentials for it.
fn reported(kind: &str, metadata: &ObjectMeta, conditions: &[Condition]) -> Option<(String, String)> {
    let condition = find(conditions, ConditionType::IdentityReady)?;
    let refused = is_false(condition)
        && condition.reason == Reason::CredentialsFailed.as_str()
        && metadata.deletion_timestamp.is_none()
        && !holds(conditions, ConditionType::Paused);
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().unwrap_or_default();
    refused.then(|| (format!("{kind} {namespace}/{name}"), condition.message.clone()))
}

/// Hash of the fields of an AWSCluster whose change triggers a reconcile of its identity.
pub fn cluster_report(cluster: &AWSCluster) -> Option<u64> {
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice());
    let identity = cluster.spec.effective_identity_ref();
    Some(report(Some(&identity), &cluster.metadata, conditions.unwrap_or_default()))
}

/// Hash of the fields of an AWSMachine whose change triggers a reconcile of its identity.
pub fn machine_report(machine: &AWSMachine) -> Option<u64> {
    let conditions = machine.status.as_ref().map(|status| status.conditions.as_slice());
    let identity = machine.identity_ref();
    Some(report(identity, &machine.metadata, conditions.unwrap_or_default()))
}

/// The hash of an object that reports nothing does not depend on the identity, because a launch changes the reference
/// in the object.
fn report(identity: Option<&IdentityReference>, metadata: &ObjectMeta, conditions: &[Condition]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let reported = reported("", metadata, conditions);
    identity.filter(|_| reported.is_some()).hash(&mut hasher);
    reported.hash(&mut hasher);
    hasher.finish()
}
