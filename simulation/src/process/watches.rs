//! The watch events of a process, and the objects that they enqueue.

use std::collections::BTreeMap;
use std::sync::Arc;

use capa_api::cluster::AWSCluster;
use capa_api::machine::AWSMachine;
use capa_api::meta;
use capa_controllers::{awscluster, awsmachine};
use capa_runtime::predicate::spec_or_metadata;
use capa_runtime::reconcile::Reconciler;
use jiff::Timestamp;
use kube::Resource;

use super::{Item, Process};
use crate::server::{Change, Object, Stored};

/// The purposes of the stored hashes of watched objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watch {
    OwnMachine,
    OwnCluster,
    MachineOfMachine,
    ClusterOfCluster,
    ClusterOfMachines,
    InfrastructureOfMachines,
}

impl Process {
    pub(super) fn take_deliveries(&mut self, now: Timestamp) {
        let mut due = Vec::new();
        for queue in self.deliveries.values_mut() {
            while queue.front().is_some_and(|(at, _)| *at <= now)
                && let Some((_, change)) = queue.pop_front()
            {
                due.push(change);
            }
        }
        for change in due {
            show(&mut self.manager.state().cache, &change);
            if self.leading {
                self.trigger(&change, now);
            }
        }
    }

    /// Queues what a change concerns, by the shipped predicates.
    pub(super) fn trigger(&mut self, change: &Change, now: Timestamp) {
        let name = change.object().name();
        match change.object() {
            Object::AwsMachine(machine) => match change {
                Change::Applied(_) if self.is_news(Watch::OwnMachine, machine.as_ref(), spec_or_metadata) => {
                    self.enqueue(Item::Machine(name), now);
                }
                Change::Applied(_) => {}
                Change::Deleted(_) => {
                    self.told.remove(&(Watch::OwnMachine, name.clone()));
                    self.forget_machine(machine);
                    self.queue.remove(&Item::Machine(name));
                }
            },
            Object::AwsCluster(cluster) => {
                let own = self.is_news(Watch::OwnCluster, cluster.as_ref(), spec_or_metadata);
                let network =
                    self.is_news(Watch::InfrastructureOfMachines, cluster.as_ref(), awscluster::wakes_machines);
                let deleted = matches!(change, Change::Deleted(_));
                if deleted {
                    self.told.remove(&(Watch::OwnCluster, name.clone()));
                    self.told.remove(&(Watch::InfrastructureOfMachines, name.clone()));
                    self.forget_cluster(cluster);
                    self.queue.remove(&Item::Cluster(name));
                } else if own {
                    self.enqueue(Item::Cluster(name), now);
                }
                if deleted || network {
                    let owner = meta::owner_cluster_name(&cluster.metadata).unwrap_or_default().to_owned();
                    self.enqueue_machines_of(&owner, now);
                }
            }
            Object::Machine(machine) => {
                let news = self.is_news(Watch::MachineOfMachine, machine.as_ref(), awsmachine::watched_machine);
                if let Some(reference) = &machine.spec.infrastructure_ref
                    && (news || matches!(change, Change::Deleted(_)))
                {
                    self.enqueue(Item::Machine(reference.name.clone()), now);
                }
            }
            Object::Cluster(cluster) => {
                let deleted = matches!(change, Change::Deleted(_));
                let of_cluster = self.is_news(Watch::ClusterOfCluster, cluster.as_ref(), awscluster::watched_cluster);
                let of_machines = self.is_news(Watch::ClusterOfMachines, cluster.as_ref(), awsmachine::watched_cluster);
                if let Some(reference) = &cluster.spec.infrastructure_ref
                    && (of_cluster || deleted)
                {
                    self.enqueue(Item::Cluster(reference.name.clone()), now);
                }
                if of_machines || deleted {
                    self.enqueue_machines_of(&name, now);
                }
            }
        }
    }

    fn is_news<K: Resource>(&mut self, watch: Watch, object: &K, hash: impl Fn(&K) -> Option<u64>) -> bool {
        let metadata = object.meta();
        let current = (metadata.uid.clone(), hash(object).unwrap_or_default());
        let name = metadata.name.clone().unwrap_or_default();
        self.told.insert((watch, name), current.clone()) != Some(current)
    }

    fn enqueue_machines_of(&mut self, cluster: &str, now: Timestamp) {
        let names: Vec<String> = {
            let cache = &self.manager.state().cache;
            let belongs = |metadata| meta::cluster_name_label(metadata) == Some(cluster);
            let machines = cache.aws_machines.iter();
            let machines = machines.filter(|(_, machine)| belongs(&machine.metadata));
            machines.map(|(name, _)| name.clone()).collect()
        };
        for name in names {
            self.enqueue(Item::Machine(name), now);
        }
    }

    /// Forgets an object that is gone, as the runtime does.
    pub(super) fn forget(&mut self, object: &Object) {
        match object {
            Object::AwsMachine(machine) => self.forget_machine(machine),
            Object::AwsCluster(cluster) => self.forget_cluster(cluster),
            Object::Machine(_) | Object::Cluster(_) => {}
        }
    }

    fn forget_machine(&mut self, machine: &AWSMachine) {
        let uid = machine.metadata.uid.as_deref().unwrap_or_default();
        self.machine_backoff.reset(uid);
        self.manager.writes.forget(uid);
        self.machines.forget(machine);
    }

    fn forget_cluster(&mut self, cluster: &AWSCluster) {
        let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
        self.cluster_backoff.reset(uid);
        self.manager.writes.forget(uid);
        self.clusters.forget(cluster);
    }
}

fn show(cache: &mut Stored, change: &Change) {
    let name = change.object().name();
    let applied = matches!(change, Change::Applied(_));
    match change.object() {
        Object::AwsMachine(object) => set(&mut cache.aws_machines, name, object, applied),
        Object::AwsCluster(object) => set(&mut cache.aws_clusters, name, object, applied),
        Object::Machine(object) => set(&mut cache.machines, name, object, applied),
        Object::Cluster(object) => set(&mut cache.clusters, name, object, applied),
    }
}

fn set<K>(table: &mut BTreeMap<String, Arc<K>>, name: String, object: &Arc<K>, applied: bool) {
    if applied {
        table.insert(name, object.clone());
    } else {
        table.remove(&name);
    }
}
