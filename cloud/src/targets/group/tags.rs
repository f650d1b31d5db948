//! The control planes that may use a group according to its tags, and the machines that wait for this answer. Tags are
//! read only while somebody needs an answer: a target that is registered already needs none.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::access::{GroupTags, TargetAccess, TargetUser};
use super::super::member::Member;
use super::super::model::{Desired, RegistrationState, TargetState};
use super::{GroupState, backoff};
use crate::elb::TargetType;
use crate::{CloudError, ClusterKey, MachineKey, Timing};

/// The known tags of a group.
#[derive(Default)]
pub(super) struct KnownTags {
    /// The tags, and the time at which they were read.
    read: Option<(GroupTags, Duration)>,
    /// The error of the last read, if it failed.
    failure: Option<CloudError>,
    /// Number of consecutive reads after which somebody still had no access.
    reads_without_access: u32,
    /// The earliest time of the next read.
    not_before: Duration,
    /// The machines that ask for access before their launch.
    applicants: BTreeMap<MachineKey, Applicant>,
}

struct Applicant {
    user: TargetUser,
    /// The last answer to the machine, which is woken when the answer changes.
    last_answer: TargetAccess,
}

impl KnownTags {
    /// Tags that refuse access are valid until the next read. Tags that grant access are valid for twice the maximum
    /// time between reads, so that a machine with access does not wait for the next read because another machine has
    /// none.
    fn access(&self, user: &TargetUser, timing: &Timing, now: Duration) -> TargetAccess {
        if let Some(refusal) = self.read.as_ref().and_then(|(tags, _)| tags.refusal(user)) {
            return TargetAccess::Refused(refusal);
        }
        match (&self.read, &self.failure) {
            (Some((_, at)), _) if now < *at + timing.resolve_retry_cap * 2 => TargetAccess::Granted,
            (_, Some(error)) => TargetAccess::Unreadable(error.clone()),
            _ => TargetAccess::Unknown,
        }
    }

    /// Forgets the tags and the error: other credentials may have read them.
    pub(super) fn forget(&mut self) {
        (self.read, self.failure, self.reads_without_access) = (None, None, 0);
        self.not_before = Duration::ZERO;
    }

    /// Ends a machine's question.
    pub(super) fn withdraw(&mut self, machine: &MachineKey) {
        self.applicants.remove(machine);
    }

    /// Whether no machine asks.
    pub(super) fn is_idle(&self) -> bool {
        self.applicants.is_empty()
    }

    /// The machines that ask, and their control planes.
    fn users(&self) -> impl Iterator<Item = (&MachineKey, &TargetUser)> {
        self.applicants.iter().map(|(machine, applicant)| (machine, &applicant.user))
    }

    /// Whether this error differs from the error of the read before.
    pub(super) fn is_new_failure(&self, error: &CloudError) -> bool {
        self.failure.as_ref() != Some(error)
    }
}

impl GroupState {
    /// The cluster whose share of the request rate the calls about the group use. A cluster that uses the group
    /// precedes a cluster that only names it, so that the calls of the group's user do not wait for those of another
    /// tenant.
    pub(in crate::targets) fn cluster(&self) -> Option<ClusterKey> {
        let members = self.members.iter().map(|((machine, ..), member)| (machine, &member.user));
        let users = members.chain(self.tags.users());
        let (machine, user) = users.min_by_key(|(machine, user)| (user.used_by.is_some(), *machine))?;
        Some(ClusterKey { namespace: machine.namespace.clone(), name: user.cluster_tag.clone() })
    }

    /// Whether the control plane of a machine that has no instance yet may use the group.
    pub(in crate::targets) fn ask(
        &mut self,
        machine: &MachineKey,
        user: &TargetUser,
        timing: &Timing,
        now: Duration,
    ) -> TargetAccess {
        let answer = self.tags.access(user, timing, now);
        if answer != TargetAccess::Granted {
            self.due = Some(Duration::ZERO);
        }
        let applicant = Applicant { user: user.clone(), last_answer: answer.clone() };
        self.tags.applicants.insert(machine.clone(), applicant);
        answer
    }

