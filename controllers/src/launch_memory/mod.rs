//! The memory of the launches of this process. It is safe to lose this memory: the provider looks up the instance of an
//! unknown record in AWS, and claims the record before it repeats the call. A proof of absence begins anew.

mod attempts;
mod capacity;
mod kinds;
pub(crate) mod progress;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use capa_api::machine::AWSMachine;
use capa_api::network::NetworkSubnet;
use capa_cloud::{Instance, Timing};
use capa_network::{Capacity, Placement};
use parking_lot::{Mutex, MutexGuard};

use self::capacity::Shortages;
use self::kinds::LaunchKinds;
use crate::call_fingerprint::CallFingerprint;
use crate::refusals::Refusals;

pub(crate) use self::attempts::{Attempts, RememberedAttempt};
pub(crate) use self::capacity::{CapacityLocation, Pool};
pub(crate) use self::kinds::{LaunchKind, Permission};

/// The launches of this process: the progress of attempts, the subnets that are reserved but not yet recorded, the
/// locations without capacity, and permanent errors.
#[derive(Clone)]
pub struct LaunchMemory {
    holder: Arc<str>,
    state: Arc<Mutex<State>>,
    launches: Attempts,
    hosts: Attempts,
    elastic_ips: Attempts,
    refusals: Refusals,
    shortages: Shortages,
    kinds: LaunchKinds,
}

#[derive(Default)]
struct State {
    /// The answers to calls that are not recorded yet, by UID of the machine.
    answers: HashMap<String, Instance>,
    reserved_subnets: HashMap<String, String>,
    /// The times of the first and the last failed lookup for each deleted machine, by UID.
    failed_lookups: HashMap<String, (Duration, Duration)>,
    /// The instances that are gone and after which no later call has launched another one, by UID of their machine.
    without_newer_attempt: HashMap<String, String>,
    /// The bootstrap data of each machine, by UID, and the number of its parts that are stored, as this process knows.
    stored_data: HashMap<String, (CallFingerprint, usize)>,
    /// When the last call to store bootstrap data failed without an answer, by UID of the machine.
    unanswered_stores: HashMap<String, Duration>,
    /// The group of the identity of each machine's last pass, by UID.
    identity_groups: HashMap<String, String>,
}

impl State {
    /// The number of machines beside this one that are, or are about to be launched, in each subnet.
    fn machines_by_subnet(&self, uid: &str, machines: &[Arc<AWSMachine>]) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for machine in machines {
            let other = machine.metadata.uid.as_deref().unwrap_or_default();
            if other == uid || machine.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let recorded = machine.status.as_ref().and_then(|status| status.launch.as_ref()?.request());
            let recorded = recorded.map(|request| &request.subnet_id);
            if let Some(subnet) = recorded.or_else(|| self.reserved_subnets.get(other)) {
                *counts.entry(subnet.clone()).or_insert(0) += 1;
            }
        }
        counts
    }
}

/// A machine that needs a subnet, and the subnets of its cluster.
pub(crate) struct SubnetQuery<'a> {
    /// UID of the machine.
    pub(crate) uid: &'a str,
    /// The machines that share its shortages.
    pub(crate) pool: &'a Pool,
    /// All subnets of its network.
    pub(crate) subnets: &'a [NetworkSubnet],
    /// The time, counted from the start of the process.
    pub(crate) now: Duration,
    /// The times for which locations without capacity are avoided.
    pub(crate) timing: &'a Timing,
}

impl LaunchMemory {
    /// An empty memory. `holder` is the id of this process in launch records: an id of at most 64 characters that no
    /// other process has used.
    pub fn new(holder: impl Into<Arc<str>>) -> Self {
        let holder = holder.into();
        Self {
            launches: Attempts::new(&holder),
            hosts: Attempts::new(&holder),
            elastic_ips: Attempts::new(&holder),
            holder,
            state: Arc::default(),
            refusals: Refusals::default(),
            shortages: Shortages::default(),
            kinds: LaunchKinds::default(),
        }
    }

