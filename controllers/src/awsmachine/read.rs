//! The reads of a pass: owners, network sources, bootstrap data, and the lookups in AWS before a launch.

use std::sync::Arc;

use capa_api::common::{IdentityReference, ResourceReference};
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::{AWSMachine, AWSMachineSpec};
use capa_api::meta;
use capa_api::network::{MachineNetwork, NetworkSubnet};
use capa_cloud::{CloudError, Instance, MachineCloud, MachineKey, Query, Subnet, zone_type};
use capa_network::{Merged, Problem};
use capa_runtime::reconcile::Next;

use super::blocked::{Blocked, FlowError};
use super::context::MachineContext;
use super::ownership::{self, Claim, Evidence, OwnerProblem, Ownership, verified_owner};
use super::scope::{MachineScope, Owners, key};
use super::spec::given_id;
use crate::identity::identity_group;
use crate::kubernetes_api::{BeingRead, MachineKubernetes, NetworkReader, NetworkReaderKind};
use crate::launching::bootstrap::{self, BootstrapData, Format};
use crate::launching::bootstrap_secret;
use crate::launching::network::read_network;

/// The Machine that owns an AWSMachine, and its Cluster, from caches.
pub(super) fn owners(machine: &AWSMachine, kubernetes: &dyn MachineKubernetes) -> Owners {
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    let owner = owner(machine, kubernetes);
    let cluster_name = match &owner {
        Ok(owner) => Some(owner.spec.cluster_name.as_str()),
        Err(_) => meta::cluster_name_label(&machine.metadata),
    };
    let cluster = cluster_name.and_then(|name| kubernetes.cluster(namespace, name));
    Owners {
        machine: owner,
        cluster,
    }
}

/// The verified owner of an AWSMachine, from the cache.
fn owner(machine: &AWSMachine, kubernetes: &dyn MachineKubernetes) -> Result<Arc<Machine>, OwnerProblem> {
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    let named = meta::owner_machine_name(&machine.metadata).and_then(|name| kubernetes.machine(namespace, name));
    verified_owner(machine, named)
}

/// The Cluster of a machine. The owner names the Cluster; without an owner, the label does.
pub(crate) fn cluster_of(machine: &AWSMachine, kubernetes: &dyn MachineKubernetes) -> Option<Arc<Cluster>> {
    owners(machine, kubernetes).cluster
}

/// The ownership of an instance from AWS. `cluster_tag` is the name of the cluster in tags.
pub(super) fn ownership(
    scope: &MachineScope,
    instance: &Instance,
    cluster_tag: &str,
    context: &MachineContext,
) -> Ownership {
    let kubernetes = context.kubernetes.as_ref();
    let claims = kubernetes.machines_with_instance(&instance.id).into_iter();
    let claims = claims.map(|machine| Claim {
        has_owner: owner(&machine, kubernetes).is_ok(),
        machine,
    });
    let evidence = Evidence {
        machine: &scope.machine,
        owner: &scope.owners.machine,
        tags: scope.tags(cluster_tag),
        claims: &claims.collect::<Vec<_>>(),
    };
    ownership::ownership(instance, &evidence)
}

/// The network of the machine's sources. Its own subnet filters are not resolved. The memory keeps the group of the
/// identity, because no record may contain the identity yet.
pub(super) async fn network(
    scope: &MachineScope,
    cluster: &Cluster,
    context: &MachineContext,
) -> Result<Merged, BeingRead> {
    let machine = &scope.machine;
    let MachineKey { namespace, name } = key(machine);
    let reader = NetworkReader {
        kind: NetworkReaderKind::Machine,
        namespace,
        name,
    };
    let role = Some(scope.owners.role(machine));
    let merged = read_network(&reader, &machine.spec, role, cluster, context.kubernetes.as_ref()).await?;
    if let Some(region) = merged.network.region.as_deref() {
        let default = IdentityReference::controller_default;
        let identity = merged.network.identity_ref.clone().unwrap_or_else(default);
        let uid = machine.metadata.uid.as_deref().unwrap_or_default();
        context
            .memory
            .uses_identity(uid, identity_group(&identity, Some(region)));
    }
    Ok(merged)
}

