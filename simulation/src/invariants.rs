//! The rules that hold at every step, judged by the API server's changes and EC2's audit log.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::conditions::{ConditionType, Reason, find};
use capa_api::contract::Machine;
use capa_api::machine::{AWSMachine, LaunchRecord};
use capa_api::meta;
use capa_cloud::{StoredSecret, Timing};
use capa_controllers::awsmachine::claimed_instances;
use capa_fake_aws::machines::{AllocatedHost, AuditEntry, Change as Happened, LaunchedInstance, Region};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use crate::address_rules::AddressRules;
use crate::aws::{ACCOUNT, OTHER_ACCOUNT, REGION, cluster_of_key, launcher_of, machine_of};
use crate::follow_up::Occasion;
use crate::host_rules::HostRules;
use crate::management_cluster::ManagementCluster;
use crate::names::{machine_key, machine_number};
use crate::nodes::DataRules;
use crate::objects::is_planned;
use crate::outside::Outside;
use crate::server::{Change, Object};
use crate::time::after;

/// The observations so far, and the first violation.
#[derive(Default)]
pub(crate) struct Invariants {
    pub(crate) violation: Option<String>,
    /// Audit entries that were looked at, by account.
    seen: BTreeMap<&'static str, usize>,
    main: Book,
    neighbour: Book,
    hosts: HostRules,
    data: DataRules,
    addresses: AddressRules,
}

/// The observations of the objects of one management cluster.
#[derive(Default)]
struct Book {
    /// Tokens that stood in a launch record at some time.
    recorded: BTreeSet<String>,
    /// Subnet and parameters of each token that RunInstances was called with.
    asked: BTreeMap<String, (String, String)>,
    /// `spec.providerID` by UID.
    published: BTreeMap<String, String>,
    /// The condition `InstanceReady` of the last version of each object, by UID.
    ready: BTreeMap<String, Condition>,
    /// Machines whose objects went otherwise than by their finalizer, so that nobody knows their instances any more.
    unknown: BTreeSet<String>,
    /// The number of versions of objects so far.
    versions: u64,
    /// Machines whose statuses were lost with the addresses of their instances, with the number of versions before.
    addresses_lost: BTreeMap<String, u64>,
    /// Instances whose addresses a status has shown, with the number of the last such version. An ended instance shows
    /// none.
    addresses_shown: BTreeMap<String, u64>,
    /// Machines that a backup brought back from before the finalizer, and that no manager has come to yet. A deletion
    /// ends them at once.
    unheld: BTreeSet<String>,
    /// Machines that a backup brought back from before their launch, and when. The deletion of such a machine ends once
    /// AWS could not be asked for minutes, as docs/troubleshooting.md says. A record of a later attempt ends this.
    planned_again: BTreeMap<String, Timestamp>,
    /// A backup is being restored: objects that are not in it are gone, and nobody knows their instances any more.
    backup_is_restored: bool,
    /// Objects move to another management cluster, where they appear at once.
    objects_move: bool,
}

impl Invariants {
    /// Records the first violation.
    pub(crate) fn violate(&mut self, now: Timestamp, text: impl Into<String>) {
        if self.violation.is_none() {
            let seconds = crate::time::since_start(now).as_secs_f64();
            self.violation = Some(format!("after {seconds:.3} s: {}", text.into()));
        }
    }

    /// A backup is being restored, or was. It knows nothing of what was published and attempted after it was taken: a
    /// number may come again, when no instance of its attempt lives any more.
    pub(crate) fn restores_backup(&mut self, of: ManagementCluster, begins: bool) {
        let book = self.book_mut(of);
        book.backup_is_restored = begins;
        if begins {
            book.published.clear();
            book.asked.clear();
        }
    }

    /// Objects begin to move to another management cluster, or have moved.
    pub(crate) fn move_objects(&mut self, of: ManagementCluster, begins: bool) {
        self.book_mut(of).objects_move = begins;
    }

