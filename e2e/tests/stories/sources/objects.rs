//! ConfigMaps and Secrets as network sources.

use serde_json::{Value, json};

use super::super::foreign_kind::{Kind, network};
use super::super::machines::text;
use super::super::scenario::{CORE, OURS, Scenario, story};
use super::{foreign_cluster, machine};

/// A ConfigMap with the outputs of a Terraform configuration, as the document of the contract.
fn config_map(name: &str, network: &Value) -> String {
    let data = json!({"network.yaml": network.to_string()});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}).to_string()
}

/// A Secret with flat keys. `label` is whether the label of network sources is true.
fn secret(scenario: &Scenario, name: &str, label: bool) -> String {
    let network = network(scenario);
    let value = if label { "true" } else { "false" };
    let labels = json!({"infrastructure.cluster.x-k8s.io/network-source": value});
    let data = json!({
        "region": network["region"],
        "subnets": network["subnets"].to_string(),
        "securityGroups": network["securityGroups"].to_string(),
    });
    let metadata = json!({"name": name, "labels": labels});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}).to_string()
}

#[test]
fn config_maps_and_secrets_place_machines_under_a_foreign_kind() -> anyhow::Result<()> {
    story("sources", async |s| {
        let kind = Kind::new("vsphere.example.org", "HillCluster");
        foreign_cluster(s, &kind, "dev").await?;
        machine(s, "mapped", "dev", "{kind: ConfigMap, name: network}").await?;
        machine(s, "hidden", "dev", "{kind: Secret, name: outputs}").await?;
        s.apply(&secret(s, "outputs", false)).await?;
        let message = s.machine_condition_false("mapped", "NetworkReady", "NotFound").await?;
        assert!(message.contains("ConfigMap/network"), "{message}");
        let message = s.machine_condition_false("hidden", "NetworkReady", "NotAllowed").await?;
        assert!(message.contains("network-source"), "{message}");
        assert!(!message.contains("subnet-"), "{message}");

        // An object of the same name in another namespace is no source.
        let neighbour = s.neighbour("next-door").await?;
        neighbour.apply(&config_map("network", &network(s))).await?;
        assert!(s.aws().manager_journal().is_empty(), "nothing is known about AWS yet");

        s.apply(&config_map("network", &network(s))).await?;
        s.apply(&secret(s, "outputs", true)).await?;
        for (name, source) in [("mapped", "ConfigMap/network"), ("hidden", "Secret/outputs")] {
            let ready = s.machine_ready(name).await?;
            for field in ["region", "subnets", "securityGroups.all"] {
                assert_eq!(ready.data["status"]["network"]["sources"][field], source, "{name}: {field}");
            }
        }
        s.assert_mutating(&[("RunInstances", 2)]);

        // The machines live on and can be deleted without their sources.
        s.delete("v1", "ConfigMap", "network").await?;
        s.delete("v1", "Secret", "outputs").await?;
        let instance = text(&s.machine_ready("mapped").await?, "/spec/instanceID").to_owned();
        s.begin_deletion(CORE, "Machine", "mapped").await?;
        s.begin_deletion(CORE, "Machine", "hidden").await?;
        s.gone(OURS, "AWSMachine", &["mapped", "hidden"]).await?;
        s.assert_mutating(&[("RunInstances", 2), ("TerminateInstances", 2)]);
        assert!(s.has_terminated(&instance));
        kind.forget(s).await
    })
}

#[test]
fn a_tenants_config_map_gives_no_authority_and_leaks_no_value() -> anyhow::Result<()> {
    story("source-attacks", async |s| {
        let kind = Kind::new("attack.example.org", "TenantCluster");
        foreign_cluster(s, &kind, "dev").await?;
        let with = |field: &str, value: Value| {
            let mut network = network(s);
            network[field] = value;
            network
        };
        let role = json!({"kind": "AWSClusterRoleIdentity", "name": "hunter2"});
        let bucket = json!({"s3": {"bucket": "hunter2"}});
        let system = json!({"sigs.k8s.io/cluster-api-provider-aws/cluster/other": "hunter2"});
        for (name, network, reason) in [
            ("role", with("identityRef", role), "AuthorityNotAllowed"),
            ("profile", with("instanceProfiles", json!({"worker": "hunter2"})), "AuthorityNotAllowed"),
            ("bucket", with("bootstrapStorage", bucket), "AuthorityNotAllowed"),
            (
                "target-group",
                with("controlPlaneTargets", json!([{"classicLoadBalancerName": "hunter2"}])),
                "AuthorityNotAllowed",
            ),
            ("type", with("subnets", json!("hunter2")), "WrongType"),
            ("tag", with("additionalTags", system), "Conflict"),
        ] {
            s.apply(&config_map(name, &network)).await?;
            machine(s, name, "dev", &format!("{{kind: ConfigMap, name: {name}}}")).await?;
            let message = s.machine_condition_false(name, "NetworkReady", reason).await?;
            assert!(!message.contains("hunter2"), "{name}: {message}");
        }
        assert!(s.launches().is_empty(), "{}", s.launches());
        let log = s.manager().log()?;
        assert!(!log.contains("hunter2"), "the log has a value of a source");
        kind.forget(s).await
    })
}
