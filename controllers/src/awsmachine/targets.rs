//! The load balancer targets of a control plane machine: in while its instance runs, out before it is terminated.

use capa_api::common::{ControlPlaneTarget, MachineAddressType, MachineRole};
use capa_api::conditions::{ConditionStatus, ConditionType, ConditionUpdate, Reason, find};
use capa_cloud::targets::{Group, Standing, TargetInstance, TargetState, Wish};
use capa_cloud::{Instance, InstanceState, MachineAddress, MachineCloud};
use capa_runtime::reconcile::Notice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::Draft;
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

fn target_instance(draft: &Draft, id: &str, instance: Option<&Instance>) -> TargetInstance {
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
        address: shown.or_else(|| private(&draft.status.addresses)),
    }
}

/// Whether the address of an instance is stored. One that has ended shows none, and nobody else takes the address out of
/// target groups: what is not stored is not registered.
fn is_on_record(draft: &Draft, instance: &TargetInstance) -> bool {
    let stored = draft.machine.status.as_ref().map(|status| status.addresses.as_slice());
    let mut stored = stored.unwrap_or_default().iter();
    let address = instance.address.as_ref();
    address.is_none_or(|address| stored.any(|stored| stored.address == *address))
}

fn stand(
    draft: &Draft,
    cloud: &dyn MachineCloud,
    instance: &TargetInstance,
    named: Named,
    wish: Wish,
) -> Vec<(Group, Standing)> {
    let (groups, targets): (Vec<_>, Vec<_>) = named.into_iter().unzip();
    let standings = cloud.targets(&draft.key(), instance, &targets, wish);
    groups.into_iter().zip(standings).collect()
}

/// Brings the instance of a machine that is wanted in where it runs, and says how it stands there.
pub(super) fn follow(mut draft: Draft, instance: &Instance, whereabouts: &Whereabouts) -> Draft {
    let (named, wrong) = named(whereabouts);
    let cloud = whereabouts.access.cloud.as_ref();
    if named.is_empty() && wrong.is_empty() {
        cloud.forget_targets(&draft.key());
        return draft;
    }
    let target = target_instance(&draft, &instance.id, Some(instance));
    let id = &instance.id;
    let update = match instance.state {
        InstanceState::Running => {
            let standings = if is_on_record(&draft, &target) {
                stand(&draft, cloud, &target, named, Wish::Registered)
            } else {
                named.into_iter().map(|(group, _)| (group, Standing::Unknown)).collect()
            };
            draft.events.extend(attached(&draft, id, &standings));
            registration_or_kept(&draft, id, standings, &wrong)
        }
        InstanceState::Pending | InstanceState::Stopping | InstanceState::Stopped => {
            cloud.forget_targets(&draft.key());
            let message = format!("instance {id} does not run: it gets traffic once it does");
            Some(ConditionType::ControlPlaneTargetsReady.is_false(Reason::WaitingForRunning, message))
        }
        InstanceState::ShuttingDown | InstanceState::Terminated => {
            leave(&mut draft, id, Some(instance), whereabouts);
            return draft;
        }
    };
    if let Some(update) = update {
        draft.say(update);
    }
    draft
}

/// Whether the instance is out of its targets, or is not waited for any longer; brings it out where it is not. Says how
/// it stands there.
pub(super) fn leave(draft: &mut Draft, id: &str, instance: Option<&Instance>, whereabouts: &Whereabouts) -> bool {
    let (named, _) = named(whereabouts);
    if named.is_empty() {
        return true;
    }
    let lives = instance
        .is_some_and(|instance| !matches!(instance.state, InstanceState::ShuttingDown | InstanceState::Terminated));
    let cloud = whereabouts.access.cloud.as_ref();
    if !lives && said_before(draft).is_some_and(|condition| condition.message == out(id)) {
        // For good: AWS may have given its address to somebody else.
        cloud.forget_targets(&draft.key());
        return true;
    }
    let wish = if lives { Wish::Deregistered } else { Wish::Forgotten };
    let target = target_instance(draft, id, instance);
    let standings = stand(draft, cloud, &target, named, wish);
    draft.events.extend(detached(draft, id, &standings));
    if let Some(update) = departure_or_kept(draft, id, &standings) {
        draft.say(update);
    }
    standings.iter().all(|(_, standing)| is_over(standing))
}

