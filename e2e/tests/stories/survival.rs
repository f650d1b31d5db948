//! Outages that a manager survives: a restarted API server, an unreachable AWS, a rotated Secret.

use std::time::{Duration, Instant};

use anyhow::ensure;
use capa_e2e::aws_proxy::{Fault, Mark};
use capa_e2e::{Story, eventually, eventually_by_polling, objects};
use serde_json::json;

use super::machines::{INLINE, text};
use super::scenario::{CORE, FASTER, OURS, REGION, WITHIN, run_story, story};

mod long_stories {
    use super::*;

    #[test]
    fn a_manager_outlives_the_api_server_and_misses_nothing() -> anyhow::Result<()> {
        // A separate world, because the outage would break other tests.
        run_story(Story::new("api-server").in_its_own_world(&[]), async |s| {
            // The Lease outlives the outage on a busy computer.
            let manager = s.new_manager().leader_election().flag(FASTER);
            let manager = manager.flag("--leader-elect-lease-duration=3m").flag("--leader-elect-renew-deadline=2m");
            let manager = manager.start().await?;
            s.cluster("dev").await?;
            for name in ["stays", "leaves"] {
                s.machine(name, "dev", INLINE).await?;
                s.machine_ready(name).await?;
            }
            let leaves = s.get(OURS, "AWSMachine", "leaves").await?;
            let id = text(&leaves, "/spec/instanceID").to_owned();
            let aws = s.aws();
            let ours = |mark: Mark| aws.manager_journal_since(mark);

            let mark = aws.mark();
            s.environment
                .world()
                .without_api_server(async {
                    s.user.terminate(&id).await?;
                    // The manager still polls AWS, and cannot write the results to the API server.
                    eventually(WITHIN, "three listings", async || {
                        let listings = ours(mark).of("DescribeInstances").len();
                        ensure!(listings >= 3, "{listings} so far");
                        Ok(())
                    })
                    .await
                })
                .await?;
            assert!(manager.ended()?.is_none(), "the manager has ended");
            assert!(ours(mark).mutating().is_empty(), "{}", ours(mark).mutating());
            s.machine_condition_false("leaves", "InstanceReady", "Terminated").await?;

            // Every watch works: that of Machines, of the Secrets' users, and of this provider's kinds.
            s.machine("comes", "dev", INLINE).await?;
            s.machine_ready("comes").await?;
            s.looked_again("stays").await?;
            let stays = s.get(OURS, "AWSMachine", "stays").await?;
            s.begin_deletion(CORE, "Machine", "stays").await?;
            s.begin_deletion(CORE, "Machine", "leaves").await?;
            s.gone(OURS, "AWSMachine", &["stays", "leaves"]).await?;
            s.assert_mutating(&[("RunInstances", 3), ("TerminateInstances", 1)]);
            assert!(s.has_terminated(text(&stays, "/spec/instanceID")));
            Ok(())
        })
    }

    #[test]
    fn aws_out_of_reach_is_waited_out_and_nothing_is_doubled() -> anyhow::Result<()> {
        outage("outage", Duration::from_secs(6), 4)
    }

    #[test]
    fn a_rotated_secret_replaces_the_old_key_at_the_next_pass() -> anyhow::Result<()> {
        run_story(Story::new("rotation"), async |s| {
            let aws = s.aws();
            let (old, new) = (aws.another_key(), aws.another_key());
            let name = s.namespace();
            s.static_identity(name, "{}", &old).await?;
            let manager = s.start_manager().await?;
            s.owned_with_identity("dev", "AWSClusterStaticIdentity", name).await?;
            s.infrastructure_provisioned("dev").await?;
            for machine in ["one", "two"] {
                s.machine(machine, "dev", INLINE).await?;
            }
            for machine in ["one", "two"] {
                s.machine_ready(machine).await?;
            }
            assert!(aws.manager_journal().by(&new.access_key_id).is_empty());

            s.identity_secret(name, &new).await?;
            for machine in ["one", "two"] {
                s.looked_again(machine).await?;
            }
            let listings = aws.mark();
            eventually(WITHIN, "three listings with the new key", async || {
                let listings = aws.journal_since(listings).by(&new.access_key_id).of("DescribeInstances");
                ensure!(listings.len() >= 3, "{} so far", listings.len());
                Ok(())
            })
            .await?;
            // The old key may be revoked as soon as no call uses it: from here on any call with it would be an error.
            aws.revoke(&old.access_key_id);
            let mark = aws.mark();
            let one = s.get(OURS, "AWSMachine", "one").await?;
            s.begin_deletion(CORE, "Machine", "one").await?;
            s.gone(OURS, "AWSMachine", &["one"]).await?;
            let since = aws.manager_journal_since(mark);
            assert!(since.except(&new.access_key_id).is_empty(), "{}", since.except(&new.access_key_id));
            assert!(since.matching(|call| call.error.is_some()).is_empty(), "{since}");
            eventually_by_polling(WITHIN, "one informer with the other and the terminated instance", async || {
                let metrics = manager.metrics().await?;
                let followed = metrics.sum("capa_instance_store_instances", &[("region", REGION)]);
                ensure!(followed == Some(2.0), "{followed:?}");
                Ok(())
            })
            .await?;
            s.assert_mutating(&[("RunInstances", 2), ("TerminateInstances", 1)]);
            assert!(s.has_terminated(text(&one, "/spec/instanceID")));
            Ok(())
        })
    }
}

/// Tests an outage of AWS while `machines` run: meanwhile as many are created, and one is deleted.
fn outage(name: &str, lasting: Duration, machines: u32) -> anyhow::Result<()> {
    story(name, async |s| {
        s.cluster("dev").await?;
        s.machine_deployment("workers", "dev", machines).await?;
        s.machines_ready(usize::try_from(machines)?).await?;
        s.machine("leaving", "dev", INLINE).await?;
        s.machine_ready("leaving").await?;
        let aws = s.aws();

        let mark = aws.mark();
        let began = Instant::now();
        let outage = aws.fault(Fault::unreachable());
        let replicas = json!({"spec": {"replicas": 2 * machines}});
        s.patch(CORE, "MachineDeployment", "workers", replicas).await?;
        s.begin_deletion(CORE, "Machine", "leaving").await?;
        eventually_by_polling(WITHIN, "the outage to be over", async || {
            ensure!(began.elapsed() >= lasting, "the outage is not over yet");
            let lost = aws.manager_journal_since(mark);
            ensure!(!lost.is_empty(), "the outage has lost no call yet");
            Ok(())
        })
        .await?;
        let running = s.machines().await?.iter().filter(|machine| objects::is_ready(machine)).count();
        assert!(running >= usize::try_from(machines)?, "an outage says nothing about instances: {running} are Ready");
        s.manager().ready().await?;
        outage.lift();
        s.machines_ready(usize::try_from(2 * machines)?).await?;
        s.gone(OURS, "AWSMachine", &["leaving"]).await?;
        let launched = s.launched_once()?;
        let wanted = usize::try_from(2 * machines)? + 1;
        ensure!(launched.len() >= wanted, "{launched:?}");
        Ok(())
    })
}
