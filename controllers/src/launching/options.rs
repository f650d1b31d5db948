//! The launch options in the spec of a machine, as EC2 takes them. Pure.

use capa_api::machine::{
    AWSMachineSpec, CapacityReservationPreference, ConfidentialCompute, CpuOptions, MarketType, NetworkInterfaceType,
    PrivateDnsName, Switch,
};
use capa_api::network::NetworkSubnet;
use capa_cloud::{
    CapacityReservation, HostPlacement, LaunchOptions, Market, PlacementGroup, PrivateDnsNameOptions, ProcessorOptions,
};

/// The options of a launch into a subnet, which is `None` if it is unknown, and on the host that was allocated for the
/// machine.
pub(crate) fn launch_options(
    spec: &AWSMachineSpec,
    subnet: Option<&NetworkSubnet>,
    allocated_host: Option<&str>,
) -> LaunchOptions {
    let host_id = spec.host_id.as_deref().filter(|id| !id.is_empty()).or(allocated_host);
    let is_on_host = host_id.is_some() || spec.dynamic_host_allocation.is_some();
    LaunchOptions {
        market: market(spec),
        capacity_reservation: capacity_reservation(spec),
        tenancy: spec.tenancy.map(Into::into).or_else(|| is_on_host.then_some("host")),
        host: host_id.map(|id| host_placement(spec, id)),
        placement_group: placement_group(spec),
        processor: spec.cpu_options.as_ref().map(processor),
        network_interfaces: spec.network_interfaces.clone(),
        elastic_fabric_adapter: spec.network_interface_type == Some(NetworkInterfaceType::Efa),
        primary_ipv6: primary_ipv6(spec, subnet),
        private_dns_name: spec.private_dns_name.as_ref().and_then(private_dns_name),
    }
}

/// The placement on a host.
pub(crate) fn host_placement(spec: &AWSMachineSpec, host_id: &str) -> HostPlacement {
    HostPlacement {
        id: host_id.to_owned(),
        affinity: spec.host_affinity.into(),
    }
}

fn market(spec: &AWSMachineSpec) -> Market {
    match spec.effective_market_type() {
        MarketType::OnDemand => Market::OnDemand,
        MarketType::CapacityBlock => Market::CapacityBlock,
        MarketType::Spot => {
            let options = spec.spot_market_options.as_ref();
            let max_price = options.and_then(|options| options.max_price.clone());
            Market::Spot {
                max_price: max_price.filter(|price| !price.is_empty()),
            }
        }
    }
}

/// An id is a stronger wish than a preference, and EC2 refuses both together.
fn capacity_reservation(spec: &AWSMachineSpec) -> Option<CapacityReservation> {
    if let Some(id) = spec.capacity_reservation_id.as_ref().filter(|id| !id.is_empty()) {
        return Some(CapacityReservation::Id(id.clone()));
    }
    let preference = match spec.capacity_reservation_preference? {
        CapacityReservationPreference::Unspecified => return None,
        CapacityReservationPreference::None => "none",
        CapacityReservationPreference::CapacityReservationsOnly => "capacity-reservations-only",
        CapacityReservationPreference::Open => "open",
    };
    Some(CapacityReservation::Preference(preference))
}

fn placement_group(spec: &AWSMachineSpec) -> Option<PlacementGroup> {
    let name = spec.placement_group_name.clone().filter(|name| !name.is_empty())?;
    let partition = spec.placement_group_partition;
    Some(PlacementGroup {
        name,
        partition: partition.and_then(|partition| i32::try_from(partition).ok()),
    })
}

fn processor(options: &CpuOptions) -> ProcessorOptions {
    ProcessorOptions {
        sev_snp: options.confidential_compute.map(|compute| match compute {
            ConfidentialCompute::Disabled => "disabled",
            ConfidentialCompute::AMDEncryptedVirtualizationNestedPaging => "enabled",
        }),
        nested_virtualization: options.nested_virtualization.map(Into::into),
    }
}

