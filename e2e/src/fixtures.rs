//! YAML of the objects around a machine that nearly every story needs. What a story is about it writes itself.

/// A Secret with bootstrap data, as a bootstrap provider would make it. `content` is the user data.
pub fn bootstrap_secret(name: &str, content: &str) -> String {
    let content = serde_json::Value::from(content);
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

/// A Cluster on an infrastructure object of the same name, of the given kind of our API group; without a kind the
/// Cluster has no `infrastructureRef`.
pub fn cluster(name: &str, infrastructure_kind: Option<&str>) -> String {
    let infrastructure = infrastructure_kind.map_or(String::new(), |kind| {
        format!("  infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: {kind}, name: {name}}}\n")
    });
    format!(
        "
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {{name: {name}}}
spec:
  clusterNetwork: {{pods: {{cidrBlocks: [192.168.0.0/16]}}}}
{infrastructure}"
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
