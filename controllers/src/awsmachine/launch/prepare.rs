//! Gathers everything that a launch needs. Each wait is a condition.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use capa_api::common::{MachineRole, Tags};
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::contract::{Cluster, ContractReference, Machine};
use capa_api::machine::{AWSMachine, AppliedSecurityGroups, LaunchRecord, MachineNetworkInUse, Switch};
use capa_api::meta;
use capa_api::network::{MachineNetwork, NetworkBootstrapBucket};
use capa_cloud::{CapacitySource, CloudError, LaunchRequest, UserData};
use capa_network::{Merged, MissingField, Placement, PlacementRequest, Problem, place};
use capa_runtime::reconcile::Next;

use super::capacity_zone::{self, CapacityZone};
use super::plan::{Attempt, LaunchPlan, LaunchStep, plan_launch};
use super::rejection::RefusedLaunch;
use super::user_data::LaunchUserData;
use crate::awsmachine::attempt;
use crate::awsmachine::blocked::{Blocked, FlowError};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::hosts;
use crate::awsmachine::image::{self, ImageRequest, LaunchImage};
use crate::awsmachine::interfaces::{InterfaceError, OwnInterfaces};
use crate::awsmachine::locate::{self, InstanceLocation};
use crate::awsmachine::memory::{LaunchKind, Pool, SubnetQuery};
use crate::awsmachine::read::{self, network_not_ready};
use crate::awsmachine::references::{self, ResolvedInputs};
use crate::awsmachine::refusal;
use crate::awsmachine::scope::{MachineScope, search_token};
use crate::awsmachine::spec;
use crate::awsmachine::time::age;
use crate::launching::bootstrap::BootstrapData;
use crate::launching::replacement::Replacement;
use crate::launching::request::{RequestInputs, additional_tags, build_request};
use crate::launching::storage::{LaunchSecrets, StorageRequest};
use crate::launching::{objects, secrets};

/// Everything that a launch needs, once every wait is over.
pub(super) struct Prepared {
    /// What the launch has in common with those of other machines.
    pub(super) kind: LaunchKind,
    pub(super) location: InstanceLocation,
    pub(super) owner: Arc<Machine>,
    merged: Merged,
    inputs: ResolvedInputs,
    image: LaunchImage,
    /// The network interfaces that the machine brings, looked up for an attempt that is not recorded yet.
    interfaces: Option<OwnInterfaces>,
    capacity_zone: Option<CapacityZone>,
    pub(super) user_data: LaunchUserData,
    /// What is stored before the launch, if AWS keeps the bootstrap data.
    pub(super) secrets: Option<LaunchSecrets>,
    management_cluster: Option<String>,
}

/// A launch that is decided: what to do, and the call.
pub(super) struct LaunchDecision {
    pub(super) prepared: Prepared,
    pub(super) plan: LaunchPlan,
    pub(super) request: LaunchRequest,
}

/// Walks through the waits.
pub(super) async fn prepare(
    scope: &mut MachineScope,
    owner: &Arc<Machine>,
    cluster: &Cluster,
    context: &MachineContext,
) -> Result<Prepared, FlowError> {
    let bootstrap_data = bootstrap_data(scope, owner, cluster, context).await?;
    scope.set_condition(ConditionType::BootstrapDataReady.is_true(Reason::Ready));
    let spec = &scope.machine.spec;
    if let Some(mut update) = spec::validate(spec) {
        let replacement = Replacement::of(&scope.machine.metadata);
        update.message = format!("{}; the spec of a machine is immutable: {replacement}", update.message);
        return Err(Blocked::new(update, Next::AwaitChange).into());
    }
    let merged = network(scope, owner, cluster, context).await?;
    let location = locate::for_launch(scope, &merged, context).await?;
    scope.set_condition(ConditionType::IdentityReady.is_true(Reason::Ready));
    if let Some(problem) = &location.pending_targets {
        return Err(Blocked::new(network_not_ready(problem), Next::Retry).into());
    }
    let needs_hook = matches!(bootstrap_data, BootstrapData::Stored(..));
    let (user_data, secrets) = delivered(scope, bootstrap_data, &merged, &location)?;
    // Not from a presigned URL, which is another one in each pass.
    let made_from = refusal::launch_fingerprint(&scope.machine.spec, &user_data, &merged, &location);
    refusal::await_change(scope, made_from, context)?;
    let kind = refusal::kind_of_launch(scope, owner, &merged, &location);
    refusal::await_kind(scope, kind, context)?;
    let inputs = references::resolve_inputs(&scope.machine.spec, &merged, location.cloud.as_ref()).await?;
    let wanted = ImageRequest {
        spec: &scope.machine.spec,
        network: &merged.network,
        version: owner.spec.version.as_deref(),
        recorded: attempt::open_request(scope).map(|recorded| recorded.image_id.as_str()),
    };
    let image = image::resolve(&wanted, location.cloud.as_ref()).await?;
    if image.is_of_windows && needs_hook {
        return Err(no_hook(&image.id).into());
    }
    let user_data = LaunchUserData::new(scope, user_data, secrets.as_ref(), &location, context).await?;
    let interfaces = own_interfaces(scope, &merged, &location).await?;
    // A recorded attempt has its subnet, and own interfaces have theirs.
    let capacity_zone = match attempt::open_request(scope) {
        None if interfaces.is_none() => capacity_zone::resolve(&scope.machine.spec, location.cloud.as_ref()).await?,
        _ => None,
    };
    Ok(Prepared {
        kind,
        location,
        owner: owner.clone(),
        merged,
        inputs,
        image,
        interfaces,
        capacity_zone,
        user_data,
        secrets,
        management_cluster: context.kubernetes.management_cluster(),
    })
}

