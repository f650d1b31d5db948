//! Specs that name an instance. Users can write this field.

use anyhow::Context;
use capa_e2e::Story;

use super::machines::{INLINE, text};
use super::scenario::{CORE, OURS, Scenario, run_story, story};

#[test]
fn an_instance_named_by_a_spec_needs_the_tags_of_its_machine() -> anyhow::Result<()> {
    run_story(Story::new("claimed"), async |s| {
        let id = launch_by_hand(s).await?;
        s.start_manager().await?;
        s.cluster("dev").await?;
        let zone = s.network.zones.first().context("no zone")?;
        let claims = format!("{INLINE}, providerID: 'aws:///{}/{id}', instanceID: {id}", zone.name);
        s.machine("thief", "dev", &claims).await?;
        for condition in ["InstanceReady", "Ready"] {
            let message = s.machine_condition_false("thief", condition, "NotOwned").await?;
            assert!(message.contains(&id), "{message}");
        }
        let thief = s.get(OURS, "AWSMachine", "thief").await?;
        assert!(thief.data.pointer("/status/initialization").is_none(), "{}", thief.data);

        s.begin_deletion(CORE, "Machine", "thief").await?;
        s.deletion_says("thief", "it is not terminated").await?;
        assert_eq!(s.state_of(&id).await?, "running");
        s.assert_mutating(&[]);

        // The tags prove that the instance belongs to the machine, so its deletion terminates the instance.
        let machine = format!("{}/thief", s.namespace());
        s.user.tag(&id, "MachineName", &machine).await?;
        s.user.tag(&id, "sigs.k8s.io/cluster-api-provider-aws/cluster/dev", "owned").await?;
        s.gone(OURS, "AWSMachine", &["thief"]).await?;
        assert!(s.has_terminated(&id));
        assert_eq!(s.launches().len(), 0);
        Ok(())
    })
}

/// An instance of the user, without any of the provider's tags.
pub(super) async fn launch_by_hand(scenario: &Scenario) -> anyhow::Result<String> {
    let zone = scenario.network.zones.first().context("no zone")?;
    scenario.user.launch(&zone.private_subnet_id, |launch| launch).await
}

mod long_stories {
    use super::*;

    #[test]
    fn a_machine_whose_status_was_lost_finds_its_instance_again() -> anyhow::Result<()> {
        story("lost-status", async |s| {
            s.cluster("dev").await?;
            s.machine("forgetful", "dev", INLINE).await?;
            let before = s.machine_ready("forgetful").await?;
            let id = text(&before, "/spec/instanceID").to_owned();
            s.manager().stop().await?;
            s.lose_status("forgetful").await?;

            s.start_manager().await?;
            let after = s.machine_ready("forgetful").await?;
            for field in ["accountID", "region", "availabilityZone", "subnetID", "clusterTag"] {
                let field = format!("/status/network/{field}");
                assert_eq!(text(&after, &field), text(&before, &field), "{field}");
            }
            assert_eq!(s.launches().len(), 1, "{}", s.launches());
            s.begin_deletion(CORE, "Machine", "forgetful").await?;
            s.gone(OURS, "AWSMachine", &["forgetful"]).await?;
            assert!(s.has_terminated(&id));
            Ok(())
        })
    }
}