    /// A machine's status is about to be lost, or to become an older one.
    pub(crate) fn loses_status(&mut self, of: ManagementCluster, name: &str) {
        let book = self.book_mut(of);
        book.addresses_lost.insert(machine_key(name), book.versions);
    }

    /// A backup has brought a machine back from before a manager added the finalizer.
    pub(crate) fn restores_unheld(&mut self, of: ManagementCluster, name: &str) {
        self.book_mut(of).unheld.insert(machine_key(name));
    }

    /// A backup has brought a machine back whose record says that EC2 was never asked.
    pub(crate) fn restores_planned(&mut self, of: ManagementCluster, name: &str, now: Timestamp) {
        self.book_mut(of).planned_again.insert(machine_key(name), now);
    }

    /// The user gives up what a machine may have.
    pub(crate) fn gives_up(&mut self, of: ManagementCluster, name: &str) {
        self.book_mut(of).unknown.insert(machine_key(name));
    }

    /// Whether the object that an instance was launched for still answers for it.
    pub(crate) fn is_known(&self, instance: &LaunchedInstance) -> bool {
        let (of, machine) = (launcher_of(instance), machine_of(instance));
        !of.zip(machine).is_some_and(|(of, machine)| self.book(of).unknown.contains(machine))
    }

    /// Whether an object that the secret may be of still answers for it.
    pub(crate) fn secret_is_known(&self, secret: &StoredSecret) -> bool {
        self.name_is_known(secret.tags.get(meta::NAME_TAG))
    }

    /// Whether an object that the Dedicated Host may be of still answers for it.
    pub(crate) fn host_is_known(&self, host: &AllocatedHost) -> bool {
        self.name_is_known(host.request.tags.get(meta::NAME_TAG))
    }

    fn name_is_known(&self, name: Option<&String>) -> bool {
        let name = name.map(|name| machine_key(name));
        name.is_some_and(|name| ManagementCluster::ALL.iter().all(|of| !self.book(*of).unknown.contains(&name)))
    }

    /// Whether instances are left in a management cluster that no object answers for.
    pub(crate) fn has_orphans(&self, of: ManagementCluster) -> bool {
        !self.book(of).unknown.is_empty()
    }

    /// Whether the object that an instance was launched for still answers for its targets.
    pub(crate) fn targets_are_known(&self, instance: &LaunchedInstance) -> bool {
        let Some((of, machine)) = launcher_of(instance).zip(machine_of(instance)) else {
            return false;
        };
        let book = self.book(of);
        let lost = book.addresses_lost.get(machine);
        let has_address = lost.is_none_or(|lost| book.addresses_shown.get(&instance.id) > Some(lost));
        has_address && !book.unknown.contains(machine)
    }

    fn book(&self, of: ManagementCluster) -> &Book {
        match of {
            ManagementCluster::Main => &self.main,
            ManagementCluster::Neighbour => &self.neighbour,
        }
    }

    fn book_mut(&mut self, of: ManagementCluster) -> &mut Book {
        match of {
            ManagementCluster::Main => &mut self.main,
            ManagementCluster::Neighbour => &mut self.neighbour,
        }
    }

    /// A change of an object.
    pub(crate) fn changed(&mut self, of: ManagementCluster, change: &Change, outside: &Outside) {
        match change {
            Change::Applied(Object::AwsMachine(machine)) => self.machine_changed(of, machine, outside),
            Change::Deleted(Object::AwsMachine(machine)) => self.machine_gone(of, machine, outside),
            Change::Applied(_) | Change::Deleted(_) => {}
        }
    }

