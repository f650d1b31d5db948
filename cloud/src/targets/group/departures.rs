//! The members that leave before their nodes are drained.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::member::Departure;
use super::super::model::{Target, TargetState};
use super::GroupState;
use crate::Timing;

impl GroupState {
    /// Lets members with the desired state `Departing` leave, one after the other, and keeps the last healthy target of
    /// the group.
    pub(super) fn let_depart(&mut self, timing: &Timing, now: Duration) {
        let (Some(facts), Some(seen)) = (&self.facts, &self.seen) else {
            return;
        };
        let healthy = seen.iter().filter(|(_, health)| health.state == TargetState::Healthy);
        let mut serving: BTreeSet<&Target> = healthy.map(|(target, _)| target).collect();
        for member in self.members.values().filter(|member| member.is_leaving()) {
            if let Some(target) = member.target(facts) {
                serving.remove(&target);
            }
        }
        for member in self.members.values_mut().filter(|member| member.awaits_departure()) {
            let target = member.target(facts);
            let is_serving = target.as_ref().is_some_and(|target| serving.contains(target));
            if self.looked_at < member.since {
                continue;
            }
            if is_serving && serving.len() == 1 {
                member.departure = Departure::Held;
                continue;
            }
            if let Some(target) = &target {
                serving.remove(target);
            }
            member.departure = Departure::Granted;
            self.settles_until = now + timing.target_settling;
        }
    }
}
