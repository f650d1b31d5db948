//! Table tests of the launch protocol.

use std::num::NonZeroU32;
use std::time::Duration;

use capa_api::machine::{LaunchAttempt, LaunchRecord};
use capa_cloud::Timing;
use jiff::Timestamp;
use serde_json::json;

use crate::awsmachine::launch::protocol::{Attempt, LaunchStep, LookUp, plan_launch};
use crate::launch_memory::progress::{AbsenceProof, Progress};
use crate::testing::recorded_request;
use crate::time::Moment;

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

fn next(attempt: u32) -> LaunchStep {
    LaunchStep::Record(number(attempt))
}

fn recorded(attempt: u32) -> LaunchAttempt {
    let request = recorded_request(attempt);
    LaunchAttempt { number: number(attempt), request, holder: "one".into(), failed_instances: 0 }
}

fn record(attempt: u32) -> LaunchRecord {
    LaunchRecord::Requested(recorded(attempt))
}

/// An attempt whose record has just been confirmed.
fn attempt(progress: Progress) -> Attempt {
    Attempt {
        progress,
        same_account: true,
        same_parameters: true,
        confirmed_at: Some(moment(0)),
        absence: None,
        first_number: number(1),
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn moment(seconds: u64) -> Moment {
    Moment { time: Timestamp::UNIX_EPOCH + at(seconds), uptime: at(seconds) }
}

fn plan_at(seconds: u64, record: Option<&LaunchRecord>, attempt: &Attempt) -> (LookUp, LaunchStep) {
    let plan = plan_launch(record, attempt, moment(seconds), &Timing::default());
    (plan.look_up, plan.step)
}

fn plan(record: &LaunchRecord, attempt: &Attempt) -> (LookUp, LaunchStep) {
    plan_at(0, Some(record), attempt)
}

#[test]
fn the_first_attempt_is_preceded_by_a_lookup() {
    let unknown = attempt(Progress::Unknown);
    assert_eq!(plan(&LaunchRecord::Planned, &unknown), (LookUp::ByTags, next(1)));
    // An object without a record may have an instance that is too young for a lookup.
    assert_eq!(plan_at(0, None, &unknown), (LookUp::ByTags, LaunchStep::LookOnly));
}

#[test]
fn a_foreign_record_is_claimed_before_its_call_is_repeated() {
    assert_eq!(plan(&record(1), &attempt(Progress::Recorded)), (LookUp::No, LaunchStep::Repeat));
    assert_eq!(plan(&record(1), &attempt(Progress::Unknown)), (LookUp::ByTags, LaunchStep::Claim));
}

#[test]
fn a_refusal_that_another_process_saw_is_looked_up_first() {
    assert_eq!(plan(&record(3), &attempt(Progress::Refused)), (LookUp::No, next(4)));
    let stored = LaunchRecord::Refused(recorded(3));
    assert_eq!(plan(&stored, &attempt(Progress::Refused)), (LookUp::No, next(4)));
    assert_eq!(plan(&stored, &attempt(Progress::Unknown)), (LookUp::ByTags, next(4)));
}

#[test]
fn a_refusal_in_another_account_is_looked_up_first() {
    let elsewhere = Attempt { same_account: false, ..attempt(Progress::Refused) };
    assert_eq!(plan(&record(3), &elsewhere), (LookUp::ByTags, next(4)));
}

#[test]
fn the_number_of_an_unreadable_record_is_never_reused() {
    let half: LaunchRecord = serde_json::from_value(json!({"attempt": 2, "clientToken": "uid-2"})).unwrap();
    let searched = Attempt {
        absence: Some(AbsenceProof { since: at(0), first_empty: Some(at(0)) }),
        ..attempt(Progress::Unknown)
    };
    assert_eq!(plan_at(600, Some(&half), &searched), (LookUp::ByTags, next(3)));
    assert_eq!(plan(&half, &attempt(Progress::Unknown)), (LookUp::ByTags, LaunchStep::LookOnly));
}

#[test]
fn a_call_that_differs_from_its_record_is_never_made() {
    let looked_up = (LookUp::ByTagsAndToken, LaunchStep::LookOnly);
    let table = [
        (Progress::Unanswered, looked_up),
        (Progress::Unknown, looked_up),
        // No call had an effect, so no lookup is needed.
        (Progress::Recorded, (LookUp::No, next(2))),
    ];
    for (progress, expected) in table {
        let changed = Attempt { same_parameters: false, ..attempt(progress) };
        assert_eq!(plan(&record(1), &changed), expected, "{progress:?}");
    }
}

#[test]
fn an_unanswered_call_is_repeated_a_later_refusal_looked_up() {
    assert_eq!(plan(&record(1), &attempt(Progress::Unanswered)), (LookUp::No, LaunchStep::Repeat));
    assert_eq!(plan(&record(1), &attempt(Progress::Unclear)), (LookUp::ByTagsAndToken, LaunchStep::LookOnly));
}

#[test]
fn a_call_follows_only_a_freshly_confirmed_record() {
    let unanswered = attempt(Progress::Unanswered);
    assert_eq!(plan_at(30, Some(&record(1)), &unanswered), (LookUp::No, LaunchStep::Repeat));
    assert_eq!(plan_at(31, Some(&record(1)), &unanswered), (LookUp::No, LaunchStep::Verify));
}

#[test]
fn two_late_and_separate_lookups_prove_an_absence() {
    let doubt = |since, first_empty| Attempt {
        absence: Some(AbsenceProof { since: at(since), first_empty }),
        ..attempt(Progress::Unclear)
    };
    let table = [
        (0, Some(at(0)), 599, LaunchStep::LookOnly),
        (0, Some(at(0)), 600, next(2)),
        (0, Some(at(590)), 600, LaunchStep::LookOnly),
        (0, Some(at(590)), 709, LaunchStep::LookOnly),
        (0, Some(at(590)), 710, next(2)),
        (0, None, 3600, LaunchStep::LookOnly),
        (3000, Some(at(3000)), 3500, LaunchStep::LookOnly),
    ];
    for (since, first_empty, now, then) in table {
        let planned = plan_at(now, Some(&record(1)), &doubt(since, first_empty));
        assert_eq!(planned, (LookUp::ByTagsAndToken, then), "since {since}, empty {first_empty:?}, now {now}");
    }
}

#[test]
fn an_attempt_older_than_its_token_is_not_repeated() {
    let later = Timing::default().token_age.as_secs();
    assert_eq!(
        plan_at(later, Some(&record(1)), &attempt(Progress::Unanswered)),
        (LookUp::ByTagsAndToken, LaunchStep::LookOnly)
    );
}
