//! What must hold at every step, read off the API server's changes and EC2's audit log.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::conditions::{ConditionType, Reason, find};
use capa_api::machine::{AWSMachine, LaunchRecord};
use capa_cloud::Timing;
use capa_cloud::sim::{AuditEntry, Change as Happened, LaunchedInstance, Region};
use capa_controllers::awsmachine::claimed_instances;
use jiff::Timestamp;
use kube::ResourceExt;

use crate::aws::{ACCOUNT, OTHER_ACCOUNT, REGION, USER_KEY, machine_of};
use crate::objects::NAMESPACE;
use crate::outside::{Outside, after};
use crate::server::{Change, Object};

/// What was seen so far, and the first violation.
#[derive(Default)]
pub(crate) struct Invariants {
    pub(crate) violation: Option<String>,
    /// Audit entries that were looked at, by account.
    seen: BTreeMap<&'static str, usize>,
    /// Tokens that stood in a launch record at some time.
    recorded: BTreeSet<String>,
    /// Subnet and parameters of each token that RunInstances was called with.
    asked: BTreeMap<String, (String, String)>,
    /// `spec.providerID` by UID.
    published: BTreeMap<String, String>,
    /// Machines whose objects went otherwise than by their finalizer, so that nobody knows their instances any more.
    pub(crate) unknown: BTreeSet<String>,
    /// Machines whose statuses were lost with the addresses of their instances, and have not shown them since: what has
    /// ended shows none.
    pub(crate) addresses_lost: BTreeSet<String>,
    /// A backup is being restored: objects that are not in it are gone, and nobody knows their instances any more.
    pub(crate) backup_is_restored: bool,
    /// Objects move to another management cluster, where they appear at once.
    pub(crate) objects_move: bool,
}

impl Invariants {
    /// Records the first violation.
    pub(crate) fn violate(&mut self, now: Timestamp, text: impl Into<String>) {
        if self.violation.is_none() {
            let seconds = crate::outside::since_start(now).as_secs_f64();
            self.violation = Some(format!("after {seconds:.3} s: {}", text.into()));
        }
    }

    /// A backup knows nothing of what was published and attempted after it was taken: a number may come again, when no
    /// instance of its attempt lives any more.
    pub(crate) fn forget_what_was_recorded(&mut self) {
        self.published.clear();
        self.asked.clear();
    }

    /// A machine's status is about to be lost, or to become an older one.
    pub(crate) fn loses_status(&mut self, name: &str) {
        self.addresses_lost.insert(machine_key(name));
    }

    /// A change of an object.
    pub(crate) fn changed(&mut self, change: &Change, outside: &Outside) {
        match change {
            Change::Applied(Object::AwsMachine(machine)) => self.machine_changed(machine, outside),
            Change::Deleted(Object::AwsMachine(machine)) => self.machine_gone(machine, outside),
            Change::Applied(_) | Change::Deleted(_) => {}
        }
    }

    fn machine_changed(&mut self, machine: &AWSMachine, outside: &Outside) {
        let now = outside.now;
        let launch = machine.status.as_ref().and_then(|status| status.launch.as_ref());
        if let Some(request) = launch.and_then(LaunchRecord::request) {
            self.recorded.insert(request.client_token.clone());
        }
        let addresses = machine.status.as_ref().map(|status| status.addresses.as_slice());
        let recorded = launch.and_then(LaunchRecord::instance_id);
        let lives = outside
            .aws
            .live(now)
            .any(|instance| Some(instance.id.as_str()) == recorded);
        if lives && !addresses.unwrap_or_default().is_empty() {
            self.addresses_lost.remove(&machine_key(&machine.name_any()));
        }
        self.said_to_be_gone(machine, outside);
        let uid = machine.metadata.uid.clone().unwrap_or_default();
        if let Some(id) = &machine.spec.provider_id {
            let before = self.published.insert(uid, id.clone());
            if before.as_ref().is_some_and(|before| before != id) {
                let name = machine.name_any();
                self.violate(
                    now,
                    format!("spec.providerID of {name} changed from {before:?} to {id}"),
                );
            }
        }
    }

    /// A machine that is said to be gone is replaced: it had better be.
    fn said_to_be_gone(&mut self, machine: &AWSMachine, outside: &Outside) {
        let Some(status) = &machine.status else { return };
        let recorded = status.launch.as_ref().and_then(LaunchRecord::instance_id);
        // The reason alone may still be that of the launch before.
        let gone = find(&status.conditions, ConditionType::InstanceReady).is_some_and(|condition| {
            condition.reason == Reason::NotFound.as_str() && recorded.is_some_and(|id| condition.message.contains(id))
        });
        let lives = outside
            .aws
            .live(outside.now)
            .any(|instance| Some(instance.id.as_str()) == recorded);
        if gone && lives && machine.metadata.deletion_timestamp.is_none() {
            let name = machine.name_any();
            self.violate(
                outside.now,
                format!("{name} is said to be gone, and its instance lives"),
            );
        }
    }

