//! An instance that somebody else terminates.

use super::machines::{INLINE, at, counts, text};
use super::scenario::{CORE, OURS, Scenario};

#[tokio::test]
async fn an_instance_terminated_by_hand_is_reported_and_never_replaced() -> anyhow::Result<()> {
    let scenario = Scenario::new("by-hand").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    scenario.machine("victim", "dev", INLINE).await?;
    let ready = scenario.machine_ready("victim").await?;
    let id = text(&ready, "/spec/instanceID").to_owned();
    scenario.user.terminate(&id).await?;
    for condition in ["InstanceReady", "Ready"] {
        let told = scenario
            .condition("AWSMachine", "victim", condition, "False", "Terminated")
            .await?;
        assert!(told.message.contains(&id), "{}", told.message);
    }

    // Neither another pass nor another process changes its mind.
    assert!(manager.stop().await?.success());
    let manager = scenario.manager().await?;
    scenario.looked_again("victim", &manager).await?;
    scenario.machine("witness", "dev", INLINE).await?;
    let witness = scenario.machine_ready("witness").await?;
    let witness = text(&witness, "/spec/instanceID").to_owned();
    let victim = scenario.get(OURS, "AWSMachine", "victim").await?;
    assert_eq!(text(&victim, "/status/instanceState"), "terminated");
    for field in ["/spec/providerID", "/status/launch", "/status/initialization"] {
        assert_eq!(at(&victim, field), at(&ready, field), "{field}");
    }
    scenario
        .condition("AWSMachine", "victim", "Ready", "False", "Terminated")
        .await?;
    let launches = scenario.launches();
    let ids: Vec<_> = launches.calls().iter().map(|call| call.instance_ids.clone()).collect();
    assert_eq!(ids, [vec![id.clone()], vec![witness.clone()]], "{launches}");

    scenario.begin_deletion(CORE, "Machine", "victim").await?;
    scenario.gone(OURS, "AWSMachine", &["victim"]).await?;
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", 2)]));
    assert_eq!(scenario.state_of(&id).await?, "terminated");
    assert_eq!(scenario.state_of(&witness).await?, "running");
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}
