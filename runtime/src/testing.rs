//! Test doubles of this crate: a kind, and a small in-memory API server for its requests.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::{Client, CustomResource};
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing::Dispatch;
use tracing_subscriber::EnvFilter;

use crate::Runtime;
use crate::logging::{self, LogFormat, LogTargets};

pub(crate) const WIDGETS: &str = "/apis/test.example.org/v1/namespaces/team/widgets";
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/system/leases";

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "test.example.org",
    version = "v1",
    kind = "Widget",
    namespaced,
    status = "WidgetStatus",
    derive = "PartialEq",
    schema = "disabled"
)]
pub(crate) struct WidgetSpec {
    #[serde(default)]
    pub(crate) size: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WidgetStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
}

pub(crate) fn widget(name: &str) -> Widget {
    let metadata = ObjectMeta {
        name: Some(name.into()),
        namespace: Some("team".into()),
        uid: Some(format!("uid-{name}")),
        generation: Some(1),
        ..ObjectMeta::default()
    };
    Widget { metadata, spec: WidgetSpec::default(), status: None }
}

pub(crate) fn runtime(server: &FakeServer) -> (Runtime, Registry) {
    let mut registry = Registry::default();
    (Runtime::new(server.client(), "widgets", "widgets", &mut registry), registry)
}

pub(crate) fn scrape(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}

/// The log lines of this thread while the value exists.
pub(crate) struct Log {
    file: tempfile::NamedTempFile,
    _logs: tracing::dispatcher::DefaultGuard,
    _second: Dispatch,
}

impl Log {
    /// Starts logging with the verbosity of the flag `-v`.
    pub(crate) fn start(format: LogFormat, verbosity: u8) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = Mutex::new(file.reopen().unwrap());
        let targets = LogTargets { own: "capa_", libraries: &[] };
        let filter = EnvFilter::new(logging::directives(verbosity, targets));
        let dispatch = logging::dispatch(format, targets, filter, false, writer);
        Self {
            file,
            // While a process has only one subscriber, tracing caches the interest in a log statement from the first
            // thread that reaches it, and that thread may belong to another test. A second subscriber disables this
            // cache.
            _second: Dispatch::new(tracing_subscriber::registry()),
            _logs: tracing::dispatcher::set_default(&dispatch),
        }
    }

    /// The lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.file.path()).unwrap();
        log.lines().map(str::to_owned).collect()
    }

    /// The lines so far in the format of JSON.
    pub(crate) fn objects(&self) -> Vec<Value> {
        self.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The lines that `act` logs.
pub(crate) fn logged(format: LogFormat, verbosity: u8, act: impl FnOnce()) -> Vec<String> {
    let log = Log::start(format, verbosity);
    act();
    log.lines()
}

/// Waits at most a minute for a condition. Under a paused clock, the wait takes no real time.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_mins(1), wait).await.is_ok(), "not seen in time: {what}");
}

/// Status and body of a plain HTTP request.
pub(crate) async fn http_get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// Answers with this status.
    Refuse(u16),
    /// Never answers.
    Hang,
}

#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// Objects by path, with resource versions, the status subresource and watches.
#[derive(Clone, Default)]
pub(crate) struct FakeServer {
    state: Arc<Mutex<State>>,
}

struct State {
    objects: BTreeMap<String, Value>,
    last_version: u64,
    requests: Vec<Recorded>,
    watchers: Vec<(String, UnboundedSender<Result<String, Infallible>>)>,
    /// The events that watchers have not received yet, while events are held back.
    held: Option<Vec<(String, String)>>,
    faults: BTreeMap<String, Fault>,
    version: Value,
}

impl Default for State {
    fn default() -> Self {
        let text = ["buildDate", "compiler", "gitCommit", "gitTreeState", "gitVersion", "goVersion", "platform"];
        let mut version = json!({"major": "1", "minor": "33"});
        for field in text {
            version[field] = "".into();
        }
        Self {
            objects: BTreeMap::new(),
            last_version: 100,
            requests: Vec::new(),
            watchers: Vec::new(),
            held: None,
            faults: BTreeMap::new(),
            version,
        }
    }
}

