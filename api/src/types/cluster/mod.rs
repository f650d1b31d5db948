//! AWSCluster: the infrastructure of one cluster, provided by the user (`unmanaged`) or created by the provider.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{ControlPlaneTarget, IdentityReference, ImageLookup, Tags, additional_tags_schema};
use crate::forms::is_region;
use crate::network::{MachineNetwork, NetworkBootstrapStorage};

pub mod bastion;
pub mod bucket;
pub mod discovery;
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
use discovery::DiscoverySpec;
use load_balancer::LoadBalancerSpec;
use network::NetworkSpec;
use preflight::{PreflightMode, PreflightSpec};
use status::AWSClusterStatus;
use subnet::SubnetSpec;

/// Desired state of the AWS infrastructure of one cluster. With `unmanaged: true` the infrastructure exists already,
/// and the provider writes nothing to AWS for the cluster. With `unmanaged: false`, the provider creates the
/// infrastructure that this spec describes, and deletes it with the cluster.
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
    doc = "The AWS infrastructure of one Cluster: existing infrastructure that you bring (spec.unmanaged), or \
           infrastructure that the provider creates.",
    printcolumn = r#"{"name": "Cluster", "type": "string",
        "jsonPath": ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",
        "description": "Cluster to which this AWSCluster belongs"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        "description": "Whether machines can be launched in the infrastructure"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason",
        "description": "Reason of the condition that needs attention most; Ready if none does"}"#,
    printcolumn = r#"{"name": "VPC", "type": "string", "jsonPath": ".status.network.vpc.id",
        "description": "VPC that machines are launched in"}"#,
    printcolumn = r#"{"name": "Endpoint", "type": "string", "jsonPath": ".status.controlPlaneEndpoint.host",
        "description": "Address of the Kubernetes API, from the spec or from the Cluster"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since creation"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message",
        "description": "Message of the condition that needs attention most"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.unmanaged) || !self.unmanaged || !has(self.controlPlaneLoadBalancer) || \
             !has(self.controlPlaneLoadBalancer.name) || self.controlPlaneLoadBalancer.name == '' || \
             !has(self.preflight) || !has(self.preflight.mode) || self.preflight.mode != 'Disabled'",
    "message": "controlPlaneLoadBalancer.name is looked up in AWS, which preflight.mode Disabled forbids: \
                name the targets in controlPlaneTargets, or leave the mode out",
}, {
    "rule": "!has(self.discovery) || (has(self.unmanaged) && self.unmanaged)",
    "message": "discovery finds infrastructure that you bring: set unmanaged: true, or leave discovery out",
}, {
    "rule": "!has(self.discovery) || !has(self.preflight) || !has(self.preflight.mode) || \
             self.preflight.mode != 'Disabled'",
    "message": "discovery searches in AWS, which preflight.mode Disabled forbids: name the ids in network and \
                controlPlaneTargets, or leave the mode out",
}]))]
pub struct AWSClusterSpec {
    /// AWS region of the cluster, e.g. `eu-west-1`. Required in both modes. Immutable in managed mode. In unmanaged
    /// mode the region can be corrected; running machines keep the region in which they were launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,

    /// AWS partition of the region, as in ARNs: `aws`, `aws-cn`, `aws-us-gov`. Default: the partition that the name of
    /// the region implies, which is also the only one that a managed cluster can have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,

    /// Whether you bring the infrastructure. If true, the provider creates, changes, tags and deletes no AWS resource
    /// for this cluster, and deleting the AWSCluster changes nothing in AWS. Machines are still launched and
    /// terminated. Default: false. You can change false to true later: the provider then stops managing all resources
    /// and deletes none of them. You cannot change true to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmanaged: bool,

    /// Identity whose AWS credentials the provider uses for this cluster and for those of its machines that name no
    /// identity. Its `allowedNamespaces` must admit this namespace. Default: AWSClusterControllerIdentity `default`,
    /// the manager's own credentials. The field can be changed, but not removed once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityReference>,

