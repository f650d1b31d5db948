//! From a fresh AWSMachine to a launched instance.

use std::time::Duration;

use capa_api::common::IdentityReference;
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::core::{Cluster, ContractReference, Machine};
use capa_api::machine::{AWSMachine, LaunchRecord, LaunchRequest as RecordedRequest, MachineNetworkInUse};
use capa_api::meta;
use capa_cloud::{LaunchRequest, UserData};
use capa_network::{Merged, Placement, PlacementRequest, Problem, place};
use capa_runtime::reconcile::{Next, ReconcileError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::dereference::{self, Access, Surroundings, SurroundingsError};
use super::memory::Progress;
use super::plan::{self, Attempt, LaunchPlan, Then};
use super::request::{self, Ingredients};
use super::{Draft, MachineWorld, Owners, apply, observe};

/// Everything a launch needs, after every wait is over.
pub(super) struct Prepared {
    pub(super) access: Access,
    pub(super) region: String,
    pub(super) identity_ref: IdentityReference,
    pub(super) cluster_tag: String,
    merged: Merged,
    surroundings: Surroundings,
    user_data: UserData,
}

pub(super) async fn reconcile(draft: Draft, owners: &Owners, world: &MachineWorld) -> Result<Draft, ReconcileError> {
    let (Some(owner), Some(cluster)) = (owners.machine.as_deref(), owners.cluster.as_deref()) else {
        let message = "no Machine of an existing Cluster owns this object: nothing is launched";
        return Ok(draft.stop(
            ConditionType::InstanceReady.is_false(Reason::WaitingForOwnerCluster, message),
            Next::AwaitChange,
        ));
    };
    let (mut draft, prepared) = prepare(draft, owner, cluster, world).await?;
    let Some(prepared) = prepared else { return Ok(draft) };
    let (plan, recorded) = plan(&draft, owner, &prepared, world);
    let request = match (plan.then, recorded) {
        (Then::Repeat | Then::Store | Then::Confirm, Some(recorded)) => recorded,
        (Then::Record(attempt), _) => match new_placement(&draft, owner, &prepared, world) {
            Ok(placement) => {
                let client_token = format!("{}-{attempt}", draft.uid());
                request(&draft, owner, &prepared, &placement, client_token)
            }
            Err(problem) => return Ok(draft.stop(network_not_ready(&problem), Next::Retry)),
        },
        (Then::Repeat | Then::Store | Then::Confirm, None) => return Ok(draft),
    };
    draft.say(ConditionType::NetworkReady.is_true(Reason::Ready));
    let draft = Box::pin(apply::launch(draft, owner, &prepared, request, plan, world)).await?;
    match dereference::recorded_instance_id(&draft.machine) {
        Some(_) => observe::reconcile(draft, owners, world).await,
        None => Ok(draft),
    }
}

/// Walks through the waits, each of them a condition. `None` where one of them holds.
async fn prepare(
    mut draft: Draft,
    owner: &Machine,
    cluster: &Cluster,
    world: &MachineWorld,
) -> Result<(Draft, Option<Prepared>), ReconcileError> {
    if !cluster.infrastructure_provisioned() {
        let message = match &cluster.spec.infrastructure_ref {
            Some(ContractReference { kind, name, .. }) => format!("{kind} {name} is not provisioned yet"),
            None => "Cluster API has not marked the cluster's infrastructure as provisioned yet".to_owned(),
        };
        let waiting = ConditionType::InstanceReady.is_false(Reason::WaitingForClusterInfrastructure, message);
        return Ok((draft.stop(waiting, Next::AwaitChange), None));
    }
    let user_data = match dereference::user_data(&draft, owner, world).await? {
        Ok(user_data) => user_data,
        Err(update) => {
            // The Machine is watched, its Secret is not.
            let next = if owner.bootstrap_secret_name().is_some() {
                Next::Retry
            } else {
                Next::AwaitChange
            };
            return Ok((draft.stop(update, next), None));
        }
    };
    draft.say(ConditionType::BootstrapDataReady.is_true(Reason::Ready));
    if let Some(update) = request::unsupported(&draft.machine.spec) {
        return Ok((draft.stop(update, Next::AwaitChange), None));
    }
    look_around(draft, cluster, user_data, world).await
}

/// The waits for network, identity and what AWS shows of both.
async fn look_around(
    mut draft: Draft,
    cluster: &Cluster,
    user_data: UserData,
    world: &MachineWorld,
) -> Result<(Draft, Option<Prepared>), ReconcileError> {
    let merged = dereference::network(&draft.machine, cluster, world).await?;
    if let Some(problem) = merged
        .problem
        .clone()
        .or_else(|| request::refused_tags(&draft.machine.spec, &merged.network))
    {
        return Ok((draft.stop(network_not_ready(&problem), Next::Retry), None));
    }
    let Some(region) = merged.network.region.clone() else {
        let problem = Problem::new(
            Reason::MissingField,
            "no source supplies region: set spec.region, or let the cluster's infrastructure object publish it",
        );
        return Ok((draft.stop(network_not_ready(&problem), Next::Retry), None));
    };
    let identity_ref = merged
        .network
        .identity_ref
        .clone()
        .unwrap_or_else(IdentityReference::controller_default);
    let cluster_name = cluster.metadata.name.clone().unwrap_or_default();
    let access = match dereference::access(&draft, &identity_ref, &region, &cluster_name, world).await? {
        Ok(access) => access,
        Err(update) => return Ok((draft.stop(update, Next::Retry), None)),
    };
    draft.say(ConditionType::IdentityReady.is_true(Reason::Ready));
    let seen = dereference::surroundings(&draft.machine.spec, &merged.network, access.cloud.as_ref()).await;
    let surroundings = match seen {
        Ok(surroundings) => surroundings,
        Err(error) => return Ok((draft.stop(nothing_seen(&error), Next::Retry), None)),
    };
    let cluster_tag = merged.network.cluster_tag.clone().unwrap_or(cluster_name);
    let prepared = Prepared {
        access,
        region,
        identity_ref,
        cluster_tag,
        merged,
        surroundings,
        user_data,
    };
    Ok((draft, Some(prepared)))
}

fn nothing_seen(error: &SurroundingsError) -> ConditionUpdate {
    match error {
        SurroundingsError::Problem(problem) => network_not_ready(problem),
        SurroundingsError::Cloud(error) => {
            let reason = error.class.reason().parse().unwrap_or(Reason::Failed);
            ConditionType::NetworkReady.is_false(reason, format!("a lookup failed: {error}"))
        }
    }
}

fn network_not_ready(problem: &Problem) -> ConditionUpdate {
    ConditionType::NetworkReady.is_false(problem.reason, problem.message.clone())
}

/// What to do, and the recorded call as it would be made now, where there is one.
fn plan(
    draft: &Draft,
    owner: &Machine,
    prepared: &Prepared,
    world: &MachineWorld,
) -> (LaunchPlan, Option<LaunchRequest>) {
    let record = draft.status.launch.as_ref();
    let recorded = record.and_then(|record| record.request.as_ref());
    let repeated = recorded.map(|recorded| {
        let placement = Placement {
            subnet_id: recorded.subnet_id.clone(),
            availability_zone: None,
            security_group_ids: recorded.security_group_ids.clone(),
        };
        request(draft, owner, prepared, &placement, recorded.client_token.clone())
    });
    let hash = repeated.as_ref().map(LaunchRequest::parameters_hash);
    let attempt = Attempt {
        progress: recorded.map_or(Progress::Unknown, |recorded| {
            world.memory.progress(draft.uid(), &recorded.client_token)
        }),
        same_parameters: recorded.map(|recorded| &recorded.parameters_hash) == hash.as_ref(),
    };
    (
        plan::launch(record, attempt, world.kubernetes.now(), &world.timing),
        repeated,
    )
}

fn request(
    draft: &Draft,
    owner: &Machine,
    prepared: &Prepared,
    placement: &Placement,
    client_token: String,
) -> LaunchRequest {
    let ingredients = Ingredients {
        network: &prepared.surroundings.network,
        cluster_tag: &prepared.cluster_tag,
        owner_name: owner.metadata.name.as_deref().unwrap_or_default(),
        role: meta::machine_role(&owner.metadata),
        user_data: &prepared.user_data,
        root_device: prepared.surroundings.root_device.as_deref(),
    };
    request::build(&draft.machine, &ingredients, placement, client_token)
}

fn new_placement(
    draft: &Draft,
    owner: &Machine,
    prepared: &Prepared,
    world: &MachineWorld,
) -> Result<Placement, Problem> {
    let machines = world
        .kubernetes
        .machines_of_cluster(draft.namespace(), &owner.spec.cluster_name);
    world.memory.place(draft.uid(), &machines, |machines_by_subnet| {
        place(
            &prepared.surroundings.network,
            &PlacementRequest {
                role: meta::machine_role(&owner.metadata),
                failure_domain: owner.requested_failure_domain(),
                public_ip: draft.machine.spec.public_ip,
                explicit_subnet: draft.machine.spec.subnet.is_some(),
                additional_security_group_ids: &prepared.surroundings.additional_security_group_ids,
                machines_by_subnet,
            },
        )
    })
}

impl Prepared {
    /// What a launch from this request freezes on the machine.
    pub(super) fn in_use(&self, machine: &AWSMachine, request: &LaunchRequest) -> MachineNetworkInUse {
        let zone = self
            .surroundings
            .network
            .subnets
            .iter()
            .find(|subnet| subnet.id == request.subnet_id)
            .and_then(|subnet| subnet.availability_zone.clone());
        let mut sources = self.merged.winners.clone();
        if machine.spec.subnet.is_some() {
            let name = machine.metadata.name.as_deref().unwrap_or_default();
            sources.insert("subnets".to_owned(), format!("AWSMachine/{name}"));
        }
        MachineNetworkInUse {
            account_id: Some(self.access.account_id.clone()),
            region: Some(self.region.clone()),
            availability_zone: zone,
            subnet_id: Some(request.subnet_id.clone()),
            security_group_ids: request.security_group_ids.clone(),
            identity_ref: Some(self.identity_ref.clone()),
            control_plane_targets: self.merged.network.control_plane_targets.clone(),
            cluster_tag: Some(self.cluster_tag.clone()),
            sources,
        }
    }
}

/// The record of an attempt.
pub(super) fn record(attempt: i32, request: &LaunchRequest, requested_at: jiff::Timestamp) -> LaunchRecord {
    LaunchRecord {
        attempt,
        request: Some(RecordedRequest {
            client_token: request.client_token.clone(),
            subnet_id: request.subnet_id.clone(),
            image_id: request.image_id.clone(),
            instance_type: request.instance_type.clone(),
            security_group_ids: request.security_group_ids.clone(),
            parameters_hash: request.parameters_hash(),
            requested_at: Time(requested_at),
        }),
        instance_id: None,
    }
}

/// How long an unconfirmed launch waits before it is looked up again.
pub(super) fn lookup_interval(world: &MachineWorld) -> Duration {
    world.timing.transition_interval * 6
}
