//! Reads network sources of any kind, once for all machines that wait for the same objects.

use std::sync::Arc;

use capa_api::forms::is_dns_subdomain;
use capa_api::network_mapping::AWSNetworkMapping;
use capa_cloud::Timing;
use capa_network::{Description, SourceKind};
use kube::api::{DynamicObject, ListParams};
use kube::runtime::reflector::Store;
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};

use super::discovery::discover;
use super::failed;
use super::kinds::{Kind, KindCache, Known};
use super::mappings::{self, Mappings};
use super::shared_reads::{Key, SharedReads};
use crate::kubernetes_api::{
    KubernetesError, NetworkReader, ReadPending, SourceObjects, SourceOutcome, SourceRead, SourceRequest, check_kind,
};

#[cfg(test)]
mod tests;

/// Maximum number of descriptions that are applied to objects at the same time. The work of each is bounded, and the
/// other processors remain free for other work.
const EVALUATIONS: usize = 2;

/// Maximum number of objects that one selector may match. AWS attaches at most 16 security groups to an interface, and
/// the contract has at most 200 subnets.
const MAX_OBJECTS: u32 = 200;

/// Reads network sources. Readers that wait for the same objects share one read.
pub struct SourceReader {
    reads: Arc<SharedReads>,
    requests: Arc<Requests>,
}

/// Requests for objects of kinds that are known only at run time.
struct Requests {
    client: Client,
    kinds: KindCache,
    mappings: Mappings,
    evaluations: Semaphore,
}

impl SourceReader {
    pub(super) fn new(client: Client, mappings: Store<AWSNetworkMapping>, timing: Timing) -> Self {
        let requests = Requests {
            client,
            kinds: KindCache::new(timing.source_retry),
            mappings: Mappings::new(mappings),
            evaluations: Semaphore::new(EVALUATIONS),
        };
        Self { reads: Arc::new(SharedReads::new(timing)), requests: Arc::new(requests) }
    }

    /// Drops the read of a changed object of a watched kind.
    pub fn changed(&self, namespace: &str, request: &SourceRequest) {
        self.reads.changed(&self.key(namespace, request));
    }

    /// The objects that waited for a slow read, when the read has ended.
    pub fn ended(&self) -> mpsc::UnboundedReceiver<NetworkReader> {
        self.reads.ended()
    }

    pub(super) async fn read(
        &self,
        reader: &NetworkReader,
        request: &SourceRequest,
    ) -> Result<SourceRead, ReadPending> {
        let key = self.key(&reader.namespace, request);
        let fetch = || {
            let (requests, request) = (Arc::clone(&self.requests), request.clone());
            let namespace = reader.namespace.clone();
            async move { requests.read(&namespace, &request).await }
        };
        self.reads.read(reader, key, fetch).await
    }

    /// Reads objects without sharing the read: for readers that read once.
    pub(super) async fn read_once(&self, namespace: &str, request: &SourceRequest) -> SourceRead {
        Arc::clone(&self.requests).read(namespace, request).await
    }

    /// The name of a kind's resource, if the API server serves the kind.
    pub(super) async fn resource(&self, kind: &SourceKind) -> Option<String> {
        let kind = self.requests.kind(kind).await.ok().flatten();
        kind.map(|kind| kind.resource.plural)
    }

    /// The key of a read, which includes the version of the mapping.
    fn key(&self, namespace: &str, request: &SourceRequest) -> Key {
        let mapping = self.requests.mapping(request);
        Key {
            namespace: namespace.to_owned(),
            request: request.clone(),
            mapping: mapping.as_deref().map(mappings::version),
        }
    }
}

impl Requests {
    /// The AWSNetworkMapping that the request names, or else the one with the name of the kind.
    fn mapping(&self, request: &SourceRequest) -> Option<Arc<AWSNetworkMapping>> {
        match &request.mapping {
            Some(name) => self.mappings.get(name),
            None => self.mappings.get(&request.kind.mapping_name()),
        }
    }

    async fn read(self: Arc<Self>, namespace: &str, request: &SourceRequest) -> SourceRead {
        let described = self.described_by_mapping(request).await;
        let description = match described {
            Ok(description) => description,
            Err(outcome) => return SourceRead::of_unknown_mapping(outcome),
        };
        let known = description.clone().or_else(|| request.kind.built_in(false));
        let outcome = match self.fetch(namespace, request, description).await {
            Ok(Fetched::Objects(objects, description)) => return self.evaluate(request, objects, description).await,
            Ok(Fetched::Nothing(outcome)) => outcome,
            Err(error) => unreadable(&error),
        };
        match known {
            Some(known) => SourceRead::described_by(&known, request, outcome),
            None => SourceRead::of_unknown_shape(request, outcome),
        }
    }

