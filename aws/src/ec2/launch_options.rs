//! The parameters of RunInstances that most machines leave to EC2.

use aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder;
use aws_sdk_ec2::types::{
    CapacityReservationSpecification, CapacityReservationTarget, CpuOptionsRequest, InstanceInterruptionBehavior,
    InstanceMarketOptionsRequest, InstanceNetworkInterfaceSpecification, MarketType, Placement,
    PrivateDnsNameOptionsRequest, SpotInstanceType, SpotMarketOptions,
};
use capa_api::machine::{
    CapacityReservation, CapacityReservationPreference, ConfidentialCompute, CpuOptions, LaunchOptions,
    MarketType as Market, PrivateDnsName,
};
use capa_cloud::LaunchRequest;

/// Adds the options to a call. Options without a value are not sent, so EC2's default applies.
pub(super) fn with_options(input: RunInstancesFluentBuilder, options: &LaunchOptions) -> RunInstancesFluentBuilder {
    let reservation = options.capacity_reservation.as_ref();
    input
        .set_instance_market_options(market(options))
        .set_capacity_reservation_specification(reservation.map(capacity_reservation))
        .set_placement(placement(options))
        .set_cpu_options(options.cpu_options.as_ref().map(processor))
        .set_private_dns_name_options(options.private_dns_name.as_ref().map(private_dns_name))
}

/// EC2 terminates an interrupted Spot instance and does not replace it, because a machine has one instance. Without
/// capacity, the call fails instead of leaving an open request.
fn market(options: &LaunchOptions) -> Option<InstanceMarketOptionsRequest> {
    let request = InstanceMarketOptionsRequest::builder();
    Some(match options.market_type? {
        Market::OnDemand => return None,
        Market::CapacityBlock => request.market_type(MarketType::CapacityBlock).build(),
        Market::Spot => {
            let max_price = options.spot_market_options.as_ref();
            let max_price = max_price.and_then(|options| options.max_price.clone());
            let spot = SpotMarketOptions::builder()
                .instance_interruption_behavior(InstanceInterruptionBehavior::Terminate)
                .spot_instance_type(SpotInstanceType::OneTime)
                .set_max_price(max_price)
                .build();
            request.market_type(MarketType::Spot).spot_options(spot).build()
        }
    })
}

fn capacity_reservation(reservation: &CapacityReservation) -> CapacityReservationSpecification {
    let specification = CapacityReservationSpecification::builder();
    match reservation {
        CapacityReservation::Preference(preference) => {
            let preference = match preference {
                CapacityReservationPreference::Unspecified => return specification.build(),
                CapacityReservationPreference::None => "none",
                CapacityReservationPreference::CapacityReservationsOnly => "capacity-reservations-only",
                CapacityReservationPreference::Open => "open",
            };
            specification.capacity_reservation_preference(preference.into()).build()
        }
        CapacityReservation::Id(id) => {
            let target = CapacityReservationTarget::builder().capacity_reservation_id(id).build();
            specification.capacity_reservation_target(target).build()
        }
    }
}

fn placement(options: &LaunchOptions) -> Option<Placement> {
    let group = options.placement_group.as_ref();
    if options.tenancy.is_none() && options.host.is_none() && group.is_none() {
        return None;
    }
    let host = options.host.as_ref();
    let placement = Placement::builder()
        .set_tenancy(options.tenancy.map(|tenancy| <&str>::from(tenancy).into()))
        .set_host_id(host.map(|host| host.id.clone()))
        .set_affinity(host.map(|host| <&str>::from(host.affinity).to_owned()))
        .set_group_name(group.map(|group| group.name.clone()))
        .set_partition_number(group.and_then(|group| group.partition));
    Some(placement.build())
}

fn processor(options: &CpuOptions) -> CpuOptionsRequest {
    let sev_snp = options.confidential_compute.map(|compute| match compute {
        ConfidentialCompute::Disabled => "disabled",
        ConfidentialCompute::AMDEncryptedVirtualizationNestedPaging => "enabled",
    });
    let nested = options.nested_virtualization.map(<&str>::from);
    CpuOptionsRequest::builder()
        .set_amd_sev_snp(sev_snp.map(Into::into))
        .set_nested_virtualization(nested.map(Into::into))
        .build()
}

fn private_dns_name(name: &PrivateDnsName) -> PrivateDnsNameOptionsRequest {
    let hostname_type = name.hostname_type.map(<&str>::from);
    PrivateDnsNameOptionsRequest::builder()
        .set_hostname_type(hostname_type.map(Into::into))
        .set_enable_resource_name_dns_a_record(name.enable_resource_name_dns_a_record)
        .set_enable_resource_name_dns_aaaa_record(name.enable_resource_name_dns_aaaa_record)
        .build()
}

/// The interfaces of an instance: the existing interfaces that the machine names, or else a new one.
pub(super) fn interfaces(request: &LaunchRequest) -> Vec<InstanceNetworkInterfaceSpecification> {
    let options = &request.options;
    if options.network_interfaces.is_empty() {
        return vec![new_interface(request)];
    }
    (0..)
        .zip(&options.network_interfaces)
        .map(|(device, id)| {
            InstanceNetworkInterfaceSpecification::builder().device_index(device).network_interface_id(id).build()
        })
        .collect()
}

/// If one of subnet, groups and public address is set on the interface, all of them have to be set there.
fn new_interface(request: &LaunchRequest) -> InstanceNetworkInterfaceSpecification {
    let options = &request.options;
    InstanceNetworkInterfaceSpecification::builder()
        .device_index(0)
        .delete_on_termination(true)
        .subnet_id(&request.subnet_id)
        .set_groups(Some(request.security_group_ids.clone()))
        .set_associate_public_ip_address(request.public_ip)
        .set_interface_type(options.network_interface_type.map(|kind| <&str>::from(kind).to_owned()))
        .set_ipv6_address_count(options.primary_ipv6.then_some(1))
        .set_primary_ipv6(options.primary_ipv6.then_some(true))
        .build()
}
