use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use capa_api::contract::ContractReference;
use capa_api::meta::{MACHINE_NETWORK_CONTRACT, MACHINE_NETWORK_LABEL};
use capa_network::{Field, Problem, Trust};
use http::{Request, Response};
use kube::client::Body;
use kube::runtime::{reflector, watcher};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::kubernetes_api::NetworkReaderKind;
use crate::testing::read as from_yaml;

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

    fn reader(&self) -> SourceReader {
        self.reader_with(&[])
    }

    fn reader_with(&self, mappings: &[AWSNetworkMapping]) -> SourceReader {
        let (store, mut writer) = reflector::store();
        for mapping in mappings {
            writer.apply_watcher_event(&watcher::Event::Apply(mapping.clone()));
        }
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            *server.asked.lock().entry(path.clone()).or_default() += 1;
            let (code, body) = server.answers.lock().get(&path).cloned().unwrap_or_else(|| (404, json!({})));
            let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(response.unwrap()) }
        });
        SourceReader::new(Client::new(service, "default"), store, Timing::default())
    }
}

async fn read(reader: &SourceReader) -> SourceOutcome {
    read_named(reader, &named("Landscape", "l")).await
}

async fn read_named(reader: &SourceReader, reference: &ContractReference) -> SourceOutcome {
    request(reader, &SourceRequest::infrastructure(reference)).await.outcome
}

async fn request(reader: &SourceReader, request: &SourceRequest) -> SourceRead {
    let machine = NetworkReader { kind: NetworkReaderKind::Machine, namespace: "team-a".into(), name: "m".into() };
    reader.read(&machine, request).await.unwrap()
}

/// The region of a network that was read.
fn region(outcome: &SourceOutcome) -> Option<String> {
    match outcome {
        SourceOutcome::Described { network: Ok(Some(network)), .. } => network.region.clone(),
        _ => None,
    }
}

fn said(outcome: &SourceOutcome) -> String {
    match outcome {
        SourceOutcome::Unreadable { text, .. } => text.clone(),
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
    assert_eq!(first, format!("failed to read Landscape/l in namespace team-a: 500 InternalError: {message}"));
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
    assert_eq!(region(&read(&reader).await).as_deref(), Some("eu-west-1"));
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
        assert!(matches!(read(&reader).await, SourceOutcome::Undescribed));
        tokio::time::advance(Timing::default().source_retry / 5).await;
    }
    assert!(server.asked("/apis") <= 5, "once in five seconds: {}", server.asked("/apis"));
    server.label_definition(&json!({MACHINE_NETWORK_LABEL: MACHINE_NETWORK_CONTRACT}));
    let mut waited = Duration::ZERO;
    while region(&read(&reader).await).is_none() {
        waited += Timing::default().source_retry;
        assert!(waited <= Duration::from_secs(60), "the label is not seen");
        tokio::time::advance(Timing::default().source_retry).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_that_vanishes_is_seen_within_a_minute() {
    let server = Server::new();
    server.refuse(403, "Forbidden", "landscapes is forbidden");
    let reader = server.reader();
    assert!(matches!(read(&reader).await, SourceOutcome::Forbidden));
    // The API server continues to refuse, because it authorizes a request before it looks for the kind.
    server.answer("/apis", 200, json!({"kind": "APIGroupList", "groups": []}));
    let mut waited = Duration::ZERO;
    while !matches!(read(&reader).await, SourceOutcome::NoKindMatch) {
        waited += Timing::default().source_retry;
        assert!(waited <= Duration::from_secs(60), "the kind still counts as served");
        tokio::time::advance(Timing::default().source_retry).await;
    }
}

#[tokio::test]
async fn a_name_that_no_object_has_makes_no_request() {
    let server = Server::new();
    let reader = server.reader();
    for name in ["../../../team-b/landscapes/l", "l/status", "", "l?watch=1"] {
        let read = read_named(&reader, &named("Landscape", name)).await;
        assert!(matches!(read, SourceOutcome::NotFound), "{name}: {read:?}");
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
    assert!(first.contains("discover kind Landscape of group example.org: 503"), "{first}");
    read(&reader).await;
    assert_eq!((server.asked("/apis"), server.asked(OBJECT)), (1, 0));
}

fn named(kind: &str, name: &str) -> ContractReference {
    ContractReference { api_group: "example.org".into(), kind: kind.into(), name: name.into() }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_unused_objects_are_removed() {
    let server = Server::new();
    let reader = server.reader();
    for number in 0..10_000 {
        read_named(&reader, &named("Landscape", &format!("l-{number}"))).await;
    }
    assert_eq!(reader.reads.len(), 10_000);
    assert_eq!(server.asked("/apis"), 1, "names that do not exist say nothing about their kind");
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
        assert!(matches!(read_named(&reader, &missing).await, SourceOutcome::NoKindMatch));
    }
    assert_eq!(server.asked("/apis"), 1);
    tokio::time::advance(Timing::default().source_retry).await;
    read_named(&reader, &named("Moonscape", "m-0")).await;
    assert_eq!(server.asked("/apis"), 2, "a user may have installed the kind");
}

/// A mapping of the kind Landscape.
fn mapping(region: &str, generation: i64) -> AWSNetworkMapping {
    from_yaml(&format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSNetworkMapping, metadata: {{name: \
         landscape.example.org, uid: u, generation: {generation}}}, spec: {{source: {{apiGroup: example.org, kind: \
         Landscape}}, authority: Allowed, fields: {{region: '{region}'}}}}}}"
    ))
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Landscape", "metadata": {"name": "l"}, "spec": spec})
}