    /// The description of the request's mapping; `None` if there is no mapping.
    async fn described_by_mapping(
        self: &Arc<Self>,
        request: &SourceRequest,
    ) -> Result<Option<Description>, SourceOutcome> {
        let Some(mapping) = self.mapping(request) else {
            return match request.mapping {
                Some(_) => Err(SourceOutcome::NoMapping),
                None => Ok(None),
            };
        };
        check_kind(&mapping, request)?;
        let name = mapping.metadata.name.clone().unwrap_or_default();
        let requests = Arc::clone(self);
        let compiled = tokio::task::spawn_blocking(move || requests.mappings.compiled(&mapping)).await;
        match compiled.as_deref() {
            Ok(Ok(mapping)) => Ok(Some(Description::Mapping(Arc::clone(mapping)))),
            Ok(Err(_)) | Err(_) => Err(SourceOutcome::UnusableMapping { name, reads: None }),
        }
    }

    async fn fetch(
        &self,
        namespace: &str,
        request: &SourceRequest,
        description: Option<Description>,
    ) -> Result<Fetched, KubernetesError> {
        // No object has such a name, and the path of a request with it could lead to another object.
        if matches!(&request.objects, SourceObjects::Named(name) if !is_dns_subdomain(name)) {
            return Ok(Fetched::Nothing(SourceOutcome::NotFound));
        }
        let Some(kind) = self.kind(&request.kind).await? else {
            return Ok(Fetched::Nothing(SourceOutcome::NoKindMatch));
        };
        let description = description.or_else(|| request.kind.built_in(kind.publishes_network));
        let Some(description) = description else {
            return Ok(Fetched::Nothing(SourceOutcome::Undescribed));
        };
        if !kind.is_namespaced {
            return Ok(Fetched::Nothing(SourceOutcome::ClusterScoped));
        }
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &kind.resource);
        let fetched = match &request.objects {
            SourceObjects::Named(name) => api.get(name).await.map(|object| vec![object]),
            SourceObjects::Selected(selector) => {
                let parameters = ListParams::default().labels(selector).limit(MAX_OBJECTS);
                let listed = api.list(&parameters).await;
                if listed.as_ref().is_ok_and(|list| list.metadata.continue_.as_deref().unwrap_or_default() != "") {
                    return Ok(Fetched::Nothing(SourceOutcome::Unreadable {
                        code: None,
                        text: format!("{request} matches more than {MAX_OBJECTS} objects: narrow its selector"),
                    }));
                }
                listed.map(|list| list.items)
            }
        };
        match fetched {
            Ok(objects) if objects.is_empty() => Ok(Fetched::Nothing(SourceOutcome::NotFound)),
            Ok(objects) => {
                let objects = objects.into_iter().map(|object| serde_json::to_value(object).unwrap_or_default());
                Ok(Fetched::Objects(objects.collect(), description))
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                self.kinds.doubt(&request.kind);
                Ok(Fetched::Nothing(SourceOutcome::NotFound))
            }
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                // The API server authorizes a request before it looks for the kind, which may be gone.
                self.kinds.doubt(&request.kind);
                Ok(Fetched::Nothing(SourceOutcome::Forbidden))
            }
            Err(error) => Err(failed(format!("read {request} in namespace {namespace}"), error)),
        }
    }

    /// Applies the description to the objects. The work runs outside the threads of the reconciles.
    async fn evaluate(&self, request: &SourceRequest, objects: Vec<Value>, description: Description) -> SourceRead {
        let _permit = self.evaluations.acquire().await;
        let evaluated = {
            let (request, description) = (request.clone(), description.clone());
            tokio::task::spawn_blocking(move || description.network(&request.kind, &objects, request.role)).await
        };
        let outcome = match evaluated {
            Ok((name, network)) => {
                SourceOutcome::Described { name, network: network.map(|network| network.map(Box::new)) }
            }
            Err(_) => SourceOutcome::Unreadable {
                code: None,
                text: format!("failed to evaluate the description of {request}"),
            },
        };
        SourceRead::described_by(&description, request, outcome)
    }

    async fn kind(&self, kind: &SourceKind) -> Result<Option<Kind>, KubernetesError> {
        match self.kinds.get(kind) {
            Some(Known::Served(kind)) => return Ok(Some(kind)),
            Some(Known::NotServed) => return Ok(None),
            None => {}
        }
        let found = discover(&self.client, kind).await?;
        let known = found.clone().map_or(Known::NotServed, Known::Served);
        self.kinds.insert(kind, known);
        Ok(found)
    }
}

/// The result of a request to the API server.
enum Fetched {
    /// At least one object, and the description of the kind.
    Objects(Vec<Value>, Description),
    /// No object.
    Nothing(SourceOutcome),
}

fn unreadable(error: &KubernetesError) -> SourceOutcome {
    let (code, said) = match error.source.downcast_ref() {
        Some(kube::Error::Api(status)) => {
            let said = format!("{} {}: {}", status.code, status.reason, status.message);
            (Some(status.code), said)
        }
        _ => (None, error.source.to_string()),
    };
    SourceOutcome::Unreadable { code, text: format!("{error}: {said}") }
}
