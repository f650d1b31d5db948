//! Machines whose template says how capacity is bought and where the instance is placed, and machines that bring their
//! network interface.

use anyhow::Context;
use serde_json::json;

use super::machines::{INLINE, at, text};
use super::scenario::{CORE, Scenario, story};

/// Options of a machine, and the parameters of its launch.
const OPTIONS: [(&str, &[(&str, &str)]); 5] = [
    (
        "spotMarketOptions: {maxPrice: '0.05'}",
        &[
            ("InstanceMarketOptions.MarketType", "spot"),
            ("InstanceMarketOptions.SpotOptions.MaxPrice", "0.05"),
            ("InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior", "terminate"),
        ],
    ),
    (
        "capacityReservationPreference: None, tenancy: dedicated",
        &[
            ("CapacityReservationSpecification.CapacityReservationPreference", "none"),
            ("Placement.Tenancy", "dedicated"),
        ],
    ),
    (
        "placementGroupName: racks, placementGroupPartition: 2",
        &[("Placement.GroupName", "racks"), ("Placement.PartitionNumber", "2")],
    ),
    (
        "cpuOptions: {confidentialCompute: AMDEncryptedVirtualizationNestedPaging}, networkInterfaceType: efa",
        &[("CpuOptions.AmdSevSnp", "enabled"), ("NetworkInterface.1.InterfaceType", "efa")],
    ),
    (
        "assignPrimaryIPv6: enabled, privateDnsName: {hostnameType: resource-name, enableResourceNameDnsARecord: true}",
        &[
            ("NetworkInterface.1.PrimaryIpv6", "true"),
            ("PrivateDnsNameOptions.HostnameType", "resource-name"),
            ("PrivateDnsNameOptions.EnableResourceNameDnsARecord", "true"),
        ],
    ),
];

#[test]
fn options_of_a_template_reach_ec2() -> anyhow::Result<()> {
    story("options", async |s| {
        s.owned("dev", &s.unmanaged("dev", "")).await?;
        s.infrastructure_provisioned("dev").await?;
        for (number, (options, parameters)) in OPTIONS.into_iter().enumerate() {
            let name = format!("m{number}");
            s.machine(&name, "dev", &format!("{INLINE}, {options}")).await?;
            let ready = s.machine_ready(&name).await?;
            let launch = s.launch_of(text(&ready, "/spec/instanceID"))?;
            for (parameter, value) in parameters {
                assert_eq!(launch.parameter(parameter), Some(*value), "{parameter} of {options}");
            }
            let interruptible = options.contains("spot").then_some(json!(true)).unwrap_or_default();
            assert_eq!(at(&ready, "/status/interruptible"), &interruptible, "{options}");
        }
        Ok(())
    })
}

/// A network interface of the user in a private subnet of the story: its id and its subnet.
async fn interface(s: &Scenario) -> anyhow::Result<(String, String)> {
    let zone = s.network.zones.last().context("the network has zones")?;
    let subnet = zone.private_subnet_id.clone();
    let request = s.user.ec2().create_network_interface().subnet_id(&subnet);
    let made = request.groups(&s.network.node_security_group_id).send().await?;
    let id = made.network_interface().and_then(|made| made.network_interface_id());
    Ok((id.context("the interface has an id")?.to_owned(), subnet))
}

mod long_stories {
    use super::*;

    #[test]
    fn a_machine_takes_its_place_from_its_own_network_interface() -> anyhow::Result<()> {
        story("interfaces", async |s| {
            s.owned("dev", &s.unmanaged("dev", "")).await?;
            s.infrastructure_provisioned("dev").await?;
            let wanted = format!("{INLINE}, networkInterfaces: [eni-00000000000000bad]");
            s.machine("lost", "dev", &wanted).await?;
            let message = s.machine_condition_false("lost", "NetworkReady", "NotFound").await?;
            assert!(message.contains("eni-00000000000000bad"), "{message}");

            let (id, subnet) = interface(s).await?;
            let brought = format!("{INLINE}, networkInterfaces: [{id}]");
            s.machine("one", "dev", &brought).await?;
            let ready = s.machine_ready("one").await?;
            assert_eq!(text(&ready, "/status/network/subnetID"), subnet);
            let launch = s.launch_of(text(&ready, "/spec/instanceID"))?;
            assert_eq!(launch.parameter("NetworkInterface.1.NetworkInterfaceId"), Some(id.as_str()));
            assert_eq!(launch.parameter("NetworkInterface.1.SecurityGroupId.1"), None);

            s.machine("two", "dev", &brought).await?;
            let message = s.machine_condition_false("two", "NetworkReady", "Conflict").await?;
            assert!(message.contains(text(&ready, "/spec/instanceID")), "{message}");

            for name in ["one", "two", "lost"] {
                s.delete(CORE, "Machine", name).await?;
            }
            let described = s.user.ec2().describe_network_interfaces().network_interface_ids(&id);
            let described = described.send().await?;
            let interface = described.network_interfaces().first().context("the interface is there")?;
            let groups: Vec<_> = interface.groups().iter().filter_map(|group| group.group_id()).collect();
            assert_eq!(groups, [&s.network.node_security_group_id]);
            assert!(interface.tag_set().is_empty(), "{:?}", interface.tag_set());
            Ok(())
        })
    }
}
