//! What instance stores tell about whole clusters: listings that lose too much, and instances that no machine has. It is
//! told on the Cluster, which there is whatever kind its infrastructure has, and not on each of its machines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capa_api::core::Cluster;
use capa_api::meta;
use capa_cloud::Instance;
use capa_cloud::informer::InformerSnapshot;
use capa_runtime::reconcile::EventDraft;

use crate::awsmachine::{cluster_of, machine_name};
use crate::kubernetes_api::MachineKubernetes;

/// Instances that one event names; the metric counts all.
const NAMED: usize = 10;

/// Namespace and name.
type ClusterKey = (String, String);

/// Remembers what was told. Losing it tells it once more.
#[derive(Default)]
pub struct Oversight {
    /// Clusters that know of a doubt, with the region of the store.
    doubted: BTreeSet<(String, ClusterKey)>,
    /// Instances that had no machine at the last look. A machine that is being moved or restored may come a moment later.
    strays: BTreeSet<String>,
    /// Instances without a machine that their cluster knows of.
    told: BTreeSet<String>,
}

/// What one look found.
#[derive(Default)]
pub struct Findings {
    /// Events to publish.
    pub events: Vec<(Arc<Cluster>, EventDraft)>,
    /// By region, how many instances of our clusters no machine has.
    pub without_machine: BTreeMap<String, u32>,
}

impl Oversight {
    /// Looks at all stores, each with its region.
    pub fn look(&mut self, stores: &[(String, InformerSnapshot)], kubernetes: &dyn MachineKubernetes) -> Findings {
        let mut findings = Findings::default();
        self.look_at_doubts(stores, kubernetes, &mut findings);
        self.look_at_strays(stores, kubernetes, &mut findings);
        findings
    }

    fn look_at_doubts(
        &mut self,
        stores: &[(String, InformerSnapshot)],
        kubernetes: &dyn MachineKubernetes,
        findings: &mut Findings,
    ) {
        let mut doubted = BTreeSet::new();
        for (region, store) in stores.iter().filter(|(_, store)| store.listing_incomplete) {
            for key in &store.machines {
                // The store knows AWSMachines, which need not have the names of their Machines.
                let machine = kubernetes.aws_machine(&key.namespace, &key.name);
                let Some(cluster) = machine.and_then(|machine| cluster_of(&machine, kubernetes)) else {
                    continue;
                };
                let entry = (region.clone(), key_of(&cluster));
                if doubted.insert(entry.clone()) && !self.doubted.contains(&entry) {
                    findings.events.push((cluster, suspicious(region)));
                }
            }
        }
        self.doubted = doubted;
    }

    fn look_at_strays(
        &mut self,
        stores: &[(String, InformerSnapshot)],
        kubernetes: &dyn MachineKubernetes,
        findings: &mut Findings,
    ) {
        let mut strays = BTreeSet::new();
        let mut of_cluster: BTreeMap<ClusterKey, (Arc<Cluster>, BTreeSet<&str>)> = BTreeMap::new();
        for (region, store) in stores {
            let count = findings.without_machine.entry(region.clone()).or_default();
            for instance in &store.unwatched {
                let Some(cluster) = cluster_without_machine(instance, kubernetes) else {
                    continue;
                };
                // Stores of several identities may show the same instance.
                if strays.insert(instance.id.clone()) && self.strays.contains(&instance.id) {
                    *count += 1;
                    let (_, ids) = of_cluster
                        .entry(key_of(&cluster))
                        .or_insert_with(|| (cluster, BTreeSet::new()));
                    ids.insert(&instance.id);
                }
            }
        }
        for (cluster, ids) in of_cluster.into_values() {
            if ids.iter().any(|id| !self.told.contains(*id)) {
                self.told.extend(ids.iter().map(|id| (*id).to_owned()));
                findings.events.push((cluster, without_machine(&ids)));
            }
        }
        self.told.retain(|id| strays.contains(id));
        self.strays = strays;
    }
}

/// The cluster, one of those here, whose tags the instance carries though no machine of it has the instance's name.
/// Instances of other management clusters in the account are none of our business.
fn cluster_without_machine(instance: &Instance, kubernetes: &dyn MachineKubernetes) -> Option<Arc<Cluster>> {
    let (namespace, name) = instance.tags.get(meta::MACHINE_NAME_TAG)?.split_once('/')?;
    let prefix = meta::cluster_tag("");
    let mut owners = instance
        .tags
        .iter()
        .filter(|(_, value)| *value == meta::OWNED_TAG_VALUE);
    let cluster_name = owners.find_map(|(key, _)| key.strip_prefix(&prefix))?;
    let cluster = kubernetes.cluster(namespace, cluster_name)?;
    // A Machine that another manager reconciles counts: the filter of this one does not show its AWSMachine.
    let is_known = kubernetes.machine(namespace, name).is_some()
        || kubernetes
            .machines_of_cluster(namespace, cluster_name)
            .iter()
            .any(|machine| machine_name(machine) == name);
    (!is_known).then_some(cluster)
}

fn key_of(cluster: &Cluster) -> ClusterKey {
    let metadata = &cluster.metadata;
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

fn suspicious(region: &str) -> EventDraft {
    EventDraft::warning(
        "InstanceListingIncomplete",
        format!(
            "a listing of instances in {region} lost too many at once to be believed: nothing is concluded until two more \
             agree; check whether the identity and the endpoint still lead to the account of the instances"
        ),
    )
}

fn without_machine(ids: &BTreeSet<&str>) -> EventDraft {
    let named: Vec<&str> = ids.iter().take(NAMED).copied().collect();
    let more = if ids.len() > NAMED { " and others" } else { "" };
    EventDraft::warning(
        "InstancesWithoutMachine",
        format!(
            "{}{more} carry the tags of this cluster and no Machine has them: they are left alone; terminate those that \
             nobody needs",
            named.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests;
