//! An instance that another client terminates.

use super::machines::{INLINE, at, text};
use super::scenario::{CORE, OURS, story};

#[test]
fn an_instance_terminated_by_hand_is_never_replaced() -> anyhow::Result<()> {
    story("by-hand", async |s| {
        s.cluster("dev").await?;
        s.machine("victim", "dev", INLINE).await?;
        let ready = s.machine_ready("victim").await?;
        let id = text(&ready, "/spec/instanceID").to_owned();
        s.user.terminate(&id).await?;
        for condition in ["InstanceReady", "Ready"] {
            let message = s.machine_condition_false("victim", condition, "Terminated").await?;
            assert!(message.contains(&id), "{}", message);
        }

        // Neither another pass nor another process changes the result.
        s.manager().stop().await?;
        s.start_manager().await?;
        s.looked_again("victim").await?;
        s.machine("witness", "dev", INLINE).await?;
        let witness = s.machine_ready("witness").await?;
        let witness = text(&witness, "/spec/instanceID").to_owned();
        let victim = s.get(OURS, "AWSMachine", "victim").await?;
        assert_eq!(text(&victim, "/status/instanceState"), "terminated");
        for field in ["/spec/providerID", "/status/launch", "/status/initialization"] {
            assert_eq!(at(&victim, field), at(&ready, field), "{field}");
        }
        s.machine_condition_false("victim", "Ready", "Terminated").await?;
        let launches = s.launches();
        let ids: Vec<_> = launches.calls().iter().map(|call| call.instance_ids.clone()).collect();
        assert_eq!(ids, [vec![id.clone()], vec![witness.clone()]], "{launches}");

        s.begin_deletion(CORE, "Machine", "victim").await?;
        s.gone(OURS, "AWSMachine", &["victim"]).await?;
        s.assert_mutating(&[("RunInstances", 2)]);
        assert_eq!(s.state_of(&id).await?, "terminated");
        assert_eq!(s.state_of(&witness).await?, "running");
        Ok(())
    })
}
