//! The subnets that machines are launched in.

use super::machines::{INLINE, machine, text};
use super::scenario::story;

#[test]
fn a_machine_keeps_its_failure_domain_or_says_why_it_cannot() -> anyhow::Result<()> {
    story("failure-domain", async |s| {
        s.cluster("dev").await?;
        for (name, zone) in [("nowhere", "eu-west-1z"), ("third", "eu-west-1c"), ("too", "eu-west-1c")] {
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