    /// Number of stored attempts, answers, reserved subnets, tries, identities and permanent errors.
    pub fn entries(&self) -> usize {
        let state = self.state();
        let attempts = self.launches.entries() + self.hosts.entries() + self.elastic_ips.entries();
        let attempts = attempts + state.answers.len();
        let machines = attempts + state.reserved_subnets.len() + state.identity_groups.len();
        let data = state.stored_data.len() + state.unanswered_stores.len();
        machines + data + state.failed_lookups.len() + state.without_newer_attempt.len() + self.refusals.entries()
    }

    /// Number of stored locations without capacity. An unused location is removed after an hour, when the next machine
    /// is placed.
    pub fn shortage_entries(&self) -> usize {
        self.shortages.entries()
    }

    /// The id of this process in launch records.
    pub(crate) fn holder(&self) -> &str {
        &self.holder
    }

    /// Remembers the answer to the call of an attempt until it is recorded.
    pub(crate) fn answered(&self, uid: &str, instance: Instance) {
        self.state().answers.insert(uid.to_owned(), instance);
    }

    /// The answer to the call of an attempt that is not recorded yet.
    pub(crate) fn answer(&self, uid: &str) -> Option<Instance> {
        self.state().answers.get(uid).cloned()
    }

    /// Forgets the attempts of a machine with an instance. Its subnet stays reserved, because the cache may not show
    /// the record yet.
    pub(crate) fn launched(&self, uid: &str) {
        self.state().answers.remove(uid);
        self.launches.forget(uid);
        self.refusals.forget(uid);
    }