    fn machine_changed(&mut self, of: ManagementCluster, machine: &AWSMachine, outside: &Outside) {
        let (now, key) = (outside.now, machine_key(&machine.name_any()));
        let launch = machine.status.as_ref().and_then(|status| status.launch.as_ref());
        let book = self.book_mut(of);
        if let Some(request) = launch.and_then(LaunchRecord::request) {
            book.recorded.insert(request.client_token.clone());
        }
        let host = machine.status.as_ref().and_then(|status| status.dedicated_host.as_deref());
        let token = host.and_then(|host| host.client_token.clone());
        book.recorded.extend(token);
        let addresses = machine.status.as_ref().map(|status| status.addresses.as_slice());
        let recorded = launch.and_then(LaunchRecord::instance_id);
        let instance = recorded.and_then(|id| outside.aws.instance(id));
        let lives = instance.is_some_and(|instance| instance.is_live(now));
        book.versions += 1;
        if !machine.finalizers().is_empty() {
            book.unheld.remove(&key);
        }
        if !is_planned(machine) {
            book.planned_again.remove(&key);
        }
        if let Some(instance) = instance.filter(|_| lives && !addresses.unwrap_or_default().is_empty()) {
            book.addresses_shown.insert(instance.id.clone(), book.versions);
        }
        let uid = machine.metadata.uid.clone().unwrap_or_default();
        let provider_id = machine.spec.provider_id.clone();
        let before = provider_id.clone().and_then(|id| book.published.insert(uid.clone(), id));
        let conditions = machine.status.as_ref().map(|status| status.conditions.as_slice());
        let ready = find(conditions.unwrap_or_default(), ConditionType::InstanceReady).cloned();
        let ready_before = match ready.clone() {
            Some(ready) => book.ready.insert(uid, ready),
            None => book.ready.remove(&uid),
        };
        let is_judged = lives && !book.backup_is_restored;
        if before.is_some() && before != provider_id {
            let text = format!("spec.providerID of {key} changed from {before:?} to {provider_id:?}");
            self.violate(now, text);
        }
        // A condition that this version does not change may be about an earlier launch, an image that is missing for
        // one. A backup may bring such a condition back.
        let shown = |ready: &Condition| (ready.status.clone(), ready.reason.clone(), ready.message.clone());
        let shown_before = ready_before.as_ref().map(shown);
        if let Some(ready) = ready.filter(|ready| is_judged && shown_before != Some(shown(ready))) {
            self.said_to_be_gone(machine, &ready, now);
        }
        if let Some(instance) = instance
            && (launcher_of(instance), machine_of(instance)) != (Some(of), Some(key.as_str()))
        {
            self.violate(now, format!("foreign: {key} of {of:?} has adopted {}", owned(instance)));
        }
    }

    /// Cluster API replaces a Machine whose instance is said to be gone, so an instance that lives must not be called
    /// gone.
    fn said_to_be_gone(&mut self, machine: &AWSMachine, ready: &Condition, now: Timestamp) {
        let gone = ready.status == "False" && ready.reason == Reason::NotFound.as_str();
        if gone && machine.metadata.deletion_timestamp.is_none() {
            let name = machine.name_any();
            self.violate(now, format!("{name} is said to be gone, and its instance lives"));
        }
    }

    /// The finalizer came off: no instance may be left that is proven to be the machine's. What a move has launched
    /// under another UID is not, once the objects of before the move are back.
    fn machine_gone(&mut self, of: ManagementCluster, machine: &AWSMachine, outside: &Outside) {
        let name = machine_key(&machine.name_any());
        let book = self.book_mut(of);
        if book.objects_move || book.unknown.contains(&name) {
            return;
        }
        if book.backup_is_restored || book.unheld.remove(&name) {
            book.unknown.insert(name);
            return;
        }
        let left = outside.aws.live_of(outside.now, of, &name).next();
        if let Some(left) = left {
            let restored = book.planned_again.get(&name).copied();
            let is_believed = restored.is_some_and(|at| left.launched_at < at) && is_unasked(of, machine, outside);
            if is_proven(machine, left) && !is_believed {
                let text = format!("leaked: {name} is gone and its instance {} lives", left.id);
                self.violate(outside.now, text);
            } else {
                book.unknown.insert(name);
            }
        }
    }