    /// Address of the Kubernetes API. In managed mode the provider fills it in from the load balancer, except with
    /// `loadBalancerType: disabled`. In unmanaged mode you or the control plane provider set the address here or in the
    /// Cluster; the provider never derives it. Immutable once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ControlPlaneEndpoint>,

    /// Targets of your own load balancers in which control plane instances are registered, at most 8: target groups or
    /// Classic Load Balancers. Absent: the targets behind the load balancer that `controlPlaneLoadBalancer` names;
    /// without that name, no targets. Machines keep the targets with which they were launched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub control_plane_targets: Vec<ControlPlaneTarget>,

    /// VPC, subnets and security groups that the cluster uses, or that the provider creates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpec>,

    /// Tags and other filters by which the provider finds the infrastructure that you bring, as far as the spec does
    /// not name it by id. Only with `unmanaged: true`, and not with the preflight mode `Disabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery: Option<DiscoverySpec>,

    /// Settings of the checks of the infrastructure that you bring. Absent: the checks run and only report findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightSpec>,

    /// Load balancer of the Kubernetes API. In managed mode the provider creates it; absent: an internet-facing load
    /// balancer of type `classic`. In unmanaged mode the provider looks up your load balancer by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_load_balancer: Option<LoadBalancerSpec>,

    /// A second load balancer of the Kubernetes API, e.g. an internal load balancer beside a public one, so that the
    /// traffic of nodes to the API stays in the VPC. In unmanaged mode, the provider also registers control plane
    /// instances with the load balancer of this name. The second load balancer must have another name, the type `nlb`
    /// and the other scheme: set `loadBalancerType` and `scheme`, because their defaults are not valid here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secondary_control_plane_load_balancer: Option<LoadBalancerSpec>,

    /// Tags for all AWS resources that the provider creates for the cluster, including instances, e.g. `{cost-centre:
    /// "42"}`; at most 50. Tags in the spec of a machine take precedence. Resources that you bring are not tagged. Keys
    /// that begin with `aws:` and keys by which the provider recognises clusters and machines are refused.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(schema_with = "additional_tags_schema")]
    pub additional_tags: Tags,

    /// Name of the EC2 key pair for SSH to the bastion and to the instances of machines without a key pair in their
    /// spec. Absent or empty: no key is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key_name: Option<String>,

    /// Template of the name of the image to look up for machines with neither an image id nor a format in their spec.
    /// `{{.BaseOS}}` and `{{.K8sVersion}}` (without its `v`) are replaced; `*` and `?` are wildcards, e.g.
    /// `acme-{{.BaseOS}}-{{.K8sVersion}}-*`. Default: `capa-ami-{{.BaseOS}}-?{{.K8sVersion}}-*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_lookup_format: Option<String>,

    /// AWS account that owns the image to look up, e.g. `123456789012`; images of other accounts are ignored. Default:
    /// `819546954734`, the account of the images that Cluster API's AWS community publishes for evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_lookup_org: Option<String>,

    /// Operating system in the name of the image to look up, e.g. `ubuntu-22.04` or `flatcar-stable`. Default:
    /// `ubuntu-24.04`.
    #[serde(rename = "imageLookupBaseOS", default, skip_serializing_if = "Option::is_none")]
    pub image_lookup_base_os: Option<String>,

    /// SSH jump host in a public subnet of a managed cluster. Absent: no bastion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bastion: Option<Bastion>,

    /// S3 bucket for the bootstrap data of machines that boot with Ignition. Absent: no bucket, and machines with
    /// Ignition need another storage type.
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
    /// The region. A value that cannot be the name of a region counts as absent.
    pub fn region(&self) -> Option<&str> {
        self.region.as_deref().filter(|region| is_region(region))
    }

    /// The AWS partition in the spec and the partition of the region, if they differ.
    pub fn wrong_partition(&self) -> Option<(&str, &'static str)> {
        let of_region = partition_of(self.region()?);
        let of_spec = self.effective_partition();
        (of_spec != of_region).then_some((of_spec, of_region))
    }

    /// The AWS partition of the spec, or else the partition that the region implies.
    pub fn effective_partition(&self) -> &str {
        match self.partition.as_deref() {
            Some(partition) if !partition.is_empty() => partition,
            _ => partition_of(self.region().unwrap_or_default()),
        }
    }

