//! The load balancer targets of a control plane machine: in while its instance runs, out before it is terminated.

use capa_api::common::{ControlPlaneTarget, MachineAddressType, MachineRole};
use capa_api::conditions::{ConditionStatus, ConditionType, ConditionUpdate, Reason, find};
use capa_cloud::targets::{Desired, Group, RegistrationState, TargetInstance, TargetState};
use capa_cloud::{Instance, InstanceState, MachineAddress, MachineCloud};
use capa_runtime::reconcile::EventDraft;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::MachineScope;
use super::observe::Whereabouts;

/// The targets of a machine, each with the group that it names.
type Named = Vec<(Group, ControlPlaneTarget)>;

/// What the machine's targets are, and what is wrong with some of them. Workers have none.
fn named(whereabouts: &Whereabouts) -> (Named, Vec<String>) {
    let (mut usable, mut wrong) = (Vec::new(), Vec::new());
    if whereabouts.role != MachineRole::ControlPlane {
        return (usable, wrong);
    }
    for target in &whereabouts.targets {
        let Some(group) = Group::of(target) else { continue };
        match elsewhere(&group, whereabouts) {
            Some(why) => wrong.push(why),
            None => usable.push((group, target.clone())),
        }
    }
    (usable, wrong)
}

/// Why a target group cannot have the instance, as far as its ARN tells.
fn elsewhere(group: &Group, whereabouts: &Whereabouts) -> Option<String> {
    let Group::TargetGroup(arn) = group else {
        return None;
    };
    let mut parts = arn.split(':').skip(2);
    let (service, region, account) = (parts.next(), parts.next(), parts.next());
    if service != Some("elasticloadbalancing") || !arn.contains(":targetgroup/") {
        return Some(format!(
            "{arn} is no ARN of a target group: correct controlPlaneTargets"
        ));
    }
    let (own_region, own_account) = (&whereabouts.region, &whereabouts.access.account_id);
    if region != Some(own_region) {
        return Some(format!("{group} lies in another region than the machine, {own_region}"));
    }
    (account != Some(own_account))
        .then(|| format!("{group} belongs to another account than the machine's identity, {own_account}"))
}

fn target_instance(scope: &MachineScope, id: &str, instance: Option<&Instance>) -> TargetInstance {
    let private = |addresses: &[MachineAddress]| {
        let internal = addresses
            .iter()
            .find(|address| address.address_type == MachineAddressType::InternalIP);
        internal.map(|address| address.address.clone())
    };
    let shown = instance.and_then(|instance| private(&instance.addresses));
    TargetInstance {
        id: id.to_owned(),
        // An instance that is gone shows none.
        address: shown.or_else(|| private(&scope.status.addresses)),
    }
}

/// Whether the address of an instance is stored. One that has ended shows none, and nobody else takes the address out of
/// target groups: what is not stored is not registered.
fn is_on_record(scope: &MachineScope, instance: &TargetInstance) -> bool {
    let stored = scope.machine.status.as_ref().map(|status| status.addresses.as_slice());
    let mut stored = stored.unwrap_or_default().iter();
    let address = instance.address.as_ref();
    address.is_none_or(|address| stored.any(|stored| stored.address == *address))
}

fn stand(
    scope: &MachineScope,
    cloud: &dyn MachineCloud,
    instance: &TargetInstance,
    named: Named,
    desired: Desired,
) -> Vec<(Group, RegistrationState)> {
    let (groups, targets): (Vec<_>, Vec<_>) = named.into_iter().unzip();
    let states = cloud.targets(&scope.key(), instance, &targets, desired);
    groups.into_iter().zip(states).collect()
}

