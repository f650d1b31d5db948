//! Builds a ClusterProfile from what was read. Pure.

use std::collections::BTreeMap;

use capa_api::contract::Cluster;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use serde_json::json;

use crate::cluster_profile::{
    AccessCluster, AccessProvider, ClusterManager, ClusterProfile, ClusterProfileSpec, ClusterProfileStatus, Extension,
    Property,
};
use crate::conditions::{self, ConditionType, Finding};
use crate::infrastructure::{Infrastructure, is_label_value};
use crate::karmada::Facts;
use crate::kubeconfig::{Access, KUBECONFIG_KEY, secret_name};
use crate::member::Observation;
use crate::names::{
    ALLOCATABLE_CPU_PROPERTY, ALLOCATABLE_MEMORY_PROPERTY, CLUSTER_ID_PROPERTY, CLUSTER_MANAGER_LABEL,
    PROVIDER_PROPERTY, READY_NODES_PROPERTY, REGION_PROPERTY, ZONES_PROPERTY,
};
use crate::nodes::Capacity;

/// The access provider whose plugin reads a kubeconfig from a Secret. Source: cluster-inventory-api.
const SECRET_READER: &str = "kubeconfig-secretreader";
/// The extension that is passed to a plugin. Source: client-go.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";
/// Maximum length of a property's value. Source: the definition of ClusterProfile.
const MAX_VALUE: usize = 1024;

/// The settings for ClusterProfiles that come from flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publishing {
    /// `spec.clusterManager.name`.
    pub cluster_manager: String,
    /// Prefixes of the labels that are copied from the Cluster.
    pub label_prefixes: Vec<String>,
}

impl Publishing {
    /// The ClusterProfile of a Cluster, without its status.
    pub(crate) fn profile(&self, cluster: &Cluster) -> ClusterProfile {
        let name = cluster.name_any();
        let spec = ClusterProfileSpec {
            display_name: name.clone(),
            cluster_manager: ClusterManager { name: self.cluster_manager.clone() },
        };
        let mut profile = ClusterProfile::new(&name, spec);
        profile.metadata.namespace = cluster.namespace();
        profile.metadata.labels = Some(self.labels(cluster));
        profile.metadata.owner_references = Some(vec![owner(cluster)]);
        profile
    }

