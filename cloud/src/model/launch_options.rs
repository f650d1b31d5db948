//! The parameters of RunInstances that most machines leave to EC2.

use std::fmt;

use serde::Serialize;

/// The parameters of a launch that most machines leave to EC2. The default leaves all of them to EC2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LaunchOptions {
    /// How the capacity is bought.
    #[serde(skip_serializing_if = "Market::is_on_demand")]
    pub market: Market,
    /// Use of capacity reservations; EC2's default, `open`, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_reservation: Option<CapacityReservation>,
    /// Tenancy of the hardware: `default`, `dedicated` or `host`; that of the VPC when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenancy: Option<&'static str>,
    /// Dedicated Host to run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostPlacement>,
    /// Placement group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_group: Option<PlacementGroup>,
    /// Features of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<ProcessorOptions>,
    /// Ids of existing network interfaces, in the order of their devices. If there are any, EC2 takes the subnet and
    /// the security groups from them and creates no interface.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<String>,
    /// Whether the new interface is an Elastic Fabric Adapter.
    #[serde(skip_serializing_if = "is_false")]
    pub elastic_fabric_adapter: bool,
    /// Whether the new interface gets an IPv6 address that cannot be removed.
    #[serde(skip_serializing_if = "is_false")]
    pub primary_ipv6: bool,
    /// DNS names of the instance inside the VPC; those of the subnet when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_dns_name: Option<PrivateDnsNameOptions>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

/// How the capacity of an instance is bought.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Market {
    /// At the on-demand price, until the instance is terminated.
    #[default]
    OnDemand,
    /// As spare capacity that AWS can take back. AWS then terminates the instance and never starts another one in its
    /// place: a machine has one instance.
    Spot {
        /// The most to pay per hour, in US dollars; the on-demand price when absent.
        max_price: Option<String>,
    },
    /// As a capacity block that was reserved for a future time span.
    CapacityBlock,
}

impl Market {
    fn is_on_demand(&self) -> bool {
        *self == Self::OnDemand
    }
}

/// Use of capacity reservations. EC2 takes either an id or a preference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum CapacityReservation {
    /// This reservation or capacity block, `cr-…`.
    Id(String),
    /// A preference: `none`, `open` or `capacity-reservations-only`.
    Preference(&'static str),
}

/// A Dedicated Host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostPlacement {
    /// `h-…`
    pub id: String,
    /// `host` if a stopped instance starts again on this host only, else `default`.
    pub affinity: &'static str,
}

/// A placement group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlacementGroup {
    /// Name of the group.
    pub name: String,
    /// Partition of the group; EC2's choice when absent.
    pub partition: Option<i32>,
}

/// Features of the processor; EC2's defaults when absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessorOptions {
    /// AMD SEV-SNP: `enabled` or `disabled`.
    pub sev_snp: Option<&'static str>,
    /// Nested virtualization: `enabled` or `disabled`.
    pub nested_virtualization: Option<&'static str>,
}

/// DNS names of an instance inside its VPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PrivateDnsNameOptions {
    /// Form of the host name: `ip-name` or `resource-name`.
    pub hostname_type: Option<&'static str>,
    /// Whether the resource-based name resolves to the IPv4 address.
    pub a_record: Option<bool>,
    /// Whether the resource-based name resolves to the IPv6 address.
    pub aaaa_record: Option<bool>,
}

/// The addresses to which the resource-based name of an instance resolves. Without a value: EC2's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DnsRecords {
    /// Whether the name resolves to the IPv4 address.
    pub a: Option<bool>,
    /// Whether the name resolves to the IPv6 address.
    pub aaaa: Option<bool>,
}

impl LaunchOptions {
    /// Whether the launch leaves everything to EC2.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Capacity that a machine names, and that is in one zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CapacitySource {
    /// A Capacity Reservation or a Capacity Block by its id, `cr-…`.
    Reservation(String),
    /// A Dedicated Host by its id, `h-…`.
    Host(String),
}

impl fmt::Display for CapacitySource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reservation(id) => write!(formatter, "capacity reservation {id}"),
            Self::Host(id) => write!(formatter, "Dedicated Host {id}"),
        }
    }
}
