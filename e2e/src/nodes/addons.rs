//! kubeadm's add-ons, kube-proxy and CoreDNS: their objects, and the status of Deployments, whose controller has no
//! pods to run here.

use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::configuration::Configuration;
use super::write::{SYSTEM, apply};

/// The time between two looks at the Deployments.
const LOOK: Duration = Duration::from_secs(1);

const COREDNS: &str = "coredns";
const KUBE_PROXY: &str = "kube-proxy";

/// kubeadm's default, which the migration of an upgrade parses.
const COREFILE: &str = ".:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
";

/// Installs the add-ons, as `kubeadm init` does.
pub(super) async fn install(client: &Client, configuration: &Configuration) -> anyhow::Result<()> {
    let corefile = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": COREDNS, "namespace": SYSTEM},
        "data": {"Corefile": COREFILE},
    });
    apply::<ConfigMap>(&Api::namespaced(client.clone(), SYSTEM), COREDNS, &corefile).await?;
    let dns = json!({"containers": [{"name": COREDNS, "image": configuration.coredns_image()}],
        // The migration of the Corefile renames the key in the volume of the pods.
        "volumes": [{
            "name": "config-volume",
            "configMap": {"name": COREDNS, "items": [{"key": "Corefile", "path": "Corefile"}]},
        }],
    });
    let deployment = controller_of_pods("Deployment", COREDNS, "kube-dns", &dns);
    apply::<Deployment>(&Api::namespaced(client.clone(), SYSTEM), COREDNS, &deployment).await?;
    let proxy = json!({"containers": [{"name": KUBE_PROXY, "image": configuration.image(KUBE_PROXY)}]});
    let daemon_set = controller_of_pods("DaemonSet", KUBE_PROXY, KUBE_PROXY, &proxy);
    apply::<DaemonSet>(&Api::namespaced(client.clone(), SYSTEM), KUBE_PROXY, &daemon_set).await
}

/// A Deployment or DaemonSet whose pods have this spec.
fn controller_of_pods(kind: &str, name: &str, app: &str, pods: &Value) -> Value {
    let labels = json!({"k8s-app": app});
    json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": SYSTEM, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pods},
        },
    })
}

/// Shows all pods of the Deployments as updated and available, for ever.
pub(super) async fn run_deployments(client: Client) {
    let deployments = Api::<Deployment>::namespaced(client, SYSTEM);
    loop {
        if let Err(error) = update_statuses(&deployments).await {
            tracing::debug!("the status of a Deployment is not written: {error:#}");
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn update_statuses(deployments: &Api<Deployment>) -> anyhow::Result<()> {
    for deployment in deployments.list(&ListParams::default()).await? {
        let generation = deployment.metadata.generation;
        let observed = deployment.status.as_ref().and_then(|status| status.observed_generation);
        if observed == generation {
            continue;
        }
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
        let status = json!({"status": {
            "observedGeneration": generation,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": replicas,
            "availableReplicas": replicas,
        }});
        let name = deployment.name_any();
        deployments
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .with_context(|| format!("write the status of Deployment {name}"))?;
    }
    Ok(())
}
