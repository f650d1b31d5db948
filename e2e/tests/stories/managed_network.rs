//! The network of a managed cluster: created, repaired and deleted.

use anyhow::{Context as _, ensure};
use aws_sdk_ec2::types::{AttributeBooleanValue, Vpc};
use capa_e2e::aws_proxy::Fault;
use capa_e2e::eventually;
use serde_json::json;

use super::scenario::{CORE, OURS, REGION, Scenario, WITHIN, story};

/// An AWSCluster whose network the provider creates.
fn managed() -> String {
    format!("{{apiVersion: {OURS}, kind: AWSCluster, metadata: {{name: dev}}, spec: {{region: {REGION}}}}}")
}

/// The VPCs of the cluster `dev`.
async fn vpcs(s: &Scenario) -> anyhow::Result<Vec<Vpc>> {
    let described = s.user.ec2().describe_vpcs().send().await?;
    let name = |vpc: &Vpc| vpc.tags().iter().any(|tag| tag.value() == Some("dev-vpc"));
    Ok(described.vpcs.unwrap_or_default().into_iter().filter(name).collect())
}

async fn is_complete(s: &Scenario) -> anyhow::Result<()> {
    for condition in ["VpcReady", "SubnetsReady", "InternetGatewayReady"] {
        s.says("dev", condition, "True", "Ready").await?;
    }
    let message = s.says("dev", "Ready", "False", "NotManagedYet").await?;
    ensure!(message.contains("NAT gateways"), "{message}");
    Ok(())
}

#[test]
fn the_network_of_a_managed_cluster_is_created_repaired_and_deleted() -> anyhow::Result<()> {
    story("managed-network", async |s| {
        let before = s.user.dump().await?;
        let lost = s.aws().fault(Fault::on("CreateVpc").dropped_after_effect());
        s.owned("dev", &managed()).await?;
        eventually(WITHIN, "the VPC of the lost answer", async || {
            ensure!(vpcs(s).await?.len() == 1, "no call has reached EC2");
            Ok(())
        })
        .await?;
        lost.lift();
        is_complete(s).await?;
        let [vpc] = &vpcs(s).await?[..] else {
            anyhow::bail!("more than one VPC")
        };
        let id = vpc.vpc_id().context("a VPC with an id")?;

        let off = AttributeBooleanValue::builder().value(false).build();
        let change = s.user.ec2().modify_vpc_attribute().vpc_id(id);
        change.enable_dns_hostnames(off).send().await?;
        let look_again = json!({"metadata": {"annotations": {"example.org/look": "again"}}});
        s.change("dev", look_again).await?;
        eventually(WITHIN, "the DNS host names to be on again", async || {
            let asked = s.user.ec2().describe_vpc_attribute().vpc_id(id);
            let attribute = asked.attribute("enableDnsHostnames".into()).send().await?;
            let value = attribute.enable_dns_hostnames().and_then(AttributeBooleanValue::value);
            ensure!(value == Some(true), "it is {value:?}");
            Ok(())
        })
        .await?;
        is_complete(s).await?;

        s.delete(CORE, "Cluster", "dev").await?;
        s.gone(OURS, "AWSCluster", &["dev"]).await?;
        let after = s.user.dump().await?;
        for (action, listed) in before.as_object().context("a dump is an object")? {
            assert_eq!(after.get(action), Some(listed), "{action}");
        }
        Ok(())
    })
}
