//! The state of one session.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::informer::{Epoch, InstanceInformer};
use crate::limits::Flow;
use crate::lookups::{At, InstanceLookup, LookupAnswer, Lookups};
use crate::targets::{Desired, RegistrationState, TargetAccess, TargetInstance, TargetRequest};
use crate::{CloudError, ClusterKey, Instance, MachineKey, Observation, ResolvedIdentity, StoredSecret, Timing};

use super::account::AccountCache;
use super::calls::{EndedCall, SessionCall, SessionReport};
use super::moment::Moment;

/// The key of a session: the key of its identity, and its region.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// [`ResolvedIdentity::key`](crate::ResolvedIdentity::key).
    pub identity: String,
    /// Region.
    pub region: String,
    /// The Cluster that `identity` contains, if the session is for one Cluster.
    pub cluster: Option<ClusterKey>,
}

impl SessionKey {
    /// The key of the session of an identity in a region.
    pub fn new(identity: &ResolvedIdentity, region: &str) -> Self {
        Self {
            identity: identity.key.clone(),
            region: region.to_owned(),
            cluster: identity.is_for_one_cluster.then(|| identity.cluster.clone()),
        }
    }

    /// The flow of the calls that the session makes for all its machines. A session for one Cluster uses the turns of
    /// that Cluster. Otherwise a namespace would get a turn for each of its Clusters.
    pub fn flow(&self) -> Flow {
        match &self.cluster {
            Some(cluster) => Flow::Cluster(cluster.clone()),
            None => Flow::Session(self.identity.clone()),
        }
    }
}

/// The state of one session: the account of its credentials, and its informer of instances and targets.
pub struct SessionState {
    /// The account of the credentials.
    pub account: AccountCache,
    informer: InstanceInformer,
    lookups: Lookups,
    /// For each machine, the secret whose name is taken, while the replacement of its content waits for its turn.
    taken: BTreeMap<MachineKey, String>,
}

impl SessionState {
    /// The state of an unused session. No call is due until a machine uses the session.
    pub fn new(timing: Timing) -> Self {
        Self {
            account: AccountCache::new(&timing),
            informer: InstanceInformer::new(timing),
            lookups: Lookups::new(timing),
            taken: BTreeMap::new(),
        }
    }

    /// The informer, read-only.
    pub fn informer(&self) -> &InstanceInformer {
        &self.informer
    }

    /// The next call that is due. Call this function until it returns `None`.
    pub fn next_call(&mut self, now: Duration) -> Option<SessionCall> {
        let Self { informer, lookups, .. } = self;
        if let Some(batch) = lookups.begin(now, || informer.lookup_began()) {
            return Some(SessionCall::LookUp(batch));
        }
        if let Some(read) = self.informer.next_read(now) {
            return Some(SessionCall::Read(read));
        }
        if let Some(batch) = self.informer.next_termination(now) {
            return Some(SessionCall::Terminate(batch));
        }
        self.informer.next_target_call(now).map(SessionCall::Targets)
    }

    /// Records the answer to a call of [`SessionState::next_call`], and returns the changes to log.
    pub fn call_ended(&mut self, ended: EndedCall, now: Duration) -> Vec<SessionReport> {
        match ended {
            EndedCall::Read(read, answer) => {
                let reports = self.informer.read_ended(read, answer, now);
                reports.into_iter().map(SessionReport::Instances).collect()
            }
            EndedCall::LookUp(batch, answer) => {
                if let Ok(found) = &answer {
                    // An adopted instance is known immediately.
                    self.informer.lookup_ended(batch.began, found);
                }
                self.lookups.ended(batch, &answer, now);
                Vec::new()
            }
            EndedCall::Terminate(batch, answer) => {
                self.informer.termination_ended(batch, answer);
                Vec::new()
            }
            EndedCall::Targets(call, answer) => {
                let report = self.informer.target_call_ended(&call, answer, now);
                report.map(SessionReport::Targets).into_iter().collect()
            }
        }
    }

    /// The time at which [`SessionState::next_call`] returns the next call, unless an event makes one due earlier. A
    /// time in the past means now.
    pub fn next_due(&self) -> Option<Duration> {
        let due = self.informer.next_due().into_iter();
        due.chain(self.lookups.next_due()).min()
    }

