//! Reads of AWS as data, their results, and a function for each read. To add a read, add a variant to [`Read`] and to
//! [`Found`], a function here, and the call in the crate `aws` and in its fake.

use std::collections::HashMap;

use async_trait::async_trait;
use capa_api::common::Tags;

use crate::ec2::{NetworkInterface, RouteTable, SecurityGroup, Subnet, Vpc};
use crate::elb::{Listener, LoadBalancer, TargetGroup};
use crate::{CapacitySource, CloudError, ElasticIp, Host, Image, InstanceType, Query};

/// Maximum number of load balancers and target groups whose tags one call of DescribeTags returns.
pub const MAX_TAGGED: usize = 20;

/// A read of one account and region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Read {
    /// VPCs.
    Vpcs(Query),
    /// Subnets.
    Subnets(Query),
    /// Security groups.
    SecurityGroups(Query),
    /// Route tables.
    RouteTables(Query),
    /// Network interfaces.
    NetworkInterfaces(Query),
    /// Images.
    Images(Query),
    /// The load balancer of the second generation with this name.
    LoadBalancer(String),
    /// The listeners of the load balancer with this ARN.
    Listeners(String),
    /// The Classic Load Balancers with these names.
    ClassicLoadBalancers(Vec<String>),
    /// The target groups with these ARNs.
    TargetGroups(Vec<String>),
    /// The target groups of the VPC with this id.
    TargetGroupsIn(String),
    /// The tags of the target groups with these ARNs.
    TargetGroupTags(Vec<String>),
    /// The parameter of this name that AWS publishes in Parameter Store.
    PublicParameter(String),
    /// The instance type of this name.
    InstanceType(String),
    /// The zone of capacity that a machine names.
    CapacityZone(CapacitySource),
    /// The domain name in the DHCP options of the VPC with this id.
    DomainName(String),
    /// Dedicated Hosts.
    Hosts(Query),
    /// Elastic IPs.
    ElasticIps(Query),
    /// The free addresses of the public IPv4 pool with this id.
    FreeAddresses(String),
}

/// What a read has found.
#[derive(Clone, Debug)]
pub enum Found {
    /// VPCs.
    Vpcs(Vec<Vpc>),
    /// Subnets.
    Subnets(Vec<Subnet>),
    /// Security groups.
    SecurityGroups(Vec<SecurityGroup>),
    /// Route tables.
    RouteTables(Vec<RouteTable>),
    /// Network interfaces.
    NetworkInterfaces(Vec<NetworkInterface>),
    /// Images.
    Images(Vec<Image>),
    /// A load balancer, if there is one.
    LoadBalancer(Option<Box<LoadBalancer>>),
    /// The listeners of a load balancer.
    Listeners(Vec<Listener>),
    /// Whether a Classic Load Balancer exists for each name.
    ClassicLoadBalancers(bool),
    /// Target groups; `None` if one of them does not exist.
    TargetGroups(Option<Vec<TargetGroup>>),
    /// The target groups of a VPC.
    TargetGroupsIn(Vec<TargetGroup>),
    /// The tags of target groups, by ARN.
    TargetGroupTags(Vec<(String, Tags)>),
    /// The value of a parameter.
    PublicParameter(String),
    /// An instance type.
    InstanceType(InstanceType),
    /// The name of a zone.
    CapacityZone(String),
    /// A domain name, if there is one.
    DomainName(Option<String>),
    /// Dedicated Hosts.
    Hosts(Vec<Host>),
    /// Elastic IPs.
    ElasticIps(Vec<ElasticIp>),
    /// A number of addresses.
    FreeAddresses(u32),
}

/// The answers of AWS to some reads.
pub type Answers = HashMap<Read, Found>;

impl Read {
    /// The AWS action that errors name.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Vpcs(_) => "DescribeVpcs",
            Self::Subnets(_) => "DescribeSubnets",
            Self::SecurityGroups(_) => "DescribeSecurityGroups",
            Self::RouteTables(_) => "DescribeRouteTables",
            Self::NetworkInterfaces(_) => "DescribeNetworkInterfaces",
            Self::Images(_) => "DescribeImages",
            Self::LoadBalancer(_) | Self::ClassicLoadBalancers(_) => "DescribeLoadBalancers",
            Self::Listeners(_) => "DescribeListeners",
            Self::TargetGroups(_) | Self::TargetGroupsIn(_) => "DescribeTargetGroups",
            Self::TargetGroupTags(_) => "DescribeTags",
            Self::PublicParameter(_) => "GetParameter",
            Self::InstanceType(_) => "DescribeInstanceTypes",
            Self::CapacityZone(CapacitySource::Reservation(_)) => "DescribeCapacityReservations",
            Self::CapacityZone(CapacitySource::Host(_)) | Self::Hosts(_) => "DescribeHosts",
            Self::DomainName(_) => "DescribeDhcpOptions",
            Self::ElasticIps(_) => "DescribeAddresses",
            Self::FreeAddresses(_) => "DescribePublicIpv4Pools",
        }
    }

    /// Whether a write depends on the answer, so that the answer must come from the account of the pass.
    pub(crate) fn precedes_a_write(&self) -> bool {
        matches!(self, Self::Hosts(_) | Self::ElasticIps(_) | Self::FreeAddresses(_))
    }
}

/// The answer of AWS to one kind of read.
macro_rules! found {
    ($cloud:expr, $kind:ident($asked:expr)) => {{
        let read = Read::$kind($asked);
        match $cloud.read(&read).await? {
            Found::$kind(found) => Ok(found),
            _ => Err(CloudError::no_answer(read.action(), "the answer is that to another call")),
        }
    }};
}

