//! The time of the next reconcile after a failed AWS call. Pure.

use std::time::Duration;

use capa_cloud::{CloudError, ErrorClass};
use capa_runtime::reconcile::Next;

/// The time after which a machine asks for its next turn, if AWS has throttled its call.
const AFTER_THROTTLE: Duration = Duration::from_millis(1500);

/// A call that the provider's own rate limits deferred is repeated at its reserved time. Any other failed call is
/// repeated after the object's back-off.
pub(crate) fn after(error: &CloudError) -> Next {
    error.retry_after.map_or(Next::Retry, Next::Deferred)
}

/// The time of the next reconcile after a failed call of a machine. A call that AWS throttled is repeated soon, because
/// by then the rate limits know when AWS accepts the next one. Machines that were throttled together come back
/// together, and share calls.
pub(crate) fn of_machine(error: &CloudError) -> Next {
    match after(error) {
        Next::Retry if error.class == ErrorClass::Throttled => Next::Deferred(AFTER_THROTTLE),
        next => next,
    }
}