/// Bootstrap data, once the cluster's infrastructure is provisioned.
async fn bootstrap_data(
    scope: &MachineScope,
    owner: &Machine,
    cluster: &Cluster,
    context: &MachineContext,
) -> Result<BootstrapData, FlowError> {
    if !cluster.infrastructure_provisioned() {
        let message = match &cluster.spec.infrastructure_ref {
            Some(ContractReference { kind, name, .. }) => format!("{kind} {name} is not provisioned yet"),
            None => "Cluster API has not marked the cluster's infrastructure as provisioned yet".to_owned(),
        };
        let waiting = ConditionType::InstanceReady.is_false(Reason::WaitingForClusterInfrastructure, message);
        return Err(Blocked::new(waiting, Next::AwaitChange).into());
    }
    read::bootstrap_data(scope, owner, context).await
}

/// The user data of the launch, and the bootstrap data to store before it.
fn delivered(
    scope: &MachineScope,
    data: BootstrapData,
    merged: &Merged,
    location: &InstanceLocation,
) -> Result<(UserData, Option<LaunchSecrets>), Blocked> {
    let request = |data| StorageRequest {
        spec: &scope.machine.spec,
        uid: scope.uid(),
        name: spec::machine_name(&scope.machine),
        region: &location.region,
        account_id: &location.account_id,
        identity_ref: &location.identity_ref,
        cluster_tag: &location.cluster_tag,
        data,
    };
    let secrets = match data {
        BootstrapData::Inline(user_data) => return Ok((user_data, None)),
        BootstrapData::Stored(backend, data) => secrets::in_service(&request(data.expose()), backend),
        BootstrapData::InBucket(data) => {
            let bucket = merged.network.bootstrap_bucket().ok_or_else(objects::no_bucket);
            let stored = bucket.and_then(|bucket| objects::in_bucket(&request(data.expose()), location.role, bucket));
            stored.map_err(|update| Blocked::new(update, Next::Retry))?
        }
    };
    Ok((secrets.user_data.clone(), Some(secrets)))
}

/// Windows does not run what fetches bootstrap data, so that no node would come of the instance.
fn no_hook(image_id: &str) -> Blocked {
    let message = format!(
        "image {image_id} is one of Windows, which does not run the boot hook that fetches bootstrap data from a service for \
         secrets: set cloudInit.insecureSkipSecretsManager: true in a new template"
    );
    let refused = ConditionType::BootstrapDataReady.is_false(Reason::InvalidSpec, message);
    Blocked::new(refused, Next::Retry)
}

/// The network of all sources, if a machine may be launched into it.
async fn network(
    scope: &MachineScope,
    owner: &Machine,
    cluster: &Cluster,
    context: &MachineContext,
) -> Result<Merged, FlowError> {
    let merged = read::network(scope, cluster, context).await?;
    let problem = merged.problem.clone();
    let cluster_name = cluster.metadata.name.as_deref().unwrap_or_default();
    let cluster_tag = merged.network.cluster_tag.as_deref().unwrap_or(cluster_name);
    let problem = problem.or_else(|| spec::validate_tags(&scope.machine.spec, &merged.network, cluster_tag));
    let problem = problem.or_else(|| spec::validate_network(&merged.network, cluster_name));
    let problem = problem.or_else(|| {
        let missing = || MissingField::region(merged.unlabelled.as_ref()).into();
        merged.network.region.is_none().then(missing)
    });
    let is_control_plane = meta::machine_role(&owner.metadata) == MachineRole::ControlPlane;
    let problem = problem.or_else(|| merged.pending_targets.clone().filter(|_| is_control_plane));
    match problem {
        Some(problem) => Err(Blocked::new(network_not_ready(&problem), Next::Retry).into()),
        None => Ok(merged),
    }
}

