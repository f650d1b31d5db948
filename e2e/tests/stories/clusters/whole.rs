//! A whole cluster on infrastructure that the user brought: a kubeadm control plane and workers, as stories begin.

use std::time::Duration;

use anyhow::{Context, ensure};
use capa_e2e::{Manager, eventually, moto, objects};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use serde_json::json;

use crate::stories::scenario::{CORE, OURS, REGION, Scenario};

/// API version of KubeadmControlPlane.
pub(super) const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/v1beta2";
/// The version that clusters begin with.
pub(super) const VERSION: &str = "v1.36.2";
/// Deadline of a wait for nodes. The kubeadm providers look again only every half minute at what they cannot reach.
pub(super) const NODES_WITHIN: Duration = Duration::from_secs(240);

/// A story about one cluster.
pub(super) struct Whole {
    pub(super) scenario: Scenario,
    pub(super) name: String,
    /// Host and port of its API server.
    pub(super) endpoint: (String, u16),
}

impl Whole {
    /// A namespace, an account and a network, and the programs that make clusters.
    pub(super) async fn new(name: &str) -> anyhow::Result<Self> {
        let scenario = Scenario::new(name).await?;
        scenario.environment.world().start_kubeadm().await?;
        let host = format!("api.{}.example", scenario.environment.namespace());
        Ok(Self {
            scenario,
            name: "dev".to_owned(),
            endpoint: (host, 6443),
        })
    }

    pub(super) async fn manager(&self) -> anyhow::Result<Manager> {
        self.scenario.manager().await
    }

    /// Applies Cluster, AWSCluster and a control plane of so many machines.
    pub(super) async fn control_plane(&self, replicas: u32) -> anyhow::Result<()> {
        let Self { scenario, name, .. } = self;
        let (host, port) = &self.endpoint;
        let endpoint = format!("  controlPlaneEndpoint: {{host: {host}, port: {port}}}");
        scenario.environment.apply(&scenario.unmanaged(name, &endpoint)).await?;
        scenario.environment.apply(&machine_template("control-plane")).await?;
        let cluster = format!(
            "
apiVersion: {CORE}
kind: Cluster
metadata: {{name: {name}}}
spec:
  clusterNetwork: {{pods: {{cidrBlocks: [192.168.0.0/16]}}}}
  controlPlaneRef: {{apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: {name}}}
  infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSCluster, name: {name}}}
---
apiVersion: {CONTROL_PLANE}
kind: KubeadmControlPlane
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  version: {VERSION}
  machineTemplate:
    spec:
      infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachineTemplate, name: control-plane}}
  kubeadmConfigSpec:
    initConfiguration: {{nodeRegistration: {{name: '{{{{ ds.meta_data.local_hostname }}}}'}}}}
    joinConfiguration: {{nodeRegistration: {{name: '{{{{ ds.meta_data.local_hostname }}}}'}}}}
"
        );
        scenario.environment.apply(&cluster).await?;
        Ok(())
    }

    /// Applies a MachineDeployment of workers that join.
    pub(super) async fn workers(&self, name: &str, replicas: u32) -> anyhow::Result<()> {
        let cluster = &self.name;
        let environment = &self.scenario.environment;
        environment.apply(&machine_template(name)).await?;
        let deployment = format!(
            "
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {{name: {name}}}
spec: {{template: {{spec: {{joinConfiguration: {{nodeRegistration: {{name: '{{{{ ds.meta_data.local_hostname }}}}'}}}}}}}}}}
---
apiVersion: {CORE}
kind: MachineDeployment
metadata: {{name: {name}}}
spec:
  clusterName: {cluster}
  replicas: {replicas}
  selector: {{matchLabels: {{deployment: {name}}}}}
  template:
    metadata: {{labels: {{deployment: {name}}}}}
    spec:
      clusterName: {cluster}
      version: {VERSION}
      bootstrap: {{configRef: {{apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: {name}}}}}
      infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachineTemplate, name: {name}}}
"
        );
        environment.apply(&deployment).await?;
        Ok(())
    }

    /// Sets the replicas of a KubeadmControlPlane or a MachineDeployment.
    pub(super) async fn scale(&self, api_version: &str, kind: &str, name: &str, replicas: u32) -> anyhow::Result<()> {
        let patch = json!({"spec": {"replicas": replicas}});
        self.scenario.patch(api_version, kind, name, patch).await
    }

    /// Waits until the cluster has exactly so many control plane machines and workers, each with a node that is ready,
    /// and gives them.
    pub(super) async fn nodes_ready(&self, control_plane: usize, workers: usize) -> anyhow::Result<Vec<DynamicObject>> {
        let what = format!("{control_plane} control plane nodes and {workers} workers to be ready");
        eventually(NODES_WITHIN, &what, async || {
            let machines = self.machines().await?;
            let (planes, others): (Vec<_>, Vec<_>) = machines.iter().partition(|machine| is_control_plane(machine));
            ensure!(
                (planes.len(), others.len()) == (control_plane, workers),
                "there are {} and {}",
                planes.len(),
                others.len()
            );
            for machine in &machines {
                let name = machine.name_any();
                let ready = objects::condition(machine, "Ready").with_context(|| format!("{name} says nothing"))?;
                ensure!(ready.status == "True", "{name}: {ready:?}");
            }
            Ok(machines)
        })
        .await
    }

    /// The Machines of the namespace.
    pub(super) async fn machines(&self) -> anyhow::Result<Vec<DynamicObject>> {
        let api = self.scenario.environment.api(CORE, "Machine").await?;
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// Deletes the Cluster, waits until everything is gone, and checks that nothing is left in AWS.
    pub(super) async fn delete(&self) -> anyhow::Result<()> {
        let scenario = &self.scenario;
        scenario
            .environment
            .delete(CORE, "Cluster", &self.name, NODES_WITHIN)
            .await?;
        let left = scenario.user.live_instances().await?;
        ensure!(left.is_empty(), "instances are left: {left:?}");
        Ok(())
    }
}

/// Whether a Machine belongs to the control plane.
pub(super) fn is_control_plane(machine: &DynamicObject) -> bool {
    machine.labels().contains_key("cluster.x-k8s.io/control-plane")
}

/// An AWSMachineTemplate of this name.
pub(super) fn machine_template(name: &str) -> String {
    format!(
        "
apiVersion: {OURS}
kind: AWSMachineTemplate
metadata: {{name: {name}}}
spec:
  template:
    spec:
      instanceType: t3.large
      ami: {{id: {}}}
      cloudInit: {{insecureSkipSecretsManager: true}}
",
        moto::IMAGE_ID
    )
}

/// The zones of Machines, sorted.
pub(super) fn zones(machines: &[DynamicObject]) -> Vec<String> {
    let zone = |machine: &DynamicObject| machine.data["status"]["failureDomain"].as_str().map(str::to_owned);
    let mut zones: Vec<_> = machines.iter().filter_map(zone).collect();
    zones.sort();
    zones
}

/// The three zones of the user's network.
pub(super) fn three_zones() -> [String; 3] {
    ["a", "b", "c"].map(|letter| format!("{REGION}{letter}"))
}