#[tokio::test]
async fn a_mapping_of_the_kind_reads_an_unlabelled_object() {
    let server = Server::new();
    server.label_definition(&json!({}));
    server.answer(OBJECT, 200, object(&json!({"place": "eu-west-1"})));
    let reader = server.reader_with(&[mapping("self.spec.place", 1)]);
    let read = request(&reader, &SourceRequest::infrastructure(&named("Landscape", "l"))).await;
    assert_eq!(region(&read.outcome).as_deref(), Some("eu-west-1"));
    assert_eq!((read.trust, read.fields), (Trust::Authority, vec![Field::Region]));
}

#[tokio::test]
async fn a_mapping_that_cannot_be_used_stops_its_source_alone() {
    let server = Server::new();
    server.answer(OBJECT, 200, object(&json!({"place": "eu-west-1"})));
    let reader = server.reader_with(&[mapping("self.spec.", 1)]);
    let ask = |kind: &str, mapping: Option<&str>| SourceRequest {
        mapping: mapping.map(str::to_owned),
        ..SourceRequest::infrastructure(&named(kind, "l"))
    };
    let outcome = request(&reader, &ask("Landscape", None)).await.outcome;
    assert!(
        matches!(&outcome, SourceOutcome::UnusableMapping { name, reads: None } if name == "landscape.example.org"),
        "{outcome:?}"
    );
    let outcome = request(&reader, &ask("Landscape", Some("other"))).await.outcome;
    assert!(matches!(outcome, SourceOutcome::NoMapping), "{outcome:?}");
    // `spec.source` of the mapping has another kind, or the same kind of another group.
    let other_group = SourceRequest {
        mapping: Some("landscape.example.org".into()),
        kind: SourceKind { group: "other.example.org".into(), kind: "Landscape".into() },
        ..ask("Landscape", None)
    };
    let other_kind = ask("Moonscape", Some("landscape.example.org"));
    for (field, of_another) in [("source.kind", other_kind), ("source.apiGroup", other_group)] {
        let outcome = request(&reader, &of_another).await.outcome;
        assert!(
            matches!(&outcome, SourceOutcome::UnusableMapping { reads: Some(reads), .. } if reads.kind == "Landscape"),
            "{field}: {outcome:?}"
        );
    }
    assert_eq!(server.asked(OBJECT), 0, "no object is read without a usable mapping");
}

