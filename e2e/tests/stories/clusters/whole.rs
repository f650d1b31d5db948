//! A whole cluster on existing infrastructure: the kubeadm control plane and the workers with which stories begin.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capa_e2e::aws_proxy::{Call, Journal};
use capa_e2e::{Story, eventually, mostly_waits, objects};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::stories::api::kubectl_with;
use crate::stories::scenario::{CORE, FASTER, REGION, Scenario, run_story, template};

/// API version of KubeadmControlPlane.
pub(crate) const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/v1beta2";
/// The initial version of clusters.
pub(crate) const VERSION: &str = "v1.36.2";
/// The version after an upgrade.
pub(crate) const NEXT_VERSION: &str = "v1.36.3";
/// The deadline of a wait for nodes. The kubeadm providers retry an unreachable cluster only every half minute.
pub(crate) const NODES_WITHIN: Duration = Duration::from_secs(600);
/// The port of API servers.
pub(crate) const PORT: u16 = 6443;
/// The deregistration delay of load balancers in seconds; AWS's default is five minutes.
const DRAINING_SECONDS: u32 = 1;
/// The writing AWS actions that the manager may call for a cluster on existing infrastructure.
const OUR_WRITES: [&str; 10] = [
    "CreateSecret",
    "DeleteSecret",
    "PutParameter",
    "DeleteParameters",
    "PutObject",
    "DeleteObject",
    "RunInstances",
    "TerminateInstances",
    "RegisterTargets",
    "DeregisterTargets",
];

/// Runs a story about whole clusters. At its end nothing is left in AWS, and the only writes were those for machines
/// and their registrations.
pub(crate) fn whole_clusters(
    name: &str,
    body: impl AsyncFnOnce(&Scenario) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    tell_of_whole_clusters(Story::new(name), &[FASTER], body)
}

/// Runs a story about whole clusters with these flags for the manager.
pub(crate) fn tell_of_whole_clusters(
    story: Story<'_>,
    flags: &[&str],
    body: impl AsyncFnOnce(&Scenario) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    mostly_waits();
    run_story(story, async |s| {
        let before = s.begin_whole_clusters(flags).await?;
        body(s).await?;
        s.end_whole_clusters(&before).await
    })
}

impl Scenario {
    /// Starts the kubeadm providers and the nodes, and the manager with these flags. Returns a dump of the user's
    /// network without load balancers.
    pub(crate) async fn begin_whole_clusters(&self, flags: &[&str]) -> anyhow::Result<Value> {
        self.environment.world().start_kubeadm().await?;
        self.aws().set_nodes_report(true);
        let manager = flags.iter().fold(self.new_manager(), |manager, flag| manager.flag(*flag));
        manager.start().await?;
        network(self).await
    }

    /// Fails unless only the user's unchanged network is left in AWS, and nothing else was written.
    pub(crate) async fn end_whole_clusters(&self, before: &Value) -> anyhow::Result<()> {
        let left = self.user.live_instances().await?;
        ensure!(left.is_empty(), "instances are left: {left:?}");
        let left = self.user.secrets().await?;
        ensure!(left.is_empty(), "secrets are left: {left:?}");
        let after = network(self).await?;
        ensure!(after == *before, "the user's network was {before:#} and is {after:#}");
        only_ours_was_written(&self.aws().manager_journal())
    }

    /// A cluster with this name behind a network load balancer of the user, before the objects of the cluster exist.
    /// All of the cluster's objects have its name as a prefix.
    pub(crate) async fn kubeadm_cluster(&self, name: &str) -> anyhow::Result<KubeadmCluster<'_>> {
        // The name is unique in the account, which two namespaces may share.
        let unique = format!("{name}-{}", last_word(self.namespace()));
        let load_balancer = self.user.create_network_load_balancer(&self.network, &unique).await?;
        let group = &load_balancer.target_group_arn;
        self.user.set_deregistration_delay(group, DRAINING_SECONDS).await?;
        Ok(KubeadmCluster {
            host: load_balancer.dns_name.clone(),
            target_group: Some(load_balancer.target_group_arn),
            ..self.kubeadm_cluster_without_load_balancer(name)
        })
    }

    /// A cluster whose endpoint is a mere name, like DNS or a virtual address.
    pub(crate) fn kubeadm_cluster_without_load_balancer(&self, name: &str) -> KubeadmCluster<'_> {
        KubeadmCluster {
            scenario: self,
            name: name.to_owned(),
            host: format!("{name}.{}.example", self.namespace()),
            target_group: None,
            bootstrap: IN_USER_DATA.to_owned(),
            bucket: None,
        }
    }
}

/// A dump of the user's resources without load balancers, which belong to the clusters of a story.
pub(crate) async fn network(scenario: &Scenario) -> anyhow::Result<Value> {
    let mut dump = scenario.user.dump().await?;
    if let Some(parts) = dump.as_object_mut() {
        // The interfaces of load balancers are created together with them.
        let with_clusters = ["LoadBalancers", "TargetGroups", "NetworkInterfaces"];
        parts.retain(|part, _| !with_clusters.iter().any(|name| part.contains(name)));
    }
    Ok(dump)
}

