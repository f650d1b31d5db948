//! Machines whose infrastructure kind is unknown to this provider.

use capa_e2e::fixtures;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::machines::{INLINE, text};
use super::scenario::{CORE, OURS, REGION, Scenario, story};

#[test]
fn machines_launch_from_any_labelled_kind_once_it_is_readable() -> anyhow::Result<()> {
    story("foreign", async |s| {
        let kind = Kind::new("landscapes.example.org", "Landscape");
        s.apply(&kind.definition()).await?;
        let for_core = kind.readable_by("cluster.x-k8s.io/aggregate-to-manager", "[get, list, watch, patch, update]");
        s.apply(&for_core).await?;
        kind.cluster(s, "dev", json!({"network": network(s)})).await?;
        s.machine("abroad", "dev", INLINE).await?;
        let message = s.machine_condition_false("abroad", "NetworkReady", "Forbidden").await?;
        for part in ["Landscape", "landscapes.example.org", "aggregate-to-capa-rs"] {
            assert!(message.contains(part), "{message}");
        }
        assert!(s.aws().manager_journal().is_empty());

        let for_us = kind.readable_by("infrastructure.cluster.x-k8s.io/aggregate-to-capa-rs", "[get]");
        s.apply(&for_us).await?;
        let ready = s.machine_ready("abroad").await?;
        for field in ["region", "subnets", "securityGroups.all"] {
            let sources = &ready.data["status"]["network"]["sources"];
            assert_eq!(sources[field], "Landscape/dev", "source of {field}");
        }
        let last = s.network.zones.last().map(|zone| zone.private_subnet_id.clone());
        assert_eq!(Some(text(&ready, "/status/network/subnetID")), last.as_deref());
        let launch = s.launch_of(text(&ready, "/spec/instanceID"))?;
        assert_eq!(launch.tags("instance").get("cost-centre"), Some(&"42"));

        // The status records the used network, so the machine is deleted even though its source is gone.
        let api = s.api(&kind.api_version(), &kind.name).await?;
        let released = json!({"metadata": {"finalizers": null}});
        s.patch(&kind.api_version(), &kind.name, "dev", released).await?;
        api.delete("dev", &DeleteParams::default()).await?;
        s.gone(&kind.api_version(), &kind.name, &["dev"]).await?;
        s.begin_deletion(CORE, "Machine", "abroad").await?;
        s.gone(OURS, "AWSMachine", &["abroad"]).await?;
        s.assert_mutating(&[("RunInstances", 1), ("TerminateInstances", 1)]);
        assert!(s.has_terminated(text(&ready, "/spec/instanceID")));
        kind.forget(s).await
    })
}

/// The last zone's subnet, and the other network fields that a placement can use.
pub(super) fn network(scenario: &Scenario) -> Value {
    let subnets: Vec<Value> = scenario
        .network
        .zones
        .iter()
        .rev()
        .take(1)
        .map(|zone| json!({"id": zone.private_subnet_id, "availabilityZone": zone.name, "public": false}))
        .collect();
    json!({
        "region": REGION,
        "subnets": subnets,
        "securityGroups": {"all": [scenario.network.node_security_group_id]},
        "additionalTags": {"cost-centre": "42"},
    })
}

/// A kind that only the test defines.
pub(super) struct Kind {
    pub(super) group: String,
    pub(super) name: String,
}

impl Kind {
    pub(super) fn new(group: &str, name: &str) -> Self {
        Self { group: group.to_owned(), name: name.to_owned() }
    }

    pub(super) fn api_version(&self) -> String {
        format!("{}/v1alpha1", self.group)
    }

    pub(super) fn plural(&self) -> String {
        format!("{}s", self.name.to_lowercase())
    }

    pub(super) fn definition(&self) -> String {
        let network = "infrastructure.cluster.x-k8s.io/machine-network: v1";
        fixtures::definition(&self.group, &self.name, network)
    }

