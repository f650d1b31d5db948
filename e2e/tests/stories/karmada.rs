//! Clusters that join a real Karmada, are placed on by their facts, and leave it.

mod long_stories {
    use std::sync::Arc;

    use anyhow::{Context, ensure};
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use capa_e2e::karmada::{BareCluster, Karmada, PodRunner, STEP_WITHIN};
    use capa_e2e::{eventually_by_polling, objects};
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{Pod, Secret};
    use k8s_openapi::api::rbac::v1::ClusterRole;
    use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
    use kube::{Api, Client, ResourceExt as _};
    use serde_json::{Value, json};
    use tokio::task::JoinHandle;

    use crate::stories::cluster_profiles::{INVENTORY, OFTEN, initialized_cluster, keep_kubeconfig};
    use crate::stories::machines::at;
    use crate::stories::scenario::{CORE, Scenario, story};

    const LABEL: &str = "fleet.infrastructure.cluster.x-k8s.io/karmada";
    const DRAIN: &str = "fleet.infrastructure.cluster.x-k8s.io/drain";
    const ALLOWED: &str = "fleet.infrastructure.cluster.x-k8s.io/allowed-namespaces";
    const PREFIX: &str = "--propagate-label-prefix=fleet.infrastructure.cluster.x-k8s.io/";
    const TIER: &str = "fleet.infrastructure.cluster.x-k8s.io/tier";
    const CARBON: &str = "fleet.infrastructure.cluster.x-k8s.io/carbon";

    const APP: &str = include_str!("../../../config/samples/fleet/app.yaml");
    const REGION: &str = include_str!("../../../config/samples/fleet/region.yaml");
    const SEGMENT: &str = include_str!("../../../config/samples/fleet/segment.yaml");
    const PREFERENCES: &str = include_str!("../../../config/samples/fleet/replica-preferences.yaml");
    const OVERFLOW: &str = include_str!("../../../config/samples/fleet/overflow.yaml");

