//! What users and AWS do while the controllers work.

use std::time::Duration;

use capa_api::cluster::AWSCluster;
use capa_api::conditions::{ConditionType, Reason, find};
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::{AWSMachine, LaunchRecord};
use capa_api::meta::{
    self, ABANDON_INSTANCE_ANNOTATION, ADOPT_INSTANCE_ANNOTATION, BLOCK_MOVE_ANNOTATION, PAUSED_ANNOTATION,
    has_annotation,
};
use capa_cloud::StateReason;
use kube::{Resource, ResourceExt};

use crate::aws::{INSTANCE_TYPE, MANAGER_KEY, MISTAKEN_KEY, OTHER_GROUP, ZONES, machine_of};
use crate::invariants::machine_key;
use crate::objects::{self, CLUSTER, machine_name};
use crate::outside::after;
use crate::simulation::Simulation;

/// One deed. Machines and zones go by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Creates a Machine.
    CreateMachine(usize),
    /// Creates a Machine whose spec names a foreign instance as its own.
    CreateClaim(usize),
    /// Deletes a Machine.
    DeleteMachine(usize),
    /// Deletes the Cluster and everything in it.
    DeleteCluster,
    /// Pauses the Cluster, or no more.
    PauseCluster(bool),
    /// Pauses an AWSMachine, or no more.
    PauseMachine(usize, bool),
    /// Changes metadata that nobody reads.
    Touch(usize),
    /// Writes other bootstrap data.
    RenewSecret(usize, u32),
    /// Gives the cluster's machines one more group from now on.
    AddGroup,
    /// Loses a machine's status, as a backup does that keeps none.
    LoseStatus(usize),
    /// Moves all AWSMachines to another management cluster as clusterctl does: under new UIDs, without their statuses,
    /// and not at all while one of them blocks it.
    Move,
    /// Takes a snapshot of etcd.
    TakeSnapshot,
    /// Stops all managers; they come back after so long.
    Stop(Duration),
    /// Ends such a stop before its time.
    EndStop,
    /// Puts etcd back to the last snapshot, and restarts the managers.
    RestoreSnapshot,
    /// Terminates a machine's instance by hand.
    KillInstance(usize),
    /// Registers those of their own instances that serve in a load balancer.
    Serve,
    /// Takes a machine's instance out of its load balancer by hand.
    TakeOut(usize),
    /// From now on instances die in `pending`, or no more.
    DieInPending(bool),
    /// A zone has no more capacity, or has it again.
    Capacity(usize, bool),
    /// The managers are restarted with a key of another account, or with the right one again.
    OtherAccount(bool),
    /// The same without a restart: new credentials of a running process are of another account.
    ReplaceKey(bool),
    /// AWS's listings miss a machine's instance for so long.
    Overlook(usize, Duration),
    /// AWS answers nothing for so long.
    Unreachable(Duration),
    /// Gives up what a deletion cannot reach.
    GiveUp,
}

impl Deed {
    pub(crate) fn perform(self, simulation: &mut Simulation) {
        let now = simulation.now();
        let outside = &mut simulation.outside;
        let server = &mut outside.server;
        match self {
            Self::CreateMachine(number) => objects::create_machine(server, &machine_name(number), None),
            Self::CreateClaim(number) => create_claim(simulation, number),
            Self::DeleteMachine(number) => server.delete::<Machine>(&machine_name(number), now),
            Self::DeleteCluster => server.delete::<Cluster>(CLUSTER, now),
            Self::PauseCluster(paused) => server.edit(CLUSTER, |cluster: &mut Cluster| {
                cluster.spec.paused = Some(paused);
                next_generation(cluster);
            }),
            Self::PauseMachine(number, paused) => server.edit(&machine_name(number), |machine: &mut AWSMachine| {
                annotate(machine, PAUSED_ANNOTATION, paused.then_some(""));
            }),
            Self::Touch(number) => server.edit(&machine_name(number), |machine: &mut AWSMachine| {
                let count = machine.metadata.resource_version.clone().unwrap_or_default();
                annotate(machine, "example.org/touched", Some(&count));
            }),
            Self::RenewSecret(number, version) => objects::write_secret(server, &machine_name(number), version),
            Self::AddGroup => server.edit(CLUSTER, add_group),
            Self::LoseStatus(number) => lose_status(simulation, number),
            Self::Move => move_machines(simulation),
            Self::TakeSnapshot => take_snapshot(simulation),
            Self::Stop(long) => simulation.stop(long),
            Self::EndStop => simulation.end_stop(),
            Self::RestoreSnapshot => restore(simulation),
            Self::KillInstance(number) => kill_instance(simulation, number),
            Self::Serve => {
                for id in outside.aws.serving.clone() {
                    outside.aws.user_target(now, &id, true);
                }
            }
            Self::TakeOut(number) => take_out(simulation, number),
            Self::DieInPending(die) => {
                outside.aws.region().behaviour().death_in_pending = die.then(|| StateReason {
                    code: "Server.InternalError".into(),
                    message: "Server.InternalError: Internal error on launch".into(),
                });
            }
            Self::Capacity(zone, available) => {
                if let Some((_, zone)) = ZONES.get(zone) {
                    outside.aws.region().set_capacity(INSTANCE_TYPE, zone, available);
                }
            }
            Self::OtherAccount(other) => {
                simulation.replace_key(key(other));
                simulation.stop(Duration::from_secs(1));
            }
            Self::ReplaceKey(other) => simulation.replace_key(key(other)),
            Self::GiveUp => give_up(simulation),
            Self::Overlook(number, long) => {
                outside.aws.overlooked = Some((machine_key(&machine_name(number)), after(now, long)));
            }
            Self::Unreachable(long) => outside.aws.unreachable_until = Some(after(now, long)),
        }
    }
}