    /// A ClusterRole that aggregation adds to a manager's permissions.
    pub(super) fn readable_by(&self, label: &str, verbs: &str) -> String {
        let (group, plural) = (&self.group, self.plural());
        format!(
            "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {plural}-{}, labels: {{{label}: 'true'}}}}
rules: [{{apiGroups: [{group}], resources: [{plural}], verbs: {verbs}}}]
",
            label.rsplit('/').next().unwrap_or(label)
        )
    }

    /// A Cluster with an object of this kind, which is provisioned and has these further status fields.
    pub(super) async fn cluster(&self, scenario: &Scenario, name: &str, status: Value) -> anyhow::Result<()> {
        let (api_version, kind) = (self.api_version(), &self.name);
        let object = format!("{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: {name}}}}}");
        scenario.apply(&object).await?;
        self.publish(scenario, name, status).await?;
        let cluster = fixtures::cluster(name, Some(kind)).replace("infrastructure.cluster.x-k8s.io", &self.group);
        scenario.apply(&cluster).await?;
        scenario.infrastructure_provisioned(name).await
    }

    pub(super) async fn publish(&self, scenario: &Scenario, name: &str, mut status: Value) -> anyhow::Result<()> {
        status["initialization"] = json!({"provisioned": true});
        let api = scenario.api(&self.api_version(), &self.name).await?;
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Removes the cluster-scoped objects of the test.
    pub(super) async fn forget(&self, scenario: &Scenario) -> anyhow::Result<()> {
        let roles: Api<ClusterRole> = Api::all(scenario.environment.client());
        for role in roles.list(&ListParams::default()).await?.items {
            let name = role.metadata.name.unwrap_or_default();
            if name.starts_with(&format!("{}-", self.plural())) {
                roles.delete(&name, &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }
}

mod long_stories {
    use super::*;

    #[test]
    fn a_wrong_field_of_a_foreign_object_is_named_and_not_launched() -> anyhow::Result<()> {
        story("foreign-faults", async |s| {
            let kind = Kind::new("infrastructure.cluster.x-k8s.io", "MadeUpCluster");
            s.apply(&kind.definition()).await?;
            let for_us = kind.readable_by("infrastructure.cluster.x-k8s.io/aggregate-to-capa-rs", "[get]");
            s.apply(&for_us).await?;
            let identity = json!({"kind": "AWSClusterRoleIdentity", "name": "hunter2"});
            let subnets = json!("hunter2");
            let with = |field: &str, value: Value| {
                let mut network = network(s);
                network[field] = value;
                json!({"network": network})
            };
            for (name, status, reason, part) in [
                ("silent", json!({}), "NotReady", "status.network"),
                ("bold", with("identityRef", identity), "AuthorityNotAllowed", "identityRef"),
                (
                    "greedy",
                    with("controlPlaneTargets", json!([{"classicLoadBalancerName": "hunter2"}])),
                    "AuthorityNotAllowed",
                    "controlPlaneTargets",
                ),
                ("odd", with("subnets", subnets), "WrongType", "status.network.subnets"),
                ("nowhere", with("region", json!("")), "MissingField", "region"),
            ] {
                kind.cluster(s, name, status).await?;
                s.machine(name, name, INLINE).await?;
                let message = s.machine_condition_false(name, "NetworkReady", reason).await?;
                assert!(message.contains(part), "{message}");
                assert!(reason == "MissingField" || message.contains(&format!("MadeUpCluster/{name}")));
                assert!(!message.contains("hunter2"), "{message}");
            }
            assert!(s.aws().manager_journal().is_empty());

            kind.publish(s, "bold", with("identityRef", Value::Null)).await?;
            kind.publish(s, "odd", json!({"network": network(s)})).await?;
            s.machine_ready("bold").await?;
            s.machine_ready("odd").await?;
            s.assert_mutating(&[("RunInstances", 2)]);
            kind.forget(s).await
        })
    }
}
