//! What requirements demand of objects.

use serde::Serialize;

use super::object::Object;
use crate::facts::Traffic;
use crate::rules::traffic::AclTraffic;

/// What a requirement demands of an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Wanted {
    /// The credentials are valid, and belong to this account if the cluster expects one.
    #[serde(rename_all = "camelCase")]
    Credentials {
        /// The account.
        #[serde(skip_serializing_if = "Option::is_none")]
        account_id: Option<String>,
    },
    /// The account has enabled the region.
    EnabledRegion(String),
    /// The endpoints of these services of AWS can be reached.
    ReachableServices(Vec<&'static str>),
    /// The credentials may make these calls.
    AllowedActions(Vec<&'static str>),
    /// A service quota has at least this value.
    #[serde(rename_all = "camelCase")]
    Quota {
        /// Code of the quota.
        code: &'static str,
        /// What the quota limits.
        of: String,
        /// Minimum value; absent if it depends on the instance types of the machines.
        #[serde(skip_serializing_if = "Option::is_none")]
        at_least: Option<u32>,
    },
    /// The VPC exists.
    #[serde(rename_all = "camelCase")]
    Vpc {
        /// A free range for a VPC that has to be created.
        #[serde(skip_serializing_if = "Option::is_none")]
        cidr_block: Option<String>,
    },
    /// The VPC has a DNS server.
    DnsSupport,
    /// Instances get DNS names.
    DnsHostnames,
    /// The DHCP options have a DNS server, and this domain if there is one.
    #[serde(rename_all = "camelCase")]
    DhcpOptions {
        /// The domain.
        #[serde(skip_serializing_if = "Option::is_none")]
        domain: Option<String>,
    },
    /// No range of the VPC overlaps one of these.
    ApartFrom(Vec<String>),
    /// There is an IPv6 range. Subnets assign addresses from it.
    Ipv6,
    /// The object belongs to the account of the cluster.
    OwnAccount,
    /// The tenancy is default.
    DefaultTenancy,
    /// The subnet exists.
    Subnet(SubnetUse),
    /// The subnet lies in a zone.
    Zone(Zone),
    /// The subnet lies in an availability zone. Local Zones, Wavelength Zones and Outposts do not count.
    AvailabilityZone,
    /// This many addresses of the subnet are free.
    FreeAddresses(i32),
    /// The object has this tag.
    #[serde(rename_all = "camelCase")]
    Tag {
        /// Key.
        key: String,
        /// Value.
        value: &'static str,
    },
    /// The object can get another tag.
    RoomForTag,
    /// The network ACL lets this traffic pass.
    NetworkAcl(Vec<AclTraffic>),
    /// The default route of the subnet leads to this target.
    DefaultRoute(WayOut),
    /// The gateway exists, in this subnet.
    NatGateway(Object),
    /// The gateway exists, and is attached to the VPC.
    InternetGateway,
    /// The name resolves, to a load balancer if there is one.
    Resolves,
    /// The security group exists.
    SecurityGroup(GroupUse),
    /// The security group can get another rule.
    RoomForRule,
    /// The security group admits packets.
    #[serde(rename_all = "camelCase")]
    Admits {
        /// The packets.
        traffic: Traffic,
        /// Who sends them.
        from: Peer,
    },
    /// The security group admits the traffic of an unknown pod network.
    AdmitsPodNetwork,
    /// The security group lets packets out.
    #[serde(rename_all = "camelCase")]
    Allows {
        /// The packets; absent for all.
        #[serde(skip_serializing_if = "Option::is_none")]
        traffic: Option<Traffic>,
        /// Who gets them.
        to: Peer,
    },
    /// The target group exists, with protocol TCP and target type `instance`.
    TargetGroup {
        /// Port.
        port: i32,
    },
    /// The target group has an HTTPS health check.
    #[serde(rename_all = "camelCase")]
    HealthCheck {
        /// Path.
        path: &'static str,
        /// Seconds between two checks.
        interval_seconds: i32,
        /// Checks in a row that make a target healthy or unhealthy.
        threshold: i32,
    },
    /// The attribute of the target group has this value.
    Attribute {
        /// Key.
        key: &'static str,
        /// Value.
        value: &'static str,
    },
    /// The load balancer is an active internal Network Load Balancer. An existing load balancer may be public.
    LoadBalancer,
    /// The load balancer has IPv6 addresses.
    DualStack,
    /// The load balancer has these subnets.
    Subnets(Vec<Object>),
    /// The load balancer forwards a port to target groups.
    #[serde(rename_all = "camelCase")]
    Listener {
        /// Port.
        port: i32,
        /// Target groups of which at least one gets the connections.
        target_groups: Vec<Object>,
    },
    /// Machine templates name the object, so it has to exist and be usable.
    #[serde(rename_all = "camelCase")]
    UsedBy {
        /// Kinds and names of the templates.
        templates: Vec<String>,
        /// Another condition that the object has to meet.
        condition: &'static str,
    },
}

/// What a subnet is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetUse {
    /// Whether the default route leads to an internet gateway.
    pub is_public: bool,
    /// Whether machines are launched in the subnet. Otherwise, it has NAT gateways.
    pub has_machines: bool,
}

/// Zone of a subnet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Zone {
    /// The zone with this name.
    Named(String),
    /// A zone without another subnet of the same kind. Subnets with the same number lie in the same zone.
    Free(usize),
}

/// Where a default route leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WayOut {
    /// To this NAT gateway, which lies in the same zone.
    NatGateway(Object),
    /// To an internet gateway: this one, or the one of the VPC.
    InternetGateway(Option<Object>),
    /// To a NAT gateway of the same zone, a transit gateway or an appliance. The route is not needed if the VPC has
    /// endpoints of these services.
    AnyOrEndpoints(Vec<&'static str>),
}

/// What a security group is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum GroupUse {
    /// All machines have it.
    Machines,
    /// Control plane machines have it.
    ControlPlane,
    /// Workers have it.
    Workers,
    /// The load balancer has it.
    LoadBalancer,
}

/// The other side of connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Peer {
    /// Members of the security group.
    Group(Object),
    /// Members of the load balancer's security groups, and the load balancer's addresses.
    LoadBalancer(Object),
    /// Every address of the VPC.
    Vpc,
    /// Every address.
    Anywhere,
    /// The management cluster and people who use the API server.
    Clients,
}