/// Brings the instance of a machine that is wanted in where it runs, and says how it stands there.
pub(super) fn follow(mut scope: MachineScope, instance: &Instance, whereabouts: &Whereabouts) -> MachineScope {
    let (named, wrong) = named(whereabouts);
    let cloud = whereabouts.access.cloud.as_ref();
    if named.is_empty() && wrong.is_empty() {
        cloud.forget_targets(&scope.key());
        return scope;
    }
    let target = target_instance(&scope, &instance.id, Some(instance));
    let id = &instance.id;
    let update = match instance.state {
        InstanceState::Running => {
            let states = if is_on_record(&scope, &target) {
                stand(&scope, cloud, &target, named, Desired::Registered)
            } else {
                named
                    .into_iter()
                    .map(|(group, _)| (group, RegistrationState::Unknown))
                    .collect()
            };
            scope.events.extend(attached(&scope, id, &states));
            registration_or_kept(&scope, id, states, &wrong)
        }
        InstanceState::Pending | InstanceState::Stopping | InstanceState::Stopped => {
            cloud.forget_targets(&scope.key());
            let message = format!("instance {id} does not run: it gets traffic once it does");
            Some(ConditionType::ControlPlaneTargetsReady.is_false(Reason::WaitingForRunning, message))
        }
        InstanceState::ShuttingDown | InstanceState::Terminated => {
            leave(&mut scope, id, Some(instance), whereabouts);
            return scope;
        }
    };
    if let Some(update) = update {
        scope.say(update);
    }
    scope
}

/// Whether the instance is out of its targets, or is not waited for any longer; brings it out where it is not. Says how
/// it stands there.
pub(super) fn leave(
    scope: &mut MachineScope,
    id: &str,
    instance: Option<&Instance>,
    whereabouts: &Whereabouts,
) -> bool {
    let (named, _) = named(whereabouts);
    if named.is_empty() {
        return true;
    }
    let lives = instance
        .is_some_and(|instance| !matches!(instance.state, InstanceState::ShuttingDown | InstanceState::Terminated));
    let cloud = whereabouts.access.cloud.as_ref();
    if !lives && said_before(scope).is_some_and(|condition| condition.message == out(id)) {
        // For good: AWS may have given its address to somebody else.
        cloud.forget_targets(&scope.key());
        return true;
    }
    let desired = if lives {
        Desired::Deregistered
    } else {
        Desired::Forgotten
    };
    let target = target_instance(scope, id, instance);
    let states = stand(scope, cloud, &target, named, desired);
    scope.events.extend(detached(scope, id, &states));
    if let Some(update) = departure_or_kept(scope, id, &states) {
        scope.say(update);
    }
    states.iter().all(|(_, state)| is_over(state))
}

/// Whether nothing is waited for any more.
fn is_over(state: &RegistrationState) -> bool {
    matches!(
        state,
        RegistrationState::Out | RegistrationState::Overdue | RegistrationState::Unsuitable(_)
    )
}

/// Whether AWS has shown how the instance stands.
fn is_read(state: &RegistrationState) -> bool {
    !matches!(state, RegistrationState::Unknown | RegistrationState::Unreadable(_))
}

/// What was last said of targets.
fn said_before(scope: &MachineScope) -> Option<&Condition> {
    let before = scope.machine.status.as_ref()?;
    find(&before.conditions, ConditionType::ControlPlaneTargetsReady)
}

/// What to say of an instance that runs. A process that has just begun to follow it has read nothing yet: what was said
/// before stands until it has, unless a group that was read stands against it.
fn registration_or_kept(
    scope: &MachineScope,
    id: &str,
    states: Vec<(Group, RegistrationState)>,
    wrong: &[String],
) -> Option<ConditionUpdate> {
    let was_registered = was_registered(scope);
    let update = registration(id, &states, wrong, was_registered);
    let of_all = states.len();
    let read: Vec<_> = states.into_iter().filter(|(_, state)| is_read(state)).collect();
    let is_about_to_run = [Reason::WaitingForRunning.as_str(), Reason::Deregistering.as_str()];
    let before = said_before(scope).filter(|condition| !is_about_to_run.contains(&condition.reason.as_str()));
    let stands = before.is_some_and(|condition| {
        condition.status != "True" || registration(id, &read, wrong, was_registered).status == ConditionStatus::True
    });
    (read.len() == of_all || !stands).then_some(update)
}

/// What to say of an instance that is to be out, with the same respect for what was said before.
fn departure_or_kept(scope: &MachineScope, id: &str, states: &[(Group, RegistrationState)]) -> Option<ConditionUpdate> {
    let is_unknown = states.iter().any(|(_, state)| *state == RegistrationState::Unknown);
    let was_leaving = said_before(scope).is_some_and(|before| before.reason == Reason::Deregistering.as_str());
    (!is_unknown || !was_leaving).then(|| departure(id, states))
}

