//! The processes of a management cluster: which of them leads, and how they stop, stand still and end.

use std::time::Duration;

use jiff::Timestamp;

use super::{Event, Simulation};
use crate::aws::{MANAGER_KEY, NEIGHBOUR_KEY};
use crate::management_cluster::ManagementCluster;
use crate::process::Process;
use crate::time::{START, after};

/// How long others wait before they take a lease that is not renewed.
const LEASE: Duration = Duration::from_secs(15);
/// How long a leader goes on that cannot renew its lease.
const RENEWAL: Duration = Duration::from_secs(10);
/// A process that stands still for less than this, does so for no outage that anybody would note.
const SHORT: Duration = Duration::from_secs(1_200);

/// The state that the processes of one management cluster share.
pub(super) struct Managers {
    leader: Option<usize>,
    /// Whether a second process stands by all the time.
    standby: bool,
    /// Until then no process leads.
    down_until: Timestamp,
    /// The key that processes are started with.
    given_key: &'static str,
    pub(super) core_is_planned: bool,
}

impl Managers {
    pub(super) fn new(of: ManagementCluster, standby: bool) -> Self {
        let given_key = match of {
            ManagementCluster::Main => MANAGER_KEY,
            ManagementCluster::Neighbour => NEIGHBOUR_KEY,
        };
        Self { leader: None, standby, down_until: START, given_key, core_is_planned: false }
    }
}

impl Simulation {
    /// Starts the first process of a management cluster, and the one that stands by.
    pub(crate) fn start(&mut self, of: ManagementCluster) {
        self.settle(Duration::ZERO);
        self.be_born(of);
        self.keep_standby(of);
        self.elect(of);
    }

    /// All processes of a management cluster end; new ones come after so long, or later if they were stopped for longer
    /// before.
    pub(crate) fn stop(&mut self, of: ManagementCluster, long: Duration) {
        for process in self.ids_of(of) {
            self.processes.remove(&process);
            self.frozen.remove(&process);
        }
        let end = self.outage(long);
        let managers = self.managers(of);
        managers.leader = None;
        managers.down_until = managers.down_until.max(end);
        let down_until = managers.down_until;
        self.push(down_until, Event::Election(of));
    }

    /// The API server answers no request for so long. A leader cannot renew its lease then.
    pub(crate) fn lose_server(&mut self, of: ManagementCluster, long: Duration) {
        let end = self.outage(long);
        self.outside.server_mut(of).unreachable_until = Some(end);
        if long > RENEWAL {
            let given_up = after(self.now(), RENEWAL);
            let managers = self.managers(of);
            managers.down_until = managers.down_until.max(end);
            let leader = managers.leader;
            if let Some(leader) = leader {
                self.push(given_up, Event::End(leader));
            }
            self.push(end, Event::Election(of));
        }
    }

    /// Processes get credentials of this key from now on, those that run already among them.
    pub(crate) fn replace_key(&mut self, of: ManagementCluster, access_key: &'static str) {
        self.managers(of).given_key = access_key;
        for process in self.processes.values().filter(|process| process.of == of) {
            process.manager.replace_key(access_key);
        }
    }

    pub(super) fn managers(&mut self, of: ManagementCluster) -> &mut Managers {
        match of {
            ManagementCluster::Main => &mut self.main,
            ManagementCluster::Neighbour => &mut self.neighbour,
        }
    }

    pub(super) fn ids_of(&self, of: ManagementCluster) -> Vec<usize> {
        let processes = self.processes.iter().filter(|(_, process)| process.of == of);
        processes.map(|(id, _)| *id).collect()
    }

    /// How many orphaned instances the leader of a management cluster reports.
    pub(crate) fn orphans(&self, of: ManagementCluster) -> u32 {
        let managers = match of {
            ManagementCluster::Main => &self.main,
            ManagementCluster::Neighbour => &self.neighbour,
        };
        let leader = managers.leader.and_then(|leader| self.processes.get(&leader));
        leader.map_or(0, Process::orphans)
    }

    fn be_born(&mut self, of: ManagementCluster) -> usize {
        let id = self.born;
        self.born += 1;
        let key = self.managers(of).given_key;
        let stored = self.outside.server(of).stored.clone();
        self.processes.insert(id, Process::new(id, of, stored, key));
        id
    }

    fn keep_standby(&mut self, of: ManagementCluster) {
        if self.managers(of).standby && self.ids_of(of).len() < 2 {
            self.be_born(of);
        }
    }

    /// A process dies; where it led, another leads once the lease has run out.
    pub(super) fn crash(&mut self, process: usize) {
        let now = self.now();
        self.trace.note(now, || format!("P{process} crashes"));
        self.end(process);
    }

    pub(super) fn end(&mut self, process: usize) {
        let Some(of) = self.processes.remove(&process).map(|process| process.of) else {
            return;
        };
        self.frozen.remove(&process);
        if self.managers(of).leader == Some(process) {
            self.managers(of).leader = None;
            self.plan_election(of);
        }
        self.keep_standby(of);
    }

    fn plan_election(&mut self, of: ManagementCluster) {
        let delay = LEASE + Duration::from_millis(self.random.u64(0..2_500));
        self.push(after(self.now(), delay), Event::Election(of));
    }

    pub(super) fn elect(&mut self, of: ManagementCluster) {
        let now = self.now();
        if now < self.managers(of).down_until {
            return;
        }
        self.keep_standby(of);
        let leader = self.managers(of).leader;
        if leader.is_some_and(|leader| !self.frozen.contains_key(&leader)) {
            return;
        }
        let awake = |id: &usize| !self.frozen.contains_key(id) && Some(*id) != leader;
        let elected = self.ids_of(of).into_iter().find(awake);
        let elected = elected.unwrap_or_else(|| self.be_born(of));
        self.trace.note(now, || format!("P{elected} leads"));
        self.managers(of).leader = Some(elected);
        if let Some(process) = self.processes.get_mut(&elected) {
            process.lead(now);
        }
        self.plan_advance(elected);
    }

    pub(super) fn freeze(&mut self, process: usize, long: Duration) {
        let Some(of) = self.processes.get(&process).map(|process| process.of) else {
            return;
        };
        if self.frozen.contains_key(&process) {
            return;
        }
        let now = self.now();
        self.trace.note(now, || format!("P{process} stands still for {long:?}"));
        self.frozen.insert(process, Vec::new());
        if long > SHORT {
            self.outage(long);
        }
        self.push(after(now, long), Event::Thaw(process));
        if self.managers(of).leader == Some(process) {
            self.plan_election(of);
        }
    }

    /// The process goes on; where another leads by now it ends soon, but not at once.
    pub(super) fn thaw(&mut self, process: usize) {
        let (Some(held), Some(running)) = (self.frozen.remove(&process), self.processes.get(&process)) else {
            return;
        };
        let (now, of, manager) = (self.outside.now, running.of, running.manager.clone());
        self.trace.note(now, || format!("P{process} goes on"));
        for event in held {
            let moment = Duration::from_millis(self.random.u64(0..300));
            self.push(after(now, moment), event);
        }
        if self.managers(of).leader != Some(process) {
            manager.state().overtaken = true;
            let grace = Duration::from_millis(self.random.u64(0..3_000));
            self.push(after(now, grace), Event::End(process));
        }
    }
}
