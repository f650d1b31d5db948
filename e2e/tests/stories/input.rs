//! What users write is checked before it is used: a pattern, a path, a Secret for somebody else, the mark of a move.

use anyhow::{Context as _, ensure};
use capa_e2e::aws_proxy::{CALLER, Fault};
use capa_e2e::{eventually_by_polling, fixtures};
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::machines::{INLINE, machine};
use super::scenario::{CORE, OURS, Scenario, WITHIN, story};

/// The mark that `clusterctl move` puts on what it deletes.
const MARK: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

/// What no region is called.
const NO_REGIONS: [&str; 3] = ["../x", "US EAST", "eu-west-1.example.org/"];

#[test]
fn only_bootstrap_data_is_delivered_to_instances() -> anyhow::Result<()> {
    story("no-bootstrap-data", async |s| {
        s.cluster("dev").await?;
        let secret = |name: &str, kind: &str| {
            fixtures::bootstrap_secret(name, "#cloud-config").replace("cluster.x-k8s.io/secret", kind)
        };
        s.apply(&secret("dev-kubeconfig", "cluster.x-k8s.io/secret")).await?;
        s.apply(&secret("application", "Opaque")).await?;
        for (name, data, reason, says) in [
            (
                "thief",
                "dev-kubeconfig",
                "NotAllowed",
                "it is the kubeconfig of a cluster",
            ),
            (
                "maker",
                "application",
                "NotAllowed",
                "infrastructure.cluster.x-k8s.io/bootstrap-data",
            ),
            (
                "walker",
                "../../kube-system/secrets/x",
                "InvalidSpec",
                "../../kube-system/secrets/x",
            ),
        ] {
            let yaml = machine(name, "dev", INLINE);
            let named = format!("{{dataSecretName: {name}}}");
            s.apply(&yaml.replace(&named, &format!("{{dataSecretName: \"{data}\"}}")))
                .await?;
            let message = s.machine_condition_false(name, "BootstrapDataReady", reason).await?;
            ensure!(message.contains(says), "{message}");
        }
        assert!(s.launches().is_empty());
        let log = s.manager().log()?;
        let has_condition = |line: &&str| line.contains("BootstrapDataReady is False") || line.contains(" why=\"");
        let mut others = log.lines().filter(|line| !has_condition(line));
        let request = others.find(|line| line.contains("read Secret") || line.contains("kube-system/secrets"));
        assert_eq!(request, None, "a request was made");

        // Whoever wrote the Secret says what it is for.
        let label = json!({"metadata": {"labels": {"infrastructure.cluster.x-k8s.io/bootstrap-data": "true"}}});
        s.patch("v1", "Secret", "application", label).await?;
        s.machine_ready("maker").await?;
        s.assert_mutating(&[("RunInstances", 1)]);
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

#[test]
fn a_refusal_reaches_tenants_without_the_managers_role() -> anyhow::Result<()> {
    story("refusal", async |s| {
        s.cluster("dev").await?;
        let refusal = s.aws().fault(Fault::on("RunInstances").error("UnauthorizedOperation"));
        s.machine("refused", "dev", INLINE).await?;
        let message = s
            .machine_condition_false("refused", "InstanceReady", "Unauthorized")
            .await?;
        for part in ["RunInstances", "AWSClusterControllerIdentity/default"] {
            ensure!(message.contains(part), "{part} is not in {message}");
        }
        s.event("AWSMachine", "refused", "Unauthorized").await?;
        eventually_by_polling(WITHIN, "AWS's words in the log", async || {
            ensure!(s.manager().log()?.contains(CALLER), "not yet");
            Ok(())
        })
        .await?;
        nobody_is_told_the_caller(s).await?;
        refusal.lift();
        s.machine_ready("refused").await?;
        Ok(())
    })
}

/// No object that a tenant can read names the role of the manager.
async fn nobody_is_told_the_caller(scenario: &Scenario) -> anyhow::Result<()> {
    for (api_version, kind) in [
        (OURS, "AWSMachine"),
        (OURS, "AWSCluster"),
        (CORE, "Machine"),
        ("events.k8s.io/v1", "Event"),
    ] {
        let objects = scenario
            .api(api_version, kind)
            .await?
            .list(&ListParams::default())
            .await?
            .items;
        ensure!(!objects.is_empty(), "no {kind}");
        for object in objects {
            let text = serde_json::to_string(&object)?;
            ensure!(!text.contains(CALLER), "{kind} {}: {text}", object.name_any());
        }
    }
    Ok(())
}

mod long_stories {
    use super::*;

    #[test]
    fn ids_that_are_patterns_are_refused_before_any_call() -> anyhow::Result<()> {
        story("patterns", async |s| {
            s.cluster("dev").await?;
            let image = format!("{{id: {}}}", capa_e2e::moto::IMAGE_ID);
            for (name, spec, says) in [
                ("image", "rootVolume: {size: 40}", "ami.id is \"ami-*\""),
                ("subnet", "subnet: {id: \"subnet-*\"}", "subnet.id is"),
                (
                    "group",
                    "additionalSecurityGroups: [{id: \"sg-?\"}]",
                    "additionalSecurityGroups[0].id is",
                ),
                (
                    "key",
                    "rootVolume: {size: 40, encryptionKey: \"alias/*\"}",
                    "rootVolume.encryptionKey is",
                ),
            ] {
                s.bootstrap_secret(name).await?;
                let mut yaml = machine(name, "dev", &format!("{INLINE}, {spec}"));
                if name == "image" {
                    yaml = yaml.replace(&image, "{id: \"ami-*\"}");
                }
                s.apply(&yaml).await?;
                let message = s.machine_condition_false(name, "InstanceReady", "InvalidSpec").await?;
                ensure!(message.starts_with(says), "{message}");
                s.event("AWSMachine", name, "InvalidSpec").await?;
            }
            let calls = s.aws().manager_journal();
            let patterns = calls.matching(|call| call.parameters.values().any(|value| value.contains(['*', '?'])));
            assert!(patterns.is_empty(), "AWS is not even asked: {patterns}");
            assert!(s.launches().is_empty(), "{}", s.launches());
            Ok(())
        })
    }

    #[test]
    fn regions_that_are_none_leave_nothing_behind() -> anyhow::Result<()> {
        story("no-regions", async |s| {
            for (number, region) in NO_REGIONS.iter().enumerate() {
                let name = format!("nowhere-{number}");
                let yaml = s.unmanaged(&name, "").replace("eu-west-1", &format!("\"{region}\""));
                s.owned(&name, &yaml).await?;
                let message = s.await_condition(&name, "NetworkReady", "False", "InvalidSpec").await?;
                ensure!(message.contains("spec.region"), "{message}");
            }
            assert!(s.calls().is_empty());
            let metrics = s.manager().scrape().await?;
            let series = metrics.lines().filter(|line| line.contains("region=\""));
            assert_eq!(series.collect::<Vec<_>>(), [""; 0]);
            Ok(())
        })
    }
}
