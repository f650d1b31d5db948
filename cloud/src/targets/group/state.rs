//! The registration state of a member, computed from the cached facts of its target group.

use std::time::Duration;

use super::super::access::TargetAccess;
use super::super::member::{Member, RegistrationCall, drain_deadline};
use super::super::model::{Desired, GroupFacts, Health, RegistrationState, Target, TargetState};
use super::{GroupState, MemberKey};
use crate::elb::TargetType;
use crate::{ErrorClass, Timing};

impl GroupState {
    pub(super) fn state(&self, key: &MemberKey, timing: &Timing, now: Duration) -> RegistrationState {
        let Some(member) = self.members.get(key) else {
            return RegistrationState::Unknown;
        };
        let Some(facts) = &self.facts else {
            return self.unread(member, timing, now);
        };
        let Some(target) = member.target(facts) else {
            return match &facts.target_type {
                _ if member.is_leaving() => RegistrationState::Out,
                TargetType::Other(kind) => RegistrationState::Unsuitable(kind.clone()),
                TargetType::Ip(family) if !member.instance.addresses.is_empty() => {
                    RegistrationState::Unsuitable(format!("ip with {family} addresses"))
                }
                TargetType::Instance | TargetType::Ip(_) => RegistrationState::Unknown,
            };
        };
        let Some(seen) = &self.seen else {
            return self.unread(member, timing, now);
        };
        let health = seen.get(&target);
        if member.is_leaving() {
            self.departing(member, facts, &target, health, timing, now)
        } else {
            self.staying(member, health, timing, now)
        }
    }

    /// The state of a member whose target group has no cached facts or no cached health.
    fn unread(&self, member: &Member, timing: &Timing, now: Duration) -> RegistrationState {
        let Some((error, asked_at)) = &self.failure else {
            return if member.is_overdue(self.late_until, timing, now) {
                RegistrationState::Overdue
            } else {
                RegistrationState::Unknown
            };
        };
        let is_final = matches!(error.class, ErrorClass::NotFound | ErrorClass::Invalid);
        // Nothing is registered with a group that does not exist. An error of a call that began before the member's
        // desired state changed does not count: the call may have used other credentials.
        if is_final && member.is_leaving() && member.since <= *asked_at {
            RegistrationState::Out
        } else if member.is_overdue(self.late_until, timing, now) {
            RegistrationState::Overdue
        } else if is_final && !member.is_leaving() {
            RegistrationState::Failed(error.clone())
        } else {
            let stale = self.stale(timing, now);
            stale.unwrap_or_else(|| RegistrationState::Unreadable(error.clone()))
        }
    }

    fn staying(&self, member: &Member, health: Option<&Health>, timing: &Timing, now: Duration) -> RegistrationState {
        match health {
            Some(health) if health.state != TargetState::Draining => {
                self.stale(timing, now).unwrap_or_else(|| RegistrationState::Registered {
                    health: health.clone(),
                    by_us: matches!(member.registration, RegistrationCall::Taken(_)),
                })
            }
            _ => match self.lacking(member, timing, now) {
                Some(TargetAccess::Refused(refusal)) => RegistrationState::Refused(refusal),
                Some(TargetAccess::Unreadable(error)) => RegistrationState::Failed(error),
                Some(TargetAccess::Unknown | TargetAccess::Granted) | None => {
                    let failed = member.failure.clone().map(RegistrationState::Failed);
                    failed.unwrap_or(RegistrationState::Registering)
                }
            },
        }
    }

    fn departing(
        &self,
        member: &Member,
        facts: &GroupFacts,
        target: &Target,
        health: Option<&Health>,
        timing: &Timing,
        now: Duration,
    ) -> RegistrationState {
        let not_yet = || {
            if member.is_overdue(self.late_until, timing, now) {
                return RegistrationState::Overdue;
            }
            let failed = member.failure.clone().map(RegistrationState::Failed);
            failed.unwrap_or(RegistrationState::Leaving)
        };
        let is_claimed = self.claimed(facts).contains(target);
        if let Some(unproven) = self.unproven_departure(member, timing, now).filter(|_| !is_claimed) {
            return unproven;
        }
        match health {
            Some(_) if is_claimed => RegistrationState::Out,
            None if member.may_appear(timing, now) && !is_claimed => not_yet(),
            // A process that was suspended, or another process, may have registered the instance since the last read.
            None if self.looked_at < member.since.max(self.late_until) => not_yet(),
            None => RegistrationState::Out,
            Some(health) if health.state == TargetState::Draining => match self.drains(member, timing, now) {
                None => not_yet(),
                // A registration may still take effect.
                Some(RegistrationState::Out) if self.looked_at < self.late_until => not_yet(),
                Some(state) => state,
            },
            Some(_) => not_yet(),
        }
    }

    /// The state of a draining member; `None` if the start of the draining is not known. Once the group's
    /// deregistration delay is over, the member is out even if AWS still shows it as draining. A member whose instance
    /// is gone is out immediately: it has no open connections to wait for.
    fn drains(&self, member: &Member, timing: &Timing, now: Duration) -> Option<RegistrationState> {
        if member.desired == Desired::Forgotten {
            return Some(RegistrationState::Out);
        }
        let since = member.leaving_since?;
        Some(match self.delay {
            Some((delay, _)) if since + delay <= now => RegistrationState::Out,
            _ if member.is_awaited() && drain_deadline(since, self.late_until, timing) <= now => {
                RegistrationState::Overdue
            }
            _ => RegistrationState::Leaving,
        })
    }

    /// The longest wait for a draining target, counted from the time at which AWS accepted the deregistration. If the
    /// wait for the call itself counted, the drain limit would cut off connections within a deregistration delay of
    /// `Timing::drain_limit`.
    pub(super) fn drains_for(&self, timing: &Timing) -> Duration {
        let delay = self.delay.map_or(timing.drain_limit, |(delay, _)| delay);
        delay.min(timing.drain_limit)
    }

    /// The stale state, if reads have failed for longer than the normal interval. Throttling is temporary and does not
    /// make the cached health stale.
    fn stale(&self, timing: &Timing, now: Duration) -> Option<RegistrationState> {
        let since = self.failing_since?;
        let (error, _) = self.failure.as_ref()?;
        let lasts = since + timing.target_interval <= now && error.class != ErrorClass::Throttled;
        lasts.then(|| RegistrationState::Stale(error.clone()))
    }
}
