//! Losses, restores, moves, and instances that users give up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use capa_api::conditions::{ConditionType, Reason, find};
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::{AWSMachine, AWSMachineStatus};
use capa_api::meta::{
    ABANDON_INSTANCE_ANNOTATION, ADOPT_INSTANCE_ANNOTATION, BLOCK_MOVE_ANNOTATION, annotation, has_annotation,
};
use kube::ResourceExt;

use super::annotate;
use crate::aws::{ACCOUNT, launcher_of, machine_of};
use crate::coverage::Situation;
use crate::management_cluster::ManagementCluster;
use crate::names::{CLUSTER, machine_key, machine_name};
use crate::objects::is_planned;
use crate::server::Server;
use crate::simulation::Simulation;

/// Whoever has claimed a foreign instance, launched into another account, or lost the record of an instance that is
/// gone, has to give it up by hand.
pub(super) fn give_up(simulation: &mut Simulation, of: ManagementCluster) {
    let now = simulation.now();
    let machines = simulation.outside.server(of).stored.aws_machines.values();
    let machines: Vec<_> = machines.cloned().collect();
    for machine in machines {
        let status = machine.status.clone().unwrap_or_default();
        let says = |condition, reason: Reason| {
            find(&status.conditions, condition).is_some_and(|condition| condition.reason == reason.as_str())
        };
        if machine.metadata.deletion_timestamp.is_none() {
            continue;
        }
        if says(ConditionType::InstanceReady, Reason::NotOwned) {
            let server = simulation.outside.server_mut(of);
            server.edit(&machine.name_any(), |machine: &mut AWSMachine| {
                machine.metadata.finalizers = None;
            });
        }
        let known = if says(ConditionType::IdentityReady, Reason::AccountMismatch) {
            // A host may be in the other account although no launch is recorded.
            let may_have_more = status.launch.is_none() || status.dedicated_host.is_some();
            let of_search = || Some(search_token(&machine)).filter(|_| may_have_more);
            recorded(&status).or_else(|| machine.spec.instance_id.clone()).or_else(of_search)
        } else if says(ConditionType::InstanceReady, Reason::DeletionBlocked) {
            let is_not_here = |id: &&str| {
                let instance = simulation.outside.aws.instance(id);
                !instance.is_some_and(|instance| instance.is_live(now) && instance.account == ACCOUNT)
            };
            let named = machine.spec.instance_id.as_deref().filter(is_not_here);
            let annotated = annotation(&machine.metadata, ADOPT_INSTANCE_ANNOTATION).filter(is_not_here);
            let of_search = annotated.map(|_| search_token(&machine));
            named.map(str::to_owned).or(of_search)
        } else {
            None
        };
        let Some(known) = known else { continue };
        if status.has_open_attempt() || status.launch.is_none() || status.dedicated_host.is_some() {
            // What it may have elsewhere is given up, and what it had here before a backup was restored with that.
            simulation.invariants.gives_up(of, &machine.name_any());
        }
        let server = simulation.outside.server_mut(of);
        server.edit(&machine.name_any(), |machine: &mut AWSMachine| {
            annotate(machine, ABANDON_INSTANCE_ANNOTATION, Some(&known));
        });
    }
}

/// The value of the annotation for a machine of which nothing is known.
fn search_token(machine: &AWSMachine) -> String {
    format!("{}-0", machine.uid().unwrap_or_default())
}

/// The instance or the attempt that a status records.
fn recorded(status: &AWSMachineStatus) -> Option<String> {
    let launch = status.launch.as_ref()?;
    let token = || launch.request().map(|request| request.client_token.clone());
    launch.instance_id().map(str::to_owned).or_else(token)
}

pub(super) fn lose_status(simulation: &mut Simulation, of: ManagementCluster, number: usize) {
    note_lost_status(simulation, of, number);
    simulation.invariants.loses_status(of, &machine_name(number));
    let lose = |machine: &mut AWSMachine| machine.status = None;
    simulation.outside.server_mut(of).edit(&machine_name(number), lose);
}

