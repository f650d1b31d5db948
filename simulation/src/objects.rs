//! The objects of a history: one cluster on infrastructure that the user brought, and machines.

use std::collections::BTreeMap;

use capa_api::cluster::AWSCluster;
use capa_api::common::ElasticIpPool;
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::{AWSMachine, DynamicHostAllocation, HostAffinity, LaunchRecord, Tenancy};
use capa_api::meta;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::aws::{BUCKET, GROUP, IMAGE, INSTANCE_TYPE, REGION, TARGET_GROUPS, VPC, ZONES};
use crate::names::{CLUSTER, CORE_FINALIZER, NAMESPACE, is_control_plane, machine_number, secret_name};
use crate::server::Server;

/// Creates the Cluster and its AWSCluster in the first `zones` zones.
pub(crate) fn create_cluster(server: &mut Server, zones: usize) {
    let cluster: Cluster = object(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": CLUSTER, "namespace": NAMESPACE, "finalizers": [CORE_FINALIZER]},
        "spec": {"infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSCluster", "name": CLUSTER,
        }},
    }));
    let cluster = server.create(cluster);
    let targets: Vec<Value> = TARGET_GROUPS.iter().map(|(arn, ..)| json!({"targetGroupARN": arn})).collect();
    let infrastructure: AWSCluster = object(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
        "metadata": {
            "name": CLUSTER, "namespace": NAMESPACE, "labels": {"cluster.x-k8s.io/cluster-name": CLUSTER},
            "ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": CLUSTER, "uid": cluster.uid()},
            ],
        },
        "spec": {
            "region": REGION, "unmanaged": true,
            "network": {
                "vpc": {"id": VPC}, "subnets": subnets::<Value>(0, zones), "securityGroupOverrides": {"node": GROUP},
            },
            "controlPlaneTargets": targets,
            "s3Bucket": {"name": BUCKET, "presignedURLDuration": "1h"},
        },
    }));
    server.create(infrastructure);
}

/// So many subnets as an AWSCluster declares them, from this one on.
pub(crate) fn subnets<T: DeserializeOwned>(first: usize, count: usize) -> T {
    let subnets = ZONES.iter().cycle().skip(first).take(count.min(ZONES.len()));
    let subnets = subnets.map(|(subnet, zone)| json!({"id": subnet, "availabilityZone": zone}));
    object(Value::Array(subnets.collect()))
}

/// Creates a Machine with its AWSMachine and bootstrap Secret. `claims`: an instance id that the user writes into the
/// spec.
pub(crate) fn create_machine(server: &mut Server, name: &str, claims: Option<&str>) {
    let secret = secret_name(name);
    let mut labels = BTreeMap::from([(meta::CLUSTER_NAME_LABEL.to_owned(), CLUSTER.to_owned())]);
    if is_control_plane(name) {
        labels.insert(meta::CONTROL_PLANE_LABEL.to_owned(), String::new());
    }
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
    write_secret(server, name, 0);
    let owner = server.create(machine).uid();
    let mut infrastructure = aws_machine(name, name, owner.as_deref().unwrap_or_default());
    infrastructure.labels_mut().extend(labels);
    infrastructure.spec.instance_id = claims.map(str::to_owned);
    server.create(infrastructure);
}

/// An AWSMachine of the cluster with a Machine of this name and UID as its owner.
pub(crate) fn aws_machine(name: &str, owner: &str, owner_uid: &str) -> AWSMachine {
    let mut machine: AWSMachine = object(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachine",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "labels": {"cluster.x-k8s.io/cluster-name": CLUSTER},
            "ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": owner, "uid": owner_uid},
            ],
        },
        "spec": {
            "instanceType": INSTANCE_TYPE, "ami": {"id": IMAGE},
            "cloudInit": {"insecureSkipSecretsManager": !keeps_data(name)},
        },
    }));
    if has_host(name) {
        machine.spec.tenancy = Some(Tenancy::Host);
        machine.spec.host_affinity = HostAffinity::Host;
        machine.spec.dynamic_host_allocation = Some(DynamicHostAllocation::default());
    }
    if has_elastic_ip(name) {
        machine.spec.elastic_ip_pool = Some(ElasticIpPool::default());
    }
    machine
}

/// Whether a machine has an Elastic IP: every fifth one, beginning with the second.
fn has_elastic_ip(machine: &str) -> bool {
    machine_number(machine).is_some_and(|number| number % 5 == 1)
}

/// Whether a Dedicated Host is allocated for a machine: for every fifth machine, beginning with the fourth.
pub(crate) fn has_host(machine: &str) -> bool {
    machine_number(machine).is_some_and(|number| number % 5 == 3)
}

/// Whether AWS keeps the bootstrap data of a machine: all but that of every third one, beginning with the first.
fn keeps_data(machine: &str) -> bool {
    machine_number(machine).is_some_and(|number| number % 3 != 0)
}

/// Whether the data is for Ignition, and so in the bucket instead of Secrets Manager: every third machine's is,
/// beginning with the third.
fn is_for_ignition(machine: &str) -> bool {
    machine_number(machine).is_some_and(|number| number % 3 == 2)
}

/// Writes a machine's bootstrap data, which differ from version to version.
pub(crate) fn write_secret(server: &mut Server, machine: &str, version: u32) {
    let name = secret_name(machine);
    let format = if is_for_ignition(machine) { "ignition" } else { "cloud-config" };
    let data = [("value", format!("#{format}\n# {version}\n")), ("format", format.to_owned())];
    let data = data.map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())));
    let secret = Secret {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        type_: Some("cluster.x-k8s.io/secret".to_owned()),
        data: Some(data.into()),
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

/// Whether the record of a machine says that EC2 was never asked.
pub(crate) fn is_planned(machine: &AWSMachine) -> bool {
    let launch = machine.status.as_ref().and_then(|status| status.launch.as_ref());
    launch == Some(&LaunchRecord::Planned)
}
