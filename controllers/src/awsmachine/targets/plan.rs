//! Computes the next state of each target of a machine, and `ControlPlaneTargetsReady`. Pure.

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
    of_group
        .find(|status| status.instance_id == id)
        .map(|status| status.state)
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
            // It has left before, and only a look that proves it anew is missing.
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

    /// The state to store for an instance that leaves before its machine waits for that. Its registration may stay.
    fn departing(&self) -> Option<MachineTargetState> {
        if self.leaves() {
            self.deregistering()
        } else {
            self.registering()
        }
    }

    /// Whether the instance leaves the group or has left it, by what AWS shows or by what is stored.
    pub(in crate::awsmachine) fn leaves(&self) -> bool {
        let shown = matches!(
            self.shown,
            RegistrationState::Leaving | RegistrationState::Out | RegistrationState::Overdue
        );
        shown || self.was_leaving()
    }

    /// Whether AWS has shown the state of the instance in the group.
    fn is_read(&self) -> bool {
        !matches!(
            self.shown,
            RegistrationState::Unknown | RegistrationState::Unreadable(_)
        )
    }

    /// Whether the stored state is one of a registration. The former condition is then about this instance.
    fn was_registering(&self) -> bool {
        self.stored
            .is_some_and(|state| state < MachineTargetState::Deregistering)
    }

    /// Whether the instance has been healthy since it was registered.
    fn was_in_service(&self) -> bool {
        self.stored == Some(MachineTargetState::InService)
    }

    /// Whether the stored state is one of a deregistration.
    fn was_leaving(&self) -> bool {
        self.stored
            .is_some_and(|state| state >= MachineTargetState::Deregistering)
    }

    /// Whether the deletion does not wait for this target.
    pub(in crate::awsmachine) fn is_over(&self) -> bool {
        matches!(
            self.shown,
            RegistrationState::Out | RegistrationState::Overdue | RegistrationState::Unsuitable(_)
        )
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
    (
        to_store(id, views, TargetView::registering),
        took_effect.map(event).collect(),
    )
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
    (
        to_store(id, views, TargetView::deregistering),
        took_effect.map(event).collect(),
    )
}

/// The same for an instance that leaves before its machine waits for that.
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
            format!("{group} takes targets of type {kind}, not instances: name one of type instance or ip"),
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
        | RegistrationState::Overdue => Some((
            Reason::Registering,
            format!("instance {id} is being registered in {group}"),
        )),
    }
}

/// A target that was never healthy is still registering, because a node takes time to boot. A target that is no longer
/// healthy has failed.
fn health_problem(id: &str, view: &TargetView, health: &Health) -> (Reason, String) {
    let group = &view.group;
    let unhealthy = if view.was_in_service() {
        Reason::Failed
    } else {
        Reason::Registering
    };
    let code = health.reason.as_ref().map(|reason| format!(": {reason}"));
    let code = code.unwrap_or_default();
    match health.state {
        TargetState::Initial => (
            Reason::Registering,
            format!("instance {id} is registered in {group} and not checked yet"),
        ),
        TargetState::Unused => (
            unhealthy,
            format!("instance {id} is registered in {group} and gets no traffic{code}"),
        ),
        _ => (
            unhealthy,
            format!("instance {id} is registered in {group} and not healthy{code}"),
        ),
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
        RegistrationState::Registering | RegistrationState::Registered { .. } | RegistrationState::Leaving => Some((
            Reason::Deregistering,
            format!("instance {id} is being deregistered from {group}"),
        )),
    }
}

