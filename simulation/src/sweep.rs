//! The systematic sweep: one machine's and its cluster's whole life, once for every fault at every call, and for every
//! two faults within the launch.

use std::time::Duration;

use capa_api::machine::AWSMachineStatus;

use crate::faults::{Fault, Faults};
use crate::history::{self, Report};
use crate::objects;
use crate::outside::{START, after};
use crate::user::Deed;
use crate::world::World;

/// How long the machine is left in peace before it is deleted.
const LIFE: Duration = Duration::from_secs(240);
/// All histories have the same small numbers of the scheduler.
const SEED: u64 = 0;

/// Faults by the number of their call.
pub type Plan = Vec<(usize, Fault)>;

/// The plans of the sweep.
pub fn plans() -> Vec<Plan> {
    let (launch, life) = lengths();
    let single = (0..life).flat_map(|call| Fault::SYSTEMATIC.map(|fault| vec![(call, fault)]));
    let pairs = (0..launch).flat_map(move |first| {
        (first + 1..launch).flat_map(move |second| {
            Fault::SYSTEMATIC
                .into_iter()
                .flat_map(move |one| Fault::SYSTEMATIC.map(|other| vec![(first, one), (second, other)]))
        })
    });
    single.chain(pairs).collect()
}

/// Plays a life with the faults of a plan. `traced`: keeps a trace.
pub fn run(plan: &Plan, traced: bool) -> Report {
    let mut world = born(plan, traced);
    world.run_until(after(START, LIFE));
    world.plan(world.now(), Deed::DeleteMachine(0));
    history::calm(&mut world);
    history::finish(world)
}

fn born(plan: &Plan, traced: bool) -> World {
    let faults = Faults::Planned(plan.iter().copied().collect());
    let mut world = World::new(SEED, faults, false, traced);
    objects::create_cluster(&mut world.outside.server, 2);
    objects::create_machine(&mut world.outside.server, &objects::machine_name(0), None);
    world.start();
    world
}

/// How many calls a launch makes until the machine is provisioned, and how many the whole life.
fn lengths() -> (usize, usize) {
    let mut world = born(&Vec::new(), false);
    let end = after(START, LIFE);
    while world.now() < end && !provisioned(&world) {
        world.run_until(after(world.now(), Duration::from_millis(100)));
    }
    let launch = world.made.len();
    world.run_until(end);
    for deed in [Deed::DeleteMachine(0), Deed::DeleteCluster] {
        world.plan(world.now(), deed);
        world.run_until(after(world.now(), LIFE));
    }
    (launch, world.made.len())
}

fn provisioned(world: &World) -> bool {
    let mut machines = world.outside.server.stored.aws_machines.values();
    machines.any(|machine| machine.status.as_ref().is_some_and(AWSMachineStatus::provisioned))
}

/// A plan as the command line takes it.
pub fn described(plan: &Plan) -> String {
    let faults: Vec<String> = plan.iter().map(|(call, fault)| format!("{call}:{fault:?}")).collect();
    faults.join(",")
}
