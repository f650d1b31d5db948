//! One reconcile of one object: wait for the cache, reconcile, write the status, publish events, schedule the next one.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use capa_api::meta;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{GetParams, Request};
use kube::core::object::HasStatus;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, Resource};
use serde::Serialize;
use thiserror::Error;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, Level, Span, debug, enabled, error, info_span, trace};

use super::ControllerSettings;
use super::waiting::Waiting;
use super::workers::Workers;
use crate::Runtime;
use crate::backoff::Backoff;
use crate::condition_log::summary;
use crate::events::{self, Events};
use crate::metrics::{ControllerMetrics, ReconcileResult};
use crate::reconcile::{EventDraft, Next, Outcome, ReconcileError, ReconcileErrorKind, Reconciler};
use crate::status::{StatusError, StatusWriter};
use crate::writes::{Freshness, WriteTracker};

/// Interval between two checks whether the cache shows the last write.
const CACHE_GLANCE: Duration = Duration::from_millis(100);

/// Time after which a pass that could not start is tried again if no free worker has called its object.
const ASIDE: Duration = Duration::from_secs(10);

#[derive(Debug, Error)]
enum PassError {
    #[error("the pass took longer than {0:?} and was cancelled")]
    Timeout(Duration),
    #[error("the pass panicked: {0}")]
    Panic(String),
    #[error("the cache has not shown the last write for {waited:?}, and reading the object failed")]
    Read { waited: Duration, source: kube::Error },
    #[error("the pass was aborted")]
    Aborted(#[source] JoinError),
}

/// The state that all reconciles of one controller share.
pub(super) struct Worker<R: Reconciler> {
    client: Client,
    store: Store<R::Kind>,
    reconciler: Arc<R>,
    status: StatusWriter,
    writes: WriteTracker,
    events: Events,
    metrics: ControllerMetrics,
    backoff: Backoff,
    workers: Arc<Workers<R::Kind>>,
    waiting: Arc<Waiting<R::Kind>>,
    timeout: Duration,
    cache_timeout: Duration,
}

/// The result of a pass.
struct Passed {
    next: Next,
    /// The reason of the result, if the log level shows it.
    why: Option<String>,
}

/// The object of a reconcile.
enum Subject<K> {
    Object(Box<K>),
    Gone,
}

impl<R: Reconciler> Worker<R> {
    pub(super) fn new(
        runtime: &Runtime,
        store: Store<R::Kind>,
        reconciler: R,
        settings: &ControllerSettings,
        workers: Arc<Workers<R::Kind>>,
        waiting: Arc<Waiting<R::Kind>>,
    ) -> Self {
        Self {
            client: runtime.client.clone(),
            store,
            reconciler: Arc::new(reconciler),
            status: StatusWriter::new(runtime.client.clone(), runtime.writes.clone()),
            writes: runtime.writes.clone(),
            events: runtime.events.clone(),
            metrics: runtime.metrics.controller(R::name(), settings.concurrency.max(1)),
            backoff: Backoff::new(settings.backoff),
            workers,
            waiting,
            timeout: settings.timeout,
            cache_timeout: settings.cache_timeout,
        }
    }

    /// Forgets a deleted object.
    pub(super) fn forget(&self, object: &R::Kind) {
        let uid = uid(object.meta());
        let reference = ObjectRef::from_obj(object);
        self.workers.forget(&reference);
        self.waiting.forget(&reference);
        self.backoff.reset(uid);
        self.writes.forget(uid);
        self.reconciler.forget(object);
    }

