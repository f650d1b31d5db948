//! Every way in which a machine can be deleted, each with exactly the calls that it needs.

use std::time::Duration;

use anyhow::ensure;
use capa_e2e::{eventually, fixtures};
use serde_json::json;

use super::machines::{INLINE, machine, text};
use super::scenario::{CORE, OURS, Scenario, WITHIN, story};

/// Longer than any story.
const HOUR: Duration = Duration::from_hours(1);

#[test]
fn machines_that_were_never_launched_go_without_a_call() -> anyhow::Result<()> {
    story("never-launched", async |s| {
        let environment = &s.environment;
        // The first machine waits for its cluster's infrastructure, the second one for its bootstrap data.
        environment.apply(&fixtures::cluster("absent", Some("AWSCluster"))).await?;
        environment.apply(&machine("homeless", "absent", INLINE)).await?;
        s.cluster("dev").await?;
        environment.apply(&machine("empty", "dev", INLINE)).await?;
        for (name, condition, reason) in [
            ("homeless", "InstanceReady", "WaitingForClusterInfrastructure"),
            ("empty", "BootstrapDataReady", "WaitingForBootstrapData"),
        ] {
            s.machine_condition_false(name, condition, reason).await?;
            s.begin_deletion(CORE, "Machine", name).await?;
        }
        s.gone(CORE, "Machine", &["homeless", "empty"]).await?;
        s.gone(OURS, "AWSMachine", &["homeless", "empty"]).await?;
        s.assert_mutating(&[]);
        Ok(())
    })
}

/// Deletes an object without waiting for the controllers of its finalizers.
pub(super) async fn remove_by_force(
    scenario: &Scenario,
    api_version: &str,
    kind: &str,
    name: &str,
) -> anyhow::Result<()> {
    let api = scenario.api(api_version, kind).await?;
    if api.get_opt(name).await?.is_some_and(|object| object.metadata.deletion_timestamp.is_none()) {
        scenario.begin_deletion(api_version, kind, name).await?;
    }
    eventually(WITHIN, &format!("{kind} {name} to be gone"), async || {
        let Some(object) = api.get_opt(name).await? else {
            return Ok(());
        };
        scenario.patch(api_version, kind, name, json!({"metadata": {"finalizers": null}})).await?;
        anyhow::bail!("the finalizers were {:?}", object.metadata.finalizers)
    })
    .await
}

mod long_stories {
    use super::*;

    #[test]
    fn a_machine_is_deleted_without_its_awscluster_or_cluster() -> anyhow::Result<()> {
        story("orphans", async |s| {
            for cluster in ["bare", "removed"] {
                s.cluster(cluster).await?;
                s.machine(cluster, cluster, INLINE).await?;
            }
            let mut ids = Vec::new();
            for name in ["bare", "removed"] {
                let ready = s.machine_ready(name).await?;
                ids.push(text(&ready, "/spec/instanceID").to_owned());
            }
            remove_by_force(s, OURS, "AWSCluster", "bare").await?;
            s.begin_deletion(CORE, "Machine", "bare").await?;
            s.gone(OURS, "AWSMachine", &["bare"]).await?;
            s.gone(CORE, "Machine", &["bare"]).await?;

            remove_by_force(s, OURS, "AWSCluster", "removed").await?;
            remove_by_force(s, CORE, "Cluster", "removed").await?;
            remove_by_force(s, CORE, "Machine", "removed").await?;
            s.gone(OURS, "AWSMachine", &["removed"]).await?;
            for id in &ids {
                assert_eq!(s.state_of(id).await?, "terminated");
                assert!(s.has_terminated(id));
            }
            s.assert_mutating(&[("RunInstances", 2), ("TerminateInstances", 2)]);
            Ok(())
        })
    }

    #[test]
    fn a_pending_machine_is_terminated_and_waited_for() -> anyhow::Result<()> {
        story("delete-pending", async |s| {
            let aws = s.aws();
            aws.set_pending(HOUR);
            aws.set_shutting_down(HOUR);
            s.cluster("dev").await?;
            s.machine("slow", "dev", INLINE).await?;
            s.machine_condition_false("slow", "InstanceReady", "Pending").await?;
            let id = s.launched("slow").await?;
            s.begin_deletion(CORE, "Machine", "slow").await?;
            s.machine_condition_false("slow", "InstanceReady", "Terminating").await?;
            // The condition says that the termination is submitted: the call follows.
            eventually(WITHIN, "the instance to shut down", async || {
                let state = s.state_of(&id).await?;
                ensure!(state == "shutting-down", "the instance is {state}");
                Ok(())
            })
            .await?;
            // A second pass waits as well.
            s.looked_again("slow").await?;
            assert_eq!(s.state_of(&id).await?, "shutting-down");
            assert!(s.has_terminated(&id));

            aws.set_shutting_down(Duration::ZERO);
            s.gone(OURS, "AWSMachine", &["slow"]).await?;
            s.gone(CORE, "Machine", &["slow"]).await?;
            s.assert_mutating(&[("RunInstances", 1), ("TerminateInstances", 1)]);
            Ok(())
        })
    }
}
