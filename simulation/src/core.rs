//! Cluster API's core, as far as the histories need it: it marks the infrastructure as provisioned and carries
//! deletions on. It looks at all objects, so it may run at any time.

use capa_api::cluster::AWSCluster;
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::AWSMachine;
use jiff::Timestamp;

use crate::objects::{CLUSTER, CORE_FINALIZER};
use crate::server::Server;

/// Does whatever core would do now.
pub(crate) fn run(server: &mut Server, now: Timestamp) {
    provision(server);
    delete_machines(server, now);
    delete_cluster(server, now);
}

fn provision(server: &mut Server) {
    let provisioned = server
        .get::<AWSCluster>(CLUSTER)
        .and_then(|cluster| Some(cluster.status.as_ref()?.provisioned()));
    let known = server
        .get::<Cluster>(CLUSTER)
        .is_none_or(|cluster| cluster.infrastructure_provisioned());
    if provisioned == Some(true) && !known {
        server.edit(CLUSTER, |cluster: &mut Cluster| {
            let reached = cluster
                .status
                .get_or_insert_default()
                .initialization
                .get_or_insert_default();
            reached.infrastructure_provisioned = Some(true);
        });
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
