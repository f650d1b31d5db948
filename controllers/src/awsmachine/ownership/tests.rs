//! Table tests of the ownership of instances.

use std::time::Duration;

use capa_cloud::InstanceState;
use kube::ResourceExt;

use super::*;
use crate::testing::{instance, read, recorded_request};

const UID: &str = "6f0c0c3e-9d0e-4d3f-9a51-0f6d2a4b7c11";
const ID: &str = "i-0000000000000000a";

/// An AWSMachine with this name, spec and status. Its owner is the Machine `m`.
fn named(name: &str, spec: &str, status: &str) -> AWSMachine {
    read(&format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
          metadata: {{name: {name}, namespace: team-a, uid: {UID}, ownerReferences: \
          [{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: m, uid: o}}]}}, \
          spec: {{instanceType: t3.large{spec}}}, status: {{{status}}}}}"
    ))
}

fn machine(spec: &str, status: &str) -> AWSMachine {
    named("m", spec, status)
}

fn recorded(id: &str, token: &str) -> String {
    format!(
        "launch: {{phase: Answered, attempt: 1, holder: one, clientToken: {token}, subnetID: s, imageID: i, \
         instanceType: t, securityGroupIDs: [g], parametersHash: h, requestedAt: '2026-01-01T00:00:00Z', \
         instanceID: {id}}}"
    )
}

fn naming(id: &str) -> String {
    format!(", providerID: 'aws:///eu-west-1a/{id}', instanceID: {id}")
}

fn asking(machine: AWSMachine, value: &str) -> AWSMachine {
    let mut machine = machine;
    let annotations = machine.annotations_mut();
    annotations.insert(meta::ADOPT_INSTANCE_ANNOTATION.to_owned(), value.to_owned());
    machine
}

fn owner(uid: &str, infrastructure: &str) -> Machine {
    read(&format!(
        "{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, \
          metadata: {{name: m, namespace: team-a, uid: '{uid}'}}, \
          spec: {{clusterName: dev, infrastructureRef: {infrastructure}}}}}"
    ))
}

fn own_reference(name: &str) -> String {
    format!("{{apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachine, name: {name}}}")
}

fn good_owner(machine: &AWSMachine) -> Result<Arc<Machine>, OwnerProblem> {
    verified_owner(machine, Some(Arc::new(owner("o", &own_reference("m")))))
}

/// The running instance with the tags of Machine `m`.
fn shown(token: &str) -> Instance {
    Instance {
        client_token: Some(token.to_owned()).filter(|token| !token.is_empty()),
        ..instance(ID, InstanceState::Running, "dev", "team-a/m")
    }
}

/// A claim of an AWSMachine that has a verified owner.
fn owned(machine: &AWSMachine) -> Claim {
    Claim { machine: Arc::new(machine.clone()), has_owner: true }
}

/// A claim of an AWSMachine without a verified owner.
fn unowned(machine: &AWSMachine) -> Claim {
    Claim { has_owner: false, ..owned(machine) }
}

fn decide(machine: &AWSMachine, instance: &Instance, claims: &[Claim]) -> Ownership {
    let tags = MachineTags { cluster: "dev", namespace: "team-a", machine: machine.machine_name() };
    let owner = &good_owner(machine);
    let evidence = Evidence { machine, owner, tags, claims };
    ownership(instance, &evidence)
}

#[test]
fn record_token_spec_and_annotation_prove_ownership() {
    let token = format!("{UID}-3");
    let table = [
        (machine("", &recorded(ID, "x")), "", Proof::Recorded),
        (machine("", &recorded("i-0000000000000000b", "capa")), "capa", Proof::Recorded),
        (machine("", ""), token.as_str(), Proof::Launched),
        (machine(&naming(ID), ""), "capa", Proof::Named),
        (asking(machine("", ""), ID), "", Proof::Adopted),
    ];
    for (machine, token, proof) in table {
        assert_eq!(decide(&machine, &shown(token), &[owned(&machine)]), Ownership::Ours(proof), "{proof:?}");
    }
}

#[test]
fn tags_alone_prove_nothing() {
    let other = "i-0000000000000000b";
    for machine in [
        machine("", ""),
        machine(&naming(other), ""),
        machine("", &recorded(other, "uid-1")),
        asking(machine("", ""), "none"),
        asking(machine("", ""), other),
    ] {
        for token in ["", "capa", "0b0c0c3e-9d0e-4d3f-9a51-0f6d2a4b7c11-1"] {
            assert_eq!(decide(&machine, &shown(token), &[]), Ownership::Foreign(NotOurs::Unnamed), "{token}");
        }
    }
}

