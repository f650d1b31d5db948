//! The objects that a node's kubelet and kubeadm write into the API of its cluster.

use anyhow::Context;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::configuration::Configuration;
use super::user_data::NodeRegistration;
use super::write::{SYSTEM, apply};

const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane";
const NOT_READY_TAINT: &str = "node.kubernetes.io/not-ready";
const STATIC_PODS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
const ETCD_POD: &str = "etcd";

/// The facts of a node that its cluster's API shows.
#[derive(Clone, Debug)]
pub(super) struct NodeFacts {
    pub(super) name: String,
    /// The provider id; `None` where neither the kubelet nor a cloud controller sets one.
    pub(super) provider_id: Option<String>,
    pub(super) zone: String,
    pub(super) kubelet_version: String,
    pub(super) control_plane: bool,
    pub(super) registration: NodeRegistration,
    /// The configuration of the cluster when the node joined.
    pub(super) configuration: Configuration,
    /// The kubelet's port on this host, for a control plane node with stacked etcd.
    pub(super) kubelet_port: Option<u16>,
}

/// Creates the ready Node and its static pods. Of a Node that exists only the readiness changes: others have written
/// its labels, taints and conditions meanwhile.
pub(super) async fn register(client: &Client, facts: &NodeFacts) -> anyhow::Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    if nodes.get_opt(&facts.name).await?.is_some_and(|node| has_status(&node)) {
        heard_of(client, &facts.name, true).await?;
    } else {
        apply(&nodes, &facts.name, &node(facts)).await?;
        let status = json!({"status": status(facts)});
        nodes
            .patch_status(&facts.name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .with_context(|| format!("write the status of node {}", facts.name))?;
    }
    remove_taint_of_new_nodes(&nodes, &facts.name).await?;
    let pods = Api::<Pod>::namespaced(client.clone(), SYSTEM);
    for component in static_pods(facts) {
        let name = format!("{component}-{}", facts.name);
        apply(&pods, &name, &pod(facts, component, &name)).await?;
        let status = json!({"status": {"phase": "Running", "conditions": [condition("Ready", "True", "Running")]}});
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .with_context(|| format!("write the status of pod {name}"))?;
    }
    Ok(())
}

/// Whether the kubelet has written the status of a Node once.
fn has_status(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| !conditions.is_empty())
}

/// Removes the taint with which the API server creates a Node, as the node lifecycle controller does once the Node is
/// ready.
async fn remove_taint_of_new_nodes(nodes: &Api<Node>, name: &str) -> anyhow::Result<()> {
    loop {
        let mut node = nodes.get(name).await.with_context(|| format!("read node {name}"))?;
        let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
        let before = taints.len();
        taints.retain(|taint| taint.key != NOT_READY_TAINT);
        if taints.len() == before {
            return Ok(());
        }
        match nodes.replace(name, &PostParams::default(), &node).await {
            Err(kube::Error::Api(error)) if error.code == 409 => {}
            answer => {
                return answer.map(drop).with_context(|| format!("write the taints of node {name}"));
            }
        }
    }
}

/// Sets whether the kubelet of a node reports its status.
pub(super) async fn heard_of(client: &Client, name: &str, heard: bool) -> anyhow::Result<()> {
    let ready = if heard {
        condition("Ready", "True", "KubeletReady")
    } else {
        condition("Ready", "Unknown", "NodeStatusUnknown")
    };
    let status = json!({"status": {"conditions": [ready]}});
    Api::<Node>::all(client.clone())
        .patch_status(name, &PatchParams::default(), &Patch::Strategic(&status))
        .await
        .with_context(|| format!("write whether node {name} is ready"))?;
    Ok(())
}

/// Deletes the Node, as a cloud controller does after the end of its instance, and its pods, as the pod garbage
/// collector does.
pub(super) async fn remove(client: &Client, facts: &NodeFacts) -> anyhow::Result<()> {
    let pods = Api::<Pod>::namespaced(client.clone(), SYSTEM);
    let at_once = DeleteParams::default().grace_period(0);
    for component in static_pods(facts) {
        let name = format!("{component}-{}", facts.name);
        gone(pods.delete(&name, &at_once).await.map(drop)).with_context(|| format!("delete pod {name}"))?;
    }
    let nodes = Api::<Node>::all(client.clone());
    let deleted = nodes.delete(&facts.name, &DeleteParams::default()).await.map(drop);
    gone(deleted).with_context(|| format!("delete node {}", facts.name))
}

fn gone(deleted: kube::Result<()>) -> kube::Result<()> {
    match deleted {
        Err(kube::Error::Api(error)) if error.code == 404 => Ok(()),
        other => other,
    }
}

fn static_pods(facts: &NodeFacts) -> Vec<&'static str> {
    let etcd = facts.kubelet_port.map(|_| ETCD_POD);
    let pods = STATIC_PODS.into_iter().chain(etcd);
    pods.filter(|_| facts.control_plane).collect()
}

fn node(facts: &NodeFacts) -> Value {
    let mut labels = facts.registration.labels.clone();
    labels.insert("kubernetes.io/hostname".to_owned(), facts.name.clone());
    labels.insert("topology.kubernetes.io/zone".to_owned(), facts.zone.clone());
    if facts.control_plane {
        labels.insert(CONTROL_PLANE_LABEL.to_owned(), String::new());
    }
    let kubeadms_own = facts.control_plane.then(|| json!({"key": CONTROL_PLANE_LABEL, "effect": "NoSchedule"}));
    let taints = facts.registration.taints.clone();
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": facts.name, "labels": labels},
        "spec": {"taints": taints.unwrap_or_else(|| kubeadms_own.into_iter().collect())},
    });
    if let Some((spec, id)) = node.pointer_mut("/spec").and_then(Value::as_object_mut).zip(facts.provider_id.as_ref()) {
        spec.insert("providerID".to_owned(), json!(id));
    }
    node
}

fn status(facts: &NodeFacts) -> Value {
    let version = &facts.kubelet_version;
    let pressures = ["MemoryPressure", "DiskPressure", "PIDPressure"];
    let mut conditions: Vec<_> = pressures.map(|pressure| condition(pressure, "False", "KubeletHasNo")).into();
    conditions.push(condition("Ready", "True", "KubeletReady"));
    json!({
        "conditions": conditions,
        // The cluster's API server runs on this host too and connects to the kubelet here.
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": facts.name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": facts.kubelet_port.unwrap_or_default()}},
        "nodeInfo": {
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://2.1.0",
            "kernelVersion": "6.12.0", "kubeProxyVersion": "", "kubeletVersion": version, "machineID": "",
            "operatingSystem": "linux", "osImage": "Simulated", "systemUUID": "",
        },
    })
}

fn condition(name: &str, status: &str, reason: &str) -> Value {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({"type": name, "status": status, "reason": reason, "lastHeartbeatTime": now, "lastTransitionTime": now})
}

fn pod(facts: &NodeFacts, component: &str, name: &str) -> Value {
    let image =
        if component == ETCD_POD { facts.configuration.etcd_image() } else { facts.configuration.image(component) };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": SYSTEM,
            "labels": {"component": component, "tier": "control-plane"},
            // Any value marks the pod as the mirror of a static pod.
            "annotations": {"kubernetes.io/config.mirror": "simulated"},
        },
        "spec": {
            "nodeName": facts.name,
            "hostNetwork": true,
            "containers": [{"name": component, "image": image}],
        },
    })
}
