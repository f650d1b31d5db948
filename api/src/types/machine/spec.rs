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
use crate::network_source::NetworkSource;

/// Desired state of an AWSMachine. The fields are immutable after creation, unless the description of a field says
/// otherwise.
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
    doc = "An EC2 instance that becomes a node of a cluster. Cluster API usually creates AWSMachines from templates.",
    printcolumn = r#"{"name": "Cluster", "type": "string",
        "jsonPath": ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",
        "description": "Cluster that the machine belongs to"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        "description": "Whether the instance runs and matches the spec"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason",
        "description": "Reason of the condition that needs attention most; Ready if none does"}"#,
    // `..` finds the id in `spec` or in `status.launch`. A column has only one path, and `status.launch` has the id
    // before `spec` does.
    printcolumn = r#"{"name": "Instance", "type": "string", "jsonPath": "..instanceID",
        "description": "EC2 instance id, from status.launch or from the spec"}"#,
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".spec.instanceType",
        "description": "EC2 instance type"}"#,
    printcolumn = r#"{"name": "Zone", "type": "string", "jsonPath": ".status.failureDomain",
        "description": "Zone that the instance runs in"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since the AWSMachine was created"}"#,
    printcolumn = r#"{"name": "Machine", "type": "string", "priority": 1,
        "jsonPath": ".metadata.ownerReferences[?(@.kind==\"Machine\")].name",
        "description": "Machine that owns this AWSMachine"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message",
        "description": "Message of the condition that needs attention most"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.capacityReservationId) || self.capacityReservationId == '' || !has(self.marketType) || \
                 self.marketType != 'Spot'",
        "message": "a Spot instance cannot use a capacity reservation: remove capacityReservationId or change \
                    marketType",
    },
    {
        "rule": "!has(self.capacityReservationId) || self.capacityReservationId == '' || !has(self.spotMarketOptions)",
        "message": "a Spot instance cannot use a capacity reservation: remove capacityReservationId or \
                    spotMarketOptions",
    },
]))]
pub struct AWSMachineSpec {
    /// Provider id of the machine, `aws:///<zone>/<instance id>`, equal to the provider id of the node. The provider
    /// writes the field when the instance runs. Immutable once set.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,
    /// Id of the EC2 instance, for example `i-0123456789abcdef0`. The provider writes the field when the instance runs.
    /// Immutable once set.
    #[serde(default, rename = "instanceID", skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// EC2 instance type, for example `m7i.large`.
    #[schemars(length(min = 2))]
    pub instance_type: String,

    /// AWS region of the machine, for example `eu-west-1`. Set the region for machines of clusters without an AWS
    /// infrastructure object. Absent: the region of the cluster's network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), regex(pattern = r"^[a-z]{2,9}(-[a-z]{2,9}){1,2}-[1-9][0-9]?$"))]
    pub region: Option<String>,
    /// Identity with which the provider launches and terminates this machine's instance. Absent: the identity of the
    /// cluster's network, or else AWSClusterControllerIdentity `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityReference>,
    /// Load balancer targets in which the instance is registered if the machine is a control plane machine. Absent or
    /// empty: the targets of the cluster's network. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub control_plane_targets: Vec<ControlPlaneTarget>,
    /// Objects in the namespace of the machine that describe its network: ConfigMaps, Secrets, ACK objects, and objects
    /// of kinds that have an AWSNetworkMapping. The provider takes each field of the network as a whole from the first
    /// source that has the field: this spec, the objects in their order, the Cluster's infrastructure object. At most
    /// 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub network_sources: Vec<NetworkSource>,

    /// Machine image to launch. Without `id` and `eksLookupType`: the newest image for the architecture of the instance
    /// type that the account `imageLookupOrg` owns and whose name matches `imageLookupFormat`. Each launch looks the
    /// image up, and `status.launch.imageID` says which image it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ami: Option<AmiReference>,
    /// Template of the name of the image to look up, in which `{{.BaseOS}}` and `{{.K8sVersion}}` (without a leading
    /// `v`) are replaced; `*` and `?` are wildcards. Absent: the template of the cluster, or else
    /// `capa-ami-{{.BaseOS}}-?{{.K8sVersion}}-*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_lookup_format: Option<String>,
    /// Id of the AWS account that owns the image to look up. Absent: the account of the cluster's image lookup, or else
    /// `819546954734`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_lookup_org: Option<String>,
    /// Operating system that replaces `{{.BaseOS}}` in the name of the image to look up. Absent: the operating system
    /// of the cluster's image lookup, or else `ubuntu-24.04`.
    #[serde(default, rename = "imageLookupBaseOS", skip_serializing_if = "Option::is_none")]
    pub image_lookup_base_os: Option<String>,

    /// Name (not ARN) of the IAM instance profile, for example `nodes.cluster-api-provider-aws.sigs.k8s.io`. Absent:
    /// the instance profile of the cluster's network for the machine's role, or else no instance profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iam_instance_profile: Option<String>,
    /// Name of the EC2 key pair for SSH. Absent: the key pair of the cluster's network, or else no key pair. An empty
    /// name means no key pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key_name: Option<String>,

