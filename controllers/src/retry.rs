//! The time of the next reconcile after a failed AWS call. Pure.

use capa_cloud::CloudError;
use capa_runtime::reconcile::Next;

/// A call that the provider's own rate limits deferred is repeated at its reserved time. Any other failed call is
/// repeated after the object's back-off.
pub(crate) fn after(error: &CloudError) -> Next {
    error.retry_after.map_or(Next::Retry, Next::RateLimited)
}
