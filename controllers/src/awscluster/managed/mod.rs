//! A managed AWSCluster: its AWS resources are created, kept as the spec asks, and deleted with it.
//!
//! Each pass observes AWS, plans, makes all calls of the plan that depend on nothing, and records their answers. A
//! created resource is used in a later pass, when an observation shows it. A deletion is a plan in which nothing is
//! wanted. Only this module holds access to AWS that can write for a cluster.

mod attachments;
mod attributes;
mod balancers;
mod check;
mod cidr_block;
mod classic_balancer;
mod classic_load_balancer;
mod condition;
mod decided;
mod default_security_group;
mod elastic_ip;
mod endpoint;
mod ingress;
mod inputs;
mod internet_gateway;
mod known_details;
mod later;
mod layout;
mod ledger;
mod listener;
mod load_balancer;
mod load_balancer_address;
mod names;
mod namesakes;
mod nat_gateway;
mod network;
mod network_interface;
mod observation;
mod pass;
mod plan;
mod plan_facts;
mod plan_only;
mod planner;
mod planners;
mod preview;
mod problem;
mod reference;
mod route_table;
mod security_group;
mod status;
mod step_result;
mod subnet;
mod tagging;
mod target_group;
#[cfg(test)]
pub(crate) mod tests;
mod vpc;

use std::sync::Arc;

use capa_api::cluster::status::AWSClusterStatus;
use capa_api::cluster::{AWSCluster, ControlPlaneEndpoint};
use capa_api::conditions::{ConditionType, Reason};
use capa_api::contract::Cluster;
use capa_api::meta;
use capa_cloud::managed::{ManagedCloud, ManagedClouds, Seen};
use capa_cloud::{CloudError, Timing};
use capa_runtime::reconcile::{Next, Outcome, ReconcileError};
use jiff::Timestamp;

use self::check::{Checked, Stopped, check, unanswered};
use self::inputs::Inputs;
pub use self::known_details::KnownDetails;
use self::ledger::Ledger;
use self::observation::{ClusterObserver, Observation};
use self::pass::ReadySteps;
use self::plan::{Plan, PlanContext};
pub use self::plan_facts::PlanFacts;
pub use self::plan_only::preview;
pub use self::preview::Preview;
use self::status::Summary;
use self::step_result::StepResult;
use crate::kubernetes_api::ClusterKubernetes;

/// The dependencies of the reconciles of managed AWSClusters.
#[derive(Clone)]
pub struct ManagedContext {
    /// The requests to Kubernetes.
    pub kubernetes: Arc<dyn ClusterKubernetes>,
    /// The access to AWS, which can write.
    pub clouds: Arc<dyn ManagedClouds>,
    /// Periods and ages.
    pub timing: Timing,
    /// Namespace of the Secrets of static identities.
    pub identity_namespace: String,
    /// The details that the last complete observations have shown.
    pub known_details: KnownDetails,
}

/// One reconcile of a managed AWSCluster that is neither paused nor moved.
pub(super) async fn reconcile(
    cluster: AWSCluster,
    owner: Option<&Cluster>,
    context: &ManagedContext,
) -> Result<Outcome<AWSCluster>, ReconcileError> {
    let is_deleted = cluster.metadata.deletion_timestamp.is_some();
    if is_deleted && !meta::has_finalizer(&cluster.metadata, meta::CLUSTER_FINALIZER) {
        return Ok(Outcome::done(cluster).because("the AWSCluster is being deleted, and nothing was made for it"));
    }
    let (checked, cloud) = match check(&cluster, owner, context).await {
        Ok(checked) => checked,
        Err(stopped) => return Ok(stop(cluster, stopped, context)),
    };
    let pass = Pass { context, checked, cloud, owner, is_deleted };
    Box::pin(pass.run(cluster)).await
}

/// The outcome of a pass that changes nothing.
fn stop(cluster: AWSCluster, (updates, next): Stopped, context: &ManagedContext) -> Outcome<AWSCluster> {
    let status = status::stopped(&cluster, updates, context.kubernetes.now());
    super::outcome(cluster, status).with_next(next)
}

/// A pass that observes AWS.
struct Pass<'a> {
    context: &'a ManagedContext,
    checked: Checked,
    cloud: Arc<dyn ManagedCloud>,
    owner: Option<&'a Cluster>,
    is_deleted: bool,
}

