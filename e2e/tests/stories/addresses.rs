//! The addresses of machines: IPv4, IPv6, and names.

use anyhow::{bail, ensure};
use aws_sdk_ec2::types::{DhcpOptions, NewDhcpConfiguration};
use capa_e2e::eventually;

use super::machines::{INLINE, at, text};
use super::scenario::{OURS, Scenario, WITHIN, story};

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
    assert!(internal.iter().any(|address| address.contains('.')), "{name}: {internal:?}");
    Ok(())
}

mod long_stories {
    use super::*;

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
                ("by-filter", ", subnet: {filters: [{name: 'tag:tier', values: [six]}]}".to_owned()),
                ("without", ", assignPrimaryIPv6: disabled".to_owned()),
            ] {
                s.machine(name, "six", &format!("{INLINE}{spec}")).await?;
            }
            for (name, expected) in
                [("four", false), ("plain", true), ("by-id", true), ("by-filter", true), ("without", false)]
            {
                has_ipv6(s, name, expected).await?;
            }

            // The same where nobody looks the VPC up, and where another controller does it.
            let quiet = s.unmanaged("quiet", "  preflight: {mode: Disabled}").replace(
                &format!("{{id: {subnet}}}"),
                &format!("{{id: {subnet}, isIpv6: true, availabilityZone: {}}}", s.network.zones[1].name),
            );
            s.owned("quiet", &quiet).await?;
            s.infrastructure_provisioned("quiet").await?;
            let vpc = format!("{{id: {}, ipv6: {{cidrBlock: '{PREFIX}0::/56'}}}}", s.network.vpc_id);
            let foreign = format!(
                "  network:
        vpc: {vpc}
        subnets: [{{id: {subnet}, isIpv6: true}}]
        securityGroupOverrides: {{node: {}}}",
                s.network.node_security_group_id
            );
            s.cluster_in_mode("foreign", false, &foreign).await?;
            for cluster in ["quiet", "foreign"] {
                for (name, spec) in [("plain", String::new()), ("by-id", format!(", subnet: {{id: {subnet}}}"))] {
                    let name = format!("{cluster}-{name}");
                    s.machine(&name, cluster, &format!("{INLINE}{spec}")).await?;
                    has_ipv6(s, &name, true).await?;
                }
            }
            Ok(())
        })
    }

    #[test]
    fn a_machine_has_a_name_in_the_domain_of_its_vpc() -> anyhow::Result<()> {
        story("dhcp-domain", async |s| {
            let ec2 = s.user.ec2();
            let domain = NewDhcpConfiguration::builder().key("domain-name").values("corp.example.com");
            let options = ec2.create_dhcp_options().dhcp_configurations(domain.build());
            let options = options.send().await?;
            let id = options.dhcp_options().and_then(DhcpOptions::dhcp_options_id);
            let associate = ec2.associate_dhcp_options().vpc_id(&s.network.vpc_id);
            associate.set_dhcp_options_id(id.map(str::to_owned)).send().await?;

            s.cluster("dev").await?;
            s.machine("dev-w0", "dev", INLINE).await?;
            eventually(WITHIN, "both names of the machine", async || {
                let machine = s.get(OURS, "AWSMachine", "dev-w0").await?;
                let addresses = machine.data["status"]["addresses"].as_array().cloned().unwrap_or_default();
                let names = addresses.iter().filter(|address| address["type"] == "InternalDNS");
                let names: Vec<&str> = names.filter_map(|address| address["address"].as_str()).collect();
                let [of_ec2, of_domain] = names[..] else {
                    bail!("the names are {names:?}");
                };
                let host = of_ec2.split('.').next().unwrap_or_default();
                ensure!(of_domain == format!("{host}.corp.example.com"), "{names:?}");
                Ok(())
            })
            .await
        })
    }
}
