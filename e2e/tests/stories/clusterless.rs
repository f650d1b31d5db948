//! Machines of a Cluster without AWS infrastructure: everything comes from their own template.

use capa_e2e::aws_proxy::AccessKey;
use capa_e2e::fixtures;
use kube::api::DeleteParams;
use serde_json::json;

use super::machines::{at, counts, text};
use super::scenario::{CORE, OURS, REGION, Scenario, template};

#[tokio::test]
async fn machines_of_a_cluster_without_infrastructure_bring_network_and_identity_along() -> anyhow::Result<()> {
    let scenario = Scenario::new("clusterless").await?;
    let manager = scenario.manager().await?;
    let (environment, network) = (&scenario.environment, &scenario.network);
    // Identities belong to no namespace, so the name must be the test's own.
    let identity = environment.namespace();
    let key = environment.aws().another_key();
    environment.apply(&static_identity(identity, &key)).await?;
    environment.apply(&fixtures::cluster("bare", None)).await?;
    scenario.infrastructure_provisioned("bare").await?;
    let subnet = &network.zones[1].private_subnet_id;
    let extra = format!(
        "      region: {REGION}
      identityRef: {{kind: AWSClusterStaticIdentity, name: {identity}}}
      subnet: {{id: {subnet}}}
      securityGroupOverrides: {{node: {}}}
      additionalSecurityGroups: [{{id: {}}}]",
        network.node_security_group_id, network.control_plane_security_group_id
    );
    environment
        .apply(&fixtures::bootstrap_secret("workers", "#cloud-config"))
        .await?;
    environment.apply(&template("workers", &extra)).await?;
    environment
        .apply(&fixtures::machine_deployment("workers", "bare", 2))
        .await?;
    for name in scenario.names_of_machines(2).await? {
        let told = scenario
            .condition("AWSMachine", &name, "IdentityReady", "False", "NotAllowed")
            .await?;
        assert!(told.message.contains(environment.namespace()), "{}", told.message);
    }
    assert!(environment.aws().manager_journal().is_empty());

    let allow = json!({"spec": {"allowedNamespaces": {"list": [environment.namespace()]}}});
    scenario
        .patch(OURS, "AWSClusterStaticIdentity", identity, allow)
        .await?;
    for machine in scenario.machines_ready(2).await? {
        let launch = scenario.launch_of(text(&machine, "/spec/instanceID"))?;
        assert_eq!(launch.region, REGION);
        assert_eq!(launch.parameter("NetworkInterface.1.SubnetId"), Some(subnet.as_str()));
        let groups = [
            &network.node_security_group_id,
            &network.control_plane_security_group_id,
        ];
        assert_eq!(launch.values("NetworkInterface.1.SecurityGroupId"), groups);
        let name = machine.metadata.name.clone().unwrap_or_default();
        for field in ["region", "identityRef", "subnets", "securityGroups.all"] {
            let source = &at(&machine, "/status/network/sources")[field];
            assert_eq!(source, &json!(format!("AWSMachine/{name}")), "source of {field}");
        }
    }
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", 2)]));
    let journal = environment.aws().manager_journal();
    assert!(
        journal.by(&environment.aws().key().access_key_id).is_empty(),
        "{journal}"
    );
    assert_eq!(journal.by(&key.access_key_id).of("RunInstances").len(), 2);
    let log = manager.log()?;
    assert!(!log.contains(&key.secret_access_key), "the log has the secret key");

    let deployment = json!({"spec": {"replicas": 0}});
    scenario.patch(CORE, "MachineDeployment", "workers", deployment).await?;
    scenario.machines_ready(0).await?;
    assert!(scenario.user.live_instances().await?.is_empty());
    assert!(manager.stop().await?.success());
    let api = environment.api(OURS, "AWSClusterStaticIdentity").await?;
    api.delete(identity, &DeleteParams::default()).await?;
    scenario.environment.finish().await
}

/// An identity that nobody may use yet, and its Secret where the manager looks for it.
fn static_identity(name: &str, key: &AccessKey) -> String {
    let (id, secret) = (&key.access_key_id, &key.secret_access_key);
    format!(
        "
apiVersion: v1
kind: Secret
metadata: {{name: {name}, namespace: capa-rs-system}}
stringData: {{AccessKeyID: {id}, SecretAccessKey: '{secret}'}}
---
apiVersion: {OURS}
kind: AWSClusterStaticIdentity
metadata: {{name: {name}}}
spec: {{secretRef: {name}, allowedNamespaces: {{list: [somewhere-else]}}}}
"
    )
}