    /// The labels that are copied from a Cluster to its ClusterProfile.
    pub(crate) fn copied_labels(&self, cluster: &Cluster) -> BTreeMap<String, String> {
        let copied = cluster.labels().iter().filter(|(key, _)| self.copies(key));
        copied.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// The labels of a ClusterProfile that this process writes.
    fn labels(&self, cluster: &Cluster) -> BTreeMap<String, String> {
        let mut labels = self.copied_labels(cluster);
        labels.insert(CLUSTER_MANAGER_LABEL.to_owned(), self.cluster_manager.clone());
        labels
    }

    fn copies(&self, key: &str) -> bool {
        let mut prefixes = self.label_prefixes.iter();
        prefixes.any(|prefix| key.starts_with(prefix.as_str()))
    }

    /// `existing` with the desired metadata and spec; `None` if it has them already. Labels and owners that others have
    /// set are kept.
    pub(crate) fn updated(&self, existing: &ClusterProfile, cluster: &Cluster) -> Option<ClusterProfile> {
        let wanted = self.profile(cluster);
        let mut updated = existing.clone();
        updated.spec = wanted.spec;
        let labels = updated.labels_mut();
        labels.retain(|key, _| !self.copies(key));
        labels.extend(self.labels(cluster));
        let owner = owner(cluster);
        let owners = updated.owner_references_mut();
        if !owners.iter().any(|known| known.uid == owner.uid) {
            // With a reference to a deleted Cluster of the same name, the profile would be garbage-collected.
            owners.retain(|known| (&known.kind, &known.name) != (&owner.kind, &owner.name));
            owners.push(owner);
        }
        (updated != *existing).then_some(updated)
    }
}

fn owner(cluster: &Cluster) -> OwnerReference {
    OwnerReference {
        api_version: Cluster::api_version(&()).into_owned(),
        kind: Cluster::kind(&()).into_owned(),
        name: cluster.name_any(),
        uid: cluster.uid().unwrap_or_default(),
        ..OwnerReference::default()
    }
}

/// What one pass has read about a Cluster.
pub(crate) struct Read {
    /// `None` if there is no usable kubeconfig.
    pub(crate) access: Option<Access>,
    pub(crate) observation: Observation,
    pub(crate) infrastructure: Infrastructure,
}

/// The status of a ClusterProfile. Values that could not be read keep their last known value.
pub(crate) fn status(
    existing: &ClusterProfile,
    cluster: &Cluster,
    read: &Read,
    now: Timestamp,
) -> ClusterProfileStatus {
    let mut status = existing.status.clone().unwrap_or_default();
    let Read { access, observation, infrastructure } = read;
    if let Some(version) = &observation.version {
        status.version.kubernetes = Some(version.clone());
    }
    let zones = cluster.failure_domain_names().into_iter();
    let zones: Vec<&str> = zones.filter(|name| is_label_value(name)).collect();
    let capacity = observation.capacity.as_ref();
    let facts = [
        (CLUSTER_ID_PROPERTY, observation.cluster_id.clone()),
        (PROVIDER_PROPERTY, infrastructure.provider.clone()),
        (REGION_PROPERTY, infrastructure.region.clone()),
        (ZONES_PROPERTY, Some(zones.join(","))),
        (READY_NODES_PROPERTY, capacity.map(|capacity| capacity.ready_nodes.to_string())),
        (ALLOCATABLE_CPU_PROPERTY, capacity.map(Capacity::cpu)),
        (ALLOCATABLE_MEMORY_PROPERTY, capacity.map(Capacity::memory)),
    ];
    if zones.is_empty() {
        status.properties.retain(|property| property.name != ZONES_PROPERTY);
    }
    for (name, value) in facts {
        if let Some(value) = value.filter(|value| (1..=MAX_VALUE).contains(&value.len())) {
            set_property(&mut status.properties, name, value);
        }
    }
    if let Some(access) = access {
        set_access(&mut status.access_providers, access_provider(cluster, access));
    }
    let generation = existing.metadata.generation;
    conditions::set(&mut status.conditions, observation.health.clone(), generation, now);
    status
}

/// Sets the conditions of a membership in the status.
pub(crate) fn set_membership(
    status: &mut ClusterProfileStatus,
    findings: &[Finding],
    generation: Option<i64>,
    now: Timestamp,
) {
    let is_found = |condition: &ConditionType| findings.iter().any(|finding| finding.condition == *condition);
    let of_memberships = [ConditionType::Joined, ConditionType::Drained];
    let gone: Vec<ConditionType> = of_memberships.into_iter().filter(|condition| !is_found(condition)).collect();
    conditions::remove(&mut status.conditions, &gone);
    for finding in findings {
        conditions::set(&mut status.conditions, finding.clone(), generation, now);
    }
}

/// The facts that a membership needs, from values that were read now or earlier.
pub(crate) fn facts(read: Read, status: &ClusterProfileStatus, labels: BTreeMap<String, String>) -> Facts {
    let zones = property(status, ZONES_PROPERTY).unwrap_or_default();
    let zones = zones.split(',').filter(|zone| !zone.is_empty()).map(str::to_owned);
    let owned = |name: &str| property(status, name).map(str::to_owned);
    Facts {
        is_reachable: read.observation.cluster_id.is_some(),
        id: read.observation.cluster_id.or_else(|| owned(CLUSTER_ID_PROPERTY)),
        access: read.access,
        provider: owned(PROVIDER_PROPERTY),
        region: owned(REGION_PROPERTY),
        zones: zones.collect(),
        labels,
    }
}

fn property<'a>(status: &'a ClusterProfileStatus, name: &str) -> Option<&'a str> {
    let mut properties = status.properties.iter();
    properties.find_map(|property| (property.name == name).then_some(property.value.as_str()))
}

fn set_property(properties: &mut Vec<Property>, name: &str, value: String) {
    match properties.iter_mut().find(|property| property.name == name) {
        Some(property) => property.value = value,
        None => properties.push(Property { name: name.to_owned(), value }),
    }
}

fn set_access(providers: &mut Vec<AccessProvider>, provider: AccessProvider) {
    providers.retain(|known| known.name != provider.name);
    providers.push(provider);
    providers.sort_by(|one, other| one.name.cmp(&other.name));
}

