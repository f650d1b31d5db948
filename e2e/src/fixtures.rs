//! YAML of the objects around a machine that most stories need. Every story writes the objects of its own subject
//! itself.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::{moto, user::Network};

/// The secret in all bootstrap data. A test fails whose manager shows this text anywhere.
pub const JOIN_TOKEN: &str = "planted.join.token.3f6c0e7b9d2a4185";

/// The user data of a machine whose [`bootstrap_secret`] has this content, with [`JOIN_TOKEN`].
pub fn user_data(content: &str) -> String {
    format!("{content}\n# {JOIN_TOKEN}\n")
}

/// A Secret with bootstrap data in the format of a bootstrap provider, for the [`user_data`] of this content.
pub fn bootstrap_secret(name: &str, content: &str) -> String {
    let content = serde_json::Value::from(user_data(content));
    format!(
        "
apiVersion: v1
kind: Secret
type: cluster.x-k8s.io/secret
metadata: {{name: {name}}}
stringData: {{format: cloud-config, value: {content}}}
"
    )
}

/// The Secret with the kubeconfig of a Cluster, as Cluster API writes it.
pub fn kubeconfig_secret(cluster: &str, kubeconfig: &str) -> String {
    let labels = json!({"cluster.x-k8s.io/cluster-name": cluster});
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": format!("{cluster}-kubeconfig"), "labels": labels},
        "data": {"value": BASE64_STANDARD.encode(kubeconfig)},
    })
    .to_string()
}

/// A Cluster on an infrastructure object of the same name, of the given kind of our API group. Without a kind it has
/// no `infrastructureRef` but a control plane, because Cluster API wants one of the two: a made-up object that only
/// exists, of a kind that only exists.
pub fn cluster(name: &str, infrastructure_kind: Option<&str>) -> String {
    let (parts, reference) = match infrastructure_kind {
        Some(kind) => (
            String::new(),
            format!("infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: {kind}, name: {name}}}"),
        ),
        None => (
            control_plane(name),
            format!("controlPlaneRef: {{apiGroup: controlplane.cluster.x-k8s.io, kind: StandIn, name: {name}}}"),
        ),
    };
    format!(
        "{parts}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {{name: {name}}}
spec:
  clusterNetwork: {{pods: {{cidrBlocks: [192.168.0.0/16]}}}}
  {reference}
"
    )
}

/// A control plane object with the fields that Cluster API reads, and its kind.
pub fn control_plane(name: &str) -> String {
    format!(
        "{}
---
apiVersion: controlplane.cluster.x-k8s.io/v1alpha1
kind: StandIn
metadata: {{name: {name}}}
",
        definition("controlplane.cluster.x-k8s.io", "StandIn", "")
    )
}

/// The definition of a namespaced kind whose version `v1alpha1` Cluster API reads, and whose objects accept any fields.
/// `label` is a further label in YAML's flow style, or an empty text.
pub fn definition(group: &str, kind: &str, label: &str) -> String {
    let singular = kind.to_lowercase();
    format!(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: {singular}s.{group}
  labels: {{cluster.x-k8s.io/v1beta2: v1alpha1, {label}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{kind: {kind}, listKind: {kind}List, plural: {singular}s, singular: {singular}}}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {{status: {{}}}}
    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"
    )
}

/// A Machine and its AWSMachine with the same name, and with the bootstrap data of a Secret. `spec` contains further
/// fields of the AWSMachine's spec, as YAML in flow style without the braces.
pub fn machine(name: &str, cluster: &str, secret: &str, spec: &str) -> String {
    format!(
        "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachine
metadata: {{name: {name}}}
spec: {{instanceType: t3.large, ami: {{id: {image}}}, {spec}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {{name: {name}}}
spec:
  clusterName: {cluster}
  version: v1.36.3
  bootstrap: {{dataSecretName: {secret}}}
  infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachine, name: {name}}}
",
        image = moto::IMAGE_ID
    )
}

/// An unmanaged AWSCluster on the private subnets of a network; `extra` are further lines of its spec, indented by two.
pub fn unmanaged_cluster(name: &str, region: &str, network: &Network, extra: &str) -> String {
    let subnets: Vec<String> = network.private_subnet_ids().iter().map(|id| format!("{{id: {id}}}")).collect();
    format!(
        "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSCluster
metadata: {{name: {name}}}
spec:
  region: {region}
  unmanaged: true
  network:
    vpc: {{id: {}}}
    subnets: [{}]
    securityGroupOverrides: {{node: {}, controlplane: {}}}
{extra}
",
        network.vpc_id,
        subnets.join(", "),
        network.node_security_group_id,
        network.control_plane_security_group_id,
    )
}

/// A MachineDeployment of a Cluster. Its machines take an AWSMachineTemplate and a bootstrap Secret, both named like
/// the deployment, and know no Kubernetes nodes.
pub fn machine_deployment(name: &str, cluster: &str, replicas: u32) -> String {
    format!(
        "
apiVersion: cluster.x-k8s.io/v1beta2
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
      version: v1.36.3
      bootstrap: {{dataSecretName: {name}}}
      infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachineTemplate, name: {name}}}
"
    )
}
