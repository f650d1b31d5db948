//! Objects that the flags of a manager leave to other managers.

use capa_e2e::{Story, fixtures};
use kube::api::DynamicObject;
use serde_json::json;

use super::machines::{INLINE, at};
use super::scenario::{FASTER, OURS, Scenario, run_story};

#[test]
fn objects_outside_filter_and_namespace_are_not_touched() -> anyhow::Result<()> {
    run_story(Story::new("scope"), async |s| {
        let elsewhere = s.environment.stranger("elsewhere").await?;
        let elsewhere = Scenario::new(elsewhere, "elsewhere").await?;
        let blue = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": "blue"}}});
        for place in [s, &elsewhere] {
            place.apply(&place.unmanaged("dev", "")).await?;
            place.apply(&fixtures::cluster("dev", Some("AWSCluster"))).await?;
            place.machine("blue", "dev", INLINE).await?;
            for (kind, name) in [("AWSCluster", "dev"), ("AWSMachine", "blue")] {
                place.patch(OURS, kind, name, blue.clone()).await?;
            }
        }
        s.machine("plain", "dev", INLINE).await?;
        let manager = s.new_manager().flag(FASTER).flag("--watch-filter=blue");
        manager.start().await?;
        s.machine_ready("blue").await?;

        untouched(&s.get(OURS, "AWSMachine", "plain").await?);
        untouched(&elsewhere.get(OURS, "AWSMachine", "blue").await?);
        untouched(&elsewhere.get(OURS, "AWSCluster", "dev").await?);
        s.assert_mutating(&[("RunInstances", 1)]);
        let calls = elsewhere.aws().manager_journal();
        assert!(calls.is_empty(), "{calls}");

        // Only the scope kept the machines waiting: each is launched once it has the label, or a manager has its
        // namespace.
        s.patch(OURS, "AWSMachine", "plain", blue).await?;
        s.machine_ready("plain").await?;
        elsewhere.start_manager().await?;
        elsewhere.machine_ready("blue").await?;
        // Managers of two namespaces work side by side.
        s.assert_mutating(&[("RunInstances", 2)]);
        elsewhere.assert_mutating(&[("RunInstances", 1)]);
        Ok(())
    })
}

fn untouched(object: &DynamicObject) {
    assert!(at(object, "/status").is_null(), "{}", object.data);
    assert_eq!(object.metadata.finalizers, None);
}