fn key(of_another_account: bool) -> &'static str {
    if of_another_account { MISTAKEN_KEY } else { MANAGER_KEY }
}

fn annotate(object: &mut impl Resource, key: &str, value: Option<&str>) {
    let annotations = object.meta_mut().annotations.get_or_insert_default();
    match value {
        Some(value) => annotations.insert(key.to_owned(), value.to_owned()),
        None => annotations.remove(key),
    };
}

fn next_generation(object: &mut impl Resource) {
    let generation = &mut object.meta_mut().generation;
    *generation = generation.map(|generation| generation + 1);
}

fn add_group(cluster: &mut AWSCluster) {
    let groups = &mut cluster.spec.network.get_or_insert_default().security_group_overrides;
    groups.insert("lb".to_owned(), OTHER_GROUP.to_owned());
    next_generation(cluster);
}

/// Launches an instance that is much like one of a machine's: it is of a machine of that name of another cluster.
pub(crate) fn launch_look_alike(simulation: &mut Simulation, machine: usize) {
    let now = simulation.now();
    let tags = [
        (meta::cluster_tag("staging"), meta::OWNED_TAG_VALUE.to_owned()),
        (meta::ROLE_TAG.to_owned(), meta::NODE_ROLE_TAG_VALUE.to_owned()),
        (meta::MACHINE_NAME_TAG.to_owned(), machine_key(&machine_name(machine))),
    ];
    match simulation.outside.aws.launch_foreign(now, &tags) {
        Ok(instance) => simulation.outside.aws.serving.push(instance.id),
        Err(_) => simulation.invariants.violate(now, "the user cannot launch an instance"),
    }
}

fn create_claim(simulation: &mut Simulation, number: usize) {
    let now = simulation.now();
    let tags = [
        (meta::cluster_tag(CLUSTER), meta::OWNED_TAG_VALUE.to_owned()),
        (meta::ROLE_TAG.to_owned(), meta::NODE_ROLE_TAG_VALUE.to_owned()),
    ];
    let Ok(instance) = simulation.outside.aws.launch_foreign(now, &tags) else {
        return;
    };
    objects::create_machine(
        &mut simulation.outside.server,
        &machine_name(number),
        Some(&instance.id),
    );
}

