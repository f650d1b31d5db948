//! A manager that is killed and started again.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use capa_e2e::eventually_by_polling;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::machines::counts;
use super::scenario::{OURS, REGION, Scenario, WITHIN, settled, story};

/// The quiet time after which no more changes are expected on a busy computer.
const QUIET: Duration = Duration::from_secs(3);
/// The number of machines. One of them is a control plane machine that is registered with a load balancer.
const MACHINES: usize = 11;

/// Waits until no client, core included, has written anything for some seconds, and returns the versions of all
/// objects.
async fn unwritten(scenario: &Scenario) -> anyhow::Result<BTreeMap<String, Option<String>>> {
    settled("all objects", QUIET, WITHIN, async || versions(scenario).await).await
}

/// Waits until the manager has made no pass over a machine or a cluster for some seconds. With shortened periods it
/// lists instances and reads targets all the time; a pass follows only from a change.
async fn quiet(scenario: &Scenario) -> anyhow::Result<()> {
    let manager = scenario.manager();
    let passes = async || {
        let passes = (manager.passes("awsmachine").await?, manager.passes("awscluster").await?);
        anyhow::Ok((passes, scenario.mutating()))
    };
    settled("passes and writes", QUIET, WITHIN, passes).await.map(drop)
}

/// The versions of all objects that the manager could write, events included.
async fn versions(scenario: &Scenario) -> anyhow::Result<BTreeMap<String, Option<String>>> {
    let mut versions = BTreeMap::new();
    for kind in ["AWSMachine", "AWSCluster"] {
        let api = scenario.api(OURS, kind).await?;
        for object in api.list(&ListParams::default()).await?.items {
            versions.insert(format!("{kind} {}", object.name_any()), object.resource_version());
        }
    }
    let events: Api<Event> = Api::namespaced(scenario.environment.client(), scenario.namespace());
    for event in events.list(&ListParams::default()).await?.items {
        let ours = event.regarding.as_ref().and_then(|regarding| regarding.api_version.as_deref()) == Some(OURS);
        if ours {
            versions.insert(format!("Event {}", event.name_any()), event.resource_version());
        }
    }
    Ok(versions)
}

mod long_stories {
    use super::*;

    #[test]
    fn a_restarted_manager_launches_nothing_and_writes_nothing() -> anyhow::Result<()> {
        story("restart", async |s| {
            let balancer = s.balancer().await?;
            let targets = format!("[{{targetGroupARN: '{}'}}]", balancer.target_group_arn);
            s.cluster_with_targets("dev", &targets).await?;
            s.machine_deployment("workers", "dev", 10).await?;
            s.control_plane_machine("first", "dev").await?;
            s.targets_say("first", "True", "Ready").await?;
            s.machines_ready(MACHINES).await?;
            // The next manager finishes the work of this one, and this story is about a manager without unfinished
            // work.
            quiet(s).await?;
            s.manager().kill().await?;
            let before = unwritten(s).await?;
            let aws = s.aws();
            let mark = aws.mark();

            // With real periods and no second listing: every call is a consequence of the start.
            let builder = s.new_manager().flag("--instance-poll-interval=1h");
            let manager = builder.start().await?;
            let names = s.names_of_machines(MACHINES).await?;
            eventually_by_polling(WITHIN, "a look at everything and a listing", async || {
                let listed = manager.metrics().await?.sum("capa_instance_store_instances", &[("region", REGION)]);
                let looked = aws.journal_since(mark).of("DescribeTargetHealth").len();
                ensure!(looked == 1, "no look at the targets yet");
                ensure!(listed == Some(11.0), "the instance informer has {listed:?}");
                let machines = names.iter().map(|name| ("awsmachine", name.as_str()));
                for (controller, name) in machines.chain([("awscluster", "dev")]) {
                    ensure!(!manager.looked_at(controller, name)?.is_empty(), "no pass over {name}");
                }
                Ok(())
            })
            .await?;
            quiet(s).await?;
            assert_eq!(unwritten(s).await?, before, "nothing was written");
            let calls = aws.manager_journal_since(mark);
            let expected = counts(&[
                ("DescribeInstances", 1),
                ("DescribeTargetGroups", 1),
                ("DescribeTargetHealth", 1),
                ("DescribeVpcs", 1),
                ("GetCallerIdentity", 1),
            ]);
            assert_eq!(calls.counts().into_iter().collect::<Vec<_>>(), expected, "{calls}");
            s.assert_mutating(&[("RegisterTargets", 1), ("RunInstances", MACHINES)]);
            Ok(())
        })
    }
}