/// Whether the interface of a new instance gets a primary IPv6 address. Load balancers find targets of IPv6 target
/// groups by it.
fn primary_ipv6(spec: &AWSMachineSpec, subnet: Option<&NetworkSubnet>) -> bool {
    if !spec.network_interfaces.is_empty() {
        return false;
    }
    match spec.assign_primary_ipv6 {
        Some(Switch::Enabled) => true,
        Some(Switch::Disabled) => false,
        None => subnet.is_some_and(|subnet| subnet.ipv6 == Some(true)),
    }
}

fn private_dns_name(name: &PrivateDnsName) -> Option<PrivateDnsNameOptions> {
    let options = PrivateDnsNameOptions {
        hostname_type: name.hostname_type.map(Into::into),
        a_record: name.enable_resource_name_dns_a_record,
        aaaa_record: name.enable_resource_name_dns_aaaa_record,
    };
    (name != &PrivateDnsName::default()).then_some(options)
}

/// What is wrong with security groups for network interfaces of the user, which are never changed.
pub(crate) const GROUPS_OF_BROUGHT_INTERFACES: &str = "additionalSecurityGroups are for a new network interface: leave \
                                                       them out, and give the networkInterfaces the groups";

/// Says which options of a spec exclude each other or the start of a node. The message names the fields and the way
/// out.
pub(crate) fn contradiction(spec: &AWSMachineSpec) -> Option<&'static str> {
    let metadata = spec.effective_metadata_options();
    if metadata.instance_metadata_tags == Switch::Enabled {
        return Some(
            "EC2 refuses instances with instanceMetadataTags: enabled and a slash in the keys of their tags, as the tags \
             of the provider have: leave it out, and read tags from the EC2 API",
        );
    }
    if metadata.http_endpoint == Switch::Disabled {
        return Some(
            "httpEndpoint: disabled leaves a node that can never fetch its bootstrap data: leave it out, and restrict \
             the metadata service by httpTokens and httpPutResponseHopLimit",
        );
    }
    if spec.placement_group_partition.is_some() && placement_group(spec).is_none() {
        return Some("placementGroupPartition needs placementGroupName: name the placement group, or leave it out");
    }
    if spec.network_interfaces.is_empty() {
        return None;
    }
    if spec.public_ip == Some(true) {
        return Some(
            "publicIP: true is for a new network interface: leave it out, and associate an Elastic IP address with the \
             first of networkInterfaces",
        );
    }
    if !spec.additional_security_groups.is_empty() {
        return Some(GROUPS_OF_BROUGHT_INTERFACES);
    }
    if spec.network_interface_type == Some(NetworkInterfaceType::Efa) {
        return Some(
            "networkInterfaceType: efa is for a new network interface: leave it out, and create the networkInterfaces \
             with that type",
        );
    }
    (spec.assign_primary_ipv6 == Some(Switch::Enabled)).then_some(
        "assignPrimaryIPv6: enabled is for a new network interface: leave it out, and give the first of \
         networkInterfaces such an address",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    fn options(fields: &str) -> LaunchOptions {
        launch_options(&read(&format!("{{instanceType: m7i.large, {fields}}}")), None, None)
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
        let price = |fields| match options(fields).market {
            Market::Spot { max_price } => max_price,
            other => panic!("{fields}: {other:?}"),
        };
        assert_eq!(price("spotMarketOptions: {maxPrice: '0.05'}").as_deref(), Some("0.05"));
        assert_eq!(price("spotMarketOptions: {maxPrice: ''}"), None);
        assert_eq!(price("marketType: Spot"), None);
        let block = options("marketType: CapacityBlock, capacityReservationId: cr-0123456789abcdef0");
        assert_eq!(block.market, Market::CapacityBlock);
    }

    #[test]
    fn a_reservation_is_named_by_id_or_preferred() {
        let reservation = |fields: &str| options(fields).capacity_reservation;
        assert_eq!(
            reservation("capacityReservationId: cr-1, capacityReservationPreference: CapacityReservationsOnly"),
            Some(CapacityReservation::Id("cr-1".into()))
        );
        for (word, expected) in [
            ("None", "none"),
            ("Open", "open"),
            ("CapacityReservationsOnly", "capacity-reservations-only"),
        ] {
            let preference = reservation(&format!("capacityReservationPreference: {word}"));
            assert_eq!(preference, Some(CapacityReservation::Preference(expected)));
        }
    }

    #[test]
    fn a_host_implies_its_tenancy() {
        let on_host = options("hostID: h-0123456789abcdef0, hostAffinity: host");
        assert_eq!(on_host.tenancy, Some("host"));
        let host = on_host.host.unwrap();
        assert_eq!((host.id.as_str(), host.affinity), ("h-0123456789abcdef0", "host"));
        assert_eq!(options("tenancy: dedicated").tenancy, Some("dedicated"));
    }

    #[test]
    fn an_allocated_host_is_one_that_the_spec_does_not_name() {
        let on = |fields: &str, allocated| {
            let spec = read(&format!("{{instanceType: m7i.large, {fields}}}"));
            launch_options(&spec, None, allocated)
        };
        let allocates = "dynamicHostAllocation: {}, hostAffinity: host";
        let before = on(allocates, None);
        assert_eq!((before.tenancy, before.host), (Some("host"), None));
        let host = on(allocates, Some("h-1")).host.unwrap();
        assert_eq!((host.id.as_str(), host.affinity), ("h-1", "host"));
    }

    #[test]
    fn placement_processor_and_dns_are_passed_on() {
        let all = options(
            "placementGroupName: racks, placementGroupPartition: 3, cpuOptions: {confidentialCompute: \
             AMDEncryptedVirtualizationNestedPaging, nestedVirtualization: enabled}, privateDnsName: {hostnameType: \
             resource-name, enableResourceNameDnsARecord: true, enableResourceNameDnsAAAARecord: false}, \
             networkInterfaceType: efa",
        );
        let group = all.placement_group.unwrap();
        assert_eq!((group.name.as_str(), group.partition), ("racks", Some(3)));
        let processor = all.processor.unwrap();
        assert_eq!(processor.sev_snp, Some("enabled"));
        assert_eq!(processor.nested_virtualization, Some("enabled"));
        let names = all.private_dns_name.unwrap();
        assert_eq!(names.hostname_type, Some("resource-name"));
        assert_eq!((names.a_record, names.aaaa_record), (Some(true), Some(false)));
        assert!(all.elastic_fabric_adapter);
    }

    #[test]
    fn a_primary_ipv6_address_follows_the_subnet_unless_the_spec_decides() {
        let with = |fields: &str, ipv6: &str| {
            let spec: AWSMachineSpec = read(&format!("{{instanceType: m7i.large, {fields}}}"));
            let subnet: NetworkSubnet = read(&format!("{{id: subnet-0000000a, {ipv6}}}"));
            launch_options(&spec, Some(&subnet), None).primary_ipv6
        };
        assert!(with("", "ipv6: true"));
        assert!(!with("", "ipv6: false"));
        assert!(!with("", ""));
        assert!(with("assignPrimaryIPv6: enabled", ""));
        assert!(!with("assignPrimaryIPv6: disabled", "ipv6: true"));
        assert!(!with("networkInterfaces: [eni-0000000a]", "ipv6: true"));
    }

    #[test]
    fn fields_that_exclude_each_other_are_named() {
        let said = |fields: &str| contradiction(&read(&format!("{{instanceType: m7i.large, {fields}}}")));
        assert_eq!(said("placementGroupName: racks, placementGroupPartition: 1"), None);
        assert_eq!(said("networkInterfaces: [eni-0000000a], publicIP: false"), None);
        for (fields, named) in [
            ("placementGroupPartition: 1", "placementGroupPartition"),
            ("networkInterfaces: [eni-0000000a], publicIP: true", "publicIP"),
            (
                "networkInterfaces: [eni-0000000a], additionalSecurityGroups: [{id: sg-0000000a}]",
                "additionalSecurityGroups",
            ),
            (
                "networkInterfaces: [eni-0000000a], networkInterfaceType: efa",
                "networkInterfaceType",
            ),
            (
                "networkInterfaces: [eni-0000000a], assignPrimaryIPv6: enabled",
                "assignPrimaryIPv6",
            ),
        ] {
            let message = said(fields).unwrap_or_else(|| panic!("{fields} passes"));
            assert!(message.starts_with(named), "{message}");
        }
    }
}
