//! Computes the next state of each target of a machine, and `ControlPlaneTargetsReady`. Pure.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use capa_api::conditions::{ConditionStatus, ConditionType, ConditionUpdate, Reason};
use capa_api::machine::{MachineTargetState, MachineTargetStatus};
use capa_api::meta::CONTROL_PLANE_TARGET_TAG;
use capa_cloud::targets::{Group, Health, Refusal, RegistrationState, TargetAccess, TargetState};
use capa_runtime::reconcile::EventDraft;

/// The state of an instance in a group: the stored state, and the state that AWS shows.
#[derive(Clone, Debug)]
pub(super) struct TargetView {
    pub(in crate::awsmachine) group: Group,
    /// `<namespace>/<name>` of the Cluster whose control plane the instance belongs to.
    pub(in crate::awsmachine) cluster: String,
    /// The stored state of this instance in the group.
    pub(in crate::awsmachine) stored: Option<MachineTargetState>,
    /// The current state in AWS.
    pub(in crate::awsmachine) shown: RegistrationState,
}

/// The stored state of an instance in a group.
pub(in crate::awsmachine) fn stored_state(
    stored: &[MachineTargetStatus],
    id: &str,
    group: &Group,
) -> Option<MachineTargetState> {
    let mut of_group = stored.iter().filter(|status| status.target == group.id());
    of_group.find(|status| status.instance_id == id).map(|status| status.state)
}

impl TargetView {
    /// The state to store for an instance that is being registered.
    fn registering(&self) -> Option<MachineTargetState> {
        match &self.shown {
            RegistrationState::Unsuitable(_) | RegistrationState::Refused(_) => None,
            shown if shown.is_healthy() => Some(MachineTargetState::InService),
            RegistrationState::Registered { .. } if self.stored == Some(MachineTargetState::InService) => self.stored,
            RegistrationState::Registered { .. } => Some(MachineTargetState::Registered),
            RegistrationState::Unknown | RegistrationState::Unreadable(_) | RegistrationState::Stale(_) => {
                self.stored.or(Some(MachineTargetState::Registering))
            }
            RegistrationState::Registering
            | RegistrationState::Leaving
            | RegistrationState::Out
            | RegistrationState::Overdue
            | RegistrationState::Failed(_) => Some(MachineTargetState::Registering),
        }
    }

    /// The state to store for an instance that is being deregistered.
    fn deregistering(&self) -> Option<MachineTargetState> {
        match &self.shown {
            RegistrationState::Out | RegistrationState::Unsuitable(_) | RegistrationState::Refused(_) => {
                Some(MachineTargetState::Deregistered)
            }
            // The instance was deregistered before, and only a read that confirms it is missing.
            RegistrationState::Registering | RegistrationState::Leaving
                if self.stored == Some(MachineTargetState::Deregistered) =>
            {
                self.stored
            }
            RegistrationState::Registering
            | RegistrationState::Registered { .. }
            | RegistrationState::Leaving
            | RegistrationState::Overdue => Some(MachineTargetState::Deregistering),
            RegistrationState::Unknown
            | RegistrationState::Unreadable(_)
            | RegistrationState::Stale(_)
            | RegistrationState::Failed(_) => self.stored,
        }
    }

    /// The state to store for an instance that is deregistered before its AWSMachine is deleted. It may stay
    /// registered.
    fn departing(&self) -> Option<MachineTargetState> {
        if self.leaves() { self.deregistering() } else { self.registering() }
    }

    /// Whether the instance leaves the group or has left it, according to AWS or to the stored state.
    pub(in crate::awsmachine) fn leaves(&self) -> bool {
        let shown =
            matches!(self.shown, RegistrationState::Leaving | RegistrationState::Out | RegistrationState::Overdue);
        shown || self.was_leaving()
    }

    /// Whether AWS has shown the state of the instance in the group.
    fn is_read(&self) -> bool {
        !matches!(self.shown, RegistrationState::Unknown | RegistrationState::Unreadable(_))
    }

    /// Whether the stored state is one of a registration. The former condition is then about this instance.
    fn was_registering(&self) -> bool {
        self.stored.is_some_and(|state| state < MachineTargetState::Deregistering)
    }

    /// Whether the instance has been healthy since it was registered.
    fn was_in_service(&self) -> bool {
        self.stored == Some(MachineTargetState::InService)
    }

    /// Whether the stored state is one of a deregistration.
    fn was_leaving(&self) -> bool {
        self.stored.is_some_and(|state| state >= MachineTargetState::Deregistering)
    }

    /// Whether the deletion does not wait for this target.
    pub(in crate::awsmachine) fn is_over(&self) -> bool {
        matches!(self.shown, RegistrationState::Out | RegistrationState::Overdue | RegistrationState::Unsuitable(_))
    }
}

