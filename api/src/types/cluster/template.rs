//! AWSClusterTemplate: the template from which a ClusterClass creates AWSClusters.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AWSClusterSpec;
use crate::common::TemplateMetadata;

/// The template. Immutable as a whole: to change it, make a new one and let the ClusterClass name that.
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
    doc = "A template from which Cluster API makes the AWSClusters of a ClusterClass.",
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since creation"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AWSClusterTemplateSpec {
    /// What AWSClusters that are made from this template begin with.
    pub template: AWSClusterTemplateResource,
}

/// Metadata and spec of AWSClusters to be made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AWSClusterTemplateResource {
    /// Labels and annotations of AWSClusters made from the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,

    /// Spec of AWSClusters made from the template; a ClusterClass patches what differs from cluster to cluster.
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
