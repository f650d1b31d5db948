//! The cached facts of one target group, and the next request about it.

mod departures;
mod state;
mod tags;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::access::TargetRequest;
use super::member::{Member, RegistrationCall, drain_deadline};
use super::model::{
    Desired, Group, GroupAnswer, GroupCall, GroupFacts, GroupReport, GroupRequest, Health, RegistrationState, Target,
    TargetInstance, TargetState,
};
use crate::elb::TargetType;
use crate::{CloudError, ErrorClass, MachineKey, Timing, doubled_wait};
use tags::KnownTags;

/// Maximum number of targets in one register or deregister call.
const MAX_TARGETS: usize = 40;

/// The key of a member: its machine, its instance id, and the port that the target is registered with.
type MemberKey = (MachineKey, String, Option<i32>);

/// The cached state of one target group. At most one call about a group is under way, so that no read that began before
/// a write can overwrite the result of the write.
pub(super) struct GroupState {
    facts: Option<GroupFacts>,
    seen: Option<BTreeMap<Target, Health>>,
    tags: KnownTags,
    /// The start of the last read of the targets' health that AWS answered.
    looked_at: Duration,
    /// The time until which a registration of a caller that is gone, or whose answer was lost, may still take effect.
    late_until: Duration,
    /// The end of the last read of the targets' health, or of the last write that AWS accepted.
    shown_at: Duration,
    /// The start of the call that is under way, or of the last call.
    asked_at: Duration,
    delay: Option<(Duration, Duration)>,
    /// The earliest time of the next read of the deregistration delay.
    delay_not_before: Duration,
    members: BTreeMap<MemberKey, Member>,
    /// Whether a call about the group is under way.
    pub(super) busy: bool,
    /// Whether the answer to the call that is under way is discarded.
    is_void: bool,
    /// The last error that concerns the whole group, and the start of its call. An answered read clears it.
    failure: Option<(CloudError, Duration)>,
    failures: u32,
    /// The time of the first failed read since the last answered one.
    failing_since: Option<Duration>,
    /// The earliest time of the next read of the facts or of the health.
    not_before: Duration,
    /// The time until which the group is read at the short interval while a target has not reached its desired state.
    settles_until: Duration,
    /// The time since which a write waits for other writes to join the same call.
    open_since: Option<Duration>,
    most: usize,
    /// The time at which [`GroupState::begin`] must be called next.
    pub(super) due: Option<Duration>,
}

