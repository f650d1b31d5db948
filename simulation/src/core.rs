//! Cluster API's core and the garbage collector, as far as the histories need them: they mark the infrastructure as
//! provisioned and carry deletions on. They look at all objects, so they may run at any time.

use capa_api::cluster::AWSCluster;
use capa_api::contract::{Cluster, Machine, NodeReference};
use capa_api::machine::AWSMachine;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;

use crate::management_cluster::ManagementCluster;
use crate::names::{CLUSTER, CORE_FINALIZER};
use crate::nodes;
use crate::outside::Outside;
use crate::server::Server;

/// Does whatever core would do now.
pub(crate) fn run(of: ManagementCluster, outside: &mut Outside) {
    let (now, nodes) = (outside.now, nodes::joined(of, outside));
    let server = outside.server_mut(of);
    provision(server);
    join(server, nodes);
    delete_machines(server, now);
    collect_garbage(server, now);
    delete_cluster(server, now);
}

fn provision(server: &mut Server) {
    let provisioned =
        server.get::<AWSCluster>(CLUSTER).and_then(|cluster| Some(cluster.status.as_ref()?.provisioned()));
    let known = server.get::<Cluster>(CLUSTER).is_none_or(|cluster| cluster.infrastructure_provisioned());
    if provisioned == Some(true) && !known {
        server.edit(CLUSTER, |cluster: &mut Cluster| {
            let reached = cluster.status.get_or_insert_default().initialization.get_or_insert_default();
            reached.infrastructure_provisioned = Some(true);
        });
    }
}

/// Gives Machines their nodes.
fn join(server: &mut Server, names: Vec<String>) {
    for name in names {
        let waits = server.get::<Machine>(&name).is_some_and(|machine| !machine.has_joined());
        if waits {
            server.edit(&name, |machine: &mut Machine| {
                let status = machine.status.get_or_insert_default();
                status.node_ref = Some(NodeReference { name: name.clone() });
            });
        }
    }
}

fn delete_machines(server: &mut Server, now: Timestamp) {
    let machines: Vec<_> = server.stored.machines.values().cloned().collect();
    for machine in machines {
        let name = machine.metadata.name.clone().unwrap_or_default();
        if machine.metadata.deletion_timestamp.is_none() {
            continue;
        }
        if server.get::<AWSMachine>(&name).is_some() {
            server.delete::<AWSMachine>(&name, now);
        } else {
            server.edit(&name, |machine: &mut Machine| release(&mut machine.metadata.finalizers));
        }
    }
}

/// Deletes the AWSMachines that had owners and have none any more.
fn collect_garbage(server: &mut Server, now: Timestamp) {
    let is_there = |owner: &OwnerReference| {
        let machine = server.get::<Machine>(&owner.name);
        machine.is_some_and(|machine| machine.metadata.uid.as_ref() == Some(&owner.uid))
    };
    let machines = server.stored.aws_machines.values();
    let garbage = machines.filter(|machine| {
        let owners = machine.metadata.owner_references.as_deref().unwrap_or_default();
        !owners.is_empty() && !owners.iter().any(is_there)
    });
    let garbage: Vec<String> = garbage.map(|machine| machine.name_any()).collect();
    for name in garbage {
        server.delete::<AWSMachine>(&name, now);
    }
}

fn delete_cluster(server: &mut Server, now: Timestamp) {
    let deleted = |cluster: &Cluster| cluster.metadata.deletion_timestamp.is_some();
    if !server.get::<Cluster>(CLUSTER).is_some_and(|cluster| deleted(&cluster)) {
        return;
    }
    let machines: Vec<String> = server.stored.machines.keys().cloned().collect();
    if !machines.is_empty() {
        for machine in machines {
            server.delete::<Machine>(&machine, now);
        }
    } else if server.get::<AWSCluster>(CLUSTER).is_some() {
        server.delete::<AWSCluster>(CLUSTER, now);
    } else {
        server.edit(CLUSTER, |cluster: &mut Cluster| {
            release(&mut cluster.metadata.finalizers);
        });
    }
}

fn release(finalizers: &mut Option<Vec<String>>) {
    if let Some(finalizers) = finalizers {
        finalizers.retain(|finalizer| finalizer != CORE_FINALIZER);
    }
}
