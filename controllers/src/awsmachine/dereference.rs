//! Reads what a pass decides by: owners, network sources, identity, bootstrap data, lookups in AWS. Needs clients.

use std::sync::Arc;

use capa_api::common::{IdentityReference, ResourceReference};
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::core::{Cluster, Machine};
use capa_api::machine::{AWSMachine, AWSMachineSpec, LaunchRecord};
use capa_api::meta;
use capa_api::network::{MachineNetwork, NetworkSubnet};
use capa_cloud::{CloudError, ErrorClass, MachineCloud, Query, Subnet, UserData, zone_type};
use capa_network::{Merged, Problem, merge};

use super::{MachineContext, MachineScope, Owners, bootstrap, request, sources};
use crate::identity::{self, IdentityRequest};
use crate::kubernetes_api::{KubernetesError, MachineKubernetes, NetworkKubernetes};

/// The owning Machine and its Cluster, from caches.
pub(super) fn owners(machine: &AWSMachine, kubernetes: &dyn MachineKubernetes) -> Owners {
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    let owner = meta::owner_machine_name(&machine.metadata).and_then(|name| kubernetes.machine(namespace, name));
    let cluster_name = match &owner {
        Some(owner) => Some(owner.spec.cluster_name.as_str()),
        None => meta::cluster_name_label(&machine.metadata),
    };
    let cluster = cluster_name.and_then(|name| kubernetes.cluster(namespace, name));
    Owners {
        machine: owner,
        cluster,
    }
}

/// The Cluster of a machine, which is named by its owner, or else by its label.
pub(crate) fn cluster_of(machine: &AWSMachine, kubernetes: &dyn MachineKubernetes) -> Option<Arc<Cluster>> {
    owners(machine, kubernetes).cluster
}

/// Name of the Machine, which tags carry. An AWSMachine has its Machine's name, so it is known even where the owner
/// reference is lost.
pub(crate) fn machine_name(machine: &AWSMachine) -> &str {
    let metadata = &machine.metadata;
    meta::owner_machine_name(metadata)
        .or(metadata.name.as_deref())
        .unwrap_or_default()
}

/// The instance of a machine: as recorded, else as its spec names it. While an attempt is open the spec says nothing:
/// the instance that may exist is the attempt's.
pub(super) fn instance_id(machine: &AWSMachine) -> Option<String> {
    let record = machine.status.as_ref().and_then(|status| status.launch.as_ref());
    if record.is_some_and(LaunchRecord::is_open) {
        return None;
    }
    recorded_instance_id(machine)
        .map(str::to_owned)
        .or_else(|| claimed_instance_id(&machine.spec))
}

/// The instance that our own record names.
pub(super) fn recorded_instance_id(machine: &AWSMachine) -> Option<&str> {
    machine.status.as_ref()?.launch.as_ref()?.instance_id.as_deref()
}

/// What keeps a spec from naming an instance: an id that none can have, or two that differ.
pub(super) fn contradiction(spec: &AWSMachineSpec) -> Option<String> {
    let [provider_id, instance_id] = named_instances(spec);
    for (field, named) in [("providerID", provider_id), ("instanceID", instance_id)] {
        if let Some((text, id)) = named
            && !is_instance_id(id)
        {
            return Some(format!(
                "{field} is {text:?}, which names no EC2 instance: leave it out, it is written once one runs"
            ));
        }
    }
    match (provider_id, instance_id) {
        (Some((_, provider_id)), Some((_, instance_id))) if provider_id != instance_id => Some(format!(
            "providerID names instance {provider_id} and instanceID {instance_id}: leave both out, they are written once \
             an instance runs"
        )),
        _ => None,
    }
}

/// `providerID` and `instanceID` where they are set: the text, and the instance's id in it.
fn named_instances(spec: &AWSMachineSpec) -> [Option<(&str, &str)>; 2] {
    [&spec.provider_id, &spec.instance_id].map(|field| {
        let text = field.as_deref().filter(|text| !text.is_empty())?;
        Some((text, text.rsplit('/').next().unwrap_or(text)))
    })
}

/// Whether EC2 gives such ids. Anything else, a wildcard for instance, would ask EC2 for other instances.
fn is_instance_id(text: &str) -> bool {
    text.strip_prefix("i-")
        .is_some_and(|digits| (8..=17).contains(&digits.len()) && digits.chars().all(|digit| digit.is_ascii_hexdigit()))
}

