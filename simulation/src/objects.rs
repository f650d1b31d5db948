//! The objects of a history: one cluster on infrastructure that the user brought, and machines.

use capa_api::cluster::AWSCluster;
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::AWSMachine;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::aws::{GROUP, IMAGE, INSTANCE_TYPE, REGION, TARGET_GROUPS, VPC, ZONES};
use crate::server::Server;

/// The namespace of everything.
pub(crate) const NAMESPACE: &str = "team-a";
/// Where Secrets of static identities would be.
pub(crate) const IDENTITY_NAMESPACE: &str = "capa-rs-system";
/// UID of the management cluster, which tags carry.
pub(crate) const MANAGEMENT_CLUSTER: &str = "management-cluster";
/// Name of the Cluster and of its AWSCluster.
pub(crate) const CLUSTER: &str = "dev";
/// Keeps a Machine until its infrastructure is gone.
pub(crate) const CORE_FINALIZER: &str = "machine.cluster.x-k8s.io";

/// Name of the machine with a number.
pub(crate) fn machine_name(number: usize) -> String {
    format!("m{number}")
}

/// Whether a machine is of the control plane: every other one is, beginning with the first.
pub(crate) fn is_control_plane(machine: &str) -> bool {
    machine.ends_with(['0', '2', '4', '6', '8'])
}

/// Name of the Secret with a machine's bootstrap data.
pub(crate) fn secret_name(machine: &str) -> String {
    format!("boot-{machine}")
}

/// Creates the Cluster and its AWSCluster in the first `zones` zones.
pub(crate) fn create_cluster(server: &mut Server, zones: usize) {
    let cluster: Cluster = object(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": CLUSTER, "namespace": NAMESPACE, "finalizers": [CORE_FINALIZER]},
        "spec": {"infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSCluster", "name": CLUSTER,
        }},
    }));
    let subnets: Vec<Value> = ZONES
        .iter()
        .take(zones)
        .map(|(subnet, zone)| json!({"id": subnet, "availabilityZone": zone}))
        .collect();
    let targets: Vec<Value> = TARGET_GROUPS
        .iter()
        .map(|(arn, ..)| json!({"targetGroupARN": arn}))
        .collect();
    let infrastructure: AWSCluster = object(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
        "metadata": {
            "name": CLUSTER, "namespace": NAMESPACE, "labels": {"cluster.x-k8s.io/cluster-name": CLUSTER},
            "ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": CLUSTER, "uid": "o"},
            ],
        },
        "spec": {
            "region": REGION, "unmanaged": true,
            "network": {"vpc": {"id": VPC}, "subnets": subnets, "securityGroupOverrides": {"node": GROUP}},
            "controlPlaneTargets": targets,
        },
    }));
    server.create(cluster);
    server.create(infrastructure);
}

/// Creates a Machine with its AWSMachine and bootstrap Secret. `claims`: an instance id that the user writes into the
/// spec.
pub(crate) fn create_machine(server: &mut Server, name: &str, claims: Option<&str>) {
    let secret = secret_name(name);
    let labels = if is_control_plane(name) {
        json!({"cluster.x-k8s.io/cluster-name": CLUSTER, "cluster.x-k8s.io/control-plane": ""})
    } else {
        json!({"cluster.x-k8s.io/cluster-name": CLUSTER})
    };
    let machine: Machine = object(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "finalizers": [CORE_FINALIZER],
            "labels": labels,
        },
        "spec": {
            "clusterName": CLUSTER, "bootstrap": {"dataSecretName": secret},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachine", "name": name},
        },
    }));
    let owner = server.create(machine).uid();
    let mut infrastructure: AWSMachine = object(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachine",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "labels": labels,
            "ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name, "uid": owner},
            ],
        },
        "spec": {
            "instanceType": INSTANCE_TYPE, "ami": {"id": IMAGE}, "cloudInit": {"insecureSkipSecretsManager": true},
        },
    }));
    infrastructure.spec.instance_id = claims.map(str::to_owned);
    write_secret(server, name, 0);
    server.create(infrastructure);
}

/// Writes a machine's bootstrap data, which differ from version to version.
pub(crate) fn write_secret(server: &mut Server, machine: &str, version: u32) {
    let name = secret_name(machine);
    let data = format!("#cloud-config\n# {version}\n").into_bytes();
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            ..ObjectMeta::default()
        },
        type_: Some("cluster.x-k8s.io/secret".to_owned()),
        data: Some([("value".to_owned(), k8s_openapi::ByteString(data))].into()),
        ..Secret::default()
    };
    server.stored.secrets.insert(name, std::sync::Arc::new(secret));
}

/// Reads a template of this file.
///
/// # Panics
///
/// Where a template does not fit its type.
#[expect(clippy::expect_used, reason = "the templates of this file are constants")]
pub(crate) fn object<K: DeserializeOwned>(template: Value) -> K {
    serde_json::from_value(template).expect("the template fits its type")
}
