//! Makes static identities the owners of their Secrets, because `clusterctl move` also moves the objects that a moved
//! object owns.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use capa_api::forms::is_dns_subdomain;
use capa_api::identity::AWSClusterStaticIdentity;
use capa_runtime::Runtime;
use capa_runtime::cache::ObjectCache;
use capa_runtime::repeated_failure::RepeatedFailure;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

/// Interval after which a Secret that does not exist, or could not be written, is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// Adds the missing owners in `namespace` until `stop`, and checks each Secret again once a `sync_period`.
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
        // When the Secret of an identity was last seen with its owner, by UID of the identity.
        let mut settled = HashMap::<String, Instant>::new();
        let mut failures = HashMap::<String, RepeatedFailure>::new();
        loop {
            let here = identities.store().state();
            let is_here = |uid: &String| here.iter().any(|identity| identity.uid().as_ref() == Some(uid));
            settled.retain(|uid, seen| seen.elapsed() < sync_period && is_here(uid));
            failures.retain(|uid, _| is_here(uid));
            for identity in &here {
                let uid = identity.uid().unwrap_or_default();
                if settled.contains_key(&uid) {
                    continue;
                }
                let failure = failures.entry(uid.clone()).or_insert_with(|| failure_of(identity));
                if add_owner(&secrets, identity, failure).await {
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

fn failure_of(identity: &AWSClusterStaticIdentity) -> RepeatedFailure {
    RepeatedFailure::new(format!(
        "make AWSClusterStaticIdentity {} an owner of its Secret {}, without which `clusterctl move` leaves the Secret \
         behind",
        identity.name_any(),
        identity.spec.secret_ref
    ))
}

/// Whether the identity's Secret exists and the identity is its owner now.
async fn add_owner(
    secrets: &Api<Secret>,
    identity: &Arc<AWSClusterStaticIdentity>,
    failure: &mut RepeatedFailure,
) -> bool {
    let (name, identity_name) = (&identity.spec.secret_ref, identity.name_any());
    // No Secret has such a name, and the path of a request with it could lead to another object.
    if !is_dns_subdomain(name) {
        return false;
    }
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
    match written.await {
        Ok(exists) => {
            failure.succeeded();
            exists
        }
        // Somebody has changed the Secret meanwhile.
        Err(kube::Error::Api(status)) if status.is_conflict() => false,
        Err(error) => {
            failure.failed(&error);
            false
        }
    }
}

/// The Secret with the identity added as an owner; `None` if it already is one, or if either object is being deleted.
fn owned_by(mut secret: Secret, identity: &AWSClusterStaticIdentity) -> Option<Secret> {
    let is_leaving = |metadata: &kube::api::ObjectMeta| metadata.deletion_timestamp.is_some();
    if is_leaving(&secret.metadata) || is_leaving(&identity.metadata) {
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
    // A reference to a deleted identity of the same name would have the Secret garbage-collected.
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
    fn owners_of_a_secret_are_no_controllers_so_that_many_may_share() {
        let written = owned_by(secret(&[]), &identity("1")).unwrap();
        let [owner] = written.metadata.owner_references.unwrap().try_into().unwrap();
        assert_eq!(
            (owner.controller, owner.kind.as_str()),
            (None, "AWSClusterStaticIdentity")
        );
    }

    #[test]
    fn a_deleted_owner_of_the_same_name_is_replaced() {
        let written = owners(owned_by(secret(&[("team-a", "0")]), &identity("1")));
        assert_eq!(written, [("team-a".into(), "1".into())]);
    }

    #[test]
    fn no_write_for_present_owners_or_objects_being_deleted() {
        assert_eq!(owned_by(secret(&[("team-a", "1")]), &identity("1")), None);
        let mut deleted = identity("1");
        deleted.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(owned_by(secret(&[]), &deleted), None);
    }
}
