//! Instances that a spec names, which users can write.

use anyhow::Context;
use aws_sdk_ec2::types::InstanceType;
use capa_e2e::moto;

use super::machines::{INLINE, text};
use super::scenario::{CORE, OURS, Scenario};

#[tokio::test]
async fn an_instance_that_a_spec_names_is_believed_only_with_the_tags_of_the_machine() -> anyhow::Result<()> {
    let scenario = Scenario::new("claimed").await?;
    let id = launch_by_hand(&scenario).await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    let zone = scenario.network.zones.first().context("no zone")?;
    let claims = format!("{INLINE}, providerID: 'aws:///{}/{id}', instanceID: {id}", zone.name);
    scenario.machine("thief", "dev", &claims).await?;
    for condition in ["InstanceReady", "Ready"] {
        let told = scenario
            .condition("AWSMachine", "thief", condition, "False", "NotOwned")
            .await?;
        assert!(told.message.contains(&id), "{}", told.message);
    }
    let thief = scenario.get(OURS, "AWSMachine", "thief").await?;
    assert!(thief.data.pointer("/status/initialization").is_none(), "{}", thief.data);

    scenario.begin_deletion(CORE, "Machine", "thief").await?;
    scenario.deletion_says("thief", "it is not terminated").await?;
    assert_eq!(scenario.state_of(&id).await?, "running");
    assert_eq!(scenario.mutating(), []);

    // The tags prove whose it is: now the machine takes its instance along.
    let machine = format!("{}/thief", scenario.environment.namespace());
    scenario.user.tag(&id, "MachineName", &machine).await?;
    scenario
        .user
        .tag(&id, "sigs.k8s.io/cluster-api-provider-aws/cluster/dev", "owned")
        .await?;
    scenario.gone(OURS, "AWSMachine", &["thief"]).await?;
    assert_eq!(scenario.terminations(&id), 1);
    assert_eq!(scenario.launches().len(), 0);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_machine_whose_status_was_lost_finds_its_instance_again() -> anyhow::Result<()> {
    let scenario = Scenario::new("lost-status").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    scenario.machine("forgetful", "dev", INLINE).await?;
    let before = scenario.machine_ready("forgetful").await?;
    let id = text(&before, "/spec/instanceID").to_owned();
    assert!(manager.stop().await?.success());
    scenario.lose_status("forgetful").await?;

    let manager = scenario.manager().await?;
    let after = scenario.machine_ready("forgetful").await?;
    for field in ["accountID", "region", "availabilityZone", "subnetID", "clusterTag"] {
        let field = format!("/status/network/{field}");
        assert_eq!(text(&after, &field), text(&before, &field), "{field}");
    }
    assert_eq!(scenario.launches().len(), 1, "{}", scenario.launches());
    scenario.begin_deletion(CORE, "Machine", "forgetful").await?;
    scenario.gone(OURS, "AWSMachine", &["forgetful"]).await?;
    assert_eq!(scenario.terminations(&id), 1);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

/// An instance of the user, without any tag of ours.
pub(super) async fn launch_by_hand(scenario: &Scenario) -> anyhow::Result<String> {
    let zone = scenario.network.zones.first().context("no zone")?;
    let launch = scenario.user.ec2().run_instances().image_id(moto::IMAGE_ID);
    let launched = launch
        .instance_type(InstanceType::T3Micro)
        .subnet_id(&zone.private_subnet_id)
        .min_count(1)
        .max_count(1)
        .send()
        .await?;
    let instance = launched.instances().first().context("no instance")?;
    Ok(instance.instance_id().context("no id")?.to_owned())
}
