//! AWSClusters that are deleted before their Clusters.

use anyhow::{bail, ensure};
use capa_e2e::{Story, TestEnvironment, eventually, fixtures};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::stories::scenario::{CORE, OURS, WITHIN};

use super::refusal;

const REFUSED: &str = "Cluster dev has control plane replicas or workers and is not being deleted: delete the Cluster";

/// The AWSClusters and Clusters of a namespace. The Cluster `dev` has the annotation that pauses its own controller, so
/// that Cluster API leaves its status alone.
struct Deletions {
    aws_clusters: Api<DynamicObject>,
    clusters: Api<DynamicObject>,
}

impl Deletions {
    async fn new(environment: &TestEnvironment) -> anyhow::Result<Self> {
        environment.world().install_provider().await?;
        for name in ["dev", "other"] {
            let cluster = format!(
                "{{apiVersion: {OURS}, kind: AWSCluster, metadata: {{name: {name}}}, spec: {{unmanaged: true}}}}"
            );
            environment.apply(&cluster).await?;
        }
        let cluster = fixtures::cluster("dev", Some("AWSCluster"));
        let alone = "{name: dev, annotations: {cluster.x-k8s.io/paused: ''}}\nspec:\n";
        environment
            .apply(&cluster.replace("{name: dev}\nspec:\n", alone))
            .await?;
        Ok(Self {
            aws_clusters: environment.api(OURS, "AWSCluster").await?,
            clusters: environment.api(CORE, "Cluster").await?,
        })
    }

    /// Sets the numbers of machines in the status of the Cluster.
    async fn count(&self, control_plane: u32, workers: u32) -> anyhow::Result<()> {
        let status = json!({"status": {
            "controlPlane": {"replicas": control_plane},
            "workers": {"replicas": workers},
        }});
        let parameters = PatchParams::default();
        self.clusters
            .patch_status("dev", &parameters, &Patch::Merge(status))
            .await?;
        Ok(())
    }

    async fn annotate(&self, value: Value) -> anyhow::Result<()> {
        let mark = json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": value}}});
        self.aws_clusters
            .patch("dev", &PatchParams::default(), &Patch::Merge(mark))
            .await?;
        Ok(())
    }

    async fn pause(&self, paused: bool) -> anyhow::Result<()> {
        let spec = json!({"spec": {"paused": paused}});
        self.clusters
            .patch("dev", &PatchParams::default(), &Patch::Merge(spec))
            .await?;
        Ok(())
    }

    /// Waits until the deletion of an AWSCluster passes, or is refused. The API server sees changes of Clusters a
    /// little later.
    async fn judged(&self, name: &str, refused: bool) -> anyhow::Result<()> {
        let dry_run = DeleteParams {
            dry_run: true,
            ..DeleteParams::default()
        };
        let what = format!(
            "the deletion of {name} to be {}",
            if refused { "refused" } else { "admitted" }
        );
        eventually(WITHIN, &what, async || {
            match self.aws_clusters.delete(name, &dry_run).await {
                Ok(_) if refused => bail!("it is admitted"),
                Err(error) if refused => {
                    let message = refusal(error)?;
                    ensure!(message.contains(REFUSED), "{message}");
                }
                answer => drop(answer?),
            }
            Ok(())
        })
        .await
    }
}

#[test]
fn an_awscluster_with_machines_goes_only_after_its_cluster() -> anyhow::Result<()> {
    Story::new("early-deletion").run(async |environment| {
        let deletions = Deletions::new(environment).await?;
        deletions.count(0, 1).await?;
        deletions.judged("dev", true).await?;
        deletions.judged("other", false).await?;
        deletions.count(0, 0).await?;
        deletions.judged("dev", false).await?;
        deletions.count(3, 0).await?;
        deletions.judged("dev", true).await?;

        deletions.annotate("".into()).await?;
        deletions.judged("dev", false).await?;
        deletions.annotate(Value::Null).await?;
        deletions.judged("dev", true).await?;

        deletions.pause(true).await?;
        deletions.judged("dev", false).await?;
        deletions.pause(false).await?;
        deletions.judged("dev", true).await?;

        let with = |finalizers: Value| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        let (clusters, parameters) = (&deletions.clusters, PatchParams::default());
        clusters
            .patch("dev", &parameters, &with(json!(["example.org/kept"])))
            .await?;
        clusters.delete("dev", &DeleteParams::default()).await?;
        deletions.judged("dev", false).await?;
        let held = clusters.get("dev").await?;
        ensure!(
            held.metadata.deletion_timestamp.is_some(),
            "{} is not deleted",
            held.name_any()
        );
        clusters.patch("dev", &parameters, &with(Value::Null)).await?;
        Ok(())
    })
}
