//! Our manager as a process: it starts, leads, ends and comes back, with the permissions that our manifests give it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use capa_e2e::{Manager, World, eventually};
use serde_json::Value;

use super::scenario::Scenario;

const WITHIN: Duration = Duration::from_mins(3);

#[tokio::test]
async fn the_manager_is_ready_with_its_own_permissions_and_ends_when_asked() -> anyhow::Result<()> {
    let environment = World::shared().await?.test("manager").await?;
    let manager = environment.manager().start().await?;
    manager.ready().await?;
    let log = manager.log()?;
    assert!(!log.to_lowercase().contains("forbidden"), "{log}");
    assert!(
        !log.contains(&environment.aws().key().secret_access_key),
        "the log has the secret key"
    );
    let status = manager.stop().await?;
    assert!(status.success(), "{status}");
    assert!(
        environment.aws().journal().is_empty(),
        "{}",
        environment.aws().journal()
    );
    environment.finish().await
}

#[tokio::test]
async fn the_manager_also_runs_inside_a_test() -> anyhow::Result<()> {
    let environment = World::shared().await?.test("in-process").await?;
    let manager = environment.manager().start_in_process("eu-west-1").await?;
    manager.stop().await?;
    environment.finish().await
}

#[tokio::test]
async fn of_two_managers_one_leads_until_it_crashes() -> anyhow::Result<()> {
    let environment = World::shared().await?.test("leaders").await?;
    // A leader that a busy machine keeps from its work for some seconds leads on.
    let builder = environment
        .manager()
        .leader_election()
        .flag("--leader-elect-lease-duration=9s")
        .flag("--leader-elect-renew-deadline=7s")
        .flag("--leader-elect-retry-period=500ms");
    let first = builder.start().await?;
    eventually(WITHIN, "the first to lead", async || leads(&first, true).await).await?;
    let second = builder.start().await?;
    leads(&second, false).await?;

    first.kill().await?;
    eventually(WITHIN, "the second to lead", async || leads(&second, true).await).await?;
    assert!(second.stop().await?.success());
    environment.finish().await
}

#[tokio::test]
async fn a_manager_with_flags_that_cannot_be_meant_ends_and_says_why() -> anyhow::Result<()> {
    let environment = World::shared().await?.test("flags").await?;
    for (flag, says) in [
        ("--health-addr=nowhere", "--health-addr"),
        ("--logging-format=xml", "expected text or json"),
        ("--sync-period=soon", "--sync-period"),
        ("--awscluster-concurency=5", "--awscluster-concurrency"),
        ("--diagnostics-address=nowhere", "--diagnostics-address"),
        ("--tls-min-version=VersionTLS11", "VersionTLS12"),
    ] {
        let ended = environment.manager().flag(flag).start().await.err();
        let error = format!("{:#}", ended.with_context(|| format!("{flag} was accepted"))?);
        assert!(error.contains("exit status") && error.contains(says), "{flag}: {error}");
    }
    environment.finish().await
}

#[tokio::test]
async fn log_lines_of_a_pass_tell_its_object_and_pass() -> anyhow::Result<()> {
    let scenario = Scenario::new("logs").await?;
    let manager = scenario.environment.manager();
    let manager = manager.flag("--logging-format=json").flag("-v=5").start().await?;
    scenario.cluster("dev").await?;
    scenario.reconciles_without_a_write(&manager, "dev", 3).await?;
    let log = manager.log()?;
    let mut passes = BTreeSet::new();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        ensure!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
        if line["controller"] == "awscluster" && line["cluster"] == "dev" {
            assert_eq!(
                (&line["namespace"], &line["name"]),
                (&scenario.environment.namespace().into(), &"dev".into())
            );
            passes.insert(line["reconcile_id"].as_str().context("no reconcile_id")?.to_owned());
        }
    }
    assert!(passes.len() >= 3, "{passes:?} in {log}");
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

/// Fails unless the manager leads, or does not, as expected.
pub(crate) async fn leads(manager: &Manager, expected: bool) -> anyhow::Result<()> {
    let status = manager.metrics().await?.sum("leader_election_master_status", &[]);
    ensure!(
        status == Some(f64::from(u8::from(expected))),
        "leader_election_master_status is {status:?}"
    );
    Ok(())
}
