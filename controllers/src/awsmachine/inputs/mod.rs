//! The inputs of a pass: owners, network sources, and the ownership of instances.

pub(super) mod launch;
pub(super) mod location;

use std::sync::Arc;

use capa_api::common::{IdentityReference, MachineRole};
use capa_api::conditions::{ConditionType, ConditionUpdate};
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::AWSMachine;
use capa_api::meta;
use capa_cloud::{Instance, MachineKey};
use capa_network::{Merged, Problem};

use crate::awsmachine::context::MachineContext;
use crate::awsmachine::ownership::{self, Claim, Evidence, OwnerProblem, Ownership, verified_owner};
use crate::awsmachine::scope::{MachineScope, Owners, key};
use crate::identity::identity_group;
use crate::kubernetes_api::{MachineKubernetes, NetworkReader, NetworkReaderKind, ReadPending};
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
    Owners { machine: owner, cluster }
}

/// The role of a machine.
pub(super) fn role(machine: &AWSMachine, kubernetes: &dyn MachineKubernetes) -> MachineRole {
    Owners { machine: owner(machine, kubernetes), cluster: None }.role(machine)
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
    let claims = claims.map(|machine| Claim { has_owner: owner(&machine, kubernetes).is_ok(), machine });
    let evidence = Evidence {
        machine: &scope.machine,
        owner: &scope.owners.machine,
        tags: scope.tags(cluster_tag),
        claims: &claims.collect::<Vec<_>>(),
    };
    ownership::ownership(instance, &evidence)
}

/// The network of the machine's sources, read once in a pass. Its own subnet filters are not resolved. The memory keeps
/// the group of the identity, because no record may contain the identity yet.
pub(super) async fn network(
    scope: &MachineScope,
    cluster: &Cluster,
    context: &MachineContext,
) -> Result<Arc<Merged>, ReadPending> {
    if let Some(merged) = scope.network.get() {
        return Ok(merged.clone());
    }
    let machine = &scope.machine;
    let MachineKey { namespace, name } = key(machine);
    let reader = NetworkReader { kind: NetworkReaderKind::Machine, namespace, name };
    let role = Some(scope.owners.role(machine));
    let merged = read_network(&reader, &machine.spec, role, cluster, context.kubernetes.as_ref()).await?;
    if let Some(region) = merged.network.region.as_deref() {
        let default = IdentityReference::controller_default;
        let identity = merged.network.identity_ref.clone().unwrap_or_else(default);
        let uid = machine.metadata.uid.as_deref().unwrap_or_default();
        context.memory.uses_identity(uid, identity_group(&identity, Some(region)));
    }
    Ok(scope.network.get_or_init(|| Arc::new(merged)).clone())
}

/// `NetworkReady` of a machine whose network has this problem.
pub(super) fn network_not_ready(problem: &Problem) -> ConditionUpdate {
    ConditionType::NetworkReady.is_false(problem.reason, problem.message.clone())
}
