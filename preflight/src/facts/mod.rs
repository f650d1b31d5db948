//! The facts that the rules read: what users require, and what AWS and Kubernetes answered.

mod answer;
mod demand;
mod kubernetes;
mod machines;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use capa_api::common::MachineRole;
pub use capa_cloud::ec2::security_group::{Rule, Source, Traffic};
pub use capa_cloud::ec2::{
    AclEntry, CapacityReservation, CapacityReservationState, DhcpOptions, IpProtocol, NatGateway, NatGatewayState,
    NetworkAcl, Offering, OptInStatus, PlacementGroup, Region, Route, RouteTable, RouteTableAssociation, RouteTarget,
    SecurityGroup, Subnet, Vpc, VpcDns, VpcEndpoint, VpcEndpointType, Zone,
};
pub use capa_cloud::elb::{HealthCheck, IpAddressType, Listener, LoadBalancer, TargetGroup};
pub use capa_cloud::{Availability, Host, Image, InstanceType};

pub use answer::{Answer, Failure, FailureKind};
pub use demand::{
    Demand, EndpointDemand, GROUPS_OF_AN_INTERFACE, GroupSet, MachineDemand, ON_DEMAND_VCPUS, RULES_OF_A_GROUP,
    SPOT_VCPUS,
};
pub use kubernetes::{KubernetesFacts, SourceAccess};
pub use machines::{Bucket, DryRun, EncryptionKey, InstanceProfile, KeyState, KeyUsage};

/// All facts that the rules read. The facts of a check can be saved and replayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Facts {
    /// Time at which the facts were gathered, in the form of RFC 3339.
    pub gathered_at: String,
    /// What users require of the infrastructure.
    pub demand: Demand,
    /// Account of the credentials.
    pub account_id: Answer<String>,
    /// Regions that the account can use or enable.
    pub regions: Answer<Vec<Region>>,
    /// Zones of the region.
    pub zones: Answer<Vec<Zone>>,
    /// The VPC, if it exists.
    pub vpc: Answer<Option<Vpc>>,
    /// DNS settings of the VPC.
    pub vpc_dns: Answer<VpcDns>,
    /// DHCP options of the VPC; `None`: the VPC has none.
    pub dhcp_options: Answer<Option<DhcpOptions>>,
    /// Subnets of the VPC, and those that the demand names.
    pub subnets: Answer<Vec<Subnet>>,
    /// Route tables of the VPC.
    pub route_tables: Answer<Vec<RouteTable>>,
    /// NAT gateways of the VPC.
    pub nat_gateways: Answer<Vec<NatGateway>>,
    /// Network access control lists of the VPC.
    pub network_acls: Answer<Vec<NetworkAcl>>,
    /// Endpoints of the VPC.
    pub vpc_endpoints: Answer<Vec<VpcEndpoint>>,
    /// Security groups of machines, load balancers and endpoints.
    pub security_groups: Answer<Vec<SecurityGroup>>,
    /// Target groups of the control plane.
    pub target_groups: Answer<Vec<TargetGroup>>,
    /// Load balancers of the target groups.
    pub load_balancers: Answer<Vec<LoadBalancer>>,
    /// Attributes of these target groups and load balancers by ARN, for example `preserve_client_ip.enabled`.
    pub load_balancing_attributes: BTreeMap<String, Answer<BTreeMap<String, String>>>,
    /// Listeners of the load balancers by ARN of the load balancer.
    pub listeners: BTreeMap<String, Answer<Vec<Listener>>>,
    /// Addresses of the endpoint of the API server, resolved on the machine that runs the check.
    pub endpoint_addresses: Answer<Vec<String>>,
    /// Images of the machine templates.
    pub images: Answer<Vec<Image>>,
    /// Instance types of the machine templates.
    pub instance_types: Answer<Vec<InstanceType>>,
    /// Zones in which these instance types are offered.
    pub offerings: Answer<Vec<Offering>>,
    /// Names of the existing key pairs among those that the machines name.
    pub key_pairs: Answer<Vec<String>>,
    /// Instance profiles by name.
    pub instance_profiles: BTreeMap<String, Answer<Option<InstanceProfile>>>,
    /// Encryption keys by the name in the volume, or `alias/aws/ebs` for the default of the account.
    pub encryption_keys: BTreeMap<String, Answer<Option<EncryptionKey>>>,
    /// Placement groups of the machine templates.
    pub placement_groups: Answer<Vec<PlacementGroup>>,
    /// Capacity reservations of the machine templates.
    pub capacity_reservations: Answer<Vec<CapacityReservation>>,
    /// Dedicated hosts of the machine templates.
    pub dedicated_hosts: Answer<Vec<Host>>,
    /// Buckets for bootstrap data by name.
    pub buckets: BTreeMap<String, Answer<Option<Bucket>>>,
    /// Whether the service-linked role for spot instances exists.
    pub spot_role: Answer<bool>,
    /// Service quotas by their code, for example `L-2AFB9258`.
    pub quotas: Answer<BTreeMap<String, f64>>,
    /// Launches that were tried with `DryRun=true`, by machine template.
    pub launches: BTreeMap<String, Answer<DryRun>>,
    /// Other calls that were tried with `DryRun=true`, by action.
    pub other_calls: BTreeMap<String, Answer<DryRun>>,
    /// What the API server of the management cluster answered; absent if the check has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesFacts>,
}
