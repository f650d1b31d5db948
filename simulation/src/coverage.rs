//! The situations that a history has met, so that many histories show their coverage.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use capa_api::conditions::{ConditionType, Reason, find};
use capa_api::machine::{AWSMachine, LaunchRecord};
use capa_cloud::Timing;
use strum::IntoStaticStr;

use crate::faults::FaultKind;
use crate::management_cluster::ManagementCluster;
use crate::outside::Outside;
use crate::server::{Change, Object};
use crate::time::after;

/// Something that a history may meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Covered {
    /// A call went wrong in this way.
    Fault(FaultKind),
    /// A call of RunInstances did.
    LaunchFault(FaultKind),
    /// The user did something, by the name of the action.
    UserAction(&'static str),
    /// Several things came together.
    Situation(Situation),
}

/// Things that come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
pub enum Situation {
    /// A launch was called, and nobody got its answer.
    LaunchUnanswered,
    /// An attempt was open for longer than the protocol repeats its call.
    AttemptTooOldToRepeat,
    /// EC2 had forgotten the token of an open attempt that had launched an instance.
    LaunchForgotten,
    /// A network source, an image, a tag or a security group changed while an attempt was open.
    SourceChangedDuringAttempt,
    /// A status was lost while EC2 did not show the instance yet.
    StatusLostWhileHidden,
    /// A status was lost when the instance had ended.
    StatusLostAfterEnd,
    /// AWS, the API server or the managers were away for an hour or longer.
    OutageOfHours,
    /// The same for a day or longer.
    OutageOfDays,
    /// A launch waited because an instance with the tags of the machine is not the machine's.
    LaunchInConflict,
    /// The managers had a key of another account by mistake.
    KeyOfAnotherAccount,
}

impl fmt::Display for Covered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(kind) => write!(formatter, "fault {kind:?}"),
            Self::LaunchFault(kind) => write!(formatter, "fault {kind:?} of RunInstances"),
            Self::UserAction(name) => write!(formatter, "action {name}"),
            Self::Situation(situation) => formatter.write_str(situation.into()),
        }
    }
}

/// The situations that one history has met.
#[derive(Default)]
pub(crate) struct Coverage {
    met: BTreeSet<Covered>,
}

impl Coverage {
    /// Whether the history has met this.
    pub(crate) fn has_met(&self, covered: Covered) -> bool {
        self.met.contains(&covered)
    }

    pub(crate) fn met(&mut self, covered: Covered) {
        self.met.insert(covered);
    }

    pub(crate) fn into_set(self) -> BTreeSet<Covered> {
        self.met
    }

    pub(crate) fn situation(&mut self, situation: Situation) {
        self.met(Covered::Situation(situation));
    }

    /// An outage lasts for so long.
    pub(crate) fn outage(&mut self, long: Duration) {
        let hours = long.as_secs() / 3600;
        if hours >= 1 {
            self.situation(Situation::OutageOfHours);
        }
        if hours >= 24 {
            self.situation(Situation::OutageOfDays);
        }
    }

    /// An object has changed.
    pub(crate) fn changed(&mut self, of: ManagementCluster, change: &Change, outside: &Outside) {
        let Change::Applied(Object::AwsMachine(machine)) = change else {
            return;
        };
        self.attempt(machine, outside);
        let conditions = machine.status.as_ref().map(|status| status.conditions.as_slice());
        let ready = find(conditions.unwrap_or_default(), ConditionType::InstanceReady);
        let waits = ready.is_some_and(|condition| condition.reason == Reason::Conflict.as_str());
        if waits && of == ManagementCluster::Main {
            self.situation(Situation::LaunchInConflict);
        }
    }

    fn attempt(&mut self, machine: &AWSMachine, outside: &Outside) {
        let launch = machine.status.as_ref().and_then(|status| status.launch.as_ref());
        let Some(LaunchRecord::Requested(attempt)) = launch else {
            return;
        };
        let repeated_until = after(attempt.request.requested_at.0, Timing::default().token_age);
        if outside.now < repeated_until {
            return;
        }
        self.situation(Situation::AttemptTooOldToRepeat);
        let mut launched = outside.aws.live(outside.now);
        let token = &attempt.request.client_token;
        let forgotten = launched.any(|instance| {
            instance.request.client_token == *token && !outside.aws.remembers_token(outside.now, instance)
        });
        if forgotten {
            self.situation(Situation::LaunchForgotten);
        }
    }
}
