//! Runs a [`Reconciler`] over the objects of a cache.
//!
//! The queue is kube's `applier`: it never runs two reconciles of one object at once, runs at most `concurrency`
//! reconciles, and merges requests for a waiting object to the earliest time. This module contains the triggers,
//! `worker` the steps around a reconcile, and `workers` decides which reconciles may start.

#[cfg(test)]
mod tests;
mod waiting;
mod worker;
mod workers;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::ready;
use futures::stream::{BoxStream, select_all};
use futures::{Stream, StreamExt};
use kube::runtime::Predicate;
use kube::runtime::controller::{Action, Config, Error as ApplierError, ReconcileRequest, applier};
use kube::runtime::reflector::{ObjectRef, ObjectRefExtra};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info};

use crate::Runtime;
use crate::backoff::BackoffSettings;
use crate::cache::ObjectCache;
use crate::changes::Change;
use crate::errors::described;
use crate::kinds::CachedKind;
use crate::predicate::spec_or_metadata;
use crate::reconcile::Reconciler;
use waiting::Waiting;
use worker::Worker;
use workers::Workers;

/// The settings of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerSettings {
    /// Maximum number of concurrent reconciles, at most half of them of one group ([`Reconciler::groups`]). Default 10;
    /// 0 counts as 1.
    pub concurrency: u16,
    /// The time limit of a reconcile. A longer reconcile is cancelled and counts as failed. Default 2 min. The limit is
    /// needed because the client retries requests that the server answers with 429, 503 or 504 for much longer.
    pub timeout: Duration,
    /// Delays after failures.
    pub backoff: BackoffSettings,
    /// How long a reconcile waits until the cache shows the object's last write. After that, it reads the object from
    /// the server. Default 30 s.
    pub cache_timeout: Duration,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        Self {
            concurrency: 10,
            timeout: Duration::from_mins(2),
            backoff: BackoffSettings::default(),
            cache_timeout: Duration::from_secs(30),
        }
    }
}

/// The error of a controller that ended before it was stopped.
#[derive(Debug, Error)]
#[error("controller {controller} ended")]
pub struct ControllerEnded {
    controller: &'static str,
}

type Trigger<K> = BoxStream<'static, ObjectRef<K>>;

/// A reconciler with its objects and its triggers.
pub struct Controller<R: Reconciler> {
    runtime: Runtime,
    cache: ObjectCache<R::Kind>,
    reconciler: R,
    settings: ControllerSettings,
    /// The streams of the triggers start with the controller, because a standby would not read them.
    triggers: Vec<Box<dyn FnOnce() -> Trigger<R::Kind> + Send>>,
    /// The objects for which an answer has come that their last passes wait for.
    answers: Vec<Trigger<R::Kind>>,
}

