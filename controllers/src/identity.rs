//! Whose credentials an object works with: resolves an `identityRef` through every hop.

use capa_api::common::{IdentityKind, IdentityReference};
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::identity::{AWSClusterRoleIdentity, AWSClusterStaticIdentity, namespace_allowed};
use capa_cloud::{CredentialSource, ResolvedIdentity};
use k8s_openapi::api::core::v1::Secret;
use secrecy::SecretString;

use crate::kubernetes_api::{Identity, Kubernetes, KubernetesError};

/// A chain of roles is at most this long; the API has no cycle check, so a bound is needed anyway.
const MAX_HOPS: usize = 5;

/// On whose behalf, and where Secrets are looked for.
#[derive(Clone, Copy, Debug)]
pub struct IdentityRequest<'a> {
    /// The identity named, or the default.
    pub reference: &'a IdentityReference,
    /// Namespace of the object that names it; every hop must allow it.
    pub namespace: &'a str,
    /// Cluster the work is for; names the STS session.
    pub cluster_name: &'a str,
    /// Namespace of the Secrets of static identities.
    pub identity_namespace: &'a str,
}

/// Why an identity cannot be used, as the `IdentityReady` condition shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityProblem {
    /// `NotFound`, `NotAllowed`, `SourceNotAllowed` or `CredentialsFailed`.
    pub reason: Reason,
    /// Which object, and what to do.
    pub message: String,
}

impl IdentityProblem {
    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// The condition that shows it.
    pub fn condition(&self) -> ConditionUpdate {
        ConditionType::IdentityReady.is_false(self.reason, self.message.clone())
    }
}

/// Resolves an identity from its objects and Secret. Makes no AWS call.
pub async fn resolve(
    kubernetes: &dyn Kubernetes,
    request: &IdentityRequest<'_>,
) -> Result<Result<ResolvedIdentity, IdentityProblem>, KubernetesError> {
    let chain = match walk(kubernetes, request) {
        Ok(chain) => chain,
        Err(problem) => return Ok(Err(problem)),
    };
    let mut key = String::from(request.identity_namespace);
    for identity in &chain {
        let metadata = identity.metadata();
        push_version(&mut key, metadata.uid.as_deref(), metadata.resource_version.as_deref());
    }
    let mut hops = chain.into_iter().rev();
    let mut source = match hops.next() {
        Some(Identity::Static(identity)) => {
            let name = &identity.spec.secret_ref;
            let Some(secret) = kubernetes.secret(request.identity_namespace, name).await? else {
                return Ok(Err(secret_missing(&identity, request.identity_namespace)));
            };
            push_version(
                &mut key,
                secret.metadata.uid.as_deref(),
                secret.metadata.resource_version.as_deref(),
            );
            match credentials(&identity, request.identity_namespace, &secret) {
                Ok(source) => source,
                Err(problem) => return Ok(Err(problem)),
            }
        }
        _ => CredentialSource::Controller,
    };
    let mut names_cluster = false;
    for hop in hops {
        if let Identity::Role(role) = hop {
            names_cluster |= given_session_name(&role).is_none();
            source = assume(&role, request, source);
        }
    }
    // Only where STS sessions are named after the cluster do the credentials of two clusters differ; else they share
    // one client and one instance store.
    if names_cluster {
        push_version(&mut key, Some(request.namespace), Some(request.cluster_name));
    }
    Ok(Ok(ResolvedIdentity { key, source }))
}

/// From the named identity to the one that needs no other, each of them allowed.
fn walk(kubernetes: &dyn Kubernetes, request: &IdentityRequest<'_>) -> Result<Vec<Identity>, IdentityProblem> {
    let labels = kubernetes.namespace_labels(request.namespace);
    let mut chain = Vec::new();
    let mut next = Some(request.reference.clone());
    while let Some(reference) = next {
        let described = format!("{}/{}", reference.kind, reference.name);
        if chain.len() == MAX_HOPS {
            return Err(IdentityProblem::new(
                Reason::NotFound,
                format!(
                    "the chain of sourceIdentityRef that starts at {}/{} is longer than {MAX_HOPS} or has a cycle: shorten it",
                    request.reference.kind, request.reference.name
                ),
            ));
        }
        let Some(identity) = kubernetes.identity(&reference) else {
            return Err(IdentityProblem::new(
                Reason::NotFound,
                format!("{described} does not exist: create it, or name another in identityRef"),
            ));
        };
        if !namespace_allowed(identity.allowed_namespaces(), request.namespace, &labels) {
            let reason = if chain.is_empty() {
                Reason::NotAllowed
            } else {
                Reason::SourceNotAllowed
            };
            return Err(IdentityProblem::new(
                reason,
                format!(
                    "{described} does not allow namespace {}: add it to spec.allowedNamespaces there",
                    request.namespace
                ),
            ));
        }
        next = match &identity {
            Identity::Role(role) => Some(role.spec.effective_source()),
            Identity::Controller(_) | Identity::Static(_) => None,
        };
        chain.push(identity);
    }
    Ok(chain)
}

