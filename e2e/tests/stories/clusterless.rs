//! Machines of a Cluster without AWS infrastructure: all settings come from their own template.

use anyhow::ensure;
use capa_e2e::fixtures;
use kube::api::DeleteParams;
use serde_json::json;

use super::machines::{at, text};
use super::scenario::{CORE, OURS, REGION, story, template};

#[test]
fn clusterless_machines_bring_their_network_and_identity() -> anyhow::Result<()> {
    story("clusterless", async |s| {
        let (environment, network) = (&s.environment, &s.network);
        // Identities have no namespace, so the name must be unique to the test.
        let identity = environment.namespace();
        let key = environment.aws().another_key();
        s.static_identity(identity, "{list: [somewhere-else]}", &key).await?;
        environment.apply(&fixtures::cluster("bare", None)).await?;
        s.infrastructure_provisioned("bare").await?;
        let subnet = &network.zones[1].private_subnet_id;
        let extra = format!(
            "      region: {REGION}
      identityRef: {{kind: AWSClusterStaticIdentity, name: {identity}}}
      subnet: {{id: {subnet}}}
      securityGroupOverrides: {{node: {}}}
      additionalSecurityGroups: [{{id: {}}}]",
            network.node_security_group_id, network.control_plane_security_group_id
        );
        environment.apply(&fixtures::bootstrap_secret("workers", "#cloud-config")).await?;
        environment.apply(&template("workers", &extra)).await?;
        environment.apply(&fixtures::machine_deployment("workers", "bare", 2)).await?;
        for name in s.names_of_machines(2).await? {
            let message = s.machine_condition_false(&name, "IdentityReady", "NotAllowed").await?;
            assert!(message.contains(environment.namespace()), "{message}");
        }
        assert!(environment.aws().manager_journal().is_empty());

        let allow = json!({"spec": {"allowedNamespaces": {"list": [environment.namespace()]}}});
        s.patch(OURS, "AWSClusterStaticIdentity", identity, allow).await?;
        for machine in s.machines_ready(2).await? {
            let launch = s.launch_of(text(&machine, "/spec/instanceID"))?;
            assert_eq!(launch.region, REGION);
            assert_eq!(launch.parameter("NetworkInterface.1.SubnetId"), Some(subnet.as_str()));
            let groups = [&network.node_security_group_id, &network.control_plane_security_group_id];
            assert_eq!(launch.values("NetworkInterface.1.SecurityGroupId"), groups);
            let name = machine.metadata.name.clone().unwrap_or_default();
            for field in ["region", "identityRef", "subnets", "securityGroups.all"] {
                let source = &at(&machine, "/status/network/sources")[field];
                assert_eq!(source, &json!(format!("AWSMachine/{name}")), "source of {field}");
            }
        }
        ensure!(s.launched_once()?.len() >= 2, "{}", s.launches());
        let journal = environment.aws().manager_journal();
        assert!(journal.by(&environment.aws().key().access_key_id).is_empty(), "{journal}");
        let log = s.manager().log()?;
        assert!(!log.contains(&key.secret_access_key), "the log has the secret key");

        let deployment = json!({"spec": {"replicas": 0}});
        s.patch(CORE, "MachineDeployment", "workers", deployment).await?;
        s.machines_ready(0).await?;
        assert!(s.user.live_instances().await?.is_empty());
        s.manager().stop().await?;
        let api = environment.api(OURS, "AWSClusterStaticIdentity").await?;
        api.delete(identity, &DeleteParams::default()).await?;
        Ok(())
    })
}