    /// Reconciles an object from the queue. It never fails: an error is logged, counted and turned into a delay.
    pub(super) async fn pass(self: Arc<Self>, cached: Arc<R::Kind>) -> Action {
        let groups = self.reconciler.groups(&cached);
        let reference = ObjectRef::from_obj(&*cached);
        let span = span::<R>(cached.meta());
        let stale_for = match self.writes.freshness(&*cached) {
            Freshness::Fresh => None,
            // Many objects may wait for a slow watch: they occupy no worker, and no place among those that may start.
            Freshness::Stale(waited) if waited < self.cache_timeout => {
                span.in_scope(|| trace!("the pass waits until the cache shows the last write"));
                self.workers.forget(&reference);
                return Action::requeue(CACHE_GLANCE);
            }
            Freshness::Stale(waited) => Some(waited),
        };
        let continues = self.waiting.continues(&reference);
        let Some(_busy) = self.workers.begin(&reference, groups, continues) else {
            span.in_scope(|| trace!("the pass waits, because its groups occupy their share of the workers"));
            return Action::requeue(ASIDE);
        };
        let delay = Arc::clone(&self).guarded_pass(&cached, stale_for).instrument(span).await;
        // The object may have been deleted during the reconcile, so it is forgotten again.
        let current = self.store.get(&reference);
        if current.is_none_or(|current| current.meta().uid != cached.meta().uid) {
            self.forget(&cached);
            return Action::await_change();
        }
        let Some(delay) = delay else {
            return Action::await_change();
        };
        self.waiting.continue_after(&reference, delay);
        Action::requeue(delay)
    }

    /// Returns the delay until the next pass; `None` if the object is reconciled after its next change.
    async fn guarded_pass(self: Arc<Self>, cached: &Arc<R::Kind>, stale_for: Option<Duration>) -> Option<Duration> {
        let _busy = self.metrics.busy();
        let started = Instant::now();
        let mut version = None;
        let subject = self.subject(cached, stale_for).await;
        self.metrics.dequeued(self.waiting.begun(&ObjectRef::from_obj(&**cached)));
        let result = match subject {
            Ok(Subject::Object(object)) => {
                version.clone_from(&object.meta().resource_version);
                Arc::clone(&self).isolated(*object).await
            }
            Ok(Subject::Gone) => Ok(Passed { next: Next::AwaitChange, why: Some("the object is gone".to_owned()) }),
            Err(error) => Err(error),
        };
        let why = result.as_ref().map_or_else(|error| Some(error.to_string()), |passed| passed.why.clone());
        let (label, delay) = self.decide(uid(cached.meta()), result.map(|passed| passed.next));
        let took = started.elapsed();
        debug!(
            result = label.label(),
            took_seconds = took.as_secs_f64(),
            next_seconds = delay.map(|delay| delay.as_secs_f64()),
            version,
            why,
            "reconciled"
        );
        self.metrics.finished(label, took);
        delay
    }

    /// The object to reconcile: the cached object, unless it has been older than the last write for too long.
    async fn subject(
        &self,
        cached: &Arc<R::Kind>,
        stale_for: Option<Duration>,
    ) -> Result<Subject<R::Kind>, ReconcileError> {
        match stale_for {
            None => Ok(Subject::Object(Box::new(R::Kind::clone(cached)))),
            Some(waited) => {
                let metadata = cached.meta();
                let request = Request::new(R::Kind::url_path(&(), metadata.namespace.as_deref()))
                    .get(metadata.name.as_deref().unwrap_or_default(), &GetParams::default())?;
                let read = timeout(self.timeout, self.client.request::<R::Kind>(request)).await;
                match read.map_err(|_| ReconcileError::new("Timeout", PassError::Timeout(self.timeout)))? {
                    Ok(object) if object.meta().uid != metadata.uid => Ok(Subject::Gone),
                    Ok(object) => {
                        // The cache is still behind, and must show this version before the next pass.
                        self.writes.written(&object);
                        Ok(Subject::Object(Box::new(object)))
                    }
                    Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Subject::Gone),
                    Err(source) => Err(PassError::Read { waited, source }.into()),
                }
            }
        }
    }

