//! Names that several crates share (the API group, finalizers, labels, annotations, tag keys), and functions that read
//! them from an object.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;

use crate::common::MachineRole;

/// API group of all kinds of this provider.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// API version of all kinds of this provider.
pub const VERSION: &str = "v1beta2";
/// API group of Cluster API's own kinds.
pub const CORE_GROUP: &str = "cluster.x-k8s.io";

/// Finalizer of a managed AWSCluster.
pub const CLUSTER_FINALIZER: &str = "awscluster.infrastructure.cluster.x-k8s.io";
/// Finalizer of an AWSMachine.
pub const MACHINE_FINALIZER: &str = "awsmachine.infrastructure.cluster.x-k8s.io";

/// Label with the name of the Cluster that an object belongs to.
pub const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Label whose presence marks control plane machines.
pub const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";
/// Label of a CRD that names the provider of the CRD.
pub const PROVIDER_LABEL: &str = "cluster.x-k8s.io/provider";
/// Value of [`PROVIDER_LABEL`] for this provider.
pub const PROVIDER_LABEL_VALUE: &str = "infrastructure-aws-rs";
/// Label of a CRD: its API versions that follow the Cluster API contract v1beta2, joined by `_`.
pub const CONTRACT_LABEL: &str = "cluster.x-k8s.io/v1beta2";
/// Label of a CRD whose objects publish a network at `status.network`.
pub const MACHINE_NETWORK_LABEL: &str = "infrastructure.cluster.x-k8s.io/machine-network";
/// Version of the network contract that [`MACHINE_NETWORK_LABEL`] names.
pub const MACHINE_NETWORK_CONTRACT: &str = "v1";
/// Label of a CRD whose objects `clusterctl move` moves together with the objects that they own.
pub const MOVE_HIERARCHY_LABEL: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";
/// Label of a CRD whose objects clusterctl moves although no Cluster owns them.
pub const MOVE_LABEL: &str = "clusterctl.cluster.x-k8s.io/move";
/// Label of a Secret that machines may name in `spec.networkSources`; the value is `true`.
pub const NETWORK_SOURCE_LABEL: &str = "infrastructure.cluster.x-k8s.io/network-source";

/// Label that marks a Secret as bootstrap data for `spec.bootstrap.dataSecretName` of a Machine. Whoever writes the
/// Secret sets it; the value is `true`.
pub const BOOTSTRAP_DATA_LABEL: &str = "infrastructure.cluster.x-k8s.io/bootstrap-data";

/// Annotation whose presence pauses an object.
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// Annotation with the name of the template from which Cluster API created an object.
pub const CLONED_FROM_NAME_ANNOTATION: &str = "cluster.x-k8s.io/cloned-from-name";
/// Annotation whose presence says that another controller manages the object.
pub const MANAGED_BY_ANNOTATION: &str = "cluster.x-k8s.io/managed-by";
/// Annotation that `clusterctl move` puts on source objects before it deletes them.
pub const DELETE_FOR_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
/// Annotation whose presence blocks `clusterctl move`. An AWSMachine has the annotation exactly while a launch attempt
/// is open.
pub const BLOCK_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/block-move";
/// Annotation by which a user gives up the instance of a deleted AWSMachine: the object is deleted regardless of the
/// instance. Its value is the recorded instance id, or the recorded client token if no id is known, or `<uid>-0` if
/// nothing is recorded.
pub const ABANDON_INSTANCE_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/abandon-instance";
/// Annotation that ends the wait of a launch if instances have the tags of the machine without proof that they belong
/// to it. The value is the id of the instance to adopt, or [`ADOPT_NO_INSTANCE`].
pub const ADOPT_INSTANCE_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/adopt-instance";
/// Value of [`ADOPT_INSTANCE_ANNOTATION`] that launches a new instance although other instances have the tags.
pub const ADOPT_NO_INSTANCE: &str = "none";
/// Annotation that triggers lookups and checks: any new value repeats them.
pub const PREFLIGHT_REQUESTED_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/preflight-requested";
/// Annotation of a managed AWSCluster. If it is present, the provider changes nothing in AWS and reports in
/// `status.plan` what it would do.
pub const PLAN_ONLY_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/plan-only";
/// Annotation in which CAPA records, as a JSON object, the tags that it has set from `additionalTags`.
pub const CAPA_TAGS_ANNOTATION: &str = "sigs.k8s.io/cluster-api-provider-aws-last-applied-tags";
/// Annotation in which CAPA records the groups of `additionalSecurityGroups`, as a JSON object with their ids as keys.
pub const CAPA_SECURITY_GROUPS_ANNOTATION: &str = "sigs.k8s.io/cluster-api-provider-aws-last-applied-security-groups";
/// Annotation of this provider's CRDs and policies: a hash of the definition, by which a manager recognises the
/// definitions of its own release. The hash stays the same if somebody changes the installed object.
pub const DEFINITION_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/definition-hash";