fn only_ours_was_written(journal: &Journal) -> anyhow::Result<()> {
    only_machines_were_written(journal)?;
    only_ours_was_registered(journal)
}

/// Fails unless all writes were launches, the ends of what was launched, and registrations.
pub(crate) fn only_machines_were_written(journal: &Journal) -> anyhow::Result<()> {
    let foreign = journal.mutating().matching(|call| !OUR_WRITES.contains(&call.action.as_str()));
    ensure!(foreign.is_empty(), "the manager wrote: {foreign}");
    let strangers: Vec<_> = instances_of(journal, "TerminateInstances")
        .difference(&instances_of(journal, "RunInstances"))
        .cloned()
        .collect();
    ensure!(strangers.is_empty(), "the manager terminated instances that it had not launched: {strangers:?}");
    Ok(())
}

/// The instances in the calls of an action.
pub(crate) fn instances_of(journal: &Journal, action: &str) -> BTreeSet<String> {
    let calls = journal.of(action);
    let ids = calls.calls().iter().flat_map(|call| call.instance_ids.clone());
    ids.collect()
}

/// The ids of the targets in a call.
pub(crate) fn targets_of(call: &Call) -> Vec<String> {
    let target = |number| call.parameter(&format!("Targets.member.{number}.Id")).map(str::to_owned);
    (1..).map_while(target).collect()
}

/// Fails unless all registered and deregistered targets are instances that were launched in the namespace of the
/// cluster.
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
            let targets = targets_of(call);
            let are_ours = targets.iter().all(|target| namespaces.get(target.as_str()) == Some(&group));
            ensure!(are_ours, "a foreign registration was written: {call}");
        }
    }
    Ok(())
}

/// The part after the last dash.
fn last_word(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or_default()
}

/// A cluster of a story.
pub(crate) struct KubeadmCluster<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) name: String,
    /// The host name of the API server's endpoint, at [`PORT`].
    pub(crate) host: String,
    /// The target group of its control plane machines, if any.
    pub(crate) target_group: Option<String>,
    /// The delivery of bootstrap data to its machines, in the form of their spec.
    pub(crate) bootstrap: String,
    /// The bucket for bootstrap data in the AWSCluster, as YAML in flow style.
    pub(crate) bucket: Option<String>,
}

/// Machines whose user data is their bootstrap data.
const IN_USER_DATA: &str = "cloudInit: {insecureSkipSecretsManager: true}";

