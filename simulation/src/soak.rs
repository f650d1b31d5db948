//! Clusters and machines that come and go, most of them with something wrong: what a manager keeps in memory once they
//! are gone.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_api::cluster::AWSCluster;
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::AWSMachine;
use serde_json::json;

use crate::aws::{GROUP, IMAGE, INSTANCE_TYPE, REGION, TARGET_GROUPS, VPC, ZONES};
use crate::faults::Faults;
use crate::management_cluster::ManagementCluster;
use crate::names::{CORE_FINALIZER, NAMESPACE, secret_name};
use crate::objects::{object, write_secret};
use crate::process::Process;
use crate::server::Server;
use crate::simulation::Simulation;
use crate::time::after;

/// How long machines are there.
const LIFE: Duration = Duration::from_secs(300);
/// How long after its deletion the last one is gone: instances drain for a minute at most.
const END: Duration = Duration::from_secs(900);
/// Between two looks at the memory.
const GLANCE: Duration = Duration::from_millis(100);
/// A type that no zone has capacity for.
const SHORT_TYPE: &str = "p5.48xlarge";

/// How many entries each part of a manager's memory holds.
pub type Kept = BTreeMap<&'static str, usize>;

/// The result of a soak.
#[derive(Clone, Debug)]
pub struct Soak {
    /// The first rule that was broken.
    pub violation: Option<String>,
    /// Machines that ran at some time.
    pub launched: usize,
    /// The most entries in each round while its objects were there.
    pub most: Vec<Kept>,
    /// The entries that are left when all objects are gone.
    pub left: Kept,
}

/// Plays so many rounds. In each a cluster with so many machines comes and goes, and so many AWSClusters that are never
/// ready; every name is new.
pub fn run(rounds: usize, machines: usize, stray_clusters: usize) -> Soak {
    let mut simulation = Simulation::new(1, Faults::Planned(BTreeMap::new()), false, false);
    for (_, zone) in ZONES {
        simulation.outside.aws.region().set_capacity(SHORT_TYPE, zone, false);
    }
    simulation.start(ManagementCluster::Main);
    let mut most = Vec::new();
    for round in 0..rounds {
        let names = Round::new(round, machines, stray_clusters);
        names.create(simulation.outside.server_mut(ManagementCluster::Main));
        simulation.settle(Duration::ZERO);
        most.push(live(&mut simulation));
        names.delete(&mut simulation);
    }
    let now = simulation.now();
    if !simulation.outside.server(ManagementCluster::Main).stored.aws_machines.is_empty() {
        simulation.invariants.violate(now, "undeletable: machines are left");
    }
    Soak {
        launched: simulation.outside.aws.accounts.launched().count(),
        most,
        left: kept(&simulation),
        violation: simulation.invariants.violation,
    }
}

/// Lets the objects of a round live; gives the most entries that there are meanwhile.
fn live(simulation: &mut Simulation) -> Kept {
    let mut most = Kept::new();
    let end = after(simulation.now(), LIFE);
    while simulation.now() < end {
        simulation.run_until(after(simulation.now(), GLANCE));
        for (part, entries) in kept(simulation) {
            let before = most.entry(part).or_default();
            *before = entries.max(*before);
        }
    }
    most
}

fn kept(simulation: &Simulation) -> Kept {
    let leading = simulation.processes.values().find(|process| process.leading);
    leading.map(Process::kept).unwrap_or_default()
}

/// The names of one round.
struct Round {
    cluster: String,
    machines: Vec<String>,
    strays: Vec<String>,
}

impl Round {
    fn new(round: usize, machines: usize, strays: usize) -> Self {
        Self {
            cluster: format!("c{round}"),
            machines: (0..machines).map(|number| format!("r{round}-m{number}")).collect(),
            strays: (0..strays).map(|number| format!("r{round}-s{number}")).collect(),
        }
    }

    fn create(&self, server: &mut Server) {
        create_cluster(server, &self.cluster);
        for (number, machine) in self.machines.iter().enumerate() {
            create_machine(server, &self.cluster, machine, number);
        }
        for (number, stray) in self.strays.iter().enumerate() {
            create_stray(server, stray, number);
        }
    }

