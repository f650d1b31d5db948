//! Kinds that appear, vanish, and are forbidden and allowed again while the manager runs.

use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

use super::super::foreign_kind::{Kind, network};
use super::super::scenario::{Scenario, story};
use super::{FOR_CORE, FOR_US, apply_with_status, definition, foreign_cluster, machine};

/// Publishes a network in an object of a labelled kind.
async fn publish(scenario: &Scenario, kind: &Kind, name: &str) -> anyhow::Result<()> {
    let status = json!({"network": network(scenario)});
    apply_with_status(scenario, &kind.api_version(), &kind.name, name, json!({}), status).await
}

mod long_stories {
    use super::*;

    #[test]
    fn kinds_come_and_go_without_a_restart_of_the_manager() -> anyhow::Result<()> {
        story("kinds", async |s| {
            let cluster = Kind::new("kinds.example.org", "AnyCluster");
            foreign_cluster(s, &cluster, "dev").await?;
            let kind = Kind::new("moons.example.org", "Moonscape");
            let source = |name: &str| format!("{{apiGroup: {}, kind: {}, name: {name}}}", kind.group, kind.name);
            machine(s, "early", "dev", &source("first")).await?;
            let message = s.machine_condition_false("early", "NetworkReady", "NoKindMatch").await?;
            assert!(message.contains("Moonscape in group moons.example.org"), "{message}");

            // The kind appears, and nothing says how to read it.
            s.apply(&definition(&kind)).await?;
            let message = s.machine_condition_false("early", "NetworkReady", "NotFound").await?;
            assert!(message.contains("AWSNetworkMapping moonscape.moons.example.org"), "{message}");
            // The kind gets the label of the contract, and no permission.
            s.apply(&kind.definition()).await?;
            publish(s, &kind, "first").await?;
            let message = s.machine_condition_false("early", "NetworkReady", "Forbidden").await?;
            assert!(message.contains("aggregate-to-capa-rs"), "{message}");
            assert!(s.launches().is_empty(), "{}", s.launches());
            // The permission is given.
            s.apply(&kind.readable_by(FOR_US, "[get]")).await?;
            s.machine_ready("early").await?;

            // The permission is withdrawn, for machines that come later.
            let roles: Api<ClusterRole> = Api::all(s.environment.client());
            let role = format!("{}-aggregate-to-capa-rs", kind.plural());
            roles.delete(&role, &DeleteParams::default()).await?;
            machine(s, "late", "dev", &source("second")).await?;
            s.machine_condition_false("late", "NetworkReady", "Forbidden").await?;
            // The kind vanishes with its objects.
            let definitions: Api<CustomResourceDefinition> = Api::all(s.environment.client());
            let name = format!("{}.{}", kind.plural(), kind.group);
            definitions.delete(&name, &DeleteParams::default()).await?;
            s.machine_condition_false("late", "NetworkReady", "NoKindMatch").await?;
            s.machine_ready("early").await?;
            // The kind is installed again.
            s.apply(&kind.definition()).await?;
            s.apply(&kind.readable_by(FOR_US, "[get]")).await?;
            publish(s, &kind, "second").await?;
            s.machine_ready("late").await?;
            s.assert_mutating(&[("RunInstances", 2)]);
            let for_core = format!("{}-{}", cluster.plural(), FOR_CORE.rsplit('/').next().unwrap_or_default());
            roles.delete(&for_core, &DeleteParams::default()).await?;
            kind.forget(s).await
        })
    }
}
