//! The Secrets of static identities: each is owned by its identities, because `clusterctl move` takes along what the
//! objects that it moves own, from this namespace too.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use capa_api::identity::AWSClusterStaticIdentity;
use capa_api::meta;
use capa_runtime::Runtime;
use capa_runtime::cache::ObjectCache;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often a Secret that is not there yet, or could not be written, is looked for.
const RETRY: Duration = Duration::from_secs(30);

/// Adds the missing owners in `namespace` until `stop`, and looks again at each Secret once a `sync_period`.
pub(super) async fn own(
    runtime: Runtime,
    identities: ObjectCache<AWSClusterStaticIdentity>,
    namespace: String,
    sync_period: Duration,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let secrets: Api<Secret> = Api::namespaced(runtime.client.clone(), &namespace);
    let work = async {
        runtime.readiness.all_open().await;
        let mut changes = Box::pin(
            identities
                .changes(|identity: &AWSClusterStaticIdentity| identity.meta().generation.map(i64::cast_unsigned)),
        );
        // When the Secret of an identity, by its UID, was seen to be in order.
        let mut settled = HashMap::<String, Instant>::new();
        loop {
            let here = identities.store().state();
            settled.retain(|uid, seen| {
                seen.elapsed() < sync_period && here.iter().any(|identity| identity.uid().as_ref() == Some(uid))
            });
            for identity in here {
                let uid = identity.uid().unwrap_or_default();
                if !settled.contains_key(&uid) && add_owner(&secrets, &identity).await {
                    settled.insert(uid, Instant::now());
                }
            }
            tokio::select! {
                Some(_) = changes.next() => {}
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    };
    stop.run_until_cancelled(work).await;
    Ok(())
}

/// Whether the identity's Secret is there and owned by it now.
async fn add_owner(secrets: &Api<Secret>, identity: &Arc<AWSClusterStaticIdentity>) -> bool {
    let (name, identity_name) = (&identity.spec.secret_ref, identity.name_any());
    let written = async {
        let Some(secret) = secrets.get_opt(name).await? else {
            return Ok(false);
        };
        if let Some(owned) = owned_by(secret, identity) {
            secrets.replace(name, &PostParams::default(), &owned).await?;
            info!(
                secret = name,
                identity = identity_name,
                "made the static identity an owner of its Secret"
            );
        }
        Ok(true)
    };
    written.await.unwrap_or_else(|error: kube::Error| {
        warn!(
            %error, secret = name, identity = identity_name,
            "failed to make the static identity an owner of its Secret, trying again: until then `clusterctl move` \
             leaves the Secret behind. The manager needs to get and update Secrets in the namespace of identities"
        );
        false
    })
}

/// The Secret with the identity as an owner; `None` where it is one, or where either is on its way out.
fn owned_by(mut secret: Secret, identity: &AWSClusterStaticIdentity) -> Option<Secret> {
    let leaving =
        |metadata: &kube::api::ObjectMeta| metadata.deletion_timestamp.is_some() || meta::is_deleted_for_move(metadata);
    if leaving(&secret.metadata) || leaving(&identity.metadata) {
        return None;
    }
    let owner = OwnerReference {
        controller: None,
        ..identity.controller_owner_ref(&())?
    };
    let owners = secret.metadata.owner_references.get_or_insert_default();
    if owners.iter().any(|known| known.uid == owner.uid) {
        return None;
    }
    // An identity of the same name that is no more would have the Secret collected with it.
    owners.retain(|known| (&known.kind, &known.name) != (&owner.kind, &owner.name));
    owners.push(owner);
    Some(secret)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identity(uid: &str) -> AWSClusterStaticIdentity {
        serde_json::from_value(json!({
            "metadata": {"name": "team-a", "uid": uid},
            "spec": {"secretRef": "keys", "allowedNamespaces": {}},
        }))
        .unwrap()
    }

    fn secret(owners: &[(&str, &str)]) -> Secret {
        let owners: Vec<_> = owners
            .iter()
            .map(
                |(name, uid)| json!({"apiVersion": "v1", "kind": "AWSClusterStaticIdentity", "name": name, "uid": uid}),
            )
            .collect();
        serde_json::from_value(json!({"metadata": {"name": "keys", "ownerReferences": owners}})).unwrap()
    }

    fn owners(secret: Option<Secret>) -> Vec<(String, String)> {
        let owners = secret.unwrap().metadata.owner_references.unwrap_or_default();
        owners.into_iter().map(|owner| (owner.name, owner.uid)).collect()
    }

    #[test]
    fn a_secret_gets_its_identity_as_one_more_owner() {
        let written = owners(owned_by(secret(&[("team-b", "2")]), &identity("1")));
        assert_eq!(written, [("team-b".into(), "2".into()), ("team-a".into(), "1".into())]);
    }

    #[test]
    fn the_owner_is_no_controller_so_that_several_identities_may_share_a_secret() {
        let written = owned_by(secret(&[]), &identity("1")).unwrap();
        let [owner] = written.metadata.owner_references.unwrap().try_into().unwrap();
        assert_eq!(
            (owner.controller, owner.kind.as_str()),
            (None, "AWSClusterStaticIdentity")
        );
    }

    #[test]
    fn an_owner_of_that_name_that_is_no_more_makes_room() {
        let written = owners(owned_by(secret(&[("team-a", "0")]), &identity("1")));
        assert_eq!(written, [("team-a".into(), "1".into())]);
    }

    #[test]
    fn nothing_is_written_where_it_is_an_owner_or_somebody_is_leaving() {
        assert_eq!(owned_by(secret(&[("team-a", "1")]), &identity("1")), None);
        let mut moved = identity("1");
        moved
            .annotations_mut()
            .insert(meta::DELETE_FOR_MOVE_ANNOTATION.into(), String::new());
        assert_eq!(owned_by(secret(&[]), &moved), None);
    }
}