    /// Checks the calls of AWS since the last check. Returns what has happened to which machines.
    pub(crate) fn check(&mut self, outside: &mut Outside) -> Vec<(Occasion, ManagementCluster, usize)> {
        let now = outside.now;
        for (of, launch) in outside.aws.take_launch_requests() {
            let (token, subnet) = (&launch.client_token, &launch.subnet_id);
            self.launch_asked(of, token, subnet, launch.parameters_hash(), now);
        }
        for text in self.hosts.broken(outside.aws.all_hosts()) {
            self.violate(now, text);
        }
        let live = outside.aws.live(now);
        for text in self.data.broken(outside.aws.secrets(), live, now) {
            self.violate(now, text);
        }
        for text in self.addresses.broken(outside.aws.addresses()) {
            self.violate(now, text);
        }
        for token in self.hosts.take_asked() {
            if !ManagementCluster::ALL.iter().any(|of| self.book(*of).recorded.contains(&token)) {
                self.violate(now, format!("AllocateHosts was called with token {token} before it was recorded"));
            }
        }
        let mut occasions = Vec::new();
        for (of, machine) in self.addresses.take_allocated() {
            let object = wanted(of, &machine, outside);
            let number = object.and_then(|object| machine_number(&object.name_any()));
            occasions.extend(number.map(|number| (Occasion::AddressAllocated, of, number)));
        }
        for account in [ACCOUNT, OTHER_ACCOUNT] {
            let seen = self.seen.entry(account).or_default();
            let audit = outside.aws.accounts.find_region(account, REGION).map_or(&[][..], Region::audit);
            let news: Vec<AuditEntry> = audit.iter().skip(*seen).cloned().collect();
            *seen += news.len();
            for entry in news {
                if let Some(by) = cluster_of_key(&entry.access_key) {
                    let launched = self.happened(by, &entry, outside);
                    occasions.extend(launched.map(|machine| (Occasion::Launched, by, machine)));
                }
            }
        }
        occasions
    }

    fn launch_asked(&mut self, of: ManagementCluster, token: &str, subnet: &str, hash: String, now: Timestamp) {
        let book = self.book_mut(of);
        let is_recorded = book.recorded.contains(token);
        let parameters = (subnet.to_owned(), hash);
        let first = book.asked.entry(token.to_owned()).or_insert_with(|| parameters.clone()).clone();
        if !is_recorded {
            self.violate(now, format!("RunInstances was called with token {token} before it was recorded"));
        }
        if first != parameters {
            self.violate(now, format!("token {token} was used with {first:?} and with {parameters:?}"));
        }
    }

    /// A call of a manager has changed an instance. Gives the number of the machine that one was launched for.
    fn happened(&mut self, by: ManagementCluster, entry: &AuditEntry, outside: &mut Outside) -> Option<usize> {
        let instance = outside.aws.instance(&entry.instance_id)?;
        if launcher_of(instance) != Some(by) {
            let text = format!("foreign: {} was {:?} by {by:?}", owned(instance), entry.change);
            self.violate(outside.now, text);
            return None;
        }
        let (id, machine) = (instance.id.clone(), machine_of(instance)?.to_owned());
        match entry.change {
            Happened::Launched => return self.launched(by, &id, &machine, outside),
            Happened::Terminated => self.terminated(by, &id, &machine, outside),
            Happened::LaunchRepeated
            | Happened::TerminationRepeated
            | Happened::Stopped
            | Happened::Started
            | Happened::Tagged
            | Happened::Untagged
            | Happened::Regrouped
            | Happened::Registered
            | Happened::Deregistered => {}
        }
        None
    }

