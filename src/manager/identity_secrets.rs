//! Polls the Secrets of static identities, which are not watched. The module reports Secrets that changed or were
//! deleted, and makes each identity the owner of its Secret, because `clusterctl move` moves an object together with
//! the objects that it owns.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use capa_api::forms::is_dns_subdomain;
use capa_api::identity::AWSClusterStaticIdentity;
use capa_controllers::awsclusteridentity::identity_reference;
use capa_controllers::identity::users::deleted_while_in_use;
use capa_controllers::kubernetes::KubernetesClient;
use capa_runtime::Runtime;
use capa_runtime::cache::ObjectCache;
use capa_runtime::repeated_failure::RepeatedFailure;
use futures::channel::mpsc::UnboundedSender;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Resource, ResourceExt};
use tokio_util::sync::CancellationToken;
use tracing::info;

/// The Secrets of static identities.
pub(super) struct IdentitySecrets {
    pub(super) runtime: Runtime,
    pub(super) kubernetes: KubernetesClient,
    pub(super) identities: ObjectCache<AWSClusterStaticIdentity>,
    /// Namespace of the Secrets.
    pub(super) namespace: String,
    /// Time between two reads of a Secret.
    pub(super) period: Duration,
    /// Receives each identity whose Secret was created, changed or deleted.
    pub(super) changed: UnboundedSender<AWSClusterStaticIdentity>,
}

/// The UID and resource version of a Secret; `None` for a Secret that does not exist.
type Version = Option<(String, String)>;

impl IdentitySecrets {
    /// Reads all Secrets once per period, and immediately when an identity is created or changed, until `stop`.
    pub(super) async fn follow(self, stop: CancellationToken) -> Result<(), Infallible> {
        let secrets: Api<Secret> = Api::namespaced(self.runtime.client.clone(), &self.namespace);
        let work = async {
            self.runtime.readiness.all_open().await;
            let generation = |identity: &AWSClusterStaticIdentity| identity.meta().generation.map(i64::cast_unsigned);
            let mut changes = Box::pin(self.identities.changes(generation));
            // The last seen versions, by UID of the identity.
            let mut seen = HashMap::<String, Version>::new();
            let mut failures = HashMap::<String, RepeatedFailure>::new();
            loop {
                let here = self.identities.store().state();
                let is_here = |uid: &String| here.iter().any(|identity| identity.uid().as_ref() == Some(uid));
                seen.retain(|uid, _| is_here(uid));
                failures.retain(|uid, _| is_here(uid));
                for identity in &here {
                    let uid = identity.uid().unwrap_or_default();
                    let failure = failures.entry(uid.clone()).or_insert_with(|| failure_of(identity));
                    let Some(version) = ensure_owner(&secrets, identity, failure).await else {
                        continue;
                    };
                    let before = seen.insert(uid, version.clone());
                    if before.is_some_and(|before| before != version) {
                        self.tell(identity, version.is_none()).await;
                    }
                }
                tokio::select! {
                    // The stream starts with all existing identities. One read of the Secrets handles all pending
                    // changes.
                    Some(_) = changes.next() => while let Some(Some(_)) = changes.next().now_or_never() {},
                    () = tokio::time::sleep(self.period) => {}
                }
            }
        };
        stop.run_until_cancelled(work).await;
        Ok(())
    }

    /// Triggers the clusters of an identity whose Secret has changed, and warns if it is gone.
    async fn tell(&self, identity: &AWSClusterStaticIdentity, gone: bool) {
        // The receiver is dropped when the controllers stop.
        let _ = self.changed.unbounded_send(identity.clone());
        if !gone {
            return;
        }
        let reference = identity_reference(identity);
        let secret = format!("its Secret {}/{}", self.namespace, identity.spec.secret_ref);
        let warning = deleted_while_in_use(&secret, &self.kubernetes.users_of_identity(&reference));
        self.runtime.events.publish(identity, warning.into_iter().collect()).await;
    }
}

fn failure_of(identity: &AWSClusterStaticIdentity) -> RepeatedFailure {
    RepeatedFailure::new(format!(
        "read Secret {} of AWSClusterStaticIdentity {} and make the identity its owner, without which `clusterctl \
         move` leaves the Secret behind",
        identity.spec.secret_ref,
        identity.name_any()
    ))
}

/// Makes the identity an owner of its Secret and returns the version of the Secret; `None` if the Secret cannot be read
/// or updated.
async fn ensure_owner(
    secrets: &Api<Secret>,
    identity: &AWSClusterStaticIdentity,
    failure: &mut RepeatedFailure,
) -> Option<Version> {
    let (name, identity_name) = (&identity.spec.secret_ref, identity.name_any());
    // No Secret can have such a name, and a request path with this name could lead to another object.
    if !is_dns_subdomain(name) {
        return Some(None);
    }
    let owned_version = async {
        let Some(secret) = secrets.get_metadata_opt(name).await? else {
            return Ok(None);
        };
        if missing_owner(&secret.metadata, identity).is_none() {
            return Ok(Some(version(&secret.metadata)));
        }
        let Some(secret) = secrets.get_opt(name).await? else {
            return Ok(None);
        };
        let before = version(&secret.metadata);
        let Some(owned) = owned_by(secret, identity) else {
            return Ok(Some(before));
        };
        let owned = secrets.replace(name, &PostParams::default(), &owned).await?;
        info!(secret = name, identity = identity_name, "made the static identity an owner of its Secret");
        Ok(Some(version(&owned.metadata)))
    };
    match owned_version.await {
        Ok(version) => {
            failure.succeeded();
            Some(version)
        }
        // Another client changed the Secret in the meantime.
        Err(kube::Error::Api(status)) if status.is_conflict() => None,
        Err(error) => {
            failure.failed(&error);
            None
        }
    }
}

fn version(metadata: &ObjectMeta) -> (String, String) {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (text(&metadata.uid), text(&metadata.resource_version))
}

/// The Secret with the identity added as an owner; `None` if the identity is an owner already, or if either object is
/// being deleted.
fn owned_by(mut secret: Secret, identity: &AWSClusterStaticIdentity) -> Option<Secret> {
    let owner = missing_owner(&secret.metadata, identity)?;
    let owners = secret.metadata.owner_references.get_or_insert_default();
    // With a reference to a deleted identity of the same name, the Secret would be garbage-collected.
    owners.retain(|known| (&known.kind, &known.name) != (&owner.kind, &owner.name));
    owners.push(owner);
    Some(secret)
}

/// The reference to the identity that a Secret lacks; `None` if it has the reference, or if either object is being
/// deleted.
fn missing_owner(secret: &ObjectMeta, identity: &AWSClusterStaticIdentity) -> Option<OwnerReference> {
    if secret.deletion_timestamp.is_some() || identity.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let owner = OwnerReference { controller: None, ..identity.controller_owner_ref(&())? };
    let mut owners = secret.owner_references.iter().flatten();
    (!owners.any(|known| known.uid == owner.uid)).then_some(owner)
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
        assert_eq!((owner.controller, owner.kind.as_str()), (None, "AWSClusterStaticIdentity"));
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
