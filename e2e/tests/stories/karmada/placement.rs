//! Workloads that are placed by published facts.

mod long_stories {
    use serde_json::json;

    use crate::stories::karmada::{APP, Fleet, REGION};
    use crate::stories::scenario::story;

    const TIER: &str = "fleet.infrastructure.cluster.x-k8s.io/tier";
    const CARBON: &str = "fleet.infrastructure.cluster.x-k8s.io/carbon";

    const SEGMENT: &str = include_str!("../../../../config/samples/fleet/segment.yaml");
    const PREFERENCES: &str = include_str!("../../../../config/samples/fleet/replica-preferences.yaml");
    const OVERFLOW: &str = include_str!("../../../../config/samples/fleet/overflow.yaml");

    #[test]
    fn workloads_go_where_published_facts_send_them() -> anyhow::Result<()> {
        story("placed", async |s| {
            let fleet = Fleet::start(s).await?;
            let west = fleet.member("west", "eu-west-1").await?;
            let north = fleet.member("north", "eu-north-1").await?;
            fleet.joined("west").await?;
            fleet.joined("north").await?;

            // A region is an attribute: changing it moves the app.
            fleet.apply(APP).await?;
            fleet.apply(REGION).await?;
            west.runs(2).await?;
            fleet.apply(&REGION.replace("eu-west-1", "eu-north-1")).await?;
            north.runs(2).await?;
            west.runs(0).await?;

            // Segments: labels of Clusters select members. An outside controller may write them, such as one that knows
            // where power is clean.
            fleet.label("west", json!({CARBON: "low", TIER: "owned"})).await?;
            fleet.label("north", json!({TIER: "rented"})).await?;
            fleet.has_label("west", CARBON, true).await?;
            fleet.apply(SEGMENT).await?;
            west.runs(2).await?;
            north.runs(0).await?;

            // Replica preferences: two to one.
            fleet.has_label("north", TIER, true).await?;
            fleet.apply(PREFERENCES).await?;
            fleet.scale(6).await?;
            west.runs(4).await?;
            north.runs(2).await?;

            // A label that goes is no label of the member any more.
            fleet.label("west", json!({TIER: null})).await?;
            fleet.has_label("west", TIER, false).await?;
            Ok(())
        })
    }

    #[test]
    fn what_does_not_fit_flows_over_and_back() -> anyhow::Result<()> {
        story("overflow", async |s| {
            let fleet = Fleet::start(s).await?;
            // Karmada counts a node of this size as one of two CPUs, the least of its grade.
            let west = fleet.member_with_room("west", "eu-west-1", ("3", "8Gi")).await?;
            let north = fleet.member("north", "eu-north-1").await?;
            fleet.joined("west").await?;
            fleet.joined("north").await?;
            fleet.label("west", json!({TIER: "owned"})).await?;
            fleet.label("north", json!({TIER: "rented"})).await?;
            fleet.has_label("west", TIER, true).await?;
            fleet.has_label("north", TIER, true).await?;
            fleet.apply(&APP.replace("cpu: 100m", "cpu: 500m")).await?;
            fleet.apply(OVERFLOW).await?;
            west.runs(2).await?;
            fleet.scale(6).await?;
            west.runs(4).await?;
            north.runs(2).await?;
            fleet.scale(3).await?;
            west.runs(3).await?;
            north.runs(0).await
        })
    }
}
