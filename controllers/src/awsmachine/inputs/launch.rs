//! Resolves everything that a launch needs. A condition shows what the launch waits for.

use std::sync::Arc;

use capa_api::common::{MachineRole, Tags};
use capa_api::conditions::{ConditionType, Reason};
use capa_api::contract::{Cluster, ContractReference, Machine};
use capa_api::machine::{AWSMachine, AppliedSecurityGroups, MachineNetworkInUse};
use capa_api::meta;
use capa_api::network::NetworkBootstrapBucket;
use capa_cloud::{LaunchRequest, UserData, additional_tags};
use capa_network::{Merged, MissingField, Placement};
use capa_runtime::reconcile::Next;

use crate::awsmachine::bootstrap_data::{self, LaunchUserData};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::inputs::location::{self, InstanceLocation};
use crate::awsmachine::inputs::{self, network_not_ready};
use crate::awsmachine::scope::{FlowError, MachineScope};
use crate::blocked::Blocked;
use crate::call_fingerprint::CallFingerprint;
use crate::launch_memory::LaunchKind;
use crate::launching::bootstrap::{BootstrapData, Format};
use crate::launching::image_lookup::{self, ImageRequest, LaunchImage};
use crate::launching::interfaces::OwnInterfaces;
use crate::launching::references::{self, ResolvedReferences};
use crate::launching::replacement::Replacement;
use crate::launching::request::{RequestInputs, build_request};
use crate::launching::reserved_capacity::{CapacityZone, capacity_zone};
use crate::launching::storage::{LaunchSecrets, StorageRequest};
use crate::launching::{objects, secrets, validation};

/// Everything that a launch needs, once every wait is over.
pub(in crate::awsmachine) struct LaunchInputs {
    /// The kind of the launch, which machines of one template share.
    pub(in crate::awsmachine) kind: LaunchKind,
    pub(in crate::awsmachine) location: InstanceLocation,
    pub(in crate::awsmachine) owner: Arc<Machine>,
    pub(in crate::awsmachine) merged: Arc<Merged>,
    pub(in crate::awsmachine) references: ResolvedReferences,
    image: LaunchImage,
    /// The existing network interfaces that the spec names, looked up for an attempt that is not recorded yet.
    pub(in crate::awsmachine) interfaces: Option<OwnInterfaces>,
    pub(in crate::awsmachine) capacity_zone: Option<CapacityZone>,
    pub(in crate::awsmachine) user_data: LaunchUserData,
    /// The format of the bootstrap data.
    pub(in crate::awsmachine) bootstrap_format: Option<Format>,
    /// The bootstrap data to store before the launch, if AWS keeps it.
    pub(in crate::awsmachine) secrets: Option<LaunchSecrets>,
    management_cluster: Option<String>,
}

/// Resolves the inputs of a launch.
///
/// # Errors
/// The launch waits for one of them.
pub(in crate::awsmachine) async fn resolve(
    scope: &mut MachineScope,
    owner: &Arc<Machine>,
    cluster: &Cluster,
    context: &MachineContext,
) -> Result<LaunchInputs, FlowError> {
    let (bootstrap_data, bootstrap_format) = data_once_provisioned(scope, owner, cluster, context).await?;
    scope.set_condition(ConditionType::BootstrapDataReady.is_true(Reason::Ready));
    let spec = &scope.machine.spec;
    if let Some(mut update) = validation::validate(spec) {
        let replacement = Replacement::of(&scope.machine.metadata);
        update.message = format!("{}; the spec of a machine is immutable: {replacement}", update.message);
        return Err(Blocked::new(update, Next::AwaitChange).into());
    }
    let merged = network(scope, owner, cluster, context).await?;
    let location = location::for_launch(scope, &merged, context).await?;
    scope.set_condition(ConditionType::IdentityReady.is_true(Reason::Ready));
    if let Some(problem) = &location.pending_targets {
        return Err(Blocked::new(network_not_ready(problem), Next::Retry).into());
    }
    let needs_hook = matches!(bootstrap_data, BootstrapData::Stored(..));
    let (user_data, secrets) = delivered(scope, bootstrap_data, &merged, &location)?;
    // The fingerprint excludes the presigned URL, which differs in each pass.
    let made_from = fingerprint(scope, &user_data, &merged, &location);
    context.await_change(scope, made_from)?;
    let kind = kind_of_launch(scope, owner, &merged, &location);
    context.await_kind(scope, kind)?;
    let references = references::resolve(&scope.machine.spec, &merged, location.session.cloud.as_ref()).await?;
    let wanted = ImageRequest {
        spec: &scope.machine.spec,
        network: &merged.network,
        version: owner.spec.version.as_deref(),
        recorded: scope.open_request().and_then(|recorded| recorded.image_id.as_deref()),
    };
    let image = image_lookup::resolve(&wanted, location.session.cloud.as_ref()).await?;
    if image.is_of_windows && needs_hook {
        return Err(no_hook(&image.id).into());
    }
    let user_data = LaunchUserData::new(scope, user_data, secrets.as_ref(), &location, context).await?;
    let interfaces = own_interfaces(scope, &merged, &location).await?;
    // The record determines the subnet of a recorded attempt, and existing network interfaces determine theirs.
    let capacity_zone = match scope.open_request() {
        None if interfaces.is_none() => capacity_zone(&scope.machine.spec, location.session.cloud.as_ref()).await?,
        _ => None,
    };
    Ok(LaunchInputs {
        kind,
        location,
        owner: owner.clone(),
        merged,
        references,
        image,
        interfaces,
        capacity_zone,
        user_data,
        bootstrap_format,
        secrets,
        management_cluster: context.kubernetes.management_cluster(),
    })
}