    /// The finalizer came off: no instance may be left that is proven to be the machine's. What a move has launched under
    /// another UID is not, once the objects of before the move are back.
    fn machine_gone(&mut self, machine: &AWSMachine, outside: &Outside) {
        let name = machine_key(&machine.name_any());
        if self.objects_move || self.unknown.contains(&name) {
            return;
        }
        if self.backup_is_restored {
            self.unknown.insert(name);
            return;
        }
        let mut left = outside.aws.live(outside.now);
        let left = left.find(|instance| machine_of(instance) == Some(&name));
        if let Some(left) = left {
            if is_proven(machine, left) {
                let text = format!("leaked: {name} is gone and its instance {} lives", left.id);
                self.violate(outside.now, text);
            } else {
                self.unknown.insert(name);
            }
        }
    }

    /// Whatever AWS was asked since the last look.
    pub(crate) fn look(&mut self, outside: &mut Outside) {
        let now = outside.now;
        for launch in outside.aws.take_launch_requests() {
            self.launch_asked(&launch.client_token, &launch.subnet_id, launch.parameters_hash(), now);
        }
        for account in [ACCOUNT, OTHER_ACCOUNT] {
            let seen = self.seen.entry(account).or_default();
            let audit = outside
                .aws
                .ec2
                .find_region(account, REGION)
                .map_or(&[][..], Region::audit);
            let news: Vec<AuditEntry> = audit.iter().skip(*seen).cloned().collect();
            *seen += news.len();
            for entry in news.iter().filter(|entry| entry.access_key != USER_KEY) {
                self.happened(entry, outside);
            }
        }
    }

    fn launch_asked(&mut self, token: &str, subnet: &str, hash: String, now: Timestamp) {
        if !self.recorded.contains(token) {
            self.violate(
                now,
                format!("RunInstances was called with token {token} before it was recorded"),
            );
        }
        let parameters = (subnet.to_owned(), hash);
        let first = self.asked.entry(token.to_owned()).or_insert_with(|| parameters.clone());
        if first.0 != parameters.0 {
            let first = first.0.clone();
            self.violate(now, format!("token {token} was used in {first} and in {subnet}"));
        }
    }

    fn happened(&mut self, entry: &AuditEntry, outside: &mut Outside) {
        let launched = outside
            .aws
            .ec2
            .launched()
            .find(|instance| instance.id == entry.instance_id);
        let Some(instance) = launched else { return };
        let machine = machine_of(instance).unwrap_or_default().to_owned();
        match entry.change {
            Happened::Launched => {
                let live = outside
                    .aws
                    .live(outside.now)
                    .filter(|other| machine_of(other) == Some(&machine));
                let ids: Vec<&str> = live.map(|other| other.id.as_str()).collect();
                if ids.len() > 1 {
                    self.violate(outside.now, format!("doubled: {machine} has {}", ids.join(", ")));
                }
                let wanted = outside
                    .server
                    .stored
                    .aws_machines
                    .keys()
                    .any(|name| machine_key(name) == machine);
                if !wanted && !self.unknown.contains(&machine) {
                    let id = &instance.id;
                    self.violate(
                        outside.now,
                        format!("leaked: {id} was launched for {machine}, which is gone"),
                    );
                }
            }
            Happened::Terminated if instance.launched_by != USER_KEY => {
                let (id, machine) = (instance.id.clone(), machine.clone());
                self.terminated(&id, &machine, outside);
            }
            Happened::Terminated | Happened::TerminationRepeated | Happened::Stopped | Happened::Started => {
                if instance.launched_by == USER_KEY {
                    let id = &instance.id;
                    self.violate(outside.now, format!("foreign: {id} was {:?}", entry.change));
                }
            }
            Happened::LaunchRepeated => {}
        }
    }
}

impl Invariants {
    /// An instance is kept while it gets traffic: until it has drained, or the longest time for that is over.
    fn terminated(&mut self, id: &str, machine: &str, outside: &mut Outside) {
        let now = outside.now;
        let limit = Timing::default().drain_limit;
        let machines = &outside.server.stored.aws_machines;
        let object = machines.iter().find(|(name, _)| machine_key(name) == machine);
        let asked = object.and_then(|(_, object)| object.metadata.deletion_timestamp.as_ref());
        let asked = asked.map(|asked| after(asked.0, limit));
        for (group, deregistered, delay) in outside.aws.region().traffic_of(now, id) {
            let over = match deregistered {
                Some(at) => Some(after(at, delay.min(limit))),
                None => asked,
            };
            if over.is_none_or(|over| now < over) {
                self.violate(
                    now,
                    format!("cut off: {id} was terminated while it got traffic from {group}"),
                );
            }
        }
    }
}

/// Whether an instance with a machine's tags is the machine's by its token, or because the machine names it.
fn is_proven(machine: &AWSMachine, instance: &LaunchedInstance) -> bool {
    let uid = machine.metadata.uid.as_deref().unwrap_or_default();
    let token = instance.request.client_token.strip_prefix(uid);
    token.is_some_and(|number| number.starts_with('-')) || claimed_instances(machine).contains(&instance.id)
}

/// A machine as the tag of its instance names it.
pub(crate) fn machine_key(name: &str) -> String {
    format!("{NAMESPACE}/{name}")
}
