//! Computes `ControlPlaneTargetsReady` from the state of an instance in its targets. Pure.

use capa_api::conditions::{ConditionStatus, ConditionType, ConditionUpdate, Reason};
use capa_cloud::targets::{Group, Health, RegistrationState, TargetState};

use super::plan::TargetView;
use crate::awsmachine::target_access::refused;

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

#[cfg(test)]
mod tests {
    use capa_api::machine::MachineTargetState;
    use capa_cloud::CloudError;
    use capa_cloud::targets::Refusal;

    use super::*;

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
