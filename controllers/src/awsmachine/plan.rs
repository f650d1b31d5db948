//! Decides. Pure: what is recorded and known goes in, steps come out.

use capa_api::machine::{InstanceState, LaunchRecord};
use capa_cloud::{Instance, Sighting, Timing};
use jiff::Timestamp;

use super::memory::Progress;

/// What to do for a machine without a known instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaunchPlan {
    /// Ask AWS for instances of this machine first; whatever is found is adopted and nothing is launched.
    pub(super) look_up: bool,
    /// What follows if nothing is found.
    pub(super) then: Then,
}

/// How a launch goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Write the record of this attempt, then make its call.
    Record(i32),
    /// Make the recorded call again: with the same token and parameters that is a lookup.
    Repeat,
    /// The call cannot be repeated as it was: only look, until [`Timing::launch_lookup_age`] has passed.
    Confirm,
}

/// What is known of the open attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    /// How far this process knows it has come.
    pub(super) progress: Progress,
    /// Whether the call would be the recorded one.
    pub(super) same_parameters: bool,
}

/// The launch protocol. A token never changes its subnet, and no call is made that is not recorded.
pub(super) fn launch(record: Option<&LaunchRecord>, attempt: Attempt, now: Timestamp, timing: &Timing) -> LaunchPlan {
    let Some((record, request)) = record.and_then(|record| Some((record, record.request.as_ref()?))) else {
        // Restored, moved, or taken over, or simply new: an instance may be there already.
        return LaunchPlan {
            look_up: true,
            then: Then::Record(1),
        };
    };
    let age = super::observe::age(request.requested_at.0, now);
    let next_attempt = Then::Record(record.attempt + 1);
    match attempt.progress {
        Progress::Refused => LaunchPlan {
            look_up: false,
            then: next_attempt,
        },
        progress if progress != Progress::Doubtful && attempt.same_parameters && age < timing.token_age => LaunchPlan {
            look_up: progress == Progress::Unknown,
            then: Then::Repeat,
        },
        // The call can neither be repeated nor be taken as refused: only time proves that it launched nothing.
        _ => LaunchPlan {
            look_up: true,
            then: if age < timing.launch_lookup_age {
                Then::Confirm
            } else {
                next_attempt
            },
        },
    }
}

/// What to do for a machine that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeletionStep {
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
pub(super) fn delete(sighting: &Sighting, old_enough: bool) -> DeletionStep {
    match sighting {
        Sighting::Seen(instance) => delete_seen(instance),
        Sighting::Absent if old_enough => DeletionStep::Release,
        Sighting::Absent => DeletionStep::AwaitAge,
        Sighting::Unknown => DeletionStep::AwaitSighting,
    }
}

/// Deletion of an instance that AWS shows.
pub(super) fn delete_seen(instance: &Instance) -> DeletionStep {
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
    use capa_api::machine::LaunchRequest;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn record(attempt: i32) -> LaunchRecord {
        let request = LaunchRequest {
            client_token: format!("uid-{attempt}"),
            subnet_id: "subnet-1".into(),
            image_id: "ami-1".into(),
            instance_type: "t3.large".into(),
            security_group_ids: vec!["sg-1".into()],
            parameters_hash: "h".into(),
            requested_at: Time(Timestamp::UNIX_EPOCH),
        };
        LaunchRecord {
            attempt,
            request: Some(request),
            instance_id: None,
        }
    }

    fn plan(record: Option<&LaunchRecord>, progress: Progress, same_parameters: bool) -> LaunchPlan {
        launch(
            record,
            Attempt {
                progress,
                same_parameters,
            },
            Timestamp::UNIX_EPOCH,
            &Timing::default(),
        )
    }

    #[test]
    fn the_first_attempt_is_preceded_by_a_lookup() {
        let expected = LaunchPlan {
            look_up: true,
            then: Then::Record(1),
        };
        assert_eq!(plan(None, Progress::Unknown, true), expected);
        assert_eq!(
            plan(Some(&LaunchRecord::before_first_attempt()), Progress::Unknown, true),
            expected
        );
    }

    #[test]
    fn an_own_record_is_called_without_a_lookup_and_a_foreign_one_after_it() {
        assert_eq!(
            plan(Some(&record(1)), Progress::Recorded, true),
            LaunchPlan {
                look_up: false,
                then: Then::Repeat
            }
        );
        assert_eq!(
            plan(Some(&record(1)), Progress::Unknown, true),
            LaunchPlan {
                look_up: true,
                then: Then::Repeat
            }
        );
    }

    #[test]
    fn a_refused_attempt_is_followed_by_the_next() {
        assert_eq!(
            plan(Some(&record(3)), Progress::Refused, true),
            LaunchPlan {
                look_up: false,
                then: Then::Record(4)
            }
        );
    }

    #[test]
    fn a_call_that_would_differ_from_its_record_is_never_made() {
        let confirm = LaunchPlan {
            look_up: true,
            then: Then::Confirm,
        };
        assert_eq!(plan(Some(&record(1)), Progress::Recorded, false), confirm);
        assert_eq!(plan(Some(&record(1)), Progress::Unknown, false), confirm);
    }

    #[test]
    fn silence_is_answered_by_the_same_call_and_a_refusal_after_silence_by_looking() {
        let repeat = LaunchPlan {
            look_up: false,
            then: Then::Repeat,
        };
        let confirm = LaunchPlan {
            look_up: true,
            then: Then::Confirm,
        };
        assert_eq!(plan(Some(&record(1)), Progress::Unanswered, true), repeat);
        assert_eq!(plan(Some(&record(1)), Progress::Doubtful, true), confirm);
    }

    #[test]
    fn only_time_and_an_empty_lookup_make_room_for_the_next_attempt_after_doubt() {
        let timing = Timing::default();
        let attempt = Attempt {
            progress: Progress::Doubtful,
            same_parameters: true,
        };
        let later = Timestamp::UNIX_EPOCH + timing.launch_lookup_age;
        let next = LaunchPlan {
            look_up: true,
            then: Then::Record(2),
        };
        assert_eq!(launch(Some(&record(1)), attempt, later, &timing), next);
    }

    #[test]
    fn an_attempt_older_than_its_token_is_looked_up_and_not_repeated() {
        let timing = Timing::default();
        let attempt = Attempt {
            progress: Progress::Recorded,
            same_parameters: true,
        };
        let later = Timestamp::UNIX_EPOCH + timing.token_age;
        let plan = launch(Some(&record(1)), attempt, later, &timing);
        assert_eq!(
            plan,
            LaunchPlan {
                look_up: true,
                then: Then::Record(2)
            }
        );
    }

    #[test]
    fn absence_alone_is_no_proof_while_the_instance_is_young() {
        assert_eq!(delete(&Sighting::Absent, false), DeletionStep::AwaitAge);
        assert_eq!(delete(&Sighting::Absent, true), DeletionStep::Release);
        assert_eq!(delete(&Sighting::Unknown, true), DeletionStep::AwaitSighting);
    }
}