#[test]
fn no_proof_counts_without_the_tags() {
    let strip = |mut instance: Instance| {
        instance.tags.clear();
        instance
    };
    for (machine, proof) in [
        (machine("", &recorded(ID, "x")), Proof::Recorded),
        (machine(&naming(ID), ""), Proof::Named),
        (asking(machine("", ""), ID), Proof::Adopted),
    ] {
        let untagged = Ownership::Foreign(NotOurs::Untagged(proof));
        assert_eq!(decide(&machine, &strip(shown("")), &[]), untagged);
    }
    let mut of_neighbour = shown(&format!("{UID}-1"));
    of_neighbour.tags.insert(meta::MACHINE_NAME_TAG.to_owned(), "team-a/n".to_owned());
    let untagged = Ownership::Foreign(NotOurs::Untagged(Proof::Launched));
    assert_eq!(decide(&machine("", ""), &of_neighbour, &[]), untagged);
}

#[test]
fn a_client_token_is_the_whole_uid_and_a_number() {
    assert_eq!(attempt_number("uid-m-12", "uid-m"), Some(12));
    for (token, uid) in [
        ("uid-m", "uid-m"),
        ("uid-m-", "uid-m"),
        ("uid-m-x", "uid-m"),
        ("uid-mm-1", "uid-m"),
        ("uid-m--1", "uid-m"),
        ("xuid-m-1", "uid-m"),
        ("-1", ""),
        ("1", ""),
    ] {
        assert_eq!(attempt_number(token, uid), None, "{token} of {uid}");
    }
}

#[test]
fn an_owner_is_verified_by_uid_and_by_its_own_reference() {
    let machine = machine("", "");
    let verified = |owner: Option<Machine>| verified_owner(&machine, owner.map(Arc::new)).map(drop);
    let good = own_reference("m");
    assert_eq!(verified(Some(owner("o", &good))), Ok(()));
    let table = [
        (None, OwnerProblem::Missing),
        (Some(owner("p", &good)), OwnerProblem::OtherUid),
        (Some(owner("", &good)), OwnerProblem::OtherUid),
        (Some(owner("o", &own_reference("n"))), OwnerProblem::NamesAnother),
        (Some(owner("o", "{apiGroup: example.org, kind: AWSMachine, name: m}")), OwnerProblem::NamesAnother),
        (
            Some(owner("o", "{apiGroup: infrastructure.cluster.x-k8s.io, kind: Other, name: m}")),
            OwnerProblem::NamesAnother,
        ),
        (Some(owner("o", "null")), OwnerProblem::NamesAnother),
    ];
    for (owner, problem) in table {
        assert_eq!(verified(owner), Err(problem));
    }
    let mut orphan = machine.clone();
    orphan.metadata.owner_references = None;
    let unreferenced = verified_owner(&orphan, Some(Arc::new(owner("o", &good))));
    assert_eq!(unreferenced.map(drop), Err(OwnerProblem::Unreferenced));
}

#[test]
fn a_copy_under_another_name_has_no_owner() {
    for copy in [named("copy", &naming(ID), ""), asking(named("copy", "", ""), ID)] {
        let without_owner = NotOurs::WithoutOwner(OwnerProblem::NamesAnother);
        assert_eq!(decide(&copy, &shown("capa"), &[]), Ownership::Foreign(without_owner));
    }
    let without_ids = named("copy", "", "");
    assert_eq!(decide(&without_ids, &shown("capa"), &[]), Ownership::Foreign(NotOurs::Unnamed));
}

