//! Many machines at once: how fast they are launched within AWS's limits, what an outage of AWS costs, and how long one
//! cluster holds another one up.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_api::contract::{Cluster, Machine};
use capa_api::machine::{AWSMachine, AWSMachineStatus};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::calls::Service;
use crate::faults::Faults;
use crate::management_cluster::ManagementCluster;
use crate::names::{self, CLUSTER, machine_name};
use crate::objects;
use crate::simulation::Simulation;
use crate::simulation::user_actions::UserAction;
use crate::time::{START, after};

/// How long a fleet may take.
const DEADLINE: Duration = Duration::from_secs(1_800);

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
    /// Calls of AWS from the creation of the machines until all of them run.
    pub for_machines: usize,
    /// The same by action.
    pub by_action: BTreeMap<&'static str, usize>,
    /// Calls of AWS in the first minute.
    pub in_first_minute: usize,
}

/// What AWS does while a fleet is launched.
#[derive(Clone, Copy, Debug)]
pub enum Weather {
    /// It answers within its limits.
    Fair,
    /// It cannot be reached for so long from the fifth second on.
    Outage(Duration),
    /// It throttles every call for so long from the beginning.
    Throttles(Duration),
}

/// Creates so many machines at once.
pub fn launch(machines: usize, weather: Weather) -> Launches {
    let mut simulation = started();
    let began = simulation.now();
    let server = simulation.outside.server_mut(ManagementCluster::Main);
    // Control planes wait for load balancer targets besides, which are read every ten seconds.
    let fits = |name: &String| !matches!(weather, Weather::Throttles(_)) || !names::is_control_plane(name);
    for name in (0..).map(machine_name).filter(fits).take(machines) {
        objects::create_machine(server, &name, None);
    }
    simulation.settle(Duration::ZERO);
    match weather {
        Weather::Fair => {}
        Weather::Outage(outage) => {
            let at = after(began, Duration::from_secs(5));
            simulation.plan(at, ManagementCluster::Main, UserAction::LoseAws(outage));
        }
        Weather::Throttles(period) => {
            simulation.outside.aws.region().behaviour().throttles_all_until = after(began, period);
        }
    }
    let runs = run_until_all_run(&mut simulation, began, machines);
    let called = |from: Timestamp, until: Timestamp| {
        let calls = simulation.made.iter().filter(|call| call.service == Service::Aws);
        calls.filter(|call| from <= call.at && call.at < until).count()
    };
    let mut by_action = BTreeMap::new();
    let calls = simulation.made.iter().filter(|call| call.service == Service::Aws);
    for call in calls.filter(|call| began <= call.at && call.at < runs) {
        *by_action.entry(call.action).or_default() += 1;
    }
    let (for_machines, in_first_minute) = (called(began, runs), called(began, after(began, Duration::from_secs(60))));
    simulation.run_until(after(began, DEADLINE));
    let launched = simulation.outside.aws.accounts.launched().map(|instance| instance.launched_at).max();
    Launches {
        for_machines,
        by_action,
        in_first_minute,
        provisioned: provisioned(&simulation),
        took: launched.map_or(DEADLINE, |at| at.duration_since(began).unsigned_abs()),
        calls: simulation.made.iter().filter(|call| call.service == Service::Aws).count(),
        throttled: simulation.outside.aws.throttled,
        busiest_second: busiest_second(&simulation),
        violation: simulation.invariants.violation,
    }
}

/// Runs until so many machines are provisioned, and returns the time.
fn run_until_all_run(simulation: &mut Simulation, began: Timestamp, machines: usize) -> Timestamp {
    let end = after(began, DEADLINE);
    while provisioned(simulation) < machines && simulation.now() < end && simulation.invariants.violation.is_none() {
        simulation.run_until(after(simulation.now(), Duration::from_millis(500)));
    }
    simulation.now()
}

/// Number of machines that are provisioned.
fn provisioned(simulation: &Simulation) -> usize {
    let machines = simulation.outside.server(ManagementCluster::Main).stored.aws_machines.values();
    let has_run =
        |machine: &&std::sync::Arc<AWSMachine>| machine.status.as_ref().is_some_and(AWSMachineStatus::provisioned);
    machines.filter(has_run).count()
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
/// looks on for as long as `deadline`.
pub fn flood(machines: usize, lead: Duration, deadline: Duration) -> Flood {
    let mut simulation = started();
    let began = simulation.now();
    for machine in 0..machines {
        let (server, name) = (simulation.outside.server_mut(ManagementCluster::Main), machine_name(machine));
        objects::create_machine(server, &name, None);
        // Each has an image of its own: machines of one template would let one of them ask.
        let missing = Some(format!("ami-{machine:08x}dead"));
        let refused = |machine: &mut AWSMachine| machine.spec.ami.get_or_insert_default().id = missing;
        server.edit(&name, refused);
    }
    simulation.settle(Duration::ZERO);
    simulation.run_until(after(began, lead));
    let came = simulation.now();
    create_newcomer(&mut simulation);
    simulation.settle(Duration::ZERO);
    simulation.run_until(after(came, deadline));
    let mut launched = simulation.outside.aws.accounts.launched();
    let launched_after = launched.next().map(|instance| instance.launched_at.duration_since(came).unsigned_abs());
    let writes = simulation.made.iter().filter(|call| call.service == Service::Aws && call.writes);
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