#[tokio::test]
async fn what_an_unread_object_could_supply_follows_from_its_kind_and_mapping() {
    let server = Server::new();
    server.refuse(403, "Forbidden", "landscapes is forbidden");
    let aws_cluster =
        ContractReference { api_group: capa_api::meta::GROUP.into(), kind: "AWSCluster".into(), name: "l".into() };
    let landscape = SourceRequest::infrastructure(&named("Landscape", "l"));
    let with_mapping = SourceRequest { mapping: Some("gone".into()), ..landscape.clone() };
    for (asked, supplies_identity) in
        [(SourceRequest::infrastructure(&aws_cluster), true), (landscape, false), (with_mapping, true)]
    {
        let read = request(&server.reader(), &asked).await;
        assert!(!matches!(read.outcome, SourceOutcome::Described { .. }), "{asked}: {:?}", read.outcome);
        assert!(read.fields.contains(&Field::Region), "{asked}");
        assert_eq!(read.fields.contains(&Field::IdentityRef), supplies_identity, "{asked}");
    }
}

/// The core group with ConfigMaps and Secrets.
fn with_core(server: &Server) {
    let kind = |name: &str, kind: &str| {
        json!({
            "name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get"],
        })
    };
    let resources = [kind("configmaps", "ConfigMap"), kind("secrets", "Secret")];
    let list = json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": resources});
    server.answer("/api/v1", 200, list);
}

fn core(kind: &str) -> SourceRequest {
    let reference = ContractReference { api_group: String::new(), kind: kind.into(), name: "network".into() };
    SourceRequest::infrastructure(&reference)
}

#[tokio::test]
async fn a_config_map_is_read_from_the_core_group() {
    let server = Server::new();
    with_core(&server);
    let data = json!({"region": "eu-west-1"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "network"}, "data": data});
    server.answer("/api/v1/namespaces/team-a/configmaps/network", 200, object);
    let read = request(&server.reader(), &core("ConfigMap")).await;
    assert_eq!(region(&read.outcome).as_deref(), Some("eu-west-1"));
    assert_eq!(read.trust, Trust::Placement);
}

#[tokio::test]
async fn a_secret_without_the_label_shows_none_of_its_content() {
    let server = Server::new();
    with_core(&server);
    let data = json!({"region": "aHVudGVyMg=="});
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "network"}, "data": data});
    server.answer("/api/v1/namespaces/team-a/secrets/network", 200, object);
    let read = request(&server.reader(), &core("Secret")).await;
    let SourceOutcome::Described { network: Err(Problem { message, .. }), .. } = &read.outcome else {
        panic!("the Secret is used: {read:?}");
    };
    assert!(message.contains("infrastructure.cluster.x-k8s.io/network-source"), "{message}");
    assert!(!format!("{read:?}").contains("hunter2") && !format!("{read:?}").contains("aHVudGVyMg"));
}

#[tokio::test]
async fn objects_of_a_selector_are_listed_with_the_selector() {
    let server = Server::new();
    let network = |region: &str| json!({"status": {"network": {"region": region}}, "metadata": {"name": "l"}});
    let list = json!({"kind": "LandscapeList", "apiVersion": "example.org/v1", "metadata": {}, "items": [
        network("eu-west-1")]});
    server.answer("/apis/example.org/v1/namespaces/team-a/landscapes", 200, list);
    let selected = SourceRequest {
        objects: SourceObjects::Selected("team=a".into()),
        ..SourceRequest::infrastructure(&named("Landscape", "l"))
    };
    let read = request(&server.reader(), &selected).await;
    assert_eq!(region(&read.outcome).as_deref(), Some("eu-west-1"));

    let beginning = json!({"kind": "LandscapeList", "apiVersion": "example.org/v1", "metadata": {"continue": "more"},
        "items": [network("eu-west-1")]});
    server.answer("/apis/example.org/v1/namespaces/team-a/landscapes", 200, beginning);
    let SourceOutcome::Unreadable { text, .. } = request(&server.reader(), &selected).await.outcome else {
        panic!("objects that are not listed may say something else")
    };
    assert!(text.contains("more than 200 objects"), "{text}");
}
