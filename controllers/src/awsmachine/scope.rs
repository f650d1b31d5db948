//! The scope of one pass: the AWSMachine, its owners, its new status, and what ends the pass early. Pure.

use std::sync::{Arc, OnceLock};

use capa_api::common::{IdentityReference, MachineRole};
use capa_api::conditions::{self, ConditionType, ConditionUpdate, Reason};
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::{AWSMachine, AWSMachineStatus, LaunchRecord, RecordedRequest};
use capa_api::meta;
use capa_cloud::{MachineCloud, MachineKey};
use capa_network::Merged;
use capa_runtime::reconcile::{EventDraft, Next, ReconcileError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use parking_lot::Mutex;

use super::launch::protocol::{IllegalTransition, LaunchEvent, transition};
use super::ownership::{MachineTags, OwnerProblem};
use crate::blocked::Blocked;
use crate::call_fingerprint::CallFingerprint;
use crate::kubernetes_api::{KubernetesError, ReadPending};

/// The Cluster API objects that a machine belongs to, as far as they exist.
pub(super) struct Owners {
    /// The Machine, if it is the verified owner.
    pub(super) machine: Result<Arc<Machine>, OwnerProblem>,
    pub(super) cluster: Option<Arc<Cluster>>,
}

impl Owners {
    /// Role of the machine. Cluster API labels the Machine, but not every control plane provider labels the AWSMachine
    /// too. Without a verified Machine, the label of the AWSMachine decides, and a machine with recorded targets is one
    /// of the control plane, because no other machine is registered.
    pub(super) fn role(&self, machine: &AWSMachine) -> MachineRole {
        let has_targets = || machine.status.as_ref().is_some_and(|status| !status.targets.is_empty());
        match &self.machine {
            Ok(owner) => meta::machine_role(&owner.metadata),
            Err(_) if has_targets() => MachineRole::ControlPlane,
            Err(_) => meta::machine_role(&machine.metadata),
        }
    }
}

/// The AWS session of an identity in a region for the machines of one cluster, with the account of its credentials.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) region: String,
    pub(super) identity_ref: IdentityReference,
    /// Name of the cluster in tags.
    pub(super) cluster_tag: String,
    /// The account that the credentials of the identity belong to.
    pub(super) account_id: String,
    /// The key of the credentials. A changed identity or a changed Secret has another key.
    pub(super) identity_key: String,
    pub(super) cloud: Arc<dyn MachineCloud>,
}

/// The scope of one pass.
pub(super) struct MachineScope {
    /// The AWSMachine from the last answer of the API server.
    pub(super) machine: AWSMachine,
    /// Its Machine and Cluster.
    pub(super) owners: Owners,
    /// The network of its sources, once it is read.
    pub(super) network: OnceLock<Arc<Merged>>,
    /// The AWS sessions of the pass. All its flows use the same session of an identity, so that the credentials are the
    /// same for the whole pass.
    pub(super) sessions: Mutex<Vec<Session>>,
    /// The new status of the AWSMachine, without conditions.
    pub(super) status: AWSMachineStatus,
    /// The inputs of the pass's AWS calls, once they are known.
    pub(super) inputs: Option<CallFingerprint>,
    /// The conditions before the pass.
    pub(super) conditions_before: Vec<Condition>,
    /// Conditions that the pass has set.
    pub(super) conditions: Vec<ConditionUpdate>,
    /// When the next pass is due.
    pub(super) next: Next,
    /// Events to publish.
    pub(super) events: Vec<EventDraft>,
}

impl MachineScope {
    pub(super) fn new(machine: AWSMachine, owners: Owners) -> Self {
        let status = machine.status.clone().unwrap_or_default();
        Self {
            machine,
            owners,
            conditions_before: status.conditions.clone(),
            status,
            network: OnceLock::new(),
            sessions: Mutex::default(),
            inputs: None,
            conditions: vec![],
            next: Next::AwaitChange,
            events: vec![],
        }
    }

    /// Sets a condition. It replaces an earlier condition of the pass of the same type.
    pub(super) fn set_condition(&mut self, update: ConditionUpdate) {
        self.conditions.retain(|earlier| earlier.condition != update.condition);
        self.conditions.push(update);
    }

    /// Leaves a condition as it was before the pass.
    pub(super) fn leave_condition(&mut self, condition: ConditionType) {
        self.conditions.retain(|update| update.condition != condition);
    }

    /// Sets a condition that is absent until it is False for the first time. `problem` is why it is False.
    pub(super) fn report_problem(&mut self, condition: ConditionType, problem: Option<(Reason, String)>) {
        match problem {
            Some((reason, message)) => self.set_condition(condition.is_false(reason, message)),
            None if conditions::find(&self.status.conditions, condition).is_some() => {
                self.set_condition(condition.is_true(Reason::Ready));
            }
            None => {}
        }
    }