    fn launched(&mut self, of: ManagementCluster, id: &str, machine: &str, outside: &Outside) -> Option<usize> {
        let live = outside.aws.live_of(outside.now, of, machine);
        let ids: Vec<&str> = live.map(|other| other.id.as_str()).collect();
        if ids.len() > 1 {
            self.violate(outside.now, format!("doubled: {machine} has {}", ids.join(", ")));
        }
        let object = wanted(of, machine, outside);
        if object.is_none() && !self.book(of).unknown.contains(machine) {
            let text = format!("leaked: {id} was launched for {machine}, which is gone");
            self.violate(outside.now, text);
        }
        let uid = object.and_then(|object| object.metadata.uid.as_deref());
        let first = uid.and_then(|uid| self.book(of).published.get(uid));
        if let Some(first) = first.filter(|first| !first.ends_with(id)) {
            let text = format!("second: {id} was launched for {machine}, which has had {first}");
            self.violate(outside.now, text);
        }
        machine_number(&object?.name_any())
    }

    /// An instance is kept while its machine is wanted, and while it gets traffic: until it has drained, or the longest
    /// time for that is over.
    fn terminated(&mut self, of: ManagementCluster, id: &str, machine: &str, outside: &mut Outside) {
        let now = outside.now;
        let limit = Timing::default().drain_limit;
        let object = wanted(of, machine, outside);
        let asked = object.map(|object| object.metadata.deletion_timestamp.clone());
        if asked == Some(None) {
            self.violate(now, format!("cut short: {id} was terminated, and {machine} is not deleted"));
        }
        let given_up = asked.flatten().map(|asked| after(asked.0, limit));
        let status = object.and_then(|object| object.status.as_ref());
        let is_submitted = status.is_some_and(|status| status.submitted_terminations.iter().any(|other| other == id));
        for (group, deregistered, delay) in outside.aws.region().traffic_of(now, id) {
            let over = match deregistered {
                // A termination that was submitted when the target was given up goes on.
                Some(at) if is_submitted && given_up.is_some_and(|given_up| given_up <= at) => given_up,
                Some(at) => Some(after(at, delay.min(limit))),
                None => given_up,
            };
            if over.is_none_or(|over| now < over) {
                self.violate(now, format!("cut off: {id} was terminated while it got traffic from {group}"));
            }
        }
    }
}

/// The AWSMachine of a management cluster that instances with this tag are launched for.
fn wanted<'a>(of: ManagementCluster, machine: &str, outside: &'a Outside) -> Option<&'a AWSMachine> {
    let mut machines = outside.server(of).stored.aws_machines.iter();
    let found = machines.find(|(name, _)| machine_key(name) == machine);
    found.map(|(_, object)| object.as_ref())
}

/// Whether AWS could not be asked for so long that the record of a restored machine is believed, which nothing
/// contradicts.
fn is_unasked(of: ManagementCluster, machine: &AWSMachine, outside: &Outside) -> bool {
    let owner = outside.server(of).get::<Machine>(&machine.name_any());
    let contradicts = |owner: &Machine| {
        let joined = owner.status.as_ref().is_some_and(|status| status.node_ref.is_some());
        joined || owner.spec.provider_id.is_some()
    };
    outside.aws.was_unreachable_for(Timing::default().launch_lookup_age, outside.now)
        && claimed_instances(machine).is_empty()
        && !owner.as_deref().is_some_and(contradicts)
}

/// Whether an instance with a machine's tags is the machine's by its token, or because the machine names it.
fn is_proven(machine: &AWSMachine, instance: &LaunchedInstance) -> bool {
    let uid = machine.metadata.uid.as_deref().unwrap_or_default();
    let token = instance.request.client_token.strip_prefix(uid);
    token.is_some_and(|number| number.starts_with('-')) || claimed_instances(machine).contains(&instance.id)
}

/// An instance with whose it is.
fn owned(instance: &LaunchedInstance) -> String {
    let machine = machine_of(instance).unwrap_or_default();
    match launcher_of(instance) {
        Some(of) => format!("{} of {machine} of {of:?}", instance.id),
        None => format!("{} of the user", instance.id),
    }
}