/// Whether nothing is waited for any more.
fn is_over(standing: &Standing) -> bool {
    matches!(standing, Standing::Out | Standing::Overdue | Standing::Unsuitable(_))
}

/// Whether AWS has shown how the instance stands.
fn is_read(standing: &Standing) -> bool {
    !matches!(standing, Standing::Unknown | Standing::Unreadable(_))
}

/// What was last said of targets.
fn said_before(draft: &Draft) -> Option<&Condition> {
    let before = draft.machine.status.as_ref()?;
    find(&before.conditions, ConditionType::ControlPlaneTargetsReady)
}

/// What to say of an instance that runs. A process that has just begun to follow it has read nothing yet: what was said
/// before stands until it has, unless a group that was read stands against it.
fn registration_or_kept(
    draft: &Draft,
    id: &str,
    standings: Vec<(Group, Standing)>,
    wrong: &[String],
) -> Option<ConditionUpdate> {
    let was_registered = was_registered(draft);
    let update = registration(id, &standings, wrong, was_registered);
    let of_all = standings.len();
    let read: Vec<_> = standings
        .into_iter()
        .filter(|(_, standing)| is_read(standing))
        .collect();
    let is_about_to_run = [Reason::WaitingForRunning.as_str(), Reason::Deregistering.as_str()];
    let before = said_before(draft).filter(|condition| !is_about_to_run.contains(&condition.reason.as_str()));
    let stands = before.is_some_and(|condition| {
        condition.status != "True" || registration(id, &read, wrong, was_registered).status == ConditionStatus::True
    });
    (read.len() == of_all || !stands).then_some(update)
}

/// What to say of an instance that is to be out, with the same respect for what was said before.
fn departure_or_kept(draft: &Draft, id: &str, standings: &[(Group, Standing)]) -> Option<ConditionUpdate> {
    let is_unknown = standings.iter().any(|(_, standing)| *standing == Standing::Unknown);
    let was_leaving = said_before(draft).is_some_and(|before| before.reason == Reason::Deregistering.as_str());
    (!is_unknown || !was_leaving).then(|| departure(id, standings))
}

/// Whether the instance was said to be registered and healthy, or to be so no more. A target that was never healthy is on
/// its way, as long as a node takes to boot; one that is no longer is trouble.
fn was_registered(draft: &Draft) -> bool {
    said_before(draft)
        .is_some_and(|condition| condition.status == "True" || condition.reason == Reason::Failed.as_str())
}

