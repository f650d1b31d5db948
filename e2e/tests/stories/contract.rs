//! Requirements of Cluster API's contract that no other story is about. `docs/contract.md` lists them all.

use anyhow::ensure;
use capa_e2e::eventually;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::machines::{INLINE, counts};
use super::scenario::{CORE, OURS, Scenario, WITHIN, template};

const FINALIZER: &str = "awsmachine.infrastructure.cluster.x-k8s.io";

/// What server-side apply shows in a dry run, without what the server stamps on it.
async fn dry_run(scenario: &Scenario, kind: &str, yaml: &str) -> anyhow::Result<Value> {
    let document: DynamicObject = capa_e2e::objects::parse(yaml)?.remove(0);
    let api = scenario.environment.api(OURS, kind).await?;
    let parameters = PatchParams {
        dry_run: true,
        ..PatchParams::apply("capi-topology").force()
    };
    let name = document.metadata.name.clone().unwrap_or_default();
    let answer = api.patch(&name, &parameters, &Patch::Apply(&document)).await?;
    let mut answer = serde_json::to_value(answer)?;
    for stamp in ["uid", "creationTimestamp", "managedFields"] {
        answer["metadata"][stamp] = Value::Null;
    }
    Ok(answer)
}

#[tokio::test]
async fn defaults_are_the_same_in_every_dry_run() -> anyhow::Result<()> {
    let scenario = Scenario::new("dry-run").await?;
    capa_e2e::World::shared().await?.install_provider().await?;
    let cluster_template = format!(
        "apiVersion: {OURS}\nkind: AWSClusterTemplate\nmetadata: {{name: dev}}\n\
         spec: {{template: {{spec: {{region: eu-west-1, unmanaged: true, bastion: {{enabled: false}}}}}}}}"
    );
    let machine = format!(
        "apiVersion: {OURS}\nkind: AWSMachine\nmetadata: {{name: dev}}\n\
         spec: {{instanceType: t3.large, instanceMetadataOptions: {{httpTokens: required}}, rootVolume: {{size: 20}}}}"
    );
    for (kind, yaml) in [
        ("AWSCluster", scenario.unmanaged("dev", "")),
        ("AWSClusterTemplate", cluster_template),
        ("AWSMachine", machine),
        ("AWSMachineTemplate", template("dev", "")),
    ] {
        let first = dry_run(&scenario, kind, &yaml).await?;
        let mut again = first.clone();
        again["metadata"] = json!({"name": "dev"});
        let second = dry_run(&scenario, kind, &yaml).await?;
        assert_eq!(first.to_string(), second.to_string(), "{kind}");
        // What was defaulted once is not defaulted otherwise when it comes back.
        let returned = dry_run(&scenario, kind, &serde_json::to_string(&again)?).await?;
        assert_eq!(first["spec"].to_string(), returned["spec"].to_string(), "{kind}");
    }
    scenario.environment.finish().await
}

#[tokio::test]
async fn our_finalizer_comes_back_when_somebody_takes_it_off() -> anyhow::Result<()> {
    let scenario = Scenario::new("finalizer").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    scenario.machine("held", "dev", INLINE).await?;
    scenario.machine_ready("held").await?;
    scenario
        .patch(OURS, "AWSMachine", "held", json!({"metadata": {"finalizers": null}}))
        .await?;
    eventually(WITHIN, "our finalizer to be back", async || {
        let finalizers = scenario.get(OURS, "AWSMachine", "held").await?.metadata.finalizers;
        ensure!(
            finalizers == Some(vec![FINALIZER.to_owned()]),
            "there are {finalizers:?}"
        );
        Ok(())
    })
    .await?;
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", 1)]));
    scenario.begin_deletion(CORE, "Machine", "held").await?;
    scenario.gone(OURS, "AWSMachine", &["held"]).await?;
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn paused_tells_which_generation_it_speaks_of() -> anyhow::Result<()> {
    let scenario = Scenario::new("paused-generation").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    let says = async |status: &str, generation: i64| {
        eventually(
            WITHIN,
            &format!("Paused={status} of generation {generation}"),
            async || {
                let cluster = scenario.aws_cluster("dev").await?;
                let conditions = cluster.data["status"]["conditions"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                let paused = conditions.into_iter().find(|condition| condition["type"] == "Paused");
                let paused = paused.unwrap_or_default();
                ensure!(
                    paused["status"] == status && paused["observedGeneration"] == generation,
                    "it says {paused}"
                );
                Ok(())
            },
        )
        .await
    };
    says("False", 1).await?;
    let pause = |paused: bool| json!({"spec": {"paused": paused}});
    scenario.patch(CORE, "Cluster", "dev", pause(true)).await?;
    says("True", 1).await?;
    scenario
        .change("dev", json!({"spec": {"additionalTags": {"cost-centre": "42"}}}))
        .await?;
    says("True", 2).await?;
    scenario.patch(CORE, "Cluster", "dev", pause(false)).await?;
    says("False", 2).await?;
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_hook_before_termination_keeps_the_instance_alive() -> anyhow::Result<()> {
    let scenario = Scenario::new("pre-terminate").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    scenario.machine("drained", "dev", INLINE).await?;
    let ready = scenario.machine_ready("drained").await?;
    let id = ready.data["spec"]["instanceID"].as_str().unwrap_or_default().to_owned();
    let hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/backup";
    let annotated = |value: Value| json!({"metadata": {"annotations": {hook: value}}});
    scenario.patch(CORE, "Machine", "drained", annotated(json!(""))).await?;
    scenario.begin_deletion(CORE, "Machine", "drained").await?;
    eventually(WITHIN, "core to wait for the hook", async || {
        let machine = scenario.get(CORE, "Machine", "drained").await?;
        let phase = machine.data["status"]["deletion"].clone();
        let conditions = machine.data["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let waits = conditions
            .iter()
            .any(|condition| condition["type"] == "Deleting" && condition["reason"] == "WaitingForPreTerminateHook");
        ensure!(waits, "it does not: {phase}");
        Ok(())
    })
    .await?;
    assert_eq!(scenario.terminations(&id), 0);
    assert_eq!(scenario.state_of(&id).await?, "running");
    scenario
        .patch(CORE, "Machine", "drained", annotated(Value::Null))
        .await?;
    scenario.gone(OURS, "AWSMachine", &["drained"]).await?;
    assert_eq!(scenario.terminations(&id), 1);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_failure_domain_is_named_once() -> anyhow::Result<()> {
    let scenario = Scenario::new("failure-domains").await?;
    capa_e2e::World::shared().await?.install_provider().await?;
    scenario.environment.apply(&scenario.unmanaged("dev", "")).await?;
    let api = scenario.environment.api(OURS, "AWSCluster").await?;
    let domains = |names: &[&str]| {
        let domains: Vec<_> = names
            .iter()
            .map(|name| json!({"name": name, "controlPlane": true}))
            .collect();
        Patch::Merge(json!({"status": {"failureDomains": domains}}))
    };
    let parameters = PatchParams::default();
    api.patch_status("dev", &parameters, &domains(&["eu-west-1a", "eu-west-1b"]))
        .await?;
    let twice = api
        .patch_status("dev", &parameters, &domains(&["eu-west-1a", "eu-west-1a"]))
        .await;
    let refusal = twice.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(
        refusal.contains("status.failureDomains[1]: Duplicate value"),
        "{refusal}"
    );
    scenario.environment.finish().await
}
