//! Tests of the scope of listings: an informer lists and stores the instances of its machines' clusters.

use super::*;

/// A running instance of a machine in a namespace, of a cluster.
fn of(id: &str, namespace: &str, cluster: &str) -> Instance {
    Instance { tags: tags(namespace, id, cluster), ..running(id) }
}

impl Rig {
    fn watch_of(&mut self, cluster: &str, id: &str) -> Observation {
        self.informer.watch(&machine(id), cluster, id)
    }

    /// The listing that is due now, and the clusters of its scope.
    fn listing(&mut self) -> (InstanceRead, Vec<String>) {
        let call = self.call();
        let InstanceRead::List { scope, .. } = &call else {
            panic!("{call:?}");
        };
        let clusters = match scope {
            ListingScope::Clusters(names) => names.iter().map(|name| name.as_ref().to_owned()).collect(),
            ListingScope::AllClusters => vec!["all".to_owned()],
        };
        (call, clusters)
    }

    fn known(&self) -> Vec<&str> {
        let mut known: Vec<_> = self.informer.records.keys().map(|id| &**id).collect();
        known.sort_unstable();
        known
    }
}

#[test]
fn a_cluster_that_joins_is_listed_soon() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.pass(2);
    rig.watch_of("prod", "i-2");
    assert_eq!(rig.informer.next_due(), Some(Duration::from_secs(5)));
    assert_eq!(rig.due(), []);
    rig.pass(3);
    let (listing, clusters) = rig.listing();
    assert_eq!(clusters, ["dev", "prod"]);
    rig.watch_of("third", "i-3");
    rig.end(listing, &[running("i-1"), of("i-2", "default", "prod")]);
    assert_eq!(state(&rig.watch_of("prod", "i-2")), Some(InstanceState::Running));
    assert_eq!(rig.due(), [], "one listing in five seconds, however many clusters come");
    rig.pass(5);
    let (listing, clusters) = rig.listing();
    assert_eq!(clusters, ["dev", "prod", "third"]);
    rig.end(listing, &[running("i-1"), of("i-2", "default", "prod")]);
    let poll = rig.call();
    rig.end(poll, &[]);
    assert_eq!(rig.watch_of("third", "i-3"), Observation::Absent);
    assert_eq!(rig.informer.next_due(), Some(Duration::from_secs(70)), "then as usual");
}

/// A separate lookup finds the instance before any listing covers its cluster.
#[test]
fn a_listing_proves_no_absence_for_a_cluster_it_does_not_cover() {
    let mut rig = Rig::listed(&[running("i-1")]);
    let began = rig.informer.lookup_began();
    rig.informer.lookup_ended(began, &[of("i-2", "default", "prod")]);
    rig.pass(60);
    let (listing, clusters) = rig.listing();
    assert_eq!(clusters, ["dev"]);
    assert_eq!(state(&rig.watch_of("prod", "i-2")), Some(InstanceState::Running));
    rig.end(listing, &[running("i-1")]);
    assert_eq!(rig.due(), [], "only instances missing from a listing are looked up");
    assert_eq!(state(&rig.watch_of("prod", "i-2")), Some(InstanceState::Running));
    rig.pass(5);
    let (listing, clusters) = rig.listing();
    assert_eq!(clusters, ["dev", "prod"]);
    rig.end(listing, &[running("i-1")]);
    assert_eq!(ids(&rig.call()), ["i-2"]);
}

#[test]
fn another_cluster_of_a_machine_restarts_its_absence_proof() {
    let mut rig = rig();
    rig.watch("i-1");
    let listing = rig.call();
    rig.end(listing, &[]);
    let poll = rig.call();
    rig.end(poll, &[]);
    assert_eq!(rig.watch("i-1"), Observation::Absent);
    assert_eq!(rig.watch_of("prod", "i-1"), Observation::Unknown);
    rig.pass(60);
    let (listing, clusters) = rig.listing();
    assert_eq!(clusters, ["prod"]);
    rig.end(listing, &[of("i-1", "default", "prod")]);
    assert_eq!(state(&rig.watch_of("prod", "i-1")), Some(InstanceState::Running));
}