    /// Reconciles in a separate task, so that a panic is an error of this object only, and reconciles use all cores.
    async fn isolated(self: Arc<Self>, object: R::Kind) -> Result<Passed, ReconcileError> {
        let limit = self.timeout;
        let worker = Arc::clone(&self);
        let pass = async move { timeout(limit, worker.reconcile_and_write(object)).await };
        match AbortOnDropHandle::new(tokio::spawn(pass.instrument(Span::current()))).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(ReconcileError::new("Timeout", PassError::Timeout(limit))),
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => {
                    self.metrics.panicked();
                    Err(ReconcileError::new("Panic", PassError::Panic(panic_message(panic.as_ref()))))
                }
                Err(aborted) => Err(ReconcileError::new("Aborted", PassError::Aborted(aborted))),
            },
        }
    }

    async fn reconcile_and_write(&self, object: R::Kind) -> Result<Passed, ReconcileError> {
        let reference = object.object_ref(&());
        let outcome = match self.reconciler.reconcile(object).await {
            Ok(outcome) => outcome,
            Err(mut failure) => {
                self.tell(&reference, failure.take_events()).await;
                return Err(failure);
            }
        };
        let why = why(&outcome);
        let written = self.write_status(&outcome.object, outcome.status).await;
        let mut events = outcome.events;
        // Events are published even if it is not known whether the status was written: they report calls that took
        // effect. Only after a conflict, the next pass certainly repeats them.
        if matches!(written, Err(StatusError::Conflict { .. })) {
            events.retain(|event| event.is_recorded);
        }
        self.tell(&outcome.object.object_ref(&()), events).await;
        written?;
        Ok(Passed { next: outcome.next, why })
    }

    /// Logs and publishes events.
    async fn tell(&self, reference: &ObjectReference, drafts: Vec<EventDraft>) {
        events::log(&drafts);
        self.events.publish_about(reference, drafts).await;
    }

    async fn write_status(
        &self,
        object: &R::Kind,
        status: Option<<R::Kind as HasStatus>::Status>,
    ) -> Result<(), StatusError> {
        if let Some(status) = status {
            self.status.write(object, &status).await?;
        }
        Ok(())
    }

    /// The result for the metrics, and the delay until the next pass.
    fn decide(&self, uid: &str, result: Result<Next, ReconcileError>) -> (ReconcileResult, Option<Duration>) {
        match result {
            Ok(Next::AwaitChange) => {
                self.backoff.reset(uid);
                (ReconcileResult::Success, None)
            }
            Ok(Next::Requeue(delay)) => {
                self.backoff.reset(uid);
                (ReconcileResult::RequeueAfter, Some(delay))
            }
            Ok(Next::Deferred(delay)) => (ReconcileResult::RequeueAfter, Some(delay)),
            Ok(Next::Retry) => (ReconcileResult::Requeue, Some(self.backoff.failed(uid))),
            Err(failure) => match failure.kind() {
                ReconcileErrorKind::Gone => (ReconcileResult::Success, None),
                // The pass is repeated when the cache shows the newer object.
                ReconcileErrorKind::Conflict => (ReconcileResult::Requeue, Some(CACHE_GLANCE)),
                ReconcileErrorKind::Failed => {
                    let delay = self.backoff.failed(uid);
                    let retry_in_seconds = delay.as_secs_f64();
                    error!(reason = failure.reason(), retry_in_seconds, "reconcile failed: {failure}");
                    (ReconcileResult::Error, Some(delay))
                }
            },
        }
    }
}

/// The reason of the result of a pass: the reconciler's own text, or the conditions. `None` if no log shows it.
fn why<K: HasStatus<Status: Serialize>>(outcome: &Outcome<K>) -> Option<String> {
    if !enabled!(Level::DEBUG) {
        return None;
    }
    if let Some(why) = outcome.why {
        return Some(why.to_owned());
    }
    let status = outcome.status.as_ref().or_else(|| outcome.object.status())?;
    summary(&serde_json::to_value(status).ok()?)
}

fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

/// The fields of every log line of a reconcile.
fn span<R: Reconciler>(metadata: &ObjectMeta) -> Span {
    info_span!(
        parent: None,
        "reconcile",
        controller = R::name(),
        cluster = meta::cluster_name_label(metadata).or_else(|| meta::owner_cluster_name(metadata)),
        namespace = metadata.namespace,
        name = metadata.name,
        reconcile_id = format!("{:016x}", fastrand::u64(..)),
    )
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
