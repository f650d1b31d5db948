//! Many machines at once: how fast they are launched within AWS's limits, what an outage of AWS costs, and how long one
//! cluster holds another one up.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_api::contract::{Cluster, Machine};
use capa_api::machine::{AWSMachine, AWSMachineStatus};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::calls::Service;
use crate::deeds::Deed;
use crate::faults::Faults;
use crate::objects::{self, CLUSTER, machine_name};
use crate::outside::{ManagementCluster, START, after};
use crate::simulation::Simulation;

/// How long a fleet may take.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// The time and the calls of the launch of a fleet.
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
    let mut simulation = started();
    let began = simulation.now();
    let server = simulation.outside.server_mut(ManagementCluster::Main);
    for machine in 0..machines {
        objects::create_machine(server, &machine_name(machine), None);
    }
    simulation.settle(Duration::ZERO);
    if let Some(outage) = outage {
        let at = after(began, Duration::from_secs(5));
        simulation.plan(at, ManagementCluster::Main, Deed::LoseAws(outage));
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
            .server(ManagementCluster::Main)
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

/// The cluster that comes when the other one floods AWS, and its machine.
const NEWCOMER: &str = "newcomer";

/// The result for a cluster that is created while another cluster floods AWS.
#[derive(Clone, Debug)]
pub struct Flood {
    /// The first rule that was broken.
    pub violation: Option<String>,
    /// From the creation of the newcomer's machine to its launch; none where it was not launched.
    pub launched_after: Option<Duration>,
    /// Calls of RunInstances that AWS has refused, of all machines of the flood.
    pub refused: usize,
}

/// Creates so many machines at once that AWS refuses for ever, after `lead` the first machine of another cluster, and
/// looks on for as long as `patience`.
pub fn flood(machines: usize, lead: Duration, patience: Duration) -> Flood {
    let mut simulation = started();
    let began = simulation.now();
    for machine in 0..machines {
        let (server, name) = (
            simulation.outside.server_mut(ManagementCluster::Main),
            machine_name(machine),
        );
        objects::create_machine(server, &name, None);
        let missing = Some("ami-0000dead".to_owned());
        let refused = |machine: &mut AWSMachine| machine.spec.ami.get_or_insert_default().id = missing;
        server.edit(&name, refused);
    }
    simulation.settle(Duration::ZERO);
    simulation.run_until(after(began, lead));
    let came = simulation.now();
    create_newcomer(&mut simulation);
    simulation.settle(Duration::ZERO);
    simulation.run_until(after(came, patience));
    let mut launched = simulation.outside.aws.ec2.launched();
    let launched_after = launched
        .next()
        .map(|instance| instance.launched_at.duration_since(came).unsigned_abs());
    let writes = simulation
        .made
        .iter()
        .filter(|call| call.service == Service::Aws && call.writes);
    Flood {
        launched_after,
        refused: writes.count() - usize::from(launched_after.is_some()),
        violation: simulation.invariants.violation,
    }
}

/// Creates a Cluster on the same infrastructure, and a machine of it.
fn create_newcomer(simulation: &mut Simulation) {
    let server = simulation.outside.server_mut(ManagementCluster::Main);
    let Some(cluster) = server.get::<Cluster>(CLUSTER) else {
        return;
    };
    let mut cluster = Cluster::clone(&cluster);
    cluster.metadata.name = Some(NEWCOMER.to_owned());
    server.create(cluster);
    objects::create_machine(server, NEWCOMER, None);
    let label = |labels: &mut BTreeMap<String, String>| {
        labels.insert("cluster.x-k8s.io/cluster-name".to_owned(), NEWCOMER.to_owned());
    };
    server.edit(NEWCOMER, |machine: &mut Machine| {
        NEWCOMER.clone_into(&mut machine.spec.cluster_name);
        label(machine.labels_mut());
    });
    server.edit(NEWCOMER, |machine: &mut AWSMachine| label(machine.labels_mut()));
}

/// A simulation without faults, in which AWS throttles. Its cluster has subnets in three zones, and its manager has run
/// for ten seconds.
fn started() -> Simulation {
    let mut simulation = Simulation::new(1, Faults::Planned(BTreeMap::new()), false, false);
    simulation.outside.aws.region().behaviour().throttling = true;
    objects::create_cluster(simulation.outside.server_mut(ManagementCluster::Main), 3);
    simulation.start(ManagementCluster::Main);
    simulation.run_until(after(START, Duration::from_secs(10)));
    simulation
}

fn busiest_second(simulation: &Simulation) -> usize {
    let mut seconds: BTreeMap<Timestamp, usize> = BTreeMap::new();
    for call in simulation.made.iter().filter(|call| call.service == Service::Aws) {
        let second = Timestamp::from_second(call.at.as_second()).unwrap_or(call.at);
        *seconds.entry(second).or_default() += 1;
    }
    seconds.into_values().max().unwrap_or_default()
}
