//! Publishes Kubernetes Events.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::time::timeout;
use tracing::{debug, info, warn};

use crate::condition_log::one_line;
use crate::errors::described;
use crate::reconcile::EventDraft;
use crate::repeated_failure::RepeatedFailure;

/// The API's limit for an event's message.
const MAX_MESSAGE: usize = 1024;

/// How long publishing Events may delay a reconcile.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(5);

/// The only recorder of the process. The recorder merges repeated events within some minutes into one series.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
    /// Whether the log already says that events may not be published.
    told_forbidden: Arc<AtomicBool>,
}

impl Events {
    /// Reports events as `controller`, with the instance `POD_NAME` if it is set.
    pub fn new(client: Client, controller: &str) -> Self {
        let reporter = Reporter { controller: controller.to_owned(), instance: std::env::var("POD_NAME").ok() };
        Self { recorder: Recorder::new(client, reporter), told_forbidden: Arc::default() }
    }

    /// Publishes events about `object`. Failures are logged and never returned, so a reconcile never fails because of
    /// an Event.
    pub async fn publish<K: Resource<DynamicType = ()>>(&self, object: &K, drafts: Vec<EventDraft>) {
        self.publish_about(&object.object_ref(&()), drafts).await;
    }

    /// Publishes events about an object that is known only by its reference.
    pub(crate) async fn publish_about(&self, reference: &ObjectReference, drafts: Vec<EventDraft>) {
        let publish = async {
            for draft in drafts {
                let event = event(draft);
                if let Err(error) = self.recorder.publish(&event, reference).await {
                    self.failed(&event.reason, &error);
                }
            }
        };
        if timeout(PUBLISH_TIMEOUT, publish).await.is_err() {
            debug!("events not published in time");
        }
    }

    fn failed(&self, reason: &str, error: &kube::Error) {
        if is_forbidden(error) && !self.told_forbidden.swap(true, Ordering::Relaxed) {
            RepeatedFailure::new("publish events").failed(error);
        } else {
            let error = described(error);
            debug!(reason, error, "event not published");
        }
    }
}

/// Whether the manager lacks the permission. A namespace that is being terminated also answers 403.
fn is_forbidden(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_forbidden() && !causes.any(|cause| cause.reason == "NamespaceTerminating")
}

/// Logs events, except those about conditions, which are logged elsewhere ([`EventDraft::of_condition`]).
pub fn log(drafts: &[EventDraft]) {
    for draft in drafts.iter().filter(|draft| !draft.of_condition) {
        let (event, message) = (draft.reason.as_str(), one_line(&draft.message));
        if draft.warning {
            warn!(event, "{message}");
        } else {
            info!(event, "{message}");
        }
    }
}

fn event(draft: EventDraft) -> Event {
    let note = truncate(draft.message);
    // kube's recorder treats events that differ only in their note as repeats and keeps the first note. The action,
    // which kubectl does not show, distinguishes them.
    let mut hasher = DefaultHasher::new();
    note.hash(&mut hasher);
    Event {
        type_: if draft.warning { EventType::Warning } else { EventType::Normal },
        reason: draft.reason,
        note: Some(note),
        action: format!("Reconcile-{:016x}", hasher.finish()),
        secondary: None,
    }
}

fn truncate(mut message: String) -> String {
    const MARK: char = '…';
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE - MARK.len_utf8()));
        message.push(MARK);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::LogFormat;
    use crate::testing::{FakeServer, Fault, Log, widget};

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let cut = truncate("ä".repeat(600));
        assert!(cut.len() <= MAX_MESSAGE && cut.ends_with('…'), "{} bytes", cut.len());
        assert_eq!(truncate("short".into()), "short");
    }

    #[tokio::test]
    async fn repeats_become_a_series_and_another_message_another_event() {
        let server = FakeServer::default();
        let events = Events::new(server.client(), "widgets");
        let drafts = ["one", "one", "two"].map(|message| EventDraft::warning("SubnetNotFound", message));
        events.publish(&widget("a"), drafts.to_vec()).await;
        let methods: Vec<_> = server.writes().into_iter().map(|request| request.method.to_string()).collect();
        assert_eq!(methods, ["POST", "PATCH", "POST"]);
        let first = server.writes().remove(0).body;
        assert_eq!((&first["type"], &first["reason"]), (&"Warning".into(), &"SubnetNotFound".into()));
        assert_eq!(first["regarding"]["name"], "a");
    }

    #[tokio::test]
    async fn a_missing_permission_to_publish_is_logged_once() {
        let log = Log::start(LogFormat::Json, 0);
        let server = FakeServer::default();
        server.set_fault("POST", Some(Fault::Refuse(403)));
        let events = Events::new(server.client(), "widgets");
        for message in ["one", "two"] {
            let drafts = vec![EventDraft::warning("SubnetNotFound", message)];
            events.publish(&widget("a"), drafts).await;
        }
        let lines = log.objects();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0]["hint"].is_string(), "{lines:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_refuses_or_hangs_does_not_hold_a_reconcile_up() {
        let server = FakeServer::default();
        let events = Events::new(server.client(), "widgets");
        for fault in [Fault::Refuse(500), Fault::Hang] {
            server.set_fault("POST", Some(fault));
            let object = widget("a");
            let published = events.publish(&object, vec![EventDraft::normal("Launched", "i-1")]);
            tokio::time::timeout(Duration::from_secs(6), published).await.unwrap();
        }
    }
}