/// `ControlPlaneTargetsReady` of an instance that runs. The first problem gives the reason, the message names all.
fn registration(id: &str, standings: &[(Group, Standing)], wrong: &[String], was_registered: bool) -> ConditionUpdate {
    let wrong = wrong.iter().map(|message| (Reason::InvalidSpec, message.clone()));
    let unhealthy = if was_registered {
        Reason::Failed
    } else {
        Reason::Registering
    };
    let problems = standings.iter().filter_map(|(group, standing)| match standing {
        healthy if healthy.is_healthy() => None,
        Standing::Registered { health, .. } => {
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
        Standing::Unsuitable(kind) => Some((
            Reason::InvalidSpec,
            format!("{group} takes targets of type {kind}, not instances: name one of type instance or ip"),
        )),
        Standing::Failed(error) => Some((
            error.class.reason(),
            format!("instance {id} is not registered in {group}, it is tried again: {error}"),
        )),
        Standing::Unreadable(error) => Some((error.class.reason(), format!("{}: {error}", unread(id, group)))),
        Standing::Stale(error) => Some((
            error.class.reason(),
            format!("how instance {id} stands in {group} is not known any more, it is looked at again: {error}"),
        )),
        Standing::Unknown => Some((Reason::Registering, unread(id, group))),
        Standing::Registering | Standing::Leaving | Standing::Out | Standing::Overdue => {
            Some((Reason::Registering, registering(id, group)))
        }
    });
    let problems: Vec<(Reason, String)> = wrong.chain(problems).collect();
    summed_up(&problems).unwrap_or_else(|| ConditionType::ControlPlaneTargetsReady.is_true(Reason::Ready))
}

/// `ControlPlaneTargetsReady` of an instance that is to be out.
fn departure(id: &str, standings: &[(Group, Standing)]) -> ConditionUpdate {
    let problems = standings.iter().filter_map(|(group, standing)| match standing {
        Standing::Out | Standing::Unsuitable(_) => None,
        Standing::Overdue => Some((
            Reason::Failed,
            format!("{group} has not let go of instance {id} in time: it is terminated all the same"),
        )),
        Standing::Failed(error) | Standing::Unreadable(error) | Standing::Stale(error) => Some((
            error.class.reason(),
            format!("instance {id} is not out of {group}, it is tried again for some minutes: {error}"),
        )),
        Standing::Unknown => Some((Reason::Deregistering, unread(id, group))),
        Standing::Registering | Standing::Registered { .. } | Standing::Leaving => {
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
fn said(draft: &Draft, text: &str) -> bool {
    said_before(draft).is_some_and(|condition| condition.message.contains(text))
}

fn out(id: &str) -> String {
    format!("instance {id} is out of its load balancer targets")
}

/// Tells by events of registrations of ours that took effect since the instance was said not to be registered.
fn attached(draft: &Draft, id: &str, standings: &[(Group, Standing)]) -> Vec<Notice> {
    let registered = standings.iter().filter(|(group, standing)| {
        matches!(standing, Standing::Registered { by_us: true, .. })
            && (said(draft, &registering(id, group)) || said(draft, &unread(id, group)))
    });
    let told = registered.map(|(group, _)| {
        Notice::normal(
            "SuccessfulAttachControlPlaneELB",
            format!("registered instance {id} in {group}"),
        )
    });
    told.collect()
}

/// The same of deregistrations.
fn detached(draft: &Draft, id: &str, standings: &[(Group, Standing)]) -> Vec<Notice> {
    let out = standings
        .iter()
        .filter(|(group, standing)| *standing == Standing::Out && said(draft, &leaving(id, group)));
    let told = out.map(|(group, _)| {
        Notice::normal(
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

    fn shows(state: TargetState, reason: Option<&str>) -> Standing {
        let reason = reason.map(str::to_owned);
        Standing::Registered {
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
            (Standing::Unknown, false, "False/Registering", "is looked up"),
            (
                Standing::Stale(refused.clone()),
                true,
                "False/Unauthorized",
                "is not known any more",
            ),
            (
                Standing::Unreadable(refused.clone()),
                false,
                "False/Unauthorized",
                "is looked up: ",
            ),
            (
                Standing::Registering,
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
                Standing::Unsuitable("lambda".into()),
                false,
                "False/InvalidSpec",
                "of type lambda",
            ),
            (
                Standing::Failed(refused),
                false,
                "False/Unauthorized",
                "AccessDenied: no",
            ),
            (healthy.clone(), false, "True/Ready", ""),
        ];
        for (standing, was_registered, expected, message) in table {
            let standings = [(group("good"), healthy.clone()), (group("api"), standing)];
            let update = told(&registration(ID, &standings, &[], was_registered));
            assert!(update.starts_with(expected) && update.contains(message), "{update}");
        }
    }

    #[test]
    fn what_needs_somebody_gives_the_reason_and_every_target_is_named() {
        let standings = [
            (group("one"), Standing::Registering),
            (group("two"), Standing::Unsuitable("alb".into())),
        ];
        let update = told(&registration(ID, &standings, &["arn:x is wrong".to_owned()], false));
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
            (Standing::Leaving, false, "False/Deregistering", "is being taken out of"),
            (Standing::Unknown, false, "False/Deregistering", "is looked up"),
            (
                Standing::Failed(refused),
                false,
                "False/Unauthorized",
                "AccessDenied: no",
            ),
            (Standing::Overdue, true, "False/Failed", "in time"),
            (Standing::Out, true, "False/Deregistering", "is out of"),
        ];
        for (standing, over, expected, message) in table {
            assert_eq!(is_over(&standing), over, "{standing:?}");
            let update = told(&departure(
                ID,
                &[(group("good"), Standing::Out), (group("api"), standing)],
            ));
            assert!(update.starts_with(expected) && update.contains(message), "{update}");
        }
    }
}
