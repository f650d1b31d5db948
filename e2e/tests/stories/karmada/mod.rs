//! Clusters that join a real Karmada, are placed on by their facts, and leave it.

mod drain;
mod membership;
mod own_cluster;
mod placement;

use std::sync::Arc;

use anyhow::{Context, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capa_e2e::karmada::{BareCluster, Karmada, PodRunner, STEP_WITHIN};
use capa_e2e::{eventually_by_polling, objects};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::cluster_profiles::{INVENTORY, OFTEN, initialized_cluster, keep_kubeconfig};
use super::machines::at;
use super::scenario::{CORE, Scenario};

const LABEL: &str = "fleet.infrastructure.cluster.x-k8s.io/karmada";
const DRAIN: &str = "fleet.infrastructure.cluster.x-k8s.io/drain";
const ALLOWED: &str = "fleet.infrastructure.cluster.x-k8s.io/allowed-namespaces";
const PREFIX: &str = "--propagate-label-prefix=fleet.infrastructure.cluster.x-k8s.io/";

const APP: &str = include_str!("../../../../config/samples/fleet/app.yaml");
const REGION: &str = include_str!("../../../../config/samples/fleet/region.yaml");

/// A Karmada with the Secret that leads to it, and the Clusters of a namespace.
struct Fleet<'a> {
    s: &'a Scenario,
    karmada: Arc<Karmada>,
    /// The namespace of the Secret.
    home: String,
}

impl<'a> Fleet<'a> {
    async fn start(s: &'a Scenario) -> anyhow::Result<Self> {
        let fleet = Self {
            s,
            karmada: Arc::new(Karmada::start(&s.environment, "karmada").await?),
            home: s.namespace().to_owned(),
        };
        fleet.allow(s.namespace()).await?;
        fleet.run_controllers().await?;
        Ok(fleet)
    }

    /// The Clusters of another namespace, for the same Karmada.
    async fn of_neighbour<'b>(&self, s: &'b Scenario) -> anyhow::Result<Fleet<'b>> {
        let fleet = Fleet { s, karmada: self.karmada.clone(), home: self.home.clone() };
        fleet.run_controllers().await?;
        Ok(fleet)
    }

    /// Starts `capa-rs fleet` for the namespace. Its own is that of the story.
    async fn run_controllers(&self) -> anyhow::Result<()> {
        let fleet = self.s.environment.new_fleet().flag(OFTEN).flag(PREFIX);
        fleet.variable("POD_NAMESPACE", &self.home).start().await?;
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
        await_condition(self.s, name, "Joined", "True", "Joined").await.map(drop)
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

    /// Waits until the member of a Cluster has a label of the Cluster, or has it no more.
    async fn has_label(&self, name: &str, label: &str, has_it: bool) -> anyhow::Result<()> {
        let members = members(&self.client().await?);
        eventually_by_polling(STEP_WITHIN, &format!("the label {label} of {name}"), async || {
            let member = members.get(&self.member_name(name)).await?;
            ensure!(member.labels().contains_key(label) == has_it, "{:?}", member.labels());
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
async fn await_condition(
    s: &Scenario,
    name: &str,
    condition: &str,
    status: &str,
    reason: &str,
) -> anyhow::Result<String> {
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
