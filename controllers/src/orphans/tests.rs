use capa_api::machine::AWSMachine;
use capa_cloud::MachineKey;

use super::*;
use crate::testing::{FakeKubernetes, Journal, MANAGEMENT_CLUSTER, read};

fn kubernetes() -> FakeKubernetes {
    let kubernetes = FakeKubernetes::new(&Journal::default());
    for name in ["dev", "prod"] {
        kubernetes.put_cluster(read(&format!(
            "{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {{name: {name}, namespace: team-a}}, \
             spec: {{}}}}"
        )));
    }
    for (name, cluster) in [("one", "dev"), ("two", "dev"), ("three", "prod")] {
        put_machine(&kubernetes, name, cluster, name);
        kubernetes.put_aws_machine(aws_machine(name, &owned_by(name)));
    }
    kubernetes
}

fn put_machine(kubernetes: &FakeKubernetes, name: &str, cluster: &str, infrastructure: &str) {
    kubernetes.put_machine(read(&format!(
        "{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {{name: {name}, namespace: team-a, uid: o}}, \
          spec: {{clusterName: {cluster}, infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, \
          kind: AWSMachine, name: {infrastructure}}}}}}}"
    )));
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

/// An instance of a machine of the cluster `dev` that this management cluster launched.
fn of(id: &str, machine: &str) -> UnwatchedInstance {
    of_cluster(id, "dev", machine)
}

fn of_cluster(id: &str, cluster: &str, machine: &str) -> UnwatchedInstance {
    let (namespace, machine) = machine.split_once('/').unwrap();
    UnwatchedInstance {
        id: id.into(),
        namespace: namespace.into(),
        machine: machine.into(),
        cluster: cluster.into(),
        management_cluster: Some(MANAGEMENT_CLUSTER.into()),
    }
}

fn snapshot(unwatched: Vec<UnwatchedInstance>) -> Vec<(String, InformerSnapshot)> {
    let snapshot = InformerSnapshot { unwatched, ..InformerSnapshot::default() };
    vec![("eu-west-1".to_owned(), snapshot)]
}

fn incomplete_listing_of(machines: &[&str]) -> Vec<(String, InformerSnapshot)> {
    let key = |name: &&str| MachineKey { namespace: "team-a".into(), name: (*name).to_owned() };
    let snapshot = InformerSnapshot { doubted: machines.iter().map(key).collect(), ..InformerSnapshot::default() };
    vec![("eu-west-1".to_owned(), snapshot)]
}

/// Cluster, reason and message of each event.
fn told(findings: &Findings) -> Vec<(String, &str, &str)> {
    let events = findings.events.iter();
    events
        .map(|(cluster, event)| {
            let name = cluster.metadata.name.clone().unwrap_or_default();
            (name, event.reason.as_str(), event.message.as_str())
        })
        .collect()
}

fn counted(findings: &Findings) -> u32 {
    findings.without_machine["eu-west-1"]
}

#[test]
fn an_incomplete_listing_is_reported_once_on_each_cluster() {
    let (mut scanner, kubernetes) = (OrphanScanner::default(), kubernetes());
    let doubted = incomplete_listing_of(&["one", "two", "three", "unknown"]);
    let findings = scanner.scan(doubted.clone(), &kubernetes);
    let told_to: Vec<_> = told(&findings).into_iter().map(|(cluster, reason, _)| (cluster, reason)).collect();
    assert_eq!(
        told_to,
        [("dev".to_owned(), "InstanceListingIncomplete"), ("prod".to_owned(), "InstanceListingIncomplete")]
    );
    assert!(findings.events.iter().all(|(_, event)| event.warning));
    assert_eq!(scanner.scan(doubted.clone(), &kubernetes).events.len(), 0);
    assert_eq!(scanner.scan(snapshot(vec![]), &kubernetes).events.len(), 0);
    assert_eq!(scanner.scan(doubted.clone(), &kubernetes).events.len(), 2);
}

#[test]
fn a_machine_belongs_to_the_cluster_of_its_owner_or_label() {
    let (mut scanner, kubernetes) = (OrphanScanner::default(), kubernetes());
    put_machine(&kubernetes, "four", "dev", "workers-x7k2p");
    kubernetes.put_aws_machine(aws_machine("workers-x7k2p", &owned_by("four")));
    let labelled = "labels: {cluster.x-k8s.io/cluster-name: prod}";
    kubernetes.put_aws_machine(aws_machine("orphan", labelled));
    let findings = scanner.scan(incomplete_listing_of(&["workers-x7k2p", "orphan"]), &kubernetes);
    let told_to: Vec<_> = told(&findings).into_iter().map(|(cluster, ..)| cluster).collect();
    assert_eq!(told_to, ["dev", "prod"]);
}

#[test]
fn an_orphan_is_counted_and_reported_at_the_second_scan() {
    let (mut scanner, kubernetes) = (OrphanScanner::default(), kubernetes());
    let orphans = snapshot(vec![of("i-1", "team-a/gone"), of("i-2", "team-a/one")]);
    let first = scanner.scan(orphans.clone(), &kubernetes);
    assert_eq!((counted(&first), first.events.len()), (0, 0), "its machine may appear soon");
    let second = scanner.scan(orphans.clone(), &kubernetes);
    assert_eq!(counted(&second), 1);
    let events = told(&second);
    assert_eq!((events.len(), events[0].0.as_str(), events[0].1), (1, "dev", "InstancesWithoutMachine"));
    assert!(events[0].2.contains("i-1") && !events[0].2.contains("i-2"), "{}", events[0].2);
    let third = scanner.scan(orphans.clone(), &kubernetes);
    assert_eq!((counted(&third), third.events.len()), (1, 0), "the event is published once");
    let ended = scanner.scan(snapshot(vec![]), &kubernetes);
    assert_eq!(counted(&ended), 0);
}

#[test]
fn one_more_orphan_is_reported_with_the_others() {
    let (mut scanner, kubernetes) = (OrphanScanner::default(), kubernetes());
    let one = snapshot(vec![of("i-1", "team-a/gone")]);
    let two = snapshot(vec![of("i-1", "team-a/gone"), of("i-2", "team-a/lost")]);
    scanner.scan(one.clone(), &kubernetes);
    assert_eq!(scanner.scan(two.clone(), &kubernetes).events.len(), 1);
    let findings = scanner.scan(two.clone(), &kubernetes);
    assert_eq!(counted(&findings), 2);
    assert!(told(&findings)[0].2.starts_with("instances i-1, i-2 have the tags"), "{:?}", told(&findings));
}

#[test]
fn an_awsmachine_without_its_machine_counts_as_a_machine() {
    let (mut scanner, kubernetes) = (OrphanScanner::default(), kubernetes());
    let labelled = "labels: {cluster.x-k8s.io/cluster-name: dev}";
    kubernetes.put_aws_machine(aws_machine("orphan", labelled));
    let known = snapshot(vec![of("i-1", "team-a/orphan")]);
    scanner.scan(known.clone(), &kubernetes);
    assert_eq!(counted(&scanner.scan(known.clone(), &kubernetes)), 0);
}

#[test]
fn instances_of_unknown_clusters_are_no_orphans() {
    let (mut scanner, kubernetes) = (OrphanScanner::default(), kubernetes());
    let elsewhere = snapshot(vec![of("i-1", "team-b/gone"), of_cluster("i-2", "staging", "team-a/gone")]);
    scanner.scan(elsewhere.clone(), &kubernetes);
    assert_eq!(counted(&scanner.scan(elsewhere.clone(), &kubernetes)), 0);
}

#[test]
fn instances_of_other_management_clusters_are_no_orphans() {
    let (mut scanner, kubernetes) = (OrphanScanner::default(), kubernetes());
    let launched_by = |id: &str, management_cluster: Option<&str>| UnwatchedInstance {
        management_cluster: management_cluster.map(str::to_owned),
        ..of(id, "team-a/gone")
    };
    let elsewhere = snapshot(vec![launched_by("i-1", None), launched_by("i-2", Some("another"))]);
    scanner.scan(elsewhere.clone(), &kubernetes);
    let findings = scanner.scan(elsewhere.clone(), &kubernetes);
    assert_eq!((counted(&findings), findings.events.len()), (0, 0));
}

#[test]
fn an_orphan_counts_once_and_an_event_names_at_most_ten() {
    let (mut scanner, kubernetes) = (OrphanScanner::default(), kubernetes());
    let many: Vec<_> = (0..25).map(|index| of(&format!("i-{index:02}"), "team-a/gone")).collect();
    let twice: Vec<_> = [snapshot(many.clone()), snapshot(many)].concat();
    scanner.scan(twice.clone(), &kubernetes);
    let findings = scanner.scan(twice.clone(), &kubernetes);
    assert_eq!(counted(&findings), 25);
    let events = told(&findings);
    assert_eq!(events.len(), 1);
    assert!(events[0].2.contains("i-09 and others have the tags"), "{}", events[0].2);
}
