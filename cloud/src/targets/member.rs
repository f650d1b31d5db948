//! One machine's instance in one group.

use std::time::Duration;

use super::access::{TargetRequest, TargetUser};
use super::model::{Desired, GroupFacts, RegistrationState, Target, TargetInstance, TargetKind};
use crate::{CloudError, ErrorClass, Timing};

/// What is known of the last registration of a member by this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registration {
    /// There was none, or AWS has refused it, or a deregistration has undone it.
    None,
    /// The call is under way.
    UnderWay,
    /// It got no answer: it may have taken effect.
    Unanswered,
    /// AWS took it then.
    Taken(Duration),
}

/// An instance that a machine has, or had, in a group.
pub(super) struct Member {
    pub(super) instance: TargetInstance,
    /// The port that `controlPlaneTargets` names.
    pub(super) port: Option<i32>,
    /// Whose control plane it belongs to.
    pub(super) user: TargetUser,
    /// Whether it is on record that it was registered.
    on_record: bool,
    pub(super) desired: Desired,
    /// When it was wished first.
    pub(super) since: Duration,
    /// When AWS took the deregistration, or showed it first.
    pub(super) leaving_since: Option<Duration>,
    pub(super) registration: Registration,
    /// The instance was gone, and its address is not in the group: the next instance with that address is another one.
    pub(super) is_done: bool,
    /// What AWS said to the last write.
    pub(super) failure: Option<CloudError>,
    pub(super) failures: u32,
    /// No write before.
    pub(super) not_before: Duration,
    /// What the machine was told last; it is woken when this changes.
    pub(super) told: RegistrationState,
}

impl Member {
    pub(super) fn new(instance: TargetInstance, request: &TargetRequest, desired: Desired, now: Duration) -> Self {
        Self {
            instance,
            port: request.target.port,
            user: request.user.clone(),
            on_record: request.on_record,
            desired,
            since: now,
            leaving_since: None,
            registration: Registration::None,
            is_done: false,
            failure: None,
            failures: 0,
            not_before: now,
            told: RegistrationState::Unknown,
        }
    }

    /// Takes over what is known of the instance and wanted of it. Whether that is news.
    pub(super) fn renew(
        &mut self,
        instance: &TargetInstance,
        request: &TargetRequest,
        desired: Desired,
        now: Duration,
    ) -> bool {
        if instance.address.is_some() {
            self.instance.address.clone_from(&instance.address);
        }
        self.on_record |= request.on_record;
        let changed_user = self.user != request.user;
        if changed_user {
            self.user = request.user.clone();
        }
        let renewed = self.desired != desired;
        if renewed {
            let leaves = self.is_leaving();
            self.desired = desired;
            if leaves != self.is_leaving() {
                self.is_done = false;
                self.leaving_since = None;
            }
            // Also where the instance is gone while it was to be out: what AWS refused until then it may take by now.
            self.since = now;
            self.failure = None;
            self.failures = 0;
            self.not_before = now;
        }
        renewed || changed_user
    }

    /// Whether it was registered by this process, or by an earlier one as far as that is on record.
    pub(super) fn was_registered(&self) -> bool {
        self.on_record || self.registration != Registration::None
    }

    /// Whether it is to be out.
    pub(super) fn is_leaving(&self) -> bool {
        self.desired != Desired::Registered
    }

    /// Whether it is not waited for any longer.
    pub(super) fn is_overdue(&self, timing: &Timing, now: Duration) -> bool {
        self.is_leaving() && self.since + timing.drain_limit <= now
    }

    /// The target that it is in its group; none where it cannot be one.
    pub(super) fn target(&self, facts: &GroupFacts) -> Option<Target> {
        let id = match facts.kind {
            _ if self.is_done => None,
            // AWS takes an instance that is gone out by itself.
            TargetKind::Instance => (self.desired != Desired::Forgotten).then(|| self.instance.id.clone()),
            TargetKind::Address => self.instance.address.clone(),
            TargetKind::Other(_) => None,
        };
        Some(Target {
            id: id?,
            port: self.port.or(facts.port),
        })
    }

    pub(super) fn written(&mut self, now: Duration) {
        self.failure = None;
        self.failures = 0;
        if self.is_leaving() {
            self.leaving_since.get_or_insert(now);
        }
    }

    /// Takes over what became of the registration that was under way.
    pub(super) fn registered(&mut self, answer: Result<(), &CloudError>, now: Duration) {
        if self.registration != Registration::UnderWay {
            return;
        }
        self.registration = match answer {
            Ok(()) => Registration::Taken(now),
            Err(error) if error.class == ErrorClass::NoAnswer => Registration::Unanswered,
            Err(_) => Registration::None,
        };
    }

    /// Whether it may be registered though its group does not show it: a registration takes a while to show.
    pub(super) fn may_appear(&self, timing: &Timing, now: Duration) -> bool {
        match self.registration {
            Registration::None => false,
            Registration::UnderWay | Registration::Unanswered => true,
            Registration::Taken(at) => now < at + timing.target_poll * 3,
        }
    }

    pub(super) fn failed(&mut self, error: &CloudError, not_before: Duration) {
        self.failure = Some(error.clone());
        self.failures = self.failures.saturating_add(1);
        self.not_before = not_before;
    }
}
