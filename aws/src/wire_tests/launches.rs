//! RunInstances with the parameters that most machines leave to EC2.

use capa_api::common::HostnameType;
use capa_api::machine::{
    CapacityReservation, CapacityReservationPreference, ConfidentialCompute, CpuOptions, HostAffinity, HostPlacement,
    LaunchOptions, MarketType, NetworkInterfaceType, PlacementGroup, PrivateDnsName, SpotMarketOptions, Switch,
    Tenancy,
};
use capa_cloud::{LaunchRequest, MachineClouds};

use super::calls::request;
use super::fake::{CLUSTER, Fake, REGION, identity, machine};

#[tokio::test]
async fn every_option_of_a_launch_is_sent() {
    let fake = Fake::that_launches().await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let options = LaunchOptions {
        market_type: Some(MarketType::Spot),
        spot_market_options: Some(SpotMarketOptions { max_price: Some("0.05".into()) }),
        capacity_reservation: Some(CapacityReservation::Preference(CapacityReservationPreference::None)),
        tenancy: Some(Tenancy::Host),
        host: Some(HostPlacement { id: "h-1".into(), affinity: HostAffinity::Host }),
        placement_group: Some(PlacementGroup { name: "racks".into(), partition: Some(2) }),
        cpu_options: Some(CpuOptions {
            confidential_compute: Some(ConfidentialCompute::AMDEncryptedVirtualizationNestedPaging),
            nested_virtualization: Some(Switch::Disabled),
        }),
        network_interfaces: vec![],
        network_interface_type: Some(NetworkInterfaceType::Efa),
        primary_ipv6: true,
        private_dns_name: Some(PrivateDnsName {
            hostname_type: Some(HostnameType::ResourceName),
            enable_resource_name_dns_a_record: Some(true),
            enable_resource_name_dns_aaaa_record: Some(false),
        }),
    };
    let launch = LaunchRequest { options, ..request() };
    machines.launch(&machine("m"), &launch).await.unwrap();
    let call = fake.calls_of("RunInstances").remove(0);
    for (name, value) in [
        ("InstanceMarketOptions.MarketType", "spot"),
        ("InstanceMarketOptions.SpotOptions.MaxPrice", "0.05"),
        ("InstanceMarketOptions.SpotOptions.SpotInstanceType", "one-time"),
        ("InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior", "terminate"),
        ("CapacityReservationSpecification.CapacityReservationPreference", "none"),
        ("Placement.Tenancy", "host"),
        ("Placement.HostId", "h-1"),
        ("Placement.Affinity", "host"),
        ("Placement.GroupName", "racks"),
        ("Placement.PartitionNumber", "2"),
        ("CpuOptions.AmdSevSnp", "enabled"),
        ("CpuOptions.NestedVirtualization", "disabled"),
        ("NetworkInterface.1.InterfaceType", "efa"),
        ("NetworkInterface.1.PrimaryIpv6", "true"),
        ("NetworkInterface.1.Ipv6AddressCount", "1"),
        ("PrivateDnsNameOptions.HostnameType", "resource-name"),
        ("PrivateDnsNameOptions.EnableResourceNameDnsARecord", "true"),
        ("PrivateDnsNameOptions.EnableResourceNameDnsAAAARecord", "false"),
    ] {
        assert_eq!(call.field(name), value, "{name}");
    }
}

#[tokio::test]
async fn existing_interfaces_are_attached_and_neither_tagged_nor_regrouped() {
    let fake = Fake::that_launches().await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let options = LaunchOptions {
        capacity_reservation: Some(CapacityReservation::Id("cr-1".into())),
        market_type: Some(MarketType::CapacityBlock),
        network_interfaces: vec!["eni-1".into(), "eni-2".into()],
        ..LaunchOptions::default()
    };
    let launch = LaunchRequest { public_ip: None, options, ..request() };
    machines.launch(&machine("m"), &launch).await.unwrap();
    let call = fake.calls_of("RunInstances").remove(0);
    for (name, value) in [
        ("InstanceMarketOptions.MarketType", "capacity-block"),
        ("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId", "cr-1"),
        ("NetworkInterface.1.NetworkInterfaceId", "eni-1"),
        ("NetworkInterface.1.DeviceIndex", "0"),
        ("NetworkInterface.2.NetworkInterfaceId", "eni-2"),
        ("NetworkInterface.2.DeviceIndex", "1"),
        ("TagSpecification.2.ResourceType", "volume"),
    ] {
        assert_eq!(call.field(name), value, "{name}");
    }
    let of_new_ones = [
        "NetworkInterface.1.SubnetId",
        "NetworkInterface.1.SecurityGroupId",
        "NetworkInterface.1.DeleteOnTermination",
        "TagSpecification.3",
    ];
    let sent = |prefix: &&str| call.form.keys().any(|name| name.starts_with(*prefix));
    assert!(!of_new_ones.iter().any(sent));
}

#[tokio::test]
async fn a_preference_for_reservations_has_the_words_of_ec2() {
    let fake = Fake::that_launches().await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let all = [
        (CapacityReservationPreference::None, "none"),
        (CapacityReservationPreference::Open, "open"),
        (CapacityReservationPreference::CapacityReservationsOnly, "capacity-reservations-only"),
    ];
    for (preference, _) in all {
        let options = LaunchOptions {
            capacity_reservation: Some(CapacityReservation::Preference(preference)),
            ..LaunchOptions::default()
        };
        let launch = LaunchRequest { options, ..request() };
        machines.launch(&machine("m"), &launch).await.unwrap();
    }
    let field = "CapacityReservationSpecification.CapacityReservationPreference";
    let calls = fake.calls_of("RunInstances");
    assert_eq!(calls.len(), all.len());
    for (call, (preference, word)) in calls.iter().zip(all) {
        assert_eq!(call.field(field), word, "{preference:?}");
    }
}