/// Whether the instance was said to be registered and healthy, or to be so no more. A target that was never healthy is on
/// its way, as long as a node takes to boot; one that is no longer is trouble.
fn was_registered(scope: &MachineScope) -> bool {
    said_before(scope)
        .is_some_and(|condition| condition.status == "True" || condition.reason == Reason::Failed.as_str())
}

/// `ControlPlaneTargetsReady` of an instance that runs. The first problem gives the reason, the message names all.
fn registration(
    id: &str,
    states: &[(Group, RegistrationState)],
    wrong: &[String],
    was_registered: bool,
) -> ConditionUpdate {
    let wrong = wrong.iter().map(|message| (Reason::InvalidSpec, message.clone()));
    let unhealthy = if was_registered {
        Reason::Failed
    } else {
        Reason::Registering
    };
    let problems = states.iter().filter_map(|(group, state)| match state {
        healthy if healthy.is_healthy() => None,
        RegistrationState::Registered { health, .. } => {
            let code = health.reason.as_ref().map(|reason| format!(": {reason}"));
            let code = code.unwrap_or_default();
            Some(match health.state {
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
            })
        }
        RegistrationState::Unsuitable(kind) => Some((
            Reason::InvalidSpec,
            format!("{group} takes targets of type {kind}, not instances: name one of type instance or ip"),
        )),
        RegistrationState::Failed(error) => Some((
            error.class.reason(),
            format!("instance {id} is not registered in {group}, it is tried again: {error}"),
        )),
        RegistrationState::Unreadable(error) => Some((error.class.reason(), format!("{}: {error}", unread(id, group)))),
        RegistrationState::Stale(error) => Some((
            error.class.reason(),
            format!("how instance {id} stands in {group} is not known any more, it is looked at again: {error}"),
        )),
        RegistrationState::Unknown => Some((Reason::Registering, unread(id, group))),
        RegistrationState::Registering
        | RegistrationState::Leaving
        | RegistrationState::Out
        | RegistrationState::Overdue => Some((Reason::Registering, registering(id, group))),
    });
    let problems: Vec<(Reason, String)> = wrong.chain(problems).collect();
    summed_up(&problems).unwrap_or_else(|| ConditionType::ControlPlaneTargetsReady.is_true(Reason::Ready))
}

/// `ControlPlaneTargetsReady` of an instance that is to be out.
fn departure(id: &str, states: &[(Group, RegistrationState)]) -> ConditionUpdate {
    let problems = states.iter().filter_map(|(group, state)| match state {
        RegistrationState::Out | RegistrationState::Unsuitable(_) => None,
        RegistrationState::Overdue => Some((
            Reason::Failed,
            format!("{group} has not let go of instance {id} in time: it is terminated all the same"),
        )),
        RegistrationState::Failed(error) | RegistrationState::Unreadable(error) | RegistrationState::Stale(error) => {
            Some((
                error.class.reason(),
                format!("instance {id} is not out of {group}, it is tried again for some minutes: {error}"),
            ))
        }
        RegistrationState::Unknown => Some((Reason::Deregistering, unread(id, group))),
        RegistrationState::Registering | RegistrationState::Registered { .. } | RegistrationState::Leaving => {
            Some((Reason::Deregistering, leaving(id, group)))
        }
    });
    let problems: Vec<(Reason, String)> = problems.collect();
    summed_up(&problems)
        .unwrap_or_else(|| ConditionType::ControlPlaneTargetsReady.is_false(Reason::Deregistering, out(id)))
}

fn summed_up(problems: &[(Reason, String)]) -> Option<ConditionUpdate> {
    // What needs somebody goes before what passes by itself.
    let passes = |(reason, _): &&(Reason, String)| matches!(reason, Reason::Registering | Reason::Deregistering);
    let (reason, _) = problems
        .iter()
        .find(|problem| !passes(problem))
        .or_else(|| problems.first())?;
    let messages: Vec<&str> = problems.iter().map(|(_, message)| message.as_str()).collect();
    Some(ConditionType::ControlPlaneTargetsReady.is_false(*reason, messages.join("; ")))
}

fn unread(id: &str, group: &Group) -> String {
    format!("whether instance {id} is registered in {group} is looked up")
}

fn registering(id: &str, group: &Group) -> String {
    format!("instance {id} is being registered in {group}")
}

