//! When a reconcile that ended with a failed AWS call is repeated.

use capa_cloud::CloudError;
use capa_runtime::reconcile::Next;

/// A call that our own rate limits deferred is repeated at its reserved time, any other failure after the object's
/// back-off.
pub(crate) fn after(error: &CloudError) -> Next {
    error.retry_after.map_or(Next::Retry, Next::RateLimited)
}
