//! What follows an attempt to launch that AWS refuses, lets die, or does not answer.

use std::time::Duration;

use anyhow::{Context, ensure};
use capa_e2e::aws_proxy::Fault;
use capa_e2e::eventually;
use kube::ResourceExt as _;
use serde_json::json;

use super::machines::{INLINE, at, counts, text};
use super::scenario::{CORE, OURS, Scenario, WITHIN};

const ABANDON: &str = "infrastructure.cluster.x-k8s.io/abandon-instance";
const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";

/// The tokens of all calls that launched or should have, each once.
fn tokens(scenario: &Scenario) -> anyhow::Result<Vec<String>> {
    let launches = scenario.launches();
    let tokens = launches.calls().iter().map(|call| call.parameter("ClientToken"));
    let mut tokens: Vec<String> = tokens
        .map(|token| token.map(str::to_owned).context("a launch without a token"))
        .collect::<anyhow::Result<_>>()?;
    tokens.dedup();
    Ok(tokens)
}

#[tokio::test]
async fn a_zone_without_capacity_is_left_for_the_next_unless_the_machine_is_bound_to_it() -> anyhow::Result<()> {
    let scenario = Scenario::new("capacity").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    // All subnets are empty: the lowest id is tried first.
    let network = &scenario.network;
    let lowest = network.zones.iter().min_by_key(|zone| &zone.private_subnet_id);
    let short = lowest.context("no zones")?;
    let fault = Fault::on("RunInstances")
        .in_zone(&short.name)
        .error("InsufficientInstanceCapacity");
    let fault = scenario.environment.aws().fault(fault);
    scenario.machine("free", "dev", INLINE).await?;
    let free = scenario.machine_ready("free").await?;
    assert_ne!(text(&free, "/status/failureDomain"), short.name);
    let uid = free.metadata.uid.clone().context("no uid")?;
    assert_eq!(tokens(&scenario)?, [format!("{uid}-1"), format!("{uid}-2")]);

    let subnet = format!("{INLINE}, subnet: {{id: {}}}", short.private_subnet_id);
    scenario.machine("bound", "dev", &subnet).await?;
    let told = scenario
        .condition("AWSMachine", "bound", "InstanceReady", "False", "InsufficientCapacity")
        .await?;
    assert!(
        told.message.contains(&short.name) && told.message.contains("t3.large"),
        "{}",
        told.message
    );
    fault.lift();
    let bound = scenario.machine_ready("bound").await?;
    assert_eq!(text(&bound, "/status/failureDomain"), short.name);
    assert_eq!(scenario.user.live_instances().await?.len(), 2);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn an_instance_that_dies_before_it_runs_is_followed_by_another_only_if_ec2_is_to_blame() -> anyhow::Result<()> {
    let scenario = Scenario::new("dead-in-pending").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    let dying = |reason| {
        Fault::on("RunInstances")
            .dies_in_pending(reason, Duration::from_millis(300))
            .times(1)
    };
    scenario.environment.aws().fault(dying("Server.InternalError"));
    scenario.machine("lucky", "dev", INLINE).await?;
    let lucky = scenario.machine_ready("lucky").await?;
    let uid = lucky.metadata.uid.clone().context("no uid")?;
    assert_eq!(tokens(&scenario)?, [format!("{uid}-1"), format!("{uid}-2")]);
    assert_eq!(at(&lucky, "/status/launch/attempt"), 2);

    scenario.environment.aws().fault(dying("Client.VolumeLimitExceeded"));
    scenario.machine("hopeless", "dev", INLINE).await?;
    let told = scenario
        .condition("AWSMachine", "hopeless", "InstanceReady", "False", "Failed")
        .await?;
    assert!(told.message.contains("Client.VolumeLimitExceeded"), "{}", told.message);
    scenario.looked_again("hopeless", &manager).await?;
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", 3)]));
    assert_eq!(scenario.user.live_instances().await?.len(), 1);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn an_open_attempt_blocks_a_move_and_can_be_given_up_by_its_token() -> anyhow::Result<()> {
    let scenario = Scenario::new("abandoned").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    scenario.machine("settled", "dev", INLINE).await?;
    let settled = scenario.machine_ready("settled").await?;
    assert!(!settled.annotations().contains_key(BLOCK_MOVE));

    let silence = Fault::on("RunInstances").dropped_before_effect();
    scenario.environment.aws().fault(silence);
    scenario.machine("open", "dev", INLINE).await?;
    let token = eventually(WITHIN, "an open attempt that blocks a move", async || {
        let open = scenario.get(OURS, "AWSMachine", "open").await?;
        let token = text(&open, "/status/launch/clientToken").to_owned();
        ensure!(!token.is_empty(), "its status is {}", at(&open, "/status"));
        ensure!(open.annotations().contains_key(BLOCK_MOVE), "{:?}", open.annotations());
        Ok(token)
    })
    .await?;
    // Looking for what may have been launched takes its time; the user knows better.
    scenario
        .environment
        .aws()
        .fault(Fault::on("DescribeInstances").error("UnauthorizedOperation"));
    scenario.begin_deletion(CORE, "Machine", "open").await?;
    let abandon = |value: &str| json!({"metadata": {"annotations": {ABANDON: value}}});
    scenario
        .patch(OURS, "AWSMachine", "open", abandon("everything"))
        .await?;
    scenario
        .deletion_says("open", &format!("names \"everything\", not {token}"))
        .await?;
    scenario.patch(OURS, "AWSMachine", "open", abandon(&token)).await?;
    scenario.gone(OURS, "AWSMachine", &["open"]).await?;
    scenario.event("AWSMachine", "open", "InstanceAbandoned").await?;
    // What was given up is asked for again by nobody, and nothing of it is undone.
    let written = scenario.environment.aws().manager_journal().mutating();
    let others = written.matching(|call| call.action != "RunInstances");
    assert!(others.is_empty(), "{others}");
    assert_eq!(
        tokens(&scenario)?,
        [text(&settled, "/status/launch/clientToken"), &token]
    );
    let live = scenario.user.live_instances().await?;
    let live: Vec<_> = live.iter().filter_map(|instance| instance.instance_id()).collect();
    assert_eq!(live, [text(&settled, "/spec/instanceID")]);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}
