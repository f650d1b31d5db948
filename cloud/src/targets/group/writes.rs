//! The registrations and deregistrations that one target group needs.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::member::RegistrationCall;
use super::super::model::{Desired, GroupFacts, GroupRequest, Target, TargetState};
use super::GroupState;
use crate::Timing;

impl GroupState {
    /// The writes that the members need: the earliest time of each, whether the write is a deregistration, and its
    /// target.
    pub(super) fn writes(&self, timing: &Timing, now: Duration) -> Vec<(Duration, bool, Target)> {
        let (Some(facts), Some(seen)) = (&self.facts, &self.seen) else {
            return vec![];
        };
        let claimed = self.claimed(facts);
        let wanted = self.members.values().filter_map(|member| {
            let target = member.target(facts)?;
            let health = seen.get(&target);
            let is_in = health.is_some_and(|health| health.state != TargetState::Draining);
            let leaves = member.is_leaving();
            let needed = if leaves {
                let may_appear = health.is_none() && member.may_appear(timing, now);
                (is_in || may_appear) && !claimed.contains(&target)
            } else {
                // An instance with the desired state `Departing` is not registered again.
                !is_in && member.desired == Desired::Registered
            };
            // AWS may not show a registration that it accepted a moment ago.
            let shows = match member.registration {
                RegistrationCall::Taken(at) => at + timing.target_poll * 3,
                RegistrationCall::None | RegistrationCall::UnderWay | RegistrationCall::Unanswered => Duration::ZERO,
            };
            let not_before = if leaves { member.not_before } else { member.not_before.max(shows) };
            let is_allowed = self.lacking(member, timing, now).is_none();
            (needed && is_allowed).then_some((not_before, leaves, target))
        });
        wanted.collect()
    }

    /// The targets that some machine wants to be registered. No other machine deregisters these targets: AWS may have
    /// assigned the address of an earlier instance to a new one.
    pub(super) fn claimed(&self, facts: &GroupFacts) -> BTreeSet<Target> {
        let staying = self.members.values().filter(|member| !member.is_leaving());
        staying.filter_map(|member| member.target(facts)).collect()
    }

    /// The write that is due. Deregistrations precede registrations.
    pub(super) fn write(&mut self, timing: &Timing, now: Duration) -> Option<GroupRequest> {
        let writes = self.writes(timing, now).into_iter().filter(|(not_before, ..)| *not_before <= now);
        let (leaving, coming): (Vec<_>, Vec<_>) = writes.partition(|(_, leaves, _)| *leaves);
        if leaving.is_empty() && coming.is_empty() {
            self.open_since = None;
            return None;
        }
        let since = *self.open_since.get_or_insert(now);
        if now < since + timing.rate_second / 5 {
            return None;
        }
        let some = |writes: Vec<(Duration, bool, Target)>| {
            let targets: BTreeSet<Target> = writes.into_iter().map(|(_, _, target)| target).collect();
            targets.into_iter().take(self.most).collect()
        };
        Some(if leaving.is_empty() {
            GroupRequest::Register(some(coming))
        } else {
            GroupRequest::Deregister(some(leaving))
        })
    }
}
