//! Launch attempts that AWS refuses, whose instances end early, or that get no answer.

use std::time::Duration;

use anyhow::{Context, ensure};
use capa_e2e::aws_proxy::Fault;
use capa_e2e::eventually;
use kube::ResourceExt as _;
use serde_json::json;

use super::machines::{INLINE, at, text};
use super::scenario::{CORE, OURS, Scenario, WITHIN, story};

const ABANDON: &str = "infrastructure.cluster.x-k8s.io/abandon-instance";
const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";

/// The tokens of all RunInstances calls, without duplicates.
fn tokens(scenario: &Scenario) -> anyhow::Result<Vec<String>> {
    let launches = scenario.launches();
    let tokens = launches.calls().iter().map(|call| call.parameter("ClientToken"));
    let mut tokens: Vec<String> = tokens
        .map(|token| token.map(str::to_owned).context("a launch without a token"))
        .collect::<anyhow::Result<_>>()?;
    tokens.dedup();
    Ok(tokens)
}

#[test]
fn a_zone_without_capacity_is_left_unless_a_machine_is_bound() -> anyhow::Result<()> {
    story("capacity", async |s| {
        s.cluster("dev").await?;
        // All subnets are empty, so the subnet with the lowest id comes first.
        let network = &s.network;
        let lowest = network.zones.iter().min_by_key(|zone| &zone.private_subnet_id);
        let short = lowest.context("no zones")?;
        let fault = Fault::on("RunInstances").in_zone(&short.name).error("InsufficientInstanceCapacity");
        let fault = s.aws().fault(fault);
        s.machine("free", "dev", INLINE).await?;
        let free = s.machine_ready("free").await?;
        assert_ne!(text(&free, "/status/failureDomain"), short.name);
        let uid = free.metadata.uid.clone().context("no uid")?;
        assert_eq!(tokens(s)?, [format!("{uid}-1"), format!("{uid}-2")]);

        let subnet = format!("{INLINE}, subnet: {{id: {}}}", short.private_subnet_id);
        s.machine("bound", "dev", &subnet).await?;
        let message = s.machine_condition_false("bound", "InstanceReady", "InsufficientCapacity").await?;
        assert!(message.contains(&short.name) && message.contains("t3.large"), "{message}");
        fault.lift();
        let bound = s.machine_ready("bound").await?;
        assert_eq!(text(&bound, "/status/failureDomain"), short.name);
        assert_eq!(s.user.live_instances().await?.len(), 2);
        Ok(())
    })
}

#[test]
fn an_open_attempt_blocks_a_move_until_abandoned_by_its_token() -> anyhow::Result<()> {
    story("abandoned", async |s| {
        s.cluster("dev").await?;
        s.machine("settled", "dev", INLINE).await?;
        let settled = s.machine_ready("settled").await?;
        assert!(!settled.annotations().contains_key(BLOCK_MOVE));

        let silence = Fault::on("RunInstances").dropped_before_effect();
        s.aws().fault(silence);
        s.machine("open", "dev", INLINE).await?;
        let token = eventually(WITHIN, "an open attempt that blocks a move", async || {
            let open = s.get(OURS, "AWSMachine", "open").await?;
            let token = text(&open, "/status/launch/clientToken").to_owned();
            ensure!(!token.is_empty(), "its status is {}", at(&open, "/status"));
            ensure!(open.annotations().contains_key(BLOCK_MOVE), "{:?}", open.annotations());
            Ok(token)
        })
        .await?;
        // Without the annotation, the search for an instance of the open attempt would delay the deletion.
        s.aws().fault(Fault::on("DescribeInstances").error("UnauthorizedOperation"));
        s.begin_deletion(CORE, "Machine", "open").await?;
        let abandon = |value: &str| json!({"metadata": {"annotations": {ABANDON: value}}});
        s.patch(OURS, "AWSMachine", "open", abandon("everything")).await?;
        s.deletion_says("open", &format!("names \"everything\", not {token}")).await?;
        s.patch(OURS, "AWSMachine", "open", abandon(&token)).await?;
        s.gone(OURS, "AWSMachine", &["open"]).await?;
        s.event("AWSMachine", "open", "InstanceAbandoned").await?;
        // Nothing requests the abandoned launch again, and nothing terminates its instances.
        let written = s.aws().manager_journal().mutating();
        let others = written.matching(|call| call.action != "RunInstances");
        assert!(others.is_empty(), "{others}");
        assert_eq!(tokens(s)?, [text(&settled, "/status/launch/clientToken"), &token]);
        let live = s.user.live_instances().await?;
        let live: Vec<_> = live.iter().filter_map(|instance| instance.instance_id()).collect();
        assert_eq!(live, [text(&settled, "/spec/instanceID")]);
        Ok(())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn an_instance_dead_in_pending_is_replaced_if_ec2_is_to_blame() -> anyhow::Result<()> {
        story("dead-in-pending", async |s| {
            s.cluster("dev").await?;
            let dying = |reason| Fault::on("RunInstances").dies_in_pending(reason, Duration::from_millis(300)).times(1);
            s.aws().fault(dying("Server.InternalError"));
            s.machine("lucky", "dev", INLINE).await?;
            let lucky = s.machine_ready("lucky").await?;
            let uid = lucky.metadata.uid.clone().context("no uid")?;
            assert_eq!(tokens(s)?, [format!("{uid}-1"), format!("{uid}-2")]);
            assert_eq!(at(&lucky, "/status/launch/attempt"), 2);

            s.aws().fault(dying("Client.VolumeLimitExceeded"));
            s.machine("hopeless", "dev", INLINE).await?;
            let message = s.machine_condition_false("hopeless", "InstanceReady", "Failed").await?;
            assert!(message.contains("Client.VolumeLimitExceeded"), "{message}");
            s.looked_again("hopeless").await?;
            s.assert_mutating(&[("RunInstances", 3)]);
            assert_eq!(s.user.live_instances().await?.len(), 1);
            Ok(())
        })
    }
}
