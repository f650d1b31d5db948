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

/// The next step of the deletion of an instance. `has_left`: nothing of the instance is left in load balancer targets,
/// or the longest time for that is over. An address stays registered when its instance is gone.
pub(super) fn plan_deletion(observation: &Observation, old_enough: bool, has_left: bool) -> DeletionStep {
    let step = match observation {
        Observation::Seen(instance) => delete_seen(instance),
        Observation::Absent if old_enough => DeletionStep::Release,
        Observation::Absent => DeletionStep::AwaitAge,
        Observation::Unknown => DeletionStep::AwaitObservation,
    };
    match step {
        DeletionStep::Terminate | DeletionStep::Release if !has_left => DeletionStep::AwaitDrained,
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

    #[test]
    fn absence_is_no_proof_while_the_instance_is_young() {
        assert_eq!(plan_deletion(&Observation::Absent, false, true), DeletionStep::AwaitAge);
        assert_eq!(plan_deletion(&Observation::Absent, true, true), DeletionStep::Release);
        assert_eq!(
            plan_deletion(&Observation::Unknown, true, true),
            DeletionStep::AwaitObservation
        );
    }

    #[test]
    fn targets_hold_up_termination_and_release_and_nothing_else() {
        let seen = |state| Observation::Seen(Arc::new(instance("i-a", state, "dev", "team-a/m")));
        let plan = |observation: &Observation, has_left| plan_deletion(observation, true, has_left);
        for state in [InstanceState::Running, InstanceState::Stopped, InstanceState::Pending] {
            assert_eq!(plan(&seen(state), false), DeletionStep::AwaitDrained, "{state}");
            assert_eq!(plan(&seen(state), true), DeletionStep::Terminate, "{state}");
        }
        let terminated = seen(InstanceState::Terminated);
        assert_eq!(plan(&Observation::Absent, false), DeletionStep::AwaitDrained);
        assert_eq!(plan(&terminated, false), DeletionStep::AwaitDrained);
        assert_eq!(plan(&terminated, true), DeletionStep::Release);
        assert_eq!(
            plan(&seen(InstanceState::ShuttingDown), false),
            DeletionStep::AwaitTermination
        );
        assert_eq!(plan(&Observation::Unknown, false), DeletionStep::AwaitObservation);
    }
}
