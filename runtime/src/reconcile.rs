//! The trait of reconcilers, and the outcome of a reconcile.

use std::error::Error as StdError;
use std::fmt::{self, Debug, Display};
use std::time::Duration;

use async_trait::async_trait;
use capa_api::meta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::object::HasStatus;
use thiserror::Error;

use crate::errors::described;
use crate::kinds::{ObjectName, ReconciledKind};
use crate::status::StatusError;

/// A reconciler of one kind, which brings objects closer to their spec. One value reconciles all objects of the kind.
/// It reconciles several objects concurrently, but never the same object.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// The reconciled kind.
    type Kind: ReconciledKind;

    /// The controller's name in logs and metrics: lower case, for example `awsmachine`.
    fn name() -> &'static str;

    /// Runs one pass over `object`, which is at least as new as the last write recorded in
    /// [`crate::writes::WriteTracker`].
    ///
    /// The pass may be cancelled at any `await` (time-out, loss of the lease) and must be repeatable from there.
    async fn reconcile(&self, object: Self::Kind) -> Result<Outcome<Self::Kind>, ReconcileError>;

    /// The groups of an object whose passes may wait for the same resource, such as an AWS account. Passes of one group
    /// never occupy all workers. The names of groups are unique. Default: the objects of one Cluster, or of one
    /// namespace without a Cluster.
    fn groups(&self, object: &Self::Kind) -> Vec<String> {
        vec![cluster_group(object.meta())]
    }

    /// Drops the reconciler's state about `object`. Called when `object` is deleted, and again after a pass that was
    /// running at that time. Default: no state.
    fn forget(&self, _object: &Self::Kind) {}
}

/// The group of all objects of one Cluster, for [`Reconciler::groups`]. Objects without a Cluster form one group per
/// namespace, so that each object has a group.
pub fn cluster_group(metadata: &ObjectMeta) -> String {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let cluster = meta::cluster_name_label(metadata).or_else(|| meta::owner_cluster_name(metadata));
    match cluster {
        Some(cluster) => format!("cluster {namespace}/{cluster}"),
        None => format!("namespace {namespace}"),
    }
}

/// The result of one pass.
#[derive(Clone, Debug)]
pub struct Outcome<K: HasStatus> {
    /// The latest version of the object: the version passed in, or the server's answer to the last write of the pass.
    pub object: K,
    /// The desired status, which is written completely if it differs from the status of `object`. `None`: the status is
    /// not changed.
    pub status: Option<K::Status>,
    /// The time of the next reconcile.
    pub next: Next,
    /// Events to publish about the object.
    pub events: Vec<EventDraft>,
    /// The reason of the result for the log, if the conditions of the status do not contain it.
    pub why: Option<&'static str>,
}

impl<K: HasStatus> Outcome<K> {
    /// An outcome without status, events or a next time: the object is reconciled after its next change.
    pub fn done(object: K) -> Self {
        Self { object, status: None, next: Next::AwaitChange, events: Vec::new(), why: None }
    }

    /// Sets the reason of the result.
    #[must_use]
    pub fn because(mut self, why: &'static str) -> Self {
        self.why = Some(why);
        self
    }

    /// Sets the status to write.
    #[must_use]
    pub fn with_status(mut self, status: K::Status) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets the time of the next reconcile.
    #[must_use]
    pub fn with_next(mut self, next: Next) -> Self {
        self.next = next;
        self
    }

    /// Sets the events to publish.
    #[must_use]
    pub fn with_events(mut self, events: impl IntoIterator<Item = EventDraft>) -> Self {
        self.events.extend(events);
        self
    }
}

/// When an object is reconciled again. A change of its spec or metadata, or a trigger, always comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Reconciled after the next change or trigger.
    AwaitChange,
    /// Reconciled after this time. Counts as success, so the object's back-off starts again.
    Requeue(Duration),
    /// Reconciled after this time, because a call was deferred until a rate limit allows it, or until an answer
    /// arrives, which may wake the object earlier. Counts neither as success nor as failure: if it reset the back-off,
    /// an object whose call always fails after such a wait would never slow down.
    Deferred(Duration),
    /// Reconciled after the object's own exponential back-off with jitter, because a step failed that may succeed
    /// later.
    Retry,
}

/// A Kubernetes Event about the object, not published yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDraft {
    /// Type `Warning` instead of `Normal`.
    pub warning: bool,
    /// A CamelCase word of at most 128 characters.
    pub reason: String,
    /// A sentence for people, cut to 1 kB.
    pub message: String,
    /// Whether the event is about a condition that turned False. The condition is logged when the status is written.
    pub of_condition: bool,
    /// Whether the subject of the event is already stored, so that no later pass repeats the event. All other events
    /// follow from the stored status, so a repeated pass repeats them.
    pub is_recorded: bool,
}

impl EventDraft {
    /// An event of type `Normal`.
    pub fn normal(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { warning: false, reason: reason.into(), message: message.into(), of_condition: false, is_recorded: false }
    }

