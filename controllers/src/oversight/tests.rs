use capa_api::machine::AWSMachine;
use capa_cloud::{InstanceState, MachineKey};

use super::*;
use crate::testing::{FakeKubernetes, Journal, instance, read};

fn kubernetes() -> FakeKubernetes {
    let kubernetes = FakeKubernetes::new(&Journal::default());
    for name in ["dev", "prod"] {
        kubernetes.put_cluster(read(&format!(
            "{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {{name: {name}, namespace: team-a}}, spec: {{}}}}"
        )));
    }
    for (name, cluster) in [("one", "dev"), ("two", "dev"), ("three", "prod")] {
        kubernetes.put_machine(read(&format!(
            "{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {{name: {name}, namespace: team-a}}, \
              spec: {{clusterName: {cluster}}}}}"
        )));
        kubernetes.put_aws_machine(aws_machine(name, &owned_by(name)));
    }
    kubernetes
}

fn aws_machine(name: &str, metadata: &str) -> AWSMachine {
    read(&format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, spec: {{instanceType: t3.large}}, \
          metadata: {{name: {name}, namespace: team-a, {metadata}}}}}"
    ))
}

fn owned_by(machine: &str) -> String {
    format!("ownerReferences: [{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: {machine}, uid: o}}]")
}

/// An instance of a machine of cluster `dev`.
fn of(id: &str, machine: &str) -> Instance {
    instance(id, InstanceState::Running, "dev", machine)
}

fn store(unwatched: Vec<Instance>) -> Vec<(String, InformerSnapshot)> {
    let view = InformerSnapshot {
        unwatched,
        ..InformerSnapshot::default()
    };
    vec![("eu-west-1".to_owned(), view)]
}

fn suspicious(machines: &[&str]) -> Vec<(String, InformerSnapshot)> {
    let key = |name: &&str| MachineKey {
        namespace: "team-a".into(),
        name: (*name).to_owned(),
    };
    let view = InformerSnapshot {
        listing_incomplete: true,
        machines: machines.iter().map(key).collect(),
        ..InformerSnapshot::default()
    };
    vec![("eu-west-1".to_owned(), view)]
}

/// Cluster, reason and message of each event.
fn told(findings: &Findings) -> Vec<(String, &str, &str)> {
    let events = findings.events.iter();
    events
        .map(|(cluster, notice)| {
            let name = cluster.metadata.name.clone().unwrap_or_default();
            (name, notice.reason.as_str(), notice.message.as_str())
        })
        .collect()
}

fn counted(findings: &Findings) -> u32 {
    findings.without_machine["eu-west-1"]
}

#[test]
fn each_cluster_of_a_suspicious_store_is_told_once_and_again_after_the_next_doubt() {
    let (mut oversight, kubernetes) = (Oversight::default(), kubernetes());
    let doubted = suspicious(&["one", "two", "three", "unknown"]);
    let findings = oversight.look(&doubted, &kubernetes);
    let told_to: Vec<_> = told(&findings)
        .into_iter()
        .map(|(cluster, reason, _)| (cluster, reason))
        .collect();
    assert_eq!(
        told_to,
        [
            ("dev".to_owned(), "InstanceListingIncomplete"),
            ("prod".to_owned(), "InstanceListingIncomplete")
        ]
    );
    assert!(findings.events.iter().all(|(_, notice)| notice.warning));
    assert_eq!(oversight.look(&doubted, &kubernetes).events.len(), 0);
    assert_eq!(oversight.look(&store(vec![]), &kubernetes).events.len(), 0);
    assert_eq!(oversight.look(&doubted, &kubernetes).events.len(), 2);
}

#[test]
fn the_cluster_of_a_doubted_machine_is_that_of_its_owner_or_else_of_its_label() {
    let (mut oversight, kubernetes) = (Oversight::default(), kubernetes());
    kubernetes.put_aws_machine(aws_machine("workers-x7k2p", &owned_by("one")));
    let labelled = "labels: {cluster.x-k8s.io/cluster-name: prod}";
    kubernetes.put_aws_machine(aws_machine("orphan", labelled));
    let findings = oversight.look(&suspicious(&["workers-x7k2p", "orphan"]), &kubernetes);
    let told_to: Vec<_> = told(&findings).into_iter().map(|(cluster, ..)| cluster).collect();
    assert_eq!(told_to, ["dev", "prod"]);
}

