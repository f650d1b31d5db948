//! The checks at the end of a history: all objects converge, then no call is made, and then all objects can be deleted.

use std::time::Duration;

use capa_api::conditions::{ConditionType, Reason, find};
use capa_api::machine::AWSMachine;
use kube::ResourceExt;

use crate::address_rules::instance_of;
use crate::aws::{OTHER_ACCOUNT, TARGET_GROUPS};
use crate::coverage::{Covered, Situation};
use crate::management_cluster::ManagementCluster;
use crate::names::{self, machine_key};
use crate::simulation::Simulation;
use crate::time::after;

/// How long the steady state is watched.
const STEADY: Duration = Duration::from_secs(12 * 60);

/// Judges the machines when nothing has gone wrong for a long time.
pub(super) fn converged(simulation: &mut Simulation) {
    let now = simulation.now();
    for of in ManagementCluster::ALL {
        let machines = simulation.outside.server(of).stored.aws_machines.values();
        let machines: Vec<_> = machines.cloned().collect();
        for machine in machines {
            if let Some(complaint) = unfinished(of, &machine, simulation) {
                let name = machine.name_any();
                let text = format!("stuck: {name} of {of:?} {complaint}");
                simulation.invariants.violate(now, text);
            }
        }
        let orphans = simulation.orphans(of);
        if orphans > 0 && !simulation.invariants.has_orphans(of) {
            let text = format!("foreign: {of:?} reports {orphans} instances without a machine, and has none");
            simulation.invariants.violate(now, text);
        }
    }
}

/// The problem of a machine after a long time without faults.
fn unfinished(of: ManagementCluster, machine: &AWSMachine, simulation: &Simulation) -> Option<String> {
    if machine.metadata.deletion_timestamp.is_some() {
        return Some(format!("is still being deleted: {}", said(machine)));
    }
    if names::is_impostor(&machine.name_any()) {
        return None;
    }
    let (now, key) = (simulation.now(), machine_key(&machine.name_any()));
    let live = simulation.outside.aws.live_of(now, of, &key);
    let live: Vec<&str> = live.map(|instance| instance.id.as_str()).collect();
    let status = machine.status.clone().unwrap_or_default();
    let ready = find(&status.conditions, ConditionType::Ready).is_some_and(|condition| condition.status == "True");
    let published = machine.spec.provider_id.as_deref().and_then(|id| id.rsplit('/').next());
    let reason_of = |condition| find(&status.conditions, condition).map(|condition| condition.reason.as_str());
    let conflict = reason_of(ConditionType::InstanceReady) == Some(Reason::Conflict.as_str());
    let elsewhere = reason_of(ConditionType::IdentityReady) == Some(Reason::AccountMismatch.as_str());
    let is_elsewhere = |id: &&str| {
        let instance = simulation.outside.aws.instance(id);
        instance.is_some_and(|instance| instance.account == OTHER_ACCOUNT)
    };
    match live.as_slice() {
        [id] if ready && status.provisioned() && published == Some(id) => {
            let missing = names::is_control_plane(&machine.name_any()) && !simulation.outside.aws.is_served(now, id);
            missing.then(|| format!("is ready, and {id} is not in all its load balancers"))
        }
        // The credentials are of the cluster's account by now. What was launched into the other one, or may have been,
        // cannot be looked up: only given up.
        [] if elsewhere => None,
        [_] if elsewhere && status.has_open_attempt() => None,
        [id] if (elsewhere || conflict) && status.launch.is_none() && is_elsewhere(id) => None,
        [id] => Some(format!("has {id}, but says {}", said(machine))),
        [] => {
            let ended = simulation.outside.aws.has_launched(of, &key);
            let explained = match reason_of(ConditionType::InstanceReady) {
                Some("Terminated" | "Failed" | "NotFound") => ended || machine.spec.instance_id.is_some(),
                Some("NotOwned") => machine.spec.instance_id.is_some(),
                _ => false,
            };
            (!explained).then(|| format!("has no instance, and says {}", said(machine)))
        }
        ids => Some(format!("has {}", ids.join(", "))),
    }
}

fn said(machine: &AWSMachine) -> String {
    let status = machine.status.clone().unwrap_or_default();
    let bad = status.conditions.iter().filter(|condition| condition.status != "True");
    let bad = bad.map(|condition| format!("{}={}: {}", condition.type_, condition.reason, condition.message));
    let bad: Vec<String> = bad.collect();
    bad.join("; ")
}

