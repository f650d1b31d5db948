use std::sync::Arc;
use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_api::meta::ADOPT_INSTANCE_ANNOTATION;
use capa_runtime::reconcile::Next;

use crate::testing::{instance, read};

use super::*;

const DONE: Known = Known { is_old_enough: true, has_left: true, is_submitted: false };

fn seen(state: InstanceState) -> Observation {
    Observation::Seen(Arc::new(instance("i-a", state, "dev", "team-a/m")))
}

#[test]
fn absence_is_no_proof_while_the_instance_is_young() {
    let young = Known { is_old_enough: false, ..DONE };
    assert_eq!(plan_deletion(&Observation::Absent, young), DeletionStep::AwaitAge);
    assert_eq!(plan_deletion(&Observation::Absent, DONE), DeletionStep::Release);
    assert_eq!(plan_deletion(&Observation::Unknown, DONE), DeletionStep::AwaitObservation);
}

#[test]
fn targets_hold_up_termination_and_release_and_nothing_else() {
    let registered = Known { has_left: false, ..DONE };
    for state in [InstanceState::Running, InstanceState::Stopped, InstanceState::Pending] {
        assert_eq!(plan_deletion(&seen(state), registered), DeletionStep::AwaitDrained, "{state}");
        assert_eq!(plan_deletion(&seen(state), DONE), DeletionStep::Terminate, "{state}");
    }
    let terminated = seen(InstanceState::Terminated);
    let table = [
        (&Observation::Absent, registered, DeletionStep::AwaitDrained),
        (&terminated, registered, DeletionStep::AwaitDrained),
        (&terminated, DONE, DeletionStep::Release),
        (&seen(InstanceState::ShuttingDown), registered, DeletionStep::AwaitTermination),
        (&Observation::Unknown, registered, DeletionStep::AwaitObservation),
    ];
    for (observation, known, expected) in table {
        assert_eq!(plan_deletion(observation, known), expected, "{observation:?}");
    }
}

#[test]
fn a_submitted_termination_goes_on_and_the_release_waits_for_targets() {
    let submitted = Known { has_left: false, is_submitted: true, ..DONE };
    let running = seen(InstanceState::Running);
    assert_eq!(plan_deletion(&running, submitted), DeletionStep::Terminate);
    let terminated = seen(InstanceState::Terminated);
    assert_eq!(plan_deletion(&terminated, submitted), DeletionStep::AwaitDrained);
}

const LONG_ENOUGH: Duration = Duration::from_mins(10);

/// A machine that was deleted at ten o'clock.
fn deleted(created: &str, status: &str) -> AWSMachine {
    read(&format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, metadata: {{name: m, \
          creationTimestamp: '2026-01-01T{created}Z', deletionTimestamp: '2026-01-01T10:00:00Z'}}, \
          spec: {{instanceType: t3.large}}, status: {{launch: {{phase: Planned, attempt: 0}}{status}}}}}"
    ))
}

fn owner(spec: &str, status: &str) -> Machine {
    read(&format!(
        "{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {{name: m}}, \
          spec: {{clusterName: dev, {spec}}}, status: {{{status}}}}}"
    ))
}

#[test]
fn the_record_of_an_old_machine_is_believed_after_a_while() {
    let table = [
        ("09:59:00", 0, NeverLaunchedEvidence::Sufficient),
        ("09:50:01", 0, NeverLaunchedEvidence::Sufficient),
        ("09:50:00", 0, NeverLaunchedEvidence::SufficientLater),
        ("03:00:00", 599, NeverLaunchedEvidence::SufficientLater),
        ("03:00:00", 600, NeverLaunchedEvidence::Sufficient),
    ];
    for (created, tried, expected) in table {
        let machine = deleted(created, "");
        let found = never_launched_evidence(&machine, Some(&owner("", "")), Duration::from_secs(tried), LONG_ENOUGH);
        assert_eq!(found, expected, "created at {created}, tried for {tried} s");
    }
}

#[test]
fn a_record_is_no_proof_of_what_a_deletion_has_begun_to_end() {
    for status in [
        "submittedTerminations: [i-0000000a]",
        "targets: [{target: api, instanceID: i-0000000a, state: Deregistering}]",
    ] {
        let machine = deleted("09:59:00", &format!(", {status}"));
        assert_eq!(
            never_launched_evidence(&machine, None, LONG_ENOUGH, LONG_ENOUGH),
            NeverLaunchedEvidence::WithOneLookup,
            "{status}"
        );
    }
}

#[test]
fn a_record_that_something_contradicts_is_worth_nothing() {
    let ready = "conditions: [{type: InstanceReady, status: 'True', reason: Ready, message: '', \
                 lastTransitionTime: '2026-01-01T09:00:00Z'}]";
    for status in ["hasRun: true", "instanceState: running", "initialization: {provisioned: true}", ready] {
        let machine = deleted("09:59:00", &format!(", {status}"));
        assert_eq!(
            never_launched_evidence(&machine, None, LONG_ENOUGH, LONG_ENOUGH),
            NeverLaunchedEvidence::Refuted,
            "{status}"
        );
    }
    let mut annotated = deleted("09:59:00", "");
    let annotations = annotated.metadata.annotations.get_or_insert_default();
    annotations.insert(ADOPT_INSTANCE_ANNOTATION.to_owned(), "i-0000000a".to_owned());
    for (owner, expected) in
        [(Some(owner("", "")), NeverLaunchedEvidence::Refuted), (None, NeverLaunchedEvidence::Sufficient)]
    {
        let found = never_launched_evidence(&annotated, owner.as_ref(), LONG_ENOUGH, LONG_ENOUGH);
        assert_eq!(found, expected, "annotation, owner {owner:?}");
    }
    let machine = deleted("09:59:00", "");
    for owner in [owner("providerID: 'aws:///eu-west-1a/i-0000000a'", ""), owner("", "nodeRef: {name: node}")] {
        let found = never_launched_evidence(&machine, Some(&owner), LONG_ENOUGH, LONG_ENOUGH);
        assert_eq!(found, NeverLaunchedEvidence::Refuted, "{owner:?}");
    }
}

