//! AWSMachineTemplate: publishes the capacity of a node of the template, so that the cluster autoscaler can scale from
//! zero.

mod capacity;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use capa_api::common::IdentityReference;
use capa_api::conditions::{self, ConditionType, ConditionUpdate, Reason};
use capa_api::contract::Cluster;
use capa_api::machine::template::{AWSMachineTemplate, AWSMachineTemplateStatus};
use capa_api::meta;
use capa_cloud::{CloudError, ErrorClass, Reads, ResolvedIdentity, TemplateClouds, Timing};
use capa_network::{Merged, MissingField};
use capa_runtime::reconcile::{Next, Outcome, ReconcileError, Reconciler, cluster_group};

use crate::call_fingerprint::CallFingerprint;
use crate::identity::{self, IdentityError, IdentityRequest, identity_group};
use crate::kubernetes_api::{NetworkKubernetes, NetworkReader, NetworkReaderKind, ReadPending};
use crate::launching::forms;
use crate::launching::image::image_id;
use crate::launching::network::read_network;
use crate::refusals::Refusals;
use crate::resync::with_resync;
use crate::{retry, transitions};

/// The dependencies of the reconciles of AWSMachineTemplates.
#[derive(Clone)]
pub struct TemplateContext {
    /// The requests to Kubernetes.
    pub kubernetes: Arc<dyn NetworkKubernetes>,
    /// The read-only access to AWS.
    pub clouds: Arc<dyn TemplateClouds>,
    /// Permanent errors of lookups in AWS.
    pub refusals: Refusals,
    /// Periods and ages.
    pub timing: Timing,
    /// Namespace of the Secrets of static identities.
    pub identity_namespace: String,
}

/// Reconciles AWSMachineTemplates.
pub struct TemplateReconciler {
    /// The dependencies of the reconciles.
    pub context: TemplateContext,
    /// The longest time between two reconciles of an object.
    pub sync_period: Duration,
}

#[async_trait]
impl Reconciler for TemplateReconciler {
    type Kind = AWSMachineTemplate;

    fn name() -> &'static str {
        "awsmachinetemplate"
    }

    async fn reconcile(&self, object: AWSMachineTemplate) -> Result<Outcome<AWSMachineTemplate>, ReconcileError> {
        let outcome = reconcile(object, &self.context).await;
        Ok(with_resync(outcome, self.sync_period))
    }

    fn groups(&self, object: &AWSMachineTemplate) -> Vec<String> {
        let spec = &object.spec.template.spec;
        let identity = spec.identity_ref.as_ref();
        let identity = identity.map(|identity| identity_group(identity, spec.region.as_deref()));
        [cluster_group(&object.metadata)].into_iter().chain(identity).collect()
    }

    fn forget(&self, object: &AWSMachineTemplate) {
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        self.context.refusals.forget(uid);
    }
}

/// Why a pass ends early: it waits for a network source.
const READ_PENDING: &str = "the infrastructure object is being read, and its answer wakes the template";

/// The result of a lookup.
struct LookupResult {
    /// Capacity of a node. `None` if the lookup failed; the status then keeps its capacity.
    capacity: Option<capacity::NodeCapacity>,
    update: ConditionUpdate,
    next: Next,
    /// Whether the cause is a permanent error of an AWS call that is not about the template's spec.
    is_refused: bool,
}

impl LookupResult {
    fn unknown(reason: Reason, message: impl Into<String>, next: Next) -> Self {
        Self {
            capacity: None,
            update: ConditionType::CapacityReady.is_unknown(reason, message),
            next,
            is_refused: false,
        }
    }

    /// The result of a failed call. An invalid request is an error of the template; other failures are retried.
    fn failed(error: &CloudError) -> Self {
        if error.class == ErrorClass::Invalid {
            return Self::refused(capacity::NodeCapacity::default(), Reason::InvalidSpec, error.to_string());
        }
        Self {
            is_refused: error.class.is_permanent(),
            ..Self::unknown(error.class.reason(), error.to_string(), retry::after(error))
        }
    }