/// Watches the steady state: nothing is written, and little is read.
pub(super) fn steady(simulation: &mut Simulation) {
    let before = simulation.made.len();
    simulation.run_until(after(simulation.now(), STEADY));
    let (now, calls) = (simulation.now(), simulation.made.iter().skip(before));
    let writes = calls.clone().filter(|call| call.writes).count();
    let clusters = ManagementCluster::ALL.map(|of| &simulation.outside.server(of).stored);
    let bound: usize = clusters
        .iter()
        .filter(|stored| !stored.clusters.is_empty())
        .map(|stored| steady_calls(stored.aws_machines.len()))
        .sum();
    let calls = calls.count();
    if writes > 0 {
        simulation.invariants.violate(now, format!("restless: {writes} writes in the steady state"));
    }
    if calls > bound {
        simulation.invariants.violate(now, format!("restless: {calls} calls in the steady state"));
    }
}

/// The most calls in the steady state: listings once a minute, and whoever looks again at what nobody watches. And one
/// look at each target group, or two at the turn of its period.
fn steady_calls(machines: usize) -> usize {
    let minutes = usize::try_from(STEADY.as_secs() / 60).unwrap_or_default();
    2 * minutes * (1 + machines) + 2 * 2 * TARGET_GROUPS.len()
}

/// Judges what is left when everything was deleted long ago.
pub(super) fn deleted(simulation: &mut Simulation) {
    let now = simulation.now();
    for of in ManagementCluster::ALL {
        let stored = &simulation.outside.server(of).stored;
        let machines = stored.aws_machines.values();
        let machines = machines.map(|machine| format!("{} ({})", machine.name_any(), said(machine)));
        let clusters = stored.clusters.keys().map(|name| format!("Cluster {name}"));
        let left: Vec<String> = machines.chain(clusters).collect();
        if !left.is_empty() {
            let text = format!("undeletable: {}", left.join(", "));
            simulation.invariants.violate(now, text);
        }
    }
    // With the key of another account the right one's secrets cannot be deleted, and an event names them.
    let had_other_account = simulation.coverage.has_met(Covered::Situation(Situation::KeyOfAnotherAccount));
    let (aws, invariants) = (&mut simulation.outside.aws, &simulation.invariants);
    let live = aws.live(now).filter(|instance| invariants.is_known(instance));
    let leaked: Vec<String> = live.map(|instance| instance.id.clone()).collect();
    let targets = aws.targets_left(now, |instance| invariants.targets_are_known(instance));
    let secrets = aws.secrets().iter().filter(|secret| invariants.secret_is_known(secret));
    let secrets = secrets.filter(|_| !had_other_account);
    let secrets: Vec<String> = secrets.map(|secret| format!("{} in {}", secret.name, secret.store)).collect();
    let hosts = aws.hosts().filter(|host| invariants.host_is_known(host));
    let hosts: Vec<String> = hosts.map(|host| host.id.clone()).collect();
    // A machine gets another instance after one with an address only if its object has forgotten that one: nothing
    // tells whose the address was then, as docs/elastic-ips.md says.
    let addresses = aws.addresses().iter().filter(|address| address.released_by.is_none());
    let addresses = addresses.filter(|address| {
        let instance = instance_of(address).and_then(|id| aws.instance(id));
        instance.is_none_or(|instance| invariants.is_known(instance) && aws.is_last_of_its_machine(instance))
    });
    let addresses: Vec<String> = addresses.map(|address| address.id.clone()).collect();
    if !leaked.is_empty() {
        simulation.invariants.violate(now, format!("leaked: {}", leaked.join(", ")));
    }
    if !secrets.is_empty() {
        let text = format!("leaked: {}", secrets.join(", "));
        simulation.invariants.violate(now, text);
    }
    if !hosts.is_empty() {
        let text = format!("leaked: Dedicated Hosts {}", hosts.join(", "));
        simulation.invariants.violate(now, text);
    }
    if !addresses.is_empty() {
        let text = format!("leaked: Elastic IPs {}", addresses.join(", "));
        simulation.invariants.violate(now, text);
    }
    if !targets.is_empty() {
        let text = format!("leaked: {} in load balancers", targets.join(", "));
        simulation.invariants.violate(now, text);
    }
}
