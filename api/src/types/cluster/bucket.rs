//! `spec.s3Bucket`: the storage for the bootstrap data of Ignition machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::network::NetworkBootstrapBucket;

/// The S3 bucket from which Ignition machines fetch their bootstrap data. The provider neither creates nor changes the
/// bucket and its policy: the bucket must exist.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "!isIP(self.name)", "message": "name must not have the form of an IP address" },
    {
        "rule": "has(self.presignedURLDuration) || (has(self.controlPlaneIAMInstanceProfile) && \
                 self.controlPlaneIAMInstanceProfile != '')",
        "message": "controlPlaneIAMInstanceProfile is needed without presignedURLDuration: who else may read the \
                    bucket",
    },
    {
        "rule": "has(self.presignedURLDuration) || (has(self.nodesIAMInstanceProfiles) && \
                 size(self.nodesIAMInstanceProfiles) > 0 && self.nodesIAMInstanceProfiles.all(profile, profile != ''))",
        "message": "nodesIAMInstanceProfiles is needed without presignedURLDuration, and no name in it is empty",
    },
]))]
pub struct S3Bucket {
    /// Name of the bucket, unique in the whole AWS partition: 3 to 63 lower case letters, digits, dots and hyphens,
    /// e.g. `acme-prod-bootstrap`. The name must not have the form of an IP address.
    #[schemars(length(min = 3, max = 63), regex(pattern = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"))]
    pub name: String,

    /// Instance profile whose role may read the bootstrap data of control planes, e.g.
    /// `control-plane.cluster-api-provider-aws.sigs.k8s.io`. Required unless `presignedURLDuration` is set.
    #[serde(rename = "controlPlaneIAMInstanceProfile", default, skip_serializing_if = "Option::is_none")]
    pub control_plane_iam_instance_profile: Option<String>,

    /// Instance profiles whose roles may read the bootstrap data of workers, e.g.
    /// `nodes.cluster-api-provider-aws.sigs.k8s.io`. At least one is required unless `presignedURLDuration` is set.
    #[serde(rename = "nodesIAMInstanceProfiles", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(max = 128)))]
    pub nodes_iam_instance_profiles: Vec<String>,

    /// Validity of presigned URLs, as a duration in Go's notation, e.g. `30m` or `1h30m`: at most seven days (`168h`).
    /// If set, machines read their bootstrap data by presigned URL instead of with the permissions of their instance
    /// profiles. Set a longer time than an instance takes to boot. Absent: no presigned URLs.
    #[serde(rename = "presignedURLDuration", default, skip_serializing_if = "Option::is_none")]
    pub presigned_url_duration: Option<String>,

    /// Whether the deletion of a machine continues if AWS refuses to delete the machine's object in the bucket; the
    /// object then stays in the bucket. Default: false: the refusal blocks the deletion of the machine, and a condition
    /// reports it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub best_effort_delete_objects: bool,

    /// Additional IAM roles that may read parts of the bucket, e.g. the role of a process that keeps node configuration
    /// in the bucket. The bucket policy must allow this.
    #[serde(rename = "additionalIAMRoles", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "prefix"]))]
    pub additional_iam_roles: Vec<BucketReader>,
}

impl S3Bucket {
    /// The bucket as the network contract describes it. An AWSCluster has no field for the prefix.
    pub fn as_network(&self) -> NetworkBootstrapBucket {
        let duration = self.presigned_url_duration.clone();
        NetworkBootstrapBucket {
            bucket: self.name.clone(),
            prefix: None,
            presigned_url_duration: duration.filter(|duration| !duration.is_empty()),
            best_effort_delete_objects: self.best_effort_delete_objects,
        }
    }
}

/// An IAM role and the part of the bucket that it may read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BucketReader {
    /// Name (not ARN) of a role in the AWS account of the bucket, e.g. `node-config-reader`.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[\w+=,.@-]+$"))]
    pub name: String,

    /// Prefix of the keys that the role may read, without a leading slash, e.g. `node-config/`.
    #[schemars(length(min = 1, max = 512), regex(pattern = "^[^/]"))]
    pub prefix: String,
}
