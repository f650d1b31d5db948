//! A whole cluster on a network that the provider creates.

use anyhow::{Context, ensure};
use capa_e2e::{Story, mostly_waits};

use super::whole::KubeadmCluster;
use crate::stories::scenario::{FASTER, OURS, REGION, run_story};

/// A managed AWSCluster. The names of load balancers do not resolve where the tests run.
fn managed(cluster: &KubeadmCluster<'_>, fields: &str) -> String {
    let balancer = format!("{{{fields}healthCheckProtocol: HTTPS, dnsResolutionCheck: None}}");
    format!(
        "{{apiVersion: {OURS}, kind: AWSCluster, metadata: {{name: {}}}, spec: {{region: {REGION}, \
         controlPlaneLoadBalancer: {balancer}}}}}",
        cluster.name
    )
}

/// The life of a cluster whose load balancer has these fields.
fn lives(story: &'static str, fields: &str) -> anyhow::Result<()> {
    mostly_waits();
    run_story(Story::new(story), async |s| {
        s.begin_whole_clusters(&[FASTER]).await?;
        let before = s.user.dump().await?;
        let cluster = s.kubeadm_cluster_without_load_balancer("dev");
        s.apply(&managed(&cluster, fields)).await?;
        let reference = "infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSCluster, name: dev}";
        cluster.control_plane_on(1, reference, "").await?;
        cluster.workers(1).await?;
        cluster.ready(1, 1).await?;
        for condition in ["LoadBalancerReady", "ControlPlaneEndpointReady", "Ready"] {
            s.await_condition("dev", condition, "True", "Ready").await?;
        }
        let published = s.get(OURS, "AWSCluster", "dev").await?;
        let target = published.data.pointer("/status/network/controlPlaneTargets/0");
        let target = target.context("a target of the control plane")?;
        let targets = match target["classicLoadBalancerName"].as_str() {
            Some(name) => s.user.classic_instances(name).await?,
            None => s.user.targets(target["targetGroupARN"].as_str().context("an ARN")?).await?,
        };
        ensure!(targets.len() == 1, "the control plane machine is a target: {targets:?}");
        cluster.delete().await?;
        let left = s.user.live_instances().await?;
        ensure!(left.is_empty(), "instances are left: {left:?}");
        s.has_left_nothing(&before).await
    })
}

#[test]
fn a_cluster_lives_on_a_network_that_the_provider_creates() -> anyhow::Result<()> {
    lives("managed-cluster", "loadBalancerType: nlb, ")
}

mod long_stories {
    #[test]
    fn a_cluster_lives_behind_the_classic_load_balancer_of_capa() -> anyhow::Result<()> {
        super::lives("managed-classic", "")
    }
}
