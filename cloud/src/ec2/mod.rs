//! The EC2 resources of clusters and machines: one file for each resource, with what AWS shows of it, and the calls
//! that change it.

pub mod availability;
pub mod capacity_reservation;
pub mod dhcp_options;
pub mod elastic_ip;
pub mod host;
pub mod image;
pub mod instance;
pub mod instance_type;
pub mod internet_gateway;
pub mod ip_protocol;
pub mod launch;
pub mod nat_gateway;
pub mod network_acl;
pub mod network_interface;
pub mod placement_group;
pub mod region;
pub mod route_table;
pub mod security_group;
pub mod subnet;
pub mod tag;
pub mod vpc;
pub mod vpc_endpoint;
pub mod zone;

use serde::{Deserialize, Serialize};

pub use capacity_reservation::{CapacityReservation, CapacityReservationState};
pub use dhcp_options::DhcpOptions;
pub use instance_type::Offering;
pub use internet_gateway::InternetGateway;
pub use ip_protocol::IpProtocol;
pub use nat_gateway::{NatGateway, NatGatewayState};
pub use network_acl::{AclEntry, NetworkAcl};
pub use network_interface::NetworkInterface;
pub use placement_group::PlacementGroup;
pub use region::{OptInStatus, Region};
pub use route_table::{Route, RouteTable, RouteTableAssociation, RouteTarget};
pub use security_group::SecurityGroup;
pub use subnet::Subnet;
pub use vpc::{Vpc, VpcDns};
pub use vpc_endpoint::{VpcEndpoint, VpcEndpointType};
pub use zone::Zone;

use crate::resource::{Effect, Repeat, Seen};
use crate::{CloudError, ElasticIp};

/// A call of EC2 that changes a resource of a managed cluster. `I` is the type of its ids: a plan also refers to
/// resources that do not exist yet, whereas a call that is made has AWS ids only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Call<I> {
    /// A call about a VPC.
    Vpc(vpc::Call<I>),
    /// A call about a subnet.
    Subnet(subnet::Call<I>),
    /// A call about an internet gateway.
    InternetGateway(internet_gateway::Call<I>),
    /// A call about a NAT gateway or its Elastic IP.
    NatGateway(nat_gateway::Call<I>),
    /// A call about a route table.
    RouteTable(route_table::Call<I>),
    /// A call about a security group.
    SecurityGroup(security_group::Call<I>),
    /// A call about the tags of any resource.
    Tag(tag::Call<I>),
}

/// What an observation of EC2 shows of the resources of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Observed {
    /// The VPC whose id the observation asked for, or else the VPCs that the cluster owns by their tags.
    pub vpcs: Seen<Vec<Vpc>>,
    /// The DNS attributes of the VPC.
    pub dns: Seen<VpcDns>,
    /// All subnets of the VPC.
    pub subnets: Seen<Vec<Subnet>>,
    /// The internet gateways that the cluster owns by their tags, attached or not, and the one that is attached to the
    /// VPC.
    pub internet_gateways: Seen<Vec<InternetGateway>>,
    /// The NAT gateways of the VPC in every state.
    pub nat_gateways: Seen<Vec<NatGateway>>,
    /// The Elastic IPs that the cluster owns by their tags, and those whose ids the observation asked for.
    pub addresses: Seen<Vec<ElasticIp>>,
    /// The number of free addresses in the public IPv4 pool of the cluster.
    pub free_addresses: Seen<u32>,
    /// All route tables of the VPC.
    pub route_tables: Seen<Vec<RouteTable>>,
    /// All security groups of the VPC, including the default group.
    pub security_groups: Seen<Vec<SecurityGroup>>,
    /// All network interfaces of the VPC.
    pub network_interfaces: Seen<Vec<NetworkInterface>>,
}

impl Observed {
    /// The errors of reads without an answer, except that of the network interfaces, on which no plan depends.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &CloudError> {
        let answers = [
            self.vpcs.answer(),
            self.dns.answer(),
            self.subnets.answer(),
            self.internet_gateways.answer(),
            self.nat_gateways.answer(),
            self.addresses.answer(),
            self.free_addresses.answer(),
            self.route_tables.answer(),
            self.security_groups.answer(),
        ];
        answers.into_iter().filter_map(|answer| answer.err().flatten())
    }
}

impl<I> Call<I> {
    /// The action of EC2's API.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Vpc(call) => call.into(),
            Self::Subnet(call) => call.into(),
            Self::InternetGateway(call) => call.into(),
            Self::NatGateway(call) => call.into(),
            Self::RouteTable(call) => call.into(),
            Self::SecurityGroup(call) => call.into(),
            Self::Tag(call) => call.into(),
        }
    }

    /// What the call does to its resource.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Vpc(call) => call.effect(),
            Self::Subnet(call) => call.effect(),
            Self::InternetGateway(call) => call.effect(),
            Self::NatGateway(call) => call.effect(),
            Self::RouteTable(call) => call.effect(),
            Self::SecurityGroup(call) => call.effect(),
            Self::Tag(_) => Effect::Change,
        }
    }

    /// What a second call does.
    pub fn repeat(&self) -> Repeat<'_> {
        match self {
            Self::Vpc(call) => call.repeat(),
            Self::Subnet(_) | Self::SecurityGroup(_) | Self::Tag(_) => Repeat::Idempotent,
            Self::InternetGateway(call) => call.repeat(),
            Self::NatGateway(call) => call.repeat(),
            Self::RouteTable(call) => call.repeat(),
        }
    }

    /// The same call with other forms of its ids.
    ///
    /// # Errors
    /// The first error of `id`.
    pub fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Call<J>, E> {
        Ok(match self {
            Self::Vpc(call) => Call::Vpc(call.try_map(id)?),
            Self::Subnet(call) => Call::Subnet(call.try_map(id)?),
            Self::InternetGateway(call) => Call::InternetGateway(call.try_map(id)?),
            Self::NatGateway(call) => Call::NatGateway(call.try_map(id)?),
            Self::RouteTable(call) => Call::RouteTable(call.try_map(id)?),
            Self::SecurityGroup(call) => Call::SecurityGroup(call.try_map(id)?),
            Self::Tag(call) => Call::Tag(call.try_map(id)?),
        })
    }
}
