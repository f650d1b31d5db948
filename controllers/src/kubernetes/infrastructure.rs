//! Reads infrastructure objects of any kind, once for all machines that wait for the same object.

use std::sync::Arc;

use capa_api::contract::ContractReference;
use capa_api::forms::is_dns_subdomain;
use capa_api::meta::CONTRACT_LABEL;
use capa_cloud::Timing;
use capa_network::infrastructure_network;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersion, Version};
use kube::{Api, Client, discovery};
use tokio::sync::mpsc;

use super::failed;
use super::kinds::{Kind, KindCache, Known};
use super::shared_reads::SharedReads;
use crate::kubernetes_api::{BeingRead, Infrastructure, KubernetesError, NetworkReader};
use crate::launching::network_sources::publishes_network;

/// Reads infrastructure objects. Objects that wait for the same infrastructure object share one read.
pub struct InfrastructureReader {
    reads: Arc<SharedReads>,
    requests: Arc<Requests>,
}

/// Requests for objects of kinds that are known only at run time.
struct Requests {
    client: Client,
    kinds: KindCache,
}

impl InfrastructureReader {
    pub(super) fn new(client: Client, timing: Timing) -> Self {
        let requests = Requests {
            client,
            kinds: KindCache::new(timing.source_retry),
        };
        Self {
            reads: Arc::new(SharedReads::new(timing)),
            requests: Arc::new(requests),
        }
    }

    /// Drops a changed object from the cache.
    pub fn changed(&self, namespace: &str, reference: &ContractReference) {
        self.reads.changed(namespace, reference);
    }

    /// The objects that waited for a slow read, when the read has ended.
    pub fn ended(&self) -> mpsc::UnboundedReceiver<NetworkReader> {
        self.reads.ended()
    }

    pub(super) async fn read(
        &self,
        reader: &NetworkReader,
        reference: &ContractReference,
    ) -> Result<Infrastructure, BeingRead> {
        // No object has such a name, and the path of a request with it could lead to another object.
        if !is_dns_subdomain(&reference.name) {
            return Ok(Infrastructure::NotFound);
        }
        let fetch = || {
            let (requests, reference) = (Arc::clone(&self.requests), reference.clone());
            let namespace = reader.namespace.clone();
            async move {
                let fetched = requests.fetch(&namespace, &reference).await;
                fetched.unwrap_or_else(|error| unreadable(&error))
            }
        };
        self.reads.read(reader, reference, fetch).await
    }
}

