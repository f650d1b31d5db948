//! A whole cluster on infrastructure that the user brought: a kubeadm control plane and workers, as stories begin.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, ensure};
use capa_e2e::aws_proxy::{Account, Journal};
use capa_e2e::{Manager, eventually, mostly_waits, objects};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::stories::scenario::{CORE, FASTER, REGION, Scenario, template};

/// API version of KubeadmControlPlane.
pub(crate) const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/v1beta2";
/// The version that clusters begin with.
pub(crate) const VERSION: &str = "v1.36.2";
/// The version that they are upgraded to.
pub(crate) const NEXT_VERSION: &str = "v1.36.3";
/// Deadline of a wait for nodes. The kubeadm providers look again only every half minute at what they cannot reach.
pub(crate) const NODES_WITHIN: Duration = Duration::from_secs(600);
/// The port of API servers.
pub(crate) const PORT: u16 = 6443;
/// How long load balancers give connections to a target that leaves; AWS's default is five minutes.
const DRAINING_SECONDS: u32 = 1;
/// What our manager may write to AWS for a cluster on brought infrastructure.
const OUR_WRITES: [&str; 4] = [
    "RunInstances",
    "TerminateInstances",
    "RegisterTargets",
    "DeregisterTargets",
];

/// A story about clusters under way.
pub(crate) struct Story {
    pub(crate) scenario: Scenario,
    pub(crate) manager: Manager,
    /// The user's network without load balancers, as it was before we came.
    before: Value,
}

impl Story {
    /// A namespace, an account and a network, the programs that make clusters, and our manager.
    pub(crate) async fn begin(name: &str) -> anyhow::Result<Self> {
        mostly_waits();
        Self::on(Scenario::new(name).await?).await
    }

    /// The same in a namespace and on a network that are there.
    pub(crate) async fn on(scenario: Scenario) -> anyhow::Result<Self> {
        Self::with_manager_flags(scenario, &[FASTER]).await
    }

    /// The same with these flags for our manager.
    pub(crate) async fn with_manager_flags(scenario: Scenario, flags: &[&str]) -> anyhow::Result<Self> {
        scenario.environment.world().start_kubeadm().await?;
        scenario.environment.aws().set_nodes_report(true);
        let builder = scenario.environment.manager();
        let builder = flags.iter().fold(builder, |builder, flag| builder.flag(*flag));
        let manager = builder.start().await?;
        let before = network(&scenario).await?;
        Ok(Self {
            scenario,
            manager,
            before,
        })
    }

    /// The account of the story.
    pub(crate) fn aws(&self) -> &Account {
        self.scenario.environment.aws()
    }

    /// A cluster of this name behind a network load balancer that the user brings, not yet there itself. All that belongs
    /// to it is named after it.
    pub(crate) async fn cluster(&self, name: &str) -> anyhow::Result<KubeadmCluster<'_>> {
        let Scenario { user, network, .. } = &self.scenario;
        let unique = last_word(self.scenario.environment.namespace());
        // Unique in the account, which two namespaces may share.
        let load_balancer = user
            .create_network_load_balancer(network, &format!("{name}-{unique}"))
            .await?;
        let group = &load_balancer.target_group_arn;
        user.set_deregistration_delay(group, DRAINING_SECONDS).await?;
        Ok(KubeadmCluster {
            host: load_balancer.dns_name.clone(),
            target_group: Some(load_balancer.target_group_arn),
            ..self.cluster_without_load_balancer(name)
        })
    }

    /// The same where a name is enough: DNS, or a virtual address.
    pub(crate) fn cluster_without_load_balancer(&self, name: &str) -> KubeadmCluster<'_> {
        KubeadmCluster {
            scenario: &self.scenario,
            name: name.to_owned(),
            host: format!("{name}.{}.example", self.scenario.environment.namespace()),
            target_group: None,
        }
    }

    /// Nothing is left in AWS, and nothing was written there but machines of ours and their registrations.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        let Self {
            scenario,
            manager,
            before,
        } = self;
        let left = scenario.user.live_instances().await?;
        ensure!(left.is_empty(), "instances are left: {left:?}");
        let after = network(&scenario).await?;
        ensure!(after == before, "the user's network was {before:#} and is {after:#}");
        only_ours_was_written(&scenario.environment.aws().manager_journal())?;
        let status = manager.stop().await?;
        ensure!(status.success(), "the manager ended with {status}");
        scenario.environment.finish().await
    }
}

/// All that the user has but load balancers, which come with each cluster of a story.
async fn network(scenario: &Scenario) -> anyhow::Result<Value> {
    let mut dump = scenario.user.dump().await?;
    if let Some(parts) = dump.as_object_mut() {
        // Their interfaces come with them.
        let with_clusters = ["LoadBalancers", "TargetGroups", "NetworkInterfaces"];
        parts.retain(|part, _| !with_clusters.iter().any(|name| part.contains(name)));
    }
    Ok(dump)
}

