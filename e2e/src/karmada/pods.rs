//! What scheduler and kubelet do with pods, without running anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Binding, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::task::JoinHandle;

use super::bare_cluster::{BareCluster, NODE};

/// How often the pods are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Binds the pods of a cluster, tells them ready, and ends those that are deleted, until it is dropped.
pub struct PodRunner {
    task: JoinHandle<()>,
    holds: Arc<AtomicBool>,
}

impl PodRunner {
    /// Runs the pods of a cluster.
    pub async fn of(cluster: &BareCluster) -> anyhow::Result<Self> {
        let client = cluster.client().await?;
        let holds = Arc::new(AtomicBool::new(false));
        let held = holds.clone();
        let task = tokio::spawn(async move {
            loop {
                // The cluster may be down; then there are no pods.
                let _ = look(&client, held.load(Ordering::Relaxed)).await;
                tokio::time::sleep(LOOK).await;
            }
        });
        Ok(Self { task, holds })
    }

    /// Lets new pods start, but not become ready; or lets them.
    pub fn hold(&self, holds: bool) {
        self.holds.store(holds, Ordering::Relaxed);
    }
}

impl Drop for PodRunner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look(client: &Client, holds: bool) -> kube::Result<()> {
    let all: Api<Pod> = Api::all(client.clone());
    for pod in all.list(&ListParams::default()).await?.items {
        let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        if pod.metadata.deletion_timestamp.is_some() {
            pods.delete(&name, &DeleteParams::default().grace_period(0)).await?;
        } else if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()) {
            bind(client, &namespace, &name).await;
        } else if !holds && !is_ready(&pod) {
            let now = jiff::Timestamp::now().to_string();
            let status = json!({"status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": now},
            ]}});
            pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
        }
    }
    Ok(())
}

async fn bind(client: &Client, namespace: &str, name: &str) {
    let bindings: Api<Binding> = Api::namespaced(client.clone(), namespace);
    let binding = Binding {
        metadata: kube::api::ObjectMeta { name: Some(name.to_owned()), ..kube::api::ObjectMeta::default() },
        target: k8s_openapi::api::core::v1::ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(NODE.to_owned()),
            ..k8s_openapi::api::core::v1::ObjectReference::default()
        },
    };
    // The answer is no Binding, but a Status.
    let _ = bindings.create(&PostParams::default(), &binding).await;
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
