//! One machine's instance in one group.

use std::time::Duration;

use super::access::{TargetRequest, TargetUser};
use super::model::{Desired, GroupFacts, RegistrationState, Target, TargetInstance};
use crate::elb::TargetType;
use crate::{CloudError, ErrorClass, Timing};

/// The last registration of a member by this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegistrationCall {
    /// This process has made no registration, AWS refused the last registration, or a later deregistration has undone
    /// it.
    None,
    /// The call is under way.
    UnderWay,
    /// The call got no answer, so that the registration may have taken effect.
    Unanswered,
    /// AWS accepted the registration at this time.
    Taken(Duration),
}

/// The instance of a machine, as an actual or former target of one group.
pub(super) struct Member {
    pub(super) instance: TargetInstance,
    /// The port from the entry of `controlPlaneTargets`.
    pub(super) port: Option<i32>,
    /// The control plane of the instance.
    pub(super) user: TargetUser,
    /// Whether a record says that the instance was registered.
    on_record: bool,
    pub(super) desired: Desired,
    /// The time at which the desired state last changed.
    pub(super) since: Duration,
    /// The time at which AWS accepted the deregistration, or first showed the target as draining.
    pub(super) leaving_since: Option<Duration>,
    pub(super) registration: RegistrationCall,
    /// Whether the group lets the member leave, if its desired state is `Departing`.
    pub(super) departure: Departure,
    /// Whether a deregistration is under way.
    pub(super) is_deregistering: bool,
    /// Whether the instance is gone and its address is out of the group. A later target with the same address belongs
    /// to another instance.
    pub(super) is_done: bool,
    /// The error of the last write; `None` after a write that succeeded.
    pub(super) failure: Option<CloudError>,
    pub(super) failures: u32,
    /// The earliest time of the next write.
    pub(super) not_before: Duration,
    /// The state of which the machine was last notified. A change wakes the machine.
    pub(super) last_notified: RegistrationState,
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
            registration: RegistrationCall::None,
            departure: Departure::Undecided,
            is_deregistering: false,
            is_done: false,
            failure: None,
            failures: 0,
            not_before: now,
            last_notified: RegistrationState::Unknown,
        }
    }

    /// Takes over the instance's addresses, the request and the desired state. Returns whether any of them changed.
    pub(super) fn renew(
        &mut self,
        instance: &TargetInstance,
        request: &TargetRequest,
        desired: Desired,
        now: Duration,
    ) -> bool {
        if !instance.addresses.is_empty() && self.instance.addresses != instance.addresses {
            // A new address takes no address's place as the target.
            self.instance.addresses.retain(|address| instance.addresses.contains(address));
            let known = self.instance.addresses.clone();
            self.instance
                .addresses
                .extend(instance.addresses.iter().filter(|address| !known.contains(address)).cloned());
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
            self.departure = Departure::Undecided;
            if leaves != self.is_leaving() {
                self.is_done = false;
                self.leaving_since = None;
            }
            // The failures are also cleared if the desired state changed from `Deregistered` to `Forgotten`, because
            // AWS may now accept the write that it refused before.
            self.since = now;
            self.failure = None;
            self.failures = 0;
            self.not_before = now;
        }
        renewed || changed_user
    }

    /// Whether this process registered the member, or a record says that an earlier process did.
    pub(super) fn was_registered(&self) -> bool {
        self.on_record || self.registration != RegistrationCall::None
    }

    /// Whether the member leaves the group, or has left it.
    pub(super) fn is_leaving(&self) -> bool {
        match self.desired {
            Desired::Registered => false,
            Desired::Departing => self.departure == Departure::Granted,
            Desired::Deregistered | Desired::Forgotten => true,
        }
    }

    /// Whether the desired state is `Departing` and the group has not let the member leave.
    pub(super) fn awaits_departure(&self) -> bool {
        self.desired == Desired::Departing && self.departure != Departure::Granted
    }

    /// Whether the desired state is `Departing` and no read has shown yet which targets are healthy.
    pub(super) fn needs_look(&self) -> bool {
        self.desired == Desired::Departing && self.departure == Departure::Undecided
    }

    /// Whether a machine waits until the member has left.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_leaving() && self.desired != Desired::Departing
    }

    /// Whether the drain limit is over, so that nothing waits for the deregistration any longer. The wait includes a
    /// call that is under way, because the call may be about to take effect and has its own time limit.
    pub(super) fn is_overdue(&self, late_until: Duration, timing: &Timing, now: Duration) -> bool {
        self.is_awaited() && !self.is_deregistering && drain_deadline(self.since, late_until, timing) <= now
    }

    /// The target of the member in its group; `None` if the instance cannot be a target of the group.
    pub(super) fn target(&self, facts: &GroupFacts) -> Option<Target> {
        let id = match facts.target_type {
            _ if self.is_done => None,
            // AWS automatically deregisters an instance that is gone.
            TargetType::Instance => (self.desired != Desired::Forgotten).then(|| self.instance.id.clone()),
            TargetType::Ip(family) => self.instance.address(family).cloned(),
            TargetType::Other(_) => None,
        };
        Some(Target { id: id?, port: self.port.or(facts.port) })
    }

    pub(super) fn written(&mut self, now: Duration) {
        self.failure = None;
        self.failures = 0;
        if self.is_leaving() {
            self.leaving_since.get_or_insert(now);
        }
    }

    /// Records the result of the registration call that was under way.
    pub(super) fn registered(&mut self, answer: Result<(), &CloudError>, now: Duration) {
        if self.registration != RegistrationCall::UnderWay {
            return;
        }
        self.registration = match answer {
            Ok(()) => RegistrationCall::Taken(now),
            Err(error) if error.class == ErrorClass::NoAnswer => RegistrationCall::Unanswered,
            Err(_) => RegistrationCall::None,
        };
    }

    /// Whether a registration that AWS does not show yet may still appear: a registration becomes visible with a delay.
    pub(super) fn may_appear(&self, timing: &Timing, now: Duration) -> bool {
        match self.registration {
            RegistrationCall::None => false,
            RegistrationCall::UnderWay | RegistrationCall::Unanswered => true,
            RegistrationCall::Taken(at) => now < at + timing.target_poll * 3,
        }
    }

    pub(super) fn failed(&mut self, error: &CloudError, not_before: Duration) {
        self.failure = Some(error.clone());
        self.failures = self.failures.saturating_add(1);
        self.not_before = not_before;
    }
}

/// Whether a member with the desired state `Departing` may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// No read that began after the desired state changed to `Departing` has ended.
    Undecided,
    /// The member is the last healthy target of the group.
    Held,
    /// The member leaves, or has left.
    Granted,
}

/// The end of the longest wait for a departure that began at `since`. The wait leaves time for a read after the last
/// moment at which a late registration may take effect. Otherwise a short drain limit would leave the target
/// registered.
pub(super) fn drain_deadline(since: Duration, late_until: Duration, timing: &Timing) -> Duration {
    (since + timing.drain_limit).max(late_until + timing.target_poll * 2)
}