/// The field by which the spec names another instance than this one, and what stands there.
pub(super) fn names_another<'a>(spec: &'a AWSMachineSpec, instance_id: &str) -> Option<(&'static str, &'a str)> {
    let [by_provider_id, by_instance_id] = named_instances(spec);
    let named = [("providerID", by_provider_id), ("instanceID", by_instance_id)];
    let mut others = named.into_iter().filter_map(|(field, named)| Some((field, named?)));
    let (field, (text, _)) = others.find(|(_, (_, id))| *id != instance_id)?;
    Some((field, text))
}

/// The instance that the spec names, which users can write as well.
fn claimed_instance_id(spec: &AWSMachineSpec) -> Option<String> {
    if contradiction(spec).is_some() {
        return None;
    }
    let [by_provider_id, by_instance_id] = named_instances(spec);
    let (_, id) = by_instance_id.or(by_provider_id)?;
    Some(id.to_owned())
}

/// Whether the machine names its subnet itself.
pub(super) fn names_subnet(spec: &AWSMachineSpec) -> bool {
    let subnet = spec.subnet.as_ref();
    subnet.is_some_and(|subnet| given_id(subnet).is_some() || !subnet.filters.is_empty())
}

/// The network of a machine's sources, with the machine's own subnet filters left aside.
pub(super) async fn network(machine: &AWSMachine, cluster: &Cluster, context: &MachineContext) -> Merged {
    let name = format!("AWSMachine/{}", machine.metadata.name.as_deref().unwrap_or_default());
    network_of(name, &machine.spec, cluster, context.kubernetes.as_ref()).await
}

/// The network that this machine spec and the cluster's infrastructure object make together; `name` is whose spec it is.
pub(crate) async fn network_of(
    name: String,
    spec: &AWSMachineSpec,
    cluster: &Cluster,
    kubernetes: &dyn NetworkKubernetes,
) -> Merged {
    let mut found = vec![sources::own(name, spec)];
    if let Some(reference) = &cluster.spec.infrastructure_ref {
        let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
        let read = kubernetes.infrastructure(namespace, reference).await;
        found.extend(sources::infrastructure(reference, read));
    }
    merge(&found)
}

/// AWS as one machine uses it.
pub(super) struct Access {
    /// The client.
    pub(super) cloud: Arc<dyn MachineCloud>,
    /// The account its credentials belong to.
    pub(super) account_id: String,
}

/// Connects, or gives the condition that says why not.
pub(super) async fn access(
    scope: &MachineScope,
    reference: &IdentityReference,
    region: &str,
    cluster_name: &str,
    context: &MachineContext,
) -> Result<Result<Access, ConditionUpdate>, KubernetesError> {
    let request = IdentityRequest {
        reference,
        namespace: scope.namespace(),
        cluster_name,
        identity_namespace: &context.identity_namespace,
    };
    let identity = match identity::resolve(context.kubernetes.as_ref(), &request).await? {
        Ok(identity) => identity,
        Err(problem) => return Ok(Err(problem.condition())),
    };
    let cloud = context.clouds.machines(&identity, region);
    Ok(match cloud.account_id().await {
        Ok(account_id) => match other_account(scope, &account_id) {
            None => Ok(Access { cloud, account_id }),
            Some(update) => Err(update),
        },
        Err(error) => {
            let reason = match error.class {
                ErrorClass::Unauthorized => Reason::CredentialsFailed,
                ErrorClass::Throttled => Reason::Throttled,
                _ => Reason::Failed,
            };
            Err(ConditionType::IdentityReady.is_false(
                reason,
                format!("the credentials of {}/{} fail: {error}", reference.kind, reference.name),
            ))
        }
    })
}

/// A changed identity or endpoint must never look like a vanished instance.
fn other_account(scope: &MachineScope, account_id: &str) -> Option<ConditionUpdate> {
    let recorded = scope
        .status
        .network
        .as_ref()?
        .account_id
        .as_deref()
        .filter(|recorded| *recorded != account_id)?;
    Some(ConditionType::IdentityReady.is_false(
        Reason::AccountMismatch,
        format!(
            "the credentials belong to account {account_id}, but the instance lives in {recorded}: \
             give the identity credentials of {recorded}"
        ),
    ))
}

/// Reads the bootstrap Secret.
pub(super) async fn user_data(
    scope: &MachineScope,
    owner: &Machine,
    context: &MachineContext,
) -> Result<Result<UserData, ConditionUpdate>, KubernetesError> {
    let Some(name) = owner.bootstrap_secret_name() else {
        return Ok(Err(ConditionType::BootstrapDataReady.is_false(
            Reason::WaitingForBootstrapData,
            "the Machine names no bootstrap Secret yet (spec.bootstrap.dataSecretName)",
        )));
    };
    let secret = context.kubernetes.secret(scope.namespace(), name).await?;
    Ok(bootstrap::user_data(&scope.machine.spec, secret.as_ref(), name))
}