    /// An event of type `Warning`.
    pub fn warning(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { warning: true, reason: reason.into(), message: message.into(), of_condition: false, is_recorded: false }
    }

    /// The warning about a condition that turned False, with its reason and message.
    pub fn of_condition(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { of_condition: true, ..Self::warning(reason, message) }
    }

    /// Marks the subject of the event as already stored.
    #[must_use]
    pub fn recorded(mut self) -> Self {
        self.is_recorded = true;
        self
    }
}

/// The kind of an error, which decides what the runtime does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileErrorKind {
    /// The object has changed since it was read. It is reconciled again once the cache shows the change, without
    /// back-off.
    Conflict,
    /// The object no longer exists.
    Gone,
    /// Any other error: it is logged and counted, and the object is reconciled again after its back-off.
    Failed,
}

/// A write of something other than the status was refused because the object has changed since it was read. Report the
/// object to [`crate::writes::WriteTracker::conflicted`], so that the repeated pass waits for the newer one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0} has changed since it was read")]
pub struct WriteConflict(pub ObjectName);

/// The error of a pass that ended without an outcome. `?` converts any error into this type. Therefore, like
/// `anyhow::Error`, the type does not implement `Error` itself.
pub struct ReconcileError {
    reason: &'static str,
    source: Box<dyn StdError + Send + Sync>,
    events: Vec<EventDraft>,
}

impl ReconcileError {
    /// An error with its own `reason`, a CamelCase word for the log.
    pub fn new(reason: &'static str, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { reason, source: source.into(), events: Vec::new() }
    }

    /// Adds the events of the pass before its failure. Only recorded events are kept, because the repeated pass
    /// publishes the others.
    #[must_use]
    pub fn with_events(mut self, events: impl IntoIterator<Item = EventDraft>) -> Self {
        self.events.extend(events.into_iter().filter(|event| event.is_recorded));
        self
    }

    /// Takes the events to publish.
    pub fn take_events(&mut self) -> Vec<EventDraft> {
        std::mem::take(&mut self.events)
    }

    /// The reason in one word: `Conflict`, `Gone`, `Panic`, `Timeout`, the word given to [`Self::new`], or
    /// `ReconcileFailed`.
    pub fn reason(&self) -> &'static str {
        match self.kind() {
            ReconcileErrorKind::Conflict => "Conflict",
            ReconcileErrorKind::Gone => "Gone",
            ReconcileErrorKind::Failed => self.reason,
        }
    }

    /// The kind of the error, decided by a [`StatusError`] or [`WriteConflict`] anywhere in the chain of sources.
    pub fn kind(&self) -> ReconcileErrorKind {
        let first: &(dyn StdError + 'static) = self.source.as_ref();
        let kind = |error: &(dyn StdError + 'static)| match error.downcast_ref::<StatusError>() {
            Some(StatusError::Conflict { .. }) => Some(ReconcileErrorKind::Conflict),
            Some(StatusError::Gone { .. }) => Some(ReconcileErrorKind::Gone),
            _ => error.downcast_ref::<WriteConflict>().map(|_| ReconcileErrorKind::Conflict),
        };
        let mut chain = std::iter::successors(Some(first), |error| StdError::source(*error));
        chain.find_map(kind).unwrap_or(ReconcileErrorKind::Failed)
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        Self::new("ReconcileFailed", error)
    }
}

/// The whole chain of errors, outermost first.
impl Display for ReconcileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&described(self.source.as_ref()))
    }
}

impl Debug for ReconcileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {self}", self.reason())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::widget;

    #[derive(Debug, Error)]
    #[error("failed to record the launch")]
    struct Outer(#[source] StatusError);

    #[test]
    fn a_conflict_is_found_below_the_reconcilers_own_error() {
        let conflict = StatusError::Conflict { object: ObjectName::of(&widget("a")), version: "1".into() };
        let error = ReconcileError::from(Outer(conflict));
        assert_eq!((error.kind(), error.reason()), (ReconcileErrorKind::Conflict, "Conflict"));
        assert_eq!(
            error.to_string(),
            "failed to record the launch: the status of Widget team/a was not written: the object has changed since \
             resource version 1"
        );
    }

    #[test]
    fn a_refused_write_of_spec_or_metadata_is_a_conflict_too() {
        let error = ReconcileError::from(WriteConflict(ObjectName::of(&widget("a"))));
        assert_eq!((error.kind(), error.reason()), (ReconcileErrorKind::Conflict, "Conflict"));
    }

    #[test]
    fn any_error_becomes_a_failure_and_keeps_a_reason_of_its_own() {
        fn fails() -> Result<(), ReconcileError> {
            Err(fmt::Error)?
        }
        assert_eq!(fails().unwrap_err().reason(), "ReconcileFailed");
        let named = ReconcileError::new("Throttled", "too fast");
        assert_eq!((named.kind(), named.reason()), (ReconcileErrorKind::Failed, "Throttled"));
        assert_eq!(format!("{named:?}"), "Throttled: too fast");
    }
}
