//! AWSCluster: the infrastructure of one cluster, brought by the user (`unmanaged`) or made by the provider.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{ControlPlaneTarget, IdentityReference, ImageLookup, Tags, additional_tags_schema};
use crate::forms::is_region;

pub mod bastion;
pub mod bucket;
pub mod load_balancer;
pub mod network;
pub mod preflight;
pub mod security_group;
pub mod status;
pub mod subnet;
pub mod template;
pub mod vpc;

use bastion::Bastion;
use bucket::S3Bucket;
use load_balancer::LoadBalancerSpec;
use network::NetworkSpec;
use preflight::{PreflightMode, PreflightSpec};
use status::AWSClusterStatus;
use subnet::SubnetSpec;

/// What the infrastructure of a cluster is to be. With `unmanaged: true` it exists already and nothing is written to
/// AWS for the cluster; without, it is created from what is said here and deleted with the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "AWSCluster",
    plural = "awsclusters",
    shortname = "awsc",
    category = "cluster-api",
    namespaced,
    status = "AWSClusterStatus",
    derive = "PartialEq",
    doc = "The AWS infrastructure of one Cluster: an existing one that you bring (spec.unmanaged), or one that is \
           made for it. Only `unmanaged: true` is reconciled yet.",
    printcolumn = r#"{"name": "Cluster", "type": "string",
        "jsonPath": ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",
        "description": "Cluster to which this AWSCluster belongs"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        "description": "Whether machines can be launched in the infrastructure"}"#,
    printcolumn = r#"{"name": "VPC", "type": "string", "jsonPath": ".status.network.vpc.id",
        "description": "VPC that machines are launched in"}"#,
    printcolumn = r#"{"name": "Endpoint", "type": "string", "jsonPath": ".spec.controlPlaneEndpoint.host",
        "description": "Address of the Kubernetes API"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since creation"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.unmanaged) || !self.unmanaged || !has(self.controlPlaneLoadBalancer) || \
             !has(self.controlPlaneLoadBalancer.name) || !has(self.preflight) || !has(self.preflight.mode) || \
             self.preflight.mode != 'Disabled'",
    "message": "controlPlaneLoadBalancer.name is looked up in AWS, which preflight.mode Disabled forbids: \
                name the targets in controlPlaneTargets, or leave the mode out",
}]))]
pub struct AWSClusterSpec {
    /// AWS region of the cluster, e.g. `eu-west-1`. Needed in every mode. Immutable in managed mode; in unmanaged mode
    /// it may be corrected, and machines that run keep the region they were launched in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,

    /// AWS partition of the region, as ARNs name it: `aws`, `aws-cn`, `aws-us-gov`. Default: by the region
    /// (`effective_partition`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,

    /// The infrastructure exists and is yours: nothing in AWS is created, changed, tagged or deleted for this cluster,
    /// and deleting it leaves AWS as it is. Machines are still launched and terminated. Default: false. May be turned
    /// on later, which lets go of everything and deletes nothing; it cannot be turned off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmanaged: bool,

    /// Identity whose AWS credentials are used for this cluster and for its machines that name none. Its
    /// `allowedNamespaces` must admit this namespace. Default: AWSClusterControllerIdentity `default`, the manager's
    /// own credentials (`effective_identity_ref`). May be changed, but not removed once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityReference>,

    /// Address of the Kubernetes API. In managed mode it is filled in from the load balancer, except with
    /// `loadBalancerType: disabled`. In unmanaged mode you, or the control plane provider, set it here or in the
    /// Cluster; it is never derived. Immutable once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ControlPlaneEndpoint>,

    /// Targets of your own load balancers in which control plane instances are registered, at most 8: target groups or
    /// Classic Load Balancers. Absent: those behind the load balancer that `controlPlaneLoadBalancer` names, or none.
    /// Machines keep the targets that they were launched with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub control_plane_targets: Vec<ControlPlaneTarget>,

    /// VPC, subnets and security groups: which ones to use, or what to create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpec>,

    /// Checks of the infrastructure that you bring. Absent: they run and only report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightSpec>,

    /// Load balancer of the Kubernetes API. In managed mode it is made; absent: an internet-facing one of type
    /// `classic` (`effective_control_plane_load_balancer`). In unmanaged mode one of yours is looked up by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_load_balancer: Option<LoadBalancerSpec>,

    /// A second load balancer of the Kubernetes API in managed mode, e.g. an internal one beside a public one, so that
    /// nodes do not leave the VPC. It must have a name of its own, be an `nlb` and have the other scheme: set
    /// `loadBalancerType` and `scheme`, whose defaults do not fit here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secondary_control_plane_load_balancer: Option<LoadBalancerSpec>,

    /// Tags for everything that is created for the cluster, machines included, e.g. `{cost-centre: "42"}`; at most 50.
    /// Those of a machine's own spec win. Resources that you bring are not tagged. Keys that begin with `aws:`, and
    /// those by which clusters and machines are recognised, are refused.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(schema_with = "additional_tags_schema")]
    pub additional_tags: Tags,