/// The fingerprint of a launch: spec, network sources, identity with its Secret, and bootstrap data.
fn fingerprint(
    scope: &MachineScope,
    user_data: &UserData,
    merged: &Merged,
    location: &InstanceLocation,
) -> CallFingerprint {
    let (spec, network) = spec_and_network(scope, merged);
    location.fingerprint(&"launch", &(spec, network, user_data.expose()))
}

/// The kind of a launch: what it has in common with the launches of the other machines of its template and version.
/// The condition of a refused launch names nothing else.
fn kind_of_launch(scope: &MachineScope, owner: &Machine, merged: &Merged, location: &InstanceLocation) -> LaunchKind {
    let (spec, network) = spec_and_network(scope, merged);
    let made_from = Replacement::of(&scope.machine.metadata).to_string();
    let facts = (spec, network, made_from, scope.namespace(), &location.cluster_name, &owner.spec.version);
    LaunchKind(location.fingerprint(&"kind", &facts).inputs)
}

/// The spec and the network as JSON. The types contain neither floats nor unordered maps, so equal values have equal
/// JSON.
fn spec_and_network(scope: &MachineScope, merged: &Merged) -> (Vec<u8>, Vec<u8>) {
    let spec = serde_json::to_vec(&scope.machine.spec).unwrap_or_default();
    (spec, serde_json::to_vec(&merged.network).unwrap_or_default())
}

