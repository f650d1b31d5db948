//! The actions of users and of AWS while the controllers work.

mod infrastructure;
mod ownership;
mod recovery;

use std::time::Duration;

use capa_api::cluster::AWSCluster;
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::AWSMachine;
use capa_api::meta::PAUSED_ANNOTATION;
use capa_cloud::StateReason;
use kube::Resource;
use strum::IntoStaticStr;

use crate::aws::{INSTANCE_TYPE, MANAGER_KEY, MISTAKEN_KEY, ZONES};
use crate::coverage::Situation;
use crate::management_cluster::ManagementCluster;
use crate::names::{CLUSTER, machine_key, machine_name};
use crate::objects;
use crate::simulation::Simulation;
use crate::time::after;
pub(crate) use infrastructure::launch_look_alike;
pub(crate) use ownership::Forgery;

/// One action. Machines and zones go by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
pub(crate) enum UserAction {
    /// Creates a Machine.
    CreateMachine(usize),
    /// Creates a Machine whose spec names a foreign instance as its own.
    CreateClaim(usize),
    /// Deletes a Machine.
    DeleteMachine(usize),
    /// Deletes the Cluster and everything in it.
    DeleteCluster,
    /// Deletes the AWSCluster alone.
    DeleteInfrastructure,
    /// Pauses the Cluster, or no more.
    PauseCluster(bool),
    /// Pauses an AWSMachine, or no more.
    PauseMachine(usize, bool),
    /// Pauses no AWSMachine any more, copies of paused ones included.
    ResumeMachines,
    /// Changes metadata that nobody reads.
    Touch(usize),
    /// Writes other bootstrap data.
    RenewSecret(usize, u32),
    /// Gives the cluster's machines one more group from now on.
    AddGroup,
    /// Gives the cluster's instances another tag from now on.
    TagCluster(u32),
    /// Gives the instance of a machine another tag from now on.
    TagMachine(usize, u32),
    /// The cluster's machines go to this zone and so many that follow it from now on.
    UseZones(usize, usize),
    /// The image of all machines is deregistered, or there again.
    Image(bool),
    /// The groups that no instance uses are deleted, or there again.
    Groups(bool),
    /// Loses a machine's status, as a backup does that keeps none.
    LoseStatus(usize),
    /// Moves all Machines to another management cluster as clusterctl does: under new UIDs, without their statuses, and
    /// not at all while one of them blocks it.
    Move,
    /// Takes a snapshot of etcd.
    TakeSnapshot,
    /// Stops all managers; they come back after so long.
    Stop(Duration),
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
    LoseAws(Duration),
    /// The API server answers nothing for so long.
    LoseServer(Duration),
    /// Copies an AWSMachine under another name, with the ids in its spec or without.
    Copy(usize, bool),
    /// Creates an AWSMachine with a finalizer and an owner that is not its own.
    Forge(Forgery),
    /// Deletes all copied and forged AWSMachines.
    DeleteImpostors,
    /// Says of machines that wait because an instance carries their tags whether it is theirs.
    ResolveConflicts,
    /// Gives up what a deletion cannot reach.
    GiveUp,
}

impl UserAction {
    /// Whether it is done by requests to the API server.
    pub(crate) fn needs_server(self) -> bool {
        match self {
            Self::CreateMachine(_)
            | Self::CreateClaim(_)
            | Self::DeleteMachine(_)
            | Self::DeleteCluster
            | Self::DeleteInfrastructure
            | Self::PauseCluster(_)
            | Self::PauseMachine(..)
            | Self::ResumeMachines
            | Self::Touch(_)
            | Self::RenewSecret(..)
            | Self::AddGroup
            | Self::TagCluster(_)
            | Self::TagMachine(..)
            | Self::UseZones(..)
            | Self::LoseStatus(_)
            | Self::Move
            | Self::TakeSnapshot
            | Self::RestoreSnapshot
            | Self::Copy(..)
            | Self::Forge(_)
            | Self::DeleteImpostors
            | Self::ResolveConflicts
            | Self::GiveUp => true,
            Self::Image(_)
            | Self::Groups(_)
            | Self::Stop(_)
            | Self::KillInstance(_)
            | Self::Serve
            | Self::TakeOut(_)
            | Self::DieInPending(_)
            | Self::Capacity(..)
            | Self::OtherAccount(_)
            | Self::ReplaceKey(_)
            | Self::Overlook(..)
            | Self::LoseAws(_)
            | Self::LoseServer(_) => false,
        }
    }

