//! RunInstances with the parameters that most machines leave to EC2.

use capa_cloud::{
    CapacityReservation, HostPlacement, InstanceState, LaunchOptions, LaunchRequest, MachineClouds, Market,
    PlacementGroup, PrivateDnsNameOptions, ProcessorOptions,
};

use super::calls::request;
use super::fake::{CLUSTER, Fake, REGION, answer, identity, instance_xml, machine};

#[tokio::test]
async fn every_option_of_a_launch_is_sent() {
    let fake = Fake::start(|_| {
        let item = instance_xml("i-1", InstanceState::Pending);
        answer("RunInstances", &format!("<instancesSet>{item}</instancesSet>"), None)
    })
    .await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let options = LaunchOptions {
        market: Market::Spot {
            max_price: Some("0.05".into()),
        },
        capacity_reservation: Some(CapacityReservation::Preference("none")),
        tenancy: Some("host"),
        host: Some(HostPlacement {
            id: "h-1".into(),
            affinity: "host",
        }),
        placement_group: Some(PlacementGroup {
            name: "racks".into(),
            partition: Some(2),
        }),
        processor: Some(ProcessorOptions {
            sev_snp: Some("enabled"),
            nested_virtualization: Some("disabled"),
        }),
        network_interfaces: vec![],
        elastic_fabric_adapter: true,
        primary_ipv6: true,
        private_dns_name: Some(PrivateDnsNameOptions {
            hostname_type: Some("resource-name"),
            a_record: Some(true),
            aaaa_record: Some(false),
        }),
    };
    let launch = LaunchRequest { options, ..request() };
    machines.launch(&machine("m"), &launch).await.unwrap();
    let call = fake.calls_of("RunInstances").remove(0);
    for (name, value) in [
        ("InstanceMarketOptions.MarketType", "spot"),
        ("InstanceMarketOptions.SpotOptions.MaxPrice", "0.05"),
        ("InstanceMarketOptions.SpotOptions.SpotInstanceType", "one-time"),
        (
            "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior",
            "terminate",
        ),
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
    let fake = Fake::start(|_| {
        let item = instance_xml("i-1", InstanceState::Pending);
        answer("RunInstances", &format!("<instancesSet>{item}</instancesSet>"), None)
    })
    .await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let options = LaunchOptions {
        capacity_reservation: Some(CapacityReservation::Id("cr-1".into())),
        market: Market::CapacityBlock,
        network_interfaces: vec!["eni-1".into(), "eni-2".into()],
        ..LaunchOptions::default()
    };
    let launch = LaunchRequest {
        public_ip: None,
        options,
        ..request()
    };
    machines.launch(&machine("m"), &launch).await.unwrap();
    let call = fake.calls_of("RunInstances").remove(0);
    for (name, value) in [
        ("InstanceMarketOptions.MarketType", "capacity-block"),
        (
            "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId",
            "cr-1",
        ),
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
