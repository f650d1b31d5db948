//! What a manager is told to leave to others.

use capa_e2e::{World, fixtures};
use serde_json::json;

use super::machines::{INLINE, at, counts, machine};
use super::scenario::{FASTER, OURS, Scenario};

#[tokio::test]
async fn objects_without_the_watch_filter_or_in_another_namespace_are_not_touched() -> anyhow::Result<()> {
    let scenario = Scenario::new("scope").await?;
    let elsewhere = World::shared().await?.test("elsewhere").await?;
    for yaml in [
        scenario.unmanaged("dev", ""),
        fixtures::cluster("dev", Some("AWSCluster")),
        fixtures::bootstrap_secret("blue", "#cloud-config"),
        machine("blue", "dev", INLINE),
    ] {
        scenario.environment.apply(&yaml).await?;
        elsewhere.apply(&yaml).await?;
    }
    scenario.machine("plain", "dev", INLINE).await?;
    let blue = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": "blue"}}});
    for (kind, name) in [("AWSCluster", "dev"), ("AWSMachine", "blue")] {
        scenario.patch(OURS, kind, name, blue.clone()).await?;
    }
    let manager = scenario.environment.manager().flag(FASTER).flag("--watch-filter=blue");
    let manager = manager.start().await?;
    scenario.machine_ready("blue").await?;

    let plain = scenario.get(OURS, "AWSMachine", "plain").await?;
    let neighbour = elsewhere.api(OURS, "AWSMachine").await?.get("blue").await?;
    for untouched in [plain, neighbour] {
        assert!(at(&untouched, "/status").is_null(), "{}", untouched.data);
        assert_eq!(untouched.metadata.finalizers, None);
    }
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", 1)]));
    assert!(elsewhere.aws().manager_journal().is_empty());
    assert!(manager.stop().await?.success());
    elsewhere.finish().await?;
    scenario.environment.finish().await
}