/// The bootstrap data of the machine, from its bootstrap Secret.
pub(super) async fn bootstrap_data(
    scope: &MachineScope,
    owner: &Machine,
    context: &MachineContext,
) -> Result<BootstrapData, FlowError> {
    let Some(name) = owner.bootstrap_secret_name() else {
        let message = "the Machine names no bootstrap Secret yet (spec.bootstrap.dataSecretName)";
        let waiting = ConditionType::BootstrapDataReady.is_false(Reason::WaitingForBootstrapData, message);
        return Err(Blocked::new(waiting, Next::AwaitChange).into());
    };
    bootstrap_secret::validate_name(name).map_err(|update| Blocked::new(update, Next::AwaitChange))?;
    // The controller watches the Machine, but not its Secret.
    let unusable = |update| Blocked::new(update, Next::Retry);
    let secret = context.kubernetes.secret(scope.namespace(), name).await;
    let secret = secret.map_err(|error| {
        let message = format!("Secret {}/{name} cannot be read: {}", scope.namespace(), error.answer());
        unusable(ConditionType::BootstrapDataReady.is_false(Reason::Failed, message))
    })?;
    if let Some(secret) = &secret {
        bootstrap_secret::validate(secret, owner.spec.bootstrap.config_ref.as_ref()).map_err(unusable)?;
    }
    Ok(bootstrap::bootstrap_data(&scope.machine.spec, secret.as_ref(), name).map_err(unusable)?)
}

/// The format of the machine's bootstrap data; `None` if its Secret is gone, or cannot be read.
pub(super) async fn bootstrap_format(scope: &MachineScope, context: &MachineContext) -> Option<Format> {
    let owner = scope.owners.machine.as_ref().ok()?;
    let name = owner.bootstrap_secret_name()?;
    bootstrap_secret::validate_name(name).ok()?;
    let secret = context.kubernetes.secret(scope.namespace(), name).await.ok()??;
    bootstrap_secret::validate(&secret, owner.spec.bootstrap.config_ref.as_ref()).ok()?;
    bootstrap::format_of(&secret)
}

/// The inputs of a launch that are looked up in AWS.
pub(super) struct ResolvedInputs {
    /// The network with the machine's own subnet resolved and missing zones filled in.
    pub(super) network: MachineNetwork,
    /// `additionalSecurityGroups` as ids.
    pub(super) additional_security_group_ids: Vec<String>,
}

/// The reason why the inputs of a launch cannot be resolved.
enum LookupError {
    /// The spec names a resource that does not exist.
    Problem(Problem),
    /// A call failed.
    Cloud(CloudError),
}

impl From<CloudError> for LookupError {
    fn from(error: CloudError) -> Self {
        Self::Cloud(error)
    }
}

impl LookupError {
    fn blocks(self, condition: ConditionType, region: &str) -> Blocked {
        match self {
            Self::Problem(problem) => Blocked::new(condition.is_false(problem.reason, problem.message), Next::Retry),
            Self::Cloud(error) => {
                let message = format!("a lookup in {region} failed: {error}");
                Blocked::by_call(condition, message, &error)
            }
        }
    }
}

/// `NetworkReady` of a machine whose network has this problem.
pub(super) fn network_not_ready(problem: &Problem) -> ConditionUpdate {
    ConditionType::NetworkReady.is_false(problem.reason, problem.message.clone())
}

/// Resolves filters and zones. The function makes a call only for inputs that the spec does not
/// contain.
pub(super) async fn resolve_inputs(
    spec: &AWSMachineSpec,
    network: &MachineNetwork,
    cloud: &dyn MachineCloud,
) -> Result<ResolvedInputs, Blocked> {
    let found = look_up_inputs(spec, network, cloud).await;
    found.map_err(|error| error.blocks(ConditionType::NetworkReady, region_of(network)))
}

/// Resolves `additionalSecurityGroups` for an instance that runs.
pub(super) async fn additional_security_groups(
    spec: &AWSMachineSpec,
    network: &MachineNetwork,
    cloud: &dyn MachineCloud,
) -> Result<Vec<String>, Blocked> {
    let found = additional_groups(spec, network, cloud).await;
    found.map_err(|error| error.blocks(ConditionType::SecurityGroupsReady, region_of(network)))
}

/// The region of a network; empty without one.
fn region_of(network: &MachineNetwork) -> &str {
    network.region.as_deref().unwrap_or_default()
}

