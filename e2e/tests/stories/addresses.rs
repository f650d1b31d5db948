//! Machines in subnets with IPv4 and IPv6.

use super::machines::{INLINE, at, text};
use super::scenario::{Scenario, story};

/// The first 60 bits of the addresses of all subnets.
const PREFIX: &str = "2001:db8:1234:1a0";

/// Gives the VPC of the story and each private subnet a block of IPv6 addresses.
async fn make_dual_stack(s: &Scenario) -> anyhow::Result<()> {
    let ec2 = s.user.ec2();
    let vpc = ec2.associate_vpc_cidr_block().vpc_id(&s.network.vpc_id);
    vpc.amazon_provided_ipv6_cidr_block(true).send().await?;
    for (number, zone) in s.network.zones.iter().enumerate() {
        let subnet = ec2.associate_subnet_cidr_block().subnet_id(&zone.private_subnet_id);
        let block = format!("{PREFIX}{number}::/64");
        subnet.ipv6_cidr_block(block).send().await?;
    }
    Ok(())
}

#[test]
fn addresses_of_both_families_are_in_the_status() -> anyhow::Result<()> {
    story("dual-stack", async |s| {
        make_dual_stack(s).await?;
        s.cluster("dev").await?;
        for (name, spec, has_ipv6) in [
            ("default", "", true),
            ("without", ", assignPrimaryIPv6: disabled", false),
        ] {
            s.machine(name, "dev", &format!("{INLINE}{spec}")).await?;
            let ready = s.machine_ready(name).await?;
            let launch = s.launch_of(text(&ready, "/spec/instanceID"))?;
            let asked = launch.parameter("NetworkInterface.1.PrimaryIpv6");
            assert_eq!(asked, has_ipv6.then_some("true"), "{name}");
            let addresses = at(&ready, "/status/addresses").as_array().cloned().unwrap_or_default();
            let internal = addresses.iter().filter(|address| address["type"] == "InternalIP");
            let internal: Vec<&str> = internal.filter_map(|address| address["address"].as_str()).collect();
            let ipv6 = internal.iter().filter(|address| address.starts_with(PREFIX)).count();
            assert_eq!(ipv6, usize::from(has_ipv6), "{name}: {internal:?}");
            assert!(
                internal.iter().any(|address| address.contains('.')),
                "{name}: {internal:?}"
            );
        }
        Ok(())
    })
}
