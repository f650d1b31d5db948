mod failures;
mod freshness;
mod groups;
mod lifecycle;
mod log;
mod queue;
mod triggers;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::logging::LogFormat;
use crate::reconcile::{EventDraft, Next, Outcome, ReconcileError};
use crate::tasks::{TaskError, Tasks};
use crate::testing::{FakeServer, Fault, Log, WIDGETS, Widget, WidgetStatus, eventually, runtime, scrape, widget};

type Behaviour = dyn Fn(&Widget, usize) -> Result<Outcome<Widget>, ReconcileError> + Send + Sync;

/// A reconciler whose passes run the test's closure, with the object and the number of earlier passes over it. It
/// records the objects of its passes.
#[derive(Clone)]
struct Scripted {
    behaviour: Arc<Behaviour>,
    /// How long a pass takes.
    takes: Arc<dyn Fn(&Widget) -> Duration + Send + Sync>,
    seen: Arc<Mutex<Vec<(Instant, Widget)>>>,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    forgotten: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    fn new(
        behaviour: impl Fn(&Widget, usize) -> Result<Outcome<Widget>, ReconcileError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            behaviour: Arc::new(behaviour),
            takes: Arc::new(|_| Duration::ZERO),
            seen: Arc::default(),
            running: Arc::default(),
            most: Arc::default(),
            forgotten: Arc::default(),
        }
    }

    fn idle() -> Self {
        Self::new(|object, _| Ok(Outcome::done(object.clone())))
    }

    fn taking(self, takes: Duration) -> Self {
        self.taking_as(move |_| takes)
    }

    fn taking_as(mut self, takes: impl Fn(&Widget) -> Duration + Send + Sync + 'static) -> Self {
        self.takes = Arc::new(takes);
        self
    }

    fn passes(&self, name: &str) -> usize {
        self.times(name).len()
    }

    fn times(&self, name: &str) -> Vec<Instant> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|(_, object)| object.name_any() == name).map(|(time, _)| *time).collect()
    }

    fn versions(&self, name: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|(_, object)| object.name_any() == name).filter_map(|(_, o)| o.resource_version()).collect()
    }
}

#[async_trait]
impl Reconciler for Scripted {
    type Kind = Widget;

    fn name() -> &'static str {
        "widget"
    }

    async fn reconcile(&self, object: Widget) -> Result<Outcome<Widget>, ReconcileError> {
        let before = self.passes(&object.name_any());
        self.seen.lock().unwrap().push((Instant::now(), object.clone()));
        self.most.fetch_max(self.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        if self.seen.lock().unwrap().len() > 1000 {
            // A hot loop would keep the paused clock from advancing and the test from failing.
            std::future::pending::<()>().await;
        }
        tokio::time::sleep((self.takes)(&object)).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        (self.behaviour)(&object, before)
    }

    fn forget(&self, object: &Widget) {
        self.forgotten.lock().unwrap().push(object.name_any());
    }
}

/// A controller over the widgets of a fake server.
struct World {
    server: FakeServer,
    registry: Registry,
    stop: CancellationToken,
    task: JoinHandle<Result<(), TaskError>>,
}

fn start_with(
    server: FakeServer,
    reconciler: &Scripted,
    settings: ControllerSettings,
    triggers: impl FnOnce(Controller<Scripted>, &ObjectCache<Widget>) -> Controller<Scripted>,
) -> World {
    let (runtime, registry) = runtime(&server);
    let stop = CancellationToken::new();
    let mut tasks = Tasks::new(stop.clone(), Duration::from_mins(1));
    let cache = ObjectCache::start(&runtime, &mut tasks, Api::all(server.client()), watcher::Config::default());
    let controller = triggers(Controller::new(&runtime, &cache, reconciler.clone(), settings), &cache);
    tasks.spawn("controller", controller.run(stop.clone()));
    World { server, registry, stop, task: tokio::spawn(tasks.run()) }
}

fn start(server: FakeServer, reconciler: &Scripted) -> World {
    start_with(server, reconciler, ControllerSettings::default(), |controller, _| controller)
}

impl World {
    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

fn server_with(names: &[&str]) -> FakeServer {
    let server = FakeServer::default();
    for name in names {
        server.put_widget(&widget(name));
    }
    server
}

/// A widget of a Cluster.
fn of_cluster(name: &str, cluster: &str) -> Widget {
    let mut object = widget(name);
    object.labels_mut().insert("cluster.x-k8s.io/cluster-name".to_owned(), cluster.to_owned());
    object
}

fn path(name: &str) -> String {
    format!("{WIDGETS}/{name}")
}

fn phase(phase: &str) -> WidgetStatus {
    WidgetStatus { phase: Some(phase.into()), ..WidgetStatus::default() }
}

fn touch(object: &mut serde_json::Value) {
    object["metadata"]["annotations"] = json!({"touched": object["metadata"]["resourceVersion"]});
}
