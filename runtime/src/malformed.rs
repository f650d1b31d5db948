//! Malformed objects: each is skipped, counted, logged, and reported by an Event about itself, without effect on other
//! objects.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;

use k8s_openapi::api::core::v1::ObjectReference;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::events::Events;
use crate::guarded::Malformed;
use crate::kinds::ObjectName;
use crate::reconcile::EventDraft;

/// The event about a malformed object. All versions of the object with the same problem have the same event.
#[derive(Clone, Debug, PartialEq)]
struct Report {
    reference: ObjectReference,
    message: String,
}

impl Report {
    fn about(malformed: &Malformed) -> Self {
        let consequence = if malformed.metadata.deletion_timestamp.is_some() {
            "its deletion waits until this is corrected"
        } else {
            "nothing is done for it, its deletion included, until this is corrected"
        };
        Self {
            reference: malformed.reference.clone(),
            message: format!("the object cannot be read: {}; {consequence}", malformed.problem),
        }
    }
}

/// The malformed objects of all kinds. Clones share the objects.
#[derive(Clone, Debug, Default)]
pub struct MalformedObjects(watch::Sender<BTreeMap<String, Report>>);

impl MalformedObjects {
    /// Publishes a warning event about each malformed object until `stop`, once for each of its problems. Only the
    /// leader calls this function, because the caches of all managers see the same objects.
    pub async fn publish_events(self, events: Events, reason: &str, stop: CancellationToken) -> Result<(), Infallible> {
        let mut changes = self.0.subscribe();
        let mut published = BTreeMap::new();
        let work = async {
            loop {
                let now = changes.borrow_and_update().clone();
                for (name, report) in &now {
                    if published.get(name) != Some(report) {
                        let event = EventDraft::warning(reason, report.message.clone());
                        events.publish_about(&report.reference, vec![event]).await;
                    }
                }
                published = now;
                if changes.changed().await.is_err() {
                    // The sender is a field of this value, so the channel stays open.
                    std::future::pending::<()>().await;
                }
            }
        };
        stop.run_until_cancelled(work).await;
        Ok(())
    }

    fn insert(&self, name: &ObjectName, report: &Report) {
        self.0.send_if_modified(|all| {
            let before = all.insert(name.to_string(), report.clone());
            before.as_ref() != Some(report)
        });
    }

    fn remove(&self, name: &ObjectName) {
        self.0.send_if_modified(|all| all.remove(&name.to_string()).is_some());
    }
}

/// The malformed objects that the watch of one kind shows. Each version of each object is logged once.
pub(crate) struct MalformedOfKind {
    /// Resource version by name.
    known: HashMap<ObjectName, String>,
    /// The malformed objects of a list that is in progress. They replace `known` when the list is complete.
    listed: Option<HashMap<ObjectName, String>>,
    all: MalformedObjects,
    gauge: Gauge,
}

impl MalformedOfKind {
    pub(crate) fn new(all: MalformedObjects, gauge: Gauge) -> Self {
        Self { known: HashMap::new(), listed: None, all, gauge }
    }

    pub(crate) fn seen(&mut self, name: ObjectName, malformed: Malformed) {
        self.all.insert(&name, &Report::about(&malformed));
        let version = malformed.metadata.resource_version.unwrap_or_default();
        if self.known.get(&name) != Some(&version) {
            warn!(object = %name, problem = malformed.problem, "object is malformed and skipped until it is mended");
        }
        if let Some(listed) = &mut self.listed {
            listed.insert(name.clone(), version.clone());
        }
        self.known.insert(name, version);
        self.count();
    }

    pub(crate) fn gone(&mut self, name: &ObjectName) {
        if self.known.remove(name).is_some() {
            debug!(object = %name, "object is not malformed any more");
            self.all.remove(name);
            self.count();
        }
    }

    pub(crate) fn list_begins(&mut self) {
        self.listed = Some(HashMap::new());
    }

    pub(crate) fn list_done(&mut self) {
        if let Some(listed) = self.listed.take() {
            let before = std::mem::replace(&mut self.known, listed);
            for name in before.keys().filter(|name| !self.known.contains_key(*name)) {
                self.all.remove(name);
            }
            self.count();
        }
    }

    fn count(&self) {
        self.gauge.set(i64::try_from(self.known.len()).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::Api;
    use kube::runtime::watcher;
    use serde_json::{Value, json};

    use super::*;
    use crate::cache::ObjectCache;
    use crate::tasks::Tasks;
    use crate::testing::{FakeServer, WIDGETS, Widget, eventually, runtime, widget};

    /// The object and the message of each Event.
    fn told(server: &FakeServer) -> Vec<(String, String)> {
        let events = server.writes().into_iter().filter(|write| write.path.ends_with("/events"));
        events
            .map(|event| {
                assert_eq!((&event.body["type"], &event.body["reason"]), (&json!("Warning"), &json!("InvalidSpec")));
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                (text(&event.body["regarding"]["name"]), text(&event.body["note"]))
            })
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_leader_reports_each_problem_of_an_object_once() {
        let server = FakeServer::default();
        server.put_widget(&widget("bad"));
        let bad = format!("{WIDGETS}/bad");
        server.edit(&bad, |object| object["spec"]["size"] = "huge".into());
        let (runtime, _) = runtime(&server);
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone(), Duration::from_secs(5));
        let api = Api::all(server.client());
        let cache = ObjectCache::<Widget>::start(&runtime, &mut tasks, api, watcher::Config::default());
        runtime_filled(&runtime, tasks, async {
            assert!(told(&server).is_empty(), "who does not lead says nothing");
            let telling = runtime.malformed.clone().publish_events(runtime.events.clone(), "InvalidSpec", stop.clone());
            let telling = tokio::spawn(telling);
            eventually("the first event", || told(&server).len() == 1).await;

            server.edit(&bad, |object| object["metadata"]["labels"] = json!({"a": "b"}));
            server.expire_watches();
            server.put_widget(&widget("later"));
            eventually("another object to be seen", || cache.store().len() == 1).await;
            assert_eq!(told(&server).len(), 1, "another version with the same problem is no news");

            server.edit(&bad, |object| {
                object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            });
            eventually("the deletion to be told of", || told(&server).len() == 2).await;
            let said = [
                "the object cannot be read: spec.size: expected u32; nothing is done for it, its deletion included, \
                 until \
                 this is corrected",
                "the object cannot be read: spec.size: expected u32; its deletion waits until this is corrected",
            ];
            assert_eq!(told(&server), said.map(|message| ("bad".to_owned(), message.to_owned())));
            server.edit(&bad, |object| object["spec"]["size"] = 1.into());
            eventually("the mended object", || cache.store().len() == 2).await;
            stop.cancel();
            telling.await.unwrap().unwrap();
        })
        .await;
        assert_eq!(told(&server).len(), 2);
    }

    /// Starts the caches, runs `story` once the caches are filled, and stops the caches.
    async fn runtime_filled(runtime: &crate::Runtime, tasks: Tasks, story: impl Future<Output = ()>) {
        let running = tokio::spawn(tasks.run());
        runtime.readiness.all_open().await;
        story.await;
        running.await.unwrap().unwrap();
    }
}