impl KubeadmCluster<'_> {
    /// Applies the Cluster, the AWSCluster and a control plane with this many machines.
    pub(crate) async fn control_plane(&self, replicas: u32) -> anyhow::Result<()> {
        self.scenario.apply(&self.infrastructure()).await?;
        let reference = format!("apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSCluster, name: {}", self.name);
        let reference = format!("infrastructureRef: {{{reference}}}");
        self.control_plane_on(replicas, &reference, "").await
    }

    /// Applies the Cluster and a control plane with this many machines. `cluster` is a further line of the Cluster's
    /// spec, and `machine` are further lines of the machines' spec, indented by six.
    pub(crate) async fn control_plane_on(&self, replicas: u32, cluster: &str, machine: &str) -> anyhow::Result<()> {
        let Self { scenario, name, .. } = self;
        self.machine_template("control-plane", machine).await?;
        let control_plane = format!(
            "
apiVersion: {CORE}
kind: Cluster
metadata: {{name: {name}}}
spec:
  clusterNetwork: {{pods: {{cidrBlocks: [192.168.0.0/16]}}}}
  controlPlaneRef: {{apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: {name}}}
  {cluster}
---
apiVersion: {CONTROL_PLANE}
kind: KubeadmControlPlane
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  version: {VERSION}
  machineTemplate: {{spec: {{infrastructureRef: {template}}}}}
  kubeadmConfigSpec:
    format: {format}
    initConfiguration: {{nodeRegistration: {registration}}}
    joinConfiguration: {{nodeRegistration: {registration}}}
",
            format = self.format(),
            registration = self.node_registration(),
            template = template_reference(name, "control-plane"),
        );
        scenario.apply(&control_plane).await
    }

    /// The YAML of the AWSCluster.
    pub(crate) fn infrastructure(&self) -> String {
        let endpoint = format!("  controlPlaneEndpoint: {{host: {}, port: {PORT}}}", self.host);
        let target = self.target_group.iter();
        let targets = target.map(|group| format!("  controlPlaneTargets: [{{targetGroupARN: '{group}'}}]"));
        let bucket = self.bucket.iter().map(|bucket| format!("  s3Bucket: {bucket}"));
        let extra: Vec<_> = std::iter::once(endpoint).chain(targets).chain(bucket).collect();
        self.scenario.unmanaged(&self.name, &extra.join("\n"))
    }

    fn format(&self) -> &'static str {
        if self.bootstrap.contains("ignition") { "ignition" } else { "cloud-config" }
    }

    /// The registration of its nodes. Ignition fills no name in: the kubelet takes that of the computer.
    fn node_registration(&self) -> String {
        let name = match self.format() {
            "ignition" => "",
            _ => "name: '{{ ds.meta_data.local_hostname }}', ",
        };
        format!("{{{name}kubeletExtraArgs: [{{name: cloud-provider, value: external}}]}}")
    }

    /// Applies the AWSMachineTemplate `<cluster>-<role>`; `extra` are further lines of the machine's spec, indented by
    /// six.
    pub(crate) async fn machine_template(&self, role: &str, extra: &str) -> anyhow::Result<()> {
        let name = format!("{}-{role}", self.name);
        let template = template(&name, extra).replace(IN_USER_DATA, &self.bootstrap);
        self.scenario.apply(&template).await?;
        Ok(())
    }

    /// Applies the MachineDeployment `<cluster>-workers`, whose machines join the cluster.
    pub(crate) async fn workers(&self, replicas: u32) -> anyhow::Result<()> {
        self.workers_on(replicas, "").await
    }

    /// The same with further lines of the machines' spec, indented by six.
    pub(crate) async fn workers_on(&self, replicas: u32, machine: &str) -> anyhow::Result<()> {
        let Self { scenario, name, .. } = self;
        self.machine_template("workers", machine).await?;
        let deployment = format!(
            "
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {{name: {name}-workers}}
spec: {{template: {{spec: {{format: {format}, joinConfiguration: {{nodeRegistration: {registration}}}}}}}}}
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
      bootstrap:
        configRef: {{apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: {name}-workers}}
      infrastructureRef: {template}
",
            template = template_reference(name, "workers"),
            format = self.format(),
            registration = self.node_registration(),
        );
        scenario.apply(&deployment).await
    }

    /// Merges a patch into the KubeadmControlPlane.
    pub(crate) async fn change_control_plane(&self, spec: Value) -> anyhow::Result<()> {
        let patch = json!({ "spec": spec });
        let name = &self.name;
        self.scenario.patch(CONTROL_PLANE, "KubeadmControlPlane", name, patch).await
    }

    /// Merges a patch into the MachineDeployment.
    pub(crate) async fn change_workers(&self, spec: Value) -> anyhow::Result<()> {
        let patch = json!({ "spec": spec });
        let name = format!("{}-workers", self.name);
        self.scenario.patch(CORE, "MachineDeployment", &name, patch).await
    }

    /// Waits until the cluster has exactly this many control plane machines and workers, each Ready (its node too) and
    /// up to date, and returns them.
    pub(crate) async fn ready(&self, control_plane: usize, workers: usize) -> anyhow::Result<Vec<DynamicObject>> {
        let what = format!("{control_plane} control plane nodes and {workers} workers of {} to be ready", self.name);
        eventually(NODES_WITHIN, &what, async || {
            let machines = self.machines().await?;
            let planes = machines.iter().filter(|machine| is_control_plane(machine)).count();
            let counted = (planes, machines.len() - planes);
            ensure!(counted == (control_plane, workers), "there are {counted:?}");
            for machine in &machines {
                let name = machine.name_any();
                // Cluster API writes the status of a Machine before its spec.
                ensure!(!instance_of(machine).is_empty(), "{name} has no provider id yet");
                for condition in ["Ready", "UpToDate"] {
                    let found = objects::condition(machine, condition);
                    let found = found.with_context(|| format!("{name} says nothing of {condition}"))?;
                    ensure!(found.status == "True", "{name}: {found:?}");
                }
            }
            Ok(machines)
        })
        .await
    }

    /// Waits until Cluster API says that the cluster is available.
    pub(crate) async fn available(&self) -> anyhow::Result<()> {
        let api = self.scenario.api(CORE, "Cluster").await?;
        eventually(NODES_WITHIN, &format!("{} to be available", self.name), async || {
            let cluster = api.get(&self.name).await?;
            let found = objects::condition(&cluster, "Available").context("no condition")?;
            ensure!(found.status == "True", "{found:?}");
            Ok(())
        })
        .await
    }

    /// The Machines of the cluster.
    pub(crate) async fn machines(&self) -> anyhow::Result<Vec<DynamicObject>> {
        let api = self.scenario.api(CORE, "Machine").await?;
        let ours = ListParams::default().labels(&format!("cluster.x-k8s.io/cluster-name={}", self.name));
        Ok(api.list(&ours).await?.items)
    }

    /// The output of kubectl with the kubeconfig that Cluster API writes.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let secret = format!("{}-kubeconfig", self.name);
        let secret = self.scenario.get("v1", "Secret", &secret).await?;
        let kubeconfig = secret.data["data"]["value"].as_str();
        let kubeconfig = kubeconfig.context("the Secret has a value")?;
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), BASE64_STANDARD.decode(kubeconfig)?)?;
        kubectl_with(&self.scenario.environment, file.path(), arguments)
    }

    /// Deletes the cluster, waits until it is gone, and checks that its load balancer has no target left.
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

/// The `infrastructureRef` of a template of machines.
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
