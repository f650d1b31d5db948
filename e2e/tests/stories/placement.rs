//! The subnets that machines are launched in.

use super::machines::{INLINE, machine, spread, text};
use super::scenario::story;

#[test]
fn a_machine_keeps_its_failure_domain_or_says_why_it_cannot() -> anyhow::Result<()> {
    story("failure-domain", async |s| {
        s.cluster("dev").await?;
        for (name, zone) in [
            ("nowhere", "eu-west-1z"),
            ("third", "eu-west-1c"),
            ("too", "eu-west-1c"),
        ] {
            s.bootstrap_secret(name).await?;
            let machine = machine(name, "dev", INLINE);
            s.apply(&format!("{machine}  failureDomain: {zone}\n")).await?;
        }
        for name in ["third", "too"] {
            let ready = s.machine_ready(name).await?;
            assert_eq!(text(&ready, "/status/failureDomain"), "eu-west-1c");
        }
        let reason = "NoSubnetInFailureDomain";
        let refused = s.machine_condition_false("nowhere", "NetworkReady", reason).await?;
        assert!(refused.contains("eu-west-1z"), "{refused}");
        for zone in &s.network.zones {
            let why = format!("{}: zone {}", zone.private_subnet_id, zone.name);
            assert!(refused.contains(&why), "{refused} says nothing of {why}");
        }
        s.assert_mutating(&[("RunInstances", 2)]);
        Ok(())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn six_machines_fill_three_zones_evenly() -> anyhow::Result<()> {
        story("zones", async |s| {
            s.cluster("dev").await?;
            for number in 0..6 {
                s.machine(&format!("worker-{number}"), "dev", INLINE).await?;
            }
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
}