impl FakeServer {
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.handle(request).await) }
        });
        Client::new(service, "default")
    }

    pub(crate) fn set_version(&self, major: &str, minor: &str) {
        let mut state = self.state.lock().unwrap();
        state.version["major"] = major.into();
        state.version["minor"] = minor.into();
    }

    /// Makes requests fail from now on, or stops doing so. `requests` is a method (`GET`), or a method and a path (`GET
    /// /path`).
    pub(crate) fn set_fault(&self, requests: &str, fault: Option<Fault>) {
        let faults = &mut self.state.lock().unwrap().faults;
        match fault {
            Some(fault) => faults.insert(requests.into(), fault),
            None => faults.remove(requests),
        };
    }

    /// Holds back the events of all watches, or delivers all events that were held back.
    pub(crate) fn hold_watches(&self, hold: bool) {
        let mut state = self.state.lock().unwrap();
        let missed = std::mem::replace(&mut state.held, hold.then(Vec::new));
        for (path, event) in missed.into_iter().flatten() {
            state.tell(&path, &event);
        }
    }

    /// Ends all watches with the error 410, like a server that no longer has the events after the watched versions.
    /// Events that were held back are lost.
    pub(crate) fn expire_watches(&self) {
        let mut state = self.state.lock().unwrap();
        state.held = None;
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410,
                            "reason": "Expired", "message": "too old resource version"});
        let line = watch_event("ERROR", &status);
        for (_, watcher) in state.watchers.drain(..) {
            let _ = watcher.unbounded_send(Ok(line.clone()));
        }
    }

    /// All requests except reads.
    pub(crate) fn writes(&self) -> Vec<Recorded> {
        let state = self.state.lock().unwrap();
        state.requests.iter().filter(|request| request.method != Method::GET).cloned().collect()
    }

    /// The number of reads of a single object.
    pub(crate) fn gets(&self, path: &str) -> usize {
        let state = self.state.lock().unwrap();
        state.requests.iter().filter(|request| request.method == Method::GET && request.path == path).count()
    }

    pub(crate) fn object(&self, path: &str) -> Option<Value> {
        self.state.lock().unwrap().objects.get(path).cloned()
    }

    pub(crate) fn version_of(&self, path: &str) -> Option<String> {
        self.object(path)?["metadata"]["resourceVersion"].as_str().map(str::to_owned)
    }

    /// Stores the widget as another client would, and returns it as stored.
    pub(crate) fn put_widget(&self, widget: &Widget) -> Widget {
        let path = format!("{WIDGETS}/{}", widget.metadata.name.as_deref().unwrap());
        let stored = self.state.lock().unwrap().store(&path, serde_json::to_value(widget).unwrap());
        serde_json::from_value(stored).unwrap()
    }

    pub(crate) fn put_lease(&self, name: &str, spec: &Value) {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "system"}, "spec": spec,
        });
        self.state.lock().unwrap().store(&format!("{LEASES}/{name}"), lease);
    }

    /// Stores an object of any kind at a path.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.state.lock().unwrap().store(path, object);
    }

    /// Changes a stored object without validation by its schema.
    pub(crate) fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut state = self.state.lock().unwrap();
        let mut object = state.objects[path].clone();
        change(&mut object);
        state.store(path, object);
    }

    pub(crate) fn delete(&self, path: &str) {
        let mut state = self.state.lock().unwrap();
        let object = state.objects.remove(path).unwrap();
        state.announce("DELETED", path, &object);
    }

    async fn handle(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let path = parts.uri.path().to_owned();
        let fault = {
            let mut state = self.state.lock().unwrap();
            state.requests.push(Recorded { method: parts.method.clone(), path: path.clone(), body: body.clone() });
            let of_path = state.faults.get(&format!("{} {path}", parts.method));
            of_path.or_else(|| state.faults.get(parts.method.as_str())).copied()
        };
        match fault {
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Refuse(403)) => return refusal(403, "Forbidden"),
            Some(Fault::Refuse(code)) => return refusal(code, "InternalError"),
            None => {}
        }
        let watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
        let mut state = self.state.lock().unwrap();
        match parts.method {
            Method::GET if watch => state.watch(&path),
            Method::GET => state.get(&path),
            Method::POST => state.create(&path, body),
            Method::PUT => state.replace(&path, &body),
            Method::PATCH => ok(&body),
            _ => refusal(405, "MethodNotAllowed"),
        }
    }
}

