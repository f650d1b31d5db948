//! Resolves an `identityRef` to AWS credentials through its whole chain of roles.

#[cfg(test)]
mod fields;
mod problem;
#[cfg(test)]
mod tests;
pub mod users;

use capa_api::common::{IdentityKind, IdentityReference};
use capa_api::conditions::Reason;
use capa_api::identity::{AWSClusterRoleIdentity, AWSClusterStaticIdentity, namespace_allowed};
use capa_cloud::{ClusterKey, CredentialSource, ResolvedIdentity};
use k8s_openapi::api::core::v1::Secret;
use secrecy::SecretString;
use sha2::{Digest, Sha256};

pub use problem::IdentityProblem;
pub(crate) use problem::described;

use crate::kubernetes_api::{Identity, Kubernetes, KubernetesError};

/// Maximum length of a chain of roles. The bound also ends cycles, which the API does not prevent.
const MAX_HOPS: usize = 5;

/// The longest name that STS accepts for a session, in characters.
const SESSION_NAME_LENGTH: usize = 64;

/// The identity to resolve, and the object that refers to it.
#[derive(Clone, Copy, Debug)]
pub struct IdentityRequest<'a> {
    /// The reference of the object, or the default identity.
    pub reference: &'a IdentityReference,
    /// Namespace of the object that refers to the identity. Every identity of the chain must allow the namespace.
    pub namespace: &'a str,
    /// Name of the cluster, which is part of the name of the STS session. Calls with the identity use the turns of this
    /// cluster.
    pub cluster_name: &'a str,
    /// Namespace of the Secrets of static identities.
    pub identity_namespace: &'a str,
}

/// The reason why an identity cannot be resolved.
#[derive(Debug)]
pub enum IdentityError {
    /// The objects of the identity do not allow its use.
    Unusable(IdentityProblem),
    /// The Secret of the identity could not be read. The failure may be temporary.
    Unread(IdentityProblem),
}

impl From<IdentityProblem> for IdentityError {
    fn from(problem: IdentityProblem) -> Self {
        Self::Unusable(problem)
    }
}