#[test]
fn an_instance_claimed_by_another_awsmachine_is_not_adopted() {
    let mine = machine(&naming(ID), "");
    let elsewhere = |mut other: AWSMachine| {
        other.metadata.namespace = Some("team-b".to_owned());
        other
    };
    let (by_spec, by_record) = (named("n", &naming(ID), ""), named("n", "", &recorded(ID, "x")));
    for other in [&by_spec, &by_record] {
        let claimed = Ownership::Foreign(NotOurs::Claimed("team-a/n".to_owned()));
        assert_eq!(decide(&mine, &shown(""), &[owned(&mine), owned(other)]), claimed);
    }
    // Users can write the spec of their own AWSMachine, but only this provider writes statuses.
    let named_elsewhere = decide(&mine, &shown(""), &[owned(&elsewhere(by_spec.clone()))]);
    assert_eq!(named_elsewhere, Ownership::Ours(Proof::Named));
    let recorded_elsewhere = decide(&mine, &shown(""), &[owned(&elsewhere(by_record))]);
    let claimed = NotOurs::Claimed("team-b/n".to_owned());
    assert_eq!(recorded_elsewhere, Ownership::Foreign(claimed));
    // A claim does not count against a recorded instance.
    let recorded = machine(&naming(ID), &recorded(ID, "x"));
    assert_eq!(decide(&recorded, &shown(""), &[owned(&by_spec)]), Ownership::Ours(Proof::Recorded));
}

#[test]
fn a_copy_without_an_owner_takes_no_instance_from_the_original() {
    for mine in [machine(&naming(ID), ""), asking(machine("", ""), ID)] {
        let by_spec = decide(&mine, &shown(""), &[unowned(&named("copy", &naming(ID), ""))]);
        assert!(matches!(by_spec, Ownership::Ours(_)), "{by_spec:?}");
        let by_annotation = decide(&mine, &shown(""), &[unowned(&asking(named("copy", "", ""), ID))]);
        assert!(matches!(by_annotation, Ownership::Ours(_)), "{by_annotation:?}");
        let by_record = decide(&mine, &shown(""), &[unowned(&named("n", "", &recorded(ID, "x")))]);
        assert_eq!(by_record, Ownership::Foreign(NotOurs::Claimed("team-a/n".to_owned())));
    }
}

#[test]
fn an_awsmachine_claims_each_instance_that_it_names() {
    let (one, other, third) = (ID, "i-0000000000000000b", "i-0000000000000000c");
    assert_eq!(claimed_instances(&machine("", "")), [""; 0]);
    let all = asking(machine(&naming(one), &recorded(other, "x")), third);
    assert_eq!(claimed_instances(&all), [one, other, third]);
    let same = asking(machine(&naming(one), &recorded(one, "x")), one);
    assert_eq!(claimed_instances(&same), [one]);
    for pattern in ["i-*", "i-?", "i-0000000000000000A", "none", ""] {
        let wild = asking(machine(&format!(", instanceID: '{pattern}'"), &recorded("'i-*'", "x")), pattern);
        assert_eq!(claimed_instances(&wild), [""; 0], "{pattern}");
    }
}

#[test]
fn the_annotation_adopt_instance_is_an_id_or_none() {
    let wish = |value: &str| format!("{:?}", AdoptAnnotation::of(&asking(machine("", ""), value)));
    assert_eq!(AdoptAnnotation::of(&machine("", "")), AdoptAnnotation::Absent);
    assert_eq!(wish("none"), "LaunchNew");
    assert_eq!(wish(ID), format!("Instance({ID:?})"));
    for value in ["", "None", "i-*", "all"] {
        assert_eq!(wish(value), format!("Unreadable({value:?})"));
    }
}

fn tags_of<'a>(cluster: &'a str, namespace: &'a str, machine: &'a str) -> MachineTags<'a> {
    MachineTags { cluster, namespace, machine }
}

#[test]
fn tags_are_compared_exactly() {
    let shown = instance("i-1", InstanceState::Running, "dev", "team-a/m");
    assert!(tags_of("dev", "team-a", "m").are_on(&shown));
    for (cluster, namespace, machine) in [
        ("de?", "team-a", "m"),
        ("dev", "team-a", "*"),
        ("dev", "*", "m"),
        ("dev", "team-b", "m"),
        ("dev", "team-a", "M"),
        ("prod", "team-a", "m"),
    ] {
        assert!(!tags_of(cluster, namespace, machine).are_on(&shown), "{cluster} {namespace} {machine}");
    }
    let mut shared = shown.clone();
    shared.tags.insert(meta::cluster_tag("dev"), "shared".into());
    assert!(!tags_of("dev", "team-a", "m").are_on(&shared));
}

