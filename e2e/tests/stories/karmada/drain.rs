//! Drains that lose nothing.

mod long_stories {
    use anyhow::{Context as _, ensure};
    use capa_e2e::eventually_by_polling;
    use capa_e2e::karmada::STEP_WITHIN;
    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;
    use kube::api::ListParams;
    use serde_json::json;
    use tokio::task::JoinHandle;
    use tokio_util::sync::CancellationToken;

    use crate::stories::karmada::{APP, DRAIN, Fleet, LABEL, Member, await_condition, ready_pods};
    use crate::stories::scenario::story;

    /// One cluster, any that fits.
    const ANYWHERE: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, name: web}
  placement:
    clusterAffinity: {}
    spreadConstraints:
    - {spreadByField: cluster, minGroups: 1, maxGroups: 1}
    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}
";

    #[test]
    fn a_drain_moves_an_app_without_a_gap() -> anyhow::Result<()> {
        story("drains", async |s| {
            let fleet = Fleet::start(s).await?;
            let west = fleet.member("west", "eu-west-1").await?;
            fleet.joined("west").await?;
            fleet.apply(&APP.replace("replicas: 2", "replicas: 3")).await?;
            fleet.apply(ANYWHERE).await?;
            west.runs(3).await?;
            let north = fleet.member("north", "eu-north-1").await?;
            fleet.joined("north").await?;

            // The new pods take long to become ready.
            north.pods.hold(true);
            let watched = Watched::start(&[&west, &north]).await?;
            fleet.annotate("west", json!({DRAIN: ""})).await?;
            let moving = await_condition(s, "west", "Drained", "False", "Draining").await?;
            ensure!(moving.contains("Deployment default/web"), "{moving}");
            has_pods(&north, 3).await?;
            assert_eq!(west.ready().await?, 3, "the old pods stay until the new ones are ready");
            north.pods.hold(false);
            await_condition(s, "west", "Drained", "True", "Drained").await?;
            north.runs(3).await?;
            west.runs(0).await?;
            let fewest = watched.end().await?;
            ensure!(fewest >= 3, "only {fewest} of 3 pods were ready for a moment");

            // The drained cluster leaves, and the app stays where it is.
            fleet.label("west", json!({LABEL: null})).await?;
            fleet.gone(&fleet.member_name("west")).await?;
            north.runs(3).await
        })
    }

    /// Counts the ready pods of an app again and again.
    struct Watched {
        task: JoinHandle<anyhow::Result<Option<usize>>>,
        ended: CancellationToken,
    }

    impl Watched {
        async fn start(members: &[&Member]) -> anyhow::Result<Self> {
            let mut clients = Vec::new();
            for member in members {
                clients.push(member.cluster.client().await?);
            }
            let ended = CancellationToken::new();
            let stop = ended.clone();
            let task = tokio::spawn(async move {
                let mut fewest = None;
                let mut ticks = tokio::time::interval(std::time::Duration::from_millis(50));
                while stop.run_until_cancelled(ticks.tick()).await.is_some() {
                    // The drained cluster comes first: a pod that moves between the two reads is counted twice, and
                    // never missed.
                    let mut ready = 0;
                    for client in &clients {
                        ready += ready_pods(client).await.context("count the ready pods")?;
                    }
                    fewest = Some(fewest.map_or(ready, |fewest: usize| fewest.min(ready)));
                }
                Ok(fewest)
            });
            Ok(Self { task, ended })
        }

        /// The fewest pods that were ready at once.
        async fn end(self) -> anyhow::Result<usize> {
            self.ended.cancel();
            self.task.await??.context("no count was made")
        }
    }

    async fn has_pods(member: &Member, wanted: usize) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(member.cluster.client().await?, "default");
        eventually_by_polling(STEP_WITHIN, &format!("{wanted} pods"), async || {
            let count = pods.list(&ListParams::default().labels("app=web")).await?.items.len();
            ensure!(count == wanted, "{count} pods");
            Ok(())
        })
        .await
    }
}
