//! The objects that Karmada needs in a member: ServiceAccounts, their permissions, and tokens that expire.
//!
//! The objects are those of `karmadactl join`, so that `karmadactl unjoin` finds them. Tokens come from token requests,
//! which need no controller in the member, and they expire.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::connection::is_not_found;
use crate::names::FIELD_MANAGER;

/// The namespace of Karmada's objects in a member, and of the credentials in the Karmada. Source: Karmada.
pub(crate) const NAMESPACE: &str = "karmada-cluster";
/// The ServiceAccount with which Karmada acts for its own users. Source: Karmada.
const IMPERSONATOR: &str = "karmada-impersonator";

/// The tokens of both ServiceAccounts.
pub(crate) struct Tokens {
    pub(crate) controller: SecretString,
    pub(crate) impersonator: SecretString,
    /// The time at which the tokens have to be renewed: after four fifths of the lifetime that the member has granted.
    pub(crate) renew_at: Timestamp,
}

fn service_account(member: &str) -> String {
    format!("karmada-{member}")
}

fn role(member: &str) -> String {
    format!("karmada-controller-manager:{}", service_account(member))
}

/// Creates the missing objects in the member.
pub(crate) async fn prepare(client: &Client, member: &str) -> kube::Result<()> {
    let (name, role) = (service_account(member), role(member));
    let labels = json!({"karmada.io/system": "true"});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels},
    });
    apply(&namespaces, NAMESPACE, &namespace).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    for name in [IMPERSONATOR, &name] {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        });
        apply(&accounts, name, &account).await?;
    }
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let everything = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": role, "labels": labels},
        "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["get"]},
        ],
    });
    apply(&roles, &role, &everything).await?;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": role, "labels": labels},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
    });
    apply(&bindings, &role, &binding).await
}

async fn apply<K>(api: &Api<K>, name: &str, object: &Value) -> kube::Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(name, &parameters, &Patch::Apply(object)).await.map(drop)
}

/// Requests new tokens. Earlier tokens stay valid until they expire.
pub(crate) async fn request_tokens(client: &Client, member: &str, lifetime: Duration) -> kube::Result<Tokens> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let now = Timestamp::now();
    let (controller, expires) = request_token(&accounts, &service_account(member), lifetime).await?;
    let (impersonator, _) = request_token(&accounts, IMPERSONATOR, lifetime).await?;
    Ok(Tokens { controller, impersonator, renew_at: renewal(now, expires) })
}

async fn request_token(
    accounts: &Api<ServiceAccount>,
    name: &str,
    lifetime: Duration,
) -> kube::Result<(SecretString, Timestamp)> {
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: i64::try_from(lifetime.as_secs()).ok(),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let answer = accounts.create_token_request(name, &PostParams::default(), &request).await?;
    let granted = answer.status.ok_or_else(|| {
        let message = format!("the API server has granted no token to ServiceAccount {name}");
        kube::Error::Service(message.into())
    })?;
    Ok((granted.token.into(), granted.expiration_timestamp.0))
}

fn renewal(now: Timestamp, expires: Timestamp) -> Timestamp {
    let life = expires.duration_since(now);
    now.checked_add(life * 4 / 5).unwrap_or(now)
}

/// Deletes the objects. The namespace and the ServiceAccount for users are kept while another Karmada uses them.
pub(crate) async fn remove(client: &Client, member: &str) -> kube::Result<()> {
    let (name, role) = (service_account(member), role(member));
    let parameters = DeleteParams::default();
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    unless_gone(bindings.delete(&role, &parameters).await.map(drop))?;
    let roles: Api<ClusterRole> = Api::all(client.clone());
    unless_gone(roles.delete(&role, &parameters).await.map(drop))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    unless_gone(accounts.delete(&name, &parameters).await.map(drop))?;
    let left = accounts.list_metadata(&ListParams::default()).await?.items;
    let is_of_another = |name: &str| name.starts_with("karmada-") && name != IMPERSONATOR;
    if left.iter().any(|account| is_of_another(&account.name_any())) {
        return Ok(());
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    unless_gone(namespaces.delete(NAMESPACE, &parameters).await.map(drop))
}

fn unless_gone(answer: kube::Result<()>) -> kube::Result<()> {
    match answer {
        Err(error) if is_not_found(&error) => Ok(()),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_renewed_after_four_fifths_of_their_life() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(renewal(at(1000), at(1000 + 86_400)), at(1000 + 69_120));
        assert_eq!(renewal(at(1000), at(900)), at(920), "an ended one is renewed at once");
    }
}
