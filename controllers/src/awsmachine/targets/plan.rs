//! Computes the next state of each target of a machine. Pure.

use std::collections::BTreeMap;

use capa_api::machine::{MachineTargetState, MachineTargetStatus};
use capa_cloud::targets::{Group, RegistrationState};
use capa_runtime::reconcile::EventDraft;

/// The state of an instance in a group: the stored state, and the state that AWS shows.
#[derive(Clone, Debug)]
pub(super) struct TargetView {
    pub(super) group: Group,
    /// `<namespace>/<name>` of the Cluster whose control plane the instance belongs to.
    pub(super) cluster: String,
    /// The stored state of this instance in the group.
    pub(super) stored: Option<MachineTargetState>,
    /// The current state in AWS.
    pub(super) shown: RegistrationState,
}

/// The stored state of an instance in a group.
pub(super) fn stored_state(stored: &[MachineTargetStatus], id: &str, group: &Group) -> Option<MachineTargetState> {
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
    pub(super) fn leaves(&self) -> bool {
        let shown = matches!(
            self.shown,
            RegistrationState::Leaving | RegistrationState::Out | RegistrationState::Overdue
        );
        shown || self.was_leaving()
    }

    /// Whether AWS has shown the state of the instance in the group.
    pub(super) fn is_read(&self) -> bool {
        !matches!(
            self.shown,
            RegistrationState::Unknown | RegistrationState::Unreadable(_)
        )
    }

    /// Whether the stored state is one of a registration. The former condition is then about this instance.
    pub(super) fn was_registering(&self) -> bool {
        self.stored
            .is_some_and(|state| state < MachineTargetState::Deregistering)
    }

    /// Whether the instance has been healthy since it was registered.
    pub(super) fn was_in_service(&self) -> bool {
        self.stored == Some(MachineTargetState::InService)
    }

    /// Whether the stored state is one of a deregistration.
    pub(super) fn was_leaving(&self) -> bool {
        self.stored
            .is_some_and(|state| state >= MachineTargetState::Deregistering)
    }

    /// Whether the deletion does not wait for this target.
    pub(super) fn is_over(&self) -> bool {
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

#[cfg(test)]
mod tests {
    use capa_cloud::CloudError;
    use capa_cloud::targets::{Health, Refusal, TargetState};

    use super::MachineTargetState::{Deregistered, Deregistering, InService, Registered, Registering};
    use super::*;

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
