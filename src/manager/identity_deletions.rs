//! Publishes an event on an identity that is deleted while Clusters use it.

use std::convert::Infallible;

use capa_controllers::awsclusteridentity::{IdentityObject, identity_reference};
use capa_controllers::identity::users::{deleted_while_in_use, watched_identity};
use capa_controllers::kubernetes::KubernetesClient;
use capa_runtime::Runtime;
use capa_runtime::cache::{Change, ObjectCache};
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

/// Publishes a warning for each identity of a kind that is deleted while a Cluster uses it, until `stop`.
pub(super) async fn warn<K: IdentityObject>(
    runtime: Runtime,
    kubernetes: KubernetesClient,
    identities: ObjectCache<K>,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let work = async {
        // The other caches show who uses the identity.
        runtime.readiness.all_open().await;
        let mut changes = Box::pin(identities.changes(watched_identity::<K>));
        while let Some(change) = changes.next().await {
            let Change::Deleted(identity) = change else {
                continue;
            };
            let reference = identity_reference(identity.as_ref());
            let gone = format!("{}/{}", reference.kind, reference.name);
            let warning = deleted_while_in_use(&gone, &kubernetes.users_of_identity(&reference));
            runtime.events.publish(identity.as_ref(), warning.into_iter().collect()).await;
        }
    };
    if stop.run_until_cancelled(work).await.is_some() {
        stop.cancelled().await;
    }
    Ok(())
}
