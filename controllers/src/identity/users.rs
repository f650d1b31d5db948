//! The objects that use an identity. Pure.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use capa_api::cluster::AWSCluster;
use capa_api::common::IdentityReference;
use capa_api::machine::AWSMachine;
use capa_api::meta;
use capa_runtime::reconcile::EventDraft;
use kube::Resource;
use kube::api::ObjectMeta;

use super::MAX_HOPS;
use crate::kubernetes_api::Identity;

/// The most Clusters that an event names.
const NAMED_CLUSTERS: usize = 10;

/// Hash of the fields of an identity whose change triggers reconciles of the objects that use it. The hash excludes the
/// status, because none of them depends on it.
pub fn watched_identity<K: Resource>(identity: &K) -> Option<u64> {
    let metadata = identity.meta();
    let mut hasher = DefaultHasher::new();
    metadata.uid.hash(&mut hasher);
    metadata.generation.hash(&mut hasher);
    metadata.deletion_timestamp.is_some().hash(&mut hasher);
    Some(hasher.finish())
}

/// Whether a reference leads to an identity: the reference names the identity, or a role whose credentials come from
/// it. `find` gives the identities that exist.
pub fn leads_to(
    reference: &IdentityReference,
    identity: &IdentityReference,
    find: &impl Fn(&IdentityReference) -> Option<Identity>,
) -> bool {
    let source = |reference: &IdentityReference| match find(reference) {
        Some(Identity::Role(role)) => Some(role.spec.effective_source()),
        _ => None,
    };
    let mut chain = std::iter::successors(Some(reference.clone()), source).take(MAX_HOPS);
    chain.any(|hop| hop == *identity)
}

/// Whether an AWSCluster uses an identity.
pub(crate) fn cluster_uses(
    cluster: &AWSCluster,
    identity: &IdentityReference,
    find: &impl Fn(&IdentityReference) -> Option<Identity>,
) -> bool {
    leads_to(&cluster.spec.effective_identity_ref(), identity, find)
}

/// Whether an AWSMachine uses an identity that its spec names, or that is recorded since its launch.
pub(crate) fn machine_uses(
    machine: &AWSMachine,
    identity: &IdentityReference,
    find: &impl Fn(&IdentityReference) -> Option<Identity>,
) -> bool {
    let reference = machine.identity_ref();
    reference.is_some_and(|reference| leads_to(reference, identity, find))
}

/// The Cluster that an object belongs to, as `<namespace>/<name>`: from the label, or the owner, or else the object's
/// own name.
pub(crate) fn cluster_of(metadata: &ObjectMeta) -> String {
    let name = meta::cluster_name_label(metadata).or_else(|| meta::owner_cluster_name(metadata));
    let name = name.or(metadata.name.as_deref()).unwrap_or_default();
    format!("{}/{name}", metadata.namespace.as_deref().unwrap_or_default())
}

