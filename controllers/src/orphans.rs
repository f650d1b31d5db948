//! Finds orphaned instances and incomplete listings of instances. An orphaned instance has the tags of a Cluster but no
//! Machine; an incomplete listing has lost too many instances at once. Events on the Cluster report both, because the
//! Cluster exists with every kind of infrastructure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capa_api::contract::Cluster;
use capa_cloud::informer::{InformerSnapshot, UnwatchedInstance};
use capa_runtime::reconcile::EventDraft;

use crate::awsmachine::cluster_of;
use crate::kubernetes_api::MachineKubernetes;

/// Maximum number of instances in one event. The metric counts all instances.
const NAMED: usize = 10;

/// Namespace and name of a Cluster.
type ClusterKey = (String, String);

/// Scans instance informers and remembers reported findings. A loss of this memory leads to repeated events.
#[derive(Default)]
pub struct OrphanScanner {
    /// Clusters with a reported incomplete listing, and the region of the listing.
    incomplete: BTreeSet<(String, ClusterKey)>,
    /// Instances without a Machine at the last scan. An instance counts as orphaned only at the second scan, because
    /// the Machine of an instance that is being moved or restored may appear a moment later.
    orphans: BTreeSet<Arc<str>>,
    /// Orphaned instances that were reported.
    reported: BTreeSet<Arc<str>>,
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
    /// Scans the snapshots of all informers, each with its region. The snapshots are taken one after the other to save
    /// memory.
    pub fn scan(
        &mut self,
        informers: impl IntoIterator<Item = (String, InformerSnapshot)>,
        kubernetes: &dyn MachineKubernetes,
    ) -> Findings {
        let mut findings = Findings::default();
        let mut incomplete = BTreeSet::new();
        let mut orphans = Orphans::default();
        for (region, snapshot) in informers {
            self.report_incomplete_listing(&region, &snapshot, kubernetes, &mut incomplete, &mut findings);
            let count = findings.without_machine.entry(region).or_default();
            *count += orphans.add(snapshot.unwatched, &self.orphans, kubernetes);
        }
        self.incomplete = incomplete;
        self.report_orphans(orphans, &mut findings);
        findings
    }

    fn report_incomplete_listing(
        &self,
        region: &str,
        snapshot: &InformerSnapshot,
        kubernetes: &dyn MachineKubernetes,
        incomplete: &mut BTreeSet<(String, ClusterKey)>,
        findings: &mut Findings,
    ) {
        for key in &snapshot.doubted {
            // An informer names AWSMachines, whose names may differ from those of their Machines.
            let machine = kubernetes.aws_machine(&key.namespace, &key.name);
            let Some(cluster) = machine.and_then(|machine| cluster_of(&machine, kubernetes)) else {
                continue;
            };
            let entry = (region.to_owned(), key_of(&cluster));
            if incomplete.insert(entry.clone()) && !self.incomplete.contains(&entry) {
                findings.events.push((cluster, incomplete_listing(region)));
            }
        }
    }

    fn report_orphans(&mut self, orphans: Orphans, findings: &mut Findings) {
        let Orphans { ids, of_cluster } = orphans;
        for (cluster, ids) in of_cluster.into_values() {
            if ids.iter().any(|id| !self.reported.contains(id)) {
                findings.events.push((cluster, orphaned(&ids)));
                self.reported.extend(ids);
            }
        }
        self.reported.retain(|id| ids.contains(id));
        self.orphans = ids;
    }
}

/// The orphaned instances of one scan.
#[derive(Default)]
struct Orphans {
    /// All orphaned instances.
    ids: BTreeSet<Arc<str>>,
    /// The instances that the last scan found too, by their Cluster.
    of_cluster: BTreeMap<ClusterKey, (Arc<Cluster>, BTreeSet<Arc<str>>)>,
}

impl Orphans {
    /// Adds the orphaned instances of one informer. Returns the number of those that the last scan found too.
    fn add(
        &mut self,
        unwatched: Vec<UnwatchedInstance>,
        before: &BTreeSet<Arc<str>>,
        kubernetes: &dyn MachineKubernetes,
    ) -> u32 {
        let mut counted = 0;
        for instance in unwatched {
            let Some(cluster) = cluster_without_machine(&instance, kubernetes) else {
                continue;
            };
            // Informers of several identities may show the same instance.
            if self.ids.insert(instance.id.clone()) && before.contains(&instance.id) {
                counted += 1;
                let new = || (cluster.clone(), BTreeSet::new());
                let (_, ids) = self.of_cluster.entry(key_of(&cluster)).or_insert_with(new);
                ids.insert(instance.id);
            }
        }
        counted
    }
}

/// The Cluster whose tags the instance has, if none of its machines has the instance's name. `None` for an instance
/// that another management cluster or CAPA launched in the same account. The same names may be in use there, and a
/// message that the instance has no Machine could cause a user to terminate it.
fn cluster_without_machine(instance: &UnwatchedInstance, kubernetes: &dyn MachineKubernetes) -> Option<Arc<Cluster>> {
    let launched_by = instance.management_cluster.as_deref();
    if launched_by.is_none() || launched_by != kubernetes.management_cluster().as_deref() {
        return None;
    }
    let namespace = &instance.namespace;
    let cluster = kubernetes.cluster(namespace, &instance.cluster)?;
    // A Machine that another manager reconciles counts too: the watch filter of this manager hides its AWSMachine.
    let has_machine = kubernetes.machine(namespace, &instance.machine).is_some()
        || kubernetes
            .machines_of_cluster(namespace, &instance.cluster)
            .iter()
            .any(|machine| machine.machine_name() == instance.machine);
    (!has_machine).then_some(cluster)
}

fn key_of(cluster: &Cluster) -> ClusterKey {
    let metadata = &cluster.metadata;
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

fn incomplete_listing(region: &str) -> EventDraft {
    EventDraft::warning(
        "InstanceListingIncomplete",
        format!(
            "a listing of instances in {region} lost too many instances at once: no instance counts as gone until two \
             more listings agree; check whether the identity and the endpoint still lead to the account of the \
             instances"
        ),
    )
}

fn orphaned(ids: &BTreeSet<Arc<str>>) -> EventDraft {
    let named: Vec<&str> = ids.iter().take(NAMED).map(AsRef::as_ref).collect();
    let more = if ids.len() > NAMED { " and others" } else { "" };
    EventDraft::warning(
        "InstancesWithoutMachine",
        format!(
            "instances {}{more} have the tags of this cluster but no Machine: this provider does not touch them; \
             terminate those that are not needed",
            named.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests;
