//! UserActions of users with objects that name instances, owners or finalizers of others.

use capa_api::conditions::{ConditionType, Reason, find};
use capa_api::contract::Machine;
use capa_api::machine::AWSMachine;
use capa_api::meta::{self, ADOPT_INSTANCE_ANNOTATION, ADOPT_NO_INSTANCE, BLOCK_MOVE_ANNOTATION};
use kube::ResourceExt;

use super::annotate;
use crate::aws::ACCOUNT;
use crate::management_cluster::ManagementCluster;
use crate::names::{self, CLUSTER, machine_key, machine_name};
use crate::objects;
use crate::simulation::Simulation;

/// The owner that a forged AWSMachine names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgery {
    /// A pattern that a filter of EC2 would match with every machine.
    AnyMachine,
    /// A Machine that there is not.
    Nobody,
    /// The Machine of another AWSMachine, by its name alone.
    NameOf(usize),
    /// The same, with the right UID.
    NameAndUidOf(usize),
}

/// Creates a Machine whose AWSMachine names an instance of the user's as its own.
pub(super) fn create_claim(simulation: &mut Simulation, of: ManagementCluster, number: usize) {
    let now = simulation.now();
    let tags = [
        (meta::cluster_tag(CLUSTER), meta::OWNED_TAG_VALUE.to_owned()),
        (meta::ROLE_TAG.to_owned(), meta::NODE_ROLE_TAG_VALUE.to_owned()),
    ];
    let Ok(instance) = simulation.outside.aws.launch_foreign(now, &tags) else {
        return;
    };
    let server = simulation.outside.server_mut(of);
    objects::create_machine(server, &machine_name(number), Some(&instance.id));
}

/// Copies an AWSMachine as `kubectl get` and `kubectl create` do: metadata and spec, not the status.
pub(super) fn copy(simulation: &mut Simulation, of: ManagementCluster, number: usize, with_ids: bool) {
    let server = simulation.outside.server_mut(of);
    let copy = names::impostor_name(number);
    let original = server.get::<AWSMachine>(&machine_name(number));
    if let Some(original) = original
        && server.get::<AWSMachine>(&copy).is_none()
    {
        let mut machine = AWSMachine::clone(&original);
        machine.metadata.name = Some(copy);
        machine.metadata.deletion_timestamp = None;
        machine.status = None;
        if !with_ids {
            machine.spec.provider_id = None;
            machine.spec.instance_id = None;
        }
        server.create(machine);
    }
}

/// Creates an AWSMachine that looks as if the provider had launched an instance for it.
pub(super) fn forge(simulation: &mut Simulation, of: ManagementCluster, forgery: Forgery) {
    let server = simulation.outside.server_mut(of);
    let uid_of = |number| {
        let machine = server.get::<Machine>(&machine_name(number));
        machine.and_then(|machine| machine.uid()).unwrap_or_default()
    };
    let (owner, uid) = match forgery {
        Forgery::AnyMachine => ("*".to_owned(), "forged".to_owned()),
        Forgery::Nobody => (machine_name(9), "forged".to_owned()),
        Forgery::NameOf(number) => (machine_name(number), "forged".to_owned()),
        Forgery::NameAndUidOf(number) => (machine_name(number), uid_of(number)),
    };
    let mut machine = objects::aws_machine(&names::impostor_name(9), &owner, &uid);
    machine.finalizers_mut().push(meta::MACHINE_FINALIZER.to_owned());
    if server.get::<AWSMachine>(&machine.name_any()).is_none() {
        server.create(machine);
    }
}

pub(super) fn delete_impostors(simulation: &mut Simulation, of: ManagementCluster) {
    let now = simulation.now();
    let server = simulation.outside.server_mut(of);
    let names: Vec<String> = server.stored.aws_machines.keys().cloned().collect();
    for name in names.into_iter().filter(|name| names::is_impostor(name)) {
        server.delete::<AWSMachine>(&name, now);
    }
}

/// A user who knows which instance is the machine's, or that none is, sets or removes the annotation in the message.
pub(super) fn resolve_conflicts(simulation: &mut Simulation, of: ManagementCluster) {
    let machines = simulation.outside.server(of).stored.aws_machines.values();
    let machines: Vec<_> = machines.cloned().collect();
    for machine in machines {
        if names::is_impostor(&machine.name_any()) {
            continue;
        }
        let status = machine.status.clone().unwrap_or_default();
        let says = |condition, reason: Reason| {
            find(&status.conditions, condition).is_some_and(|condition| condition.reason == reason.as_str())
        };
        let key = machine_key(&machine.name_any());
        let live: Vec<_> = simulation.outside.aws.live_of(simulation.now(), of, &key).collect();
        let (annotation, value) = if says(ConditionType::InstanceReady, Reason::Conflict) {
            let own = live.first().map_or(ADOPT_NO_INSTANCE, |instance| instance.id.as_str());
            (ADOPT_INSTANCE_ANNOTATION, Some(own.to_owned()))
        } else if says(ConditionType::IdentityReady, Reason::AccountMismatch)
            && status.launch.is_none()
            && live.iter().all(|instance| instance.account == ACCOUNT)
        {
            (BLOCK_MOVE_ANNOTATION, None)
        } else {
            continue;
        };
        let server = simulation.outside.server_mut(of);
        server.edit(&machine.name_any(), |machine: &mut AWSMachine| {
            annotate(machine, annotation, value.as_deref());
        });
    }
}
