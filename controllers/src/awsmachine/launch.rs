//! From a fresh AWSMachine to a launched instance.

use std::time::Duration;

use capa_api::common::{IdentityReference, MachineRole};
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::core::{Cluster, ContractReference, Machine};
use capa_api::machine::{AWSMachine, LaunchRecord, LaunchRequest as RecordedRequest, MachineNetworkInUse};
use capa_api::meta;
use capa_cloud::{LaunchRequest, UserData};
use capa_network::{Merged, Placement, PlacementRequest, Problem, place};
use capa_runtime::reconcile::{Next, ReconcileError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::dereference::{self, Access, Surroundings, SurroundingsError};
use super::memory::{Asking, Pool};
use super::plan::{self, Attempt, LaunchPlan, Progress, Then};
use super::request::{self, Ingredients};
use super::{MachineContext, MachineScope, Owners, apply, observe};
use crate::kubernetes_api::KubernetesError;
use crate::retry;

/// Everything a launch needs, after every wait is over.
pub(super) struct Prepared {
    pub(super) access: Access,
    pub(super) region: String,
    pub(super) identity_ref: IdentityReference,
    pub(super) cluster_tag: String,
    cluster_name: String,
    merged: Merged,
    surroundings: Surroundings,
    user_data: UserData,
}

pub(super) async fn reconcile(
    scope: MachineScope,
    owners: &Owners,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    let (Some(owner), Some(cluster)) = (owners.machine.as_deref(), owners.cluster.as_deref()) else {
        let message = "no Machine of an existing Cluster owns this object: nothing is launched";
        return Ok(scope.stop(
            ConditionType::InstanceReady.is_false(Reason::WaitingForOwnerCluster, message),
            Next::AwaitChange,
        ));
    };
    if let Some(instance) = apply::own_answer(&scope, context) {
        // The pass that got the answer could not record it: that comes before every wait.
        let scope = apply::answered(scope, &instance, context).await?;
        return observe::reconcile(scope, owners, context).await;
    }
    let mut scope = forget_refused(scope, context);
    let prepared = match prepare(&mut scope, owner, cluster, context).await {
        Ok(prepared) => prepared,
        Err(Stop::Wait(update, next)) => return Ok(scope.stop(update, next)),
        Err(Stop::Failed(error)) => return Err(error),
    };
    let (plan, recorded) = plan(&scope, owner, &prepared, context);
    let request = match (plan.then, recorded) {
        (Then::Claim | Then::Verify | Then::Repeat | Then::LookOnly, Some(recorded)) => recorded,
        (Then::Record(_) | Then::LookOnly, _) => match new_placement(&scope, owner, &prepared, context) {
            Ok(placement) => {
                let client_token = match plan.then {
                    Then::Record(attempt) => format!("{}-{attempt}", scope.uid()),
                    _ => search_token(&scope),
                };
                request(&scope, owner, &prepared, &placement, client_token)
            }
            Err(problem) => return Ok(not_placed(scope, &problem, &prepared, context)),
        },
        (Then::Claim | Then::Verify | Then::Repeat, None) => return Ok(scope),
    };
    scope.say(ConditionType::NetworkReady.is_true(Reason::Ready));
    let scope = Box::pin(apply::launch(scope, owner, &prepared, request, plan, context)).await?;
    match dereference::recorded_instance_id(&scope.machine) {
        Some(_) => observe::reconcile(scope, owners, context).await,
        None => Ok(scope),
    }
}

/// What the search for the instance of a machine without a recorded attempt goes by: no attempt has the number 0.
pub(super) fn search_token(scope: &MachineScope) -> String {
    format!("{}-0", scope.uid())
}

/// Number of the first attempt of an object that came without a record. Its status may have been lost, and a token that
/// was used before must not come back in another zone: attempts are more than a second apart, so the age of the object in
/// seconds is a number that it has not come to.
fn first_attempt(scope: &MachineScope, context: &MachineContext) -> i32 {
    let created = scope.machine.metadata.creation_timestamp.as_ref();
    let age = created.map_or(Duration::ZERO, |created| {
        observe::age(created.0, context.kubernetes.now())
    });
    i32::try_from(age.as_secs()).unwrap_or(i32::MAX).max(1)
}

/// Where nothing was launched nothing is recorded: a corrected identity or region must not be held against the record.
pub(super) fn forget_refused(mut scope: MachineScope, context: &MachineContext) -> MachineScope {
    let record = scope.status.launch.as_ref().filter(|record| record.is_open());
    let token = record
        .and_then(|record| record.request.as_ref())
        .map(|request| request.client_token.as_str());
    if token.is_some_and(|token| apply::progress(&scope, token, context) == Progress::Refused) {
        scope.status.network = None;
    }
    scope
}

/// Why a launch does not go on.
enum Stop {
    /// For now, as the condition says; when to try again.
    Wait(ConditionUpdate, Next),
    /// The pass has failed.
    Failed(ReconcileError),
}

impl From<KubernetesError> for Stop {
    fn from(error: KubernetesError) -> Self {
        Self::Failed(error.into())
    }
}

/// Walks through the waits, each of them a condition.
async fn prepare(
    scope: &mut MachineScope,
    owner: &Machine,
    cluster: &Cluster,
    context: &MachineContext,
) -> Result<Prepared, Stop> {
    let user_data = user_data(scope, owner, cluster, context).await?;
    scope.say(ConditionType::BootstrapDataReady.is_true(Reason::Ready));
    let spec = &scope.machine.spec;
    if let Some(update) = request::unsupported(spec).or_else(|| request::invalid(spec)) {
        return Err(Stop::Wait(update, Next::AwaitChange));
    }
    let merged = network(scope, owner, cluster, context).await?;
    let site = site(scope, &merged, cluster);
    let access = dereference::access(scope, &site.identity_ref, &site.region, &site.cluster_name, context).await?;
    let access = access.map_err(|update| Stop::Wait(update, Next::Retry))?;
    scope.say(ConditionType::IdentityReady.is_true(Reason::Ready));
    let surroundings = surroundings(scope, &merged, &access).await?;
    Ok(Prepared {
        access,
        region: site.region,
        identity_ref: site.identity_ref,
        cluster_tag: site.cluster_tag,
        cluster_name: site.cluster_name,
        merged,
        surroundings,
        user_data,
    })
}

/// Bootstrap data, once the cluster's infrastructure is there.
async fn user_data(
    scope: &MachineScope,
    owner: &Machine,
    cluster: &Cluster,
    context: &MachineContext,
) -> Result<UserData, Stop> {
    if !cluster.infrastructure_provisioned() {
        let message = match &cluster.spec.infrastructure_ref {
            Some(ContractReference { kind, name, .. }) => format!("{kind} {name} is not provisioned yet"),
            None => "Cluster API has not marked the cluster's infrastructure as provisioned yet".to_owned(),
        };
        let waiting = ConditionType::InstanceReady.is_false(Reason::WaitingForClusterInfrastructure, message);
        return Err(Stop::Wait(waiting, Next::AwaitChange));
    }
    // The Machine is watched, its Secret is not.
    let next = match owner.bootstrap_secret_name() {
        Some(_) => Next::Retry,
        None => Next::AwaitChange,
    };
    let user_data = dereference::user_data(scope, owner, context).await?;
    user_data.map_err(|update| Stop::Wait(update, next))
}

/// The network of all sources, if a machine may be launched by it.
async fn network(
    scope: &MachineScope,
    owner: &Machine,
    cluster: &Cluster,
    context: &MachineContext,
) -> Result<Merged, Stop> {
    let merged = dereference::network(&scope.machine, cluster, context).await;
    let problem = merged.problem.clone();
    let problem = problem.or_else(|| request::refused_tags(&scope.machine.spec, &merged.network));
    let cluster_name = cluster.metadata.name.as_deref().unwrap_or_default();
    let problem = problem.or_else(|| request::oversized_network(&merged.network, cluster_name));
    let problem = problem.or_else(|| {
        let message =
            "no source supplies region: set spec.region, or let the cluster's infrastructure object publish it";
        let missing = || Problem::new(Reason::MissingField, message);
        merged.network.region.is_none().then(missing)
    });
    let is_control_plane = meta::machine_role(&owner.metadata) == MachineRole::ControlPlane;
    let problem = problem.or_else(|| merged.pending_targets.clone().filter(|_| is_control_plane));
    match problem {
        Some(problem) => Err(Stop::Wait(network_not_ready(&problem), Next::Retry)),
        None => Ok(merged),
    }
}

/// Where and as whom AWS is asked.
struct Site {
    region: String,
    identity_ref: IdentityReference,
    cluster_tag: String,
    cluster_name: String,
}

/// An open attempt is repeated and looked up where it was made, whatever the sources say by now.
fn site(scope: &MachineScope, merged: &Merged, cluster: &Cluster) -> Site {
    let open = scope.status.launch.as_ref().is_some_and(LaunchRecord::is_open);
    let frozen = scope.status.network.clone().filter(|_| open).unwrap_or_default();
    let network = &merged.network;
    let cluster_name = cluster.metadata.name.clone().unwrap_or_default();
    let identity_ref = frozen.identity_ref.or_else(|| network.identity_ref.clone());
    let cluster_tag = frozen.cluster_tag.or_else(|| network.cluster_tag.clone());
    Site {
        region: frozen.region.or_else(|| network.region.clone()).unwrap_or_default(),
        identity_ref: identity_ref.unwrap_or_else(IdentityReference::controller_default),
        cluster_tag: cluster_tag.unwrap_or_else(|| cluster_name.clone()),
        cluster_name,
    }
}

async fn surroundings(scope: &MachineScope, merged: &Merged, access: &Access) -> Result<Surroundings, Stop> {
    let found = dereference::surroundings(&scope.machine.spec, &merged.network, access.cloud.as_ref()).await;
    match found {
        Ok(surroundings) => Ok(surroundings),
        Err(SurroundingsError::Problem(problem)) => Err(Stop::Wait(network_not_ready(&problem), Next::Retry)),
        Err(SurroundingsError::Cloud(error)) => {
            let reason = error.class.reason();
            let update = ConditionType::NetworkReady.is_false(reason, format!("a lookup failed: {error}"));
            Err(Stop::Wait(update, retry::after(&error)))
        }
    }
}

fn network_not_ready(problem: &Problem) -> ConditionUpdate {
    ConditionType::NetworkReady.is_false(problem.reason, problem.message.clone())
}

/// What to do, and the recorded call as it would be made now, where there is one.
fn plan(
    scope: &MachineScope,
    owner: &Machine,
    prepared: &Prepared,
    context: &MachineContext,
) -> (LaunchPlan, Option<LaunchRequest>) {
    let record = scope.status.launch.as_ref();
    let recorded = record.and_then(|record| record.request.as_ref());
    let repeated = recorded.map(|recorded| {
        let placement = Placement {
            subnet_id: recorded.subnet_id.clone(),
            availability_zone: None,
            security_group_ids: recorded.security_group_ids.clone(),
        };
        request(scope, owner, prepared, &placement, recorded.client_token.clone())
    });
    let hash = repeated.as_ref().map(LaunchRequest::parameters_hash);
    let token = recorded.map_or_else(|| search_token(scope), |recorded| recorded.client_token.clone());
    let remembered = context.memory.attempt(scope.uid(), &token);
    let attempt = Attempt {
        progress: apply::progress(scope, &token, context),
        refusal_stored: scope.status.network.is_none(),
        same_account: remembered.account_id.as_ref() == Some(&prepared.access.account_id),
        same_parameters: recorded.map(|recorded| &recorded.parameters_hash) == hash.as_ref(),
        confirmed_at: remembered.confirmed_at,
        search: remembered.search,
        first_number: first_attempt(scope, context),
    };
    (
        plan::launch(record, &attempt, context.kubernetes.now(), &context.timing),
        repeated,
    )
}

fn request(
    scope: &MachineScope,
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
    request::build(&scope.machine, &ingredients, placement, client_token)
}

fn new_placement(
    scope: &MachineScope,
    owner: &Machine,
    prepared: &Prepared,
    context: &MachineContext,
) -> Result<Placement, Problem> {
    let machines = context
        .kubernetes
        .machines_of_cluster(scope.namespace(), &owner.spec.cluster_name);
    let asking = Asking {
        uid: scope.uid(),
        machines: &machines,
        pool: &pool(scope, prepared),
        subnets: &prepared.surroundings.network.subnets,
        now: context.kubernetes.now(),
        retry: context.timing.capacity_retry,
    };
    context.memory.place(&asking, |machines_by_subnet, subnets_to_avoid| {
        place(
            &prepared.surroundings.network,
            &PlacementRequest {
                role: meta::machine_role(&owner.metadata),
                failure_domain: owner.requested_failure_domain(),
                public_ip: scope.machine.spec.public_ip,
                explicit_subnet: dereference::names_subnet(&scope.machine.spec),
                additional_security_group_ids: &prepared.surroundings.additional_security_group_ids,
                machines_by_subnet,
                subnets_to_avoid,
            },
        )
    })
}

/// Machines that share what is known of a lack of capacity.
pub(super) fn pool(scope: &MachineScope, prepared: &Prepared) -> Pool {
    Pool {
        namespace: scope.namespace().to_owned(),
        cluster: prepared.cluster_name.clone(),
        instance_type: scope.machine.spec.instance_type.clone(),
    }
}

/// Says why there is no place for the machine. A lack of capacity passes by itself and is no fault of the network.
fn not_placed(
    mut scope: MachineScope,
    problem: &Problem,
    prepared: &Prepared,
    context: &MachineContext,
) -> MachineScope {
    if problem.reason != Reason::InsufficientCapacity {
        return scope.stop(network_not_ready(problem), Next::Retry);
    }
    scope.say(ConditionType::NetworkReady.is_true(Reason::Ready));
    let message = format!(
        "{} for instance type {}: it is tried again; machines of another type or with more zones to choose from may find some",
        problem.message, scope.machine.spec.instance_type
    );
    let rest = context.memory.capacity_rest(
        &pool(&scope, prepared),
        context.kubernetes.now(),
        context.timing.capacity_retry,
    );
    scope.stop(
        ConditionType::InstanceReady.is_false(Reason::InsufficientCapacity, message),
        Next::Requeue(rest),
    )
}

impl Prepared {
    /// The zone of a subnet, where it is known.
    pub(super) fn zone_of(&self, subnet_id: &str) -> Option<String> {
        let subnets = &self.surroundings.network.subnets;
        let subnet = subnets.iter().find(|subnet| subnet.id == subnet_id)?;
        subnet.availability_zone.clone()
    }

    /// What a launch from this request freezes on the machine.
    pub(super) fn in_use(&self, machine: &AWSMachine, request: &LaunchRequest) -> MachineNetworkInUse {
        let mut sources = self.merged.winners.clone();
        if dereference::names_subnet(&machine.spec) {
            let name = machine.metadata.name.as_deref().unwrap_or_default();
            sources.insert("subnets".to_owned(), format!("AWSMachine/{name}"));
        }
        MachineNetworkInUse {
            account_id: Some(self.access.account_id.clone()),
            region: Some(self.region.clone()),
            availability_zone: self.zone_of(&request.subnet_id),
            subnet_id: Some(request.subnet_id.clone()),
            security_group_ids: request.security_group_ids.clone(),
            identity_ref: Some(self.identity_ref.clone()),
            control_plane_targets: self.merged.network.control_plane_targets.clone(),
            cluster_tag: Some(self.cluster_tag.clone()),
            sources,
        }
    }
}

/// The record of an attempt, held by this process.
pub(super) fn record(
    attempt: i32,
    request: &LaunchRequest,
    holder: &str,
    requested_at: jiff::Timestamp,
    before: Option<&LaunchRecord>,
) -> LaunchRecord {
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
        holder: Some(holder.to_owned()),
        failed_instances: before.and_then(|record| record.failed_instances),
        instance_id: None,
    }
}

/// How long an unconfirmed launch waits before it is looked up again.
pub(super) fn lookup_interval(context: &MachineContext) -> Duration {
    context.timing.transition_interval * 6
}
