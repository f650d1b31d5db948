//! The subnets that machines are launched in.

use capa_e2e::fixtures;

use super::machines::{spread, text};
use super::scenario::{story, template};

#[test]
fn six_machines_fill_three_zones_evenly() -> anyhow::Result<()> {
    story("zones", async |s| {
        s.cluster("dev").await?;
        s.machine_deployment("workers", "dev", 6).await?;
        let machines = s.machines_ready(6).await?;

        for machine in &machines {
            let zone = text(machine, "/status/failureDomain");
            let launched = s.launch_of(text(machine, "/spec/instanceID"))?;
            let subnet = launched.parameter("NetworkInterface.1.SubnetId");
            assert_eq!(subnet, Some(text(machine, "/status/network/subnetID")));
            let of_zone = s.network.zones.iter().find(|candidate| candidate.name == zone);
            assert_eq!(subnet, of_zone.map(|zone| zone.private_subnet_id.as_str()));
        }
        assert_eq!(spread(&machines), [2, 2, 2]);
        s.launched_once()?;
        Ok(())
    })
}

#[test]
fn a_machine_keeps_its_failure_domain_or_says_why_it_cannot() -> anyhow::Result<()> {
    story("failure-domain", async |s| {
        s.cluster("dev").await?;
        for (name, zone, replicas) in [("nowhere", "eu-west-1z", 1), ("third", "eu-west-1c", 2)] {
            let deployment = fixtures::machine_deployment(name, "dev", replicas);
            let bootstrap = fixtures::bootstrap_secret(name, "#cloud-config");
            for yaml in [
                bootstrap,
                template(name, ""),
                format!("{deployment}      failureDomain: {zone}\n"),
            ] {
                s.apply(&yaml).await?;
            }
        }
        let mut placed = Vec::new();
        let mut refused = Vec::new();
        for name in s.names_of_machines(3).await? {
            if name.starts_with("third") {
                placed.push(s.machine_ready(&name).await?);
            } else {
                let reason = "NoSubnetInFailureDomain";
                refused.push(s.machine_lacks(&name, "NetworkReady", reason).await?);
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
        assert!(refused.contains("eu-west-1z"), "{refused}");
        for zone in &s.network.zones {
            let why = format!("{}: zone {}", zone.private_subnet_id, zone.name);
            assert!(refused.contains(&why), "{refused} says nothing of {why}");
        }
        s.assert_mutating(&[("RunInstances", 2)]);
        Ok(())
    })
}
