//! Objects that an earlier CustomResourceDefinition admitted: the manager corrects or reports them, and they affect no
//! other object.

use anyhow::{Context as _, ensure};
use capa_api::meta;
use capa_e2e::{Manager, Story, eventually, eventually_by_polling, moto, objects};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::machines::INLINE;
use super::scenario::{CORE, OURS, Scenario, WITHIN, run_story};

const CLUSTERS: &str = "awsclusters.infrastructure.cluster.x-k8s.io";
const MACHINES: &str = "awsmachines.infrastructure.cluster.x-k8s.io";
const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";

mod long_stories {
    use super::*;

    #[test]
    fn an_unreadable_machine_keeps_its_instance_and_stops_no_other() -> anyhow::Result<()> {
        run_story(Story::new("malformed-machines").in_its_own_world(&[]), async |s| {
            s.environment.world().install_provider().await?;
            let manager = s.start_manager().await?;
            s.cluster("dev").await?;
            for name in ["unreadable", "forgetful"] {
                s.machine(name, "dev", INLINE).await?;
            }
            let unreadable = instance_of(&s.machine_ready("unreadable").await?);
            let forgetful = instance_of(&s.machine_ready("forgetful").await?);

            // Objects from the time of an earlier schema were not subject to the policies either.
            let bindings = s.api("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding").await?;
            bindings.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
            let ours = replace_schema(s, MACHINES, anything()).await?;
            let api = s.api(OURS, "AWSMachine").await?;
            // The object is accepted once the schema has taken effect.
            eventually(WITHIN, "a text in place of an image to be accepted", async || {
                let image = Patch::Merge(json!({"spec": {"ami": "none"}}));
                api.patch("unreadable", &PatchParams::default(), &image).await?;
                Ok(())
            })
            .await?;
            let status =
                Patch::Merge(json!({"status": {"launch": "none", "addresses": {}, "conditions": 5, "ready": "yes"}}));
            api.patch_status("forgetful", &PatchParams::default(), &status).await?;
            replace_schema(s, MACHINES, ours).await?;

            one_is_counted(&manager, "AWSMachine").await?;
            reported(s, "AWSMachine", "spec.ami", "nothing is done for it").await?;
            // A status write by another client triggers no pass. The next pass for any reason corrects the status.
            let tags = json!({"spec": {"additionalTags": {"team": "another"}}});
            s.change("dev", tags).await?;
            eventually(WITHIN, "the record of the launch to be restored", async || {
                let healed = s.get(OURS, "AWSMachine", "forgetful").await?;
                let ready = objects::condition(&healed, "Ready").context("no condition yet")?;
                ensure!(ready.status == "True" && instance_of(&healed) == forgetful, "{}", healed.data["status"]);
                Ok(())
            })
            .await?;
            // The deletion of one machine and a new machine do not wait for the unreadable object.
            s.machine("new", "dev", INLINE).await?;
            s.machine_ready("new").await?;
            s.begin_deletion(OURS, "AWSMachine", "unreadable").await?;
            reported(s, "AWSMachine", "spec.ami", "its deletion waits").await?;
            s.delete(CORE, "Machine", "forgetful").await?;
            let live: Vec<_> =
                s.user.live_instances().await?.into_iter().filter_map(|instance| instance.instance_id).collect();
            assert!(live.contains(&unreadable) && !live.contains(&forgetful), "{live:?}");
            // The changed tags have reached the machine that can be read.
            s.assert_mutating(&[("CreateTags", 1), ("RunInstances", 3), ("TerminateInstances", 1)]);
            assert!(s.has_terminated(&forgetful));

            // After its correction, the machine continues with its deletion.
            let image = json!({"spec": {"ami": {"id": moto::IMAGE_ID}}});
            s.patch(OURS, "AWSMachine", "unreadable", image).await?;
            eventually(WITHIN, "the mended machine to be gone", async || {
                ensure!(api.get_opt("unreadable").await?.is_none(), "the AWSMachine still exists");
                Ok(())
            })
            .await?;
            assert_eq!(s.user.live_instances().await?.len(), 1);

            // Without their bindings the policies are not in force.
            manager.stop().await?;
            says_that_no_policy_is_in_force(&s.start_manager().await?).await
        })
    }