    /// Ends the pass with a condition and the time of the next pass.
    pub(super) fn finish_with(&mut self, condition: ConditionUpdate, next: Next) {
        self.set_condition(condition);
        self.next = next;
    }

    /// Appends a text to the message of a condition that the pass has set.
    pub(super) fn append_to_message(&mut self, condition: ConditionType, text: &str) {
        let set = self.conditions.iter_mut().find(|update| update.condition == condition);
        if let Some(update) = set {
            update.message = format!("{}; {text}", update.message);
        }
    }

    /// Applies an event to the launch record. After an attempt without an instance, the network in use is removed.
    /// After such an attempt or an adoption, the records of applied tags, groups and DNS names are removed.
    pub(super) fn record_launch(&mut self, event: LaunchEvent) -> Result<(), IllegalTransition> {
        let frees_network = matches!(event, LaunchEvent::Refused | LaunchEvent::EndedBeforeRunning);
        let is_adopted = matches!(event, LaunchEvent::Adopted { .. });
        self.status.launch = Some(transition(self.status.launch.clone(), event)?);
        if frees_network {
            self.status.network = None;
        }
        if frees_network || is_adopted {
            // The tags and groups that another call has given to the instance are unknown.
            self.status.applied_tags = None;
            self.status.pending_tags.clear();
            self.status.applied_security_groups = None;
            self.status.applied_private_dns_name = None;
        }
        Ok(())
    }

    /// The status that is stored in the API server.
    pub(super) fn stored_status(&self) -> Option<&AWSMachineStatus> {
        self.machine.status.as_ref()
    }

    /// Whether the instance has ever run according to the AWSMachine. If so, no other instance is launched.
    pub(super) fn has_run(&self) -> bool {
        let provider_id = self.machine.spec.provider_id.as_deref();
        self.status.has_run == Some(true) || self.status.provisioned() || provider_id.is_some_and(|id| !id.is_empty())
    }

    /// Whether the launch record is lost, as after a restore or a move.
    pub(super) fn has_lost_record(&self) -> bool {
        matches!(self.status.launch, None | Some(LaunchRecord::Unreadable(_)))
    }

    /// Whether the launch record shows no attempt: there is none, or EC2 was never asked.
    pub(super) fn has_no_attempt(&self) -> bool {
        matches!(self.status.launch, None | Some(LaunchRecord::Planned))
    }

    /// The call of an attempt that may have launched.
    pub(super) fn open_request(&self) -> Option<&RecordedRequest> {
        match &self.status.launch {
            Some(LaunchRecord::Requested(attempt)) => Some(&attempt.request),
            _ => None,
        }
    }

    /// The token of an attempt that may have launched.
    pub(super) fn open_token(&self) -> Option<&str> {
        self.open_request().map(|request| request.client_token.as_str())
    }

    /// The process that the launch record names.
    pub(super) fn holder(&self) -> Option<&str> {
        let attempt = self.status.launch.as_ref().and_then(LaunchRecord::attempt);
        attempt.map(|attempt| attempt.holder.as_str())
    }

    pub(super) fn uid(&self) -> &str {
        self.machine.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.machine.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn key(&self) -> MachineKey {
        key(&self.machine)
    }

    /// The tags of the machine's instance. `cluster` is the name of the cluster in tags.
    pub(super) fn tags<'a>(&'a self, cluster: &'a str) -> MachineTags<'a> {
        MachineTags { cluster, namespace: self.namespace(), machine: self.machine.machine_name() }
    }
}

/// The event that a machine has an instance now that none of its recorded calls launched.
pub(super) fn adoption_event(id: &str) -> EventDraft {
    EventDraft::normal("InstanceAdopted", format!("adopted instance {id}"))
}

/// The key of the machine in the instance informer.
pub(super) fn key(machine: &AWSMachine) -> MachineKey {
    MachineKey {
        namespace: machine.metadata.namespace.clone().unwrap_or_default(),
        name: machine.metadata.name.clone().unwrap_or_default(),
    }
}

/// Why a flow has ended early.
pub(super) enum FlowError {
    /// The flow waits, as a condition says.
    Blocked(Blocked),
    /// A network source takes long to read. The pass leaves the status unchanged, and the machine is woken when the
    /// read has ended.
    Postponed,
    /// The flow waits for so short a time that the pass leaves the status unchanged; with the reason for the log.
    Waits(&'static str, Next),
    /// The pass has failed.
    Failed(ReconcileError),
}

impl From<ReadPending> for FlowError {
    fn from(_: ReadPending) -> Self {
        Self::Postponed
    }
}

impl From<Blocked> for FlowError {
    fn from(blocked: Blocked) -> Self {
        Self::Blocked(blocked)
    }
}

impl From<KubernetesError> for FlowError {
    fn from(error: KubernetesError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<IllegalTransition> for FlowError {
    fn from(error: IllegalTransition) -> Self {
        Self::Failed(error.into())
    }
}
