//! Clusters whose control plane is hosted elsewhere, or that have no control plane object.

use anyhow::{Context, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capa_e2e::{eventually_by_polling, fixtures};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::whole::{KubeadmCluster, NODES_WITHIN, PORT, whole_clusters};
use crate::stories::machines::{INLINE, machine};
use crate::stories::scenario::CORE;

/// The permission that comes with a control plane kind: the bootstrap provider reads the version of the control plane.
const READS_STAND_INS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: bootstrap-reads-stand-ins}
rules: [{apiGroups: [controlplane.cluster.x-k8s.io], resources: [standins], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: bootstrap-reads-stand-ins}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: bootstrap-reads-stand-ins}
subjects: [{kind: ServiceAccount, name: capi-kubeadm-bootstrap-manager, namespace: capi-kubeadm-bootstrap-system}]
";

/// Gives a cluster the API server of another cluster, as the provider of a hosted control plane would.
async fn host(guest: &KubeadmCluster<'_>, host: &KubeadmCluster<'_>) -> anyhow::Result<()> {
    let secrets = guest.scenario.api("v1", "Secret").await?;
    for part in ["ca", "kubeconfig"] {
        let data = secrets.get(&format!("{}-{part}", host.name)).await?.data["data"].clone();
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "cluster.x-k8s.io/secret",
            "metadata": {
                "name": format!("{}-{part}", guest.name),
                "labels": {"cluster.x-k8s.io/cluster-name": guest.name},
            },
            "data": data,
        });
        guest.scenario.apply(&secret.to_string()).await?;
    }
    Ok(())
}

/// A Secret with bootstrap data.
fn bootstrap_data(name: &str, data: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": name},
        "stringData": {"format": "cloud-config", "value": data},
    })
    .to_string()
}

mod long_stories {
    use super::*;

    #[test]
    fn workers_join_a_hosted_control_plane() -> anyhow::Result<()> {
        whole_clusters("hosted", async |s| {
            let landlord = s.kubeadm_cluster_without_load_balancer("landlord");
            landlord.control_plane(1).await?;
            landlord.ready(1, 0).await?;

            // Like Kamaji and k0smotron: the cluster first has no endpoint, which its control plane sets later.
            let guest = s.kubeadm_cluster_without_load_balancer("guest");
            let scenario = s;
            scenario.apply(&scenario.unmanaged("guest", "")).await?;
            scenario.apply(&fixtures::control_plane("guest")).await?;
            scenario.apply(READS_STAND_INS).await?;
            let cluster = format!(
                "
apiVersion: {CORE}
kind: Cluster
metadata: {{name: guest}}
spec:
  clusterNetwork: {{pods: {{cidrBlocks: [192.168.0.0/16]}}}}
  controlPlaneRef: {{apiGroup: controlplane.cluster.x-k8s.io, kind: StandIn, name: guest}}
  infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSCluster, name: guest}}
"
            );
            scenario.apply(&cluster).await?;
            scenario.infrastructure_provisioned("guest").await?;
            let waits = scenario.await_condition("guest", "ControlPlaneEndpointReady", "False", "WaitingForEndpoint");
            waits.await?;

            host(&guest, &landlord).await?;
            let endpoint = json!({"host": landlord.host, "port": PORT});
            let spec = json!({"spec": {"controlPlaneEndpoint": endpoint}});
            scenario.patch(CORE, "Cluster", "guest", spec).await?;
            let hosted = json!({"status": {
                "externalManagedControlPlane": true,
                "initialization": {"controlPlaneInitialized": true},
                "conditions": [{"type": "Available", "status": "True", "reason": "Available", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            }});
            let stand_ins = scenario.api("controlplane.cluster.x-k8s.io/v1alpha1", "StandIn").await?;
            stand_ins.patch_status("guest", &PatchParams::default(), &Patch::Merge(&hosted)).await?;
            scenario.await_condition("guest", "ControlPlaneEndpointReady", "True", "Ready").await?;
            guest.workers(2).await?;
            guest.ready(0, 2).await?;

            // A cluster without any control plane object: the join configuration of its workers is written by hand.
            let nobodys = s.kubeadm_cluster_without_load_balancer("nobodys");
            host(&nobodys, &landlord).await?;
            scenario.apply(&nobodys.infrastructure()).await?;
            scenario.apply(&fixtures::cluster("nobodys", Some("AWSCluster"))).await?;
            let data = join_data(&guest).await?;
            let token = data.split("token: ").nth(1).and_then(|rest| rest.split_whitespace().next());
            let forged = data.replace(token.context("a token")?, "abcdef.0123456789abcdef");
            for (name, data) in [("stranger", forged), ("by-hand", data)] {
                scenario.apply(&bootstrap_data(name, &data)).await?;
                scenario.apply(&machine(name, "nobodys", INLINE)).await?;
            }
            let node_of = async |name: &str| {
                let machine = scenario.get(CORE, "Machine", name).await?;
                anyhow::Ok(machine.data["status"]["nodeRef"]["name"].as_str().map(str::to_owned))
            };
            eventually_by_polling(NODES_WITHIN, "the worker to be a node", async || {
                node_of("by-hand").await?.context("the instance is not a node yet")
            })
            .await?;
            let stranger = scenario.launched("stranger").await?;
            eventually_by_polling(NODES_WITHIN, "the stranger to be refused", async || {
                let log = scenario.environment.world().log("node-simulator")?;
                let is_refused =
                    |line: &str| line.contains(&stranger) && line.contains("the bootstrap token is refused");
                ensure!(log.lines().any(is_refused), "it has not tried to join yet");
                Ok(())
            })
            .await?;
            assert_eq!(node_of("stranger").await?, None);

            let calls = s.aws().manager_journal();
            let balancing = calls.matching(|call| call.service == "elasticloadbalancing");
            assert!(balancing.is_empty(), "calls to load balancers without targets: {balancing}");
            nobodys.delete().await?;
            guest.delete().await?;
            landlord.delete().await?;
            Ok(())
        })
    }

    /// The bootstrap data with which a worker of this cluster joined.
    async fn join_data(cluster: &KubeadmCluster<'_>) -> anyhow::Result<String> {
        let machine = cluster.machines().await?.into_iter().next().context("a worker")?;
        let name = machine.data["spec"]["bootstrap"]["dataSecretName"].as_str().context("a Secret")?.to_owned();
        let secret = cluster.scenario.get("v1", "Secret", &name).await?;
        let value = secret.data["data"]["value"].as_str().context("bootstrap data")?;
        Ok(String::from_utf8(BASE64_STANDARD.decode(value)?)?)
    }
}