/// Reads of one account and region. Every call lists all pages. Where a function says that answers are shared, the
/// session of a machine or of a machine template shares them; the session of a cluster asks AWS each time, so that a
/// user's correction takes effect immediately.
#[async_trait]
pub trait Reads: Send + Sync {
    /// Makes a read. Callers use the functions below, which return the result with its type.
    async fn read(&self, read: &Read) -> Result<Found, CloudError>;

    /// VPCs.
    async fn vpcs(&self, query: &Query) -> Result<Vec<Vpc>, CloudError> {
        found!(self, Vpcs(query.clone()))
    }

    /// Subnets; machines whose queries are equal share an answer for `Timing::lookup_cache`.
    async fn subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        found!(self, Subnets(query.clone()))
    }

    /// Security groups; shared like subnets.
    async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        found!(self, SecurityGroups(query.clone()))
    }

    /// Route tables.
    async fn route_tables(&self, query: &Query) -> Result<Vec<RouteTable>, CloudError> {
        found!(self, RouteTables(query.clone()))
    }

    /// Network interfaces, straight from AWS: each belongs to one machine, and its attachment changes.
    async fn network_interfaces(&self, query: &Query) -> Result<Vec<NetworkInterface>, CloudError> {
        found!(self, NetworkInterfaces(query.clone()))
    }

    /// Images; shared like subnets.
    async fn images(&self, query: &Query) -> Result<Vec<Image>, CloudError> {
        found!(self, Images(query.clone()))
    }

    /// The image with this id; shared like subnets.
    ///
    /// # Errors
    /// Of class `NotFound`: the region has no such image, or its owner does not share it.
    async fn image(&self, id: &str) -> Result<Image, CloudError> {
        let images = self.images(&Query::filter("image-id", [id])).await?;
        let image = images.into_iter().find(|image| image.id == id);
        image.ok_or_else(|| CloudError::not_found("DescribeImages", format!("there is no image {id}")))
    }

    /// The load balancer of the second generation with this name; `None` if there is none. Shared like subnets.
    async fn load_balancer(&self, name: &str) -> Result<Option<Box<LoadBalancer>>, CloudError> {
        found!(self, LoadBalancer(name.to_owned()))
    }

    /// The listeners of the load balancer with this ARN; shared like subnets.
    async fn listeners(&self, load_balancer: &str) -> Result<Vec<Listener>, CloudError> {
        found!(self, Listeners(load_balancer.to_owned()))
    }

    /// The listeners of the load balancer with this name; `None` if there is none.
    async fn listeners_of(&self, name: &str) -> Result<Option<Vec<Listener>>, CloudError> {
        match self.load_balancer(name).await? {
            Some(shown) => self.listeners(&shown.arn).await.map(Some),
            None => Ok(None),
        }
    }

    /// Whether a Classic Load Balancer exists for each of these names.
    async fn classic_load_balancers(&self, names: &[String]) -> Result<bool, CloudError> {
        found!(self, ClassicLoadBalancers(names.to_vec()))
    }

    /// The target groups with these ARNs; `None` if one of them does not exist. AWS does not say which one.
    async fn target_groups(&self, arns: &[String]) -> Result<Option<Vec<TargetGroup>>, CloudError> {
        found!(self, TargetGroups(arns.to_vec()))
    }

    /// All target groups of a VPC.
    async fn target_groups_in(&self, vpc_id: &str) -> Result<Vec<TargetGroup>, CloudError> {
        found!(self, TargetGroupsIn(vpc_id.to_owned()))
    }

    /// The tags of target groups, by ARN: one call for each [`MAX_TAGGED`] of them.
    async fn target_group_tags(&self, arns: &[String]) -> Result<Vec<(String, Tags)>, CloudError> {
        found!(self, TargetGroupTags(arns.to_vec()))
    }

    /// The value of a parameter that AWS publishes in Parameter Store; shared like subnets.
    ///
    /// # Errors
    /// Of class `NotFound`: the region has no such parameter.
    async fn public_parameter(&self, name: &str) -> Result<String, CloudError> {
        found!(self, PublicParameter(name.to_owned()))
    }

    /// An instance type by its name; asked once a day.
    ///
    /// # Errors
    /// Of class `NotFound`: the region has no such type.
    async fn instance_type(&self, name: &str) -> Result<InstanceType, CloudError> {
        found!(self, InstanceType(name.to_owned()))
    }

    /// The zone of capacity that a machine names; asked once a day.
    ///
    /// # Errors
    /// Of class `NotFound`: AWS does not show the capacity.
    async fn capacity_zone(&self, source: &CapacitySource) -> Result<String, CloudError> {
        found!(self, CapacityZone(source.clone()))
    }

    /// The domain name in the DHCP options of a VPC; `None` if these have none. Asked once an hour.
    async fn domain_name(&self, vpc_id: &str) -> Result<Option<String>, CloudError> {
        found!(self, DomainName(vpc_id.to_owned()))
    }

    /// Dedicated Hosts, straight from AWS: the lookup before a host is allocated for a machine, and before hosts of a
    /// machine are released.
    async fn hosts(&self, query: &Query) -> Result<Vec<Host>, CloudError> {
        found!(self, Hosts(query.clone()))
    }

    /// Elastic IPs, straight from AWS: the lookup before an address is allocated for a machine, and before addresses of
    /// a machine are released.
    async fn elastic_ips(&self, query: &Query) -> Result<Vec<ElasticIp>, CloudError> {
        found!(self, ElasticIps(query.clone()))
    }

    /// The number of free addresses in a public IPv4 pool, straight from AWS.
    ///
    /// # Errors
    /// Of class `NotFound`: the region has no such pool.
    async fn free_addresses(&self, pool: &str) -> Result<u32, CloudError> {
        found!(self, FreeAddresses(pool.to_owned()))
    }
}
