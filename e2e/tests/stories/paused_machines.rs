//! Paused machines: they cause no AWS call of any kind, and continue after the pause. What a move has marked only looks
//! like one.

use anyhow::{Context as _, ensure};
use capa_api::meta::MACHINE_FINALIZER;
use capa_e2e::aws_proxy::{Journal, Mark};
use capa_e2e::{Manager, eventually, eventually_by_polling};
use serde_json::{Value, json};

use super::machines::{INLINE, condition_of, text};
use super::scenario::{CORE, OURS, REGION, Scenario, WITHIN, story};

/// The mark that `clusterctl move` puts on what it deletes.
const MARK: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

#[test]
fn a_paused_cluster_launches_nothing_until_it_goes_on() -> anyhow::Result<()> {
    story("paused-cluster", async |s| {
        s.cluster("dev").await?;
        s.patch(CORE, "Cluster", "dev", json!({"spec": {"paused": true}})).await?;
        s.condition("AWSCluster", "dev", "Paused", "True", "Paused").await?;
        let mark = s.aws().mark();
        s.machine("single", "dev", INLINE).await?;
        // Core sets no owner on the machines of a paused cluster. With an owner reference, only the pause keeps the
        // manager from adding its finalizer.
        let machine = s.get(CORE, "Machine", "single").await?.metadata.uid;
        let owned = json!({"metadata": {
            "labels": {"cluster.x-k8s.io/cluster-name": "dev"},
            "ownerReferences": [{"apiVersion": CORE, "kind": "Machine", "name": "single", "uid": machine}],
        }});
        s.patch(OURS, "AWSMachine", "single", owned).await?;
        let paused = s.condition("AWSMachine", "single", "Paused", "True", "Paused").await?;
        assert_eq!(paused.message, "Cluster spec.paused is set to true");
        s.looked_again("single").await?;
        let calls = calls_since(s, mark);
        assert!(calls.is_empty(), "{calls}");
        let paused = s.get(OURS, "AWSMachine", "single").await?;
        assert_eq!(paused.metadata.finalizers, None);
        assert_eq!(paused.metadata.generation, Some(1), "no client has written to the spec");

        s.patch(CORE, "Cluster", "dev", json!({"spec": {"paused": false}})).await?;
        let ready = s.machine_ready("single").await?;
        s.machine_condition_false("single", "Paused", "NotPaused").await?;
        s.assert_mutating(&[("RunInstances", 1)]);

        // A pause also stops a deletion.
        s.patch(CORE, "Cluster", "dev", json!({"spec": {"paused": true}})).await?;
        no_instance_is_followed(&s.manager()).await?;
        let mark = s.aws().mark();
        s.begin_deletion(OURS, "AWSMachine", "single").await?;
        s.looked_again("single").await?;
        only_listed_since(s, mark);
        let held = s.get(OURS, "AWSMachine", "single").await?;
        assert_eq!(held.metadata.finalizers, Some(vec![MACHINE_FINALIZER.to_owned()]));
        s.patch(CORE, "Cluster", "dev", json!({"spec": {"paused": false}})).await?;
        s.gone(OURS, "AWSMachine", &["single"]).await?;
        s.assert_mutating(&[("RunInstances", 1), ("TerminateInstances", 1)]);
        assert!(s.has_terminated(text(&ready, "/spec/instanceID")));
        Ok(())
    })
}

