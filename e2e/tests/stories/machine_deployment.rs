//! A MachineDeployment on existing infrastructure, from its creation to its deletion.

use anyhow::ensure;
use capa_e2e::eventually;
use serde_json::json;

use super::scenario::{CORE, WITHIN, story};

#[test]
fn machines_come_and_go_without_a_trace_on_a_brought_network() -> anyhow::Result<()> {
    story("up-and-away", async |s| {
        let before = s.user.details().await?;
        s.cluster("dev").await?;
        s.machine_deployment("workers", "dev", 0).await?;
        s.machines_ready(0).await?;

        s.patch(CORE, "MachineDeployment", "workers", json!({"spec": {"replicas": 3}})).await?;
        s.machines_ready(3).await?;

        s.patch(CORE, "MachineDeployment", "workers", json!({"spec": {"replicas": 0}})).await?;
        eventually(WITHIN, "all AWSMachines to be gone", async || {
            let left = s.machines().await?.len();
            ensure!(left == 0, "{left} are left");
            Ok(())
        })
        .await?;
        s.delete(CORE, "Cluster", "dev").await?;
        assert!(s.user.live_instances().await?.is_empty());
        assert_eq!(s.user.details().await?, before, "the user's network is as it was");
        assert_eq!(s.terminated(), s.launched_once()?, "{}", s.aws().manager_journal());
        Ok(())
    })
}