#[test]
fn no_pattern_reaches_a_filter() {
    for name in ["*", "m?", "m*", "", "-m", "m-", "a..b", "M", "m/*", "m\\", &"m".repeat(254)] {
        assert_eq!(tags_of("dev", "team-a", name).query(), None, "{name}");
        assert_eq!(tags_of("dev", name, "m").query(), None, "{name}");
        assert_eq!(tags_of("dev", "team-a", name).lookup("t"), None, "{name}");
        assert_eq!(tags_of("dev", name, "m").lookup("t"), None, "{name}");
    }
    let longest = "m".repeat(253);
    assert!(tags_of("dev", "a", &longest).lookup("t").is_some());
    assert!(tags_of("dev", "ab", &longest).lookup("t").is_some());
    assert_eq!(tags_of("dev", "abc", &longest).lookup("t"), None, "longer than a tag");
    let whole = tags_of("dev", "team-a", "m-1.x").query().unwrap();
    assert_eq!(whole.filters.len(), 2);
    let without_cluster = tags_of("*", "team-a", "m").query().unwrap();
    assert_eq!(without_cluster, Query::filter("tag:MachineName", ["team-a/m"]));
}

fn ours(instance: &Instance) -> (Instance, Ownership) {
    (instance.clone(), Ownership::Ours(Proof::Launched))
}

fn foreign(instance: &Instance) -> (Instance, Ownership) {
    (instance.clone(), Ownership::Foreign(NotOurs::Unnamed))
}

#[test]
fn one_living_instance_is_adopted_and_several_are_a_conflict() {
    let seen = |id, state| instance(id, state, "dev", "team-a/m");
    let gone = seen("i-a", InstanceState::Terminated);
    let stopped = seen("i-c", InstanceState::Stopped);
    let running = seen("i-b", InstanceState::Running);
    assert_eq!(adopt(&[ours(&gone)], Some(&recorded_request(1))), Adoption::Nothing);
    assert_eq!(adopt(&[ours(&gone), ours(&stopped)], None), Adoption::One(Box::new(stopped.clone())));
    assert_eq!(adopt(&[ours(&stopped), ours(&running)], None), Adoption::Several(vec!["i-b".into(), "i-c".into()]));
}

#[test]
fn foreign_instances_are_never_adopted() {
    let seen = |id, state| instance(id, state, "dev", "team-a/m");
    let (own, theirs) = (seen("i-a", InstanceState::Running), seen("i-b", InstanceState::Running));
    let ended = seen("i-c", InstanceState::ShuttingDown);
    assert_eq!(
        adopt(&[foreign(&theirs), foreign(&own), foreign(&ended)], None),
        Adoption::Foreign(vec!["i-a".into(), "i-b".into()])
    );
    assert_eq!(adopt(&[foreign(&theirs), ours(&own)], None), Adoption::One(Box::new(own)));
    assert_eq!(adopt(&[foreign(&ended)], None), Adoption::Nothing);
}

#[test]
fn an_instance_of_the_open_attempt_is_adopted_in_any_state() {
    let of_attempt =
        |state| Instance { client_token: Some("uid-1".into()), ..instance("i-a", state, "dev", "team-a/m") };
    for state in [InstanceState::Terminated, InstanceState::Running] {
        let found = of_attempt(state);
        let untagged = [(found.clone(), Ownership::Foreign(NotOurs::Untagged(Proof::Recorded)))];
        assert_eq!(adopt(&untagged, Some(&recorded_request(1))), Adoption::One(Box::new(found)), "{state}");
    }
    let ended = of_attempt(InstanceState::Terminated);
    assert_eq!(
        adopt(&[foreign(&of_attempt(InstanceState::Running))], Some(&recorded_request(1))),
        Adoption::Foreign(vec!["i-a".into()]),
        "the ownership decides, and not the token alone"
    );
    assert_eq!(adopt(&[foreign(&ended)], Some(&recorded_request(1))), Adoption::Nothing);
    assert_eq!(adopt(&[ours(&ended)], Some(&recorded_request(2))), Adoption::Nothing);
    assert_eq!(adopt(&[ours(&ended)], None), Adoption::Nothing);
}

#[test]
fn an_ended_instance_from_before_the_call_is_not_adopted() {
    let launched = |before: u64| Instance {
        client_token: Some("uid-1".into()),
        launch_time: Some(recorded_request(1).requested_at.0 - Duration::from_secs(before)),
        ..instance("i-a", InstanceState::Terminated, "dev", "team-a/m")
    };
    for (before, is_adopted) in [(0, true), (60, true), (61, false)] {
        let found = adopt(&[ours(&launched(before))], Some(&recorded_request(1)));
        assert_eq!(found != Adoption::Nothing, is_adopted, "{before} s before the call");
    }
}
