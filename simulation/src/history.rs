//! One history: a script and faults drawn from a seed, then calm, steady state, and the deletion of everything.

mod pace;
mod script;
mod verdict;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::calls::Service;
use crate::coverage::Covered;
use crate::management_cluster::ManagementCluster;
use crate::simulation::Simulation;
use crate::simulation::user_actions::UserAction;
use crate::time::after;
use pace::{allowed_a_minute, busiest_minute};
use script::Script;

/// How long after the last fault everything must have come right.
const CONVERGENCE: Duration = Duration::from_secs(40 * 60);
/// How often the user looks for machines whose launches wait because of a conflict.
const LOOKS_FOR_CONFLICTS: u32 = 6;
/// How long the user waits between two of these looks.
const BETWEEN_LOOKS: Duration = Duration::from_secs(180);
/// How long the deletion of everything may take.
const DELETION: Duration = Duration::from_secs(40 * 60);

/// How a history ended.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The first rule that was broken; none is good.
    pub violation: Option<String>,
    /// How many calls were made.
    pub calls: usize,
    /// The most calls that one process made in a minute: to AWS, to Kubernetes.
    pub busiest_minute: (usize, usize),
    /// The situations that it has met.
    pub met: BTreeSet<Covered>,
    /// The trace, if it was requested.
    pub trace: Vec<String>,
}

/// Runs the history of a seed. `traced`: keeps a trace.
pub fn run(seed: u64, traced: bool) -> Report {
    let mut simulation = Script::draw(seed).begin(seed, traced);
    simulation.run_script();
    simulation.follow_ups.clear();
    for action in script::repairs() {
        simulation.plan(simulation.now(), ManagementCluster::Main, action);
    }
    calm(&mut simulation, script::deletion(seed));
    finish(simulation)
}

/// When a user deletes the objects of a cluster, counted from when the deletion of all begins. Package managers delete
/// them at once or one after the other, in any order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deletion {
    /// When the Cluster is deleted.
    pub(crate) cluster: Duration,
    /// When its AWSCluster is deleted.
    pub(crate) infrastructure: Duration,
}

/// After the last fault: everything converges, nothing happens any more, everything can be deleted.
pub(crate) fn calm(simulation: &mut Simulation, deletion: Deletion) {
    // A user who sees no conflict looks again: another condition hides it while the tags of targets are read anew, and
    // EC2 shows an ended instance for some minutes, whose absence is a conflict after a loss of the status.
    for look in 0..LOOKS_FOR_CONFLICTS {
        let delay = CONVERGENCE / 4 + look * BETWEEN_LOOKS;
        plan_everywhere(simulation, delay, UserAction::ResolveConflicts);
    }
    // A new leader looks the instance up again before it says that the machine is to be given up.
    for delay in [CONVERGENCE / 2, CONVERGENCE * 3 / 4] {
        plan_everywhere(simulation, delay, UserAction::GiveUp);
    }
    simulation.run_until(after(simulation.now(), CONVERGENCE));
    verdict::converged(simulation);
    verdict::steady(simulation);
    plan_everywhere(simulation, deletion.cluster, UserAction::DeleteCluster);
    plan_everywhere(simulation, deletion.infrastructure, UserAction::DeleteInfrastructure);
    for delay in [DELETION / 2, DELETION * 3 / 4] {
        plan_everywhere(simulation, delay, UserAction::GiveUp);
    }
    simulation.run_until(after(simulation.now(), DELETION));
    verdict::deleted(simulation);
}

fn plan_everywhere(simulation: &mut Simulation, delay: Duration, action: UserAction) {
    for of in ManagementCluster::ALL {
        simulation.plan(after(simulation.now(), delay), of, action);
    }
}

/// Sums a simulation up.
pub(crate) fn finish(mut simulation: Simulation) -> Report {
    let now = simulation.now();
    if let Some(id) = simulation.outside.aws.no_longer_served(now) {
        let text = format!("foreign: {id} is the user's, and was taken out of its load balancer");
        simulation.invariants.violate(now, text);
    }
    let (to_aws, allowed) =
        (busiest_minute(&simulation.made, Service::Aws), allowed_a_minute(simulation.most_machines));
    if to_aws > allowed {
        let text = format!("hot: {to_aws} calls to AWS in a minute of a process, of at most {allowed}");
        simulation.invariants.violate(now, text);
    }
    Report {
        violation: simulation.invariants.violation,
        calls: simulation.made.len(),
        busiest_minute: (to_aws, busiest_minute(&simulation.made, Service::Kubernetes)),
        met: simulation.coverage.into_set(),
        trace: simulation.trace.into_lines(),
    }
}