/// Whoever has claimed a foreign instance, or launched into another account, has to give it up by hand. Whoever has put
/// the objects of before a move back has to say which instances are theirs.
fn give_up(simulation: &mut Simulation) {
    let machines: Vec<_> = simulation
        .outside
        .server
        .stored
        .aws_machines
        .values()
        .cloned()
        .collect();
    for machine in machines {
        let live = live_instance(simulation, &machine_key(&machine.name_any()));
        let server = &mut simulation.outside.server;
        let status = machine.status.clone().unwrap_or_default();
        let says = |condition, reason: Reason| {
            find(&status.conditions, condition).is_some_and(|condition| condition.reason == reason.as_str())
        };
        if machine.metadata.deletion_timestamp.is_none() {
            if says(ConditionType::InstanceReady, Reason::Conflict) {
                server.edit(&machine.name_any(), |machine: &mut AWSMachine| {
                    annotate(machine, ADOPT_INSTANCE_ANNOTATION, live.as_deref());
                });
            }
            continue;
        }
        if says(ConditionType::InstanceReady, Reason::NotOwned) {
            server.edit(&machine.name_any(), |machine: &mut AWSMachine| {
                machine.metadata.finalizers = None;
            });
        }
        if says(ConditionType::IdentityReady, Reason::AccountMismatch) {
            if status.has_open_attempt() {
                // What it may have elsewhere is given up, and what it had here before a backup was restored with that.
                simulation.invariants.unknown.insert(machine_key(&machine.name_any()));
            }
            let launch = status.launch.as_ref();
            let token = launch
                .and_then(LaunchRecord::request)
                .map(|request| &request.client_token);
            let known = launch
                .and_then(LaunchRecord::instance_id)
                .or_else(|| token.map(String::as_str));
            server.edit(&machine.name_any(), |machine: &mut AWSMachine| {
                annotate(machine, ABANDON_INSTANCE_ANNOTATION, known);
            });
        }
    }
}

fn lose_status(simulation: &mut Simulation, number: usize) {
    simulation.invariants.loses_status(&machine_name(number));
    let lose = |machine: &mut AWSMachine| machine.status = None;
    simulation.outside.server.edit(&machine_name(number), lose);
}

/// Once the cluster is provisioned. A machine of an older snapshot says that it was never launched, and the network by
/// which that could be checked is not there: the record is the proof then.
fn take_snapshot(simulation: &mut Simulation) {
    let server = &mut simulation.outside.server;
    let cluster = server.get::<Cluster>(CLUSTER);
    if cluster.is_some_and(|cluster| cluster.infrastructure_provisioned()) {
        simulation.snapshot = Some(server.stored.clone());
    }
}

fn move_machines(simulation: &mut Simulation) {
    let server = &mut simulation.outside.server;
    let machines: Vec<_> = server.stored.aws_machines.values().cloned().collect();
    let stays = |machine: &AWSMachine| {
        has_annotation(&machine.metadata, BLOCK_MOVE_ANNOTATION) || machine.metadata.deletion_timestamp.is_some()
    };
    if machines.iter().any(|machine| stays(machine)) {
        return;
    }
    simulation.invariants.objects_move = true;
    for machine in machines {
        simulation.invariants.loses_status(&machine.name_any());
        let mut moved = AWSMachine::clone(&machine);
        moved.status = None;
        server.replace(&machine, moved);
    }
    simulation.settle(Duration::ZERO);
    simulation.invariants.objects_move = false;
}

fn restore(simulation: &mut Simulation) {
    let Some(snapshot) = simulation.snapshot.clone() else {
        return;
    };
    simulation.invariants.backup_is_restored = true;
    simulation.invariants.forget_what_was_recorded();
    for name in snapshot.aws_machines.keys() {
        simulation.invariants.loses_status(name);
    }
    simulation.outside.server.restore(&snapshot);
    simulation.settle(Duration::ZERO);
    simulation.invariants.backup_is_restored = false;
    simulation.stop(Duration::from_secs(20));
}

fn live_instance(simulation: &Simulation, machine: &str) -> Option<String> {
    let mut live = simulation.outside.aws.live(simulation.now());
    let found = live.find(|instance| machine_of(instance) == Some(machine))?;
    Some(found.id.clone())
}

fn instances_of(simulation: &Simulation, number: usize) -> Vec<String> {
    let machine = machine_key(&machine_name(number));
    let live = simulation.outside.aws.live(simulation.now());
    let of_machine = live.filter(|instance| machine_of(instance) == Some(&machine));
    of_machine.map(|instance| instance.id.clone()).collect()
}

fn take_out(simulation: &mut Simulation, number: usize) {
    let now = simulation.now();
    for id in instances_of(simulation, number) {
        simulation.outside.aws.user_target(now, &id, false);
    }
}

fn kill_instance(simulation: &mut Simulation, number: usize) {
    let (now, ids) = (simulation.now(), instances_of(simulation, number));
    if !ids.is_empty() {
        // Refused while the instance is hidden; then the user has failed.
        drop(simulation.outside.aws.user().terminate_instances(now, &ids));
    }
}