impl Requests {
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
                let object = serde_json::to_value(object).unwrap_or_default();
                let network = infrastructure_network(&reference.api_group, &reference.kind, &object);
                Ok(Infrastructure::Published(network))
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                self.kinds.doubt(reference);
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
        match self.kinds.get(reference) {
            Some(Known::Served(kind)) => return Ok(Some(kind)),
            Some(Known::NotServed) => return Ok(None),
            None => {}
        }
        let found = self.discover(reference).await?;
        let known = found.clone().map_or(Known::NotServed, Known::Served);
        self.kinds.insert(reference, known);
        Ok(found)
    }

    /// Discovers a kind. The plural comes from discovery, because a guess would be wrong for some kinds, and the labels
    /// come from the CRD. The version comes from the contract label, as in Cluster API, or else from the preference of
    /// discovery.
    async fn discover(&self, reference: &ContractReference) -> Result<Option<Kind>, KubernetesError> {
        let attempted = || format!("discover kind {} of group {}", reference.kind, reference.api_group);
        let group = match discovery::group(&self.client, &reference.api_group).await {
            Ok(group) => group,
            Err(kube::Error::Discovery(_)) => return Ok(None),
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(None),
            Err(error) => return Err(failed(attempted(), error)),
        };
        // Many providers share a group, so the group's preferred version may not contain the kind.
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

fn unreadable(error: &KubernetesError) -> Infrastructure {
    let (code, said) = match error.source.downcast_ref() {
        Some(kube::Error::Api(status)) => {
            let said = format!("{} {}: {}", status.code, status.reason, status.message);
            (Some(status.code), said)
        }
        _ => (None, error.source.to_string()),
    };
    Infrastructure::Unreadable {
        code,
        text: format!("{error}: {said}"),
    }
}

/// The highest version of a list joined by `_`, in the order of Kubernetes: v2 > v1 > v1beta2 > v1beta1 > v1alpha1.
fn newest(versions: &str) -> Option<String> {
    let highest = versions.split('_').filter(|version| !version.is_empty());
    highest
        .max_by_key(|version| Version::parse(version).priority())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::time::Duration;

    use capa_api::meta::{MACHINE_NETWORK_CONTRACT, MACHINE_NETWORK_LABEL};
    use http::{Request, Response};
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;
    use crate::kubernetes_api::NetworkReaderKind;

    const OBJECT: &str = "/apis/example.org/v1/namespaces/team-a/landscapes/l";

    /// A double of an API server with the kind Landscape: answers by path, and the number of requests for each path.
    #[derive(Clone, Default)]
    struct Server {
        answers: Arc<Mutex<BTreeMap<String, (u16, Value)>>>,
        asked: Arc<Mutex<BTreeMap<String, usize>>>,
    }

    impl Server {
        fn new() -> Self {
            let version = json!({"groupVersion": "example.org/v1", "version": "v1"});
            let group = json!({"name": "example.org", "versions": [version], "preferredVersion": version});
            let kind = json!({
                "name": "landscapes", "singularName": "landscape", "namespaced": true, "kind": "Landscape",
                "verbs": ["get"],
            });
            let server = Self::default();
            server.answer("/apis", 200, json!({"kind": "APIGroupList", "groups": [group]}));
            let resources = json!({"kind": "APIResourceList", "groupVersion": "example.org/v1", "resources": [kind]});
            server.answer("/apis/example.org/v1", 200, resources);
            server.label_definition(&json!({MACHINE_NETWORK_LABEL: MACHINE_NETWORK_CONTRACT}));
            server
        }

        /// Sets the labels of the CRD.
        fn label_definition(&self, labels: &Value) {
            let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/landscapes.example.org";
            let metadata = json!({"metadata": {"name": "landscapes.example.org", "labels": labels}});
            self.answer(definition, 200, metadata);
        }

        fn answer(&self, path: &str, code: u16, body: Value) {
            self.answers.lock().insert(path.to_owned(), (code, body));
        }

        /// Makes reads of the object fail.
        fn refuse(&self, code: u16, reason: &str, message: &str) {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure",
                "code": code, "reason": reason, "message": message,
            });
            self.answer(OBJECT, code, status);
        }

        fn asked(&self, path: &str) -> usize {
            self.asked.lock().get(path).copied().unwrap_or_default()
        }

        fn reader(&self) -> InfrastructureReader {
            let server = self.clone();
            let service = tower::service_fn(move |request: Request<Body>| {
                let path = request.uri().path().to_owned();
                *server.asked.lock().entry(path.clone()).or_default() += 1;
                let (code, body) = server
                    .answers
                    .lock()
                    .get(&path)
                    .cloned()
                    .unwrap_or_else(|| (404, json!({})));
                let response = Response::builder()
                    .status(code)
                    .body(Body::from(body.to_string().into_bytes()));
                async move { Ok::<_, Infallible>(response.unwrap()) }
            });
            InfrastructureReader::new(Client::new(service, "default"), Timing::default())
        }
    }

    async fn read(reader: &InfrastructureReader) -> Infrastructure {
        read_named(reader, &named("Landscape", "l")).await
    }

    async fn read_named(reader: &InfrastructureReader, reference: &ContractReference) -> Infrastructure {
        let machine = NetworkReader {
            kind: NetworkReaderKind::Machine,
            namespace: "team-a".into(),
            name: "m".into(),
        };
        reader.read(&machine, reference).await.unwrap()
    }

    fn said(infrastructure: &Infrastructure) -> String {
        match infrastructure {
            Infrastructure::Unreadable { text, .. } => text.clone(),
            other => panic!("readable: {other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreadable_object_shows_the_error_and_is_read_once() {
        let server = Server::new();
        let message = "conversion webhook for example.org/v1, Kind=Landscape failed: service \"convert\" not found";
        server.refuse(500, "InternalError", message);
        let reader = server.reader();
        let first = said(&read(&reader).await);
        assert_eq!(
            first,
            format!("failed to read Landscape team-a/l: 500 InternalError: {message}")
        );
        assert_eq!(said(&read(&reader).await), first);
        assert_eq!(server.asked(OBJECT), 1);

        tokio::time::advance(Timing::default().source_retry).await;
        server.refuse(500, "InternalError", "dial tcp 10.0.0.1:443: i/o timeout");
        assert_eq!(said(&read(&reader).await), first, "the same failure with another text");
        assert_eq!(server.asked(OBJECT), 2);

        tokio::time::advance(Timing::default().source_retry).await;
        server.refuse(429, "TooManyRequests", "slow down");
        let retried = said(&read(&reader).await);
        assert_eq!(server.asked(OBJECT), 2, "read less often while it stays so: {retried}");
        tokio::time::advance(Timing::default().source_retry).await;
        assert!(said(&read(&reader).await).contains("429 TooManyRequests: slow down"));

        tokio::time::advance(Timing::default().source_retry_cap).await;
        let network = json!({"region": "eu-west-1"});
        server.answer(
            OBJECT,
            200,
            json!({"apiVersion": "example.org/v1", "kind": "Landscape",
            "metadata": {"name": "l"}, "status": {"network": network}}),
        );
        assert!(matches!(read(&reader).await, Infrastructure::Published(Some(found)) if found == network));
    }

    #[tokio::test(start_paused = true)]
    async fn a_label_that_is_added_to_a_crd_is_seen_within_a_minute() {
        let server = Server::new();
        server.label_definition(&json!({MACHINE_NETWORK_LABEL: "v0"}));
        let network = json!({"region": "eu-west-1"});
        let object = json!({"apiVersion": "example.org/v1", "kind": "Landscape", "metadata": {"name": "l"},
            "status": {"network": network}});
        server.answer(OBJECT, 200, object);
        let reader = server.reader();
        for _ in 0..20 {
            assert!(matches!(read(&reader).await, Infrastructure::Silent));
            tokio::time::advance(Timing::default().source_retry / 5).await;
        }
        assert!(
            server.asked("/apis") <= 5,
            "once in five seconds: {}",
            server.asked("/apis")
        );
        server.label_definition(&json!({MACHINE_NETWORK_LABEL: MACHINE_NETWORK_CONTRACT}));
        let mut waited = Duration::ZERO;
        while !matches!(read(&reader).await, Infrastructure::Published(Some(_))) {
            waited += Timing::default().source_retry;
            assert!(waited <= Duration::from_secs(60), "the label is not seen");
            tokio::time::advance(Timing::default().source_retry).await;
        }
    }

    #[tokio::test]
    async fn a_name_that_no_object_has_makes_no_request() {
        let server = Server::new();
        let reader = server.reader();
        for name in ["../../../team-b/landscapes/l", "l/status", "", "l?watch=1"] {
            let read = read_named(&reader, &named("Landscape", name)).await;
            assert!(matches!(read, Infrastructure::NotFound), "{name}: {read:?}");
        }
        assert!(server.asked.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_discovery_of_a_kind_is_stored() {
        let server = Server::new();
        server.answer(
            "/apis",
            503,
            json!({"kind": "Status", "status": "Failure", "code": 503,
            "reason": "ServiceUnavailable", "message": "starting"}),
        );
        let reader = server.reader();
        let first = said(&read(&reader).await);
        assert!(
            first.contains("discover kind Landscape of group example.org: 503"),
            "{first}"
        );
        read(&reader).await;
        assert_eq!((server.asked("/apis"), server.asked(OBJECT)), (1, 0));
    }

    fn named(kind: &str, name: &str) -> ContractReference {
        ContractReference {
            api_group: "example.org".into(),
            kind: kind.into(),
            name: name.into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ten_thousand_unused_objects_are_removed() {
        let server = Server::new();
        let reader = server.reader();
        for number in 0..10_000 {
            read_named(&reader, &named("Landscape", &format!("l-{number}"))).await;
        }
        assert_eq!(reader.reads.len(), 10_000);
        assert_eq!(
            server.asked("/apis"),
            1,
            "names that do not exist say nothing about their kind"
        );
        tokio::time::advance(Timing::default().source_retry_cap * 3).await;
        read(&reader).await;
        assert_eq!(reader.reads.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_not_served_is_discovered_once_for_many() {
        let server = Server::new();
        let reader = server.reader();
        for number in 0..100 {
            let missing = named("Moonscape", &format!("m-{number}"));
            assert!(matches!(
                read_named(&reader, &missing).await,
                Infrastructure::NoKindMatch
            ));
        }
        assert_eq!(server.asked("/apis"), 1);
        tokio::time::advance(Timing::default().source_retry).await;
        read_named(&reader, &named("Moonscape", "m-0")).await;
        assert_eq!(server.asked("/apis"), 2, "a user may have installed the kind");
    }

    #[test]
    fn the_newest_version_goes_by_stability_first() {
        assert_eq!(newest("v1alpha1_v1beta1").as_deref(), Some("v1beta1"));
        assert_eq!(newest("v1_v1beta2").as_deref(), Some("v1"));
        assert_eq!(newest("v1_v2alpha1").as_deref(), Some("v1"));
        assert_eq!(newest(""), None);
    }
}