/// One condition for all problems.
fn summed_up(problems: &[(Reason, String)]) -> Option<ConditionUpdate> {
    // A problem that a user must solve precedes a temporary problem.
    let passes = |(reason, _): &&(Reason, String)| matches!(reason, Reason::Registering | Reason::Deregistering);
    let (reason, _) = problems
        .iter()
        .find(|problem| !passes(problem))
        .or_else(|| problems.first())?;
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
            let message = format!("the tags of {group} cannot be read, it is tried again: {error}");
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

#[cfg(test)]
mod tests {
    mod plan {
        use capa_cloud::CloudError;
        use capa_cloud::targets::{Health, Refusal, TargetState};

        use crate::awsmachine::targets::plan::MachineTargetState::{
            Deregistered, Deregistering, InService, Registered, Registering,
        };

        use super::super::*;

        fn view(stored: Option<MachineTargetState>, shown: RegistrationState) -> TargetView {
            TargetView {
                group: Group::Classic("api".into()),
                cluster: "team-a/dev".into(),
                stored,
                shown,
            }
        }

        fn registered(state: TargetState, by_us: bool) -> RegistrationState {
            let health = Health { state, reason: None };
            RegistrationState::Registered { health, by_us }
        }

        fn failed() -> CloudError {
            CloudError::answered("RegisterTargets", "AccessDenied", "no")
        }

        fn stored(statuses: &[MachineTargetStatus]) -> Option<MachineTargetState> {
            statuses.first().map(|status| status.state)
        }

        #[test]
        fn the_state_of_a_wanted_instance_follows_the_target() {
            let unhealthy = || registered(TargetState::Unhealthy, false);
            let table = [
                (None, RegistrationState::Unknown, Some(Registering)),
                (Some(InService), RegistrationState::Unknown, Some(InService)),
                (
                    Some(Registered),
                    RegistrationState::Unreadable(failed()),
                    Some(Registered),
                ),
                (Some(InService), RegistrationState::Stale(failed()), Some(InService)),
                (None, RegistrationState::Registering, Some(Registering)),
                (Some(InService), RegistrationState::Registering, Some(Registering)),
                (Some(InService), RegistrationState::Failed(failed()), Some(Registering)),
                (Some(Registering), unhealthy(), Some(Registered)),
                (Some(InService), unhealthy(), Some(InService)),
                (
                    Some(Registered),
                    registered(TargetState::Healthy, false),
                    Some(InService),
                ),
                (Some(Registering), RegistrationState::Unsuitable("alb".into()), None),
                (Some(InService), RegistrationState::Refused(Refusal::Untagged), None),
            ];
            for (before, shown, expected) in table {
                let (statuses, _) = after_registering("i-1", &[view(before, shown.clone())]);
                assert_eq!(stored(&statuses), expected, "{shown:?} after {before:?}");
            }
        }

        #[test]
        fn the_state_of_a_leaving_instance_follows_the_target() {
            let table = [
                (Some(InService), RegistrationState::Leaving, Some(Deregistering)),
                (
                    Some(InService),
                    registered(TargetState::Healthy, false),
                    Some(Deregistering),
                ),
                (Some(InService), RegistrationState::Unknown, Some(InService)),
                (None, RegistrationState::Unknown, None),
                (
                    Some(Deregistering),
                    RegistrationState::Failed(failed()),
                    Some(Deregistering),
                ),
                (Some(Deregistering), RegistrationState::Overdue, Some(Deregistering)),
                (Some(Deregistering), RegistrationState::Out, Some(Deregistered)),
                (None, RegistrationState::Out, Some(Deregistered)),
                (
                    Some(Registered),
                    RegistrationState::Unsuitable("alb".into()),
                    Some(Deregistered),
                ),
            ];
            for (before, shown, expected) in table {
                let (statuses, _) = after_deregistering("i-1", &[view(before, shown.clone())]);
                assert_eq!(stored(&statuses), expected, "{shown:?} after {before:?}");
            }
        }

        #[test]
        fn each_write_that_took_effect_is_one_event() {
            let ours = || registered(TargetState::Initial, true);
            let table = [
                (Some(Registering), ours(), 1),
                (Some(Registering), registered(TargetState::Initial, false), 0),
                (Some(Registered), ours(), 0),
                (None, ours(), 0),
            ];
            for (before, shown, expected) in table {
                let (_, events) = after_registering("i-1", &[view(before, shown.clone())]);
                assert_eq!(events.len(), expected, "{shown:?} after {before:?}");
            }
            for (before, expected) in [
                (Some(Deregistering), 1),
                (Some(InService), 0),
                (None, 0),
                (Some(Deregistered), 0),
            ] {
                let (_, events) = after_deregistering("i-1", &[view(before, RegistrationState::Out)]);
                assert_eq!(events.len(), expected, "{before:?}");
            }
        }

        #[test]
        fn the_state_of_another_instance_or_group_does_not_count() {
            let group = Group::Classic("api".into());
            let (statuses, _) = after_registering("i-1", &[view(None, RegistrationState::Registering)]);
            assert_eq!(stored_state(&statuses, "i-1", &group), Some(Registering));
            assert_eq!(stored_state(&statuses, "i-2", &group), None);
            assert_eq!(stored_state(&statuses, "i-1", &Group::Classic("other".into())), None);
        }

        #[test]
        fn two_ports_of_a_group_have_the_least_advanced_state() {
            let views = [
                view(None, registered(TargetState::Healthy, false)),
                view(None, RegistrationState::Registering),
            ];
            let (statuses, _) = after_registering("i-1", &views);
            assert_eq!((statuses.len(), stored(&statuses)), (1, Some(Registering)));
        }

        #[test]
        fn a_stored_state_is_one_of_a_registration_or_of_a_departure() {
            let table = [
                (None, (false, false)),
                (Some(Registering), (true, false)),
                (Some(Registered), (true, false)),
                (Some(InService), (true, false)),
                (Some(Deregistering), (false, true)),
                (Some(Deregistered), (false, true)),
            ];
            for (before, expected) in table {
                let view = view(before, RegistrationState::Unknown);
                assert_eq!((view.was_registering(), view.was_leaving()), expected, "{before:?}");
            }
        }
    }

    mod conditions {
        use capa_api::machine::MachineTargetState;
        use capa_cloud::CloudError;
        use capa_cloud::targets::Refusal;

        use super::super::*;

        const ID: &str = "i-1";

        fn group(name: &str) -> Group {
            Group::Classic(name.to_owned())
        }

        fn shows(state: TargetState, reason: Option<&str>) -> RegistrationState {
            let reason = reason.map(str::to_owned);
            RegistrationState::Registered {
                health: Health { state, reason },
                by_us: false,
            }
        }

        fn view(name: &str, was_in_service: bool, shown: RegistrationState) -> TargetView {
            TargetView {
                group: group(name),
                cluster: "team-a/dev".to_owned(),
                stored: was_in_service.then_some(MachineTargetState::InService),
                shown,
            }
        }

        fn told(update: &ConditionUpdate) -> String {
            let status = match update.status {
                ConditionStatus::True => "True",
                _ => "False",
            };
            format!("{status}/{}: {}", update.reason.as_str(), update.message)
        }

        #[test]
        fn the_worst_target_decides_the_condition_of_an_instance() {
            let refused = CloudError::answered("RegisterTargets", "AccessDenied", "no");
            let failed = shows(TargetState::Unhealthy, Some("Target.FailedHealthChecks"));
            let unused = shows(TargetState::Unused, Some("Target.NotInUse"));
            let healthy = shows(TargetState::Healthy, None);
            let table = [
                (RegistrationState::Unknown, false, "False/Registering", "is being read"),
                (
                    RegistrationState::Stale(refused.clone()),
                    true,
                    "False/Unauthorized",
                    "is not known any more",
                ),
                (
                    RegistrationState::Unreadable(refused.clone()),
                    false,
                    "False/Unauthorized",
                    "is being read: ",
                ),
                (
                    RegistrationState::Registering,
                    true,
                    "False/Registering",
                    "is being registered in",
                ),
                (
                    shows(TargetState::Initial, None),
                    false,
                    "False/Registering",
                    "not checked yet",
                ),
                (
                    failed.clone(),
                    false,
                    "False/Registering",
                    "not healthy: Target.FailedHealthChecks",
                ),
                (failed, true, "False/Failed", "not healthy: Target.FailedHealthChecks"),
                (unused, false, "False/Registering", "gets no traffic: Target.NotInUse"),
                (
                    RegistrationState::Unsuitable("lambda".into()),
                    false,
                    "False/InvalidSpec",
                    "of type lambda",
                ),
                (
                    RegistrationState::Refused(Refusal::UsedBy("team-b/prod".into())),
                    false,
                    "False/Conflict",
                    "is used or named by the control plane of Cluster team-b/prod",
                ),
                (
                    RegistrationState::Failed(refused),
                    false,
                    "False/Unauthorized",
                    "AccessDenied",
                ),
                (healthy.clone(), false, "True/Ready", ""),
            ];
            for (shown, was_in_service, expected, message) in table {
                let views = [view("good", true, healthy.clone()), view("api", was_in_service, shown)];
                let update = told(&registration(ID, &views, &[]));
                assert!(update.starts_with(expected) && update.contains(message), "{update}");
            }
        }

        #[test]
        fn a_lasting_problem_gives_the_reason_and_all_are_named() {
            let views = [
                view("one", false, RegistrationState::Registering),
                view("two", false, RegistrationState::Unsuitable("alb".into())),
            ];
            let update = told(&registration(ID, &views, &["arn:x is wrong".to_owned()]));
            assert!(update.starts_with("False/InvalidSpec: arn:x is wrong; "), "{update}");
            assert!(
                update.contains("load balancer one; ") && update.contains("load balancer two"),
                "{update}"
            );
        }

        #[test]
        fn a_departure_names_what_holds_it_up() {
            let refused = CloudError::answered("DeregisterTargets", "AccessDenied", "no");
            let table = [
                (
                    RegistrationState::Leaving,
                    false,
                    "False/Deregistering",
                    "is being deregistered from",
                ),
                (
                    RegistrationState::Unknown,
                    false,
                    "False/Deregistering",
                    "is being read",
                ),
                (
                    RegistrationState::Failed(refused),
                    false,
                    "False/Unauthorized",
                    "AccessDenied",
                ),
                (RegistrationState::Overdue, true, "False/Failed", "in time"),
                (RegistrationState::Out, true, "False/Deregistering", "has left"),
            ];
            for (shown, over, expected, message) in table {
                let views = [view("good", true, RegistrationState::Out), view("api", true, shown)];
                let [_, leaving] = &views;
                assert_eq!(leaving.is_over(), over, "{leaving:?}");
                let update = told(&departure(ID, &views));
                assert!(update.starts_with(expected) && update.contains(message), "{update}");
            }
        }

        #[test]
        fn a_condition_stands_until_its_groups_are_read() {
            let healthy = shows(TargetState::Healthy, None);
            let unread = |stored: Option<MachineTargetState>| TargetView {
                group: group("api"),
                cluster: "team-a/dev".to_owned(),
                stored,
                shown: RegistrationState::Unknown,
            };
            let in_service = || unread(Some(MachineTargetState::InService));
            let kept = |views: &[TargetView], was_true| registration_or_kept(ID, views, &[], was_true).is_none();
            assert!(kept(&[in_service()], Some(true)));
            assert!(kept(&[in_service()], Some(false)));
            assert!(kept(&[in_service(), view("good", true, healthy.clone())], Some(true)));
            assert!(!kept(
                &[in_service(), view("bad", true, RegistrationState::Registering)],
                Some(true)
            ));
            assert!(!kept(&[in_service()], None));
            assert!(
                !kept(&[unread(None)], Some(false)),
                "the former condition is about another state"
            );
            assert!(!kept(&[view("good", true, healthy)], Some(true)), "all is read");
        }
    }

    mod refusals {
        use super::super::*;

        #[test]
        fn a_refusal_names_the_group_the_holder_and_the_tag_to_set() {
            let arn = "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/api/1";
            let group = Group::TargetGroup(arn.to_owned());
            for (refusal, holder) in [
                (Refusal::GivenTo("team-b/prod".into()), "team-b/prod"),
                (Refusal::Untagged, "--control-plane-targets=Tagged"),
                (
                    Refusal::OwnedBy("kubernetes.io/cluster/prod: owned".into()),
                    "kubernetes.io/cluster/prod: owned",
                ),
                (Refusal::UsedBy("team-b/prod".into()), "Cluster team-b/prod"),
            ] {
                let told = refused(&group, "team-a/dev", &refusal);
                let tag = "infrastructure.cluster.x-k8s.io/control-plane: team-a/dev";
                for part in ["target group api/1 ", holder, tag] {
                    assert!(told.contains(part), "{part} is not in {told}");
                }
            }
        }
    }
}