fn only_ours_was_written(journal: &Journal) -> anyhow::Result<()> {
    let foreign = journal
        .mutating()
        .matching(|call| !OUR_WRITES.contains(&call.action.as_str()));
    ensure!(foreign.is_empty(), "the manager wrote: {foreign}");
    let ids = |action: &str| -> BTreeSet<String> {
        let calls = journal.of(action);
        let ids = calls.calls().iter().flat_map(|call| call.instance_ids.clone());
        ids.collect()
    };
    let strangers: Vec<_> = ids("TerminateInstances")
        .difference(&ids("RunInstances"))
        .cloned()
        .collect();
    ensure!(
        strangers.is_empty(),
        "it terminated what it had not launched: {strangers:?}"
    );
    only_ours_was_registered(journal)
}

/// What goes in and out of a target group are instances that were launched in the namespace of its cluster.
fn only_ours_was_registered(journal: &Journal) -> anyhow::Result<()> {
    let launches = journal.of("RunInstances");
    let mut namespaces = BTreeMap::new();
    for launch in launches.calls() {
        let machine = launch.tags("instance").remove("MachineName").unwrap_or_default();
        let namespace = machine.split('/').next().unwrap_or_default();
        namespaces.extend(launch.instance_ids.iter().map(|id| (id.as_str(), last_word(namespace))));
    }
    for action in ["RegisterTargets", "DeregisterTargets"] {
        for call in journal.of(action).calls() {
            let arn = call.parameter("TargetGroupArn").unwrap_or_default();
            let group = last_word(arn.split('/').nth(1).unwrap_or_default());
            let target = |number| call.parameter(&format!("Targets.member.{number}.Id"));
            let mut targets = (1..).map_while(target);
            let are_ours = targets.all(|target| namespaces.get(target) == Some(&group));
            ensure!(are_ours, "a foreign registration was written: {call}");
        }
    }
    Ok(())
}

/// What comes after the last dash.
fn last_word(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or_default()
}

/// A cluster of a story.
pub(crate) struct KubeadmCluster<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) name: String,
    /// The name under which its API server is reached, at [`PORT`].
    pub(crate) host: String,
    /// Where its control plane machines are registered, if anywhere.
    pub(crate) target_group: Option<String>,
}