impl<R: Reconciler> Controller<R> {
    /// A controller that is triggered by changes of the objects in `cache`, except status changes
    /// ([`spec_or_metadata`]).
    pub fn new(runtime: &Runtime, cache: &ObjectCache<R::Kind>, reconciler: R, settings: ControllerSettings) -> Self {
        Self {
            runtime: runtime.clone(),
            cache: cache.clone(),
            reconciler,
            settings,
            triggers: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// Also reconciles the objects in `references`, because an answer has come that their last passes may wait for:
    /// these passes do not wait until all objects that have changed are reconciled. Objects that are not in the cache
    /// are ignored.
    #[must_use]
    pub fn reconcile_on(mut self, references: impl Stream<Item = ObjectRef<R::Kind>> + Send + 'static) -> Self {
        self.answers.push(references.boxed());
        self
    }

    /// Also reconciles the objects that `mapper` returns for an object of another kind when that object is deleted or
    /// its `predicate` hash changes. The mapper runs on the controller's own task, so it may read caches, but must not
    /// block.
    #[must_use]
    pub fn watches<O, P, M, I>(mut self, cache: &ObjectCache<O>, predicate: P, mapper: M) -> Self
    where
        O: CachedKind,
        P: Predicate<O> + Send + 'static,
        M: Fn(&O) -> I + Send + 'static,
        I: IntoIterator<Item = ObjectRef<R::Kind>>,
        I::IntoIter: Send + 'static,
    {
        let cache = cache.clone();
        let subscribe = move || {
            let changes = cache.changes(predicate);
            changes.flat_map(move |change| futures::stream::iter(mapper(change.object()))).boxed()
        };
        self.triggers.push(Box::new(subscribe));
        self
    }

    /// Reconciles until `stop`, then lets running reconciles finish. Starts when every gate of readiness is open.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ControllerEnded> {
        let controller = R::name();
        tokio::select! {
            () = self.runtime.readiness.all_open() => {}
            () = stop.cancelled() => return Ok(()),
        }
        info!(controller, "controller starts");
        let concurrency = self.settings.concurrency.max(1);
        let store = self.cache.store().clone();
        let (workers, mut called) = Workers::new(usize::from(concurrency));
        let called = futures::stream::poll_fn(move |context| called.poll_recv(context)).boxed();
        let waiting = Arc::new(Waiting::new());
        let queued = Arc::clone(&waiting);
        self.runtime.metrics.queue(controller, move || queued.due());
        let worker = Arc::new(Worker::new(
            &self.runtime,
            store.clone(),
            self.reconciler,
            &self.settings,
            Arc::clone(&workers),
            Arc::clone(&waiting),
        ));
        // A trigger may end, but a controller without the stream of its own objects does nothing.
        let objects_ended = CancellationToken::new();
        let objects = object_changes(&self.cache, Arc::clone(&worker), objects_ended.clone());
        let triggers = self.triggers.into_iter().map(|subscribe| subscribe());
        let stopped = stop.clone();
        let end = async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = objects_ended.cancelled() => {}
            }
        };
        let (of_changes, of_answers) = (Arc::clone(&waiting), Arc::clone(&waiting));
        let changes = select_all([objects, called].into_iter().chain(triggers))
            .map(without_version)
            .inspect(move |reference| of_changes.changed(reference))
            .boxed();
        let answers = select_all(self.answers)
            .map(without_version)
            .inspect(move |reference| of_answers.continue_after(reference, Duration::ZERO))
            .boxed();
        let queue = select_all([changes, answers])
            .map(|reference| Ok::<_, Infallible>(ReconcileRequest::from(reference)))
            .take_until(end);
        let passes = applier(
            |object, worker: Arc<Worker<R>>| Box::pin(async move { Ok::<_, Infallible>(worker.pass(object).await) }),
            |_, never: &Infallible, _| -> Action { match *never {} },
            worker,
            store,
            queue,
            Config::default().concurrency(concurrency),
        );
        passes.for_each(async |pass| queue_answered(controller, pass, &waiting, &workers)).await;
        if stop.is_cancelled() { Ok(()) } else { Err(ControllerEnded { controller }) }
    }
}

/// The reference without the UID and the version of the object, which the queue would keep twice for each object.
fn without_version<K: CachedKind>(mut reference: ObjectRef<K>) -> ObjectRef<K> {
    reference.extra = ObjectRefExtra::default();
    reference
}

/// The changes of the controller's own objects. A deleted object is forgotten and not reconciled.
fn object_changes<R: Reconciler>(
    cache: &ObjectCache<R::Kind>,
    worker: Arc<Worker<R>>,
    ended: CancellationToken,
) -> Trigger<R::Kind> {
    let changed = cache.changes(spec_or_metadata::<R::Kind>).filter_map(move |change| {
        ready(match change {
            Change::Applied(object) => Some(ObjectRef::from_obj(&*object)),
            Change::Deleted(object) => {
                worker.forget(&object);
                None
            }
        })
    });
    let end = futures::stream::once(async move { ended.cancel() }).filter_map(|()| ready(None));
    changed.chain(end).boxed()
}

type Pass<K> = Result<(ObjectRef<K>, Action), ApplierError<Infallible, Infallible>>;

/// Handles what the queue says about a request.
fn queue_answered<K: CachedKind>(controller: &'static str, pass: Pass<K>, waiting: &Waiting<K>, workers: &Workers<K>) {
    match pass {
        Ok(_) => {}
        Err(ApplierError::ObjectNotFound(object)) => {
            let requested = ObjectRef::new(&object.name);
            let requested = match &object.namespace {
                Some(namespace) => requested.within(namespace),
                None => requested,
            };
            waiting.forget(&requested);
            workers.forget(&requested);
            debug!(controller, %object, "object is not in the cache");
        }
        Err(error) => error!(controller, error = described(&error), "queue failed"),
    }
}