    pub(crate) fn perform(self, of: ManagementCluster, simulation: &mut Simulation) {
        let now = simulation.now();
        let server = simulation.outside.server_mut(of);
        match self {
            Self::CreateMachine(number) => objects::create_machine(server, &machine_name(number), None),
            Self::CreateClaim(number) => ownership::create_claim(simulation, of, number),
            Self::DeleteMachine(number) => server.delete::<Machine>(&machine_name(number), now),
            Self::DeleteCluster => server.delete::<Cluster>(CLUSTER, now),
            Self::DeleteInfrastructure => server.delete::<AWSCluster>(CLUSTER, now),
            Self::PauseCluster(paused) => server.edit(CLUSTER, |cluster: &mut Cluster| {
                cluster.spec.paused = Some(paused);
                next_generation(cluster);
            }),
            Self::PauseMachine(number, paused) => server.edit(&machine_name(number), |machine: &mut AWSMachine| {
                annotate(machine, PAUSED_ANNOTATION, paused.then_some(""));
            }),
            Self::ResumeMachines => {
                let names: Vec<String> = server.stored.aws_machines.keys().cloned().collect();
                for name in names {
                    server.edit(&name, |machine: &mut AWSMachine| annotate(machine, PAUSED_ANNOTATION, None));
                }
            }
            Self::Touch(number) => server.edit(&machine_name(number), |machine: &mut AWSMachine| {
                let count = machine.metadata.resource_version.clone().unwrap_or_default();
                annotate(machine, "example.org/touched", Some(&count));
            }),
            Self::LoseStatus(number) => recovery::lose_status(simulation, of, number),
            Self::Move => recovery::move_machines(simulation, of),
            Self::TakeSnapshot => recovery::take_snapshot(simulation, of),
            Self::Stop(long) => simulation.stop(of, long),
            Self::RestoreSnapshot => recovery::restore(simulation, of),
            Self::OtherAccount(other) => {
                replace_key(of, simulation, other);
                simulation.stop(of, Duration::from_secs(1));
            }
            Self::ReplaceKey(other) => replace_key(of, simulation, other),
            Self::LoseAws(long) => {
                let end = simulation.outage(long);
                simulation.outside.aws.lose(now, end);
            }
            Self::LoseServer(long) => simulation.lose_server(of, long),
            Self::Copy(number, with_ids) => ownership::copy(simulation, of, number, with_ids),
            Self::Forge(forgery) => ownership::forge(simulation, of, forgery),
            Self::DeleteImpostors => ownership::delete_impostors(simulation, of),
            Self::ResolveConflicts => ownership::resolve_conflicts(simulation, of),
            Self::GiveUp => recovery::give_up(simulation, of),
            Self::RenewSecret(..)
            | Self::AddGroup
            | Self::TagCluster(_)
            | Self::TagMachine(..)
            | Self::UseZones(..)
            | Self::Image(_)
            | Self::Groups(_) => infrastructure::change_source(simulation, of, self),
            Self::KillInstance(number) => infrastructure::kill_instance(simulation, of, number),
            Self::Serve | Self::TakeOut(_) | Self::DieInPending(_) | Self::Capacity(..) | Self::Overlook(..) => {
                self.change_aws(of, simulation);
            }
        }
    }

    /// Changes in AWS alone.
    fn change_aws(self, of: ManagementCluster, simulation: &mut Simulation) {
        let now = simulation.now();
        let instances = |number| infrastructure::instances_of(simulation, of, number);
        match self {
            Self::Serve => {
                for id in simulation.outside.aws.serving.clone() {
                    simulation.outside.aws.user_target(now, &id, true);
                }
            }
            Self::TakeOut(number) => {
                for id in instances(number) {
                    simulation.outside.aws.user_target(now, &id, false);
                }
            }
            Self::DieInPending(die) => {
                simulation.outside.aws.region().behaviour().death_in_pending = die.then(|| StateReason {
                    code: "Server.InternalError".into(),
                    message: "Server.InternalError: Internal error on launch".into(),
                });
            }
            Self::Capacity(zone, available) => {
                if let Some((_, zone)) = ZONES.get(zone) {
                    let region = simulation.outside.aws.region();
                    region.set_capacity(INSTANCE_TYPE, zone, available);
                }
            }
            Self::Overlook(number, long) => {
                let key = machine_key(&machine_name(number));
                simulation.outside.aws.overlooked = Some((key, after(now, long)));
            }
            _ => {}
        }
    }
}

fn replace_key(of: ManagementCluster, simulation: &mut Simulation, of_another_account: bool) {
    if of_another_account {
        simulation.coverage.situation(Situation::KeyOfAnotherAccount);
        simulation.replace_key(of, MISTAKEN_KEY);
    } else {
        simulation.replace_key(of, MANAGER_KEY);
    }
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