    /// The identity whose credentials are used.
    pub fn effective_identity_ref(&self) -> IdentityReference {
        self.identity_ref.clone().unwrap_or_else(IdentityReference::controller_default)
    }

    /// The load balancer of the Kubernetes API in managed mode. Without one in the spec: an internet-facing Classic
    /// Load Balancer.
    pub fn effective_control_plane_load_balancer(&self) -> LoadBalancerSpec {
        self.control_plane_load_balancer.clone().unwrap_or_default()
    }

    /// The load balancer of the Kubernetes API that the spec names, with its name. An empty name counts as absent, and
    /// so does any name beside `controlPlaneTargets`, which take precedence.
    pub fn named_load_balancer(&self) -> Option<(&LoadBalancerSpec, &str)> {
        let balancer = self.control_plane_load_balancer.as_ref()?;
        Some((balancer, self.name_of(balancer)?))
    }

    /// The name of the secondary load balancer of the Kubernetes API, which is a Network Load Balancer: the API server
    /// refuses other types. As for the first load balancer, an empty name and any name beside `controlPlaneTargets`
    /// count as absent.
    pub fn secondary_load_balancer_name(&self) -> Option<&str> {
        self.name_of(self.secondary_control_plane_load_balancer.as_ref()?)
    }

    fn name_of<'a>(&self, balancer: &'a LoadBalancerSpec) -> Option<&'a str> {
        let name = balancer.name.as_deref().filter(|name| !name.is_empty())?;
        self.control_plane_targets.is_empty().then_some(name)
    }

    /// The effective mode of the infrastructure checks.
    pub fn effective_preflight_mode(&self) -> PreflightMode {
        self.preflight.as_ref().and_then(|preflight| preflight.mode).unwrap_or_default()
    }

    /// Host and port of the Kubernetes API, or `None` unless both are set. An empty host and port 0 count as absent.
    pub fn endpoint(&self) -> Option<(&str, i32)> {
        let endpoint = self.control_plane_endpoint.as_ref()?;
        let host = endpoint.host.as_deref().filter(|host| !host.is_empty())?;
        let port = endpoint.port.filter(|port| *port != 0)?;
        Some((host, port))
    }

    /// Id of the VPC that the spec names. An empty id counts as absent.
    pub fn vpc_id(&self) -> Option<&str> {
        let vpc = self.network.as_ref()?.vpc.as_ref()?;
        vpc.id.as_deref().filter(|id| !id.is_empty())
    }

    /// The fields of the image lookup that the spec sets; `None` if the spec sets none of them.
    pub fn image_lookup(&self) -> Option<ImageLookup> {
        let given = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        let lookup = ImageLookup {
            format: given(&self.image_lookup_format),
            org: given(&self.image_lookup_org),
            base_os: given(&self.image_lookup_base_os),
        };
        (lookup != ImageLookup::default()).then_some(lookup)
    }

    /// The storage for bootstrap data that the spec names.
    pub fn bootstrap_storage(&self) -> Option<NetworkBootstrapStorage> {
        let bucket = self.s3_bucket.as_ref()?;
        Some(NetworkBootstrapStorage { s3: Some(bucket.as_network()) })
    }

    /// The network of the machines as far as the spec itself states it: everything but VPC, subnets, security groups
    /// and targets.
    pub fn network_for_machines(&self, cluster_name: &str) -> MachineNetwork {
        MachineNetwork {
            region: self.region().map(str::to_owned),
            additional_tags: self.additional_tags.clone(),
            cluster_tag: Some(cluster_name.to_owned()),
            ssh_key_name: self.ssh_key_name.clone().filter(|name| !name.is_empty()),
            image_lookup: self.image_lookup(),
            identity_ref: Some(self.effective_identity_ref()),
            bootstrap_storage: self.bootstrap_storage(),
            ..MachineNetwork::default()
        }
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
    PARTITIONS.iter().find(|(prefix, _)| region.starts_with(prefix)).map_or("aws", |(_, partition)| partition)
}

#[cfg(test)]
mod tests;