fn leaving(id: &str, group: &Group) -> String {
    format!("instance {id} is being taken out of {group}")
}

/// Whether this was last said of targets.
fn said(scope: &MachineScope, text: &str) -> bool {
    said_before(scope).is_some_and(|condition| condition.message.contains(text))
}

fn out(id: &str) -> String {
    format!("instance {id} is out of its load balancer targets")
}

/// Tells by events of registrations of ours that took effect since the instance was said not to be registered.
fn attached(scope: &MachineScope, id: &str, states: &[(Group, RegistrationState)]) -> Vec<EventDraft> {
    let registered = states.iter().filter(|(group, state)| {
        matches!(state, RegistrationState::Registered { by_us: true, .. })
            && (said(scope, &registering(id, group)) || said(scope, &unread(id, group)))
    });
    let told = registered.map(|(group, _)| {
        EventDraft::normal(
            "SuccessfulAttachControlPlaneELB",
            format!("registered instance {id} in {group}"),
        )
    });
    told.collect()
}

/// The same of deregistrations.
fn detached(scope: &MachineScope, id: &str, states: &[(Group, RegistrationState)]) -> Vec<EventDraft> {
    let out = states
        .iter()
        .filter(|(group, state)| *state == RegistrationState::Out && said(scope, &leaving(id, group)));
    let told = out.map(|(group, _)| {
        EventDraft::normal(
            "SuccessfulDetachControlPlaneELB",
            format!("took instance {id} out of {group}"),
        )
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use capa_cloud::CloudError;
    use capa_cloud::targets::Health;

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

    fn told(update: &ConditionUpdate) -> String {
        let status = match update.status {
            ConditionStatus::True => "True",
            _ => "False",
        };
        format!("{status}/{}: {}", update.reason.as_str(), update.message)
    }

    #[test]
    fn an_instance_that_runs_is_as_ready_as_its_worst_target() {
        let refused = CloudError::answered("RegisterTargets", "AccessDenied", "no");
        let failed = shows(TargetState::Unhealthy, Some("Target.FailedHealthChecks"));
        let unused = shows(TargetState::Unused, Some("Target.NotInUse"));
        let healthy = shows(TargetState::Healthy, None);
        let table = [
            (RegistrationState::Unknown, false, "False/Registering", "is looked up"),
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
                "is looked up: ",
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
                RegistrationState::Failed(refused),
                false,
                "False/Unauthorized",
                "AccessDenied: no",
            ),
            (healthy.clone(), false, "True/Ready", ""),
        ];
        for (state, was_registered, expected, message) in table {
            let states = [(group("good"), healthy.clone()), (group("api"), state)];
            let update = told(&registration(ID, &states, &[], was_registered));
            assert!(update.starts_with(expected) && update.contains(message), "{update}");
        }
    }

    #[test]
    fn what_needs_somebody_gives_the_reason_and_every_target_is_named() {
        let states = [
            (group("one"), RegistrationState::Registering),
            (group("two"), RegistrationState::Unsuitable("alb".into())),
        ];
        let update = told(&registration(ID, &states, &["arn:x is wrong".to_owned()], false));
        assert!(update.starts_with("False/InvalidSpec: arn:x is wrong; "), "{update}");
        assert!(
            update.contains("load balancer one; ") && update.contains("load balancer two"),
            "{update}"
        );
    }

    #[test]
    fn an_instance_that_leaves_says_what_keeps_it() {
        let refused = CloudError::answered("DeregisterTargets", "AccessDenied", "no");
        let table = [
            (
                RegistrationState::Leaving,
                false,
                "False/Deregistering",
                "is being taken out of",
            ),
            (RegistrationState::Unknown, false, "False/Deregistering", "is looked up"),
            (
                RegistrationState::Failed(refused),
                false,
                "False/Unauthorized",
                "AccessDenied: no",
            ),
            (RegistrationState::Overdue, true, "False/Failed", "in time"),
            (RegistrationState::Out, true, "False/Deregistering", "is out of"),
        ];
        for (state, over, expected, message) in table {
            assert_eq!(is_over(&state), over, "{state:?}");
            let update = told(&departure(
                ID,
                &[(group("good"), RegistrationState::Out), (group("api"), state)],
            ));
            assert!(update.starts_with(expected) && update.contains(message), "{update}");
        }
    }
}
