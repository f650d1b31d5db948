//! Plans for a managed cluster that are not carried out.

use std::time::Duration;

use capa_api::cluster::AWSCluster;
use capa_api::conditions::{ConditionType, ConditionUpdate};
use capa_api::contract::Cluster;
use capa_api::meta;
use capa_cloud::Timing;
use capa_cloud::managed::ManagedObserver;
use jiff::Timestamp;

use super::check::{Checked, Stopped, check_alone, unanswered};
use super::observation::{ClusterObserver, Observation};
use super::plan_facts::PlanFacts;
use super::preview::Preview;
use crate::pause;

/// Observes AWS, and says what the provider would do for an AWSCluster. The credentials need the permissions to
/// describe only.
///
/// # Errors
/// The reason why the provider would not observe AWS, as a text for users.
pub async fn preview(
    cluster: &AWSCluster,
    owner: &Cluster,
    cloud: &dyn ManagedObserver,
    now: Timestamp,
) -> Result<(Preview, PlanFacts), String> {
    let stopped_text = |(updates, _): Stopped| {
        let messages: Vec<String> = updates.iter().map(ConditionUpdate::text).collect();
        messages.join("; ")
    };
    if meta::is_deleted_for_move(&cluster.metadata) {
        return Err("the AWSCluster has moved to another management cluster, which has its resources".to_owned());
    }
    let is_deleted = cluster.metadata.deletion_timestamp.is_some();
    if is_deleted && !meta::has_finalizer(&cluster.metadata, meta::CLUSTER_FINALIZER) {
        return Err("the AWSCluster is being deleted, and nothing was made for it".to_owned());
    }
    let (checked, zones) = check_alone(cluster, owner, cloud).await.map_err(stopped_text)?;
    let mut observer = ClusterObserver { cluster, checked: &checked, cloud, timing: Timing::default() };
    // After a lost status, the provider waits for resources that AWS may not show yet. A preview shows the plan after
    // this wait.
    if observer.has_lost_status() {
        observer.timing.unseen_age = Duration::ZERO;
    }
    let observation = observer.observe(observer.recorded(now), None).await;
    let observation = observation.map_err(|error| stopped_text(unanswered(ConditionType::IdentityReady, &error)))?;
    let mut preview = preview_of(cluster, &checked, &observation);
    preview.notes = nothing_happens_because(cluster, owner);
    Ok((preview, PlanFacts::of(checked, zones, observation)))
}

/// The reasons why the provider does nothing for a cluster, as texts.
fn nothing_happens_because(cluster: &AWSCluster, owner: &Cluster) -> Vec<String> {
    let paused = pause::paused(cluster, Some(owner)).map(|paused| paused.message);
    let metadata = &cluster.metadata;
    let plan_only = meta::has_annotation(metadata, meta::PLAN_ONLY_ANNOTATION)
        .then(|| format!("AWSCluster has the annotation {}", meta::PLAN_ONLY_ANNOTATION));
    let moved = meta::is_marked_for_move(metadata)
        .then(|| format!("AWSCluster has the annotation {}", meta::DELETE_FOR_MOVE_ANNOTATION));
    let reasons = paused.into_iter().chain(plan_only).chain(moved);
    reasons.map(|reason| format!("{reason}: until that changes, the provider does nothing of this")).collect()
}

/// What the provider would do after an observation.
pub(super) fn preview_of(cluster: &AWSCluster, checked: &Checked, observation: &Observation) -> Preview {
    Preview::of(&cluster.spec, &checked.region, &checked.account_id, &observation.context(), &observation.plan)
}