    /// The result for an impossible template. The spec of a template is immutable, so the lookup is not repeated soon.
    fn refused(capacity: capacity::NodeCapacity, reason: Reason, message: String) -> Self {
        Self {
            capacity: Some(capacity),
            update: ConditionType::CapacityReady.is_false(reason, message),
            next: Next::AwaitChange,
            is_refused: false,
        }
    }
}

async fn reconcile(template: AWSMachineTemplate, context: &TemplateContext) -> Outcome<AWSMachineTemplate> {
    let metadata = &template.metadata;
    // Cluster API copies the templates of a ClusterClass for each cluster, and creates no machines from the original.
    let of_class = meta::owner(metadata, meta::CORE_GROUP, "ClusterClass").is_some();
    let being_deleted = metadata.deletion_timestamp.is_some();
    let nothing_to_do = [
        (of_class, "machines are created from copies of the template"),
        (being_deleted, "the template is being deleted"),
        (meta::is_paused(metadata), "the template is paused"),
        (is_known(&template), "the capacity is known"),
    ];
    if let Some((_, why)) = nothing_to_do.into_iter().find(|(applies, _)| *applies) {
        return Outcome::done(template).because(why);
    }
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let owner = meta::owner_cluster_name(metadata).and_then(|name| context.kubernetes.cluster(namespace, name));
    let result = match owner.as_deref() {
        Some(cluster) if cluster.is_paused() => return Outcome::done(template).because("the Cluster is paused"),
        Some(cluster) => match network(&template, cluster, context).await {
            Ok(merged) => look_up(&template, cluster, merged, context).await,
            Err(ReadPending) => return Outcome::done(template).because(READ_PENDING),
        },
        None => LookupResult::unknown(
            Reason::WaitingForOwnerCluster,
            "no Cluster owns this template: its capacity is looked up once a MachineDeployment or control plane \
             refers to it",
            Next::AwaitChange,
        ),
    };
    outcome(template, result, context)
}

/// Whether the capacity is known. Instance types and templates never change, so a complete lookup is never repeated.
fn is_known(template: &AWSMachineTemplate) -> bool {
    let Some(status) = &template.status else {
        return false;
    };
    let generation = template.metadata.generation;
    let current = conditions::holds_for(&status.conditions, ConditionType::CapacityReady, generation);
    current && !status.capacity.is_empty()
}

/// The network of the template's sources.
async fn network(
    template: &AWSMachineTemplate,
    cluster: &Cluster,
    context: &TemplateContext,
) -> Result<Merged, ReadPending> {
    let reader = NetworkReader {
        kind: NetworkReaderKind::Template,
        namespace: template.metadata.namespace.clone().unwrap_or_default(),
        name: template.metadata.name.clone().unwrap_or_default(),
    };
    let spec = &template.spec.template.spec;
    // A template does not know the role of its machines.
    read_network(&reader, spec, None, cluster, context.kubernetes.as_ref()).await
}

async fn look_up(
    template: &AWSMachineTemplate,
    cluster: &Cluster,
    merged: Merged,
    context: &TemplateContext,
) -> LookupResult {
    if let Some(invalid) = forms::first_invalid_id(&template.spec.template.spec) {
        let nothing = capacity::NodeCapacity::default();
        return LookupResult::refused(nothing, Reason::InvalidSpec, invalid);
    }
    if let Some(problem) = merged.problem {
        return LookupResult::unknown(problem.reason, problem.message, Next::Retry);
    }
    let Some(region) = merged.network.region else {
        let missing = MissingField::region(merged.unlabelled.as_ref());
        return LookupResult::unknown(Reason::MissingField, missing.to_string(), Next::Retry);
    };
    if let Some(problem) = forms::misnamed_region(&region) {
        return LookupResult::unknown(problem.reason, problem.message, Next::Retry);
    }
    let reference = merged.network.identity_ref;
    let reference = reference.unwrap_or_else(IdentityReference::controller_default);
    let request = IdentityRequest {
        reference: &reference,
        namespace: template.metadata.namespace.as_deref().unwrap_or_default(),
        cluster_name: cluster.metadata.name.as_deref().unwrap_or_default(),
        identity_namespace: &context.identity_namespace,
    };
    match identity::resolve(context.kubernetes.as_ref(), &request).await {
        Ok(identity) => ask_aws(template, &identity, &region, context).await,
        Err(IdentityError::Unusable(problem) | IdentityError::Unread(problem)) => {
            LookupResult::unknown(problem.reason, problem.message, Next::Retry)
        }
    }
}