/// The states to store for an instance that is being registered, and an event for each registration by this provider
/// that took effect.
pub(super) fn after_registering(id: &str, views: &[TargetView]) -> (Vec<MachineTargetStatus>, Vec<EventDraft>) {
    let took_effect = views.iter().filter(|view| {
        let by_us = matches!(view.shown, RegistrationState::Registered { by_us: true, .. });
        by_us && view.stored == Some(MachineTargetState::Registering)
    });
    let event = |view: &TargetView| {
        let message = format!("registered instance {id} in {}", view.group);
        EventDraft::normal("SuccessfulAttachControlPlaneELB", message)
    };
    (to_store(id, views, TargetView::registering), took_effect.map(event).collect())
}

/// The states to store for an instance that is being deregistered, and an event for each deregistration that took
/// effect.
pub(super) fn after_deregistering(id: &str, views: &[TargetView]) -> (Vec<MachineTargetStatus>, Vec<EventDraft>) {
    let took_effect = views
        .iter()
        .filter(|view| view.shown == RegistrationState::Out && view.stored == Some(MachineTargetState::Deregistering));
    let event = |view: &TargetView| {
        let message = format!("deregistered instance {id} from {}", view.group);
        EventDraft::normal("SuccessfulDetachControlPlaneELB", message)
    };
    (to_store(id, views, TargetView::deregistering), took_effect.map(event).collect())
}

/// The states and events for an instance that is deregistered before its AWSMachine is deleted.
pub(super) fn after_departing(id: &str, views: &[TargetView]) -> (Vec<MachineTargetStatus>, Vec<EventDraft>) {
    let (_, events) = after_deregistering(id, views);
    (to_store(id, views, TargetView::departing), events)
}

/// One entry for each group. If a group contains several targets with different ports, the least advanced target
/// counts.
fn to_store(
    id: &str,
    views: &[TargetView],
    next: impl Fn(&TargetView) -> Option<MachineTargetState>,
) -> Vec<MachineTargetStatus> {
    let mut states = BTreeMap::new();
    for view in views {
        if let Some(state) = next(view) {
            let least = states.entry(view.group.id()).or_insert(state);
            *least = state.min(*least);
        }
    }
    let entry = |(target, state): (&str, MachineTargetState)| MachineTargetStatus {
        target: target.to_owned(),
        instance_id: id.to_owned(),
        state,
    };
    states.into_iter().map(entry).collect()
}

/// The condition of a running instance; `None` if the former condition stays. A new process has not read the groups
/// yet. The former condition stays until all groups are read, unless a group contradicts it. `was_true` is whether the
/// former condition was True, if there was one.
pub(super) fn registration_or_kept(
    id: &str,
    views: &[TargetView],
    problems: &[String],
    was_true: Option<bool>,
) -> Option<ConditionUpdate> {
    let read: Vec<TargetView> = views.iter().filter(|view| view.is_read()).cloned().collect();
    let stands = views.iter().any(TargetView::was_registering)
        && was_true
            .is_some_and(|was_true| !was_true || registration(id, &read, problems).status == ConditionStatus::True);
    (read.len() == views.len() || !stands).then(|| registration(id, views, problems))
}

/// The condition of an instance that is being deregistered; `None` if the former condition stays.
pub(super) fn departure_or_kept(id: &str, views: &[TargetView]) -> Option<ConditionUpdate> {
    let is_unknown = views.iter().any(|view| view.shown == RegistrationState::Unknown);
    let was_leaving = views.iter().any(TargetView::was_leaving);
    (!is_unknown || !was_leaving).then(|| departure(id, views))
}

/// The condition of a running instance. The reason is that of the first problem, and the message contains all problems.
fn registration(id: &str, views: &[TargetView], problems: &[String]) -> ConditionUpdate {
    let of_spec = problems.iter().map(|message| (Reason::InvalidSpec, message.clone()));
    let of_targets = views.iter().filter_map(|view| registration_problem(id, view));
    let all: Vec<(Reason, String)> = of_spec.chain(of_targets).collect();
    summed_up(&all).unwrap_or_else(|| ConditionType::ControlPlaneTargetsReady.is_true(Reason::Ready))
}

fn registration_problem(id: &str, view: &TargetView) -> Option<(Reason, String)> {
    let group = &view.group;
    match &view.shown {
        healthy if healthy.is_healthy() => None,
        RegistrationState::Registered { health, .. } => Some(health_problem(id, view, health)),
        RegistrationState::Unsuitable(kind) => Some((
            Reason::InvalidSpec,
            format!(
                "{group} takes targets of type {kind}, which instance {id} cannot be: name one of type instance, or of \
                 type ip for addresses that the instance has"
            ),
        )),
        RegistrationState::Refused(refusal) => Some((Reason::Conflict, refused(group, &view.cluster, refusal))),
        RegistrationState::Failed(error) => Some((
            error.class.reason(),
            format!("instance {id} is not registered in {group}, and the provider retries the registration: {error}"),
        )),
        RegistrationState::Unreadable(error) => Some((error.class.reason(), format!("{}: {error}", unread(id, group)))),
        RegistrationState::Stale(error) => Some((
            error.class.reason(),
            format!(
                "the state of instance {id} in {group} is not known any more, and the provider reads it again: {error}"
            ),
        )),
        RegistrationState::Unknown => Some((Reason::Registering, unread(id, group))),
        RegistrationState::Registering
        | RegistrationState::Leaving
        | RegistrationState::Out
        | RegistrationState::Overdue => {
            Some((Reason::Registering, format!("instance {id} is being registered in {group}")))
        }
    }
}

