//! When a pass that an AWS call ended is tried again.

use capa_cloud::CloudError;
use capa_runtime::reconcile::Next;

/// A call that our own limits deferred has its turn then, no sooner and no later; any other failure is tried again after
/// the object's back-off.
pub(crate) fn after(error: &CloudError) -> Next {
    error.retry_after.map_or(Next::Retry, Next::RateLimited)
}