impl Pass<'_> {
    async fn run(&self, cluster: AWSCluster) -> Result<Outcome<AWSCluster>, ReconcileError> {
        let now = self.context.kubernetes.now();
        let observer = ClusterObserver {
            cluster: &cluster,
            checked: &self.checked,
            cloud: self.cloud.as_ref(),
            timing: self.context.timing,
        };
        let is_lost = observer.has_lost_status();
        let mut observation = match self.observe(&observer, now).await {
            Ok(observation) => observation,
            Err(error) => {
                let stopped = unanswered(ConditionType::IdentityReady, &error);
                return Ok(stop(cluster, stopped, self.context));
            }
        };
        if self.is_deleted && !is_lost && is_over(&observation) {
            let cluster = self.context.kubernetes.remove_finalizer(&cluster).await?;
            return Ok(Outcome::done(cluster).because("everything that was made for the AWSCluster is deleted"));
        }
        if meta::has_annotation(&cluster.metadata, meta::PLAN_ONLY_ANNOTATION) {
            return self.only_plan(cluster, &observation, now).await;
        }
        let plan = std::mem::take(&mut observation.plan);
        let ledger = &mut observation.ledger;
        let ready = ReadySteps::of(&plan, ledger);
        let mut cluster = cluster;
        let has_anything = !ledger.is_empty() || !ready.is_empty();
        if has_anything && !self.is_deleted {
            cluster = self.hold(cluster).await?;
        }
        let (mut results, mut events) = (vec![], vec![]);
        if !ready.is_empty() {
            if ready.open(&observation.inputs, ledger, self.context.kubernetes.now()) {
                cluster = self.record(cluster, &observation.inputs, ledger).await?;
            }
            let cloud = self.cloud.as_ref();
            let in_use = status::in_use(&cluster, &self.context.timing, now);
            (results, events) = ready.execute(cloud, ledger, in_use, &observation.seen.ec2).await;
            for result in results.iter().filter(|result| result.is_unanswered()) {
                ledger.record_unanswered(&result.target, self.context.kubernetes.now());
            }
        }
        let outcome = self.publish(cluster, &observation.context(), plan, &results).await?;
        Ok(outcome.with_events(events))
    }

    /// Reports what the next pass would do. The result of the observation is recorded, so that a resource that AWS no
    /// longer shows eventually counts as missing.
    async fn only_plan(
        &self,
        mut cluster: AWSCluster,
        observation: &Observation,
        now: Timestamp,
    ) -> Result<Outcome<AWSCluster>, ReconcileError> {
        let preview = plan_only::preview_of(&cluster, &self.checked, observation);
        let mut recorded = cluster.status.clone().unwrap_or_default();
        if !observation.ledger.is_empty() {
            if !self.is_deleted {
                cluster = self.hold(cluster).await?;
            }
            recorded = self.recorded(&recorded, &observation.inputs, &observation.ledger);
        }
        let plan_context = observation.context();
        let status = status::planned(&cluster, recorded, &plan_context, &observation.plan, &preview, now);
        let next = if planners::is_incomplete(&plan_context) {
            Next::Retry
        } else if observation.plan.waits.is_empty() {
            Next::AwaitChange
        } else {
            Next::Requeue(self.context.timing.managed_poll_cap)
        };
        Ok(super::outcome(cluster, status).with_next(next))
    }

    /// Observes the cluster. For a cluster at rest, the observation only reads AWS's listings. If such an observation
    /// leads to a plan, the plan is made again from a complete observation.
    async fn observe(&self, observer: &ClusterObserver<'_>, now: Timestamp) -> Result<Observation, CloudError> {
        let known = &self.context.known_details;
        let timing = &self.context.timing;
        let recorded = observer.recorded(now);
        let details = known.get(observer.cluster, now, timing.managed_details);
        // A cluster without an endpoint, or with a lost status, gets a complete observation.
        let status = observer.cluster.status.as_ref();
        let is_settled =
            !self.is_deleted && !recorded.may_hide_anything() && status.is_some_and(AWSClusterStatus::provisioned);
        if let Some(details) = details.filter(|_| is_settled) {
            let observation = observer.observe(recorded.clone(), Some(details)).await?;
            if observation.plan.is_empty() {
                return Ok(observation);
            }
        }
        let observation = observer.observe(recorded, None).await?;
        if self.is_at_rest(&observation) {
            known.insert(observer.cluster, now, observation.seen.details());
        } else {
            known.remove(observer.cluster.metadata.uid.as_deref().unwrap_or_default());
        }
        Ok(observation)
    }

    /// Whether AWS shows all resources as the spec asks for them.
    fn is_at_rest(&self, observation: &Observation) -> bool {
        let shows_addresses = !matches!(observation.seen.ec2.addresses, Seen::Failed(_));
        let shows_everything = shows_addresses
            && !observation.ledger.may_hide_anything()
            && !planners::is_incomplete(&observation.context());
        !self.is_deleted && observation.plan.is_empty() && shows_everything
    }

    /// Publishes the status and the endpoint after the calls of a pass.
    async fn publish(
        &self,
        mut cluster: AWSCluster,
        plan_context: &PlanContext<'_>,
        mut plan: Plan,
        results: &[StepResult],
    ) -> Result<Outcome<AWSCluster>, ReconcileError> {
        let now = plan_context.ledger.now();
        // The results of the calls must survive a refused write. Calls about tags create nothing.
        if results.iter().all(|result| result.target.is_of_tags()) {
            cluster = self.publish_endpoint(cluster, plan_context, &mut plan).await?;
        }
        let before = cluster.status.clone().unwrap_or_default();
        let of_spec = super::status::endpoint(&cluster, self.owner);
        let summary = Summary::of(
            plan_context,
            &plan,
            results,
            status::endpoint(of_spec, plan_context.inputs),
            later::made_later(&cluster.spec),
            before.provisioned(),
        );
        let mut recorded = self.recorded(&before, plan_context.inputs, plan_context.ledger);
        recorded.control_plane_endpoint = super::status::published_endpoint(&cluster, self.owner);
        self.publish_network(&cluster, plan_context, &mut recorded);
        let status = summary.status(&cluster, recorded, now);
        let next = summary.next(&before.conditions, &self.context.timing, now);
        Ok(super::outcome(cluster, status).with_next(next))
    }

    /// Publishes the address of the load balancer as the endpoint of the cluster, once the load balancer takes
    /// connections. The endpoint never changes after that, because nodes and kubeconfigs contain it.
    async fn publish_endpoint(
        &self,
        cluster: AWSCluster,
        plan_context: &PlanContext<'_>,
        plan: &mut Plan,
    ) -> Result<AWSCluster, ReconcileError> {
        // If a user has set a part of the endpoint, the user has to set the rest.
        let is_empty = |endpoint: &ControlPlaneEndpoint| {
            endpoint.host.as_deref().unwrap_or_default().is_empty() && endpoint.port.unwrap_or_default() == 0
        };
        if self.is_deleted || !cluster.spec.control_plane_endpoint.as_ref().is_none_or(is_empty) {
            return Ok(cluster);
        }
        let address = load_balancer::address(plan_context).or_else(|| classic_load_balancer::address(plan_context));
        let Some(address) = address else {
            return Ok(cluster);
        };
        let host = address.host;
        if address.has_to_resolve && !self.cloud.resolves(host).await {
            let message = format!(
                "the name {host} does not resolve yet where the manager runs; if it never will, set \
                 controlPlaneLoadBalancer.dnsResolutionCheck: None"
            );
            plan.wait(address.target, Reason::WaitingForDNSName, message);
            return Ok(cluster);
        }
        let endpoint = ControlPlaneEndpoint {
            host: Some(host.to_owned()),
            port: i32::try_from(self.checked.api_server_port).ok(),
        };
        Ok(self.context.kubernetes.publish_endpoint(&cluster, &endpoint).await?)
    }

    /// Publishes the network for machines. Parts that AWS does not show at the moment stay as they were published.
    fn publish_network(&self, cluster: &AWSCluster, plan_context: &PlanContext<'_>, status: &mut AWSClusterStatus) {
        let before = status.network.as_ref();
        let before = before.map(|network| network.control_plane_targets.as_slice());
        let network = network::network(plan_context, &cluster.spec, before.unwrap_or_default());
        if let Some(network) = network.filter(|_| !self.is_deleted) {
            if let Some(zones) = network::failure_domains(plan_context, &network) {
                status.failure_domains = zones;
            }
            status.network = Some(network);
        }
    }

    /// Adds the finalizer, which every AWSCluster with resources in AWS has.
    async fn hold(&self, cluster: AWSCluster) -> Result<AWSCluster, ReconcileError> {
        if meta::has_finalizer(&cluster.metadata, meta::CLUSTER_FINALIZER) {
            return Ok(cluster);
        }
        Ok(self.context.kubernetes.add_finalizer(&cluster).await?)
    }

    /// Stores the ledger before the calls that it announces. The API server refuses the write if another process has
    /// written meanwhile, so two processes never make the same call.
    async fn record(
        &self,
        cluster: AWSCluster,
        inputs: &Inputs,
        ledger: &Ledger,
    ) -> Result<AWSCluster, ReconcileError> {
        let before = cluster.status.clone().unwrap_or_default();
        let status = self.recorded(&before, inputs, ledger);
        Ok(self.context.kubernetes.write_status(&cluster, &status).await?)
    }

    /// The status with the records that later passes need.
    fn recorded(&self, before: &AWSClusterStatus, inputs: &Inputs, ledger: &Ledger) -> AWSClusterStatus {
        let mut status = before.clone();
        status.plan = None;
        status.resources = ledger.written();
        status.account_id = Some(self.checked.account_id.clone());
        let network = status.network.get_or_insert_default();
        network.region = Some(self.checked.region.clone());
        if !self.is_deleted && !ledger.is_empty() && !inputs.zones.is_empty() {
            status.zones.clone_from(&inputs.zones);
        }
        status
    }
}

/// Whether a deleted cluster has no resources in AWS any more. Resources that the observation did not cover, or that
/// AWS may not show yet, may exist.
fn is_over(observation: &Observation) -> bool {
    observation.plan.is_empty()
        && !planners::is_incomplete(&observation.context())
        && !observation.ledger.may_hide_anything()
}