#[test]
fn a_paused_machine_is_left_alone_even_while_it_is_deleted() -> anyhow::Result<()> {
    story("paused-machine", async |s| {
        s.cluster("dev").await?;
        s.machine("asleep", "dev", INLINE).await?;
        let ready = s.machine_ready("asleep").await?;
        let id = text(&ready, "/spec/instanceID").to_owned();
        // The presence of the annotation counts, not its value.
        pause(s, "asleep", json!("false")).await?;
        let paused = s.condition("AWSMachine", "asleep", "Paused", "True", "Paused").await?;
        assert_eq!(paused.message, "AWSMachine has the cluster.x-k8s.io/paused annotation");
        let still = s.get(OURS, "AWSMachine", "asleep").await?;
        assert_eq!(condition_of(&still, "Ready")?.status, "True", "pausing says nothing about the instance");
        no_instance_is_followed(&s.manager()).await?;

        let mark = s.aws().mark();
        s.begin_deletion(CORE, "Machine", "asleep").await?;
        eventually(WITHIN, "core to delete the AWSMachine", async || {
            let machine = s.get(OURS, "AWSMachine", "asleep").await?;
            ensure!(machine.metadata.deletion_timestamp.is_some(), "the AWSMachine is not being deleted yet");
            Ok(())
        })
        .await?;
        s.looked_again("asleep").await?;
        only_listed_since(s, mark);
        assert_eq!(s.state_of(&id).await?, "running");

        pause(s, "asleep", json!(null)).await?;
        s.gone(OURS, "AWSMachine", &["asleep"]).await?;
        assert!(s.has_terminated(&id));
        Ok(())
    })
}

#[test]
fn a_mark_that_a_move_left_behind_is_named_and_freezes_nothing() -> anyhow::Result<()> {
    story("left-over-mark", async |s| {
        s.cluster("dev").await?;
        let mark = |value: Value| json!({"metadata": {"annotations": {MARK: value}}});
        s.change("dev", mark("".into())).await?;
        s.await_condition("dev", "Paused", "False", "MoveInterrupted").await?;
        s.machine("one", "dev", INLINE).await?;
        s.patch(OURS, "AWSMachine", "one", mark("".into())).await?;
        let ready = s.machine_ready("one").await?;
        s.machine_condition_false("one", "Paused", "MoveInterrupted").await?;
        s.event("AWSMachine", "one", "MoveInterrupted").await?;
        s.patch(OURS, "AWSMachine", "one", mark(Value::Null)).await?;
        s.machine_condition_false("one", "Paused", "NotPaused").await?;

        // What is deleted with the mark has moved: its instance belongs to the other management cluster.
        s.patch(OURS, "AWSMachine", "one", mark("".into())).await?;
        s.machine_condition_false("one", "Paused", "MoveInterrupted").await?;
        s.begin_deletion(OURS, "AWSMachine", "one").await?;
        s.gone(OURS, "AWSMachine", &["one"]).await?;
        s.event("AWSMachine", "one", "InstanceAbandoned").await?;
        s.assert_mutating(&[("RunInstances", 1)]);
        let instance = ready.data["spec"]["instanceID"].as_str().context("no instance")?;
        assert_eq!(s.state_of(instance).await?, "running");
        s.user.terminate(instance).await
    })
}

async fn pause(scenario: &Scenario, name: &str, value: Value) -> anyhow::Result<()> {
    let patch = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
    scenario.patch(OURS, "AWSMachine", name, patch).await
}

/// Waits until the instance informer of the region follows no instance, and so begins no listing any more.
async fn no_instance_is_followed(manager: &Manager) -> anyhow::Result<()> {
    eventually_by_polling(WITHIN, "the instance informer to follow nothing", async || {
        let followed = manager.metrics().await?.sum("capa_instance_store_instances", &[("region", REGION)]);
        ensure!(followed.is_none(), "the instance informer follows {followed:?} instances");
        Ok(())
    })
    .await
}

fn calls_since(scenario: &Scenario, mark: Mark) -> Journal {
    let aws = scenario.aws();
    aws.manager_journal_since(mark)
}

/// Fails if the manager has made a call but a listing of the informer, which may have been under way when its last
/// instance was forgotten. No call for one machine filters by the keys of tags.
fn only_listed_since(scenario: &Scenario, mark: Mark) {
    let is_listing = |name: Option<&str>| name == Some("tag-key");
    let calls = calls_since(scenario, mark);
    let others = calls.matching(|call| !is_listing(call.parameter("Filter.1.Name")));
    assert!(others.is_empty(), "{others}");
}