/// Bootstrap data and its format, once the cluster's infrastructure is provisioned.
async fn data_once_provisioned(
    scope: &MachineScope,
    owner: &Machine,
    cluster: &Cluster,
    context: &MachineContext,
) -> Result<(BootstrapData, Option<Format>), FlowError> {
    if !cluster.infrastructure_provisioned() {
        let message = match &cluster.spec.infrastructure_ref {
            Some(ContractReference { kind, name, .. }) => format!("{kind} {name} is not provisioned yet"),
            None => "Cluster API has not marked the cluster's infrastructure as provisioned yet".to_owned(),
        };
        let waiting = ConditionType::InstanceReady.is_false(Reason::WaitingForClusterInfrastructure, message);
        return Err(Blocked::new(waiting, Next::AwaitChange).into());
    }
    bootstrap_data::read(scope, owner, context).await
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
        name: scope.machine.machine_name(),
        region: &location.session.region,
        account_id: &location.session.account_id,
        identity_ref: &location.session.identity_ref,
        cluster_tag: &location.session.cluster_tag,
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

/// Windows does not run the boot hook that fetches bootstrap data, so the instance would never become a node.
fn no_hook(image_id: &str) -> Blocked {
    let message = format!(
        "image {image_id} is one of Windows, which does not run the boot hook that fetches bootstrap data from a \
         service for secrets: set cloudInit.insecureSkipSecretsManager: true in a new template"
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
) -> Result<Arc<Merged>, FlowError> {
    let merged = inputs::network(scope, cluster, context).await?;
    let problem = merged.problem.clone();
    let cluster_name = cluster.metadata.name.as_deref().unwrap_or_default();
    let cluster_tag = merged.network.cluster_tag.as_deref().unwrap_or(cluster_name);
    let problem = problem.or_else(|| validation::validate_tags(&scope.machine.spec, &merged.network, cluster_tag));
    let problem = problem.or_else(|| validation::validate_network(&merged.network, cluster_name));
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

/// The network interfaces of the spec. A recorded attempt needs no lookup: its placement is recorded, and its instance
/// may already use the interfaces.
async fn own_interfaces(
    scope: &MachineScope,
    merged: &Merged,
    location: &InstanceLocation,
) -> Result<Option<OwnInterfaces>, Blocked> {
    if scope.open_request().is_some() {
        return Ok(None);
    }
    let region = merged.network.region.as_deref().unwrap_or_default();
    OwnInterfaces::resolve(&scope.machine.spec, region, location.session.cloud.as_ref()).await
}

/// The Dedicated Host that was allocated for the machine, and on which it is launched.
fn allocated_host(machine: &AWSMachine) -> Option<&str> {
    machine.spec.dynamic_host_allocation.as_ref()?;
    machine.status.as_ref()?.dedicated_host.as_ref()?.usable_id()
}

impl LaunchInputs {
    /// The call that launches the machine at a placement.
    pub(in crate::awsmachine) fn request(
        &self,
        machine: &AWSMachine,
        placement: &Placement,
        user_data: &UserData,
        client_token: String,
    ) -> LaunchRequest {
        let inputs = RequestInputs {
            network: &self.references.network,
            cluster_tag: &self.location.session.cluster_tag,
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
    pub(in crate::awsmachine) fn zone_of(&self, subnet_id: &str) -> Option<&str> {
        if let Some(zone) = self.interfaces.as_ref().and_then(|own| own.zone_of(subnet_id)) {
            return Some(zone);
        }
        let subnets = &self.references.network.subnets;
        let subnet = subnets.iter().find(|subnet| subnet.id == subnet_id)?;
        subnet.availability_zone.as_deref()
    }

    /// The network that the status records for the life of the instance that this call launches.
    pub(in crate::awsmachine) fn in_use(&self, machine: &AWSMachine, request: &LaunchRequest) -> MachineNetworkInUse {
        let mut sources = self.merged.winners.clone();
        let brings_interfaces = !machine.spec.network_interfaces.is_empty();
        let name = machine.metadata.name.as_deref().unwrap_or_default();
        if brings_interfaces || machine.spec.names_subnet() {
            sources.insert("subnets".to_owned(), format!("AWSMachine/{name}"));
        }
        if brings_interfaces {
            sources.retain(|field, _| !field.starts_with("securityGroups"));
            sources.insert("securityGroups".to_owned(), format!("AWSMachine/{name}"));
        }
        MachineNetworkInUse {
            account_id: Some(self.location.session.account_id.clone()),
            region: Some(self.location.session.region.clone()),
            availability_zone: self.zone_of(&request.subnet_id).map(str::to_owned),
            subnet_id: Some(request.subnet_id.clone()),
            security_group_ids: request.security_group_ids.clone(),
            identity_ref: Some(self.location.session.identity_ref.clone()),
            control_plane_targets: self.location.targets.clone(),
            cluster_tag: Some(self.location.session.cluster_tag.clone()),
            sources,
        }
    }

    /// The bucket of the network that keeps bootstrap data.
    pub(in crate::awsmachine) fn bootstrap_bucket(&self) -> Option<&NetworkBootstrapBucket> {
        self.merged.network.bootstrap_bucket()
    }

    /// The tags that a launch sets and that can change afterwards.
    pub(in crate::awsmachine) fn applied_tags(&self, machine: &AWSMachine) -> Tags {
        additional_tags(&machine.spec, &self.references.network)
    }

    /// The security groups that a launch adds to those of the network.
    pub(in crate::awsmachine) fn applied_groups(&self, machine: &AWSMachine) -> AppliedSecurityGroups {
        let of_network = self.references.network.security_groups.iter();
        let of_network: Vec<&String> = of_network.flat_map(|groups| groups.of_machine(self.location.role)).collect();
        let mut ids = self.references.additional_security_group_ids.clone();
        ids.retain(|id| !of_network.contains(&id));
        ids.sort_unstable();
        ids.dedup();
        AppliedSecurityGroups { references: machine.spec.additional_security_groups.clone(), ids, pending: None }
    }
}
