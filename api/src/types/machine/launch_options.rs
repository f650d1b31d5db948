//! The launch options that the provider passes to EC2 as the spec states them. To add an option, add a field to the
//! spec, a field here, and a parameter to the call.

use serde::Serialize;

use super::options::{
    CapacityReservationPreference, CpuOptions, HostAffinity, MarketType, NetworkInterfaceType, PrivateDnsName,
    SpotMarketOptions, Switch, Tenancy,
};
use super::spec::AWSMachineSpec;

/// The launch parameters that most machines leave to EC2. The default value leaves all of them to EC2. Fields and
/// values are those of the spec, except that a value that means EC2's default is absent here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchOptions {
    /// Market of the capacity; on-demand when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub market_type: Option<MarketType>,
    /// Options of a Spot instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_market_options: Option<SpotMarketOptions>,
    /// Use of capacity reservations; EC2's default, `open`, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_reservation: Option<CapacityReservation>,
    /// Tenancy of the hardware; the tenancy of the VPC when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenancy: Option<Tenancy>,
    /// Dedicated Host to run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostPlacement>,
    /// Placement group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_group: Option<PlacementGroup>,
    /// Features of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    /// Ids of existing network interfaces, in the order of their devices. If the list is not empty, EC2 takes the
    /// subnet and the security groups from them and creates no interface.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<String>,
    /// Type of the new interface; an ordinary one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_interface_type: Option<NetworkInterfaceType>,
    /// Whether the new interface gets an IPv6 address that cannot be removed.
    #[serde(skip_serializing_if = "is_false")]
    pub primary_ipv6: bool,
    /// DNS names of the instance inside the VPC; the settings of the subnet when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_dns_name: Option<PrivateDnsName>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Use of capacity reservations. EC2 accepts either an id or a preference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum CapacityReservation {
    /// This reservation or capacity block, `cr-…`.
    Id(String),
    /// A preference.
    Preference(CapacityReservationPreference),
}

/// A Dedicated Host to run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostPlacement {
    /// `h-…`
    pub id: String,
    /// Whether a stopped instance starts again on this host only.
    pub affinity: HostAffinity,
}

/// A placement group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlacementGroup {
    /// Name of the group.
    pub name: String,
    /// Partition of the group; EC2's choice when absent.
    pub partition: Option<i32>,
}

impl LaunchOptions {
    /// Whether the launch leaves everything to EC2.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl AWSMachineSpec {
    /// The options of a launch. `subnet_has_ipv6` says whether the subnet gives its instances IPv6 addresses.
    /// `allocated_host` is the id of the Dedicated Host that the provider allocated for the machine.
    pub fn launch_options(&self, subnet_has_ipv6: bool, allocated_host: Option<&str>) -> LaunchOptions {
        let host_id = self.host_id.as_deref().filter(|id| !id.is_empty()).or(allocated_host);
        let is_on_host = host_id.is_some() || self.dynamic_host_allocation.is_some();
        let market_type = self.effective_market_type();
        let spot = self.spot_market_options.clone();
        LaunchOptions {
            market_type: Some(market_type).filter(|market| *market != MarketType::OnDemand),
            spot_market_options: spot.filter(|spot| spot.max_price.as_ref().is_some_and(|price| !price.is_empty())),
            capacity_reservation: self.capacity_reservation(),
            tenancy: self.tenancy.or_else(|| is_on_host.then_some(Tenancy::Host)),
            host: host_id.map(|id| self.host_placement(id)),
            placement_group: self.placement_group(),
            cpu_options: self.cpu_options.clone(),
            network_interfaces: self.network_interfaces.clone(),
            network_interface_type: self.network_interface_type.filter(|kind| *kind != NetworkInterfaceType::Interface),
            primary_ipv6: self.gets_primary_ipv6(subnet_has_ipv6),
            private_dns_name: self.private_dns_name.clone().filter(|name| *name != PrivateDnsName::default()),
        }
    }

    /// The placement on a host.
    pub fn host_placement(&self, host_id: &str) -> HostPlacement {
        HostPlacement { id: host_id.to_owned(), affinity: self.host_affinity }
    }

    /// An id takes precedence over a preference, because EC2 refuses both together.
    fn capacity_reservation(&self) -> Option<CapacityReservation> {
        if let Some(id) = self.capacity_reservation_id.as_ref().filter(|id| !id.is_empty()) {
            return Some(CapacityReservation::Id(id.clone()));
        }
        let preference = self.capacity_reservation_preference?;
        let is_set = preference != CapacityReservationPreference::Unspecified;
        is_set.then_some(CapacityReservation::Preference(preference))
    }