/// The network interfaces of the spec. A recorded attempt has its placement, and its instance may hold the interfaces
/// already.
async fn own_interfaces(
    scope: &MachineScope,
    merged: &Merged,
    location: &InstanceLocation,
) -> Result<Option<OwnInterfaces>, Blocked> {
    if attempt::open_request(scope).is_some() {
        return Ok(None);
    }
    let region = merged.network.region.as_deref().unwrap_or_default();
    let found = OwnInterfaces::resolve(&scope.machine.spec, location.cloud.as_ref()).await;
    found.map_err(|error| match error {
        InterfaceError::Missing(id) => {
            let message = format!(
                "spec.networkInterfaces: {id} does not exist in {region}: create it, or name another in a new template"
            );
            Blocked::new(network_not_ready(&Problem::new(Reason::NotFound, message)), Next::Retry)
        }
        InterfaceError::Cloud(error) => {
            let message = format!("the lookup of the network interfaces in {region} failed: {error}");
            Blocked::by_call(ConditionType::NetworkReady, message, &error)
        }
    })
}

/// Decides what to do, and chooses a place for another attempt.
pub(super) fn plan(
    scope: &mut MachineScope,
    prepared: Prepared,
    context: &MachineContext,
) -> Result<LaunchDecision, Blocked> {
    let recorded = scope.status.launch.as_ref().and_then(LaunchRecord::request);
    let repeated = recorded.map(|recorded| {
        let placement = Placement {
            subnet_id: recorded.subnet_id.clone(),
            availability_zone: None,
            security_group_ids: recorded.security_group_ids.clone(),
        };
        let user_data = prepared.user_data.of_recorded();
        prepared.request(&scope.machine, &placement, user_data, recorded.client_token.clone())
    });
    let attempt = known_of_attempt(scope, &prepared, repeated.as_ref(), context);
    let record = scope.status.launch.as_ref();
    let plan = plan_launch(record, &attempt, context.now(), &context.timing);
    let client_token = match plan.step {
        LaunchStep::Record(number) => format!("{}-{number}", scope.uid()),
        _ => search_token(&scope.machine),
    };
    let request = match (plan.step, repeated) {
        (LaunchStep::Record(_), _) | (_, None) => {
            let placement = place_anew(scope, &prepared, context);
            let placement = placement.map_err(|problem| not_placed(scope, &problem, &prepared, context))?;
            prepared.request(&scope.machine, &placement, prepared.user_data.of_new(), client_token)
        }
        (_, Some(repeated)) => repeated,
    };
    Ok(LaunchDecision {
        prepared,
        plan,
        request,
    })
}

/// The known facts of the recorded attempt; `repeated` is its call as it would be made now.
fn known_of_attempt(
    scope: &MachineScope,
    prepared: &Prepared,
    repeated: Option<&LaunchRequest>,
    context: &MachineContext,
) -> Attempt {
    let recorded = scope.status.launch.as_ref().and_then(LaunchRecord::request);
    let token = recorded.map_or_else(
        || search_token(&scope.machine),
        |recorded| recorded.client_token.clone(),
    );
    let remembered = context.memory.attempt(scope.uid(), &token);
    let hash = repeated.map(LaunchRequest::parameters_hash);
    Attempt {
        progress: attempt::progress(scope, &token, context),
        same_account: remembered.account_id.as_ref() == Some(&prepared.location.account_id),
        same_parameters: recorded.map(|recorded| &recorded.parameters_hash) == hash.as_ref(),
        confirmed_at: remembered.confirmed_at,
        absence: remembered.absence,
        first_number: first_number(scope, context),
    }
}

/// Number of the first attempt of an AWSMachine without a readable record. Its status may have been lost, and a token
/// that was used before must not come back in another zone: attempts are more than a second apart, so no attempt has
/// yet had the age of the AWSMachine in seconds as its number.
pub(super) fn first_number(scope: &MachineScope, context: &MachineContext) -> NonZeroU32 {
    let created = scope.machine.metadata.creation_timestamp.as_ref();
    let age = created.map_or(Duration::ZERO, |created| age(created.0, context.kubernetes.now()));
    // The schema has room for 31 bits.
    let seconds = i32::try_from(age.as_secs()).unwrap_or(i32::MAX).unsigned_abs();
    NonZeroU32::new(seconds).unwrap_or(NonZeroU32::MIN)
}