/// What AWS alone can tell before a launch.
pub(super) struct Surroundings {
    /// The network with the machine's own subnet resolved and missing zones filled in.
    pub(super) network: MachineNetwork,
    /// `additionalSecurityGroups` as ids.
    pub(super) additional_security_group_ids: Vec<String>,
    /// Device of the image's root volume, where the spec shapes that volume.
    pub(super) root_device: Option<String>,
}

/// Why the surroundings are not known.
pub(super) enum SurroundingsError {
    /// The spec asks for what is not there.
    Problem(Problem),
    /// A call failed.
    Cloud(CloudError),
}

impl From<CloudError> for SurroundingsError {
    fn from(error: CloudError) -> Self {
        Self::Cloud(error)
    }
}

/// Resolves filters, zones and the root device; asks AWS only for what the spec leaves open.
pub(super) async fn surroundings(
    spec: &AWSMachineSpec,
    network: &MachineNetwork,
    cloud: &dyn MachineCloud,
) -> Result<Surroundings, SurroundingsError> {
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
        let region = network.region.clone().unwrap_or_default();
        for subnet in &mut network.subnets {
            if let Some(seen) = seen.iter().find(|seen| seen.id == subnet.id) {
                subnet.zone_type = subnet
                    .zone_type
                    .or_else(|| zone_type(&region, &seen.availability_zone).parse().ok());
                subnet.availability_zone = Some(seen.availability_zone.clone());
            }
        }
    }
    Ok(Surroundings {
        additional_security_group_ids: additional_groups(spec, &network, cloud).await?,
        root_device: root_device(spec, cloud).await?,
        network,
    })
}

/// The subnets that the machine's own filters match; `None` where it has none.
async fn filtered_subnets(
    spec: &AWSMachineSpec,
    network: &MachineNetwork,
    cloud: &dyn MachineCloud,
) -> Result<Option<Vec<NetworkSubnet>>, SurroundingsError> {
    let Some(reference) = &spec.subnet else {
        return Ok(None);
    };
    let Some(query) = filter_query(reference, "subnet-id", network) else {
        return Ok(None);
    };
    let found = cloud.subnets(&query).await?;
    if found.is_empty() {
        let message = match given_id(reference) {
            Some(id) => format!(
                "subnet {id} of spec.subnet.id does not exist here or does not match spec.subnet.filters: correct either"
            ),
            None => "no subnet matches spec.subnet.filters: correct the filters or tag a subnet".to_owned(),
        };
        return Err(SurroundingsError::Problem(Problem::new(Reason::NotFound, message)));
    }
    Ok(Some(found.iter().map(|subnet| as_network(subnet, network)).collect()))
}

async fn additional_groups(
    spec: &AWSMachineSpec,
    network: &MachineNetwork,
    cloud: &dyn MachineCloud,
) -> Result<Vec<String>, SurroundingsError> {
    let mut ids = Vec::new();
    for reference in &spec.additional_security_groups {
        let Some(query) = filter_query(reference, "group-id", network) else {
            ids.extend(given_id(reference).cloned());
            continue;
        };
        let mut found: Vec<String> = cloud
            .security_groups(&query)
            .await?
            .into_iter()
            .map(|group| group.id)
            .collect();
        if found.is_empty() {
            return Err(SurroundingsError::Problem(Problem::new(
                Reason::NotFound,
                "no security group matches a filter of spec.additionalSecurityGroups: correct it or tag a group",
            )));
        }
        found.sort();
        ids.extend(found);
    }
    Ok(ids)
}

async fn root_device(spec: &AWSMachineSpec, cloud: &dyn MachineCloud) -> Result<Option<String>, SurroundingsError> {
    let Some(volume) = &spec.root_volume else {
        return Ok(None);
    };
    if volume.device_name.as_ref().is_some_and(|name| !name.is_empty()) {
        return Ok(None);
    }
    let image_id = request::image_id(spec).unwrap_or_default();
    let images = cloud.images(&Query::filter("image-id", [image_id])).await?;
    match images.into_iter().next() {
        Some(image) if image.root_device_name.is_some() => Ok(image.root_device_name),
        _ => Err(SurroundingsError::Problem(Problem::new(
            Reason::NotFound,
            format!(
                "image {image_id} does not exist here or names no root device: correct ami.id or set rootVolume.deviceName"
            ),
        ))),
    }
}

fn given_id(reference: &ResourceReference) -> Option<&String> {
    reference.id.as_ref().filter(|id| !id.is_empty())
}

/// What finds the objects that a reference filters for; `None` where an id is all it has.
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
        // Names and tags repeat from VPC to VPC; only what lies in the machine's own can be used.
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
