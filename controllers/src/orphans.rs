//! Finds orphaned instances and incomplete listings of instances. An orphaned instance has the tags of a Cluster but no
//! Machine; an incomplete listing has lost too many instances at once. Events on the Cluster report both, because the
//! Cluster exists with every kind of infrastructure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capa_api::contract::Cluster;
use capa_api::meta;
use capa_cloud::Instance;
use capa_cloud::informer::InformerSnapshot;
use capa_runtime::reconcile::EventDraft;

use crate::awsmachine::{cluster_of, machine_name};
use crate::kubernetes_api::MachineKubernetes;

/// Maximum number of instances in one event. The metric counts all instances.
const NAMED: usize = 10;

/// Namespace and name of a Cluster.
type ClusterKey = (String, String);

/// Scans instance stores and remembers reported findings. A loss of this memory leads to repeated events.
#[derive(Default)]
pub struct OrphanScanner {
    /// Clusters with a reported incomplete listing, and the region of the listing.
    incomplete: BTreeSet<(String, ClusterKey)>,
    /// Instances without a Machine at the last scan. An instance counts as orphaned only at the second scan, because
    /// the Machine of an instance that is being moved or restored may appear a moment later.
    orphans: BTreeSet<String>,
    /// Orphaned instances that were reported.
    reported: BTreeSet<String>,
}

/// The result of a scan.
#[derive(Default)]
pub struct Findings {
    /// Events to publish.
    pub events: Vec<(Arc<Cluster>, EventDraft)>,
    /// The number of orphaned instances by region.
    pub without_machine: BTreeMap<String, u32>,
}

impl OrphanScanner {
    /// Scans all stores, each with its region.
    pub fn scan(&mut self, stores: &[(String, InformerSnapshot)], kubernetes: &dyn MachineKubernetes) -> Findings {
        let mut findings = Findings::default();
        self.report_incomplete_listings(stores, kubernetes, &mut findings);
        self.report_orphans(stores, kubernetes, &mut findings);
        findings
    }

    fn report_incomplete_listings(
        &mut self,
        stores: &[(String, InformerSnapshot)],
        kubernetes: &dyn MachineKubernetes,
        findings: &mut Findings,
    ) {
        let mut incomplete = BTreeSet::new();
        for (region, store) in stores.iter().filter(|(_, store)| store.listing_incomplete) {
            for key in &store.machines {
                // A store contains the names of AWSMachines, which may differ from the names of their Machines.
                let machine = kubernetes.aws_machine(&key.namespace, &key.name);
                let Some(cluster) = machine.and_then(|machine| cluster_of(&machine, kubernetes)) else {
                    continue;
                };
                let entry = (region.clone(), key_of(&cluster));
                if incomplete.insert(entry.clone()) && !self.incomplete.contains(&entry) {
                    findings.events.push((cluster, incomplete_listing(region)));
                }
            }
        }
        self.incomplete = incomplete;
    }

    fn report_orphans(
        &mut self,
        stores: &[(String, InformerSnapshot)],
        kubernetes: &dyn MachineKubernetes,
        findings: &mut Findings,
    ) {
        let mut orphans = BTreeSet::new();
        let mut of_cluster: BTreeMap<ClusterKey, (Arc<Cluster>, BTreeSet<&str>)> = BTreeMap::new();
        for (region, store) in stores {
            let count = findings.without_machine.entry(region.clone()).or_default();
            for instance in &store.unwatched {
                let Some(cluster) = cluster_without_machine(instance, kubernetes) else {
                    continue;
                };
                // Stores of several identities may show the same instance.
                if orphans.insert(instance.id.clone()) && self.orphans.contains(&instance.id) {
                    *count += 1;
                    let (_, ids) = of_cluster
                        .entry(key_of(&cluster))
                        .or_insert_with(|| (cluster, BTreeSet::new()));
                    ids.insert(&instance.id);
                }
            }
        }
        for (cluster, ids) in of_cluster.into_values() {
            if ids.iter().any(|id| !self.reported.contains(*id)) {
                self.reported.extend(ids.iter().map(|id| (*id).to_owned()));
                findings.events.push((cluster, orphaned(&ids)));
            }
        }
        self.reported.retain(|id| orphans.contains(id));
        self.orphans = orphans;
    }
}

/// The Cluster whose tags the instance has, if none of its machines has the instance's name. `None` for instances that
/// another management cluster or CAPA has launched in the same account: the same names may be in use there, and somebody
/// who is told that nobody has such an instance would terminate it.
fn cluster_without_machine(instance: &Instance, kubernetes: &dyn MachineKubernetes) -> Option<Arc<Cluster>> {
    let launched_by = instance.tags.get(meta::MANAGEMENT_CLUSTER_TAG);
    if launched_by.is_none() || launched_by != kubernetes.management_cluster().as_ref() {
        return None;
    }
    let (namespace, name) = instance.tags.get(meta::MACHINE_NAME_TAG)?.split_once('/')?;
    let prefix = meta::cluster_tag("");
    let mut owners = instance
        .tags
        .iter()
        .filter(|(_, value)| *value == meta::OWNED_TAG_VALUE);
    let cluster_name = owners.find_map(|(key, _)| key.strip_prefix(&prefix))?;
    let cluster = kubernetes.cluster(namespace, cluster_name)?;
    // A Machine that another manager reconciles counts too: the watch filter of this manager hides its AWSMachine.
    let has_machine = kubernetes.machine(namespace, name).is_some()
        || kubernetes
            .machines_of_cluster(namespace, cluster_name)
            .iter()
            .any(|machine| machine_name(machine) == name);
    (!has_machine).then_some(cluster)
}

fn key_of(cluster: &Cluster) -> ClusterKey {
    let metadata = &cluster.metadata;
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

fn incomplete_listing(region: &str) -> EventDraft {
    EventDraft::warning(
        "InstanceListingIncomplete",
        format!(
            "a listing of instances in {region} lost too many instances at once: no instance counts as gone until two \
             more \
             listings agree; check whether the identity and the endpoint still lead to the account of the instances"
        ),
    )
}

fn orphaned(ids: &BTreeSet<&str>) -> EventDraft {
    let named: Vec<&str> = ids.iter().take(NAMED).copied().collect();
    let more = if ids.len() > NAMED { " and others" } else { "" };
    EventDraft::warning(
        "InstancesWithoutMachine",
        format!(
            "instances {}{more} have the tags of this cluster but no Machine: this provider does not touch them; \
             terminate \
             those that are not needed",
            named.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests;