    /// EC2 key pair for SSH to instances whose machine names none, and to the bastion. Absent or empty: no key is
    /// installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key_name: Option<String>,

    /// Name of the image to look for where a machine gives neither an image id nor a format of its own. A template with
    /// `{{.BaseOS}}` and `{{.K8sVersion}}` (without its `v`), `*` and `?` being wildcards, e.g.
    /// `acme-{{.BaseOS}}-{{.K8sVersion}}-*`. Default: `capa-ami-{{.BaseOS}}-?{{.K8sVersion}}-*`
    /// (`effective_image_lookup` of AWSMachine).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_lookup_format: Option<String>,

    /// AWS account that owns the image to look for, e.g. `123456789012`; a lookup takes images of no other. Default:
    /// `819546954734`, the account of the images that Cluster API's AWS community publishes for trying things out
    /// (`effective_image_lookup` of AWSMachine).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_lookup_org: Option<String>,

    /// Operating system in the name of the image to look for, e.g. `ubuntu-22.04` or `flatcar-stable`. Default:
    /// `ubuntu-24.04` (`effective_image_lookup` of AWSMachine).
    #[serde(rename = "imageLookupBaseOS", default, skip_serializing_if = "Option::is_none")]
    pub image_lookup_base_os: Option<String>,

    /// SSH jump host in a public subnet of a managed cluster. Absent: none. No effect in unmanaged mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bastion: Option<Bastion>,

    /// S3 bucket for the bootstrap data of machines that boot with Ignition. Absent: none, and such machines need
    /// another storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_bucket: Option<S3Bucket>,
}

/// Address of a Kubernetes API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneEndpoint {
    /// Host name or IP address without scheme, e.g. `api.prod.example.org`. At most 512 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub host: Option<String>,

    /// TCP port, e.g. 6443. Older clients write 0 for a port that is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub port: Option<i32>,
}

impl AWSClusterSpec {
    /// The region; a text that no region of AWS can be named counts as absent.
    pub fn region(&self) -> Option<&str> {
        self.region.as_deref().filter(|region| is_region(region))
    }

    /// The AWS partition, by the region where the spec does not say it.
    pub fn effective_partition(&self) -> &str {
        match self.partition.as_deref() {
            Some(partition) if !partition.is_empty() => partition,
            _ => partition_of(self.region().unwrap_or_default()),
        }
    }

    /// The identity whose credentials are used.
    pub fn effective_identity_ref(&self) -> IdentityReference {
        self.identity_ref
            .clone()
            .unwrap_or_else(IdentityReference::controller_default)
    }

    /// The load balancer of the Kubernetes API in managed mode: a classic, internet-facing one where the spec has none.
    pub fn effective_control_plane_load_balancer(&self) -> LoadBalancerSpec {
        self.control_plane_load_balancer.clone().unwrap_or_default()
    }

    /// How much of the infrastructure is looked at in AWS.
    pub fn effective_preflight_mode(&self) -> PreflightMode {
        self.preflight
            .as_ref()
            .and_then(|preflight| preflight.mode)
            .unwrap_or_default()
    }

    /// Host and port of the Kubernetes API, once both are there: an empty host and port 0 count as absent.
    pub fn endpoint(&self) -> Option<(&str, i32)> {
        let endpoint = self.control_plane_endpoint.as_ref()?;
        let host = endpoint.host.as_deref().filter(|host| !host.is_empty())?;
        let port = endpoint.port.filter(|port| *port != 0)?;
        Some((host, port))
    }

    /// Id of the VPC that the spec names; an empty one counts as absent.
    pub fn vpc_id(&self) -> Option<&str> {
        let vpc = self.network.as_ref()?.vpc.as_ref()?;
        vpc.id.as_deref().filter(|id| !id.is_empty())
    }

    /// Where to look for images, as far as the spec says it; `None` where it says nothing.
    pub fn image_lookup(&self) -> Option<ImageLookup> {
        let given = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        let lookup = ImageLookup {
            format: given(&self.image_lookup_format),
            org: given(&self.image_lookup_org),
            base_os: given(&self.image_lookup_base_os),
        };
        (lookup != ImageLookup::default()).then_some(lookup)
    }

    /// The subnets that the spec lists.
    pub fn subnets(&self) -> &[SubnetSpec] {
        self.network.as_ref().map_or(&[], |network| network.subnets.as_slice())
    }
}

/// The partition that a region belongs to, by its name.
fn partition_of(region: &str) -> &'static str {
    const PARTITIONS: [(&str, &str); 7] = [
        ("cn-", "aws-cn"),
        ("us-gov-", "aws-us-gov"),
        ("us-iso-", "aws-iso"),
        ("us-isob-", "aws-iso-b"),
        ("eu-isoe-", "aws-iso-e"),
        ("us-isof-", "aws-iso-f"),
        ("eusc-", "aws-eusc"),
    ];
    PARTITIONS
        .iter()
        .find(|(prefix, _)| region.starts_with(prefix))
        .map_or("aws", |(_, partition)| partition)
}

#[cfg(test)]
mod tests;