fn note_lost_status(simulation: &mut Simulation, of: ManagementCluster, number: usize) {
    let (now, key) = (simulation.now(), machine_key(&machine_name(number)));
    let is_there = simulation.outside.server(of).get::<AWSMachine>(&machine_name(number));
    let launched = simulation.outside.aws.accounts.launched();
    let last = launched.filter(|instance| launcher_of(instance) == Some(of) && machine_of(instance) == Some(&key));
    if let Some(instance) = last.max_by_key(|instance| instance.launched_at)
        && is_there.is_some()
    {
        if !instance.is_live(now) {
            simulation.coverage.situation(Situation::StatusLostAfterEnd);
        } else if now < instance.visible_from {
            simulation.coverage.situation(Situation::StatusLostWhileHidden);
        }
    }
}

/// Once the cluster is provisioned. A machine of an older snapshot says that it was never launched, and the network by
/// which that could be checked is not there: the record is the proof then.
pub(super) fn take_snapshot(simulation: &mut Simulation, of: ManagementCluster) {
    let server = simulation.outside.server(of);
    let cluster = server.get::<Cluster>(CLUSTER);
    if cluster.is_some_and(|cluster| cluster.infrastructure_provisioned()) {
        simulation.snapshot = Some(server.stored.clone());
    }
}

pub(super) fn move_machines(simulation: &mut Simulation, of: ManagementCluster) {
    let server = simulation.outside.server(of);
    let machines: Vec<Arc<AWSMachine>> = server.stored.aws_machines.values().cloned().collect();
    let owners: Vec<Arc<Machine>> = server.stored.machines.values().cloned().collect();
    let stays = |machine: &Arc<AWSMachine>| {
        has_annotation(&machine.metadata, BLOCK_MOVE_ANNOTATION) || machine.metadata.deletion_timestamp.is_some()
    };
    let ends = |owner: &Arc<Machine>| owner.metadata.deletion_timestamp.is_some();
    if machines.iter().any(stays) || owners.iter().any(ends) {
        return;
    }
    simulation.invariants.move_objects(of, true);
    for machine in &machines {
        simulation.invariants.loses_status(of, &machine.name_any());
    }
    recreate(simulation.outside.server_mut(of), &machines, &owners);
    simulation.settle(Duration::ZERO);
    simulation.invariants.move_objects(of, false);
}

/// Creates objects under new UIDs in the place of the old ones. Owner references follow.
fn recreate(server: &mut Server, machines: &[Arc<AWSMachine>], owners: &[Arc<Machine>]) {
    let mut uids = BTreeMap::new();
    for owner in owners {
        server.remove::<Machine>(&owner.name_any());
        let moved = server.create(Machine::clone(owner));
        uids.insert(owner.uid(), moved.uid());
    }
    for machine in machines {
        server.remove::<AWSMachine>(&machine.name_any());
        let mut moved = AWSMachine::clone(machine);
        moved.status = None;
        for owner in moved.owner_references_mut() {
            if let Some(Some(uid)) = uids.get(&Some(owner.uid.clone())) {
                owner.uid.clone_from(uid);
            }
        }
        server.create(moved);
    }
}

pub(super) fn restore(simulation: &mut Simulation, of: ManagementCluster) {
    let Some(snapshot) = simulation.snapshot.clone() else {
        return;
    };
    simulation.invariants.restores_backup(of, true);
    let now = simulation.now();
    for name in snapshot.aws_machines.keys() {
        simulation.invariants.loses_status(of, name);
    }
    simulation.outside.server_mut(of).restore(&snapshot);
    simulation.settle(Duration::ZERO);
    let machines = snapshot.aws_machines.iter();
    for (name, machine) in machines {
        if machine.finalizers().is_empty() {
            simulation.invariants.restores_unheld(of, name);
        }
        if is_planned(machine) {
            simulation.invariants.restores_planned(of, name, now);
        }
    }
    simulation.invariants.restores_backup(of, false);
    simulation.stop(of, Duration::from_secs(20));
}
