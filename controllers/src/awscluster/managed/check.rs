//! The checks before a pass observes AWS: everything that can prevent the provider from using AWS.

use std::sync::Arc;

use capa_api::cluster::AWSCluster;
use capa_api::common::ControlPlaneTarget;
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::contract::Cluster;
use capa_api::meta;
use capa_cloud::CloudError;
use capa_cloud::managed::{ManagedCloud, ManagedObserver};
use capa_runtime::reconcile::Next;

use super::ManagedContext;
use super::inputs::brought;
use super::names::Names;
use super::{decided, later, namesakes, status};
use crate::identity::{self, IdentityError, IdentityRequest};

/// Why a pass ends before it changes AWS: the conditions that say so.
pub(super) type Stopped = (Vec<ConditionUpdate>, Next);

/// What a pass knows before it observes AWS.
pub(super) struct Checked {
    /// Name of the Cluster.
    pub(super) name: String,
    pub(super) region: String,
    pub(super) account_id: String,
    /// The zones of the region, where they are needed.
    pub(super) zones: Vec<String>,
    /// Port of the API server.
    pub(super) api_server_port: i64,
}

/// Checks everything that can prevent the provider from using AWS: unsupported features, the owner, machines, region,
/// identity, account, and other AWSClusters with the same name.
pub(super) async fn check(
    cluster: &AWSCluster,
    owner: Option<&Cluster>,
    context: &ManagedContext,
) -> Result<(Checked, Arc<dyn ManagedCloud>), Stopped> {
    let is_deleted = cluster.metadata.deletion_timestamp.is_some();
    let ready = |reason, message: String| vec![ConditionType::Ready.is_false(reason, message)];
    let name = cluster_name(cluster, owner);
    is_offered(cluster, name.unwrap_or_default())?;
    let Some(name) = name else {
        return Err((status::waiting_for_owner(), Next::AwaitChange));
    };
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let machines = context.kubernetes.held_machines(namespace, name);
    if is_deleted && !machines.is_empty() {
        // The last AWSMachine wakes the AWSCluster.
        return Err((vec![super::super::status::waiting_for_machines(&machines)], Next::AwaitChange));
    }
    let region = region(cluster).map_err(|(reason, message)| (ready(reason, message), Next::AwaitChange))?;
    let cloud = session(cluster, name, region, context).await?;
    let account_id = account(cluster, cloud.as_ref()).await?;
    if let Some(message) = namesakes::conflict(cluster, name, &account_id, &context.kubernetes.managed_clusters()) {
        let next = Next::Requeue(context.timing.resolve_retry_cap);
        return Err((ready(Reason::Conflict, message), next));
    }
    let checked = Checked {
        name: name.to_owned(),
        region: region.to_owned(),
        zones: zones(cluster, name, cloud.as_ref()).await?,
        account_id,
        api_server_port: owner.map_or(ControlPlaneTarget::API_PORT, Cluster::api_server_port).into(),
    };
    Ok((checked, cloud))
}

/// The checks for a preview: they ignore other objects in the management cluster, and read all zones of the region.
pub(super) async fn check_alone(
    cluster: &AWSCluster,
    owner: &Cluster,
    cloud: &dyn ManagedObserver,
) -> Result<(Checked, Vec<String>), Stopped> {
    let name = owner.metadata.name.clone().unwrap_or_default();
    is_offered(cluster, &name)?;
    let region = region(cluster);
    let region = region
        .map_err(|(reason, message)| (vec![ConditionType::Ready.is_false(reason, message)], Next::AwaitChange))?;
    let account_id = account(cluster, cloud).await?;
    let zones = all_zones(cloud).await?;
    let needs_zones = needs_zones(cluster, &name);
    let checked = Checked {
        name,
        region: region.to_owned(),
        account_id,
        zones: if needs_zones { zones.clone() } else { vec![] },
        api_server_port: owner.api_server_port().into(),
    };
    Ok((checked, zones))
}

/// Refuses a spec with unsupported features. A cluster with such a spec can still be deleted, if an earlier spec has
/// created anything.
fn is_offered(cluster: &AWSCluster, name: &str) -> Result<(), Stopped> {
    let is_deleted = cluster.metadata.deletion_timestamp.is_some();
    let mut resources = cluster.status.iter().flat_map(|status| &status.resources);
    if is_deleted && resources.next().is_some() {
        return Ok(());
    }
    match later::not_offered(&cluster.spec, name, &decided::recorded(cluster)) {
        Some(message) => {
            let update = ConditionType::Ready.is_false(Reason::NotManagedYet, message);
            Err((vec![update], Next::AwaitChange))
        }
        None => Ok(()),
    }
}

