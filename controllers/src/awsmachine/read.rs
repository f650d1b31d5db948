//! The reads of a pass: owners, network sources, bootstrap data, and the lookups in AWS before a launch.

use std::sync::Arc;

use capa_api::common::IdentityReference;
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::AWSMachine;
use capa_api::meta;
use capa_cloud::{Instance, MachineKey};
use capa_network::{Merged, Problem};
use capa_runtime::reconcile::Next;

use super::blocked::{Blocked, FlowError};
use super::context::MachineContext;
use super::ownership::{self, Claim, Evidence, OwnerProblem, Ownership, verified_owner};
use super::scope::{MachineScope, Owners, key};
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

/// `NetworkReady` of a machine whose network has this problem.
pub(super) fn network_not_ready(problem: &Problem) -> ConditionUpdate {
    ConditionType::NetworkReady.is_false(problem.reason, problem.message.clone())
}