/// Resolves an identity from its objects and Secret. Makes no AWS call.
pub async fn resolve(
    kubernetes: &dyn Kubernetes,
    request: &IdentityRequest<'_>,
) -> Result<ResolvedIdentity, IdentityError> {
    let labels = kubernetes.namespace_labels(request.namespace);
    let chain = chain_of(kubernetes, request.reference, |reference, identity, is_source| {
        if namespace_allowed(identity.allowed_namespaces(), request.namespace, labels.as_ref()) {
            return Ok(());
        }
        let reason = if is_source { Reason::SourceNotAllowed } else { Reason::NotAllowed };
        Err(IdentityProblem::new(
            reason,
            format!(
                "{}/{} does not allow namespace {}: add it to spec.allowedNamespaces there",
                reference.kind, reference.name, request.namespace
            ),
        ))
    })?;
    let mut key = String::from(request.identity_namespace);
    for identity in &chain {
        // The key contains the generation, because the resource version also changes with the status of the identity.
        let metadata = identity.metadata();
        let generation = metadata.generation.map(|generation| generation.to_string());
        push_version(&mut key, metadata.uid.as_deref(), generation.as_deref());
    }
    let mut hops = chain.into_iter().rev();
    let mut source = match hops.next() {
        Some(Identity::Static(identity)) => {
            let (secret, source) = access_key(kubernetes, &identity, request.identity_namespace).await?;
            push_version(&mut key, secret.metadata.uid.as_deref(), secret.metadata.resource_version.as_deref());
            source
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
    // Credentials of two clusters differ only if the STS sessions have the names of the clusters. Otherwise the
    // clusters share one session.
    if names_cluster {
        push_version(&mut key, Some(request.namespace), Some(request.cluster_name));
    }
    Ok(ResolvedIdentity {
        key,
        source,
        cluster: ClusterKey { namespace: request.namespace.to_owned(), name: request.cluster_name.to_owned() },
        is_for_one_cluster: names_cluster,
    })
}

/// The objects of a complete identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completeness {
    /// Whether the credentials come from a Secret. Secrets are not watched.
    pub has_secret: bool,
}

/// Confirms that an identity has all its objects: the identities of its chain, and the Secret at the end of the chain
/// with its keys. Makes no AWS call. The allowed namespaces are not checked, because they depend on the object that
/// uses the identity.
pub async fn completeness(
    kubernetes: &dyn Kubernetes,
    reference: &IdentityReference,
    identity_namespace: &str,
) -> Result<Completeness, IdentityError> {
    let chain = chain_of(kubernetes, reference, |_, _, _| Ok(()))?;
    let Some(Identity::Static(identity)) = chain.last() else {
        return Ok(Completeness { has_secret: false });
    };
    access_key(kubernetes, identity, identity_namespace).await?;
    Ok(Completeness { has_secret: true })
}

/// The identities from the referenced identity to the identity without a source. `admit` may refuse each of them; its
/// last argument says whether the identity is a source of another one.
fn chain_of(
    kubernetes: &dyn Kubernetes,
    first: &IdentityReference,
    admit: impl Fn(&IdentityReference, &Identity, bool) -> Result<(), IdentityProblem>,
) -> Result<Vec<Identity>, IdentityProblem> {
    let mut chain = Vec::new();
    let mut next = Some(first.clone());
    while let Some(reference) = next {
        let described = format!("{}/{}", reference.kind, reference.name);
        if chain.len() == MAX_HOPS {
            return Err(IdentityProblem::new(
                Reason::NotFound,
                format!(
                    "the chain of sourceIdentityRef that starts at {}/{} is longer than {MAX_HOPS} or has a cycle: \
                     shorten it",
                    first.kind, first.name
                ),
            ));
        }
        let Some(identity) = kubernetes.identity(&reference) else {
            return Err(IdentityProblem::new(
                Reason::NotFound,
                format!("{described} does not exist: create it, or name another in identityRef"),
            ));
        };
        admit(&reference, &identity, !chain.is_empty())?;
        next = match &identity {
            Identity::Role(role) => Some(role.spec.effective_source()),
            Identity::Controller(_) | Identity::Static(_) => None,
        };
        chain.push(identity);
    }
    Ok(chain)
}

/// The Secret of a static identity, and the access key in it.
async fn access_key(
    kubernetes: &dyn Kubernetes,
    identity: &AWSClusterStaticIdentity,
    namespace: &str,
) -> Result<(Secret, CredentialSource), IdentityError> {
    let secret = kubernetes.secret(namespace, &identity.spec.secret_ref).await;
    let secret = secret.map_err(|error| secret_unread(identity, namespace, &error))?;
    let Some(secret) = secret else {
        return Err(secret_not_found(identity, namespace).into());
    };
    let source = credentials(identity, namespace, &secret)?;
    Ok((secret, source))
}

/// The group of the objects whose passes call AWS with an identity in a region, for `Reconciler::groups`.
pub(crate) fn identity_group(reference: &IdentityReference, region: Option<&str>) -> String {
    let region = region.unwrap_or_default();
    format!("identity {}/{} {region}", reference.kind, reference.name)
}

fn push_version(key: &mut String, uid: Option<&str>, version: Option<&str>) {
    key.push('/');
    key.push_str(uid.unwrap_or_default());
    key.push('@');
    key.push_str(version.unwrap_or_default());
}

fn secret_not_found(identity: &AWSClusterStaticIdentity, namespace: &str) -> IdentityProblem {
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

fn secret_unread(identity: &AWSClusterStaticIdentity, namespace: &str, error: &KubernetesError) -> IdentityError {
    let name = &identity.spec.secret_ref;
    let message = format!("Secret {namespace}/{name} cannot be read: {}", error.answer());
    IdentityError::Unread(IdentityProblem::new(Reason::Failed, message))
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
                format!("Secret {namespace}/{} has no text under key {key}: add it", identity.spec.secret_ref),
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
        duration_seconds: spec.effective_duration_seconds(),
        inline_policy: spec.inline_policy.clone().filter(|policy| !policy.is_empty()),
        policy_arns: spec.policy_arns.clone(),
        source: Box::new(source),
    }
}

fn given_session_name(role: &AWSClusterRoleIdentity) -> Option<&str> {
    role.spec.session_name.as_deref().filter(|name| !name.is_empty())
}

/// `capa-rs-<namespace>-<cluster>`. STS accepts 64 characters. In a longer name, a hash of namespace and cluster
/// replaces the end, so that the sessions of two clusters differ.
fn session_name(request: &IdentityRequest<'_>) -> String {
    let name = format!("capa-rs-{}-{}", request.namespace, request.cluster_name);
    if name.chars().count() <= SESSION_NAME_LENGTH {
        return name;
    }
    let digest = Sha256::digest(format!("{}/{}", request.namespace, request.cluster_name));
    let first = digest.first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let hash = format!("-{first:08x}");
    let kept: String = name.chars().take(SESSION_NAME_LENGTH - hash.len()).collect();
    kept + &hash
}