impl State {
    fn get(&self, path: &str) -> Response<Body> {
        if path == "/version" {
            return ok(&self.version);
        }
        if let Some(object) = self.objects.get(path) {
            return ok(object);
        }
        if !path.ends_with("widgets") {
            return refusal(404, "NotFound");
        }
        let items: Vec<_> =
            self.objects.iter().filter(|(key, _)| in_collection(key, path)).map(|(_, object)| object).collect();
        ok(&json!({
            "apiVersion": "test.example.org/v1", "kind": "WidgetList",
            "metadata": {"resourceVersion": self.last_version.to_string()}, "items": items,
        }))
    }

    fn watch(&mut self, path: &str) -> Response<Body> {
        let (sender, receiver) = unbounded();
        self.watchers.push((path.to_owned(), sender));
        Response::new(Body::from_stream(receiver))
    }

    fn create(&mut self, path: &str, object: Value) -> Response<Body> {
        let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
        if self.objects.contains_key(&path) {
            return refusal(409, "AlreadyExists");
        }
        ok(&self.store(&path, object))
    }

    fn replace(&mut self, path: &str, object: &Value) -> Response<Body> {
        let (target, status) = match path.strip_suffix("/status") {
            Some(target) => (target, true),
            None => (path, false),
        };
        let Some(current) = self.objects.get(target).cloned() else {
            return refusal(404, "NotFound");
        };
        if object["metadata"]["resourceVersion"] != current["metadata"]["resourceVersion"] {
            return refusal(409, "Conflict");
        }
        let mut next = if status { current } else { object.clone() };
        if status {
            next["status"] = object["status"].clone();
        }
        ok(&self.store(target, next))
    }

    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.last_version += 1;
        object["metadata"]["resourceVersion"] = self.last_version.to_string().into();
        let event = if self.objects.contains_key(path) { "MODIFIED" } else { "ADDED" };
        self.objects.insert(path.to_owned(), object.clone());
        self.announce(event, path, &object);
        object
    }

    fn announce(&mut self, event: &str, path: &str, object: &Value) {
        let line = watch_event(event, object);
        match &mut self.held {
            Some(held) => held.push((path.to_owned(), line)),
            None => self.tell(path, &line),
        }
    }

    fn tell(&self, path: &str, line: &str) {
        for (collection, watcher) in &self.watchers {
            if in_collection(path, collection) {
                let _ = watcher.unbounded_send(Ok(line.to_owned()));
            }
        }
    }
}

/// Whether an object belongs to the collection of its namespace, or to that of all namespaces.
fn in_collection(path: &str, collection: &str) -> bool {
    let Some((own, _)) = path.rsplit_once('/') else {
        return false;
    };
    own == collection || own.replace("/namespaces/team", "") == collection
}

/// A line of a watch. As an API server does, it gives the type before the object.
fn watch_event(event: &str, object: &Value) -> String {
    format!("{{\"type\": \"{event}\", \"object\": {object}}}\n")
}

fn ok(body: &Value) -> Response<Body> {
    Response::new(Body::from(body.to_string()))
}

fn refusal(code: u16, reason: &str) -> Response<Body> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": "refused",
    });
    let mut response = ok(&body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}
