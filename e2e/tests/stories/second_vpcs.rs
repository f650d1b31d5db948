//! Machines in another VPC than that of their cluster, and names that two VPCs share.

use capa_e2e::user::NetworkPlan;

use super::machines::{INLINE, text};
use super::scenario::{REGION, Scenario, story};

/// Tests the subnet and the security groups with which a machine was launched.
async fn launched_in(s: &Scenario, name: &str, subnet: &str, groups: &[&str]) -> anyhow::Result<()> {
    let ready = s.machine_ready(name).await?;
    let launch = s.launch_of(text(&ready, "/spec/instanceID"))?;
    assert_eq!(launch.parameter("NetworkInterface.1.SubnetId"), Some(subnet), "{name}");
    assert_eq!(launch.values("NetworkInterface.1.SecurityGroupId"), groups, "{name}");
    Ok(())
}

mod long_stories {
    use super::*;

    #[test]
    fn the_filters_of_a_machine_choose_among_two_vpcs() -> anyhow::Result<()> {
        story("second-vpc", async |s| {
            s.cluster("dev").await?;
            let first = &s.network;
            let second = s.user.create_network(&NetworkPlan::new("second", REGION, 1)).await?;
            for network in [first, &second] {
                let (zone, group) = (&network.zones[0], &network.node_security_group_id);
                s.user.tag(&zone.private_subnet_id, "tier", "workers").await?;
                s.user.tag(group, "Name", "worker-sg").await?;
            }
            let tier = "{name: 'tag:tier', values: [workers]}";
            let (of_first, of_second) = (&first.node_security_group_id, &second.node_security_group_id);

            let vpc = format!("{{name: vpc-id, values: [{}]}}", second.vpc_id);
            let elsewhere =
                format!("subnet: {{filters: [{vpc}, {tier}]}}, securityGroupOverrides: {{node: {of_second}}}");
            s.machine("elsewhere", "dev", &format!("{INLINE}, {elsewhere}")).await?;
            launched_in(s, "elsewhere", &second.zones[0].private_subnet_id, &[of_second]).await?;

            let subnet = &first.zones[1].private_subnet_id;
            let named = "additionalSecurityGroups: [{filters: [{name: 'tag:Name', values: [worker-sg]}]}]";
            let named = format!("{INLINE}, subnet: {{id: {subnet}}}, {named}");
            s.machine("named", "dev", &named).await?;
            launched_in(s, "named", subnet, &[of_first]).await?;

            let both = format!("{{name: vpc-id, values: [{}, {}]}}", first.vpc_id, second.vpc_id);
            let either = format!("{INLINE}, subnet: {{filters: [{both}, {tier}]}}");
            s.machine("either", "dev", &either).await?;
            let message = s.machine_condition_false("either", "NetworkReady", "Conflict").await?;
            for network in [first, &second] {
                let place = format!("{} of {}", network.zones[0].private_subnet_id, network.vpc_id);
                assert!(message.contains(&place), "{place}: {message}");
            }
            s.assert_mutating(&[("RunInstances", 2)]);
            Ok(())
        })
    }
}