fn push_version(key: &mut String, uid: Option<&str>, version: Option<&str>) {
    key.push('/');
    key.push_str(uid.unwrap_or_default());
    key.push('@');
    key.push_str(version.unwrap_or_default());
}

fn secret_missing(identity: &AWSClusterStaticIdentity, namespace: &str) -> IdentityProblem {
    IdentityProblem::new(
        Reason::NotFound,
        format!(
            "Secret {namespace}/{} of {}/{} does not exist: create it with keys AccessKeyID and SecretAccessKey",
            identity.spec.secret_ref,
            IdentityKind::AWSClusterStaticIdentity,
            identity.metadata.name.as_deref().unwrap_or_default()
        ),
    )
}

fn credentials(
    identity: &AWSClusterStaticIdentity,
    namespace: &str,
    secret: &Secret,
) -> Result<CredentialSource, IdentityProblem> {
    let value = |key: &str| {
        let bytes = secret.data.as_ref()?.get(key)?;
        let text = String::from_utf8(bytes.0.clone()).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let required = |key: &str| {
        value(key).ok_or_else(|| {
            IdentityProblem::new(
                Reason::CredentialsFailed,
                format!(
                    "Secret {namespace}/{} has no text under key {key}: add it",
                    identity.spec.secret_ref
                ),
            )
        })
    };
    Ok(CredentialSource::Static {
        access_key_id: required("AccessKeyID")?,
        secret_access_key: SecretString::from(required("SecretAccessKey")?),
        session_token: value("SessionToken").map(SecretString::from),
    })
}

fn assume(role: &AWSClusterRoleIdentity, request: &IdentityRequest<'_>, source: CredentialSource) -> CredentialSource {
    let spec = &role.spec;
    CredentialSource::Role {
        role_arn: spec.role_arn.clone(),
        session_name: given_session_name(role).map_or_else(|| session_name(request), str::to_owned),
        external_id: spec.external_id.clone().filter(|id| !id.is_empty()),
        duration_seconds: spec.duration_seconds,
        inline_policy: spec.inline_policy.clone().filter(|policy| !policy.is_empty()),
        policy_arns: spec.policy_arns.clone(),
        source: Box::new(source),
    }
}

fn given_session_name(role: &AWSClusterRoleIdentity) -> Option<&str> {
    role.spec.session_name.as_deref().filter(|name| !name.is_empty())
}

/// `capa-rs-<namespace>-<cluster>`, cut to the 64 characters that STS accepts.
fn session_name(request: &IdentityRequest<'_>) -> String {
    format!("capa-rs-{}-{}", request.namespace, request.cluster_name)
        .chars()
        .take(64)
        .collect()
}

#[cfg(test)]
mod fields;
#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;
    use crate::testing::{FakeKubernetes, Journal, read};

    fn kubernetes() -> FakeKubernetes {
        FakeKubernetes::new(&Journal::default())
    }

    async fn resolved(kubernetes: &FakeKubernetes, reference: &str) -> Result<ResolvedIdentity, IdentityProblem> {
        let request = IdentityRequest {
            reference: &read(reference),
            namespace: "team-a",
            cluster_name: "dev",
            identity_namespace: "capa-rs-system",
        };
        resolve(kubernetes, &request).await.unwrap()
    }

    fn role(kubernetes: &FakeKubernetes, name: &str, more: &str) {
        let spec = format!("roleARN: 'arn:aws:iam::1:role/{name}', allowedNamespaces: {{}}, {more}");
        kubernetes.identity_object("AWSClusterRoleIdentity", name, &spec);
    }

    /// Roles `r1` … `r<count>`, each assumed by the next, the last by the manager.
    fn chain(kubernetes: &FakeKubernetes, count: usize) {
        for hop in 1..=count {
            let source = if hop == count {
                String::new()
            } else {
                format!(
                    "sourceIdentityRef: {{kind: AWSClusterRoleIdentity, name: r{}}}",
                    hop + 1
                )
            };
            role(kubernetes, &format!("r{hop}"), &source);
        }
    }

    const KEYS: [(&str, &str); 2] = [("AccessKeyID", " AKIA\n"), ("SecretAccessKey", "hunter2")];

    fn static_key(kubernetes: &FakeKubernetes) {
        let spec = "secretRef: keys, allowedNamespaces: {}";
        kubernetes.identity_object("AWSClusterStaticIdentity", "key", spec);
        kubernetes.put_secret("capa-rs-system", "keys", &KEYS);
    }

    #[tokio::test]
    async fn a_chain_of_roles_ends_at_its_source_and_is_assumed_outermost_last() {
        let kubernetes = kubernetes();
        static_key(&kubernetes);
        let policy = "externalID: shared, durationSeconds: 3600, sessionName: ci, policyARNs: ['arn:p'], \
                      sourceIdentityRef: {kind: AWSClusterRoleIdentity, name: hub}";
        role(&kubernetes, "team", policy);
        role(
            &kubernetes,
            "hub",
            "externalID: '', sessionName: '', sourceIdentityRef: {kind: AWSClusterStaticIdentity, name: key}",
        );
        let identity = resolved(&kubernetes, "{kind: AWSClusterRoleIdentity, name: team}").await;
        let CredentialSource::Role {
            role_arn,
            session_name,
            external_id,
            duration_seconds,
            policy_arns,
            source,
            ..
        } = identity.unwrap().source
        else {
            panic!("no role")
        };
        assert_eq!(
            (role_arn.as_str(), session_name.as_str()),
            ("arn:aws:iam::1:role/team", "ci")
        );
        assert_eq!((external_id.as_deref(), duration_seconds), (Some("shared"), Some(3600)));
        assert_eq!(policy_arns, ["arn:p"]);
        let CredentialSource::Role {
            session_name,
            external_id,
            source,
            ..
        } = *source
        else {
            panic!("no second role")
        };
        assert_eq!(
            (session_name.as_str(), external_id),
            ("capa-rs-team-a-dev", None),
            "empty text is absent"
        );
        let CredentialSource::Static {
            access_key_id,
            secret_access_key,
            session_token,
        } = *source
        else {
            panic!("no key")
        };
        assert_eq!(
            (access_key_id.as_str(), secret_access_key.expose_secret()),
            ("AKIA", "hunter2")
        );
        assert!(session_token.is_none());
    }

    #[tokio::test]
    async fn a_chain_is_at_most_five_identities_long() {
        let kubernetes = kubernetes();
        let first = "{kind: AWSClusterRoleIdentity, name: r1}";
        chain(&kubernetes, 4);
        assert!(resolved(&kubernetes, first).await.is_ok(), "four roles and the manager");
        chain(&kubernetes, 5);
        let problem = resolved(&kubernetes, first).await.unwrap_err();
        assert_eq!(problem.reason, Reason::NotFound);
        assert!(
            problem.message.contains("AWSClusterRoleIdentity/r1"),
            "{}",
            problem.message
        );
    }

    #[tokio::test]
    async fn any_change_in_the_chain_or_its_secret_is_another_key_and_nothing_else_is() {
        let kubernetes = kubernetes();
        static_key(&kubernetes);
        role(
            &kubernetes,
            "team",
            "sourceIdentityRef: {kind: AWSClusterStaticIdentity, name: key}",
        );
        let reference = "{kind: AWSClusterRoleIdentity, name: team}";
        let mut keys = vec![resolved(&kubernetes, reference).await.unwrap().key];
        assert_eq!(resolved(&kubernetes, reference).await.unwrap().key, keys[0]);
        kubernetes.put_secret("capa-rs-system", "keys", &KEYS);
        keys.push(resolved(&kubernetes, reference).await.unwrap().key);
        let spec = "secretRef: keys, allowedNamespaces: {}";
        kubernetes.identity_object("AWSClusterStaticIdentity", "key", spec);
        keys.push(resolved(&kubernetes, reference).await.unwrap().key);
        role(
            &kubernetes,
            "team",
            "sourceIdentityRef: {kind: AWSClusterStaticIdentity, name: key}",
        );
        keys.push(resolved(&kubernetes, reference).await.unwrap().key);
        keys.dedup();
        assert_eq!(keys.len(), 4, "{keys:?}");
        assert!(keys.iter().all(|key| !key.contains("hunter2")), "{keys:?}");
    }

    #[tokio::test]
    async fn clusters_share_a_key_unless_a_session_is_named_after_them() {
        let kubernetes = kubernetes();
        static_key(&kubernetes);
        role(&kubernetes, "named", "sessionName: ci");
        role(&kubernetes, "unnamed", "");
        role(
            &kubernetes,
            "over-unnamed",
            "sessionName: ci, sourceIdentityRef: {kind: AWSClusterRoleIdentity, name: unnamed}",
        );
        for (reference, shared) in [
            ("{kind: AWSClusterStaticIdentity, name: key}", true),
            ("{kind: AWSClusterRoleIdentity, name: named}", true),
            ("{kind: AWSClusterRoleIdentity, name: unnamed}", false),
            ("{kind: AWSClusterRoleIdentity, name: over-unnamed}", false),
        ] {
            let mut keys = Vec::new();
            for (namespace, cluster_name) in [("team-a", "dev"), ("team-a", "prod"), ("team-b", "dev")] {
                let request = IdentityRequest {
                    reference: &read(reference),
                    namespace,
                    cluster_name,
                    identity_namespace: "capa-rs-system",
                };
                keys.push(resolve(&kubernetes, &request).await.unwrap().unwrap().key);
            }
            keys.dedup();
            assert_eq!(keys.len(), if shared { 1 } else { 3 }, "{reference}");
        }
    }

    #[test]
    fn a_session_name_is_cut_to_what_sts_accepts() {
        let request = IdentityRequest {
            reference: &IdentityReference::controller_default(),
            namespace: &"n".repeat(40),
            cluster_name: &"c".repeat(40),
            identity_namespace: "",
        };
        assert_eq!(session_name(&request).len(), 64);
    }
}
