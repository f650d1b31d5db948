//! An observation of the AWS resources of a managed cluster, and the plan that follows from it.

use std::sync::Arc;

use capa_api::cluster::AWSCluster;
use capa_api::conditions::Reason;
use capa_api::meta;
use capa_cloud::managed::{Details, ManagedObserver, Observed, Scope};
use capa_cloud::{CloudError, Timing};
use jiff::Timestamp;

use super::check::Checked;
use super::inputs::{Inputs, Known, brought};
use super::ledger::Ledger;
use super::plan::{Plan, PlanContext};
use super::{decided, pass, planners, status};

/// A cluster with the knowledge about it before an observation.
pub(super) struct ClusterObserver<'a> {
    pub(super) cluster: &'a AWSCluster,
    pub(super) checked: &'a Checked,
    pub(super) cloud: &'a dyn ManagedObserver,
    pub(super) timing: Timing,
}

/// The result of an observation, and the plan that follows from it.
pub(super) struct Observation {
    pub(super) scope: Scope,
    pub(super) seen: Observed,
    pub(super) inputs: Inputs,
    /// The ledger, compared with the observation.
    pub(super) ledger: Ledger,
    pub(super) plan: Plan,
    pub(super) is_deleted: bool,
}

impl ClusterObserver<'_> {
    pub(super) fn is_deleted(&self) -> bool {
        self.cluster.metadata.deletion_timestamp.is_some()
    }

    /// Whether the object comes from a file, which has no status even if the cluster exists.
    fn is_of_file(&self) -> bool {
        self.cluster.metadata.uid.is_none()
    }

    /// Whether the status is lost, or CAPA has created resources for the cluster: the finalizer shows that resources
    /// may exist.
    pub(super) fn has_lost_status(&self) -> bool {
        let mut resources = self.cluster.status.iter().flat_map(|status| &status.resources);
        let has_finalizer = meta::has_finalizer(&self.cluster.metadata, meta::CLUSTER_FINALIZER);
        resources.next().is_none() && (has_finalizer || brought::is_made_for(&self.cluster.spec, &self.checked.name))
    }

    /// The resources that the status records. After a loss of the status, every resource may exist.
    pub(super) fn recorded(&self, now: Timestamp) -> Ledger {
        let mut ledger = Ledger::read(&decided::recorded(self.cluster), self.timing.unseen_age, now);
        if self.has_lost_status() {
            pass::open_wanted_entries(&self.inputs(&Observed::default()), &mut ledger, now);
            if self.is_deleted() {
                // The zones of a deleted cluster are not read, so not all of its resources are known by name.
                pass::open_entry_of_each_kind(&mut ledger, now);
            }
        }
        ledger
    }

    /// Observes AWS, and plans. `known` contains the details that the observation does not read.
    pub(super) async fn observe(
        &self,
        mut ledger: Ledger,
        known: Option<Arc<Details>>,
    ) -> Result<Observation, CloudError> {
        let inputs = self.inputs(&Observed::default());
        let in_use = status::in_use(self.cluster, &self.timing, ledger.now());
        let scope = Scope {
            known,
            // From then on, the messages name what keeps the network in use.
            network_interfaces: in_use == Reason::DeletionBlocked,
            ..pass::scope(&inputs, &ledger, self.is_deleted())
        };
        let seen = self.cloud.observe(&scope).await?;
        let inputs = self.inputs(&seen);
        if inputs.vpc.is_unproven && inputs.vpc.of_capa.is_some() {
            ledger.drop_open_entries();
        }
        planners::update_ledger(&inputs, &seen, &mut ledger);
        let mut observation =
            Observation { scope, seen, inputs, ledger, plan: Plan::default(), is_deleted: self.is_deleted() };
        observation.plan = planners::plan(&observation.context());
        Ok(observation)
    }

    /// The inputs from the spec, as far as the observation shows what they depend on.
    fn inputs(&self, seen: &Observed) -> Inputs {
        let zones = self.cluster.status.as_ref().map(|status| status.zones.as_slice());
        let recorded = decided::recorded(self.cluster);
        // Every VPC has a main route table; without it, the routes are unknown.
        let tables = seen.ec2.route_tables.shown().filter(|tables| tables.iter().any(|table| table.is_main));
        let known = Known {
            zones: &self.checked.zones,
            recorded_zones: zones.unwrap_or_default(),
            vpcs: seen.ec2.vpcs.shown().map(Vec::as_slice).unwrap_or_default(),
            subnets: seen.ec2.subnets.shown().map(Vec::as_slice),
            route_tables: tables.map(Vec::as_slice),
            security_groups: seen.ec2.security_groups.shown().map(Vec::as_slice),
            recorded: &recorded,
            has_begun: decided::has_begun(self.cluster),
            may_have_vpc: self.is_of_file() || self.has_lost_status() || decided::may_have_vpc(self.cluster),
            api_server_port: self.checked.api_server_port,
        };
        Inputs::of(self.cluster, &self.checked.name, &known)
    }
}

impl Observation {
    pub(super) fn context(&self) -> PlanContext<'_> {
        PlanContext { inputs: &self.inputs, seen: &self.seen, ledger: &self.ledger, is_deleted: self.is_deleted }
    }
}