fn place_anew(scope: &MachineScope, prepared: &Prepared, context: &MachineContext) -> Result<Placement, Problem> {
    let owner = &prepared.owner;
    let spec = &scope.machine.spec;
    let network = &prepared.inputs.network;
    if let Some(interfaces) = &prepared.interfaces {
        let own_subnets: Vec<&str> = network.subnets.iter().map(|subnet| subnet.id.as_str()).collect();
        let own_subnets = spec::names_subnet(spec).then_some(own_subnets.as_slice());
        return interfaces.placement(owner.requested_failure_domain(), own_subnets);
    }
    let network = &match &prepared.capacity_zone {
        Some(zone) => Cow::Owned(zone.restrict(network, owner.requested_failure_domain())?),
        None => network_of_host(scope, network),
    };
    let role = prepared.location.role;
    let mut machines = context
        .kubernetes
        .machines_of_cluster(scope.namespace(), &owner.spec.cluster_name);
    // Each role is spread for itself: workers say nothing about where a control plane loses its quorum.
    machines.retain(|machine| meta::machine_role(&machine.metadata) == role);
    let query = SubnetQuery {
        uid: scope.uid(),
        machines: &machines,
        pool: &pool(scope, prepared),
        subnets: &network.subnets,
        now: context.kubernetes.uptime(),
        retry: context.timing.capacity_retry,
    };
    context.memory.place(&query, |machines_by_subnet, capacity| {
        let request = PlacementRequest {
            role,
            failure_domain: owner.requested_failure_domain(),
            public_ip: spec.public_ip,
            needs_ipv6: spec.assign_primary_ipv6 == Some(Switch::Enabled),
            explicit_subnet: spec::names_subnet(spec),
            additional_security_group_ids: &prepared.inputs.additional_security_group_ids,
            machines_by_subnet,
            capacity,
            unlabelled: prepared.merged.unlabelled.as_ref(),
        };
        place(network, &request)
    })
}

/// The network, without the subnets outside the zone in which the machine has its Dedicated Host. Without a subnet in
/// that zone, the machine is placed elsewhere, and gives its host up.
fn network_of_host<'a>(scope: &MachineScope, network: &'a MachineNetwork) -> Cow<'a, MachineNetwork> {
    let Some(zone) = hosts::zone_of_host(scope.status.dedicated_host.as_deref()) else {
        return Cow::Borrowed(network);
    };
    let mut reduced = network.clone();
    reduced
        .subnets
        .retain(|subnet| subnet.availability_zone.as_deref() == Some(zone));
    if reduced.subnets.is_empty() {
        return Cow::Borrowed(network);
    }
    Cow::Owned(reduced)
}

/// Machines that share what is known of a lack of capacity.
pub(super) fn pool(scope: &MachineScope, prepared: &Prepared) -> Pool {
    Pool::new(scope.namespace(), &prepared.location.cluster_name, &scope.machine.spec)
}

/// Says why there is no place for the machine. A lack of capacity passes by itself and is no fault of the network.
fn not_placed(scope: &mut MachineScope, problem: &Problem, prepared: &Prepared, context: &MachineContext) -> Blocked {
    if problem.reason != Reason::InsufficientCapacity {
        return Blocked::new(network_not_ready(problem), Next::Retry);
    }
    scope.set_condition(ConditionType::NetworkReady.is_true(Reason::Ready));
    let remaining = context.memory.capacity_remaining(
        &pool(scope, prepared),
        context.kubernetes.uptime(),
        context.timing.capacity_retry,
    );
    let refusals = context.memory.refusals_of_capacity(&pool(scope, prepared));
    Blocked::new(without_capacity(scope, problem, &refusals), Next::Requeue(remaining))
}

/// Says that no subnet has capacity, with EC2's codes and words.
fn without_capacity(scope: &MachineScope, problem: &Problem, refusals: &BTreeMap<String, String>) -> ConditionUpdate {
    let spec = &scope.machine.spec;
    let within = match capacity_zone::source(spec) {
        Some(source @ CapacitySource::Reservation(_)) => format!(" in {source}"),
        Some(source @ CapacitySource::Host(_)) => format!(" on {source}"),
        None => String::new(),
    };
    let refusals = refusals.iter().map(|(code, words)| format!("{code}: {words}"));
    let refusals = refusals.collect::<Vec<_>>().join("; ");
    let refusals = if refusals.is_empty() {
        refusals
    } else {
        format!(" ({refusals})")
    };
    let message = format!(
        "{} for instance type {}{within}{refusals}: it is tried again; machines of another type or with more zones to \
         choose from may find some",
        problem.message, spec.instance_type
    );
    ConditionType::InstanceReady.is_false(Reason::InsufficientCapacity, message)
}