    /// The machines to wake since the last call of this function.
    pub fn take_woken(&mut self) -> BTreeSet<MachineKey> {
        let mut woken = self.informer.take_woken();
        woken.append(&mut self.lookups.take_woken());
        woken
    }

    /// Number of stored entries. A session without machines has none.
    pub fn entries(&self) -> usize {
        self.informer.entries() + self.lookups.entries() + self.taken.len()
    }

    /// Ends the session's interest in a machine.
    pub fn forget(&mut self, machine: &MachineKey) {
        self.informer.forget(machine);
        self.lookups.forget(machine);
        self.taken.remove(machine);
    }

    /// Whether the name of a machine's secret is taken and the content of the secret is still to be replaced.
    pub(super) fn is_taken(&self, machine: &MachineKey, secret: &StoredSecret) -> bool {
        self.taken.get(machine) == Some(&secret.name)
    }

    /// Records whether the content of a secret whose name is taken is still to be replaced.
    pub(super) fn set_taken(&mut self, machine: &MachineKey, secret: &StoredSecret, taken: bool) {
        if taken {
            self.taken.insert(machine.clone(), secret.name.clone());
        } else {
            self.taken.remove(machine);
        }
    }

    pub(super) fn announce_lookup(
        &mut self,
        machine: &MachineKey,
        wanted: &InstanceLookup,
        turn_in: Duration,
        at: Moment,
    ) {
        self.lookups.announce(machine, wanted, turn_in, lookup_time(at));
    }

    pub(super) fn look_up(&mut self, machine: &MachineKey, wanted: &InstanceLookup, at: Moment) -> LookupAnswer {
        self.lookups.look_up(machine, wanted, lookup_time(at))
    }

    /// Ends the use of all lookups before a launch.
    pub(super) fn launches(&mut self, machine: &MachineKey) {
        self.lookups.forget(machine);
    }

    pub(super) fn belongs_to(&mut self, account: &str) {
        self.informer.belongs_to(account);
    }

    pub(super) fn lookup_began(&mut self) -> Epoch {
        self.informer.lookup_began()
    }

    /// Adds the instances of a lookup to the informer, so that an adopted instance is known immediately.
    pub(super) fn lookup_ended(&mut self, began: Epoch, found: &[Instance]) {
        self.informer.lookup_ended(began, found);
    }

    /// The observation of an instance. After the first call, the machine is woken whenever the observation changes.
    /// `cluster` is the name of the machine's cluster in tags.
    pub fn observe(&mut self, machine: &MachineKey, cluster: &str, id: &str, at: Moment) -> Observation {
        self.informer.credentials_replaced(at.replacements);
        self.informer.watch(machine, cluster, id)
    }

    pub(super) fn launched(&mut self, machine: &MachineKey, cluster: &str, instance: &Instance, at: Moment) {
        self.informer.launched(instance, at.now);
        self.observe(machine, cluster, &instance.id, at);
    }

    pub(super) fn changed(&mut self, id: &str, change: impl FnOnce(&mut Instance)) {
        self.informer.changed(id, change);
    }

    pub(super) fn terminate(
        &mut self,
        machine: &MachineKey,
        cluster: &str,
        id: &str,
        at: Moment,
    ) -> Result<(), CloudError> {
        self.informer.terminate(machine, cluster, id, at.now)
    }

    pub(super) fn want_targets(
        &mut self,
        machine: &MachineKey,
        instance: &TargetInstance,
        targets: &[TargetRequest],
        desired: Desired,
        at: Moment,
    ) -> Vec<RegistrationState> {
        self.informer.credentials_replaced(at.replacements);
        self.informer.want_targets(machine, instance, targets, desired, at.now)
    }

    pub(super) fn ask_for_targets(
        &mut self,
        machine: &MachineKey,
        targets: &[TargetRequest],
        at: Moment,
    ) -> Vec<TargetAccess> {
        self.informer.credentials_replaced(at.replacements);
        self.informer.ask_for_targets(machine, targets, at.now)
    }

    pub(super) fn forget_targets(&mut self, machine: &MachineKey) {
        self.informer.forget_targets(machine);
    }
}

fn lookup_time(at: Moment) -> At {
    At { now: at.now, replacements: at.replacements }
}