/// Names of this provider's ValidatingAdmissionPolicies, and of their bindings.
pub const ADMISSION_POLICIES: [&str; 5] = [
    "capa-rs-cluster-transitions",
    "capa-rs-create-only",
    "capa-rs-identity-immutable",
    "capa-rs-machine-immutable",
    "capa-rs-template-immutable",
];

/// The prefix of the keys of this provider's own tags.
pub const OWN_TAG_PREFIX: &str = "sigs.k8s.io/cluster-api-provider-aws/";
/// Tag key of the role of a resource in its cluster. The key also selects all instances of this provider in a region.
pub const ROLE_TAG: &str = "sigs.k8s.io/cluster-api-provider-aws/role";
/// Tag key of the management cluster that launched an instance: the UID of its namespace `kube-system`. The tag decides
/// which management cluster reports an instance without a machine. It proves no ownership, because a cluster may have
/// moved since.
pub const MANAGEMENT_CLUSTER_TAG: &str = "sigs.k8s.io/cluster-api-provider-aws/management-cluster";
/// The prefix of the tag keys that make a cluster the owner of a resource; the name of the cluster follows.
pub const CLUSTER_TAG_PREFIX: &str = "sigs.k8s.io/cluster-api-provider-aws/cluster/";
/// The prefix of the tag keys by which the AWS cloud controller of a cluster recognises resources; the name of the
/// cluster follows.
pub const KUBERNETES_CLUSTER_TAG_PREFIX: &str = "kubernetes.io/cluster/";
/// Tag key by which the AWS Load Balancer Controller of a cluster owns a resource; its value is the cluster's name.
pub const LOAD_BALANCER_CONTROLLER_TAG: &str = "elbv2.k8s.aws/cluster";
/// Tag key by which an administrator assigns a target group or Classic Load Balancer to the control plane of one
/// Cluster; its value is `<namespace>/<name>` of the Cluster.
pub const CONTROL_PLANE_TARGET_TAG: &str = "infrastructure.cluster.x-k8s.io/control-plane";
/// Tag key with `<namespace>/<Machine name>` of an instance.
pub const MACHINE_NAME_TAG: &str = "MachineName";
/// Tag key that the AWS console shows as the name.
pub const NAME_TAG: &str = "Name";
/// Value of the ownership tags on resources that belong to one cluster alone.
pub const OWNED_TAG_VALUE: &str = "owned";
/// Value of the ownership tags on resources that several clusters use.
pub const SHARED_TAG_VALUE: &str = "shared";
/// Value of [`ROLE_TAG`] on control plane instances.
pub const CONTROL_PLANE_ROLE_TAG_VALUE: &str = "control-plane";
/// Value of [`ROLE_TAG`] on worker instances.
pub const NODE_ROLE_TAG_VALUE: &str = "node";

/// Tag key by which this provider owns a resource for a cluster.
pub fn cluster_tag(cluster_name: &str) -> String {
    format!("{CLUSTER_TAG_PREFIX}{cluster_name}")
}

/// Tag key by which the AWS cloud controller of a cluster recognises resources.
pub fn kubernetes_cluster_tag(cluster_name: &str) -> String {
    format!("{KUBERNETES_CLUSTER_TAG_PREFIX}{cluster_name}")
}

/// Value of [`MACHINE_NAME_TAG`] for a Machine.
pub fn machine_name_tag_value(namespace: &str, machine_name: &str) -> String {
    format!("{namespace}/{machine_name}")
}

/// Value of [`ROLE_TAG`] for an instance of that role.
pub const fn role_tag_value(role: MachineRole) -> &'static str {
    match role {
        MachineRole::ControlPlane => CONTROL_PLANE_ROLE_TAG_VALUE,
        MachineRole::Worker => NODE_ROLE_TAG_VALUE,
    }
}

/// The first owner of the given kind and API group, regardless of its version.
///
/// The version is ignored, because an old reference keeps the version with which it was written. The field `controller`
/// is ignored, because Cluster API does not set it for infrastructure clusters without a topology.
pub fn owner<'a>(meta: &'a ObjectMeta, group: &str, kind: &str) -> Option<&'a OwnerReference> {
    meta.owner_references
        .iter()
        .flatten()
        .find(|reference| reference.kind == kind && api_group(&reference.api_version) == group)
}

/// Name of the Cluster that owns the object directly.
pub fn owner_cluster_name(meta: &ObjectMeta) -> Option<&str> {
    owner(meta, CORE_GROUP, "Cluster").map(|reference| reference.name.as_str())
}

/// Name of the Machine that owns the object.
pub fn owner_machine_name(meta: &ObjectMeta) -> Option<&str> {
    owner(meta, CORE_GROUP, "Machine").map(|reference| reference.name.as_str())
}

/// The group of an `apiVersion`; empty for the core group.
pub fn api_group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Name of the Cluster that the object's label gives; an empty value counts as absent.
pub fn cluster_name_label(meta: &ObjectMeta) -> Option<&str> {
    value(meta.labels.as_ref(), CLUSTER_NAME_LABEL).filter(|name| !name.is_empty())
}

