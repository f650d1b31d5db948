//! What this process remembers of launches. Losing it is safe: a record that is not remembered is looked up in AWS
//! before its call is made.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capa_api::machine::AWSMachine;
use capa_cloud::{ErrorClass, Instance};
use capa_network::Placement;

/// How far an attempt has come, as far as this process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing is known: another process wrote the record and may have called, or none is there.
    Unknown,
    /// This process wrote the record, and every call so far was turned away without effect.
    Recorded,
    /// A call of this process was not answered, or is under way: it may have launched.
    Unanswered,
    /// AWS has refused the attempt by code, and no earlier call was left unanswered: nothing was launched.
    Refused,
    /// AWS has refused a call after an earlier one may have launched: the refusal proves nothing.
    Doubtful,
}

impl Progress {
    /// What the failure of a call adds to what was known before.
    pub(super) fn after(self, failure: ErrorClass) -> Self {
        match failure {
            _ if failure.is_refusal() && matches!(self, Self::Recorded | Self::Refused) => Self::Refused,
            ErrorClass::Throttled => self,
            ErrorClass::NoAnswer => Self::Unanswered,
            _ => Self::Doubtful,
        }
    }
}

/// Launches of this process: the progress of attempts, and the subnets that are promised but not yet recorded.
#[derive(Clone, Default)]
pub struct LaunchMemory {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    attempts: HashMap<String, (String, Progress)>,
    answers: HashMap<String, Instance>,
    promised: HashMap<String, String>,
}

impl LaunchMemory {
    /// Progress of the attempt with this token.
    pub(super) fn progress(&self, uid: &str, client_token: &str) -> Progress {
        match self.state().attempts.get(uid) {
            Some((token, progress)) if token == client_token => *progress,
            _ => Progress::Unknown,
        }
    }

    /// Remembers the progress of an attempt.
    pub(super) fn note(&self, uid: &str, client_token: &str, progress: Progress) {
        self.state()
            .attempts
            .insert(uid.to_owned(), (client_token.to_owned(), progress));
    }

    /// Remembers the answer to the call of an attempt until it is recorded.
    pub(super) fn answered(&self, uid: &str, instance: Instance) {
        self.state().answers.insert(uid.to_owned(), instance);
    }

    /// The answer to the call of an attempt that is not recorded yet.
    pub(super) fn answer(&self, uid: &str) -> Option<Instance> {
        self.state().answers.get(uid).cloned()
    }

    /// Forgets the attempts of a machine that has its instance. Its subnet stays promised: the cache may not show the
    /// record yet.
    pub(super) fn launched(&self, uid: &str) {
        let mut state = self.state();
        state.attempts.remove(uid);
        state.answers.remove(uid);
    }

    /// Forgets a machine that is gone.
    pub(super) fn forget(&self, uid: &str) {
        let mut state = self.state();
        state.attempts.remove(uid);
        state.answers.remove(uid);
        state.promised.remove(uid);
    }

    /// Chooses a subnet by how many machines each has, and promises it in the same breath, so that machines placed at
    /// the same moment see each other.
    pub(super) fn place<E>(
        &self,
        uid: &str,
        machines: &[Arc<AWSMachine>],
        choose: impl FnOnce(&BTreeMap<String, usize>) -> Result<Placement, E>,
    ) -> Result<Placement, E> {
        let mut state = self.state();
        let mut counts = BTreeMap::new();
        for machine in machines {
            let machine_uid = machine.metadata.uid.as_deref().unwrap_or_default();
            if machine_uid == uid || machine.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let recorded = machine
                .status
                .as_ref()
                .and_then(|status| status.launch.as_ref()?.request.as_ref())
                .map(|request| request.subnet_id.clone());
            if let Some(subnet) = recorded.or_else(|| state.promised.get(machine_uid).cloned()) {
                *counts.entry(subnet).or_insert(0) += 1;
            }
        }
        let placement = choose(&counts)?;
        state.promised.insert(uid.to_owned(), placement.subnet_id.clone());
        Ok(placement)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use capa_api::common::MachineRole;
    use capa_api::network::MachineNetwork;
    use capa_network::PlacementRequest;

    use super::*;
    use crate::testing::read;

    #[test]
    fn a_refusal_is_a_proof_only_where_every_earlier_call_was_answered() {
        let refusal = ErrorClass::InsufficientCapacity;
        assert_eq!(Progress::Recorded.after(refusal), Progress::Refused);
        assert_eq!(
            Progress::Recorded.after(ErrorClass::Throttled).after(refusal),
            Progress::Refused
        );
        assert_eq!(
            Progress::Recorded.after(ErrorClass::NoAnswer).after(refusal),
            Progress::Doubtful
        );
        assert_eq!(Progress::Unknown.after(refusal), Progress::Doubtful);
        assert_eq!(
            Progress::Recorded.after(ErrorClass::IdempotentParameterMismatch),
            Progress::Doubtful
        );
    }

    fn machine(uid: &str, more: &str) -> Arc<AWSMachine> {
        Arc::new(read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
              metadata: {{name: {uid}, uid: {uid}{more}}}, spec: {{instanceType: t3.large}}}}"
        )))
    }

    fn place(memory: &LaunchMemory, uid: &str, machines: &[Arc<AWSMachine>]) -> String {
        let network: MachineNetwork = read(
            "{region: r, securityGroups: {all: [sg-0000000a]}, subnets: [{id: subnet-0000000a}, {id: subnet-0000000b}]}",
        );
        let placed = memory.place(uid, machines, |machines_by_subnet| {
            capa_network::place(
                &network,
                &PlacementRequest {
                    role: MachineRole::Worker,
                    failure_domain: None,
                    public_ip: None,
                    explicit_subnet: false,
                    additional_security_group_ids: &[],
                    machines_by_subnet,
                },
            )
        });
        placed.unwrap().subnet_id
    }

    #[test]
    fn machines_placed_at_the_same_moment_go_to_different_subnets() {
        let memory = LaunchMemory::default();
        // The cache shows no record of any of them yet.
        let machines = [machine("m", ""), machine("n", "")];
        assert_eq!(place(&memory, "m", &machines), "subnet-0000000a");
        assert_eq!(place(&memory, "n", &machines), "subnet-0000000b");
        memory.launched("n");
        assert_eq!(
            place(&memory, "m", &machines),
            "subnet-0000000a",
            "a promise to itself does not count, and n's outlives its launch"
        );
    }

    #[test]
    fn machines_that_go_do_not_count() {
        let memory = LaunchMemory::default();
        let mut machines = vec![machine("m", ""), machine("n", "")];
        assert_eq!(place(&memory, "m", &machines), "subnet-0000000a");
        machines[0] = machine("m", ", deletionTimestamp: '2026-01-01T00:00:00Z'");
        assert_eq!(place(&memory, "n", &machines), "subnet-0000000a");
        memory.forget("n");
        machines.truncate(1);
        assert_eq!(place(&memory, "o", &machines), "subnet-0000000a");
    }
}