async fn look_up_inputs(
    spec: &AWSMachineSpec,
    network: &MachineNetwork,
    cloud: &dyn MachineCloud,
) -> Result<ResolvedInputs, LookupError> {
    let mut network = network.clone();
    if let Some(subnets) = filtered_subnets(spec, &network, cloud).await? {
        network.subnets = subnets;
    }
    let without_zone: Vec<String> = network
        .subnets
        .iter()
        .filter(|subnet| subnet.availability_zone.is_none())
        .map(|subnet| subnet.id.clone())
        .collect();
    if !without_zone.is_empty() {
        let seen = cloud.subnets(&Query::filter("subnet-id", without_zone)).await?;
        let region = region_of(&network).to_owned();
        for subnet in &mut network.subnets {
            if let Some(seen) = seen.iter().find(|seen| seen.id == subnet.id) {
                subnet.zone_type = subnet
                    .zone_type
                    .or_else(|| zone_type(&region, &seen.availability_zone).parse().ok());
                subnet.availability_zone = Some(seen.availability_zone.clone());
            }
        }
    }
    Ok(ResolvedInputs {
        additional_security_group_ids: additional_groups(spec, &network, cloud).await?,
        network,
    })
}

/// The subnets that match the machine's own filters and id. `None` for a machine without filters.
async fn filtered_subnets(
    spec: &AWSMachineSpec,
    network: &MachineNetwork,
    cloud: &dyn MachineCloud,
) -> Result<Option<Vec<NetworkSubnet>>, LookupError> {
    let Some(reference) = &spec.subnet else {
        return Ok(None);
    };
    let Some(query) = filter_query(reference, "subnet-id", network) else {
        return Ok(None);
    };
    let mut found = cloud.subnets(&query).await?;
    found.retain(|subnet| given_id(reference).is_none_or(|id| *id == subnet.id));
    if found.is_empty() {
        let region = region_of(network);
        let message = match given_id(reference) {
            Some(id) => format!(
                "subnet {id} of spec.subnet.id does not exist in {region}, or does not match spec.subnet.filters: tag \
                 it, or name another in a new template"
            ),
            None => format!(
                "no subnet in {region}{} matches spec.subnet.filters: tag one, or name other filters in a new template",
                in_vpc(network)
            ),
        };
        return Err(LookupError::Problem(Problem::new(Reason::NotFound, message)));
    }
    Ok(Some(found.iter().map(|subnet| as_network(subnet, network)).collect()))
}

async fn additional_groups(
    spec: &AWSMachineSpec,
    network: &MachineNetwork,
    cloud: &dyn MachineCloud,
) -> Result<Vec<String>, LookupError> {
    let mut ids = Vec::new();
    for (index, reference) in spec.additional_security_groups.iter().enumerate() {
        let Some(query) = filter_query(reference, "group-id", network) else {
            ids.extend(given_id(reference).cloned());
            continue;
        };
        let mut found: Vec<String> = cloud
            .security_groups(&query)
            .await?
            .into_iter()
            .map(|group| group.id)
            .filter(|found| given_id(reference).is_none_or(|id| id == found))
            .collect();
        if found.is_empty() {
            let message = format!(
                "no security group in {}{} matches spec.additionalSecurityGroups[{index}]: tag one, or name other \
                 filters in a new template",
                region_of(network),
                in_vpc(network)
            );
            return Err(LookupError::Problem(Problem::new(Reason::NotFound, message)));
        }
        found.sort();
        ids.extend(found);
    }
    Ok(ids)
}

/// The VPC that narrows a query for filters, for messages.
fn in_vpc(network: &MachineNetwork) -> String {
    let vpc = network.vpc.as_ref();
    vpc.map_or_else(String::new, |vpc| format!(" ({})", vpc.id))
}

/// The query for the filters of a reference. `None` for a reference without filters.
fn filter_query(reference: &ResourceReference, id_filter: &str, network: &MachineNetwork) -> Option<Query> {
    if reference.filters.is_empty() {
        return None;
    }
    let filters = reference.filters.iter();
    let filters = filters.map(|filter| (filter.name.clone(), filter.values.clone()));
    let query = Query {
        filters: filters.collect(),
    };
    Some(match (given_id(reference), &network.vpc) {
        (Some(id), _) => query.and(id_filter, [id]),
        // Names and tags repeat from VPC to VPC: only resources of the machine's own VPC can be used.
        (None, Some(vpc)) => query.and("vpc-id", [vpc.id.clone()]),
        (None, None) => query,
    })
}

fn as_network(subnet: &Subnet, network: &MachineNetwork) -> NetworkSubnet {
    NetworkSubnet {
        id: subnet.id.clone(),
        availability_zone: Some(subnet.availability_zone.clone()),
        zone_type: zone_type(network.region.as_deref().unwrap_or_default(), &subnet.availability_zone)
            .parse()
            .ok(),
        ..NetworkSubnet::default()
    }
}
