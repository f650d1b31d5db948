//! Credentials that turn out to be those of another account.

use std::time::Duration;

use anyhow::ensure;
use capa_e2e::aws_proxy::{AccessKey, Fault};
use capa_e2e::{eventually, objects};
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::json;

use super::super::machines::{INLINE, condition_of, passes, text};
use super::super::scenario::{CORE, OURS, Scenario, WITHIN};
use super::{ANSWER, Story, all_seeds, seed};

/// Where the manager looks for the Secrets of static identities: its own namespace.
const IDENTITY_NAMESPACE: &str = "capa-rs-system";
/// Real periods divided by this.
const DIVISOR: u32 = 60;
/// An instance older than this could be concluded to be gone: five minutes, divided.
const OLD: Duration = Duration::from_secs(300 / DIVISOR as u64);

#[tokio::test]
async fn credentials_of_another_account_delete_nothing_and_declare_nothing_gone() -> anyhow::Result<()> {
    switched(seed()?).await
}

mod long_stories {
    #[tokio::test]
    async fn credentials_of_another_account_never_do_harm() -> anyhow::Result<()> {
        super::all_seeds(super::switched).await
    }
}

async fn switched(seed: u64) -> anyhow::Result<()> {
    let mut story = Story::new("switched account", seed);
    let scenario = Scenario::new("switched").await?;
    let environment = &scenario.environment;
    let (aws, other) = (environment.aws(), environment.world().aws().account());
    let manager = environment.manager().flag(format!("--timing-divisor={DIVISOR}"));
    // The Secret is not watched: a rotation is noticed at the next look at a machine.
    let manager = manager.flag("--sync-period=1s").start().await?;
    identity(&scenario, aws.key()).await?;
    let reference = format!(
        "  identityRef: {{kind: AWSClusterStaticIdentity, name: {}}}",
        environment.namespace()
    );
    scenario.owned("dev", &scenario.unmanaged("dev", &reference)).await?;
    scenario.infrastructure_provisioned("dev").await?;
    let steady = story.moments.usize(2..=4);
    for number in 0..steady {
        scenario.machine(&format!("steady-{number}"), "dev", INLINE).await?;
    }
    scenario.machine("doomed", "dev", INLINE).await?;
    scenario.machines_ready(steady + 1).await?;

    // One launch is under way when the credentials change, one deletion comes right after.
    let held = aws.fault(Fault::on("RunInstances").delay(ANSWER));
    scenario.machine("fresh", "dev", INLINE).await?;
    aws.some_unanswered_launches(1, WITHIN).await?;
    identity(&scenario, other.key()).await?;
    scenario.begin_deletion(CORE, "Machine", "doomed").await?;
    let (all, before) = (steady + 2, scenario.ever_launched());
    eventually(WITHIN, "every machine to say that its account is another", async || {
        for machine in scenario.machines().await? {
            let identity = condition_of(&machine, "IdentityReady")?;
            ensure!(
                identity.status == "False" && identity.reason == "AccountMismatch",
                "{} says {identity:?}",
                machine.name_any()
            );
        }
        Ok(())
    })
    .await?;
    let (since, looks) = (Timestamp::now(), passes(&manager).await?);
    eventually(
        WITHIN,
        "instances old enough to be believed gone, and looks at them",
        async || {
            ensure!(since.duration_until(Timestamp::now()).unsigned_abs() > OLD, "too young");
            ensure!(passes(&manager).await? > looks + 10.0, "not looked at often enough");
            Ok(())
        },
    )
    .await?;
    let machines = scenario.machines().await?;
    assert_eq!(machines.len(), all, "none is gone, the deleted one neither");
    for machine in &machines {
        let instance = objects::condition(machine, "InstanceReady");
        let reason = instance.map(|condition| condition.reason).unwrap_or_default();
        ensure!(
            !["Terminated", "NotFound", "Terminating"].contains(&reason.as_str()),
            "{} says {reason}",
            machine.name_any()
        );
    }
    assert_eq!(scenario.user.live_instances().await?.len(), all);
    let elsewhere = other.manager_journal();
    assert!(elsewhere.mutating().is_empty(), "{elsewhere}");
    assert!(!elsewhere.is_empty(), "nobody has used the other account's key");

    held.lift();
    identity(&scenario, aws.key()).await?;
    scenario.gone(OURS, "AWSMachine", &["doomed"]).await?;
    let machines = scenario.machines_ready(all - 1).await?;
    assert!(
        machines
            .iter()
            .all(|machine| before.contains(text(machine, "/status/launch/instanceID")))
    );
    let live = scenario.ensure_one_instance_each().await?;
    story.report(&format!(
        "{all} machines, {} instances launched, {} calls in the other account ({} that \
         change something), {live} live after the credentials came back and one machine was deleted",
        scenario.ever_launched().len(),
        elsewhere.len(),
        elsewhere.mutating().len(),
    ))?;
    assert_eq!((scenario.ever_launched().len(), live), (all, all - 1));
    ensure!(manager.stop().await?.success());
    scenario.environment.finish().await
}

/// Applies a static identity, called like the story's namespace, with this key.
async fn identity(scenario: &Scenario, key: &AccessKey) -> anyhow::Result<()> {
    let name = scenario.environment.namespace();
    let identity = json!({
        "apiVersion": OURS,
        "kind": "AWSClusterStaticIdentity",
        "metadata": {"name": name},
        "spec": {"secretRef": name, "allowedNamespaces": {}},
    });
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": IDENTITY_NAMESPACE},
        "stringData": {"AccessKeyID": key.access_key_id, "SecretAccessKey": key.secret_access_key},
    });
    for object in [identity, secret] {
        scenario.environment.apply(&object.to_string()).await?;
    }
    Ok(())
}