    /// Forgets a machine that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        let mut state = self.state();
        state.answers.remove(uid);
        state.reserved_subnets.remove(uid);
        state.stored_data.remove(uid);
        state.unanswered_stores.remove(uid);
        state.identity_groups.remove(uid);
        state.failed_lookups.remove(uid);
        state.without_newer_attempt.remove(uid);
        self.refusals.forget(uid);
        self.launches.forget(uid);
        self.hosts.forget(uid);
        self.elastic_ips.forget(uid);
    }

    /// Records that this process has stored the first parts of this bootstrap data.
    pub(crate) fn stored(&self, uid: &str, data: CallFingerprint, parts: usize) {
        self.state().stored_data.insert(uid.to_owned(), (data, parts));
    }

    /// The number of the first parts of this bootstrap data that this process has stored and nobody has used since.
    /// `None` if this process does not know it.
    pub(crate) fn stored_parts(&self, uid: &str, data: CallFingerprint) -> Option<usize> {
        let state = self.state();
        let stored = state.stored_data.get(uid).filter(|(stored, _)| *stored == data);
        stored.map(|(_, parts)| *parts)
    }

    /// Whether this process has written the record of a machine's bootstrap data, and knows that none of the data is
    /// stored.
    pub(crate) fn has_stored_nothing(&self, uid: &str) -> bool {
        let state = self.state();
        state.stored_data.get(uid).is_some_and(|(_, parts)| *parts == 0)
    }

    /// Forgets the stored bootstrap data of a machine: it is deleted, or an instance may have deleted it.
    pub(crate) fn forget_stored(&self, uid: &str) {
        self.state().stored_data.remove(uid);
    }

    /// Records that a call to store bootstrap data has failed without an answer.
    pub(crate) fn store_unanswered(&self, uid: &str, at: Duration) {
        self.state().unanswered_stores.insert(uid.to_owned(), at);
    }

    /// When the last call to store bootstrap data of a machine failed without an answer.
    pub(crate) fn unanswered_store(&self, uid: &str) -> Option<Duration> {
        self.state().unanswered_stores.get(uid).copied()
    }

    /// Records that the instance of a deleted machine could not be looked up. After a pause of more than
    /// `longest_pause`, the count of the time begins anew.
    pub(crate) fn lookup_failed(&self, uid: &str, at: Duration, longest_pause: Duration) {
        let mut state = self.state();
        let (first, last) = state.failed_lookups.entry(uid.to_owned()).or_insert((at, at));
        if at.saturating_sub(*last) > longest_pause {
            *first = at;
        }
        *last = at;
    }

    /// Records that the instance of a deleted machine was looked up.
    pub(crate) fn lookup_succeeded(&self, uid: &str) {
        self.state().failed_lookups.remove(uid);
    }

    /// The time from the first to the last failed lookup for a deleted machine.
    pub(crate) fn time_of_failed_lookups(&self, uid: &str) -> Duration {
        let tries = self.state().failed_lookups.get(uid).copied();
        tries.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(first))
    }

    /// Whether to look for the instance of a later call, after this instance is gone.
    pub(crate) fn may_have_later_instance(&self, uid: &str, gone: &str) -> bool {
        self.state().without_newer_attempt.get(uid).is_none_or(|known| known != gone)
    }

    /// Records that no later call has followed this instance, which is gone.
    pub(crate) fn found_no_later_instance(&self, uid: &str, gone: &str) {
        self.state().without_newer_attempt.insert(uid.to_owned(), gone.to_owned());
    }

    /// Records the group of the identity that a machine's pass uses.
    pub(crate) fn uses_identity(&self, uid: &str, group: String) {
        self.state().identity_groups.insert(uid.to_owned(), group);
    }

    /// The group of the identity of a machine's last pass.
    pub(crate) fn identity_group(&self, uid: &str) -> Option<String> {
        self.state().identity_groups.get(uid).cloned()
    }

    /// The attempts to launch instances.
    pub(crate) fn launches(&self) -> &Attempts {
        &self.launches
    }

    /// The attempts to allocate Dedicated Hosts.
    pub(crate) fn hosts(&self) -> &Attempts {
        &self.hosts
    }

    /// The attempts to allocate Elastic IPs.
    pub(crate) fn elastic_ips(&self) -> &Attempts {
        &self.elastic_ips
    }

    /// The permanent errors of AWS calls.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// The kinds of launches that EC2 has accepted or refused.
    pub(crate) fn kinds(&self) -> &LaunchKinds {
        &self.kinds
    }

    /// The locations without capacity.
    pub(crate) fn shortages(&self) -> &Shortages {
        &self.shortages
    }

    /// Chooses a subnet by the number of `machines`, the machines of the cluster, in each subnet, and by recent lacks
    /// of capacity. The subnet is reserved at once, so that machines that are placed simultaneously count each other.
    ///
    /// A machine keeps its reserved subnet as long as no other subnet suits it better for another reason than the
    /// number of machines. So the machines are not counted in each of the many passes in which it waits for its turn.
    pub(crate) fn place<E>(
        &self,
        query: &SubnetQuery<'_>,
        machines: impl FnOnce() -> Vec<Arc<AWSMachine>>,
        choose: impl Fn(&BTreeMap<String, usize>, &BTreeMap<String, Capacity>) -> Result<Placement, E>,
    ) -> Result<Placement, E> {
        if let Some(placement) = self.keep(query, &choose)? {
            return Ok(placement);
        }
        let machines = machines();
        let mut state = self.state();
        let placement = choose(&state.machines_by_subnet(query.uid, &machines), &self.capacity(query))?;
        self.tried(query, &placement);
        state.reserved_subnets.insert(query.uid.to_owned(), placement.subnet_id.clone());
        Ok(placement)
    }

    /// The placement in the reserved subnet, unless another subnet is better although it has more machines.
    fn keep<E>(
        &self,
        query: &SubnetQuery<'_>,
        choose: impl Fn(&BTreeMap<String, usize>, &BTreeMap<String, Capacity>) -> Result<Placement, E>,
    ) -> Result<Option<Placement>, E> {
        let state = self.state();
        let Some(reserved) = state.reserved_subnets.get(query.uid) else {
            return Ok(None);
        };
        let others = query.subnets.iter().filter(|subnet| subnet.id != *reserved);
        let placement = choose(&others.map(|subnet| (subnet.id.clone(), 1)).collect(), &self.capacity(query))?;
        if placement.subnet_id != *reserved {
            return Ok(None);
        }
        self.tried(query, &placement);
        Ok(Some(placement))
    }

    fn capacity(&self, query: &SubnetQuery<'_>) -> BTreeMap<String, Capacity> {
        self.shortages.capacity(query.uid, query.pool, query.subnets, query.now, query.timing)
    }

    fn tried(&self, query: &SubnetQuery<'_>, placement: &Placement) {
        let chosen = query.subnets.iter().find(|subnet| subnet.id == placement.subnet_id);
        if let Some(subnet) = chosen {
            self.shortages.tried(query.uid, query.pool, subnet, query.now);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