    /// The user deletes everything, machines first.
    fn delete(&self, simulation: &mut Simulation) {
        let now = simulation.now();
        for machine in &self.machines {
            simulation.outside.server_mut(ManagementCluster::Main).delete::<Machine>(machine, now);
        }
        simulation.settle(Duration::ZERO);
        simulation.run_until(after(now, END));
        let now = simulation.now();
        for cluster in self.strays.iter().chain([&self.cluster]) {
            simulation.outside.server_mut(ManagementCluster::Main).delete::<AWSCluster>(cluster, now);
            simulation.outside.server_mut(ManagementCluster::Main).delete::<Cluster>(cluster, now);
        }
        for machine in &self.machines {
            simulation.outside.server_mut(ManagementCluster::Main).stored.secrets.remove(&secret_name(machine));
        }
        simulation.settle(Duration::ZERO);
        simulation.run_until(after(now, Duration::from_secs(10)));
    }
}

fn create_owner(server: &mut Server, name: &str) {
    let cluster: Cluster = object(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSCluster", "name": name,
        }},
        // The simulated core sees to one cluster only.
        "status": {"initialization": {"infrastructureProvisioned": true}},
    }));
    server.create(cluster);
}

fn create_infrastructure(server: &mut Server, name: &str, annotations: &serde_json::Value, spec: &serde_json::Value) {
    let cluster: AWSCluster = object(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "annotations": annotations,
            "labels": {"cluster.x-k8s.io/cluster-name": name},
            "ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": name, "uid": "o"},
            ],
        },
        "spec": spec,
        "status": {"ready": true},
    }));
    server.create(cluster);
}

fn create_cluster(server: &mut Server, name: &str) {
    create_owner(server, name);
    let subnets: Vec<_> = ZONES.iter().map(|(subnet, zone)| json!({"id": subnet, "availabilityZone": zone})).collect();
    let targets: Vec<_> = TARGET_GROUPS.iter().map(|(arn, ..)| json!({"targetGroupARN": arn})).collect();
    let spec = json!({
        "region": REGION, "unmanaged": true,
        "network": {"vpc": {"id": VPC}, "subnets": subnets, "securityGroupOverrides": {"node": GROUP}},
        "controlPlaneTargets": targets,
    });
    create_infrastructure(server, name, &json!({}), &spec);
}

/// A cluster in an invented region, whose lookups find nothing, or one of another controller that warnings are about.
fn create_stray(server: &mut Server, name: &str, number: usize) {
    create_owner(server, name);
    if number.is_multiple_of(2) {
        let subnets = json!([{"id": "subnet-00000bad"}]);
        let spec = json!({
            "region": format!("xx-invented-{}", number + 1), "unmanaged": true,
            "network": {"vpc": {"id": "vpc-00000bad"}, "subnets": subnets},
        });
        create_infrastructure(server, name, &json!({}), &spec);
    } else {
        let annotations = json!({"cluster.x-k8s.io/managed-by": "somebody"});
        create_infrastructure(server, name, &annotations, &json!({"region": REGION}));
    }
}

/// A machine; of every five, one needs an image that does not exist, one a type without capacity, and one bootstrap
/// data that do not come.
fn create_machine(server: &mut Server, cluster: &str, name: &str, number: usize) {
    let labels = if number.is_multiple_of(5) {
        json!({"cluster.x-k8s.io/cluster-name": cluster, "cluster.x-k8s.io/control-plane": ""})
    } else {
        json!({"cluster.x-k8s.io/cluster-name": cluster})
    };
    let machine: Machine = object(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "finalizers": [CORE_FINALIZER], "labels": labels,
        },
        "spec": {
            "clusterName": cluster, "bootstrap": {"dataSecretName": secret_name(name)},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachine", "name": name},
        },
    }));
    let image = if number % 5 == 2 { "ami-00000bad" } else { IMAGE };
    let instance_type = if number % 5 == 3 { SHORT_TYPE } else { INSTANCE_TYPE };
    let uid = server.create(machine).metadata.uid.clone();
    let infrastructure: AWSMachine = object(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachine",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "labels": labels,
            "ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name, "uid": uid},
            ],
        },
        "spec": {
            "instanceType": instance_type, "ami": {"id": image}, "cloudInit": {"insecureSkipSecretsManager": true},
        },
    }));
    if number % 5 != 4 {
        write_secret(server, name, 0);
    }
    server.create(infrastructure);
}
