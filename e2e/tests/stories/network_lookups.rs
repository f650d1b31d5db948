//! What an unmanaged cluster that is in use does about a network that becomes wrong, and about lookups that fail.

use capa_e2e::user::NetworkPlan;
use capa_e2e::{Story, objects};
use serde_json::{Value, json};

use super::scenario::{CORE, NO_GROUP, NO_SUBNET, NO_VPC, OURS, REGION, run_story, story, template};

/// An invalid part of `spec.network`, and the expected message of `NetworkReady`.
struct Wrong {
    patch: Value,
    reason: &'static str,
    says: Vec<String>,
    usable: bool,
}

#[test]
fn a_wrong_network_is_named_with_its_fix_and_mended_in_the_spec() -> anyhow::Result<()> {
    run_story(Story::new("wrong-network"), async |s| {
        let elsewhere = s.user.create_network(&NetworkPlan::new("elsewhere", REGION, 1)).await?;
        s.start_manager().await?;
        s.cluster("dev").await?;
        let right = s.aws_cluster("dev").await?.data;
        let subnets = right["spec"]["network"]["subnets"].clone();
        let with = |subnet: Value| {
            let mut subnets = subnets.as_array().cloned().unwrap_or_default();
            subnets[0] = subnet;
            json!({"subnets": subnets})
        };
        let own = &s.network.zones[0].private_subnet_id;
        let foreign = &elsewhere.zones[0].private_subnet_id;
        let account = s.aws().id();
        let wrong = [
            Wrong {
                patch: with(json!({"id": NO_SUBNET})),
                reason: "NotFound",
                says: vec![NO_SUBNET.into(), REGION.into(), account.into(), "spec.network.subnets".into()],
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
                says: vec![foreign.clone(), elsewhere.vpc_id.clone(), s.network.vpc_id.clone()],
                usable: true,
            },
            Wrong {
                patch: with(json!({"id": own, "availabilityZone": "eu-west-1f"})),
                reason: "Conflict",
                says: vec![own.clone(), "eu-west-1a".into(), "eu-west-1f".into(), "availabilityZone".into()],
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
                patch: json!({"securityGroupOverrides": {"node": NO_GROUP, "controlplane": NO_GROUP}}),
                reason: "NotFound",
                says: vec![NO_GROUP.into(), "spec.network.securityGroupOverrides".into()],
                usable: false,
            },
            Wrong {
                patch: json!({"securityGroupOverrides": {"node": elsewhere.node_security_group_id}}),
                reason: "Conflict",
                says: vec![elsewhere.node_security_group_id.clone(), elsewhere.vpc_id.clone()],
                usable: true,
            },
        ];
        for wrong in wrong {
            s.change("dev", json!({"spec": {"network": wrong.patch}})).await?;
            let message = s.await_condition("dev", "NetworkReady", "False", wrong.reason).await?;
            for part in &wrong.says {
                assert!(message.contains(part.as_str()), "{part} is not in: {message}");
            }
            let ready = if wrong.usable { "True" } else { "False" };
            s.await_condition("dev", "Ready", ready, wrong.reason).await?;
            let status = s.aws_cluster("dev").await?.data["status"].take();
            assert_eq!(status["initialization"]["provisioned"], true, "never taken back");
            let published = status["network"].to_string();
            for part in [NO_SUBNET, NO_GROUP, foreign, &elsewhere.node_security_group_id] {
                assert!(!published.contains(part), "nothing is launched into {part}: {published}");
            }
            let mended = json!({"spec": {"network": right["spec"]["network"]}});
            s.change("dev", mended).await?;
            s.await_condition("dev", "NetworkReady", "True", "Ready").await?;
            s.await_condition("dev", "Ready", "True", "Ready").await?;
        }
        s.event("AWSCluster", "dev", "NotFound").await?;
        let status = s.aws_cluster("dev").await?.data["status"].take();
        assert_eq!(status["network"], right["status"]["network"]);
        assert_eq!(status["failureDomains"], right["status"]["failureDomains"]);
        let journal = s.aws().manager_journal();
        assert!(journal.mutating().is_empty(), "{journal}");
        Ok(())
    })
}

#[test]
fn a_template_with_a_network_makes_a_bare_cluster_ready() -> anyhow::Result<()> {
    story("no-network", async |s| {
        let bare = format!(
            "{{apiVersion: {OURS}, kind: AWSCluster, metadata: {{name: dev}}, \
             spec: {{region: {REGION}, unmanaged: true}}}}"
        );
        s.owned("dev", &bare).await?;
        s.infrastructure_provisioned("dev").await?;
        let message = s.await_condition("dev", "Ready", "False", "NothingDeclared").await?;
        for part in ["declares no subnet", "declares no security group"] {
            assert!(message.contains(part), "{message}");
        }
        s.await_condition("dev", "NetworkReady", "True", "NothingDeclared").await?;

        // Cluster API makes the Cluster an owner of the templates of its machines.
        let cluster = s.get(CORE, "Cluster", "dev").await?.metadata.uid;
        let network = format!(
            "      subnet: {{id: {}}}\n      additionalSecurityGroups: [{{id: {}}}]",
            s.network.zones[0].private_subnet_id, s.network.node_security_group_id
        );
        let mut workers = objects::parse(&template("workers", &network))?.remove(0);
        let owner = json!({"apiVersion": CORE, "kind": "Cluster", "name": "dev", "uid": cluster});
        workers.metadata.owner_references = Some(vec![serde_json::from_value(owner)?]);
        s.apply(&serde_json::to_string(&workers)?).await?;
        s.await_condition("dev", "Ready", "True", "Ready").await?;
        Ok(())
    })
}

#[test]
fn a_known_network_stays_published_while_lookups_fail() -> anyhow::Result<()> {
    story("refused-later", async |s| {
        s.cluster("dev").await?;
        let known = s.aws_cluster("dev").await?.data["status"].take();
        let key = &s.aws().key().access_key_id;
        s.aws().revoke(key);
        s.manager().kill().await?;
        s.start_manager().await?;
        let message = s.await_condition("dev", "IdentityReady", "False", "CredentialsFailed").await?;
        assert!(message.contains("InvalidClientTokenId"), "{message}");
        s.await_condition("dev", "NetworkReady", "True", "Ready").await?;

        let tags = json!({"spec": {"additionalTags": {"cost-centre": "42"}}});
        s.change("dev", tags).await?;
        s.await_condition("dev", "NetworkReady", "False", "Unauthorized").await?;
        let status = s.aws_cluster("dev").await?.data["status"].take();
        assert_eq!(status["network"]["additionalTags"], json!({"cost-centre": "42"}));
        for field in ["/failureDomains", "/network/subnets", "/network/vpc", "/network/securityGroups"] {
            assert_eq!(status.pointer(field), known.pointer(field), "{field}");
        }
        s.await_condition("dev", "Ready", "True", "CredentialsFailed").await?;

        s.aws().restore(key);
        for condition in ["IdentityReady", "NetworkReady"] {
            s.await_condition("dev", condition, "True", "Ready").await?;
        }
        Ok(())
    })
}