/// The Dedicated Host that was allocated for the machine, and on which it is launched.
fn allocated_host(machine: &AWSMachine) -> Option<&str> {
    machine.spec.dynamic_host_allocation.as_ref()?;
    machine.status.as_ref()?.dedicated_host.as_ref()?.usable_id()
}

impl Prepared {
    /// The call that launches the machine at a placement.
    fn request(
        &self,
        machine: &AWSMachine,
        placement: &Placement,
        user_data: &UserData,
        client_token: String,
    ) -> LaunchRequest {
        let inputs = RequestInputs {
            network: &self.inputs.network,
            cluster_tag: &self.location.cluster_tag,
            owner_name: self.owner.metadata.name.as_deref().unwrap_or_default(),
            management_cluster: self.management_cluster.as_deref(),
            role: self.location.role,
            user_data,
            image_id: &self.image.id,
            allocated_host: allocated_host(machine),
            root_device: self.image.root_device.as_deref(),
        };
        build_request(machine, &inputs, placement, client_token)
    }

    /// The zone of a subnet, where it is known.
    pub(super) fn zone_of(&self, subnet_id: &str) -> Option<&str> {
        if let Some(zone) = self.interfaces.as_ref().and_then(|own| own.zone_of(subnet_id)) {
            return Some(zone);
        }
        let subnets = &self.inputs.network.subnets;
        let subnet = subnets.iter().find(|subnet| subnet.id == subnet_id)?;
        subnet.availability_zone.as_deref()
    }

    /// The launch by this call, which EC2 has refused with this error.
    pub(super) fn refused<'a>(
        &'a self,
        machine: &'a AWSMachine,
        request: &'a LaunchRequest,
        error: &'a CloudError,
    ) -> RefusedLaunch<'a> {
        RefusedLaunch {
            machine,
            request,
            network: &self.inputs.network,
            sources: &self.merged.winners,
            role: self.location.role,
            region: &self.location.region,
            account_id: &self.location.account_id,
            zone: self.zone_of(&request.subnet_id),
            identity: &self.location.identity_ref,
            error,
        }
    }

    /// The network that a launch by this call freezes on the machine.
    pub(super) fn in_use(&self, machine: &AWSMachine, request: &LaunchRequest) -> MachineNetworkInUse {
        let mut sources = self.merged.winners.clone();
        let brings_interfaces = !machine.spec.network_interfaces.is_empty();
        let name = machine.metadata.name.as_deref().unwrap_or_default();
        if brings_interfaces || spec::names_subnet(&machine.spec) {
            sources.insert("subnets".to_owned(), format!("AWSMachine/{name}"));
        }
        if brings_interfaces {
            sources.retain(|field, _| !field.starts_with("securityGroups"));
            sources.insert("securityGroups".to_owned(), format!("AWSMachine/{name}"));
        }
        MachineNetworkInUse {
            account_id: Some(self.location.account_id.clone()),
            region: Some(self.location.region.clone()),
            availability_zone: self.zone_of(&request.subnet_id).map(str::to_owned),
            subnet_id: Some(request.subnet_id.clone()),
            security_group_ids: request.security_group_ids.clone(),
            identity_ref: Some(self.location.identity_ref.clone()),
            control_plane_targets: self.location.targets.clone(),
            cluster_tag: Some(self.location.cluster_tag.clone()),
            sources,
        }
    }

    /// The bucket of the network that keeps bootstrap data.
    pub(super) fn bootstrap_bucket(&self) -> Option<&NetworkBootstrapBucket> {
        self.merged.network.bootstrap_bucket()
    }

    /// The tags that a launch sets and that can change afterwards.
    pub(super) fn applied_tags(&self, machine: &AWSMachine) -> Tags {
        additional_tags(&machine.spec, &self.inputs.network)
    }

    /// The security groups that a launch adds to those of the network.
    pub(super) fn applied_groups(&self, machine: &AWSMachine) -> AppliedSecurityGroups {
        let of_network = self.inputs.network.security_groups.iter();
        let of_network: Vec<&String> = of_network
            .flat_map(|groups| groups.of_machine(self.location.role))
            .collect();
        let mut ids = self.inputs.additional_security_group_ids.clone();
        ids.retain(|id| !of_network.contains(&id));
        ids.sort_unstable();
        ids.dedup();
        AppliedSecurityGroups {
            references: machine.spec.additional_security_groups.clone(),
            ids,
            pending: None,
        }
    }
}
