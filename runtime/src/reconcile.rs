//! What a reconciler is, and what it hands back.

use std::error::Error as StdError;
use std::fmt::{self, Debug, Display};
use std::time::Duration;

use async_trait::async_trait;
use kube::core::object::HasStatus;
use thiserror::Error;

use crate::kinds::{ObjectName, ReconciledKind};
use crate::status::StatusError;

/// Brings one kind of object closer to its spec. One value serves all objects of the kind, many at a time, but never one object twice at
/// once.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// The kind reconciled.
    type Kind: ReconciledKind;

    /// The controller's name in logs and metrics: lower case, for example `awsmachine`.
    fn name() -> &'static str;

    /// One pass over `object`, which is at least as new as the last write recorded in [`crate::writes::WriteTracker`].
    ///
    /// The pass may be cancelled at any `await` (time-out, loss of the lease) and must be repeatable from there.
    async fn reconcile(&self, object: Self::Kind) -> Result<Outcome<Self::Kind>, ReconcileError>;

    /// Called when `object` is deleted, and again after a pass that ran meanwhile: lets go of what was remembered of it.
    /// Default: nothing was.
    fn forget(&self, _object: &Self::Kind) {}
}

/// The result of one pass.
#[derive(Clone, Debug)]
pub struct Outcome<K: HasStatus> {
    /// The object as the server last answered it: as passed in, or the answer to the last write in between.
    pub object: K,
    /// The status the object shall have, written whole if it differs from `object`'s. `None`: the status is not touched.
    pub status: Option<K::Status>,
    /// When the object is looked at again.
    pub next: Next,
    /// Events to publish about the object.
    pub events: Vec<EventDraft>,
}

impl<K: HasStatus> Outcome<K> {
    /// Nothing to write, nothing to tell, nothing to do until something changes.
    pub fn done(object: K) -> Self {
        Self {
            object,
            status: None,
            next: Next::AwaitChange,
            events: Vec::new(),
        }
    }

    /// The same with this status to write.
    #[must_use]
    pub fn with_status(mut self, status: K::Status) -> Self {
        self.status = Some(status);
        self
    }

    /// The same with another time of the next pass.
    #[must_use]
    pub fn with_next(mut self, next: Next) -> Self {
        self.next = next;
        self
    }

    /// The same with these events added.
    #[must_use]
    pub fn with_events(mut self, events: impl IntoIterator<Item = EventDraft>) -> Self {
        self.events.extend(events);
        self
    }
}

/// When an object is reconciled again. A change of its spec or metadata, or a trigger, always comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    AwaitChange,
    /// After this long. Counts as success: the object's back-off starts anew.
    Requeue(Duration),
    /// After this long, when it is the object's turn at what others use as well. Neither success nor failure: the back-off
    /// goes on where it was, or an object that fails whenever its turn comes would never slow down.
    RateLimited(Duration),
    /// After the object's own exponential back-off with jitter: the pass did what it could, something failed that may heal.
    Retry,
}

/// What becomes a Kubernetes Event on the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDraft {
    /// Type `Warning` instead of `Normal`.
    pub warning: bool,
    /// CamelCase word, at most 128 characters.
    pub reason: String,
    /// For people. Cut to 1 kB.
    pub message: String,
}

impl EventDraft {
    /// An event of type `Normal`.
    pub fn normal(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// An event of type `Warning`.
    pub fn warning(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            warning: true,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// What the runtime does about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The object was newer than the pass knew: repeated as soon as the cache shows it, without back-off.
    Conflict,
    /// The object is gone: nothing is left to do.
    Gone,
    /// Anything else: logged, counted, repeated after the object's back-off.
    Failed,
}

/// A write other than the status's was refused because the object has changed since it was read. Report the object to
/// [`crate::writes::WriteTracker::overtaken`], so that the repeated pass waits for the newer one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0} has changed since it was read")]
pub struct WriteConflict(pub ObjectName);

/// A pass that ended without an outcome. Any error turns into it by `?`; like `anyhow::Error` it is therefore none itself.
pub struct ReconcileError {
    reason: &'static str,
    source: Box<dyn StdError + Send + Sync>,
}

impl ReconcileError {
    /// An error under a `reason` of its own, a CamelCase word for the log.
    pub fn new(reason: &'static str, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            reason,
            source: source.into(),
        }
    }

    /// One word for what went wrong: `Conflict`, `Gone`, `Panic`, `Timeout`, the word given to [`Self::new`], or `ReconcileFailed`.
    pub fn reason(&self) -> &'static str {
        match self.class() {
            ErrorClass::Conflict => "Conflict",
            ErrorClass::Gone => "Gone",
            ErrorClass::Failed => self.reason,
        }
    }

    /// What the runtime does about it, judged by a [`StatusError`] or [`WriteConflict`] anywhere in the chain of sources.
    pub fn class(&self) -> ErrorClass {
        let first: &(dyn StdError + 'static) = self.source.as_ref();
        let class = |error: &(dyn StdError + 'static)| match error.downcast_ref::<StatusError>() {
            Some(StatusError::Conflict { .. }) => Some(ErrorClass::Conflict),
            Some(StatusError::Gone { .. }) => Some(ErrorClass::Gone),
            _ => error.downcast_ref::<WriteConflict>().map(|_| ErrorClass::Conflict),
        };
        let mut chain = std::iter::successors(Some(first), |error| StdError::source(*error));
        chain.find_map(class).unwrap_or(ErrorClass::Failed)
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        Self::new("ReconcileFailed", error)
    }
}

/// The whole chain, outermost first.
impl Display for ReconcileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.source)?;
        let mut said = self.source.to_string();
        let mut next = self.source.source();
        while let Some(error) = next {
            let message = error.to_string();
            // Many errors repeat their source in their own message.
            if !said.contains(&message) {
                write!(formatter, ": {message}")?;
            }
            said = message;
            next = error.source();
        }
        Ok(())
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
        let conflict = StatusError::Conflict {
            object: ObjectName::of(&widget("a")),
            version: "1".into(),
        };
        let error = ReconcileError::from(Outer(conflict));
        assert_eq!((error.class(), error.reason()), (ErrorClass::Conflict, "Conflict"));
        assert_eq!(
            error.to_string(),
            "failed to record the launch: the status of Widget team/a was not written: the object has changed since resource version 1"
        );
    }

    #[test]
    fn a_refused_write_of_anything_but_the_status_is_a_conflict_as_well() {
        let error = ReconcileError::from(WriteConflict(ObjectName::of(&widget("a"))));
        assert_eq!((error.class(), error.reason()), (ErrorClass::Conflict, "Conflict"));
    }

    #[test]
    fn any_error_becomes_a_failure_and_keeps_a_reason_of_its_own() {
        fn fails() -> Result<(), ReconcileError> {
            Err(fmt::Error)?
        }
        assert_eq!(fails().unwrap_err().reason(), "ReconcileFailed");
        let named = ReconcileError::new("Throttled", "too fast");
        assert_eq!((named.class(), named.reason()), (ErrorClass::Failed, "Throttled"));
        assert_eq!(format!("{named:?}"), "Throttled: too fast");
    }
}
