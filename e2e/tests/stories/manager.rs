//! Our manager as a process: it starts, leads, ends and comes back, with the permissions that our manifests give it.

use std::time::Duration;

use anyhow::ensure;
use capa_e2e::{Manager, World, eventually};

const WITHIN: Duration = Duration::from_mins(1);

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
    let builder = environment
        .manager()
        .leader_election()
        .flag("--leader-elect-lease-duration=3s")
        .flag("--leader-elect-renew-deadline=2s")
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

async fn leads(manager: &Manager, expected: bool) -> anyhow::Result<()> {
    let status = manager.metrics().await?.sum("leader_election_master_status", &[]);
    ensure!(
        status == Some(f64::from(u8::from(expected))),
        "leader_election_master_status is {status:?}"
    );
    Ok(())
}