    /// A Karmada with the Secret that leads to it, and the Clusters of a story.
    struct Fleet<'a> {
        s: &'a Scenario,
        karmada: Karmada,
    }

    impl<'a> Fleet<'a> {
        async fn start(s: &'a Scenario) -> anyhow::Result<Self> {
            let fleet = Self {
                s,
                karmada: Karmada::start(&s.environment, "karmada").await?,
            };
            fleet.allow(s.namespace()).await?;
            fleet.run_controllers().await?;
            Ok(fleet)
        }

        /// Starts `capa-rs fleet`, whose own namespace is that of the story.
        async fn run_controllers(&self) -> anyhow::Result<()> {
            let fleet = self.s.environment.new_fleet().flag(OFTEN).flag(PREFIX);
            let fleet = fleet.variable("POD_NAMESPACE", self.s.namespace());
            fleet.start().await?;
            Ok(())
        }

        /// The Secret of the Karmada, for Clusters of these namespaces.
        async fn allow(&self, namespaces: &str) -> anyhow::Result<()> {
            secret_of(self.s, "main", &self.karmada, namespaces).await
        }

        /// A Cluster of this region with a member of its own, that is to join.
        async fn member(&self, name: &str, region: &str) -> anyhow::Result<Member> {
            self.member_with_room(name, region, ("8", "32Gi")).await
        }

        /// The same with a node of this CPU and memory.
        async fn member_with_room(&self, name: &str, region: &str, room: (&str, &str)) -> anyhow::Result<Member> {
            let cluster = BareCluster::start(&self.s.environment, name).await?;
            cluster.add_node(room.0, room.1).await?;
            let pods = PodRunner::of(&cluster).await?;
            initialized_cluster(self.s, name, region).await?;
            keep_kubeconfig(self.s, name, &cluster.kubeconfig()?).await?;
            self.label(name, json!({LABEL: "main"})).await?;
            Ok(Member { cluster, pods })
        }

        async fn label(&self, name: &str, labels: Value) -> anyhow::Result<()> {
            let patch = json!({"metadata": {"labels": labels}});
            self.s.patch(CORE, "Cluster", name, patch).await
        }

        async fn annotate(&self, name: &str, annotations: Value) -> anyhow::Result<()> {
            let patch = json!({"metadata": {"annotations": annotations}});
            self.s.patch(CORE, "Cluster", name, patch).await
        }

        async fn joined(&self, name: &str) -> anyhow::Result<()> {
            says(self.s, name, "Joined", "True", "Joined").await.map(drop)
        }

        /// The name of a Cluster as a member.
        fn member_name(&self, name: &str) -> String {
            format!("{}-{name}", self.s.namespace())
        }

        /// Waits until the Cluster has left its Karmada, to the last permission, and returns it.
        async fn left(&self, name: &str) -> anyhow::Result<DynamicObject> {
            eventually_by_polling(STEP_WITHIN, &format!("the membership of {name} to end"), async || {
                let cluster = self.s.get(CORE, "Cluster", name).await?;
                let is_ours = |finalizer: &String| finalizer.starts_with("fleet.");
                ensure!(!cluster.finalizers().iter().any(is_ours), "{:?}", cluster.metadata);
                Ok(cluster)
            })
            .await
        }

        async fn client(&self) -> anyhow::Result<Client> {
            self.karmada.client().await
        }

        async fn apply(&self, yaml: &str) -> anyhow::Result<()> {
            let client = self.client().await?;
            for object in objects::parse(yaml)? {
                objects::apply(&client, &object, "default").await?;
            }
            Ok(())
        }

        /// Waits until the member of a Cluster has a label of the Cluster.
        async fn has_label(&self, name: &str, label: &str) -> anyhow::Result<()> {
            let members = members(&self.client().await?);
            eventually_by_polling(STEP_WITHIN, &format!("the label {label} of {name}"), async || {
                let member = members.get(&self.member_name(name)).await?;
                ensure!(member.labels().contains_key(label), "{:?}", member.labels());
                Ok(())
            })
            .await
        }

        /// Changes the replicas of the app.
        async fn scale(&self, replicas: u32) -> anyhow::Result<()> {
            let deployments: Api<Deployment> = Api::namespaced(self.client().await?, "default");
            let patch = json!({"spec": {"replicas": replicas}});
            let parameters = PatchParams::default();
            deployments.patch("web", &parameters, &Patch::Merge(&patch)).await?;
            Ok(())
        }

        async fn gone(&self, member: &str) -> anyhow::Result<()> {
            let members = members(&self.client().await?);
            eventually_by_polling(STEP_WITHIN, &format!("{member} to leave Karmada"), async || {
                ensure!(members.get_opt(member).await?.is_none(), "it is still there");
                Ok(())
            })
            .await
        }
    }

    struct Member {
        cluster: BareCluster,
        pods: PodRunner,
    }

    impl Member {
        /// How many pods of the app are ready.
        async fn ready(&self) -> anyhow::Result<usize> {
            ready_pods(&self.cluster.client().await?).await
        }

        async fn runs(&self, wanted: usize) -> anyhow::Result<()> {
            eventually_by_polling(STEP_WITHIN, &format!("{wanted} ready pods"), async || {
                let ready = self.ready().await?;
                ensure!(ready == wanted, "{ready} are ready");
                Ok(())
            })
            .await
        }
    }

    async fn ready_pods(client: &Client) -> anyhow::Result<usize> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
        let pods = pods.list(&ListParams::default().labels("app=web")).await?.items;
        let is_ready = |pod: &&Pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let mut conditions = conditions.into_iter();
            pod.metadata.deletion_timestamp.is_none()
                && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        Ok(pods.iter().filter(is_ready).count())
    }

    fn members(client: &Client) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "cluster.karmada.io".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "cluster.karmada.io/v1alpha1".to_owned(),
            kind: "Cluster".to_owned(),
            plural: "clusters".to_owned(),
        };
        Api::all_with(client.clone(), &resource)
    }

    async fn secret_of(s: &Scenario, name: &str, karmada: &Karmada, namespaces: &str) -> anyhow::Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "annotations": {ALLOWED: namespaces}},
            "data": {"value": BASE64_STANDARD.encode(karmada.api().kubeconfig()?)},
        });
        s.apply(&secret.to_string()).await
    }

    /// The message of a condition of a ClusterProfile once it has this status and reason.
    async fn says(s: &Scenario, name: &str, condition: &str, status: &str, reason: &str) -> anyhow::Result<String> {
        let profiles = s.api(INVENTORY, "ClusterProfile").await?;
        let what = format!("ClusterProfile {name} to say {condition} {status}/{reason}");
        eventually_by_polling(STEP_WITHIN, &what, async || {
            let profile = profiles.get(name).await?;
            let conditions = at(&profile, "/status/conditions").as_array().context("conditions")?;
            let found = conditions.iter().find(|found| found["type"] == condition);
            let found = found.with_context(|| format!("{conditions:?}"))?;
            ensure!(found["status"] == status && found["reason"] == reason, "{found}");
            Ok(found["message"].as_str().unwrap_or_default().to_owned())
        })
        .await
    }

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
    fn a_cluster_joins_is_placed_on_and_leaves() -> anyhow::Result<()> {
        story("joins", async |s| {
            let fleet = Fleet::start(s).await?;
            let west = fleet.member("west", "eu-west-1").await?;
            fleet.joined("west").await?;
            let name = fleet.member_name("west");
            let members = members(&fleet.client().await?);
            let member = members.get(&name).await?;
            let facts = (at(&member, "/spec/provider"), at(&member, "/spec/region"));
            assert_eq!(facts, (&json!("metal"), &json!("eu-west-1")));
            assert_eq!(at(&member, "/spec/zones"), &json!(["row-a", "row-b"]));
            fleet.apply(APP).await?;
            fleet.apply(REGION).await?;
            west.runs(2).await?;

            // Nobody else takes the app: the drain says so, and taking the label away deletes nothing.
            fleet.annotate("west", json!({DRAIN: ""})).await?;
            let blocked = says(s, "west", "Drained", "False", "DrainBlocked").await?;
            ensure!(blocked.contains("Deployment default/web"), "{blocked}");
            fleet.label("west", json!({LABEL: null})).await?;
            says(s, "west", "Joined", "False", "Leaving").await?;
            says(s, "west", "Drained", "False", "DrainBlocked").await?;
            assert_eq!(west.ready().await?, 2);

            // The user says that the app may end.
            let unjoin = "fleet.infrastructure.cluster.x-k8s.io/unjoin";
            fleet.annotate("west", json!({unjoin: "force"})).await?;
            fleet.gone(&name).await?;
            west.runs(0).await?;
            let cluster = fleet.left("west").await?;
            ensure!(
                !cluster.annotations().keys().any(|key| key.contains("membership")),
                "{:?}",
                cluster.metadata
            );
            let roles: Api<ClusterRole> = Api::all(west.cluster.client().await?);
            let role = format!("karmada-controller-manager:karmada-{name}");
            ensure!(roles.get_opt(&role).await?.is_none(), "the role of Karmada is left");

            // A deleted Cluster leaves while its API server is there.
            fleet.annotate("west", json!({unjoin: null, DRAIN: null})).await?;
            fleet.label("west", json!({LABEL: "main"})).await?;
            fleet.joined("west").await?;
            s.delete(CORE, "Cluster", "west").await?;
            fleet.gone(&name).await
        })
    }

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
            let moving = says(s, "west", "Drained", "False", "Draining").await?;
            ensure!(moving.contains("Deployment default/web"), "{moving}");
            has_pods(&north, 3).await?;
            assert_eq!(west.ready().await?, 3, "the old pods stay until the new ones are ready");
            north.pods.hold(false);
            says(s, "west", "Drained", "True", "Drained").await?;
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
        task: JoinHandle<usize>,
        ended: tokio_util::sync::CancellationToken,
    }

    impl Watched {
        async fn start(members: &[&Member]) -> anyhow::Result<Self> {
            let mut clients = Vec::new();
            for member in members {
                clients.push(member.cluster.client().await?);
            }
            let ended = tokio_util::sync::CancellationToken::new();
            let stop = ended.clone();
            let task = tokio::spawn(async move {
                let mut fewest = usize::MAX;
                let mut ticks = tokio::time::interval(std::time::Duration::from_millis(50));
                while stop.run_until_cancelled(ticks.tick()).await.is_some() {
                    let mut ready = 0;
                    let mut failed = false;
                    // The newest first: a pod that becomes ready in between is counted, one that ends is counted too.
                    for client in clients.iter().rev() {
                        match ready_pods(client).await {
                            Ok(count) => ready += count,
                            Err(_) => failed = true,
                        }
                    }
                    if !failed {
                        fewest = fewest.min(ready);
                    }
                }
                fewest
            });
            Ok(Self { task, ended })
        }

        async fn end(self) -> anyhow::Result<usize> {
            self.ended.cancel();
            Ok(self.task.await?)
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

    #[test]
    fn names_and_namespaces_keep_clusters_apart() -> anyhow::Result<()> {
        story("apart", async |s| {
            let fleet = Fleet::start(s).await?;
            let ours = fleet.member("prod", "eu-west-1").await?;
            fleet.joined("prod").await?;
            let name = fleet.member_name("prod");

            // The name is that of the first cluster; the second is another one.
            let second = fleet.member("second", "eu-west-1").await?;
            fleet.joined("second").await?;
            let renamed = fleet.member_name("second");
            fleet.label("second", json!({LABEL: null})).await?;
            fleet.gone(&renamed).await?;
            fleet.left("second").await?;
            let chosen = "fleet.infrastructure.cluster.x-k8s.io/member-name";
            fleet.annotate("second", json!({chosen: name})).await?;
            fleet.label("second", json!({LABEL: "main"})).await?;
            let taken = says(s, "second", "Joined", "False", "NameInUse").await?;
            ensure!(taken.contains(chosen), "{taken}");
            s.delete(CORE, "Cluster", "second").await?;
            let member = members(&fleet.client().await?).get(&name).await?;
            assert!(
                member.metadata.deletion_timestamp.is_none(),
                "the member of another Cluster was deleted"
            );
            drop(second);

            // One cluster is one member.
            initialized_cluster(s, "again", "eu-west-1").await?;
            keep_kubeconfig(s, "again", &ours.cluster.kubeconfig()?).await?;
            fleet.label("again", json!({LABEL: "main"})).await?;
            let twice = says(s, "again", "Joined", "False", "NameInUse").await?;
            ensure!(twice.contains(&name), "{twice}");

            // A label does not suffice: an administrator lists the namespaces.
            fleet.allow("somewhere-else").await?;
            initialized_cluster(s, "stranger", "eu-west-1").await?;
            keep_kubeconfig(s, "stranger", &ours.cluster.kubeconfig()?).await?;
            fleet.label("stranger", json!({LABEL: "main"})).await?;
            let refused = says(s, "stranger", "Joined", "False", "NotAllowed").await?;
            ensure!(refused.contains(ALLOWED), "{refused}");
            let missing = json!({LABEL: "no-such-karmada"});
            fleet.label("stranger", missing).await?;
            says(s, "stranger", "Joined", "Unknown", "KarmadaSecretInvalid").await?;
            Ok(())
        })
    }

    #[test]
    fn a_membership_survives_crashes_and_dead_members() -> anyhow::Result<()> {
        story("crashes", async |s| {
            let fleet = Fleet::start(s).await?;
            s.manager().kill().await?;
            let west = fleet.member("west", "eu-west-1").await?;
            let name = fleet.member_name("west");
            // The process dies at whatever point of the join it has reached.
            fleet.run_controllers().await?;
            eventually_by_polling(STEP_WITHIN, "a record", async || {
                let cluster = s.get(CORE, "Cluster", "west").await?;
                ensure!(!cluster.finalizers().is_empty(), "none yet");
                Ok(())
            })
            .await?;
            s.manager().kill().await?;
            fleet.run_controllers().await?;
            fleet.joined("west").await?;
            let members = members(&fleet.client().await?);
            assert_eq!(members.list(&ListParams::default()).await?.items.len(), 1);

            // Tokens are renewed before they end.
            let secrets: Api<Secret> = Api::namespaced(fleet.client().await?, "karmada-cluster");
            let before = secrets.get(&name).await?;
            let over = json!({"metadata": {"annotations": {
                "fleet.infrastructure.cluster.x-k8s.io/renew-at": "2026-01-01T00:00:00Z",
            }}});
            let parameters = PatchParams::default();
            secrets.patch(&name, &parameters, &Patch::Merge(&over)).await?;
            eventually_by_polling(STEP_WITHIN, "a new token", async || {
                let after = secrets.get(&name).await?;
                ensure!(after.data != before.data, "the same token");
                Ok(())
            })
            .await?;
            let owners = secrets.get(&name).await?.metadata.owner_references.unwrap_or_default();
            assert_eq!(owners.len(), 1, "Karmada deletes the token with the member");

            // The machines of the cluster are gone before its Cluster is deleted.
            west.cluster.kill().await?;
            says(s, "west", "ControlPlaneHealthy", "False", "Unreachable").await?;
            s.delete(CORE, "Cluster", "west").await?;
            fleet.gone(&name).await?;
            eventually_by_polling(STEP_WITHIN, "the tokens to go", async || {
                ensure!(secrets.get_opt(&name).await?.is_none(), "still there");
                Ok(())
            })
            .await
        })
    }

    #[test]
    fn a_changed_label_moves_a_cluster_to_another_karmada() -> anyhow::Result<()> {
        story("moves", async |s| {
            let fleet = Fleet::start(s).await?;
            let other = Arc::new(Karmada::start(&s.environment, "other").await?);
            secret_of(s, "other", &other, "*").await?;
            let _west = fleet.member("west", "eu-west-1").await?;
            fleet.joined("west").await?;
            let name = fleet.member_name("west");
            fleet.label("west", json!({LABEL: "other"})).await?;
            fleet.gone(&name).await?;
            fleet.joined("west").await?;
            members(&other.client().await?).get(&name).await?;
            Ok(())
        })
    }

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
            fleet.has_label("west", CARBON).await?;
            fleet.apply(SEGMENT).await?;
            west.runs(2).await?;
            north.runs(0).await?;

            // Replica preferences: two to one.
            fleet.has_label("north", TIER).await?;
            fleet.apply(PREFERENCES).await?;
            fleet.scale(6).await?;
            west.runs(4).await?;
            north.runs(2).await
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
            fleet.has_label("west", TIER).await?;
            fleet.has_label("north", TIER).await?;
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
