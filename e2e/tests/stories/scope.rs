//! What a manager is told to leave to others.

use capa_e2e::fixtures;
use kube::api::DynamicObject;
use serde_json::json;

use super::machines::{INLINE, at, counts};
use super::scenario::{FASTER, OURS, Scenario};

#[tokio::test]
async fn objects_without_the_watch_filter_or_in_another_namespace_are_not_touched() -> anyhow::Result<()> {
    let scenario = Scenario::new("scope").await?;
    let elsewhere = Scenario::new("elsewhere").await?;
    let blue = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": "blue"}}});
    for story in [&scenario, &elsewhere] {
        story.environment.apply(&story.unmanaged("dev", "")).await?;
        story
            .environment
            .apply(&fixtures::cluster("dev", Some("AWSCluster")))
            .await?;
        story.machine("blue", "dev", INLINE).await?;
        for (kind, name) in [("AWSCluster", "dev"), ("AWSMachine", "blue")] {
            story.patch(OURS, kind, name, blue.clone()).await?;
        }
    }
    scenario.machine("plain", "dev", INLINE).await?;
    let manager = scenario.environment.manager().flag(FASTER).flag("--watch-filter=blue");
    let manager = manager.start().await?;
    scenario.machine_ready("blue").await?;

    untouched(&scenario.get(OURS, "AWSMachine", "plain").await?);
    untouched(&elsewhere.get(OURS, "AWSMachine", "blue").await?);
    untouched(&elsewhere.get(OURS, "AWSCluster", "dev").await?);
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", 1)]));
    let calls = elsewhere.environment.aws().manager_journal();
    assert!(calls.is_empty(), "{calls}");

    // Nothing else kept it from them: each is launched once it has the label, or a manager its namespace.
    scenario.patch(OURS, "AWSMachine", "plain", blue).await?;
    scenario.machine_ready("plain").await?;
    assert!(manager.stop().await?.success());
    let manager = elsewhere.manager().await?;
    elsewhere.machine_ready("blue").await?;
    assert!(manager.stop().await?.success());
    elsewhere.environment.finish().await?;
    scenario.environment.finish().await
}

fn untouched(object: &DynamicObject) {
    assert!(at(object, "/status").is_null(), "{}", object.data);
    assert_eq!(object.metadata.finalizers, None);
}
