//! Spec of an AWSMachine.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bootstrap::{CloudInit, Ignition};
use super::options::{
    AmiReference, CapacityReservationPreference, CpuOptions, DynamicHostAllocation, HostAffinity,
    InstanceMetadataOptions, MarketType, NetworkInterfaceType, PrivateDnsName, SpotMarketOptions, Switch, Tenancy,
};
use super::status::AWSMachineStatus;
use crate::common::{
    ControlPlaneTarget, ElasticIpPool, IdentityReference, ResourceReference, Tags, Volume, additional_tags_schema,
};

/// Desired state of an EC2 instance. Immutable once created, except where a field says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "AWSMachine",
    plural = "awsmachines",
    shortname = "awsm",
    category = "cluster-api",
    namespaced,
    status = "AWSMachineStatus",
    derive = "PartialEq",
    doc = "An EC2 instance that becomes a node of a cluster. Usually made from an AWSMachineTemplate by Cluster API.",
    printcolumn = r#"{"name": "Cluster", "type": "string",
        "jsonPath": ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",
        "description": "Cluster that the machine belongs to"}"#,
    printcolumn = r#"{"name": "Machine", "type": "string",
        "jsonPath": ".metadata.ownerReferences[?(@.kind==\"Machine\")].name",
        "description": "Machine that owns this AWSMachine"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        "description": "Whether the instance runs and is what the spec asks for"}"#,
    // `..` finds the id in `spec` or in `status.launch`: a column has one path, and the launch has the id before the
    // spec does.
    printcolumn = r#"{"name": "Instance", "type": "string", "jsonPath": "..instanceID",
        "description": "EC2 instance id: of the launch as soon as EC2 has answered, or of the spec"}"#,
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".spec.instanceType",
        "description": "EC2 instance type"}"#,
    printcolumn = r#"{"name": "Zone", "type": "string", "jsonPath": ".status.failureDomain",
        "description": "Zone that the instance runs in"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since the AWSMachine was created"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.capacityReservationId) || !has(self.marketType) || self.marketType != 'Spot'",
        "message": "a Spot instance cannot use a capacity reservation: remove capacityReservationId or change \
                    marketType",
    },
    {
        "rule": "!has(self.capacityReservationId) || !has(self.spotMarketOptions)",
        "message": "a Spot instance cannot use a capacity reservation: remove capacityReservationId or \
                    spotMarketOptions",
    },
]))]
pub struct AWSMachineSpec {
    /// Id of the machine for Kubernetes, `aws:///<zone>/<instance id>`, equal to the node's. Written by the provider
    /// when the instance runs; immutable once set.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,
    /// Id of the EC2 instance, for example `i-0123456789abcdef0`. Written by the provider when the instance runs;
    /// immutable once set.
    #[serde(default, rename = "instanceID", skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// EC2 instance type, for example `m7i.large`.
    #[schemars(length(min = 2))]
    pub instance_type: String,

