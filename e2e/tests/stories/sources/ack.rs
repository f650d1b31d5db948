//! Objects of AWS Controllers for Kubernetes (ACK) as network sources.

use capa_e2e::fixtures;
use serde_json::{Value, json};

use super::super::foreign_kind::Kind;
use super::super::machines::text;
use super::super::scenario::{REGION, Scenario, story};
use super::{FOR_US, apply_with_status, foreign_cluster, machine};

const GROUP: &str = "ec2.services.k8s.aws";

/// The same sources as entries of a list in YAML's flow style.
pub(super) const ENTRIES: &str = "{apiGroup: ec2.services.k8s.aws, kind: Subnet, selector: {matchLabels: \
                                  {cluster: dev}}}, {apiGroup: ec2.services.k8s.aws, kind: SecurityGroup, name: nodes}";

/// The kinds of ACK that the stories use, readable by the provider.
async fn kinds(scenario: &Scenario) -> anyhow::Result<[Kind; 2]> {
    let kinds = ["Subnet", "SecurityGroup"].map(|name| Kind::new(GROUP, name));
    for kind in &kinds {
        let definition = fixtures::definition(&kind.group, &kind.name, "");
        scenario.apply(&definition).await?;
        scenario.apply(&kind.readable_by(FOR_US, "[get, list]")).await?;
    }
    Ok(kinds)
}

/// The subnets of the scenario as ACK objects, which are synchronised with AWS.
async fn put_subnets(scenario: &Scenario, subnet: &Kind) -> anyhow::Result<()> {
    for zone in &scenario.network.zones {
        let spec = json!({"availabilityZone": zone.name, "cidrBlock": "10.0.0.0/24"});
        let fields = json!({"subnetID": zone.private_subnet_id});
        let name = format!("private-{}", zone.name);
        put(scenario, subnet, &name, spec, status("True", fields)).await?;
    }
    Ok(())
}

/// The security group of nodes as an ACK object.
async fn put_nodes(scenario: &Scenario, group: &Kind, synced: &str) -> anyhow::Result<()> {
    let fields = json!({"id": scenario.network.node_security_group_id});
    put(scenario, group, "nodes", json!({"name": "nodes"}), status(synced, fields)).await
}

/// The scenario's subnets and security group as ACK objects.
pub(crate) async fn network(scenario: &Scenario) -> anyhow::Result<()> {
    let [subnet, group] = kinds(scenario).await?;
    put_subnets(scenario, &subnet).await?;
    put_nodes(scenario, &group, "True").await
}

/// The status of an ACK object: whether it is synchronised with AWS, and further fields.
pub(super) fn status(synced: &str, fields: Value) -> Value {
    let mut status = json!({
        "ackResourceMetadata": {"ownerAccountID": "111122223333", "region": REGION},
        "conditions": [{"type": "ACK.ResourceSynced", "status": synced}],
    });
    if let (Some(all), Value::Object(fields)) = (status.as_object_mut(), fields) {
        all.extend(fields);
    }
    status
}

/// Applies an ACK object with its status.
pub(super) async fn put(
    scenario: &Scenario,
    kind: &Kind,
    name: &str,
    spec: Value,
    status: Value,
) -> anyhow::Result<()> {
    apply_with_status(scenario, &kind.api_version(), &kind.name, name, spec, status).await?;
    let labelled = json!({"metadata": {"labels": {"cluster": "dev"}}});
    scenario.patch(&kind.api_version(), &kind.name, name, labelled).await
}

mod long_stories {
    use super::*;

    #[test]
    fn ack_objects_by_name_and_selector_place_a_machine() -> anyhow::Result<()> {
        story("ack", async |s| {
            let foreign = Kind::new("ack.example.org", "AckCluster");
            foreign_cluster(s, &foreign, "dev").await?;
            let [subnet, group] = kinds(s).await?;
            machine(s, "composed", "dev", ENTRIES).await?;
            s.machine_condition_false("composed", "NetworkReady", "NotFound").await?;
            put_nodes(s, &group, "False").await?;
            put_subnets(s, &subnet).await?;
            let message = s.machine_condition_false("composed", "NetworkReady", "NotReady").await?;
            assert!(message.contains("SecurityGroup/nodes"), "{message}");
            assert!(s.launches().is_empty(), "{}", s.launches());

            put_nodes(s, &group, "True").await?;
            let ready = s.machine_ready("composed").await?;
            let launch = s.launch_of(text(&ready, "/spec/instanceID"))?;
            assert_eq!(launch.region, REGION);
            assert_eq!(launch.values("NetworkInterface.1.SecurityGroupId"), [&s.network.node_security_group_id]);
            assert_eq!(ready.data["status"]["network"]["sources"]["securityGroups.all"], "SecurityGroup/nodes");
            s.assert_mutating(&[("RunInstances", 1)]);
            for kind in [&foreign, &subnet, &group] {
                kind.forget(s).await?;
            }
            Ok(())
        })
    }
}