#[test]
fn an_instance_without_a_machine_is_counted_and_told_at_the_second_look() {
    let (mut oversight, kubernetes) = (Oversight::default(), kubernetes());
    let stray = store(vec![of("i-1", "team-a/gone"), of("i-2", "team-a/one")]);
    let first = oversight.look(&stray, &kubernetes);
    assert_eq!(
        (counted(&first), first.events.len()),
        (0, 0),
        "its machine may be about to come"
    );
    let second = oversight.look(&stray, &kubernetes);
    assert_eq!(counted(&second), 1);
    let events = told(&second);
    assert_eq!(
        (events.len(), events[0].0.as_str(), events[0].1),
        (1, "dev", "InstancesWithoutMachine")
    );
    assert!(
        events[0].2.contains("i-1") && !events[0].2.contains("i-2"),
        "{}",
        events[0].2
    );
    let third = oversight.look(&stray, &kubernetes);
    assert_eq!((counted(&third), third.events.len()), (1, 0), "told once");
    let ended = oversight.look(&store(vec![]), &kubernetes);
    assert_eq!(counted(&ended), 0);
}

#[test]
fn one_more_instance_without_a_machine_is_told_with_the_others() {
    let (mut oversight, kubernetes) = (Oversight::default(), kubernetes());
    let one = store(vec![of("i-1", "team-a/gone")]);
    let two = store(vec![of("i-1", "team-a/gone"), of("i-2", "team-a/lost")]);
    oversight.look(&one, &kubernetes);
    assert_eq!(oversight.look(&two, &kubernetes).events.len(), 1);
    let findings = oversight.look(&two, &kubernetes);
    assert_eq!(counted(&findings), 2);
    assert!(
        told(&findings)[0].2.starts_with("i-1, i-2 carry"),
        "{:?}",
        told(&findings)
    );
}

#[test]
fn a_machine_that_only_its_awsmachine_is_left_of_is_known() {
    let (mut oversight, kubernetes) = (Oversight::default(), kubernetes());
    let labelled = "labels: {cluster.x-k8s.io/cluster-name: dev}";
    kubernetes.put_aws_machine(aws_machine("orphan", labelled));
    let known = store(vec![of("i-1", "team-a/orphan")]);
    oversight.look(&known, &kubernetes);
    assert_eq!(counted(&oversight.look(&known, &kubernetes)), 0);
}

#[test]
fn instances_of_clusters_that_are_not_here_are_none_of_our_business() {
    let (mut oversight, kubernetes) = (Oversight::default(), kubernetes());
    let mut shared = instance("i-3", InstanceState::Running, "dev", "team-a/gone");
    shared.tags.insert(meta::cluster_tag("dev"), "shared".into());
    let elsewhere = store(vec![
        of("i-1", "team-b/gone"),
        instance("i-2", InstanceState::Running, "staging", "team-a/gone"),
        shared,
        Instance {
            tags: BTreeMap::new(),
            ..instance("i-4", InstanceState::Running, "dev", "")
        },
    ]);
    oversight.look(&elsewhere, &kubernetes);
    assert_eq!(counted(&oversight.look(&elsewhere, &kubernetes)), 0);
}

#[test]
fn an_instance_that_two_identities_show_is_counted_once_and_many_are_not_all_named() {
    let (mut oversight, kubernetes) = (Oversight::default(), kubernetes());
    let many: Vec<_> = (0..25)
        .map(|index| of(&format!("i-{index:02}"), "team-a/gone"))
        .collect();
    let twice: Vec<_> = [store(many.clone()), store(many)].concat();
    oversight.look(&twice, &kubernetes);
    let findings = oversight.look(&twice, &kubernetes);
    assert_eq!(counted(&findings), 25);
    let events = told(&findings);
    assert_eq!(events.len(), 1);
    assert!(events[0].2.contains("i-09 and others carry"), "{}", events[0].2);
}