    /// AWS region of the machine, for example `eu-west-1`. Absent: the region of the cluster's network. For machines
    /// whose cluster has no AWS infrastructure object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 32),
        regex(pattern = r"^[a-z]{2,9}(-[a-z]{2,9}){1,2}-[1-9][0-9]?$")
    )]
    pub region: Option<String>,
    /// Identity whose credentials launch and delete this machine's instance. Absent: the one of the cluster's network,
    /// and without one AWSClusterControllerIdentity `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityReference>,
    /// Load balancer targets that the instance is registered in if this is a control plane machine. Absent or empty:
    /// those of the cluster's network. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub control_plane_targets: Vec<ControlPlaneTarget>,

    /// Machine image to launch. Absent: looked up by name, see `imageLookupFormat`. Looking up is not possible yet:
    /// without `ami.id` a machine is not launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ami: Option<AmiReference>,
    /// Template of the name of the image to look up, in which `{{.BaseOS}}` and `{{.K8sVersion}}` (without a leading
    /// `v`) are replaced; `*` and `?` are wildcards. Absent: the cluster's, and without one
    /// `capa-ami-{{.BaseOS}}-?{{.K8sVersion}}-*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_lookup_format: Option<String>,
    /// AWS account id that owns the image to look up. Absent: the cluster's, and without one `819546954734`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_lookup_org: Option<String>,
    /// Operating system that stands for `{{.BaseOS}}` in the name of the image to look up. Absent: the cluster's, and
    /// without one `ubuntu-24.04`.
    #[serde(default, rename = "imageLookupBaseOS", skip_serializing_if = "Option::is_none")]
    pub image_lookup_base_os: Option<String>,

    /// Name (not ARN) of the IAM instance profile, for example `nodes.cluster-api-provider-aws.sigs.k8s.io`. Absent:
    /// the one that the cluster's network names for the machine's role, and without one none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iam_instance_profile: Option<String>,
    /// Name of the EC2 key pair for SSH. Absent: the cluster's, and without one none; an empty name is none as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key_name: Option<String>,

    /// Whether the instance gets a public address; `true` also restricts it to public subnets. Absent: as the subnet
    /// says, and of the cluster's subnets only private ones are used.
    #[serde(default, rename = "publicIP", skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<bool>,
    /// Pool that the public address is taken from. Needs `publicIP: true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic_ip_pool: Option<ElasticIpPool>,
    /// Subnet to launch in. Absent: the subnet of the cluster's network, in the Machine's failure domain if it has one,
    /// that holds the fewest machines of the cluster. An empty block is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<ResourceReference>,
    /// Security groups that the instance gets besides those of the cluster's network, each by id or by filters. At most
    /// 16. Mutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-validations" = [{
        "rule": "self.all(group, !has(group.id) || !has(group.filters) || size(group.filters) == 0)",
        "message": "each of additionalSecurityGroups has an id or filters, not both",
    }]))]
    pub additional_security_groups: Vec<ResourceReference>,
    /// Security group ids instead of the cluster's, by role: `node` and `lb` for every machine, `controlplane` for
    /// control planes, e.g. `{node: sg-0a1b2c3d, lb: sg-0e5f6a7b}`. `node` and `lb` replace those of the cluster
    /// together: name both to keep both; `lb` alone is refused. `controlplane` replaces the cluster's on its own. A
    /// machine with any other role is not launched.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub security_group_overrides: BTreeMap<String, String>,
    /// Ids of existing network interfaces to attach instead of creating one; at most 2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub network_interfaces: Vec<String>,
    /// Kind of the first network interface: `interface` or `efa` (Elastic Fabric Adapter). Absent: `interface`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_interface_type: Option<NetworkInterfaceType>,
    /// Whether the first IPv6 address is a primary one, which cannot be taken away and can be a load balancer target.
    /// Absent: yes where both the subnet and the VPC have IPv6.
    #[serde(default, rename = "assignPrimaryIPv6", skip_serializing_if = "Option::is_none")]
    pub assign_primary_ipv6: Option<Switch>,
    /// DNS names of the instance inside the VPC. Absent: as the subnet says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_dns_name: Option<PrivateDnsName>,

    /// AWS tags of the instance, its volumes and network interfaces, besides the cluster's, over which they win. At
    /// most 50. Mutable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "additional_tags_schema")]
    pub additional_tags: Tags,

    /// Volume that the instance boots from. Absent: as the image says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<Volume>,
    /// Further volumes, each with a `deviceName`. At most 40.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 40))]
    pub non_root_volumes: Vec<Volume>,

    /// Delivery of cloud-init bootstrap data. Absent: through AWS Secrets Manager. Neither Secrets Manager nor SSM is
    /// possible yet: the machine waits with `StorageNotSupported`; set `cloudInit.insecureSkipSecretsManager: true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<CloudInit>,
    /// Delivery of Ignition bootstrap data; not together with `cloudInit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignition: Option<Ignition>,
    /// `false` compresses the user data with gzip, for cloud-init only. Absent or `true`: sent as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncompressed_user_data: Option<bool>,

    /// Options of the instance metadata service. Absent: session tokens required, 2 hops, everything else as EC2 has
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_metadata_options: Option<InstanceMetadataOptions>,
    /// Makes the instance a Spot instance, and bounds its price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot_market_options: Option<SpotMarketOptions>,
    /// Market to buy on: `OnDemand`, `Spot` or `CapacityBlock` (needs `capacityReservationId`). Absent: `Spot` with
    /// `spotMarketOptions`, else `OnDemand`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub market_type: Option<MarketType>,
    /// Id of the capacity reservation or capacity block to launch into, for example `cr-0123456789abcdef0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_reservation_id: Option<String>,
    /// Use of capacity reservations: `None`, `CapacityReservationsOnly` or `Open`. Absent or empty: EC2's default,
    /// open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_reservation_preference: Option<CapacityReservationPreference>,

    /// Hardware that the instance shares with others: `default` with anybody, `dedicated` with nobody outside the
    /// account, `host` a Dedicated Host. Absent: as the VPC says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenancy: Option<Tenancy>,
    /// Id of the Dedicated Host to run on, for example `h-0123456789abcdef0`. Needs `tenancy: host`.
    #[serde(default, rename = "hostID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 19), regex(pattern = r"^h-[0-9a-f]{17}$"))]
    pub host_id: Option<String>,
    /// Tie to the Dedicated Host: with `host` a stopped instance starts again on the same one, with `default` on any.
    #[serde(default)]
    pub host_affinity: HostAffinity,
    /// Allocates a Dedicated Host for this machine and releases it afterwards. Needs `tenancy: host` and `hostAffinity:
    /// host`; not together with `hostID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_host_allocation: Option<DynamicHostAllocation>,
    /// Name of the placement group to launch into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group_name: Option<String>,
    /// Partition of the placement group, 1 to 7. Needs `placementGroupName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 7))]
    pub placement_group_partition: Option<i64>,
    /// Features of the processor. Absent: as the instance type has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
}
