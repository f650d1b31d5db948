//! Requirements of Cluster API's contract without a story of their own. `docs/contract.md` lists all requirements.

use anyhow::ensure;
use capa_e2e::{Story, eventually};
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::machines::INLINE;
use super::scenario::{CORE, OURS, Scenario, WITHIN, run_story, story, template};

const FINALIZER: &str = "awsmachine.infrastructure.cluster.x-k8s.io";

/// The result of a server-side apply in a dry run, without the fields that the server sets.
async fn dry_run(scenario: &Scenario, kind: &str, yaml: &str) -> anyhow::Result<Value> {
    let document: DynamicObject = capa_e2e::objects::parse(yaml)?.remove(0);
    let api = scenario.api(OURS, kind).await?;
    let parameters = PatchParams { dry_run: true, ..PatchParams::apply("capi-topology").force() };
    let name = document.metadata.name.clone().unwrap_or_default();
    let answer = api.patch(&name, &parameters, &Patch::Apply(&document)).await?;
    let mut answer = serde_json::to_value(answer)?;
    for stamp in ["uid", "creationTimestamp", "managedFields"] {
        answer["metadata"][stamp] = Value::Null;
    }
    Ok(answer)
}

#[test]
fn defaults_are_the_same_in_every_dry_run() -> anyhow::Result<()> {
    run_story(Story::new("dry-run"), async |s| {
        let cluster_template = format!(
            "apiVersion: {OURS}\nkind: AWSClusterTemplate\nmetadata: {{name: dev}}\n\
         spec: {{template: {{spec: {{region: eu-west-1, unmanaged: true, bastion: {{enabled: false}}}}}}}}"
        );
        let machine = format!(
            "apiVersion: {OURS}\nkind: AWSMachine\nmetadata: {{name: dev}}\n\
         spec: {{instanceType: t3.large, instanceMetadataOptions: {{httpTokens: required}}, rootVolume: {{size: 20}}}}"
        );
        for (kind, yaml) in [
            ("AWSCluster", s.unmanaged("dev", "")),
            ("AWSClusterTemplate", cluster_template),
            ("AWSMachine", machine),
            ("AWSMachineTemplate", template("dev", "")),
        ] {
            let first = dry_run(s, kind, &yaml).await?;
            let mut again = first.clone();
            again["metadata"] = json!({"name": "dev"});
            let second = dry_run(s, kind, &yaml).await?;
            assert_eq!(first.to_string(), second.to_string(), "{kind}");
            // A defaulted object keeps its defaults when it is applied again.
            let returned = dry_run(s, kind, &serde_json::to_string(&again)?).await?;
            assert_eq!(first["spec"].to_string(), returned["spec"].to_string(), "{kind}");
        }
        Ok(())
    })
}

#[test]
fn a_hook_before_termination_keeps_the_instance_alive() -> anyhow::Result<()> {
    story("pre-terminate", async |s| {
        s.cluster("dev").await?;
        s.machine("drained", "dev", INLINE).await?;
        let ready = s.machine_ready("drained").await?;
        let id = ready.data["spec"]["instanceID"].as_str().unwrap_or_default().to_owned();
        let hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/backup";
        let annotated = |value: Value| json!({"metadata": {"annotations": {hook: value}}});
        s.patch(CORE, "Machine", "drained", annotated(json!(""))).await?;
        s.begin_deletion(CORE, "Machine", "drained").await?;
        eventually(WITHIN, "core to wait for the hook", async || {
            let machine = s.get(CORE, "Machine", "drained").await?;
            let phase = machine.data["status"]["deletion"].clone();
            let conditions = machine.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let waits = conditions.iter().any(|condition| {
                condition["type"] == "Deleting" && condition["reason"] == "WaitingForPreTerminateHook"
            });
            ensure!(waits, "the Cluster does not wait: {phase}");
            Ok(())
        })
        .await?;
        assert!(!s.has_terminated(&id));
        assert_eq!(s.state_of(&id).await?, "running");
        s.patch(CORE, "Machine", "drained", annotated(Value::Null)).await?;
        s.gone(OURS, "AWSMachine", &["drained"]).await?;
        assert!(s.has_terminated(&id));
        Ok(())
    })
}

#[test]
fn a_failure_domain_is_named_once() -> anyhow::Result<()> {
    run_story(Story::new("failure-domains"), async |s| {
        s.apply(&s.unmanaged("dev", "")).await?;
        let api = s.api(OURS, "AWSCluster").await?;
        let domains = |names: &[&str]| {
            let domains: Vec<_> = names.iter().map(|name| json!({"name": name, "controlPlane": true})).collect();
            Patch::Merge(json!({"status": {"failureDomains": domains}}))
        };
        let parameters = PatchParams::default();
        api.patch_status("dev", &parameters, &domains(&["eu-west-1a", "eu-west-1b"])).await?;
        let twice = api.patch_status("dev", &parameters, &domains(&["eu-west-1a", "eu-west-1a"])).await;
        let refusal = twice.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refusal.contains("status.failureDomains[1]: Duplicate value"), "{refusal}");
        Ok(())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn a_removed_finalizer_is_added_again() -> anyhow::Result<()> {
        story("finalizer", async |s| {
            s.cluster("dev").await?;
            s.machine("held", "dev", INLINE).await?;
            s.machine_ready("held").await?;
            s.patch(OURS, "AWSMachine", "held", json!({"metadata": {"finalizers": null}})).await?;
            eventually(WITHIN, "our finalizer to be back", async || {
                let finalizers = s.get(OURS, "AWSMachine", "held").await?.metadata.finalizers;
                ensure!(finalizers == Some(vec![FINALIZER.to_owned()]), "there are {finalizers:?}");
                Ok(())
            })
            .await?;
            s.assert_mutating(&[("RunInstances", 1)]);
            s.begin_deletion(CORE, "Machine", "held").await?;
            s.gone(OURS, "AWSMachine", &["held"]).await
        })
    }
}
