//! Reads infrastructure objects of whatever kind, once for all machines that wait for the same one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use capa_api::core::ContractReference;
use capa_api::meta::CONTRACT_LABEL;
use capa_cloud::Timing;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersion, Version};
use kube::{Api, Client, discovery};
use tokio::time::Instant;

use super::failed;
use crate::awsmachine::publishes_network;
use crate::world::{Infrastructure, KubernetesError};

/// How long what is known of a kind is good; a 404 drops it at once.
const KIND_AGE: Duration = Duration::from_secs(600);

/// Reads infrastructure objects through a coalescing cache: while many machines wait for one object it is read once per
/// period, 5 s at first, doubling to 60 s while it stays unusable ([`Timing::source_retry`]).
pub struct InfrastructureReader {
    client: Client,
    timing: Timing,
    objects: Mutex<HashMap<(String, ContractReference), Slot>>,
    kinds: Mutex<HashMap<(String, String), (Instant, Kind)>>,
}

/// The last reading of one object, locked while it is read anew.
type Slot = Arc<tokio::sync::Mutex<Option<Reading>>>;

struct Reading {
    infrastructure: Infrastructure,
    at: Instant,
    good_for: Duration,
}

/// A kind as the API server serves it.
#[derive(Clone)]
struct Kind {
    resource: ApiResource,
    publishes_network: bool,
}

impl InfrastructureReader {
    pub(super) fn new(client: Client, timing: Timing) -> Self {
        Self {
            client,
            timing,
            objects: Mutex::default(),
            kinds: Mutex::default(),
        }
    }

    /// Forgets what was read of an object, because a watch has seen it change.
    pub fn changed(&self, namespace: &str, reference: &ContractReference) {
        lock(&self.objects).remove(&(namespace.to_owned(), reference.clone()));
    }

    pub(super) async fn read(
        &self,
        namespace: &str,
        reference: &ContractReference,
    ) -> Result<Infrastructure, KubernetesError> {
        let slot = Arc::clone(
            lock(&self.objects)
                .entry((namespace.to_owned(), reference.clone()))
                .or_default(),
        );
        // Whoever comes while a read is under way waits here and shares its answer.
        let mut slot = slot.lock().await;
        let previous = slot.as_ref();
        if let Some(reading) = previous.filter(|reading| reading.at.elapsed() < reading.good_for) {
            return Ok(reading.infrastructure.clone());
        }
        let infrastructure = self.fetch(namespace, reference).await?;
        let good_for = match (&infrastructure, previous) {
            (Infrastructure::Published(Some(_)) | Infrastructure::Silent, _) | (_, None) => self.timing.source_retry,
            (_, Some(previous)) => (previous.good_for * 2).min(self.timing.source_retry_cap),
        };
        *slot = Some(Reading {
            infrastructure: infrastructure.clone(),
            at: Instant::now(),
            good_for,
        });
        Ok(infrastructure)
    }

    async fn fetch(&self, namespace: &str, reference: &ContractReference) -> Result<Infrastructure, KubernetesError> {
        let Some(kind) = self.kind(reference).await? else {
            return Ok(Infrastructure::NoKindMatch);
        };
        if !kind.publishes_network {
            return Ok(Infrastructure::Silent);
        }
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &kind.resource);
        match api.get(&reference.name).await {
            Ok(object) => {
                let network = object
                    .data
                    .pointer("/status/network")
                    .filter(|network| !network.is_null());
                Ok(Infrastructure::Published(network.cloned()))
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                lock(&self.kinds).remove(&kind_key(reference));
                Ok(Infrastructure::NotFound)
            }
            Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(Infrastructure::Forbidden),
            Err(error) => {
                let attempted = format!("read {} {namespace}/{}", reference.kind, reference.name);
                Err(failed(attempted, error))
            }
        }
    }

    async fn kind(&self, reference: &ContractReference) -> Result<Option<Kind>, KubernetesError> {
        let key = kind_key(reference);
        let cached = lock(&self.kinds)
            .get(&key)
            .filter(|(at, _)| at.elapsed() < KIND_AGE)
            .map(|(_, kind)| kind.clone());
        if cached.is_some() {
            return Ok(cached);
        }
        let found = self.discover(reference).await?;
        if let Some(kind) = &found {
            lock(&self.kinds).insert(key, (Instant::now(), kind.clone()));
        }
        Ok(found)
    }

    /// The plural comes from discovery (a guess would be wrong for some kinds), the labels from the CRD, the version from
    /// the contract label, as Cluster API itself resolves references; without that label from discovery's preference.
    async fn discover(&self, reference: &ContractReference) -> Result<Option<Kind>, KubernetesError> {
        let attempted = || format!("discover kind {} of group {}", reference.kind, reference.api_group);
        let group = match discovery::group(&self.client, &reference.api_group).await {
            Ok(group) => group,
            Err(kube::Error::Discovery(_)) => return Ok(None),
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(None),
            Err(error) => return Err(failed(attempted(), error)),
        };
        // Many providers share a group, so a kind need not be served in the group's preferred version.
        let anywhere = || group.resources_by_stability().into_iter();
        let found = group
            .recommended_kind(&reference.kind)
            .or_else(|| anywhere().find(|(resource, _)| resource.kind == reference.kind));
        let Some((resource, _)) = found else {
            return Ok(None);
        };
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let name = format!("{}.{}", resource.plural, reference.api_group);
        let definition = match definitions.get_metadata(&name).await {
            Ok(definition) => definition,
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                return Ok(Some(Kind {
                    resource,
                    publishes_network: false,
                }));
            }
            Err(error) => return Err(failed(attempted(), error)),
        };
        let labels = definition.metadata.labels;
        let version = labels.as_ref().and_then(|labels| newest(labels.get(CONTRACT_LABEL)?));
        let resource = match version {
            Some(version) => ApiResource {
                api_version: GroupVersion::gv(&reference.api_group, &version).api_version(),
                version,
                ..resource
            },
            None => resource,
        };
        Ok(Some(Kind {
            resource,
            publishes_network: publishes_network(labels.as_ref()),
        }))
    }
}

/// The highest of versions joined by `_`, by Kubernetes' order: v2 > v1 > v1beta2 > v1beta1 > v1alpha1.
fn newest(versions: &str) -> Option<String> {
    let highest = versions.split('_').filter(|version| !version.is_empty());
    highest
        .max_by_key(|version| Version::parse(version).priority())
        .map(str::to_owned)
}

fn kind_key(reference: &ContractReference) -> (String, String) {
    (reference.api_group.clone(), reference.kind.clone())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_goes_by_stability_first() {
        assert_eq!(newest("v1alpha1_v1beta1").as_deref(), Some("v1beta1"));
        assert_eq!(newest("v1_v1beta2").as_deref(), Some("v1"));
        assert_eq!(newest("v1_v2alpha1").as_deref(), Some("v1"));
        assert_eq!(newest(""), None);
    }
}