/// Looks the template up in AWS, unless an equal lookup had a permanent error and the next call is not due yet.
async fn ask_aws(
    template: &AWSMachineTemplate,
    identity: &ResolvedIdentity,
    region: &str,
    context: &TemplateContext,
) -> LookupResult {
    let uid = template.metadata.uid.as_deref().unwrap_or_default();
    let (generation, now) = (template.metadata.generation, context.kubernetes.uptime());
    let inputs = CallFingerprint::of(&"capacity", &(generation, &identity.key, region));
    if let Some(refusal) = context.refusals.active_backoff(uid, inputs, now, &context.timing) {
        return LookupResult { capacity: None, update: refusal.condition, next: refusal.next, is_refused: false };
    }
    let cloud = context.clouds.templates(identity, region);
    let mut result = describe(template, cloud.as_ref(), region).await;
    if result.is_refused {
        let condition = result.update.clone();
        result.next = context.refusals.refused(uid, inputs, condition, now, &context.timing);
    }
    result
}

/// Looks up the instance type in AWS, and the image if the template has an image id.
async fn describe(template: &AWSMachineTemplate, cloud: &dyn Reads, region: &str) -> LookupResult {
    let spec = &template.spec.template.spec;
    let instance_type = match cloud.instance_type(&spec.instance_type).await {
        Ok(instance_type) => instance_type,
        Err(error) if error.class == ErrorClass::NotFound => {
            let message = format!(
                "instance type {:?} does not exist in region {region}: make a template with one that does",
                spec.instance_type
            );
            return LookupResult::refused(capacity::NodeCapacity::default(), Reason::InvalidSpec, message);
        }
        Err(error) => return LookupResult::failed(&error),
    };
    let image = match image_id(spec) {
        None => None,
        Some(id) => match cloud.image(id).await {
            Ok(image) => Some(image),
            Err(error) if error.class == ErrorClass::NotFound => {
                let message = format!(
                    "image {id} does not exist in region {region}, or its owner does not share it: share it, or make a \
                     template with another"
                );
                return LookupResult::refused(capacity::of_node(spec, &instance_type, None), Reason::NotFound, message);
            }
            Err(error) => return LookupResult::failed(&error),
        },
    };
    let capacity = capacity::of_node(spec, &instance_type, image.as_ref());
    match image.and_then(|image| capacity::mismatch(&instance_type, &image)) {
        Some(message) => LookupResult::refused(capacity, Reason::InvalidSpec, message),
        None => LookupResult {
            capacity: Some(capacity),
            update: ConditionType::CapacityReady.is_true(Reason::Ready),
            next: Next::AwaitChange,
            is_refused: false,
        },
    }
}

fn outcome(
    template: AWSMachineTemplate,
    result: LookupResult,
    context: &TemplateContext,
) -> Outcome<AWSMachineTemplate> {
    let before = template.status.clone().unwrap_or_default();
    let now = context.kubernetes.now();
    let conditions = conditions::merge(&before.conditions, [result.update], template.metadata.generation, now);
    let warnings = transitions::warnings(&before.conditions, &conditions);
    let (capacity, node_info) = match result.capacity {
        Some(node) => (node.capacity, node.node_info),
        None => (before.capacity, before.node_info),
    };
    Outcome::done(template)
        .with_status(AWSMachineTemplateStatus { capacity, node_info, conditions })
        .with_next(result.next)
        .with_events(warnings)
}