    #[test]
    fn an_unreadable_object_stops_no_other_and_a_status_is_healed() -> anyhow::Result<()> {
        // A separate world, because all tests of a world share its schemas.
        run_story(Story::new("malformed").in_its_own_world(&[]), async |s| {
            s.environment.world().install_provider().await?;
            let ours = replace_schema(s, CLUSTERS, anything()).await?;
            wait_until_text_for_a_network_is(s, true).await?;
            for name in ["unreadable", "foreign", "fine"] {
                s.owned(name, &s.unmanaged(name, "")).await?;
            }
            let network = json!({"spec": {"network": "none"}});
            s.change("unreadable", network).await?;
            // The Go provider stores the field in this form.
            let domains = json!({"eu-west-1a": {"controlPlane": true}});
            let foreign = json!({"status": {"ready": true, "failureDomains": domains, "conditions": "none"}});
            let api = s.api(OURS, "AWSCluster").await?;
            api.patch_status("foreign", &PatchParams::default(), &Patch::Merge(foreign)).await?;
            replace_schema(s, CLUSTERS, ours).await?;
            wait_until_text_for_a_network_is(s, false).await?;

            let manager = s.start_manager().await?;
            for name in ["fine", "foreign"] {
                s.infrastructure_provisioned(name).await?;
                s.await_condition(name, "Ready", "True", "Ready").await?;
            }
            let healed = s.aws_cluster("foreign").await?.data["status"].take();
            assert_eq!(healed["failureDomains"].as_array().map(Vec::len), Some(3), "{healed}");
            let unreadable = s.aws_cluster("unreadable").await?;
            assert_eq!(unreadable.data.get("status"), None);
            one_is_counted(&manager, "AWSCluster").await?;
            let log = manager.log()?;
            let named = |line: &str| line.contains("/unreadable") && line.contains("malformed");
            assert!(log.lines().any(named), "{log}");
            reported(s, "AWSCluster", "spec.network", "nothing is done for it").await?;

            let network = s.aws_cluster("fine").await?.data["spec"]["network"].take();
            s.change("unreadable", json!({"spec": {"network": network}})).await?;
            s.infrastructure_provisioned("unreadable").await
        })
    }
}

/// Waits until the metric of unreadable objects counts one of this kind.
async fn one_is_counted(manager: &Manager, kind: &str) -> anyhow::Result<()> {
    eventually_by_polling(WITHIN, &format!("one unreadable {kind} to be counted"), async || {
        let metrics = manager.metrics().await?;
        let malformed = metrics.sum("capa_malformed_objects", &[("kind", kind)]);
        ensure!(malformed == Some(1.0), "{malformed:?} are");
        Ok(())
    })
    .await
}

/// Waits for the log to name each policy, and fails if it names one twice.
async fn says_that_no_policy_is_in_force(manager: &Manager) -> anyhow::Result<()> {
    eventually_by_polling(WITHIN, "a line about each policy", async || {
        let log = manager.log()?;
        for policy in meta::ADMISSION_POLICIES {
            let field = format!("policy=\"{policy}\"");
            let lines = log.lines().filter(|line| line.contains("WARN") && line.contains(&field));
            let times = lines.count();
            ensure!(times == 1, "{times} lines name {policy}");
        }
        Ok(())
    })
    .await
}

/// Waits for the only event about the unreadable object, which names this field and this consequence.
async fn reported(scenario: &Scenario, kind: &str, field: &str, consequence: &str) -> anyhow::Result<()> {
    let events = scenario.api("events.k8s.io/v1", "Event").await?;
    eventually(WITHIN, "an event about the unreadable object", async || {
        let events = events.list(&ListParams::default()).await?.items;
        let about = |event: &&DynamicObject| {
            let about = &event.data["regarding"];
            about["kind"] == kind && about["name"] == "unreadable" && event.data["reason"] == "InvalidSpec"
        };
        let notes = events.iter().filter(about).filter_map(|event| event.data["note"].as_str());
        let matching: Vec<_> =
            notes.filter(|note| note.contains(&format!("{field}: expected ")) && note.contains(consequence)).collect();
        ensure!(matching.len() == 1, "{matching:?} among {}", events.len());
        Ok(())
    })
    .await
}

/// The instance in a machine's status.
fn instance_of(machine: &DynamicObject) -> String {
    let id = machine.data.pointer("/status/launch/instanceID").or_else(|| machine.data.pointer("/spec/instanceID"));
    id.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A schema that accepts any object.
fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Replaces the schema of a kind, and returns the former one.
async fn replace_schema(scenario: &Scenario, definition: &str, schema: Value) -> anyhow::Result<Value> {
    let api = scenario.api("apiextensions.k8s.io/v1", "CustomResourceDefinition").await?;
    let mut changed = api.get(definition).await?;
    let place = changed.data.pointer_mut(SCHEMA).context("no schema")?;
    let former = std::mem::replace(place, schema);
    api.replace(definition, &PostParams::default(), &changed).await?;
    Ok(former)
}

/// A schema takes effect some moments after it was written.
async fn wait_until_text_for_a_network_is(scenario: &Scenario, accepted: bool) -> anyhow::Result<()> {
    let api = scenario.api(OURS, "AWSCluster").await?;
    let mut probe = objects::parse(&scenario.unmanaged("probe", ""))?.remove(0);
    probe.data["spec"]["network"] = "none".into();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    eventually(WITHIN, "the schema to take effect", async || {
        let answer = api.create(&dry_run, &probe).await;
        ensure!(answer.is_ok() == accepted, "the answer is {answer:?}");
        Ok(())
    })
    .await
}
