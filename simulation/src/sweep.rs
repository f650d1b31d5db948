//! The systematic sweep: one machine's and its cluster's whole life, once for every fault at every call, and for every
//! two faults within the launch.

use std::time::Duration;

use capa_api::machine::AWSMachineStatus;

use crate::faults::{Fault, Faults};
use crate::history::{self, Report};
use crate::management_cluster::ManagementCluster;
use crate::names;
use crate::objects;
use crate::simulation::Simulation;
use crate::simulation::user_actions::{self, UserAction};
use crate::time::{START, after};

/// How long the machine is left in peace before it is deleted.
const LIFE: Duration = Duration::from_secs(240);
/// All histories have the same small numbers of the scheduler.
const SEED: u64 = 0;

/// The machine whose life is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One of the control plane that has nothing beside its instance.
    Plain,
    /// One on a Dedicated Host.
    OnHost,
    /// One with an Elastic IP, and with bootstrap data in Secrets Manager.
    WithAddressAndSecrets,
    /// One with an Elastic IP, and with bootstrap data in a bucket.
    WithAddressAndObject,
}

impl Subject {
    /// The number of the machine.
    fn number(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::OnHost => 3,
            Self::WithAddressAndSecrets => 1,
            Self::WithAddressAndObject => 11,
        }
    }
}

/// Faults by the number of their call.
pub type Plan = Vec<(usize, Fault)>;

/// The plans with one fault: every fault at every call of a life.
pub fn single_faults(subject: Subject) -> Vec<Plan> {
    let single = (0..life(subject.number())).flat_map(|call| Fault::SYSTEMATIC.map(|fault| (call, fault)));
    single.map(|one| vec![one]).collect()
}

/// The plans with two faults: every fault at every call of a launch, and every second fault at every call of what the
/// launch with the first one becomes.
pub fn pairs_of_faults() -> Vec<Plan> {
    let undisturbed = launch(&Vec::new());
    let firsts = (0..undisturbed).flat_map(|first| Fault::SYSTEMATIC.map(|one| (first, one)));
    let pairs = firsts.flat_map(|one| {
        let disturbed = launch(&vec![one]);
        let second = (one.0 + 1..disturbed).flat_map(|second| Fault::SYSTEMATIC.map(|other| (second, other)));
        second.map(move |other| vec![one, other])
    });
    pairs.collect()
}

/// Plays a life with the faults of a plan. `traced`: keeps a trace.
pub fn run(plan: &Plan, subject: Subject, traced: bool) -> Report {
    let machine = subject.number();
    let mut simulation = born(plan, machine, traced);
    simulation.run_until(after(START, LIFE));
    simulation.plan(simulation.now(), ManagementCluster::Main, UserAction::DeleteMachine(machine));
    history::calm(&mut simulation, history::Deletion::default());
    history::finish(simulation)
}

fn born(plan: &Plan, machine: usize, traced: bool) -> Simulation {
    let faults = Faults::Planned(plan.iter().copied().collect());
    let mut simulation = Simulation::new(SEED, faults, false, traced);
    let server = simulation.outside.server_mut(ManagementCluster::Main);
    objects::create_cluster(server, 2);
    objects::create_machine(server, &names::machine_name(machine), None);
    user_actions::launch_look_alike(&mut simulation, machine);
    simulation.start(ManagementCluster::Main);
    simulation
}

/// How many calls are made with these faults until the machine is provisioned.
fn launch(plan: &Plan) -> usize {
    let mut simulation = born(plan, Subject::Plain.number(), false);
    let end = after(START, LIFE);
    while simulation.now() < end && !provisioned(&simulation) {
        simulation.run_until(after(simulation.now(), Duration::from_millis(100)));
    }
    simulation.made.len()
}

/// How many calls an undisturbed life makes.
fn life(machine: usize) -> usize {
    let mut simulation = born(&Vec::new(), machine, false);
    simulation.run_until(after(START, LIFE));
    for action in [UserAction::DeleteMachine(machine), UserAction::DeleteCluster] {
        simulation.plan(simulation.now(), ManagementCluster::Main, action);
        simulation.run_until(after(simulation.now(), LIFE));
    }
    simulation.made.len()
}

fn provisioned(simulation: &Simulation) -> bool {
    let server = simulation.outside.server(ManagementCluster::Main);
    let mut machines = server.stored.aws_machines.values();
    machines.any(|machine| machine.status.as_ref().is_some_and(AWSMachineStatus::provisioned))
}

/// A plan as the command line takes it.
pub fn described(plan: &Plan) -> String {
    let faults: Vec<String> = plan.iter().map(|(call, fault)| format!("{call}:{fault:?}")).collect();
    faults.join(",")
}
