//! AWSNetworkMapping: publishes whether the expressions of a mapping compile.

use std::sync::Arc;

use async_trait::async_trait;
use capa_api::conditions::{self, ConditionType, ConditionUpdate, Reason};
use capa_api::network_mapping::{AWSNetworkMapping, AWSNetworkMappingSpec, AWSNetworkMappingStatus};
use capa_network::Mapping;
use capa_runtime::reconcile::{Outcome, ReconcileError, Reconciler};

use crate::kubernetes_api::Kubernetes;
use crate::transitions;

/// Reconciles AWSNetworkMappings.
pub struct NetworkMappingReconciler {
    /// The time of conditions.
    pub kubernetes: Arc<dyn Kubernetes>,
}

#[async_trait]
impl Reconciler for NetworkMappingReconciler {
    type Kind = AWSNetworkMapping;

    fn name() -> &'static str {
        "awsnetworkmapping"
    }

    async fn reconcile(&self, mapping: AWSNetworkMapping) -> Result<Outcome<AWSNetworkMapping>, ReconcileError> {
        if mapping.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::done(mapping));
        }
        // The compiler runs outside the threads of the other reconciles.
        let compiling = tokio::task::spawn_blocking({
            let (name, spec) = (mapping.metadata.name.clone().unwrap_or_default(), mapping.spec.clone());
            move || ready(&name, &spec)
        });
        let update = compiling.await.unwrap_or_else(|_| {
            ConditionType::Ready.is_false(Reason::Failed, "the compiler of the expressions has ended unexpectedly")
        });
        Ok(outcome(mapping, update, self.kubernetes.as_ref()))
    }
}

/// The condition `Ready` of a mapping.
fn ready(name: &str, spec: &AWSNetworkMappingSpec) -> ConditionUpdate {
    match Mapping::compile(name, spec) {
        Ok(_) => ConditionType::Ready.is_true(Reason::Compiled),
        Err(invalid) => ConditionType::Ready.is_false(Reason::InvalidExpression, invalid.to_string()),
    }
}

fn outcome(
    mapping: AWSNetworkMapping,
    update: ConditionUpdate,
    kubernetes: &dyn Kubernetes,
) -> Outcome<AWSNetworkMapping> {
    let before = mapping.status.clone().unwrap_or_default().conditions;
    let generation = mapping.metadata.generation;
    let conditions = conditions::merge(&before, [update], generation, kubernetes.now());
    let warnings = transitions::warnings(&before, &conditions);
    let status = AWSNetworkMappingStatus { conditions };
    Outcome::done(mapping).with_status(status).with_events(warnings)
}

#[cfg(test)]
mod tests {
    use capa_runtime::reconcile::Next;

    use super::*;
    use crate::testing::{FakeKubernetes, Journal, read};

    async fn reconciled(region: &str) -> Outcome<AWSNetworkMapping> {
        let mapping = read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSNetworkMapping, \
             metadata: {{name: landscape.example.org, generation: 3}}, \
             spec: {{source: {{apiGroup: example.org, kind: Landscape}}, fields: {{region: '{region}'}}}}}}"
        ));
        let kubernetes = Arc::new(FakeKubernetes::new(&Journal::default()));
        let reconciler = NetworkMappingReconciler { kubernetes };
        reconciler.reconcile(mapping).await.unwrap()
    }

    fn said(outcome: &Outcome<AWSNetworkMapping>) -> (String, String, String) {
        let condition = &outcome.status.as_ref().unwrap().conditions[0];
        assert_eq!(condition.observed_generation, Some(3));
        (condition.status.clone(), condition.reason.clone(), condition.message.clone())
    }

    #[tokio::test]
    async fn a_mapping_whose_expressions_compile_is_ready() {
        let outcome = reconciled("self.spec.region").await;
        assert_eq!(said(&outcome), ("True".into(), "Compiled".into(), String::new()));
        assert_eq!((outcome.events.len(), &outcome.next), (0, &Next::AwaitChange));
    }

    #[tokio::test]
    async fn an_invalid_expression_names_the_field() {
        let outcome = reconciled("self.spec.").await;
        let (status, reason, message) = said(&outcome);
        assert_eq!((status.as_str(), reason.as_str()), ("False", "InvalidExpression"));
        assert!(message.contains("spec.fields.region"), "{message}");
        assert_eq!(outcome.events.len(), 1, "the transition is an event");
    }
}
