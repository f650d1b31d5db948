//! AWSClusterControllerIdentity, AWSClusterRoleIdentity and AWSClusterStaticIdentity: publishes whether an identity is
//! complete, and whether AWS refuses its credentials.
//!
//! The reconciler makes no AWS call. AWS's answer is in the conditions of the objects that use the identity, because
//! only they have a region, and a session name for a role.

mod reports;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use capa_api::common::{IdentityKind, IdentityReference};
use capa_api::conditions::{self, ConditionType, ConditionUpdate, Reason};
use capa_api::identity::{
    AWSClusterControllerIdentity, AWSClusterRoleIdentity, AWSClusterStaticIdentity, AllowedNamespaces, IdentityStatus,
};
use capa_cloud::Timing;
use capa_runtime::kinds::ReconciledKind;
use capa_runtime::reconcile::{Next, Outcome, ReconcileError, Reconciler};
use kube::core::object::HasStatus;

pub use reports::{cluster_report, machine_report};

use crate::identity::{Completeness, IdentityError, completeness};
use crate::kubernetes_api::IdentityKubernetes;
use crate::resync::with_resync;
use crate::transitions;
use reports::refusal;

/// A kind of identities.
pub trait IdentityObject: ReconciledKind + HasStatus<Status = IdentityStatus> {
    /// The kind in references.
    const KIND: IdentityKind;
    /// The name of the controller.
    const CONTROLLER: &'static str;
    /// The namespaces that may use the identity.
    fn allowed_namespaces(&self) -> Option<&AllowedNamespaces>;
}

impl IdentityObject for AWSClusterControllerIdentity {
    const KIND: IdentityKind = IdentityKind::AWSClusterControllerIdentity;
    const CONTROLLER: &'static str = "awsclustercontrolleridentity";

    fn allowed_namespaces(&self) -> Option<&AllowedNamespaces> {
        self.spec.allowed_namespaces.as_ref()
    }
}

impl IdentityObject for AWSClusterRoleIdentity {
    const KIND: IdentityKind = IdentityKind::AWSClusterRoleIdentity;
    const CONTROLLER: &'static str = "awsclusterroleidentity";

    fn allowed_namespaces(&self) -> Option<&AllowedNamespaces> {
        self.spec.allowed_namespaces.as_ref()
    }
}

impl IdentityObject for AWSClusterStaticIdentity {
    const KIND: IdentityKind = IdentityKind::AWSClusterStaticIdentity;
    const CONTROLLER: &'static str = "awsclusterstaticidentity";

    fn allowed_namespaces(&self) -> Option<&AllowedNamespaces> {
        self.spec.allowed_namespaces.as_ref()
    }
}

/// The reference to an identity object.
pub fn identity_reference<K: IdentityObject>(identity: &K) -> IdentityReference {
    IdentityReference { kind: K::KIND, name: identity.meta().name.clone().unwrap_or_default() }
}

/// The dependencies of the reconciles of identities.
#[derive(Clone)]
pub struct IdentityContext {
    /// The requests to Kubernetes.
    pub kubernetes: Arc<dyn IdentityKubernetes>,
    /// Periods and ages.
    pub timing: Timing,
    /// Namespace of the Secrets of static identities.
    pub identity_namespace: String,
    /// Whether this manager reconciles all objects. Managers that each reconcile a part of the objects share the
    /// identities, so none of them may judge an identity by its own objects.
    pub reconciles_everything: bool,
}

/// Reconciles the identities of one kind.
pub struct IdentityReconciler<K> {
    context: IdentityContext,
    sync_period: Duration,
    kind: PhantomData<fn() -> K>,
}

impl<K> IdentityReconciler<K> {
    /// A reconciler that reconciles each identity at least once in a `sync_period`.
    pub fn new(context: IdentityContext, sync_period: Duration) -> Self {
        Self { context, sync_period, kind: PhantomData }
    }
}

#[async_trait]
impl<K: IdentityObject> Reconciler for IdentityReconciler<K> {
    type Kind = K;

    fn name() -> &'static str {
        K::CONTROLLER
    }

    async fn reconcile(&self, object: K) -> Result<Outcome<K>, ReconcileError> {
        let outcome = reconcile(object, &self.context).await;
        Ok(with_resync(outcome, self.sync_period))
    }
}

async fn reconcile<K: IdentityObject>(identity: K, context: &IdentityContext) -> Outcome<K> {
    if identity.meta().deletion_timestamp.is_some() {
        return Outcome::done(identity);
    }
    let reference = identity_reference(&identity);
    let kubernetes = context.kubernetes.as_ref();
    let complete = completeness(kubernetes, &reference, &context.identity_namespace).await;
    let judges = context.reconciles_everything;
    let refused = judges.then(|| refusal(kubernetes, &reference)).flatten();
    // Secrets are not watched, and the end of a refusal shows only in a condition of another object.
    let again = Next::Requeue(context.timing.source_retry_cap);
    let (update, next) = match (complete, refused) {
        (Err(IdentityError::Unusable(problem)), _) => {
            (ConditionType::Ready.is_false(problem.reason, problem.message), Next::Retry)
        }
        (Err(IdentityError::Unread(problem)), _) => {
            (ConditionType::Ready.is_unknown(problem.reason, problem.message), Next::Retry)
        }
        (Ok(_), Some(refusal)) => (ConditionType::Ready.is_false(Reason::CredentialsFailed, refusal), again),
        (Ok(Completeness { has_secret: true }), None) => (ready(&identity), again),
        (Ok(Completeness { has_secret: false }), None) => (ready(&identity), Next::AwaitChange),
    };
    let before = identity.status().cloned().unwrap_or_default().conditions;
    let conditions = conditions::merge(&before, [update], identity.meta().generation, kubernetes.now());
    let warnings = transitions::warnings(&before, &conditions);
    Outcome::done(identity).with_status(IdentityStatus { conditions }).with_next(next).with_events(warnings)
}

/// `Ready` of a complete identity. The message warns if `allowedNamespaces` is absent, because then no namespace may
/// use the identity.
fn ready<K: IdentityObject>(identity: &K) -> ConditionUpdate {
    let ready = ConditionType::Ready.is_true(Reason::Ready);
    match identity.allowed_namespaces() {
        Some(_) => ready,
        None => ready.with_message("spec.allowedNamespaces is absent, so that no namespace may use this identity"),
    }
}