    /// Whether a write for the member needs access to the group: the write would register the member, or would
    /// deregister an address that may belong to another instance.
    fn needs_access(&self, member: &Member) -> bool {
        let (Some(facts), Some(seen)) = (&self.facts, &self.seen) else {
            return false;
        };
        let Some(target) = member.target(facts) else {
            return false;
        };
        let health = seen.get(&target);
        let is_in = health.is_some_and(|health| health.state != TargetState::Draining);
        if member.is_leaving() {
            is_in && matches!(facts.target_type, TargetType::Ip(_)) && !member.was_registered()
        } else {
            !is_in && member.desired == Desired::Registered
        }
    }

    /// The reason why a member may not be registered; `None` if it may.
    pub(super) fn lacking(&self, member: &Member, timing: &Timing, now: Duration) -> Option<TargetAccess> {
        let access = || self.tags.access(&member.user, timing, now);
        let needed = self.needs_access(member).then(access);
        needed.filter(|access| *access != TargetAccess::Granted)
    }

    /// The state of a leaving member whose address may belong to another instance.
    pub(super) fn unproven_departure(
        &self,
        member: &Member,
        timing: &Timing,
        now: Duration,
    ) -> Option<RegistrationState> {
        Some(match self.lacking(member, timing, now)? {
            TargetAccess::Granted => return None,
            TargetAccess::Refused(_) => RegistrationState::Out,
            TargetAccess::Unknown | TargetAccess::Unreadable(_) if member.is_overdue(self.late_until, timing, now) => {
                RegistrationState::Overdue
            }
            TargetAccess::Unknown => RegistrationState::Unknown,
            TargetAccess::Unreadable(error) => RegistrationState::Unreadable(error),
        })
    }

    /// Whether somebody waits for tags.
    fn is_asked(&self, timing: &Timing, now: Duration) -> bool {
        let mut applicants = self.tags.applicants.values();
        let asks = |applicant: &Applicant| {
            applicant.last_answer != TargetAccess::Granted
                && self.tags.access(&applicant.user, timing, now) != TargetAccess::Granted
        };
        let mut members = self.members.values();
        applicants.any(asks) || members.any(|member| self.lacking(member, timing, now).is_some())
    }

    /// The time of the next read of the tags; a time in the past means now.
    pub(super) fn tags_due(&self, timing: &Timing, now: Duration) -> Option<Duration> {
        self.is_asked(timing, now).then_some(self.tags.not_before)
    }

    /// Records the answer to a read of the tags.
    pub(super) fn tags_read(&mut self, answer: Result<GroupTags, CloudError>, timing: &Timing, now: Duration) {
        match answer {
            Ok(tags) => (self.tags.read, self.tags.failure) = (Some((tags, now)), None),
            Err(error) => self.tags.failure = Some(error),
        }
        if self.is_asked(timing, now) {
            self.tags.not_before = now + backoff(self.tags.reads_without_access, timing);
            self.tags.reads_without_access = self.tags.reads_without_access.saturating_add(1);
        } else {
            self.tags.not_before = now;
            self.tags.reads_without_access = 0;
        }
    }

    /// The machines whose answer has changed.
    pub(super) fn answered(&mut self, timing: &Timing, now: Duration) -> Vec<MachineKey> {
        let asking = self.tags.applicants.iter();
        let asking = asking.filter(|(_, applicant)| applicant.last_answer != TargetAccess::Granted);
        let news = asking.filter_map(|(machine, applicant)| {
            let access = self.tags.access(&applicant.user, timing, now);
            (access != applicant.last_answer).then(|| (machine.clone(), access))
        });
        let news: Vec<(MachineKey, TargetAccess)> = news.collect();
        for (machine, access) in &news {
            if let Some(applicant) = self.tags.applicants.get_mut(machine) {
                applicant.last_answer = access.clone();
            }
        }
        news.into_iter().map(|(machine, _)| machine).collect()
    }
}