/// A target that was never healthy is still registering, because a node takes time to boot. A target that is no longer
/// healthy has failed.
fn health_problem(id: &str, view: &TargetView, health: &Health) -> (Reason, String) {
    let group = &view.group;
    let unhealthy = if view.was_in_service() { Reason::Failed } else { Reason::Registering };
    let code = health.reason.as_ref().map(|reason| format!(": {reason}"));
    let code = code.unwrap_or_default();
    match health.state {
        TargetState::Initial => {
            (Reason::Registering, format!("instance {id} is registered in {group} and not checked yet"))
        }
        TargetState::Unused => (unhealthy, format!("instance {id} is registered in {group} and gets no traffic{code}")),
        _ => (unhealthy, format!("instance {id} is registered in {group} and not healthy{code}")),
    }
}

/// The condition of an instance that is being deregistered.
fn departure(id: &str, views: &[TargetView]) -> ConditionUpdate {
    let problems = views.iter().filter_map(|view| departure_problem(id, view));
    let problems: Vec<(Reason, String)> = problems.collect();
    summed_up(&problems).unwrap_or_else(|| {
        let message = format!("instance {id} has left its load balancer targets");
        ConditionType::ControlPlaneTargetsReady.is_false(Reason::Deregistering, message)
    })
}

fn departure_problem(id: &str, view: &TargetView) -> Option<(Reason, String)> {
    let group = &view.group;
    match &view.shown {
        RegistrationState::Out | RegistrationState::Unsuitable(_) | RegistrationState::Refused(_) => None,
        RegistrationState::Overdue => Some((
            Reason::Failed,
            format!(
                "instance {id} has not left {group} in time, and the provider terminates it without waiting any longer"
            ),
        )),
        RegistrationState::Failed(error) | RegistrationState::Unreadable(error) | RegistrationState::Stale(error) => {
            Some((
                error.class.reason(),
                format!("instance {id} has not left {group}, and the provider retries this for some minutes: {error}"),
            ))
        }
        RegistrationState::Unknown => Some((Reason::Deregistering, unread(id, group))),
        RegistrationState::Registering | RegistrationState::Registered { .. } | RegistrationState::Leaving => {
            Some((Reason::Deregistering, format!("instance {id} is being deregistered from {group}")))
        }
    }
}

/// One condition for all problems.
fn summed_up(problems: &[(Reason, String)]) -> Option<ConditionUpdate> {
    // A problem that a user must solve precedes a temporary problem.
    let passes = |(reason, _): &&(Reason, String)| matches!(reason, Reason::Registering | Reason::Deregistering);
    let (reason, _) = problems.iter().find(|problem| !passes(problem)).or_else(|| problems.first())?;
    let messages: Vec<&str> = problems.iter().map(|(_, message)| message.as_str()).collect();
    Some(ConditionType::ControlPlaneTargetsReady.is_false(*reason, messages.join("; ")))
}

fn unread(id: &str, group: &Group) -> String {
    format!("the registration of instance {id} in {group} is being read")
}

/// The problem of a group for the control plane of a Cluster, `<namespace>/<name>`. `None` if the control plane may use
/// the group.
pub(super) fn access_problem(group: &Group, cluster: &str, access: &TargetAccess) -> Option<(Reason, String)> {
    match access {
        TargetAccess::Granted => None,
        TargetAccess::Unknown => {
            let message = format!("whether {cluster} may use {group} is being read from its tags");
            Some((Reason::Registering, message))
        }
        TargetAccess::Unreadable(error) => {
            let message = format!("the tags of {group} cannot be read, and the provider retries: {error}");
            Some((error.class.reason(), message))
        }
        TargetAccess::Refused(refusal) => Some((Reason::Conflict, refused(group, cluster, refusal))),
    }
}

/// The message about a group that the control plane of a Cluster, `<namespace>/<name>`, may not use.
fn refused(group: &Group, cluster: &str, refusal: &Refusal) -> String {
    let tag = format!("{CONTROL_PLANE_TARGET_TAG}: {cluster}");
    let ways_out = format!("name another target, or, if it is to serve {cluster}, give it the tag {tag}");
    match refusal {
        Refusal::GivenTo(other) => {
            format!("{group} has the tag {CONTROL_PLANE_TARGET_TAG}: {other}, which is not {cluster}: {ways_out}")
        }
        Refusal::Untagged => {
            format!("{group} lacks the tag {tag}, which --control-plane-targets=Tagged asks for: {ways_out}")
        }
        Refusal::OwnedBy(owner) => format!("{group} belongs to another cluster by its tag {owner}: {ways_out}"),
        Refusal::UsedBy(other) => {
            format!("{group} is used or named by the control plane of Cluster {other}: {ways_out}")
        }
    }
}