impl KubeadmCluster<'_> {
    /// Applies Cluster, AWSCluster and a control plane of so many machines.
    pub(crate) async fn control_plane(&self, replicas: u32) -> anyhow::Result<()> {
        let Self { scenario, name, .. } = self;
        scenario.environment.apply(&self.infrastructure()).await?;
        self.machine_template("control-plane", "").await?;
        let control_plane = format!(
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
  machineTemplate: {{spec: {{infrastructureRef: {template}}}}}
  kubeadmConfigSpec:
    initConfiguration: {{nodeRegistration: {NODE_REGISTRATION}}}
    joinConfiguration: {{nodeRegistration: {NODE_REGISTRATION}}}
",
            template = template_reference(name, "control-plane"),
        );
        scenario.environment.apply(&control_plane).await?;
        Ok(())
    }

    /// The AWSCluster.
    pub(crate) fn infrastructure(&self) -> String {
        let endpoint = format!("  controlPlaneEndpoint: {{host: {}, port: {PORT}}}", self.host);
        let target = self.target_group.iter();
        let targets = target.map(|group| format!("  controlPlaneTargets: [{{targetGroupARN: '{group}'}}]"));
        let extra: Vec<_> = std::iter::once(endpoint).chain(targets).collect();
        self.scenario.unmanaged(&self.name, &extra.join("\n"))
    }

    /// Applies the AWSMachineTemplate `<cluster>-<role>`; `extra` are further lines of the machine's spec, indented by six.
    pub(crate) async fn machine_template(&self, role: &str, extra: &str) -> anyhow::Result<()> {
        let name = format!("{}-{role}", self.name);
        self.scenario.environment.apply(&template(&name, extra)).await?;
        Ok(())
    }

    /// Applies the MachineDeployment `<cluster>-workers`, whose machines join.
    pub(crate) async fn workers(&self, replicas: u32) -> anyhow::Result<()> {
        let Self { scenario, name, .. } = self;
        self.machine_template("workers", "").await?;
        let deployment = format!(
            "
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {{name: {name}-workers}}
spec: {{template: {{spec: {{joinConfiguration: {{nodeRegistration: {NODE_REGISTRATION}}}}}}}}}
---
apiVersion: {CORE}
kind: MachineDeployment
metadata: {{name: {name}-workers}}
spec:
  clusterName: {name}
  replicas: {replicas}
  selector: {{matchLabels: {{deployment: {name}}}}}
  template:
    metadata: {{labels: {{deployment: {name}}}}}
    spec:
      clusterName: {name}
      version: {VERSION}
      bootstrap: {{configRef: {{apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: {name}-workers}}}}
      infrastructureRef: {template}
",
            template = template_reference(name, "workers"),
        );
        scenario.environment.apply(&deployment).await?;
        Ok(())
    }

    /// Merges a patch into the KubeadmControlPlane.
    pub(crate) async fn change_control_plane(&self, spec: Value) -> anyhow::Result<()> {
        let patch = json!({ "spec": spec });
        let name = &self.name;
        self.scenario
            .patch(CONTROL_PLANE, "KubeadmControlPlane", name, patch)
            .await
    }

    /// Merges a patch into the MachineDeployment.
    pub(crate) async fn change_workers(&self, spec: Value) -> anyhow::Result<()> {
        let patch = json!({ "spec": spec });
        let name = format!("{}-workers", self.name);
        self.scenario.patch(CORE, "MachineDeployment", &name, patch).await
    }

    /// Waits until the cluster has exactly so many control plane machines and workers, each of which is Ready (its node
    /// too) and up to date, and gives them.
    pub(crate) async fn ready(&self, control_plane: usize, workers: usize) -> anyhow::Result<Vec<DynamicObject>> {
        let what = format!(
            "{control_plane} control plane nodes and {workers} workers of {} to be ready",
            self.name
        );
        eventually(NODES_WITHIN, &what, async || {
            let machines = self.machines().await?;
            let planes = machines.iter().filter(|machine| is_control_plane(machine)).count();
            let counted = (planes, machines.len() - planes);
            ensure!(counted == (control_plane, workers), "there are {counted:?}");
            for machine in &machines {
                for condition in ["Ready", "UpToDate"] {
                    let name = machine.name_any();
                    let found = objects::condition(machine, condition);
                    let found = found.with_context(|| format!("{name} says nothing of {condition}"))?;
                    ensure!(found.status == "True", "{name}: {found:?}");
                }
            }
            Ok(machines)
        })
        .await
    }

    /// Its Machines.
    pub(crate) async fn machines(&self) -> anyhow::Result<Vec<DynamicObject>> {
        let api = self.scenario.environment.api(CORE, "Machine").await?;
        let ours = ListParams::default().labels(&format!("cluster.x-k8s.io/cluster-name={}", self.name));
        Ok(api.list(&ours).await?.items)
    }

    /// Deletes it, waits until it is gone, and checks that its load balancer has no target left.
    pub(crate) async fn delete(&self) -> anyhow::Result<()> {
        let Scenario { environment, user, .. } = self.scenario;
        environment.delete(CORE, "Cluster", &self.name, NODES_WITHIN).await?;
        if let Some(target_group) = &self.target_group {
            let left = user.targets(target_group).await?;
            ensure!(left.is_empty(), "targets of {} are left: {left:?}", self.name);
        }
        Ok(())
    }
}

const NODE_REGISTRATION: &str = "{name: '{{ ds.meta_data.local_hostname }}', \
    kubeletExtraArgs: [{name: cloud-provider, value: external}]}";

/// What a template of machines refers to.
fn template_reference(cluster: &str, role: &str) -> Value {
    json!({
        "apiGroup": "infrastructure.cluster.x-k8s.io",
        "kind": "AWSMachineTemplate",
        "name": format!("{cluster}-{role}"),
    })
}

/// Whether a Machine belongs to the control plane.
pub(crate) fn is_control_plane(machine: &DynamicObject) -> bool {
    machine.labels().contains_key("cluster.x-k8s.io/control-plane")
}

/// The id of a Machine's instance.
pub(crate) fn instance_of(machine: &DynamicObject) -> String {
    let provider_id = machine.data["spec"]["providerID"].as_str().unwrap_or_default();
    provider_id.rsplit('/').next().unwrap_or_default().to_owned()
}

/// The zones of Machines, sorted.
pub(crate) fn zones<'a>(machines: impl IntoIterator<Item = &'a DynamicObject>) -> Vec<String> {
    let zone = |machine: &DynamicObject| machine.data["status"]["failureDomain"].as_str().map(str::to_owned);
    let mut zones: Vec<_> = machines.into_iter().filter_map(zone).collect();
    zones.sort();
    zones
}

/// Zones of the user's network by their letters.
pub(crate) fn lettered(letters: &str) -> Vec<String> {
    letters.chars().map(|letter| format!("{REGION}{letter}")).collect()
}
