//! TerminateInstances as its API reference describes it
//! (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_TerminateInstances.html>), StopInstances and
//! StartInstances.

use std::collections::BTreeSet;

use capa_api::machine::InstanceState;
use jiff::Timestamp;

use capa_cloud::CloudError;

use super::audit::Change;
use super::client::StateChange;
use super::instances::Phase;
use super::region::Region;
use super::time::after;

const USER_INITIATED: (&str, &str) =
    ("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown");

impl Region {
    /// Terminates instances. One unknown id makes the whole call fail. A protected instance protects all instances in
    /// its zone: the call fails, but the instances in other zones are terminated.
    pub(super) fn terminate_instances(
        &mut self,
        now: Timestamp,
        access_key: &str,
        ids: &[String],
    ) -> Result<Vec<StateChange>, CloudError> {
        let operation = "TerminateInstances";
        let ids = self.known_ids(operation, now, ids)?;
        let zone_of = |id: &String| self.instances.get(id).map(|instance| instance.subnet.zone.clone());
        let is_protected = |id: &&String| self.instances.get(*id).is_some_and(|instance| instance.protected);
        let spared: BTreeSet<_> = ids.iter().filter(is_protected).filter_map(zone_of).collect();
        let (kept, ended): (Vec<_>, Vec<_>) =
            ids.iter().partition(|id| zone_of(id).is_some_and(|zone| spared.contains(&zone)));
        let protected = kept.into_iter().find(is_protected).cloned();
        let changes = ended.into_iter().map(|id| self.terminate(now, access_key, id)).collect();
        match protected {
            None => Ok(changes),
            Some(id) => {
                let message = format!("The instance '{id}' may not be terminated: its disableApiTermination is set.");
                Err(CloudError::answered(operation, "OperationNotPermitted", &message))
            }
        }
    }

    fn terminate(&mut self, now: Timestamp, access_key: &str, id: &str) -> StateChange {
        let previous = self.state(now, id);
        if matches!(previous, InstanceState::ShuttingDown | InstanceState::Terminated) {
            self.record(now, access_key, id, Change::TerminationRepeated);
            return StateChange::new(id, previous, previous);
        }
        let (code, message) = USER_INITIATED;
        let end = after(now, self.behaviour().shutting_down);
        self.turn(
            now,
            id,
            [
                Phase::because(now, InstanceState::ShuttingDown, code, message),
                Phase::because(end, InstanceState::Terminated, code, message),
            ],
        );
        self.record(now, access_key, id, Change::Terminated);
        StateChange::new(id, previous, InstanceState::ShuttingDown)
    }

    pub(super) fn stop_instances(
        &mut self,
        now: Timestamp,
        access_key: &str,
        ids: &[String],
    ) -> Result<Vec<StateChange>, CloudError> {
        let operation = "StopInstances";
        let ids = self.known_ids(operation, now, ids)?;
        let stoppable = [InstanceState::Running, InstanceState::Stopping, InstanceState::Stopped];
        self.require_state(operation, now, &ids, &stoppable)?;
        let changes = ids.iter().map(|id| {
            let previous = self.state(now, id);
            if previous != InstanceState::Running {
                return StateChange::new(id, previous, previous);
            }
            let (code, message) = USER_INITIATED;
            let end = after(now, self.behaviour().stopping);
            self.turn(
                now,
                id,
                [
                    Phase::because(now, InstanceState::Stopping, code, message),
                    Phase::because(end, InstanceState::Stopped, code, message),
                ],
            );
            self.record(now, access_key, id, Change::Stopped);
            StateChange::new(id, previous, InstanceState::Stopping)
        });
        Ok(changes.collect())
    }

    pub(super) fn start_instances(
        &mut self,
        now: Timestamp,
        access_key: &str,
        ids: &[String],
    ) -> Result<Vec<StateChange>, CloudError> {
        let operation = "StartInstances";
        let ids = self.known_ids(operation, now, ids)?;
        let startable = [InstanceState::Stopped, InstanceState::Pending, InstanceState::Running];
        self.require_state(operation, now, &ids, &startable)?;
        let changes = ids.iter().map(|id| {
            let previous = self.state(now, id);
            if previous != InstanceState::Stopped {
                return StateChange::new(id, previous, previous);
            }
            let end = after(now, self.behaviour().pending);
            let phases = [Phase::new(now, InstanceState::Pending), Phase::new(end, InstanceState::Running)];
            self.turn(now, id, phases);
            self.record(now, access_key, id, Change::Started);
            StateChange::new(id, previous, InstanceState::Pending)
        });
        Ok(changes.collect())
    }

    /// The ids without duplicates; an error if an id is unknown.
    fn known_ids(
        &self,
        operation: &'static str,
        now: Timestamp,
        ids: &[String],
    ) -> Result<BTreeSet<String>, CloudError> {
        if ids.is_empty() {
            let message = "The request must contain the parameter InstanceId";
            return Err(CloudError::answered(operation, "MissingParameter", message));
        }
        if let Some(id) = ids.iter().find(|id| !is_well_formed(id)) {
            let message = format!("Invalid id: \"{id}\"");
            return Err(CloudError::answered(operation, "InvalidInstanceID.Malformed", &message));
        }
        let is_known = |id: &String| self.instances.get(id).is_some_and(|instance| instance.is_known(now));
        let unknown: Vec<_> = ids.iter().filter(|id| !is_known(id)).map(String::as_str).collect();
        if unknown.is_empty() {
            return Ok(ids.iter().cloned().collect());
        }
        let message = match unknown.as_slice() {
            [id] => format!("The instance ID '{id}' does not exist"),
            ids => format!("The instance IDs '{}' do not exist", ids.join(", ")),
        };
        Err(CloudError::answered(operation, "InvalidInstanceID.NotFound", &message))
    }

    fn require_state(
        &self,
        operation: &'static str,
        now: Timestamp,
        ids: &BTreeSet<String>,
        allowed: &[InstanceState],
    ) -> Result<(), CloudError> {
        match ids.iter().find(|id| !allowed.contains(&self.state(now, id))) {
            None => Ok(()),
            Some(id) => {
                let message = format!("The instance '{id}' is not in a state from which it can be changed so.");
                Err(CloudError::answered(operation, "IncorrectInstanceState", &message))
            }
        }
    }

    fn state(&self, now: Timestamp, id: &str) -> InstanceState {
        self.instances.get(id).map_or(InstanceState::Terminated, |instance| instance.state(now))
    }

    fn turn(&mut self, now: Timestamp, id: &str, phases: [Phase; 2]) {
        if let Some(instance) = self.instances.get_mut(id) {
            instance.turn(now, phases);
        }
        self.show_interface(id);
    }
}

fn is_well_formed(id: &str) -> bool {
    let digits = id.strip_prefix("i-").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}