impl GroupState {
    pub(super) fn new(group: &Group, late_until: Duration) -> Self {
        let classic = GroupFacts { target_type: TargetType::Instance, port: None };
        Self {
            facts: matches!(group, Group::Classic(_)).then_some(classic),
            seen: None,
            tags: KnownTags::default(),
            looked_at: Duration::ZERO,
            late_until,
            shown_at: Duration::ZERO,
            asked_at: Duration::ZERO,
            delay: None,
            delay_not_before: Duration::ZERO,
            members: BTreeMap::new(),
            busy: false,
            is_void: false,
            failure: None,
            failures: 0,
            failing_since: None,
            not_before: Duration::ZERO,
            settles_until: Duration::ZERO,
            open_since: None,
            most: MAX_TARGETS,
            due: Some(Duration::ZERO),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.tags.is_idle()
    }

    /// Number of instances that are to be registered in the group or deregistered from it.
    pub(super) fn members(&self) -> usize {
        self.members.len()
    }

    /// Records the desired state of a machine's target, and returns the target's current registration state.
    pub(super) fn want(
        &mut self,
        machine: &MachineKey,
        instance: &TargetInstance,
        request: &TargetRequest,
        desired: Desired,
        timing: &Timing,
        now: Duration,
    ) -> RegistrationState {
        self.tags.withdraw(machine);
        let key = (machine.clone(), instance.id.clone(), request.target.port);
        let new = || Member::new(instance.clone(), request, desired, now);
        let is_new = !self.members.contains_key(&key);
        let member = self.members.entry(key.clone()).or_insert_with(new);
        if member.renew(instance, request, desired, now) || is_new {
            self.settles_until = now + timing.target_settling;
            self.due = Some(Duration::ZERO);
        }
        let state = self.state(&key, timing, now);
        if let Some(member) = self.members.get_mut(&key) {
            member.last_notified = state.clone();
        }
        state
    }

    pub(super) fn forget(&mut self, machine: &MachineKey) {
        self.tags.withdraw(machine);
        self.members.retain(|(owner, ..), _| owner != machine);
    }

    /// Forgets the health of the group's targets, and discards the answer to the call that is under way.
    pub(super) fn forget_answers(&mut self) {
        self.seen = None;
        self.tags.forget();
        (self.failure, self.failures, self.failing_since) = (None, 0, None);
        self.not_before = Duration::ZERO;
        self.is_void = self.busy;
        self.due = Some(Duration::ZERO);
    }

    /// Ends a machine's interest in all ports of the group except `ports`.
    pub(super) fn keep(&mut self, machine: &MachineKey, ports: &BTreeSet<Option<i32>>) {
        if ports.is_empty() {
            self.tags.withdraw(machine);
        }
        self.members.retain(|(owner, _, port), _| owner != machine || ports.contains(port));
    }

    /// Whether the termination of an instance waits for the deregistration of a target.
    pub(super) fn is_urgent(&self) -> bool {
        self.leaving().any(Member::is_awaited)
    }

    /// The members that have not left yet.
    fn leaving(&self) -> impl Iterator<Item = &Member> {
        self.members.values().filter(|member| {
            member.is_leaving()
                && !member.is_done
                && !matches!(
                    member.last_notified,
                    RegistrationState::Out | RegistrationState::Overdue | RegistrationState::Unsuitable(_)
                )
        })
    }

    /// Begins the next request that is due. If no request is due, sets [`GroupState::due`] to the time of the next one.
    pub(super) fn begin(&mut self, timing: &Timing, now: Duration) -> Option<GroupRequest> {
        if self.busy {
            self.due = None;
            return None;
        }
        let request = self.next(timing, now);
        self.busy = request.is_some();
        if self.busy {
            self.asked_at = now;
        }
        let (targets, leaving) = match &request {
            Some(GroupRequest::Register(targets)) => (targets, false),
            Some(GroupRequest::Deregister(targets)) => (targets, true),
            _ => return request,
        };
        let Some(facts) = &self.facts else { return request };
        let members = self.members.values_mut();
        for member in members.filter(|member| member.is_leaving() == leaving) {
            if member.target(facts).is_some_and(|target| targets.contains(&target)) {
                if leaving {
                    member.is_deregistering = true;
                } else {
                    member.registration = RegistrationCall::UnderWay;
                }
            }
        }
        request
    }

    fn next(&mut self, timing: &Timing, now: Duration) -> Option<GroupRequest> {
        let tags_due = self.tags_due(timing, now);
        if tags_due.is_some_and(|due| due <= now) {
            return Some(GroupRequest::Tags);
        }
        if self.members.values().all(|member| member.is_done) {
            self.due = tags_due;
            return None;
        }
        if self.facts.is_none() || self.seen.is_none() {
            if now < self.not_before {
                let wake_at = self.wake_at(timing, now);
                self.due = wake_at.into_iter().chain([self.not_before]).chain(tags_due).min();
                return None;
            }
            return Some(match self.facts {
                None => GroupRequest::Facts,
                Some(_) => GroupRequest::Health,
            });
        }
        // A look that began earlier does not show which targets are healthy now.
        if self.members.values().any(Member::needs_look) && self.not_before <= now {
            return Some(GroupRequest::Health);
        }
        if let Some(write) = self.write(timing, now) {
            return Some(write);
        }
        let leaves = self.members.values().any(|member| member.leaving_since.is_some() && !member.is_done);
        let unknown = |(_, read_at): (Duration, Duration)| read_at + timing.target_interval <= now;
        if leaves && self.delay.is_none_or(unknown) && self.delay_not_before.max(self.not_before) <= now {
            return Some(GroupRequest::Delay);
        }
        let look_at = self.next_look(timing, now);
        if look_at <= now {
            return Some(GroupRequest::Health);
        }
        let window = self.open_since.map(|since| since + timing.rate_second / 5);
        let waiting = self.writes(timing, now).into_iter().map(|(not_before, ..)| not_before);
        let waiting = waiting.filter(|not_before| now < *not_before).min();
        let moments = [Some(look_at), window, waiting, self.wake_at(timing, now), tags_due];
        self.due = moments.into_iter().flatten().filter(|moment| now < *moment).min();
        None
    }

    fn next_look(&self, timing: &Timing, now: Duration) -> Duration {
        let settles = now < self.settles_until
            && self.members.keys().any(|key| {
                let state = self.state(key, timing, now);
                !state.is_healthy()
                    && !matches!(
                        state,
                        RegistrationState::Out
                            | RegistrationState::Overdue
                            | RegistrationState::Unsuitable(_)
                            | RegistrationState::Refused(_)
                    )
            });
        let interval = if settles { timing.target_poll } else { timing.target_interval };
        (self.shown_at + interval).max(self.not_before)
    }

    /// The next time at which a wait for a deregistration ends.
    fn wake_at(&self, timing: &Timing, now: Duration) -> Option<Duration> {
        self.leaving()
            .map(|member| match member.leaving_since {
                Some(since) => since + self.drains_for(timing),
                None => drain_deadline(member.since, self.late_until, timing),
            })
            .filter(|moment| now < *moment)
            .min()
    }

    /// The log entry for an answer.
    pub(super) fn report(&self, call: &GroupCall, answer: &Result<GroupAnswer, CloudError>) -> Option<GroupReport> {
        let is_look = matches!(call.request, GroupRequest::Facts | GroupRequest::Health);
        match answer {
            Err(error)
                if call.request == GroupRequest::Delay
                    || (call.request == GroupRequest::Tags && self.tags.is_new_failure(error)) =>
            {
                Some(GroupReport::Failing(call.group.clone(), error.clone()))
            }
            Err(error)
                if is_look
                    && (self.failing_since.is_none()
                        || self.failure.as_ref().is_none_or(|(before, _)| before != error)) =>
            {
                Some(GroupReport::Failing(call.group.clone(), error.clone()))
            }
            Ok(_) if is_look && self.failing_since.is_some() => Some(GroupReport::Recovered(call.group.clone())),
            _ => None,
        }
    }

    /// Applies the answer to a call.
    pub(super) fn ended(
        &mut self,
        request: &GroupRequest,
        answer: Result<GroupAnswer, CloudError>,
        timing: &Timing,
        now: Duration,
    ) {
        self.busy = false;
        self.due = Some(Duration::ZERO);
        let is_void = std::mem::take(&mut self.is_void);
        match (request, answer) {
            (GroupRequest::Register(targets) | GroupRequest::Deregister(targets), answer) => {
                self.written(matches!(request, GroupRequest::Deregister(_)), targets, &answer, timing, now);
            }
            _ if is_void => {}
            // Without a known delay the longest drain time applies; reads of the health go on.
            (GroupRequest::Delay, Err(_)) => self.delay_not_before = now + timing.target_interval,
            (GroupRequest::Tags, Err(error)) => self.tags_read(Err(error), timing, now),
            (GroupRequest::Delay | GroupRequest::Tags, Ok(answer)) => self.learn(answer, timing, now),
            (_, Err(error)) => {
                if error.class == ErrorClass::NotFound {
                    self.seen = None;
                }
                self.failing_since.get_or_insert(now);
                self.not_before = now + backoff(self.failures, timing);
                self.failures = self.failures.saturating_add(1);
                self.failure = Some((error, self.asked_at));
            }
            (_, Ok(answer)) => {
                self.failure = None;
                self.failures = 0;
                self.failing_since = None;
                self.not_before = now;
                self.learn(answer, timing, now);
            }
        }
        if is_void {
            (self.seen, self.failure) = (None, None);
        }
        self.note_done(timing, now);
    }

    fn learn(&mut self, answer: GroupAnswer, timing: &Timing, now: Duration) {
        match answer {
            GroupAnswer::Facts(facts) => self.facts = Some(facts),
            GroupAnswer::Tags(tags) => self.tags_read(Ok(tags), timing, now),
            GroupAnswer::Delay(delay) => self.delay = Some((delay, now)),
            GroupAnswer::Health(seen) => {
                (self.looked_at, self.shown_at) = (self.asked_at, now);
                self.seen = Some(seen.into_iter().collect());
                self.note_shown(now);
                self.let_depart(timing, now);
            }
            GroupAnswer::Done => {}
        }
    }

    /// Starts the drain time of members that AWS shows draining, whether or not this process deregistered them.
    /// Registrations that AWS shows count as answered.
    fn note_shown(&mut self, now: Duration) {
        let (Some(facts), Some(seen)) = (&self.facts, &self.seen) else {
            return;
        };
        for member in self.members.values_mut() {
            let health = member.target(facts).and_then(|target| seen.get(&target));
            let Some(health) = health else { continue };
            if health.state != TargetState::Draining && member.registration == RegistrationCall::Unanswered {
                member.registration = RegistrationCall::Taken(now);
            }
            if health.state == TargetState::Draining && member.is_leaving() {
                member.leaving_since.get_or_insert(now);
            }
        }
    }

    /// Marks a member as done if its instance is gone and its target is out: AWS may assign the address to another
    /// instance.
    fn note_done(&mut self, timing: &Timing, now: Duration) {
        let Some(facts) = &self.facts else { return };
        let is_gone = |(_, member): &(&MemberKey, &Member)| member.desired == Desired::Forgotten;
        let gone = self.members.iter().filter(is_gone);
        let done = gone.filter(|(key, member)| {
            // Without an answered read, nothing proves that the address is out: a read with other credentials may show
            // the address.
            let is_proven = self.seen.is_some() || member.target(facts).is_none();
            is_proven && self.state(key, timing, now) == RegistrationState::Out
        });
        let done: Vec<MemberKey> = done.map(|(key, _)| key.clone()).collect();
        for key in done {
            if let Some(member) = self.members.get_mut(&key) {
                member.is_done = true;
            }
        }
    }

    /// Applies the answer to a registration of targets, or to a deregistration if they are leaving.
    fn written(
        &mut self,
        leaving: bool,
        targets: &[Target],
        answer: &Result<GroupAnswer, CloudError>,
        timing: &Timing,
        now: Duration,
    ) {
        self.open_since = None;
        if leaving {
            self.members.values_mut().for_each(|member| member.is_deregistering = false);
        } else {
            if matches!(answer, Err(error) if error.class == ErrorClass::NoAnswer) {
                self.late_until = now + timing.late_registration;
            }
            let answer = answer.as_ref().map(|_| ());
            self.members.values_mut().for_each(|member| member.registered(answer, now));
        }
        let split = matches!(answer, Err(error) if error.class == ErrorClass::Invalid && targets.len() > 1);
        if split {
            // AWS refuses the whole call for one invalid target. Smaller calls separate that target from the others.
            self.most = (targets.len() / 2).max(1);
            return;
        }
        if let Err(error) = answer
            && error.class == ErrorClass::NotFound
        {
            self.seen = None;
            self.failure = Some((error.clone(), self.asked_at));
            self.not_before = now + backoff(self.failures, timing);
            self.failures = self.failures.saturating_add(1);
        }
        let Some(facts) = self.facts.clone() else { return };
        self.note_in_members(&facts, leaving, targets, answer, timing, now);
        if answer.is_ok() {
            self.most = MAX_TARGETS;
            let state = if leaving { TargetState::Draining } else { TargetState::Initial };
            let seen = self.seen.get_or_insert_default();
            let health = Health { state, reason: None };
            seen.extend(targets.iter().map(|target| (target.clone(), health.clone())));
            self.shown_at = now;
            self.settles_until = now + timing.target_settling;
        }
    }

    /// Notes the answer to a write in the members whose targets the write contained.
    fn note_in_members(
        &mut self,
        facts: &GroupFacts,
        leaving: bool,
        targets: &[Target],
        answer: &Result<GroupAnswer, CloudError>,
        timing: &Timing,
        now: Duration,
    ) {
        let (seen, late_until) = (self.seen.as_ref(), self.late_until);
        let concerned = self.members.values_mut().filter_map(|member| {
            let target = member.target(facts).filter(|target| targets.contains(target))?;
            (member.is_leaving() == leaving).then_some((member, target))
        });
        for (member, target) in concerned {
            match answer {
                Ok(_) if leaving => {
                    let health = seen.and_then(|seen| seen.get(&target));
                    let was_in = health.is_some_and(|health| health.state != TargetState::Draining);
                    // A target that was registered again, by a late registration or by another client, drains again.
                    // The drain limit bounds the repetitions.
                    if was_in && !member.is_overdue(late_until, timing, now) {
                        member.leaving_since = None;
                    }
                    member.written(now);
                    member.registration = RegistrationCall::None;
                }
                Ok(_) => member.written(now),
                Err(error) => member.failed(error, now + backoff(member.failures, timing)),
            }
        }
    }

    /// Updates the states of which the members were last notified, and returns the machines whose state has changed.
    pub(super) fn news(&mut self, timing: &Timing, now: Duration) -> BTreeSet<MachineKey> {
        let keys: Vec<MemberKey> = self.members.keys().cloned().collect();
        let mut news = BTreeSet::from_iter(self.answered(timing, now));
        for key in keys {
            let state = self.state(&key, timing, now);
            if let Some(member) = self.members.get_mut(&key)
                && member.last_notified != state
            {
                if matches!(state, RegistrationState::Registered { .. }) && !state.is_healthy() {
                    self.settles_until = now + timing.target_settling;
                }
                member.last_notified = state;
                news.insert(key.0);
            }
        }
        news
    }
}

/// The time to wait before the next attempt after this many failures.
fn backoff(failures: u32, timing: &Timing) -> Duration {
    doubled_wait(timing.resolve_retry, failures, timing.resolve_retry_cap)
}
