use std::sync::Arc;
use std::time::Duration;

use capa_api::machine::{InstanceState, LaunchRecord, LaunchRequest};
use capa_cloud::{ErrorClass, Instance, Observation, StateReason, Timing};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::testing::instance;

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
        holder: Some("one".into()),
        failed_instances: None,
        instance_id: None,
    }
}

/// An attempt whose record has just been confirmed.
fn attempt(progress: Progress) -> Attempt {
    Attempt {
        progress,
        refusal_stored: false,
        same_account: true,
        same_parameters: true,
        confirmed_at: Some(Timestamp::UNIX_EPOCH),
        search: None,
        first_number: 1,
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn plan_at(seconds: u64, record: Option<&LaunchRecord>, attempt: &Attempt) -> (LookUp, Then) {
    let plan = launch(record, attempt, at(seconds), &Timing::default());
    (plan.look_up, plan.then)
}

fn plan(record: &LaunchRecord, attempt: &Attempt) -> (LookUp, Then) {
    plan_at(0, Some(record), attempt)
}

#[test]
fn the_first_attempt_is_preceded_by_a_lookup() {
    let unknown = attempt(Progress::Unknown);
    assert_eq!(
        plan(&LaunchRecord::before_first_attempt(), &unknown),
        (LookUp::ByTags, Then::Record(1))
    );
    // An object that came without any record may have an instance that is too young to show.
    assert_eq!(plan_at(0, None, &unknown), (LookUp::ByTags, Then::LookOnly));
}

#[test]
fn an_own_record_is_called_without_a_lookup_and_a_foreign_one_is_looked_up_and_claimed() {
    assert_eq!(
        plan(&record(1), &attempt(Progress::Recorded)),
        (LookUp::No, Then::Repeat)
    );
    assert_eq!(
        plan(&record(1), &attempt(Progress::Unknown)),
        (LookUp::ByTags, Then::Claim)
    );
}

#[test]
fn a_refused_attempt_is_followed_by_the_next_and_one_that_another_process_saw_refused_by_a_lookup_first() {
    assert_eq!(
        plan(&record(3), &attempt(Progress::Refused)),
        (LookUp::No, Then::Record(4))
    );
    let stored = Attempt {
        refusal_stored: true,
        ..attempt(Progress::Unknown)
    };
    assert_eq!(plan(&record(3), &stored), (LookUp::ByTags, Then::Record(4)));
}

#[test]
fn an_attempt_that_was_refused_in_another_account_is_followed_by_a_lookup_in_this_one() {
    let elsewhere = Attempt {
        same_account: false,
        ..attempt(Progress::Refused)
    };
    assert_eq!(plan(&record(3), &elsewhere), (LookUp::ByTags, Then::Record(4)));
}

#[test]
fn a_record_that_lost_its_request_never_gives_its_number_to_another_attempt() {
    let half = LaunchRecord {
        request: None,
        ..record(2)
    };
    let searched = Attempt {
        search: Some(Search {
            since: at(0),
            first_empty: Some(at(0)),
        }),
        ..attempt(Progress::Unknown)
    };
    assert_eq!(plan_at(600, Some(&half), &searched), (LookUp::ByTags, Then::Record(3)));
    assert_eq!(
        plan(&half, &attempt(Progress::Unknown)),
        (LookUp::ByTags, Then::LookOnly)
    );
}

#[test]
fn a_call_that_would_differ_from_its_record_is_never_made() {
    let looked_up = (LookUp::ByTagsAndToken, Then::LookOnly);
    let table = [
        (Progress::Unanswered, looked_up),
        (Progress::Unknown, looked_up),
        // No call had an effect: there is nothing to look for.
        (Progress::Recorded, (LookUp::No, Then::Record(2))),
    ];
    for (progress, expected) in table {
        let changed = Attempt {
            same_parameters: false,
            ..attempt(progress)
        };
        assert_eq!(plan(&record(1), &changed), expected, "{progress:?}");
    }
}

#[test]
fn silence_is_answered_by_the_same_call_and_a_refusal_after_silence_by_looking() {
    assert_eq!(
        plan(&record(1), &attempt(Progress::Unanswered)),
        (LookUp::No, Then::Repeat)
    );
    assert_eq!(
        plan(&record(1), &attempt(Progress::Doubtful)),
        (LookUp::ByTagsAndToken, Then::LookOnly)
    );
}

#[test]
fn a_call_follows_only_what_the_api_server_said_a_moment_ago() {
    let unanswered = attempt(Progress::Unanswered);
    assert_eq!(plan_at(30, Some(&record(1)), &unanswered), (LookUp::No, Then::Repeat));
    assert_eq!(plan_at(31, Some(&record(1)), &unanswered), (LookUp::No, Then::Verify));
}

#[test]
fn two_empty_lookups_well_apart_prove_absence_and_only_when_an_instance_would_have_shown_for_long() {
    let doubt = |since, first_empty| Attempt {
        search: Some(Search {
            since: at(since),
            first_empty,
        }),
        ..attempt(Progress::Doubtful)
    };
    let table = [
        (0, Some(at(0)), 599, Then::LookOnly),
        (0, Some(at(0)), 600, Then::Record(2)),
        (0, Some(at(590)), 600, Then::LookOnly),
        (0, Some(at(590)), 709, Then::LookOnly),
        (0, Some(at(590)), 710, Then::Record(2)),
        (0, None, 3600, Then::LookOnly),
        (3000, Some(at(3000)), 3500, Then::LookOnly),
    ];
    for (since, first_empty, now, then) in table {
        let planned = plan_at(now, Some(&record(1)), &doubt(since, first_empty));
        assert_eq!(
            planned,
            (LookUp::ByTagsAndToken, then),
            "since {since}, empty {first_empty:?}, now {now}"
        );
    }
}

#[test]
fn an_attempt_older_than_its_token_is_looked_up_and_not_repeated() {
    let later = Timing::default().token_age.as_secs();
    assert_eq!(
        plan_at(later, Some(&record(1)), &attempt(Progress::Unanswered)),
        (LookUp::ByTagsAndToken, Then::LookOnly)
    );
}

#[test]
fn a_refusal_is_a_proof_only_where_every_earlier_call_was_answered() {
    let refusal = ErrorClass::InsufficientCapacity;
    assert_eq!(Progress::Recorded.after(refusal), Progress::Refused);
    assert_eq!(
        Progress::Recorded.after(ErrorClass::Throttled).after(refusal),
        Progress::Refused
    );
    assert_eq!(
        Progress::Recorded.after(ErrorClass::NoAnswer).after(refusal),
        Progress::Doubtful
    );
    assert_eq!(Progress::Unanswered.after(refusal), Progress::Doubtful);
    assert_eq!(
        Progress::Recorded.after(ErrorClass::IdempotentParameterMismatch),
        Progress::Doubtful
    );
}

#[test]
fn one_living_instance_is_adopted_and_several_are_a_conflict() {
    let seen = |id, state| instance(id, state, "dev", "team-a/m");
    let gone = seen("i-a", InstanceState::Terminated);
    let stopped = seen("i-c", InstanceState::Stopped);
    let running = seen("i-b", InstanceState::Running);
    assert_eq!(adopt(std::slice::from_ref(&gone), Some("uid-1")), Adoption::Nothing);
    assert_eq!(
        adopt(&[gone, stopped.clone()], None),
        Adoption::One(Box::new(stopped.clone()))
    );
    assert_eq!(
        adopt(&[stopped, running], None),
        Adoption::Several(vec!["i-b".into(), "i-c".into()])
    );
}

#[test]
fn the_instance_of_the_open_attempt_counts_even_when_it_has_ended() {
    let ended = Instance {
        client_token: Some("uid-1".into()),
        ..instance("i-a", InstanceState::Terminated, "dev", "team-a/m")
    };
    let found = std::slice::from_ref(&ended);
    assert_eq!(adopt(found, Some("uid-1")), Adoption::One(Box::new(ended.clone())));
    assert_eq!(adopt(found, Some("uid-2")), Adoption::Nothing);
    assert_eq!(adopt(found, None), Adoption::Nothing);
}

fn ending(state: InstanceState, code: Option<&str>, failed_before: i32, now: u64) -> Ending {
    let ended = Instance {
        state_reason: code.map(|code| StateReason {
            code: code.into(),
            message: String::new(),
        }),
        ..instance("i-a", state, "dev", "team-a/m")
    };
    // Attempts that EC2 refused for lack of capacity have numbers too, and are no deaths.
    let record = LaunchRecord {
        failed_instances: Some(failed_before).filter(|failed| *failed > 0),
        ..record(70)
    };
    ended_before_running(&ended, Some(&record), at(now), &Timing::default())
}

#[test]
fn only_failures_of_ec2_itself_deserve_another_attempt() {
    let table = [
        (Some("Server.InternalError"), Ending::NextAttempt(Duration::ZERO)),
        (
            Some("Server.InsufficientInstanceCapacity"),
            Ending::NextAttempt(Duration::ZERO),
        ),
        (Some("Server.SpotInstanceTermination"), Ending::Final),
        (Some("Server.ScheduledStop"), Ending::Final),
        (Some("Client.VolumeLimitExceeded"), Ending::Final),
        (Some("Client.UserInitiatedShutdown"), Ending::Final),
        (None, Ending::Final),
    ];
    for (code, expected) in table {
        assert_eq!(ending(InstanceState::Terminated, code, 0, 3600), expected, "{code:?}");
    }
    let shutting_down = ending(InstanceState::ShuttingDown, Some("Server.InternalError"), 0, 3600);
    assert_eq!(shutting_down, Ending::Awaited);
}

#[test]
fn attempts_after_a_death_come_later_each_time_and_end_at_the_fifth_death() {
    let after = |failed_before, now| {
        ending(
            InstanceState::Terminated,
            Some("Server.InternalError"),
            failed_before,
            now,
        )
    };
    for (failed_before, wait) in [(0, 30), (1, 60), (2, 120), (3, 240)] {
        let expected = Ending::NextAttempt(Duration::from_secs(wait - 10));
        assert_eq!(after(failed_before, 10), expected, "after {failed_before} others");
    }
    assert_eq!(after(4, 3600), Ending::Final);
}

#[test]
fn absence_alone_is_no_proof_while_the_instance_is_young() {
    assert_eq!(delete(&Observation::Absent, false, true), DeletionStep::AwaitAge);
    assert_eq!(delete(&Observation::Absent, true, true), DeletionStep::Release);
    assert_eq!(delete(&Observation::Unknown, true, true), DeletionStep::AwaitSighting);
}

#[test]
fn what_is_left_in_targets_holds_up_termination_and_release_and_nothing_else() {
    let seen = |state| Observation::Seen(Arc::new(instance("i-a", state, "dev", "team-a/m")));
    for state in [InstanceState::Running, InstanceState::Stopped, InstanceState::Pending] {
        assert_eq!(delete(&seen(state), true, false), DeletionStep::AwaitDrained, "{state}");
        assert_eq!(delete(&seen(state), true, true), DeletionStep::Terminate, "{state}");
    }
    assert_eq!(delete(&Observation::Absent, true, false), DeletionStep::AwaitDrained);
    assert_eq!(
        delete(&seen(InstanceState::Terminated), true, false),
        DeletionStep::AwaitDrained
    );
    assert_eq!(
        delete(&seen(InstanceState::Terminated), true, true),
        DeletionStep::Release
    );
    assert_eq!(
        delete(&seen(InstanceState::ShuttingDown), true, false),
        DeletionStep::AwaitTermination
    );
    assert_eq!(delete(&Observation::Unknown, true, false), DeletionStep::AwaitSighting);
}
