//! Which subnet a machine is launched in.

use std::collections::BTreeMap;

use capa_e2e::fixtures;

use super::machines::{counts, text};
use super::scenario::{Scenario, template};

#[tokio::test]
async fn six_machines_fill_three_zones_evenly() -> anyhow::Result<()> {
    let scenario = Scenario::new("zones").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    scenario.machine_deployment("workers", "dev", 6).await?;
    let machines = scenario.machines_ready(6).await?;

    let mut zones = BTreeMap::new();
    for machine in &machines {
        let zone = text(machine, "/status/failureDomain");
        *zones.entry(zone).or_insert(0) += 1;
        let launched = scenario.launch_of(text(machine, "/spec/instanceID"))?;
        let subnet = launched.parameter("NetworkInterface.1.SubnetId");
        assert_eq!(subnet, Some(text(machine, "/status/network/subnetID")));
        let of_zone = scenario.network.zones.iter().find(|candidate| candidate.name == zone);
        assert_eq!(subnet, of_zone.map(|zone| zone.private_subnet_id.as_str()));
    }
    let expected = [("eu-west-1a", 2), ("eu-west-1b", 2), ("eu-west-1c", 2)];
    assert_eq!(zones, BTreeMap::from(expected));
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", 6)]));
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_machine_stays_in_its_failure_domain_or_says_why_no_subnet_fits() -> anyhow::Result<()> {
    let scenario = Scenario::new("failure-domain").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    for (name, zone, replicas) in [("nowhere", "eu-west-1z", 1), ("third", "eu-west-1c", 2)] {
        let deployment = fixtures::machine_deployment(name, "dev", replicas);
        let bootstrap = fixtures::bootstrap_secret(name, "#cloud-config");
        for yaml in [
            bootstrap,
            template(name, ""),
            format!("{deployment}      failureDomain: {zone}\n"),
        ] {
            scenario.environment.apply(&yaml).await?;
        }
    }
    let mut placed = Vec::new();
    let mut refused = Vec::new();
    for name in scenario.names_of_machines(3).await? {
        if name.starts_with("third") {
            placed.push(scenario.machine_ready(&name).await?);
        } else {
            let reason = "NoSubnetInFailureDomain";
            refused.push(
                scenario
                    .condition("AWSMachine", &name, "NetworkReady", "False", reason)
                    .await?,
            );
        }
    }
    let zones: Vec<&str> = placed
        .iter()
        .map(|machine| text(machine, "/status/failureDomain"))
        .collect();
    assert_eq!(zones, ["eu-west-1c", "eu-west-1c"]);
    let [refused] = refused.as_slice() else {
        panic!("{refused:?}");
    };
    assert!(refused.message.contains("eu-west-1z"), "{}", refused.message);
    for zone in &scenario.network.zones {
        let why = format!("{}: zone {}", zone.private_subnet_id, zone.name);
        assert!(
            refused.message.contains(&why),
            "{} says nothing of {why}",
            refused.message
        );
    }
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", 2)]));
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}
