//! The steps of a deletion.

use capa_api::machine::InstanceState;
use capa_cloud::{Instance, Observation};

/// What to do for a machine that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum DeletionStep {
    /// The instance is still in load balancer targets.
    AwaitDrained,
    /// Terminate the instance.
    Terminate,
    /// Termination is under way.
    AwaitTermination,
    /// The instance has not been looked at yet.
    AwaitSighting,
    /// Nothing may be concluded from its absence yet.
    AwaitAge,
    /// The proof is complete: nothing of ours is left.
    Release,
}

/// Deletion of a machine whose instance is known by id. `is_out`: nothing of it is left in load balancer targets, or that
/// is waited for no longer. An address stays registered when its instance is gone.
pub(in crate::awsmachine) fn delete(observation: &Observation, old_enough: bool, is_out: bool) -> DeletionStep {
    let step = match observation {
        Observation::Seen(instance) => delete_seen(instance),
        Observation::Absent if old_enough => DeletionStep::Release,
        Observation::Absent => DeletionStep::AwaitAge,
        Observation::Unknown => DeletionStep::AwaitSighting,
    };
    match step {
        DeletionStep::Terminate | DeletionStep::Release if !is_out => DeletionStep::AwaitDrained,
        step => step,
    }
}

/// Whether an instance has ended, or is about to.
pub(in crate::awsmachine) fn has_ended(instance: &Instance) -> bool {
    matches!(instance.state, InstanceState::ShuttingDown | InstanceState::Terminated)
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
