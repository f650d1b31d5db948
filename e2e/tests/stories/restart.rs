//! A manager that is killed and comes back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use capa_e2e::{Manager, eventually};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::machines::counts;
use super::scenario::{OURS, REGION, Scenario, WITHIN};

/// How long nothing must happen, for nothing more to be on its way on a busy machine.
const QUIET: Duration = Duration::from_secs(3);
/// One of them of the control plane, and registered with a load balancer.
const MACHINES: usize = 11;

#[tokio::test]
async fn a_manager_that_comes_back_launches_nothing_and_writes_nothing() -> anyhow::Result<()> {
    let scenario = Scenario::new("restart").await?;
    let manager = scenario.manager().await?;
    let balancer = scenario.balancer().await?;
    let targets = format!("[{{targetGroupARN: '{}'}}]", balancer.target_group_arn);
    scenario.cluster_with_targets("dev", &targets).await?;
    scenario.machine_deployment("workers", "dev", 10).await?;
    scenario.control_plane_machine("first", "dev").await?;
    scenario.targets_say("first", "True", "Ready").await?;
    scenario.machines_ready(MACHINES).await?;
    // What a manager has not finished is finished by the next one, and this story is about nothing to finish.
    quiet(&scenario, &manager).await?;
    manager.kill().await?;
    let before = settled(&scenario).await?;
    let aws = scenario.environment.aws();
    let mark = aws.mark();

    // With real periods and no second listing: what it calls, it calls because it has started.
    let builder = scenario.environment.manager().flag("--instance-poll-interval=1h");
    let manager = builder.start().await?;
    let names = scenario.names_of_machines(MACHINES).await?;
    eventually(WITHIN, "a look at everything and a listing", async || {
        let listed = manager
            .metrics()
            .await?
            .sum("capa_instance_store_instances", &[("region", REGION)]);
        let looked = aws.journal_since(mark).of("DescribeTargetHealth").len();
        ensure!(looked == 1, "no look at the targets yet");
        ensure!(listed == Some(11.0), "the store has {listed:?}");
        let machines = names.iter().map(|name| ("awsmachine", name.as_str()));
        for (controller, name) in machines.chain([("awscluster", "dev")]) {
            ensure!(!manager.looked_at(controller, name)?.is_empty(), "no pass over {name}");
        }
        Ok(())
    })
    .await?;
    quiet(&scenario, &manager).await?;
    assert_eq!(settled(&scenario).await?, before, "nothing was written");
    let calls = aws.journal_since(mark).except(&aws.user_key().access_key_id);
    let expected = counts(&[
        ("DescribeInstances", 1),
        ("DescribeTargetGroups", 1),
        ("DescribeTargetHealth", 1),
        ("GetCallerIdentity", 1),
    ]);
    assert_eq!(calls.counts().into_iter().collect::<Vec<_>>(), expected, "{calls}");
    assert_eq!(
        scenario.mutating(),
        counts(&[("RegisterTargets", 1), ("RunInstances", MACHINES)])
    );
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

/// Waits until nobody has written anything for some seconds, core included, and gives the versions of everything then.
async fn settled(scenario: &Scenario) -> anyhow::Result<BTreeMap<String, Option<String>>> {
    unchanged("a write", async || versions(scenario).await).await
}

/// Waits until the manager has made no pass over a machine or a cluster for some seconds. The hurried one lists instances
/// and looks at targets all the time; a pass is what comes of a change.
async fn quiet(scenario: &Scenario, manager: &Manager) -> anyhow::Result<()> {
    let passes = async || {
        let passes = (manager.passes("awsmachine").await?, manager.passes("awscluster").await?);
        anyhow::Ok((passes.0.to_string(), passes.1.to_string(), scenario.mutating()))
    };
    unchanged("a pass", passes).await.map(drop)
}

/// Looks until the same was seen for some seconds, and gives it.
async fn unchanged<T: PartialEq + Clone>(
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut last = None;
    eventually(WITHIN, &format!("{} s without {what}", QUIET.as_secs()), async || {
        let now = look().await?;
        let (since, seen) = last.get_or_insert_with(|| (Instant::now(), now.clone()));
        if *seen != now {
            last = Some((Instant::now(), now));
            bail!("there was one");
        }
        ensure!(since.elapsed() >= QUIET, "{} s so far", since.elapsed().as_secs());
        Ok(now)
    })
    .await
}

/// The version of everything that our manager could write, events included.
async fn versions(scenario: &Scenario) -> anyhow::Result<BTreeMap<String, Option<String>>> {
    let mut versions = BTreeMap::new();
    for kind in ["AWSMachine", "AWSCluster"] {
        let api = scenario.environment.api(OURS, kind).await?;
        for object in api.list(&ListParams::default()).await?.items {
            versions.insert(format!("{kind} {}", object.name_any()), object.resource_version());
        }
    }
    let events: Api<Event> = Api::namespaced(scenario.environment.client(), scenario.environment.namespace());
    for event in events.list(&ListParams::default()).await?.items {
        let ours = event
            .regarding
            .as_ref()
            .and_then(|regarding| regarding.api_version.as_deref())
            == Some(OURS);
        if ours {
            versions.insert(format!("Event {}", event.name_any()), event.resource_version());
        }
    }
    Ok(versions)
}
