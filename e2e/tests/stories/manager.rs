//! The manager as a process: its start, leadership, end and restart, with the permissions of the released manifests.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use capa_api::meta::DEFINITION_ANNOTATION;
use capa_e2e::{Manager, Story, TestEnvironment, eventually, eventually_by_polling};
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::scenario::run_story;

const WITHIN: Duration = Duration::from_mins(3);

#[test]
fn the_manager_becomes_ready_and_ends_under_its_own_permissions() -> anyhow::Result<()> {
    Story::new("manager").run(async |environment| {
        let manager = environment.new_manager().start().await?;
        manager.ready().await?;
        let log = manager.log()?;
        assert!(!log.to_lowercase().contains("forbidden"), "{log}");
        assert!(!log.contains(&environment.aws().key().secret_access_key), "the log has the secret key");
        manager.stop().await?;
        assert!(environment.aws().journal().is_empty(), "{}", environment.aws().journal());
        Ok(())
    })
}

#[test]
fn of_two_managers_one_leads_until_it_crashes() -> anyhow::Result<()> {
    Story::new("leaders").run(async |environment| {
        // A leader whose busy host delays it for some seconds keeps leading.
        let builder = environment
            .new_manager()
            .leader_election()
            .flag("--leader-elect-lease-duration=20s")
            .flag("--leader-elect-renew-deadline=15s")
            .flag("--leader-elect-retry-period=500ms");
        let first = builder.start().await?;
        eventually(WITHIN, "the first to lead", async || leads(&first, true).await).await?;
        let second = builder.start().await?;
        // The second tries once between three renewals.
        for _ in 0..3 {
            renewed(environment).await?;
        }
        leads(&first, true).await?;
        leads(&second, false).await?;

        first.kill().await?;
        eventually(WITHIN, "the second to lead", async || leads(&second, true).await).await?;
        Ok(())
    })
}

#[test]
fn a_manager_with_invalid_flags_ends_with_the_reason() -> anyhow::Result<()> {
    Story::new("flags").run(async |environment| {
        for (flag, says) in [
            ("--health-addr=nowhere", "--health-addr"),
            ("--logging-format=xml", "expected text or json"),
            ("--sync-period=soon", "--sync-period"),
            ("--awscluster-concurency=5", "--awscluster-concurrency"),
            ("--diagnostics-address=nowhere", "--diagnostics-address"),
            ("--tls-min-version=VersionTLS11", "VersionTLS12"),
        ] {
            let ended = environment.new_manager().flag(flag).start().await.err();
            let error = format!("{:#}", ended.with_context(|| format!("{flag} was accepted"))?);
            assert!(error.contains("exit status") && error.contains(says), "{flag}: {error}");
            let told = error.lines().filter(|line| line.contains("ERROR") || line.contains("capa-rs:"));
            assert!(told.count() <= 1, "{flag}: {error}");
        }
        Ok(())
    })
}

#[test]
fn log_lines_of_a_pass_tell_its_object_and_pass() -> anyhow::Result<()> {
    run_story(Story::new("logs"), async |s| {
        let manager = s.new_manager();
        let manager = manager.flag("--logging-format=json").flag("-v=5").start().await?;
        s.cluster("dev").await?;
        s.reconciles_without_a_write("dev", 3).await?;
        let log = manager.log()?;
        let mut passes = BTreeSet::new();
        // The manager may be writing its last line.
        let (complete, _) = log.rsplit_once('\n').context("no line")?;
        for line in complete.lines() {
            let line: Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
            ensure!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
            if line["message"] == "reconciled" {
                ensure!(line["took_seconds"].is_number() && line["why"].is_string(), "{line}");
            }
            if line["controller"] == "awscluster" && line["cluster"] == "dev" {
                assert_eq!((&line["namespace"], &line["name"]), (&s.namespace().into(), &"dev".into()));
                passes.insert(line["reconcile_id"].as_str().context("no reconcile_id")?.to_owned());
            }
        }
        assert!(passes.len() >= 3, "{passes:?} in {log}");
        Ok(())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn a_manager_beside_definitions_of_another_release_does_not_start() -> anyhow::Result<()> {
        run_story(Story::new("definitions").in_its_own_world(&[]), async |s| {
            for (api_version, kind, name) in [
                ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "awsmachines.infrastructure.cluster.x-k8s.io"),
                ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "capa-rs-machine-immutable"),
            ] {
                let mark = |hash: &str| json!({"metadata": {"annotations": {DEFINITION_ANNOTATION: hash}}});
                let installed = s.get(api_version, kind, name).await?;
                let ours = installed.annotations().get(DEFINITION_ANNOTATION).cloned();
                s.patch(api_version, kind, name, mark("another")).await?;
                let ended = s.new_manager().start().await.err().context("the manager has started")?;
                let error = format!("{ended:#}");
                ensure!(error.contains("exit status") && error.contains(&format!("{kind} {name}")), "{error}");
                s.patch(api_version, kind, name, mark(&ours.context("no annotation")?)).await?;
            }
            s.start_manager().await.map(drop)
        })
    }
}

/// Waits until the leader renews its Lease.
async fn renewed(environment: &TestEnvironment) -> anyhow::Result<()> {
    let leases = environment.api("coordination.k8s.io/v1", "Lease").await?;
    let renewals = async || -> anyhow::Result<Vec<Value>> {
        let leases = leases.list(&ListParams::default()).await?;
        Ok(leases.items.iter().map(|lease| lease.data["spec"]["renewTime"].clone()).collect())
    };
    let before = renewals().await?;
    eventually_by_polling(WITHIN, "the leader to renew its Lease", async || {
        let now = renewals().await?;
        ensure!(now != before, "it was renewed at {before:?}");
        Ok(())
    })
    .await
}

/// Fails unless the manager leads, or does not, as expected.
pub(crate) async fn leads(manager: &Manager, expected: bool) -> anyhow::Result<()> {
    let status = manager.metrics().await?.sum("leader_election_master_status", &[]);
    ensure!(status == Some(f64::from(u8::from(expected))), "leader_election_master_status is {status:?}");
    Ok(())
}