/// Role of the machine that the object describes, by Cluster API's control plane label.
pub fn machine_role(meta: &ObjectMeta) -> MachineRole {
    match value(meta.labels.as_ref(), CONTROL_PLANE_LABEL) {
        Some(_) => MachineRole::ControlPlane,
        None => MachineRole::Worker,
    }
}

/// Whether the object itself is paused by annotation; its Cluster may pause it as well.
pub fn is_paused(meta: &ObjectMeta) -> bool {
    has_annotation(meta, PAUSED_ANNOTATION)
}

/// Whether another controller manages the object.
pub fn is_externally_managed(meta: &ObjectMeta) -> bool {
    has_annotation(meta, MANAGED_BY_ANNOTATION)
}

/// Whether `clusterctl move` has begun to delete the object. clusterctl adds the annotation right before the deletion.
/// If the object stays, an interrupted move has left the annotation behind.
pub fn is_marked_for_move(meta: &ObjectMeta) -> bool {
    has_annotation(meta, DELETE_FOR_MOVE_ANNOTATION)
}

/// Whether the object is deleted by a move to another management cluster, so that its AWS resources must stay.
pub fn is_deleted_for_move(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some() && is_marked_for_move(meta)
}

/// Whether the object has the annotation, with any value.
pub fn has_annotation(meta: &ObjectMeta, key: &str) -> bool {
    annotation(meta, key).is_some()
}

/// Value of an annotation.
pub fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    value(meta.annotations.as_ref(), key)
}

/// Whether the object has the finalizer.
pub fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|present| present == finalizer)
}

fn value<'a>(map: Option<&'a BTreeMap<String, String>>, key: &str) -> Option<&'a str> {
    map.and_then(|map| map.get(key)).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned_by(api_version: &str, kind: &str, controller: Option<bool>) -> ObjectMeta {
        ObjectMeta {
            owner_references: Some(vec![OwnerReference {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                name: "dev".to_owned(),
                controller,
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        }
    }

    fn annotated(key: &str, value: &str) -> ObjectMeta {
        ObjectMeta { annotations: Some([(key.to_owned(), value.to_owned())].into()), ..ObjectMeta::default() }
    }

    #[test]
    fn owner_is_found_by_kind_and_group_alone() {
        assert_eq!(owner_cluster_name(&owned_by("cluster.x-k8s.io/v1beta2", "Cluster", Some(false))), Some("dev"));
        assert_eq!(owner_cluster_name(&owned_by("cluster.x-k8s.io/v1alpha3", "Cluster", None)), Some("dev"));
        assert_eq!(owner_cluster_name(&owned_by("example.org/v1beta2", "Cluster", Some(true))), None);
        assert_eq!(owner_cluster_name(&owned_by("cluster.x-k8s.io/v1beta2", "Machine", Some(true))), None);
        assert_eq!(owner_machine_name(&owned_by("cluster.x-k8s.io/v1beta2", "Machine", Some(true))), Some("dev"));
        assert_eq!(owner_cluster_name(&ObjectMeta::default()), None);
    }

    #[test]
    fn presence_of_an_annotation_counts_whatever_its_value() {
        for text in ["", "false", "true"] {
            assert!(is_paused(&annotated(PAUSED_ANNOTATION, text)));
            assert!(is_externally_managed(&annotated(MANAGED_BY_ANNOTATION, text)));
            assert!(is_marked_for_move(&annotated(DELETE_FOR_MOVE_ANNOTATION, text)));
        }
        assert!(!is_paused(&ObjectMeta::default()));
    }

    #[test]
    fn only_a_deletion_with_the_annotation_is_part_of_a_move() {
        let mut meta = annotated(DELETE_FOR_MOVE_ANNOTATION, "");
        assert!(!is_deleted_for_move(&meta));
        meta.deletion_timestamp = serde_json::from_value(serde_json::json!("2026-01-01T00:00:00Z")).unwrap();
        assert!(is_deleted_for_move(&meta));
        meta.annotations = None;
        assert!(!is_deleted_for_move(&meta));
    }

    #[test]
    fn role_comes_from_the_presence_of_the_control_plane_label() {
        let labelled = ObjectMeta {
            labels: Some([(CONTROL_PLANE_LABEL.to_owned(), String::new())].into()),
            ..ObjectMeta::default()
        };
        assert_eq!(machine_role(&labelled), MachineRole::ControlPlane);
        assert_eq!(machine_role(&ObjectMeta::default()), MachineRole::Worker);
        assert_eq!(role_tag_value(MachineRole::ControlPlane), "control-plane");
    }

    #[test]
    fn group_of_an_api_version_without_slash_is_the_core_group() {
        assert_eq!(api_group("v1"), "");
        assert_eq!(api_group("apps/v1"), "apps");
    }
}
