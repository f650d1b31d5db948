//! AWSClusterTemplate: the template from which a ClusterClass creates AWSClusters.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AWSClusterSpec;
use crate::common::TemplateMetadata;

/// Desired state of an AWSClusterTemplate. The whole spec is immutable: to change it, create a new AWSClusterTemplate
/// and refer to that one in the ClusterClass.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "AWSClusterTemplate",
    plural = "awsclustertemplates",
    shortname = "awsct",
    category = "cluster-api",
    namespaced,
    derive = "PartialEq",
    doc = "A template from which Cluster API creates the AWSClusters of a ClusterClass.",
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since creation"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AWSClusterTemplateSpec {
    /// Metadata and spec of the AWSClusters that Cluster API creates from this template.
    pub template: AWSClusterTemplateResource,
}

/// Metadata and spec of the AWSClusters of a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AWSClusterTemplateResource {
    /// Labels and annotations of AWSClusters that are created from the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,

    /// Spec of AWSClusters that are created from the template. Patches of a ClusterClass set the values that differ
    /// between clusters.
    pub spec: AWSClusterSpec,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_holds_a_whole_cluster_spec() {
        let yaml = "{template: {metadata: {labels: {team: a}}, spec: {region: eu-west-1, unmanaged: true}}}";
        let template: AWSClusterTemplateSpec = serde_saphyr::from_str(yaml).expect("a template");
        let metadata = template.template.metadata.expect("metadata");
        assert_eq!(metadata.labels["team"], "a");
        assert!(template.template.spec.unmanaged);
        assert_eq!(template.template.spec.region(), Some("eu-west-1"));
    }
}
