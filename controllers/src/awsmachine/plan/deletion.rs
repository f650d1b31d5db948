//! The steps of a deletion.

use capa_api::machine::InstanceState;
use capa_cloud::{Instance, Sighting};

/// What to do for a machine that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum DeletionStep {
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

/// Deletion of a machine whose instance is known by id.
pub(in crate::awsmachine) fn delete(sighting: &Sighting, old_enough: bool) -> DeletionStep {
    match sighting {
        Sighting::Seen(instance) => delete_seen(instance),
        Sighting::Absent if old_enough => DeletionStep::Release,
        Sighting::Absent => DeletionStep::AwaitAge,
        Sighting::Unknown => DeletionStep::AwaitSighting,
    }
}

/// Deletion of an instance that AWS shows.
pub(in crate::awsmachine) fn delete_seen(instance: &Instance) -> DeletionStep {
    match instance.state {
        InstanceState::Terminated => DeletionStep::Release,
        InstanceState::ShuttingDown => DeletionStep::AwaitTermination,
        InstanceState::Pending | InstanceState::Running | InstanceState::Stopping | InstanceState::Stopped => {
            DeletionStep::Terminate
        }
    }
}
