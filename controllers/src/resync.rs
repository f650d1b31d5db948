//! Periodic reconciles of every object (`--sync-period`).

use std::time::Duration;

use capa_runtime::reconcile::{Next, Outcome};
use kube::core::object::HasStatus;

/// Requeues an object after `period` if its outcome only waits for changes.
pub(crate) fn with_resync<K: HasStatus>(outcome: Outcome<K>, period: Duration) -> Outcome<K> {
    match outcome.next {
        Next::AwaitChange => outcome.with_next(Next::Requeue(period)),
        Next::Requeue(_) | Next::Deferred(_) | Next::Retry => outcome,
    }
}