    /// The placement group that the spec names.
    pub fn placement_group(&self) -> Option<PlacementGroup> {
        let name = self.placement_group_name.clone().filter(|name| !name.is_empty())?;
        let partition = self.placement_group_partition;
        Some(PlacementGroup { name, partition: partition.and_then(|partition| i32::try_from(partition).ok()) })
    }

    /// Whether the interface of a new instance gets a primary IPv6 address. An IPv6 target group reaches its targets at
    /// this address.
    fn gets_primary_ipv6(&self, subnet_has_ipv6: bool) -> bool {
        if !self.network_interfaces.is_empty() {
            return false;
        }
        match self.assign_primary_ipv6 {
            Some(Switch::Enabled) => true,
            Some(Switch::Disabled) => false,
            None => subnet_has_ipv6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(fields: &str) -> AWSMachineSpec {
        serde_saphyr::from_str(&format!("{{instanceType: m7i.large, {fields}}}")).unwrap()
    }

    fn options(fields: &str) -> LaunchOptions {
        spec(fields).launch_options(false, None)
    }

    #[test]
    fn a_spec_without_options_leaves_everything_to_ec2() {
        for neutral in [
            "",
            "marketType: OnDemand, capacityReservationPreference: '', hostAffinity: default",
            "networkInterfaceType: interface, assignPrimaryIPv6: disabled, privateDnsName: {}",
            "placementGroupName: '', hostID: '', capacityReservationId: ''",
        ] {
            assert_eq!(options(neutral), LaunchOptions::default(), "{neutral}");
        }
    }

    #[test]
    fn a_spot_instance_has_the_price_of_the_spec() {
        for (fields, price) in [
            ("spotMarketOptions: {maxPrice: '0.05'}", Some("0.05")),
            ("spotMarketOptions: {maxPrice: ''}", None),
            ("marketType: Spot", None),
        ] {
            let options = options(fields);
            assert_eq!(options.market_type, Some(MarketType::Spot), "{fields}");
            let max_price = options.spot_market_options.and_then(|spot| spot.max_price);
            assert_eq!(max_price.as_deref(), price, "{fields}");
        }
        let block = options("marketType: CapacityBlock, capacityReservationId: cr-0123456789abcdef0");
        assert_eq!(block.market_type, Some(MarketType::CapacityBlock));
    }

    #[test]
    fn a_reservation_is_named_by_id_or_preferred() {
        let reservation = |fields: &str| options(fields).capacity_reservation;
        assert_eq!(
            reservation("capacityReservationId: cr-1, capacityReservationPreference: CapacityReservationsOnly"),
            Some(CapacityReservation::Id("cr-1".into()))
        );
        assert_eq!(
            reservation("capacityReservationPreference: None"),
            Some(CapacityReservation::Preference(CapacityReservationPreference::None))
        );
    }

    #[test]
    fn a_host_implies_its_tenancy() {
        let on_host = options("hostID: h-0123456789abcdef0, hostAffinity: host");
        assert_eq!(on_host.tenancy, Some(Tenancy::Host));
        let host = on_host.host.unwrap();
        assert_eq!((host.id.as_str(), host.affinity), ("h-0123456789abcdef0", HostAffinity::Host));
        assert_eq!(options("tenancy: dedicated").tenancy, Some(Tenancy::Dedicated));
    }

    #[test]
    fn an_allocated_host_is_one_that_the_spec_does_not_name() {
        let allocates = spec("dynamicHostAllocation: {}, hostAffinity: host");
        let before = allocates.launch_options(false, None);
        assert_eq!((before.tenancy, before.host), (Some(Tenancy::Host), None));
        let host = allocates.launch_options(false, Some("h-1")).host.unwrap();
        assert_eq!((host.id.as_str(), host.affinity), ("h-1", HostAffinity::Host));
    }

    #[test]
    fn a_primary_ipv6_address_follows_the_subnet_unless_the_spec_decides() {
        let with = |fields: &str, subnet_has_ipv6| spec(fields).launch_options(subnet_has_ipv6, None).primary_ipv6;
        assert!(with("", true));
        assert!(!with("", false));
        assert!(with("assignPrimaryIPv6: enabled", false));
        assert!(!with("assignPrimaryIPv6: disabled", true));
        assert!(!with("networkInterfaces: [eni-0000000a]", true));
    }
}