const REQUEST: &str = "holder: one, clientToken: uid-1, subnetID: s, imageID: i, instanceType: t, \
     securityGroupIDs: [g], parametersHash: h, requestedAt: '2026-01-01T00:00:00Z'";

fn asked(value: &str, spec: &str, launch: &str) -> Abandonment {
    abandonment(&read(&format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, metadata: {{name: m, uid: uid, \
          annotations: {{{}: {value}}}}}, spec: {{instanceType: t3.large{spec}}}, status: {{launch: {launch}}}}}",
        meta::ABANDON_INSTANCE_ANNOTATION
    )))
}

#[test]
fn the_annotation_needs_the_value_of_this_machine() {
    let id = "i-0000000000000000a";
    let of_spec = format!(", instanceID: {id}");
    let open = format!("{{phase: Requested, attempt: 1, {REQUEST}}}");
    let launched = format!("{{phase: Answered, attempt: 1, {REQUEST}, instanceID: {id}}}");
    let table = [
        (id, "", launched.as_str(), true),
        ("uid-1", "", launched.as_str(), false),
        ("uid-1", "", open.as_str(), true),
        ("uid-2", "", open.as_str(), false),
        ("true", "", open.as_str(), false),
        (id, of_spec.as_str(), "null", true),
        (id, "", "{phase: Planned, attempt: 0}", false),
        ("uid-0", "", "{phase: Planned, attempt: 0}", true),
        ("uid-1", "", "{phase: Planned, attempt: 0}", false),
        ("uid-0", "", "null", true),
        ("other-0", "", "null", false),
        ("uid-0", "", "{attempt: 2, clientToken: uid-2}", true),
        ("uid-0", of_spec.as_str(), "null", false),
        ("uid-0", "", open.as_str(), false),
        ("uid-0", "", launched.as_str(), false),
    ];
    for (value, spec, launch, expected) in table {
        let asked = asked(value, spec, launch);
        assert_eq!(asked == Abandonment::Asked(value.to_owned()), expected, "{value} of {launch}");
        assert_eq!(matches!(asked, Abandonment::Mismatch(_)), !expected, "{value}");
    }
}

#[test]
fn a_mismatch_without_a_record_names_the_search_token() {
    let Abandonment::Mismatch(text) = asked("gone", "", "null") else {
        panic!("no mismatch");
    };
    assert!(text.contains("not uid-0, the value of this AWSMachine"), "{text}");
}

#[test]
fn a_mismatch_names_both_values_and_cuts_a_long_one() {
    let long = "x".repeat(5000);
    let Abandonment::Mismatch(text) = asked(&long, "", &format!("{{phase: Requested, attempt: 1, {REQUEST}}}")) else {
        panic!("no mismatch");
    };
    assert!(text.contains("not uid-1, which is recorded"), "{text}");
    assert!(text.len() < 250, "{}", text.len());
}

fn blocked(reason: Reason, message: &str, next: Next) -> Blocked {
    Blocked::new(ConditionType::InstanceReady.is_false(reason, message), next)
}

fn requeue(seconds: u64) -> Next {
    Next::Requeue(Duration::from_secs(seconds))
}

#[test]
fn an_instance_that_cannot_be_ended_gives_the_reason() {
    let ending = blocked(Reason::Terminating, "one is being terminated", requeue(60));
    let refused = blocked(Reason::Unauthorized, "the other is refused", requeue(5));
    let merged = merged(vec![ending, refused]).expect("a block");
    assert_eq!(merged.condition.reason, Reason::Unauthorized);
    assert_eq!(merged.condition.message, "the other is refused; one is being terminated");
    assert_eq!(merged.next, requeue(5));
}

#[test]
fn the_earliest_pass_is_that_of_the_deletion() {
    let ending = |next| blocked(Reason::Terminating, "ending", next);
    let next = |nexts: Vec<Next>| merged(nexts.into_iter().map(ending).collect()).map(|blocked| blocked.next);
    assert_eq!(next(vec![]), None);
    assert_eq!(next(vec![Next::AwaitChange, requeue(7)]), Some(requeue(7)));
    assert_eq!(next(vec![requeue(7), requeue(5)]), Some(requeue(5)));
    assert_eq!(next(vec![requeue(7), Next::Retry]), Some(Next::Retry));
    let limited = Next::Deferred(Duration::from_secs(3));
    assert_eq!(next(vec![limited, requeue(7)]), Some(requeue(3)));
}

#[test]
fn equal_messages_are_said_once() {
    let ending = || blocked(Reason::Terminating, "ending", Next::AwaitChange);
    let merged = merged(vec![ending(), ending()]).expect("a block");
    assert_eq!(merged.condition.message, "ending");
}