/// The way in which consumers reach the cluster: they read the Secret if they have the permission. No credential is
/// published.
fn access_provider(cluster: &Cluster, access: &Access) -> AccessProvider {
    let authority = access.certificate_authority.clone();
    AccessProvider {
        name: SECRET_READER.to_owned(),
        cluster: AccessCluster {
            server: access.server.clone(),
            tls_server_name: access.tls_server_name.clone(),
            certificate_authority_data: (!authority.is_empty()).then_some(authority),
            extensions: vec![Extension {
                name: EXEC_EXTENSION.to_owned(),
                extension: json!({
                    "name": secret_name(&cluster.name_any()),
                    "namespace": cluster.namespace(),
                    "key": KUBECONFIG_KEY,
                }),
            }],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Reason;
    use crate::member::health;
    use crate::nodes::Capacity;

    fn cluster() -> Cluster {
        serde_json::from_value(json!({
            "metadata": {
                "name": "prod", "namespace": "team-a", "uid": "c1",
                "labels": {"segment.example.org/tier": "gold", "cluster.x-k8s.io/cluster-name": "prod"},
            },
            "spec": {},
            "status": {"failureDomains": [{"name": "eu-west-1b"}, {"name": "eu-west-1a"}]},
        }))
        .unwrap()
    }

    fn publishing() -> Publishing {
        Publishing { cluster_manager: "capa-rs".into(), label_prefixes: vec!["segment.example.org/".into()] }
    }

    /// Everything that can be read about a cluster.
    fn all(access: Option<Access>) -> Read {
        Read {
            access,
            observation: Observation {
                health: health(Some(true), Reason::Healthy, String::new()),
                version: Some("v1.36.2".into()),
                cluster_id: Some("u1".into()),
                capacity: Some(Capacity { ready_nodes: 2, cpu: 3.86, memory: 8192.0 }),
            },
            infrastructure: Infrastructure { provider: Some("aws".into()), region: Some("eu-west-1".into()) },
        }
    }

    /// Nothing could be read.
    fn nothing() -> Read {
        Read {
            access: None,
            observation: Observation::only(health(Some(false), Reason::Unreachable, "gone".into())),
            infrastructure: Infrastructure::default(),
        }
    }

    #[test]
    fn a_profile_carries_the_selected_labels_and_ends_with_its_cluster() {
        let profile = publishing().profile(&cluster());
        let labels: Vec<&String> = profile.labels().keys().collect();
        assert_eq!(labels, ["segment.example.org/tier", "x-k8s.io/cluster-manager"]);
        assert_eq!(profile.owner_references()[0].uid, "c1");
        assert_eq!(publishing().updated(&profile, &cluster()), None);
    }

    #[test]
    fn a_label_that_the_cluster_loses_goes_and_labels_of_others_stay() {
        let mut existing = publishing().profile(&cluster());
        existing.labels_mut().insert("engine.example.org/set".into(), "1".into());
        let mut changed = cluster();
        changed.metadata.labels = None;
        let updated = publishing().updated(&existing, &changed).unwrap();
        let labels: Vec<&String> = updated.labels().keys().collect();
        assert_eq!(labels, ["engine.example.org/set", "x-k8s.io/cluster-manager"]);
    }

    #[test]
    fn a_new_cluster_of_the_name_takes_the_profile_over() {
        let existing = publishing().profile(&cluster());
        let mut recreated = cluster();
        recreated.metadata.uid = Some("c2".into());
        let updated = publishing().updated(&existing, &recreated).unwrap();
        assert_eq!(updated.owner_references().len(), 1);
        assert_eq!(updated.owner_references()[0].uid, "c2");
    }

    #[test]
    fn facts_that_cannot_be_read_stay_as_they_were_read_last() {
        let mut existing = publishing().profile(&cluster());
        let now = Timestamp::UNIX_EPOCH;
        let first = status(&existing, &cluster(), &all(None), now);
        assert_eq!(property(&first, ZONES_PROPERTY), Some("eu-west-1a,eu-west-1b"));
        existing.status = Some(first);
        let second = status(&existing, &cluster(), &nothing(), now);
        for (name, value) in [
            (CLUSTER_ID_PROPERTY, "u1"),
            (REGION_PROPERTY, "eu-west-1"),
            (PROVIDER_PROPERTY, "aws"),
            (READY_NODES_PROPERTY, "2"),
            (ALLOCATABLE_CPU_PROPERTY, "3860m"),
        ] {
            assert_eq!(property(&second, name), Some(value), "{name}");
        }
        assert_eq!(second.version.kubernetes.as_deref(), Some("v1.36.2"));
        assert_eq!(second.conditions[0].reason, "Unreachable");
    }

    #[test]
    fn the_access_names_the_secret_and_contains_none() {
        let access = Access {
            server: "https://api:6443".into(),
            certificate_authority: "Q0E=".into(),
            tls_server_name: None,
            kubeconfig: kube::config::Kubeconfig::default(),
        };
        let now = Timestamp::UNIX_EPOCH;
        let existing = publishing().profile(&cluster());
        let status = status(&existing, &cluster(), &all(Some(access)), now);
        let expected = json!([{
            "name": "kubeconfig-secretreader",
            "cluster": {
                "server": "https://api:6443",
                "certificate-authority-data": "Q0E=",
                "extensions": [{
                    "name": "client.authentication.k8s.io/exec",
                    "extension": {"name": "prod-kubeconfig", "namespace": "team-a", "key": "value"},
                }],
            },
        }]);
        assert_eq!(serde_json::to_value(&status.access_providers).unwrap(), expected);
    }
}
