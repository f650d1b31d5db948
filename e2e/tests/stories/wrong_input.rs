//! What the user gave is wrong: a condition says which object and what to do, and mending it is enough.

use anyhow::ensure;
use capa_e2e::user::NetworkPlan;
use capa_e2e::{eventually, objects};
use serde_json::{Value, json};

use super::scenario::{REGION, Scenario, WITHIN};

/// Ids of the right form that no account has.
const NO_SUBNET: &str = "subnet-00000000000000bad";
const NO_VPC: &str = "vpc-00000000000000bad";
const NO_GROUP: &str = "sg-00000000000000bad";

/// A part of `spec.network` that is wrong, and what `NetworkReady` says about it.
struct Wrong {
    patch: Value,
    reason: &'static str,
    says: Vec<String>,
    usable: bool,
}

#[tokio::test]
async fn a_wrong_network_is_named_with_what_to_do_and_mended_in_the_spec() -> anyhow::Result<()> {
    let scenario = Scenario::new("wrong-network").await?;
    let elsewhere = scenario
        .user
        .create_network(&NetworkPlan::new("elsewhere", REGION, 1))
        .await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    let right = scenario.aws_cluster("dev").await?.data;
    let subnets = right["spec"]["network"]["subnets"].clone();
    let with = |subnet: Value| {
        let mut subnets = subnets.as_array().cloned().unwrap_or_default();
        subnets[0] = subnet;
        json!({"subnets": subnets})
    };
    let own = &scenario.network.zones[0].private_subnet_id;
    let foreign = &elsewhere.zones[0].private_subnet_id;
    let account = scenario.environment.aws().id();
    let wrong = [
        Wrong {
            patch: with(json!({"id": NO_SUBNET})),
            reason: "NotFound",
            says: vec![
                NO_SUBNET.into(),
                REGION.into(),
                account.into(),
                "spec.network.subnets".into(),
            ],
            usable: true,
        },
        Wrong {
            patch: with(json!({"id": "my-subnet"})),
            reason: "InvalidSpec",
            says: vec!["my-subnet".into(), "resourceID".into()],
            usable: true,
        },
        Wrong {
            patch: with(json!({"id": foreign})),
            reason: "Conflict",
            says: vec![
                foreign.clone(),
                elsewhere.vpc_id.clone(),
                scenario.network.vpc_id.clone(),
            ],
            usable: true,
        },
        Wrong {
            patch: with(json!({"id": own, "availabilityZone": "eu-west-1f"})),
            reason: "Conflict",
            says: vec![
                own.clone(),
                "eu-west-1a".into(),
                "eu-west-1f".into(),
                "availabilityZone".into(),
            ],
            usable: true,
        },
        Wrong {
            patch: json!({"vpc": {"id": NO_VPC}}),
            reason: "NotFound",
            says: vec![NO_VPC.into(), "spec.network.vpc.id".into()],
            usable: false,
        },
        Wrong {
            patch: json!({"securityGroupOverrides": {"node": NO_GROUP}}),
            reason: "NotFound",
            says: vec![NO_GROUP.into(), "spec.network.securityGroupOverrides".into()],
            usable: true,
        },
        Wrong {
            patch: json!({"securityGroupOverrides": {"node": elsewhere.node_security_group_id}}),
            reason: "Conflict",
            says: vec![elsewhere.node_security_group_id.clone(), elsewhere.vpc_id.clone()],
            usable: true,
        },
    ];
    for wrong in wrong {
        scenario
            .change("dev", json!({"spec": {"network": wrong.patch}}))
            .await?;
        let message = scenario.says("dev", "NetworkReady", "False", wrong.reason).await?;
        for part in &wrong.says {
            assert!(message.contains(part.as_str()), "{part} is not in: {message}");
        }
        let (ready, reason) = if wrong.usable {
            ("True", "Ready")
        } else {
            ("False", wrong.reason)
        };
        scenario.says("dev", "Ready", ready, reason).await?;
        let status = scenario.aws_cluster("dev").await?.data["status"].take();
        assert_eq!(status["initialization"]["provisioned"], true, "never taken back");
        let published = status["network"].to_string();
        for part in [NO_SUBNET, NO_GROUP, foreign, &elsewhere.node_security_group_id] {
            assert!(
                !published.contains(part),
                "nothing is launched into {part}: {published}"
            );
        }
        let mended = json!({"spec": {"network": right["spec"]["network"]}});
        scenario.change("dev", mended).await?;
        scenario.says("dev", "NetworkReady", "True", "Ready").await?;
        scenario.says("dev", "Ready", "True", "Ready").await?;
    }
    scenario.event("AWSCluster", "dev", "NotFound").await?;
    let status = scenario.aws_cluster("dev").await?.data["status"].take();
    assert_eq!(status["network"], right["status"]["network"]);
    assert_eq!(status["failureDomains"], right["status"]["failureDomains"]);
    let journal = scenario.environment.aws().manager_journal();
    assert!(journal.mutating().is_empty(), "{journal}");
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_cluster_of_nothing_but_missing_subnets_is_provisioned_but_not_ready() -> anyhow::Result<()> {
    let scenario = Scenario::new("no-usable-subnet").await?;
    let manager = scenario.manager().await?;
    let mut cluster = objects::parse(&scenario.unmanaged("dev", ""))?.remove(0);
    cluster.data["spec"]["network"]["subnets"] = json!([{"id": NO_SUBNET}]);
    scenario.owned("dev", &serde_json::to_string(&cluster)?).await?;
    scenario.infrastructure_provisioned("dev").await?;
    let message = scenario.says("dev", "Ready", "False", "NotFound").await?;
    assert!(message.contains(NO_SUBNET), "{message}");
    scenario.environment.apply(&scenario.unmanaged("dev", "")).await?;
    scenario.says("dev", "Ready", "True", "Ready").await?;
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_cluster_without_a_region_says_so_and_asks_nothing() -> anyhow::Result<()> {
    let scenario = Scenario::new("no-region").await?;
    let manager = scenario.manager().await?;
    let nowhere = scenario.unmanaged("dev", "").replace("  region: eu-west-1\n", "");
    scenario.owned("dev", &nowhere).await?;
    let message = scenario.says("dev", "Ready", "False", "InvalidSpec").await?;
    assert!(message.contains("spec.region"), "{message}");
    assert!(scenario.calls().is_empty());
    scenario.change("dev", json!({"spec": {"region": REGION}})).await?;
    scenario.says("dev", "Ready", "True", "Ready").await?;
    scenario.infrastructure_provisioned("dev").await?;
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn an_incomplete_lookup_is_repeated_at_once_when_the_annotation_asks_for_it() -> anyhow::Result<()> {
    let scenario = Scenario::new("preflight-requested").await?;
    // Not hurried: by itself it is repeated after five seconds.
    let manager = scenario.environment.manager().start().await?;
    let missing = scenario
        .unmanaged("dev", "")
        .replace(&scenario.network.zones[0].private_subnet_id, NO_SUBNET);
    scenario.owned("dev", &missing).await?;
    scenario.says("dev", "NetworkReady", "False", "NotFound").await?;
    let looks = || scenario.environment.aws().manager_journal().of("DescribeSubnets");
    assert_eq!(looks().len(), 1);
    let request = json!({"metadata": {"annotations": {"infrastructure.cluster.x-k8s.io/preflight-requested": "now"}}});
    scenario.change("dev", request).await?;
    eventually(WITHIN, "another look", async || {
        ensure!(looks().len() == 2, "there were {}", looks().len());
        Ok(())
    })
    .await?;
    let looks = looks();
    let gap = looks.calls()[1].at.duration_since(looks.calls()[0].at);
    assert!(gap.as_secs() < 5, "{gap:?} passed between the looks");
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn what_was_known_stays_published_while_nothing_can_be_looked_up() -> anyhow::Result<()> {
    let scenario = Scenario::new("refused-later").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    let known = scenario.aws_cluster("dev").await?.data["status"].take();
    let key = &scenario.environment.aws().key().access_key_id;
    scenario.environment.aws().revoke(key);
    manager.kill().await?;
    let manager = scenario.manager().await?;
    let message = scenario
        .says("dev", "IdentityReady", "False", "CredentialsFailed")
        .await?;
    assert!(message.contains("InvalidClientTokenId"), "{message}");
    scenario.says("dev", "NetworkReady", "True", "Ready").await?;

    let tags = json!({"spec": {"additionalTags": {"cost-centre": "42"}}});
    scenario.change("dev", tags).await?;
    scenario.says("dev", "NetworkReady", "False", "Unauthorized").await?;
    let status = scenario.aws_cluster("dev").await?.data["status"].take();
    assert_eq!(status["network"]["additionalTags"], json!({"cost-centre": "42"}));
    for field in [
        "/failureDomains",
        "/network/subnets",
        "/network/vpc",
        "/network/securityGroups",
    ] {
        assert_eq!(status.pointer(field), known.pointer(field), "{field}");
    }
    scenario.says("dev", "Ready", "True", "Ready").await?;

    scenario.environment.aws().restore(key);
    for condition in ["IdentityReady", "NetworkReady"] {
        scenario.says("dev", condition, "True", "Ready").await?;
    }
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_lookup_that_fails_holds_provisioned_back_only_for_a_while() -> anyhow::Result<()> {
    let scenario = Scenario::new("grace").await?;
    let manager = scenario
        .environment
        .manager()
        .flag("--timing-divisor=8")
        .start()
        .await?;
    let key = &scenario.environment.aws().key().access_key_id;
    scenario.environment.aws().revoke(key);
    scenario.owned("dev", &scenario.unmanaged("dev", "")).await?;
    let message = scenario.says("dev", "Ready", "False", "CredentialsFailed").await?;
    assert!(message.contains("AWS refuses the credentials"), "{message}");
    let status = scenario.aws_cluster("dev").await?.data["status"].take();
    assert_eq!(status["initialization"], Value::Null, "held back at first");
    scenario.infrastructure_provisioned("dev").await?;
    scenario.says("dev", "Ready", "True", "Ready").await?;
    scenario
        .says("dev", "IdentityReady", "False", "CredentialsFailed")
        .await?;
    let status = scenario.aws_cluster("dev").await?.data["status"].take();
    assert_eq!(status["failureDomains"], Value::Null, "the spec gives no zones");

    scenario.environment.aws().restore(key);
    scenario.says("dev", "IdentityReady", "True", "Ready").await?;
    eventually(WITHIN, "failure domains", async || {
        let status = scenario.aws_cluster("dev").await?.data["status"].take();
        let zones = status["failureDomains"].as_array().map_or(0, Vec::len);
        ensure!(zones == 3, "the status is {status}");
        Ok(())
    })
    .await?;
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}