#[test]
fn instances_of_a_cluster_that_leaves_are_no_loss() {
    let fleet: Vec<_> = (0..20).map(|index| of(&format!("i-{index:02}"), "default", "prod")).collect();
    let mut rig = rig();
    rig.watch("i-1");
    rig.watch_of("prod", "i-00");
    let (listing, _) = rig.listing();
    let shown: Vec<_> = fleet.iter().cloned().chain([running("i-1")]).collect();
    rig.end(listing, &shown);
    assert_eq!(rig.informer.instances(), 21, "machines may join later that watch the others");
    rig.informer.forget(&machine("i-00"));
    rig.pass(60);
    let (listing, clusters) = rig.listing();
    assert_eq!(clusters, ["dev"]);
    let reports = rig.informer.read_ended(listing, Ok(vec![running("i-1")]), rig.now);
    assert_eq!(reports, []);
    assert_eq!(rig.known(), ["i-1"]);
}

#[test]
fn a_loss_in_one_cluster_is_doubted_while_another_joins() {
    let mut rig = Rig::listed(&(0..20).map(|index| running(&format!("i-{index:02}"))).collect::<Vec<_>>());
    rig.watch_of("prod", "i-new");
    rig.pass(5);
    let (listing, _) = rig.listing();
    let reports = rig.informer.read_ended(listing, Ok(vec![of("i-new", "default", "prod")]), rig.now);
    let loss = Loss { known: 21, lost: 20 };
    assert_eq!(reports, [InformerReport::ListingIncomplete(loss)]);
}

#[test]
fn instances_of_clusters_that_others_follow_are_not_kept() {
    let mut rig = rig();
    for index in 0..=VALUES_PER_FILTER {
        rig.watch_of(&format!("c{index}"), &format!("i-{index}"));
    }
    let (listing, clusters) = rig.listing();
    assert_eq!(clusters, ["all"]);
    let watched: Vec<_> =
        (0..=VALUES_PER_FILTER).map(|index| of(&format!("i-{index}"), "default", &format!("c{index}"))).collect();
    let others = (0..5_000).map(|index| of(&format!("i-other-{index}"), "default", "elsewhere"));
    let namesakes = (0..100).map(|index| of(&format!("i-namesake-{index}"), "neighbour", "c1"));
    let unwatched = [of("i-unwatched", "default", "c1")];
    let shown: Vec<_> = watched.iter().cloned().chain(others).chain(namesakes).chain(unwatched).collect();
    rig.end(listing, &shown);
    assert_eq!(rig.informer.instances(), VALUES_PER_FILTER + 2);
    let unwatched = rig.informer.snapshot().unwatched;
    let expected = UnwatchedInstance {
        id: "i-unwatched".into(),
        namespace: "default".into(),
        machine: "i-unwatched".into(),
        cluster: "c1".into(),
        management_cluster: None,
    };
    assert_eq!(unwatched, [expected]);
}

#[test]
fn an_instance_that_a_machine_watches_is_kept_whatever_its_tags() {
    let mut rig = rig();
    rig.watch("i-1");
    let (listing, _) = rig.listing();
    rig.end(listing, &[of("i-1", "elsewhere", "other")]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
}

#[test]
fn an_informer_without_machines_stores_nothing() {
    let mut rig = Rig::listed(&[running("i-1"), running("i-2")]);
    rig.informer.launched(&running("i-3"), rig.now);
    rig.informer.forget(&machine("i-1"));
    assert_eq!(rig.informer.instances(), 3);
    rig.informer.forget(&machine("i-2"));
    assert_eq!(rig.informer.entries(), 0);
    for index in 0..10 {
        let began = rig.informer.lookup_began();
        let found = running(&format!("i-found-{index}"));
        rig.informer.lookup_ended(began, &[found]);
    }
    assert_eq!(rig.informer.entries(), 1, "a machine may soon watch an instance of the last lookup");
}