    /// Whether the instance gets a public address. With `true` the machine is placed in public subnets only. Absent:
    /// the setting of the subnet applies, and the machine is placed only in private subnets of the cluster.
    #[serde(default, rename = "publicIP", skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<bool>,
    /// Pool of the Elastic IP that the provider associates with the instance once it runs. An empty block means one of
    /// Amazon's addresses. The provider releases the address after the instance is terminated. Needs `publicIP: true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic_ip_pool: Option<ElasticIpPool>,
    /// Subnet of the instance. Absent: the subnet of the cluster's network with the fewest machines of the cluster,
    /// among the subnets in the Machine's failure domain if the Machine has one. The provider does not launch a machine
    /// with an empty block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<ResourceReference>,
    /// Security groups that the instance gets in addition to the security groups of the cluster's network, each by id
    /// or by filters. At most 16. Mutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-validations" = [{
        "rule": "self.all(group, !has(group.id) || group.id == '' || !has(group.filters) || size(group.filters) == 0)",
        "message": "each of additionalSecurityGroups has an id or filters, not both",
    }]))]
    pub additional_security_groups: Vec<ResourceReference>,
    /// Ids of security groups that replace the security groups of the cluster, by role: `node` and `lb` for every
    /// machine, `controlplane` for control plane machines, e.g. `{node: sg-0a1b2c3d, lb: sg-0e5f6a7b}`. Setting `node`
    /// replaces the cluster's groups of both `node` and `lb`: to give the machine a group of each role, set both keys.
    /// `controlplane` replaces only the cluster's group of that role. The provider does not launch a machine with `lb`
    /// but not `node`, or with any other key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub security_group_overrides: BTreeMap<String, String>,
    /// Ids of existing network interfaces to attach instead of a new network interface; at most 2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub network_interfaces: Vec<String>,
    /// Type of the first network interface: `interface` or `efa` (Elastic Fabric Adapter). Absent: `interface`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_interface_type: Option<NetworkInterfaceType>,
    /// Whether the first IPv6 address is a primary IPv6 address, which cannot be removed and can be a load balancer
    /// target. Absent: enabled if the subnet has IPv6 and the cluster's network uses it.
    #[serde(default, rename = "assignPrimaryIPv6", skip_serializing_if = "Option::is_none")]
    pub assign_primary_ipv6: Option<Switch>,
    /// DNS names of the instance inside the VPC. Absent: the settings of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_dns_name: Option<PrivateDnsName>,

    /// AWS tags of the instance, its volumes and network interfaces, in addition to the tags of the cluster. Tags of
    /// the machine take precedence. At most 50. Mutable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "additional_tags_schema")]
    pub additional_tags: Tags,

    /// Volume from which the instance boots. Absent: the root volume of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<Volume>,
    /// Additional volumes, each with a `deviceName`. At most 40.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 40))]
    pub non_root_volumes: Vec<Volume>,

    /// Delivery of cloud-init bootstrap data. Absent: through AWS Secrets Manager, from which the instance fetches the
    /// data with the AWS CLI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<CloudInit>,
    /// Delivery of Ignition bootstrap data. Excludes `cloudInit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignition: Option<Ignition>,
    /// Whether the user data is sent uncompressed. `false` compresses the user data with gzip, for cloud-init only.
    /// Absent: `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncompressed_user_data: Option<bool>,

    /// Options of the instance metadata service. Absent: session tokens are required, 2 hops are allowed, and EC2's
    /// defaults apply to all other options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_metadata_options: Option<InstanceMetadataOptions>,
    /// Options of a Spot instance, e.g. the maximum price. If the block is set, the instance is a Spot instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot_market_options: Option<SpotMarketOptions>,
    /// Market of the instance's capacity: `OnDemand`, `Spot` or `CapacityBlock` (needs `capacityReservationId`).
    /// Absent: `Spot` if `spotMarketOptions` is set, else `OnDemand`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub market_type: Option<MarketType>,
    /// Id of the capacity reservation or capacity block of the instance, for example `cr-0123456789abcdef0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_reservation_id: Option<String>,
    /// Use of capacity reservations: `None`, `CapacityReservationsOnly` or `Open`. Absent or empty: EC2's default,
    /// `Open`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_reservation_preference: Option<CapacityReservationPreference>,

    /// Tenancy of the instance's hardware: `default` for hardware shared with other AWS accounts, `dedicated` for
    /// hardware of this account only, `host` for a Dedicated Host. Absent: the tenancy of the VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenancy: Option<Tenancy>,
    /// Id of the Dedicated Host to run on, for example `h-0123456789abcdef0`. Needs `tenancy: host`.
    #[serde(default, rename = "hostID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 19), regex(pattern = r"^h-[0-9a-f]{17}$"))]
    pub host_id: Option<String>,
    /// Affinity to the Dedicated Host. `host`: a stopped instance starts again on the same host. `default`: a stopped
    /// instance starts again on any host.
    #[serde(default)]
    pub host_affinity: HostAffinity,
    /// Allocation of a Dedicated Host for this machine. The provider releases the host after the machine is deleted.
    /// Needs `tenancy: host` and `hostAffinity: host`; excludes `hostID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_host_allocation: Option<DynamicHostAllocation>,
    /// Name of the placement group of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group_name: Option<String>,
    /// Partition of the placement group, 1 to 7. Needs `placementGroupName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 7))]
    pub placement_group_partition: Option<i64>,
    /// Features of the processor. Absent: the defaults of the instance type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
}

impl AWSMachine {
    /// The identity with which the machine was launched, or else the one in its spec. `None`: the identity comes from
    /// the network of the machine.
    pub fn identity_ref(&self) -> Option<&IdentityReference> {
        let launched = self.status.as_ref().and_then(|status| status.network.as_ref());
        let of_launch = launched.and_then(|network| network.identity_ref.as_ref());
        of_launch.or(self.spec.identity_ref.as_ref())
    }
}
