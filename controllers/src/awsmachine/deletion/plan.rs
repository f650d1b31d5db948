//! The steps of a deletion. Pure.

use capa_api::machine::InstanceState;
use capa_cloud::{Instance, Observation};

/// A step of the deletion of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeletionStep {
    /// The instance is still in load balancer targets.
    AwaitDrained,
    /// Terminate the instance.
    Terminate,
    /// Termination is under way.
    AwaitTermination,
    /// AWS has not shown the instance yet.
    AwaitObservation,
    /// The instance is too young for its absence to prove anything.
    AwaitAge,
    /// It is proven that nothing of the instance is left.
    Release,
}

/// How far the deletion of an instance is.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// Whether the absence of the instance proves that it is gone.
    pub(super) is_old_enough: bool,
    /// Whether nothing of the instance is left in load balancer targets, or the longest time for that is over.
    pub(super) has_left: bool,
    /// Whether its termination has been submitted.
    pub(super) is_submitted: bool,
}

/// The next step of the deletion of an instance. A submitted termination goes on, whatever the targets show later: its
/// call may be under way. An address stays registered when its instance is gone, so that the release waits for it.
pub(super) fn plan_deletion(observation: &Observation, known: Known) -> DeletionStep {
    let step = match observation {
        Observation::Seen(instance) => delete_seen(instance),
        Observation::Absent if known.is_old_enough => DeletionStep::Release,
        Observation::Absent => DeletionStep::AwaitAge,
        Observation::Unknown => DeletionStep::AwaitObservation,
    };
    match step {
        DeletionStep::Terminate if !known.has_left && !known.is_submitted => DeletionStep::AwaitDrained,
        DeletionStep::Release if !known.has_left => DeletionStep::AwaitDrained,
        step => step,
    }
}

fn delete_seen(instance: &Instance) -> DeletionStep {
    match instance.state {
        InstanceState::Terminated => DeletionStep::Release,
        InstanceState::ShuttingDown => DeletionStep::AwaitTermination,
        InstanceState::Pending | InstanceState::Running | InstanceState::Stopping | InstanceState::Stopped => {
            DeletionStep::Terminate
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::instance;

    const DONE: Known = Known {
        is_old_enough: true,
        has_left: true,
        is_submitted: false,
    };

    fn seen(state: InstanceState) -> Observation {
        Observation::Seen(Arc::new(instance("i-a", state, "dev", "team-a/m")))
    }

    #[test]
    fn absence_is_no_proof_while_the_instance_is_young() {
        let young = Known {
            is_old_enough: false,
            ..DONE
        };
        assert_eq!(plan_deletion(&Observation::Absent, young), DeletionStep::AwaitAge);
        assert_eq!(plan_deletion(&Observation::Absent, DONE), DeletionStep::Release);
        assert_eq!(
            plan_deletion(&Observation::Unknown, DONE),
            DeletionStep::AwaitObservation
        );
    }

    #[test]
    fn targets_hold_up_termination_and_release_and_nothing_else() {
        let registered = Known {
            has_left: false,
            ..DONE
        };
        for state in [InstanceState::Running, InstanceState::Stopped, InstanceState::Pending] {
            assert_eq!(
                plan_deletion(&seen(state), registered),
                DeletionStep::AwaitDrained,
                "{state}"
            );
            assert_eq!(plan_deletion(&seen(state), DONE), DeletionStep::Terminate, "{state}");
        }
        let terminated = seen(InstanceState::Terminated);
        let table = [
            (&Observation::Absent, registered, DeletionStep::AwaitDrained),
            (&terminated, registered, DeletionStep::AwaitDrained),
            (&terminated, DONE, DeletionStep::Release),
            (
                &seen(InstanceState::ShuttingDown),
                registered,
                DeletionStep::AwaitTermination,
            ),
            (&Observation::Unknown, registered, DeletionStep::AwaitObservation),
        ];
        for (observation, known, expected) in table {
            assert_eq!(plan_deletion(observation, known), expected, "{observation:?}");
        }
    }

    #[test]
    fn a_submitted_termination_goes_on_and_the_release_waits_for_targets() {
        let submitted = Known {
            has_left: false,
            is_submitted: true,
            ..DONE
        };
        let running = seen(InstanceState::Running);
        assert_eq!(plan_deletion(&running, submitted), DeletionStep::Terminate);
        let terminated = seen(InstanceState::Terminated);
        assert_eq!(plan_deletion(&terminated, submitted), DeletionStep::AwaitDrained);
    }
}