/// The warning that an identity or its Secret was deleted. `gone` names the deleted object. `None` if no Cluster uses
/// it.
pub fn deleted_while_in_use(gone: &str, clusters: &BTreeSet<String>) -> Option<EventDraft> {
    let named: Vec<&str> = clusters.iter().take(NAMED_CLUSTERS).map(String::as_str).collect();
    let others = match clusters.len().saturating_sub(named.len()) {
        0 => String::new(),
        others => format!(" and {others} others"),
    };
    let message = format!(
        "{gone} was deleted, and Clusters use it: {}{others}; their instances are neither launched nor terminated \
         until it exists again",
        named.join(", ")
    );
    (!named.is_empty()).then(|| EventDraft::warning("DeletedWhileInUse", message))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use capa_api::identity::{AWSClusterRoleIdentity, AWSClusterStaticIdentity};
    use kube::ResourceExt;

    use super::*;
    use crate::testing::read;

    const API: &str = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2";

    fn reference(name: &str) -> IdentityReference {
        match name.split_once('/') {
            Some(("static", name)) => read(&format!("{{kind: AWSClusterStaticIdentity, name: {name}}}")),
            _ => read(&format!("{{kind: AWSClusterRoleIdentity, name: {name}}}")),
        }
    }

    /// A role with this source.
    fn role(name: &str, source: &IdentityReference) -> AWSClusterRoleIdentity {
        read(&format!(
            "{{{API}, kind: AWSClusterRoleIdentity, metadata: {{name: {name}}}, spec: {{roleARN: 'arn:a', \
             sourceIdentityRef: {{kind: {}, name: {}}}}}}}",
            source.kind, source.name
        ))
    }

    /// The role leaf assumes the role hub, which uses a key. Two roles assume each other.
    fn find(wanted: &IdentityReference) -> Option<Identity> {
        let roles = [
            role("leaf", &reference("hub")),
            role("hub", &reference("static/key")),
            role("a", &reference("b")),
            role("b", &reference("a")),
        ];
        let mut roles = roles.into_iter();
        let found = roles.find(|role| reference(&role.name_any()) == *wanted);
        found.map(|role| Identity::Role(Arc::new(role)))
    }

    #[test]
    fn a_cluster_uses_every_identity_of_its_chain() {
        let cluster = |name: &str| -> AWSCluster {
            let IdentityReference { kind, name } = reference(name);
            read(&format!(
                "{{{API}, kind: AWSCluster, metadata: {{name: dev}}, spec: {{identityRef: {{kind: {kind}, name: \
                 {name}}}}}}}"
            ))
        };
        for (named, identity, expected) in [
            ("leaf", "leaf", true),
            ("leaf", "hub", true),
            ("leaf", "static/key", true),
            ("hub", "leaf", false),
            ("static/key", "hub", false),
            ("a", "b", true),
            ("a", "hub", false),
            ("gone", "gone", true),
        ] {
            let uses = cluster_uses(&cluster(named), &reference(identity), &find);
            assert_eq!(uses, expected, "{named} {identity}");
        }
        let default: AWSCluster = read(&format!("{{{API}, kind: AWSCluster, metadata: {{name: dev}}, spec: {{}}}}"));
        assert!(cluster_uses(&default, &IdentityReference::controller_default(), &find));
    }

    #[test]
    fn a_machine_uses_the_identity_of_its_launch_before_its_spec() {
        let machine =
            |rest: &str| -> AWSMachine { read(&format!("{{{API}, kind: AWSMachine, metadata: {{name: m}}, {rest}}}")) };
        let named = |name: &str| format!("{{kind: AWSClusterRoleIdentity, name: {name}}}");
        let spec = format!("spec: {{instanceType: a.b, identityRef: {}}}", named("hub"));
        let launched = format!("{spec}, status: {{network: {{identityRef: {}}}}}", named("a"));
        let uses = |machine: &AWSMachine, identity| machine_uses(machine, &reference(identity), &find);
        assert!(uses(&machine(&spec), "hub"));
        assert!(uses(&machine(&spec), "static/key"));
        assert!(uses(&machine(&launched), "a"));
        assert!(!uses(&machine(&launched), "hub"));
        assert!(!uses(&machine("spec: {instanceType: a.b}"), "hub"));
    }

    #[test]
    fn a_warning_names_some_clusters_and_counts_the_others() {
        let clusters = |count: usize| (0..count).map(|number| format!("team-a/c{number:02}")).collect();
        let said = |count| deleted_while_in_use("AWSClusterRoleIdentity/hub", &clusters(count));
        assert_eq!(said(0), None);
        let one = said(1).unwrap();
        assert!(one.warning && one.reason == "DeletedWhileInUse");
        let begin = "AWSClusterRoleIdentity/hub was deleted, and Clusters use it: team-a/c00; their";
        assert!(one.message.starts_with(begin), "{}", one.message);
        let many = said(12).unwrap().message;
        assert!(many.contains("team-a/c09 and 2 others; their"), "{many}");
    }

    #[test]
    fn a_cluster_is_named_by_label_owner_or_itself() {
        let metadata = |rest: &str| read::<ObjectMeta>(&format!("{{name: m, namespace: team-a, {rest}}}"));
        let owners = "ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: dev, uid: u}]";
        let labels = "labels: {cluster.x-k8s.io/cluster-name: prod}";
        assert_eq!(cluster_of(&metadata("")), "team-a/m");
        assert_eq!(cluster_of(&metadata(owners)), "team-a/dev");
        assert_eq!(cluster_of(&metadata(labels)), "team-a/prod");
    }

    #[test]
    fn only_another_spec_of_an_identity_wakes_its_clusters() {
        let identity = |metadata: &str| -> Option<u64> {
            let identity: AWSClusterStaticIdentity = read(&format!(
                "{{{API}, kind: AWSClusterStaticIdentity, metadata: {{name: key, {metadata}}}, spec: {{secretRef: a}}}}"
            ));
            watched_identity(&identity)
        };
        let before = identity("uid: a, generation: 1, resourceVersion: '1'");
        assert_eq!(identity("uid: a, generation: 1, resourceVersion: '2', labels: {a: b}"), before);
        assert_ne!(identity("uid: a, generation: 2, resourceVersion: '2'"), before);
        assert_ne!(identity("uid: b, generation: 1, resourceVersion: '2'"), before);
        let deleted = identity("uid: a, generation: 1, deletionTimestamp: '2026-01-01T00:00:00Z'");
        assert_ne!(deleted, before);
    }
}
