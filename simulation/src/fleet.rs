//! Many machines at once: how fast they are launched within AWS's limits, and what an outage of AWS costs.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_api::machine::{AWSMachine, AWSMachineStatus};
use jiff::Timestamp;

use crate::calls::Service;
use crate::faults::Faults;
use crate::objects::{self, machine_name};
use crate::outside::{START, after};
use crate::simulation::Simulation;
use crate::user::Deed;

/// How long a fleet may take.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// What bringing a fleet up took.
#[derive(Clone, Debug)]
pub struct Launches {
    /// The first rule that was broken.
    pub violation: Option<String>,
    /// Machines that run in the end.
    pub provisioned: usize,
    /// From the creation of the machines to the last launch.
    pub took: Duration,
    /// Calls of AWS.
    pub calls: usize,
    /// Those of them that AWS throttled.
    pub throttled: usize,
    /// The most calls of AWS in any second.
    pub busiest_second: usize,
}

/// Creates so many machines at once. `outage`: AWS cannot be reached for so long from the fifth second on.
pub fn launch(machines: usize, outage: Option<Duration>) -> Launches {
    let mut simulation = Simulation::new(1, Faults::Planned(BTreeMap::new()), false, false);
    simulation.outside.aws.region().behaviour().throttling = true;
    objects::create_cluster(&mut simulation.outside.server, 3);
    simulation.start();
    simulation.run_until(after(START, Duration::from_secs(10)));
    let began = simulation.now();
    for machine in 0..machines {
        objects::create_machine(&mut simulation.outside.server, &machine_name(machine), None);
    }
    simulation.settle(Duration::ZERO);
    if let Some(outage) = outage {
        simulation.plan(after(began, Duration::from_secs(5)), Deed::Unreachable(outage));
    }
    simulation.run_until(after(began, PATIENCE));
    let launched = simulation
        .outside
        .aws
        .ec2
        .launched()
        .map(|instance| instance.launched_at)
        .max();
    let provisioned =
        |machine: &&std::sync::Arc<AWSMachine>| machine.status.as_ref().is_some_and(AWSMachineStatus::provisioned);
    Launches {
        provisioned: simulation
            .outside
            .server
            .stored
            .aws_machines
            .values()
            .filter(provisioned)
            .count(),
        took: launched.map_or(PATIENCE, |at| at.duration_since(began).unsigned_abs()),
        calls: simulation
            .made
            .iter()
            .filter(|call| call.service == Service::Aws)
            .count(),
        throttled: simulation.outside.aws.throttled,
        busiest_second: busiest_second(&simulation),
        violation: simulation.invariants.violation,
    }
}

fn busiest_second(simulation: &Simulation) -> usize {
    let mut seconds: BTreeMap<Timestamp, usize> = BTreeMap::new();
    for call in simulation.made.iter().filter(|call| call.service == Service::Aws) {
        let second = Timestamp::from_second(call.at.as_second()).unwrap_or(call.at);
        *seconds.entry(second).or_default() += 1;
    }
    seconds.into_values().max().unwrap_or_default()
}
