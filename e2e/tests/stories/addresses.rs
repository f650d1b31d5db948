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

/// Tests whether a machine asks for a primary IPv6 address and has one.
async fn has_ipv6(s: &Scenario, name: &str, expected: bool) -> anyhow::Result<()> {
    let ready = s.machine_ready(name).await?;
    let launch = s.launch_of(text(&ready, "/spec/instanceID"))?;
    let asked = launch.parameter("NetworkInterface.1.PrimaryIpv6");
    assert_eq!(asked, expected.then_some("true"), "{name}");
    let addresses = at(&ready, "/status/addresses").as_array().cloned().unwrap_or_default();
    let internal = addresses.iter().filter(|address| address["type"] == "InternalIP");
    let internal: Vec<&str> = internal.filter_map(|address| address["address"].as_str()).collect();
    let ipv6 = internal.iter().filter(|address| address.starts_with(PREFIX)).count();
    assert_eq!(ipv6, usize::from(expected), "{name}: {internal:?}");
    assert!(
        internal.iter().any(|address| address.contains('.')),
        "{name}: {internal:?}"
    );
    Ok(())
}

#[test]
fn machines_have_ipv6_where_their_cluster_uses_it() -> anyhow::Result<()> {
    story("dual-stack", async |s| {
        make_dual_stack(s).await?;
        s.cluster("four").await?;
        s.machine("four", "four", INLINE).await?;
        let subnet = &s.network.zones[1].private_subnet_id;
        s.user.tag(subnet, "tier", "six").await?;
        let uses_ipv6 = s
            .unmanaged("six", "")
            .replace(&format!("{{id: {subnet}}}"), &format!("{{id: {subnet}, isIpv6: true}}"));
        s.owned("six", &uses_ipv6).await?;
        s.infrastructure_provisioned("six").await?;
        for (name, spec) in [
            ("plain", String::new()),
            ("by-id", format!(", subnet: {{id: {subnet}}}")),
            (
                "by-filter",
                ", subnet: {filters: [{name: 'tag:tier', values: [six]}]}".to_owned(),
            ),
            ("without", ", assignPrimaryIPv6: disabled".to_owned()),
        ] {
            s.machine(name, "six", &format!("{INLINE}{spec}")).await?;
        }
        for (name, expected) in [
            ("four", false),
            ("plain", true),
            ("by-id", true),
            ("by-filter", true),
            ("without", false),
        ] {
            has_ipv6(s, name, expected).await?;
        }
        Ok(())
    })
}