/// The zones of the region, where they are needed.
async fn zones(cluster: &AWSCluster, name: &str, cloud: &dyn ManagedObserver) -> Result<Vec<String>, Stopped> {
    if !needs_zones(cluster, name) {
        return Ok(vec![]);
    }
    all_zones(cloud).await
}

async fn all_zones(cloud: &dyn ManagedObserver) -> Result<Vec<String>, Stopped> {
    let zones = cloud.zones().await;
    zones.map_err(|error| unanswered(ConditionType::SubnetsReady, &error))
}

fn needs_zones(cluster: &AWSCluster, name: &str) -> bool {
    let is_deleted = cluster.metadata.deletion_timestamp.is_some();
    let has_zones = cluster.status.as_ref().is_some_and(|status| !status.zones.is_empty());
    let is_brought = brought::vpc(&cluster.spec, name, &decided::recorded(cluster)).is_some();
    !is_deleted && !has_zones && !is_brought
}

/// The region, which must be that of the first pass, because everything would seem to be deleted in another one.
fn region(cluster: &AWSCluster) -> Result<&str, (Reason, String)> {
    let recorded = cluster.status.as_ref().and_then(|status| status.network.as_ref());
    let recorded = recorded.and_then(|network| network.region.as_deref());
    match (cluster.spec.region(), recorded) {
        (Some(region), Some(recorded)) if region != recorded => {
            let message = format!(
                "the resources of the cluster are in {recorded}, and spec.region is {region}: change it back to \
                 {recorded}"
            );
            Err((Reason::InvalidSpec, message))
        }
        (Some(region), _) => Ok(region),
        (None, _) => {
            let message = "spec.region is missing or is not the name of a region: set it".to_owned();
            Err((Reason::MissingField, message))
        }
    }
}

/// Name of the Cluster. The deletion of an AWSCluster whose Cluster is gone continues: the name comes from its owner
/// reference, or from its label if the VPC is recorded under that name, because anybody can write a label.
fn cluster_name<'a>(cluster: &'a AWSCluster, owner: Option<&'a Cluster>) -> Option<&'a str> {
    if let Some(owner) = owner {
        return owner.metadata.name.as_deref();
    }
    cluster.metadata.deletion_timestamp.as_ref()?;
    let of_label = || {
        let name = meta::cluster_name_label(&cluster.metadata)?;
        let vpc = Names::of(name, cluster).vpc();
        let mut recorded = cluster.status.iter().flat_map(|status| &status.resources);
        recorded.any(|resource| resource.name == vpc).then_some(name)
    };
    meta::owner_cluster_name(&cluster.metadata).or_else(of_label)
}

async fn session(
    cluster: &AWSCluster,
    name: &str,
    region: &str,
    context: &ManagedContext,
) -> Result<Arc<dyn ManagedCloud>, Stopped> {
    let request = IdentityRequest {
        reference: &cluster.spec.effective_identity_ref(),
        namespace: cluster.metadata.namespace.as_deref().unwrap_or_default(),
        cluster_name: name,
        identity_namespace: &context.identity_namespace,
    };
    let resolved = identity::resolve(context.kubernetes.as_ref(), &request).await;
    let identity = resolved.map_err(|error| match error {
        // A change of the identity objects wakes the AWSCluster. Secrets are not watched.
        IdentityError::Unusable(problem) | IdentityError::Unread(problem) => (vec![problem.condition()], Next::Retry),
    })?;
    Ok(context.clouds.managed(&identity, region))
}

/// The account of the credentials, which must be that of the first pass, because everything would seem to be deleted in
/// another one.
async fn account(cluster: &AWSCluster, cloud: &dyn ManagedObserver) -> Result<String, Stopped> {
    let account_id = cloud.account_id().await.map_err(|error| unanswered(ConditionType::IdentityReady, &error))?;
    let recorded = cluster.status.as_ref().and_then(|status| status.account_id.as_deref());
    match recorded.filter(|recorded| *recorded != account_id) {
        None => Ok(account_id),
        Some(recorded) => {
            let message = format!(
                "the resources of the cluster are in account {recorded}, and the credentials are of account \
                 {account_id}: set the identity back"
            );
            let update = ConditionType::IdentityReady.is_false(Reason::AccountMismatch, message);
            Err((vec![update], Next::Retry))
        }
    }
}

pub(super) fn unanswered(condition: ConditionType, error: &CloudError) -> Stopped {
    let update = condition.is_false(error.class.reason(), error.to_string());
    let next = error.retry_after.map_or(Next::Retry, Next::Deferred);
    (vec![update], next)
}
