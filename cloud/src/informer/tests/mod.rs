mod clusters;
mod credentials;
mod disappearance;
mod overdue;
mod reads;
mod refused_reads;
mod snapshot;
mod terminations;

use std::collections::BTreeMap;

use capa_api::meta;

use super::*;

/// An informer with its clock. The tests answer its calls.
struct Rig {
    informer: InstanceInformer,
    now: Duration,
}

fn rig() -> Rig {
    Rig { informer: InstanceInformer::new(Timing::default()), now: Duration::ZERO }
}

fn machine(name: &str) -> MachineKey {
    MachineKey { namespace: "default".into(), name: name.into() }
}

/// An instance of the cluster `dev`. The instance and its machine have the same name.
fn instance(id: &str, state: InstanceState) -> Instance {
    Instance {
        id: id.into(),
        state,
        state_reason: None,
        instance_type: "t3.large".into(),
        availability_zone: "eu-west-1a".into(),
        subnet_id: None,
        vpc_id: None,
        primary_interface: None,
        volume_ids: vec![],
        metadata_options: None,
        client_token: None,
        launch_time: None,
        addresses: vec![],
        tags: tags("default", id, "dev"),
    }
}

/// The tags of a machine's instance.
fn tags(namespace: &str, machine: &str, cluster: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (meta::MACHINE_NAME_TAG.to_owned(), meta::machine_name_tag_value(namespace, machine)),
        (meta::cluster_tag(cluster), meta::OWNED_TAG_VALUE.to_owned()),
    ])
}

fn running(id: &str) -> Instance {
    instance(id, InstanceState::Running)
}

fn unauthorized() -> CloudError {
    CloudError::answered("DescribeInstances", "AuthFailure", "refused")
}

fn unreachable() -> CloudError {
    CloudError::no_answer("DescribeInstances", "no answer in time")
}

impl Rig {
    fn watch(&mut self, id: &str) -> Observation {
        self.informer.watch(&machine(id), "dev", id)
    }

    /// The calls that are due now.
    fn due(&mut self) -> Vec<InstanceRead> {
        std::iter::from_fn(|| self.informer.next_read(self.now)).collect()
    }

    /// The one call that is due now.
    fn call(&mut self) -> InstanceRead {
        let mut calls = self.due();
        assert_eq!(calls.len(), 1, "{calls:?}");
        calls.remove(0)
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn end(&mut self, call: InstanceRead, instances: &[Instance]) {
        self.informer.read_ended(call, Ok(instances.to_vec()), self.now);
    }

    fn fail(&mut self, call: InstanceRead, error: CloudError) -> Vec<InformerReport> {
        self.informer.read_ended(call, Err(error), self.now)
    }

    fn woken(&mut self) -> Vec<String> {
        self.informer.take_woken().into_iter().map(|machine| machine.name).collect()
    }

    /// An informer that watches these instances and has listed them once, at time zero.
    fn listed(instances: &[Instance]) -> Self {
        let mut rig = rig();
        for instance in instances {
            rig.watch(&instance.id);
        }
        let call = rig.call();
        rig.end(call, instances);
        rig.woken();
        rig
    }
}

fn ids(call: &InstanceRead) -> Vec<String> {
    match call {
        InstanceRead::Lookup { ids, .. } => ids.clone(),
        InstanceRead::List { .. } => panic!("a listing"),
    }
}

fn state(observation: &Observation) -> Option<InstanceState> {
    match observation {
        Observation::Seen(instance) => Some(instance.state),
        _ => None,
    }
}

#[test]
fn without_machines_there_are_no_calls() {
    let mut rig = rig();
    assert_eq!(rig.informer.next_due(), None);
    assert_eq!(rig.due(), []);
    rig.watch("i-1");
    assert!(matches!(rig.call(), InstanceRead::List { .. }));
    rig.informer.forget(&machine("i-1"));
    rig.pass(3600);
    assert_eq!(rig.informer.next_due(), None);
    assert_eq!(rig.due(), []);
}

#[test]
fn the_first_machine_and_the_interval_start_listings() {
    let mut rig = rig();
    rig.pass(7);
    rig.watch("i-1");
    assert!(rig.informer.next_due() <= Some(rig.now));
    let call = rig.call();
    rig.pass(10);
    rig.watch("i-2");
    assert_eq!(rig.due(), [], "one listing at a time");
    rig.end(call, &[running("i-1"), running("i-2")]);
    assert_eq!(rig.informer.next_due(), Some(Duration::from_secs(67)));
    rig.pass(49);
    assert_eq!(rig.due(), []);
    rig.pass(1);
    assert!(matches!(rig.call(), InstanceRead::List { .. }));
}

#[test]
fn exactly_the_machines_whose_instance_changed_are_woken() {
    let mut rig = rig();
    for id in ["i-1", "i-2", "i-3"] {
        assert_eq!(rig.watch(id), Observation::Unknown);
    }
    let call = rig.call();
    rig.end(call, &[running("i-1"), running("i-2"), running("i-unwatched")]);
    assert_eq!(rig.woken(), ["i-1", "i-2"]);
    rig.pass(60);
    let calls = rig.due();
    rig.end(calls[0].clone(), &[running("i-1"), instance("i-2", InstanceState::Stopped), running("i-unwatched")]);
    assert_eq!(rig.woken(), ["i-2"]);
    assert_eq!(rig.informer.instances(), 3);
    assert_eq!(state(&rig.watch("i-2")), Some(InstanceState::Stopped));
}

#[test]
fn a_late_machine_gets_the_known_observation() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.informer.launched(&running("i-2"), rig.now);
    assert_eq!(state(&rig.watch("i-2")), Some(InstanceState::Running));
    assert_eq!(rig.woken(), [""; 0]);
}

#[test]
fn absence_takes_a_listing_and_a_lookup_begun_after_the_watch() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.pass(60);
    let early = rig.call();
    assert_eq!(rig.watch("i-2"), Observation::Unknown);
    rig.end(early, &[running("i-1")]);
    assert_eq!(rig.due(), [], "an earlier listing proves nothing");
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[running("i-1")]);
    assert_eq!(rig.watch("i-2"), Observation::Unknown, "the listing alone proves nothing");
    let poll = rig.call();
    assert_eq!(ids(&poll), ["i-2"]);
    rig.end(poll, &[]);
    assert_eq!(rig.watch("i-2"), Observation::Absent);
    assert_eq!(rig.woken(), ["i-2"]);
    assert_eq!(rig.informer.absence_age("i-2", rig.now), Duration::ZERO);
    let later = rig.now + Duration::from_secs(400);
    assert_eq!(rig.informer.absence_age("i-2", later), Duration::from_secs(400));
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[running("i-1")]);
    assert_eq!(rig.due(), [], "an absent instance is not looked up again");
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[running("i-1"), running("i-2")]);
    assert_eq!(rig.woken(), ["i-2"], "an absent instance may still appear");
}

#[test]
fn a_lookup_finds_an_instance_that_listings_miss() {
    let mut rig = rig();
    rig.watch("i-untagged");
    let listing = rig.call();
    rig.end(listing, &[]);
    let poll = rig.call();
    rig.end(poll, &[running("i-untagged")]);
    assert_eq!(state(&rig.watch("i-untagged")), Some(InstanceState::Running));
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[]);
    assert_eq!(ids(&rig.call()), ["i-untagged"], "it is looked up after each listing");
}

#[test]
fn a_listing_that_began_before_a_write_cannot_undo_it() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.pass(60);
    let listing = rig.call();
    rig.informer.launched(&instance("i-2", InstanceState::Pending), rig.now);
    rig.watch("i-2");
    rig.informer.changed_state("i-1", InstanceState::ShuttingDown);
    rig.woken();
    rig.end(listing, &[running("i-1")]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::ShuttingDown));
    assert_eq!(state(&rig.watch("i-2")), Some(InstanceState::Pending));
    assert_eq!(rig.woken(), [""; 0]);
    assert_eq!(rig.due(), [], "nor does it make a lookup necessary");
}

#[test]
fn a_launched_instance_is_absent_only_after_later_reads() {
    let mut rig = rig();
    rig.informer.launched(&running("i-1"), rig.now);
    rig.watch("i-1");
    assert_eq!(rig.due(), [], "the answer of the launch shows the only instance");
    rig.pass(5);
    let listing = rig.call();
    rig.end(listing, &[]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
    let poll = rig.call();
    rig.end(poll, &[]);
    assert_eq!(rig.watch("i-1"), Observation::Absent);
}

#[test]
fn a_lookup_older_than_a_listing_brings_no_old_state_back() {
    let mut rig = Rig::listed(&[instance("i-1", InstanceState::Pending)]);
    rig.pass(5);
    assert_eq!(rig.due(), [], "the clock of the polls starts with the transition");
    rig.pass(5);
    let poll = rig.call();
    rig.pass(50);
    let listing = rig.call();
    rig.end(listing, &[running("i-1")]);
    rig.end(poll, &[instance("i-1", InstanceState::Pending)]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
}

#[test]
fn a_listing_replaces_the_poll_of_its_time() {
    let mut rig = rig();
    rig.informer.launched(&instance("i-1", InstanceState::Pending), rig.now);
    rig.watch("i-1");
    assert_eq!(rig.due(), []);
    rig.pass(5);
    let listing = rig.call();
    assert!(matches!(listing, InstanceRead::List { .. }), "{listing:?}");
    rig.end(listing, &[instance("i-1", InstanceState::Pending)]);
    rig.pass(4);
    assert_eq!(rig.due(), []);
    rig.pass(1);
    let poll = rig.call();
    assert!(matches!(poll, InstanceRead::Lookup { .. }), "{poll:?}");
}

#[test]
fn only_watched_instances_in_transition_are_polled() {
    let mut rig = Rig::listed(&[
        running("i-1"),
        instance("i-2", InstanceState::Pending),
        instance("i-3", InstanceState::Terminated),
        instance("i-4", InstanceState::Stopping),
    ]);
    rig.informer.launched(&instance("i-unwatched", InstanceState::Pending), rig.now);
    assert_eq!(rig.due(), []);
    assert_eq!(rig.informer.next_due(), Some(Duration::from_secs(5)));
    rig.pass(5);
    let poll = rig.call();
    assert_eq!(ids(&poll), ["i-2", "i-4"]);
    rig.end(poll, &[running("i-2"), instance("i-4", InstanceState::Stopping)]);
    assert_eq!(rig.woken(), ["i-2"]);
    assert_eq!(rig.due(), []);
    rig.pass(5);
    let poll = rig.call();
    assert_eq!(ids(&poll), ["i-4"]);
    rig.end(poll, &[instance("i-4", InstanceState::Stopped)]);
    rig.pass(5);
    assert_eq!(rig.due(), []);
    assert_eq!(rig.informer.next_due(), Some(Duration::from_secs(60)));
}

#[test]
fn more_ids_than_a_filter_takes_are_split() {
    let pending: Vec<_> = (0..450).map(|index| instance(&format!("i-{index:03}"), InstanceState::Pending)).collect();
    let mut rig = Rig::listed(&pending);
    assert_eq!(rig.due(), []);
    rig.pass(5);
    let mut sizes = vec![];
    loop {
        let calls = rig.due();
        let Some(call) = calls.into_iter().next() else { break };
        sizes.push(ids(&call).len());
        rig.end(call, &pending);
    }
    assert_eq!(sizes, [200, 200, 50]);
}

#[test]
fn calls_that_fail_conclude_nothing() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.pass(60);
    let listing = rig.call();
    assert_eq!(rig.fail(listing, unreachable()).len(), 1);
    assert_eq!(rig.due(), []);
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[]);
    let poll = rig.call();
    assert_eq!(rig.fail(poll, unreachable()).len(), 1);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
    assert_eq!(rig.woken(), [""; 0]);
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[]);
    assert_eq!(ids(&rig.call()), ["i-1"], "the lookup is repeated after the next listing");
}

#[test]
fn a_terminated_instance_stays_terminated_after_ec2_forgets_it() {
    let mut rig = Rig::listed(&[instance("i-1", InstanceState::Terminated)]);
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[]);
    assert_eq!(rig.due(), []);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Terminated));
    rig.informer.forget(&machine("i-1"));
    assert_eq!(rig.informer.instances(), 0);
}

#[test]
fn a_write_changes_what_is_known_of_an_instance() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.pass(60);
    let listing = rig.call();
    rig.informer.changed("i-1", |instance| instance.volume_ids = vec!["vol-1".to_owned()]);
    rig.informer.changed("i-2", |_| panic!("nothing is known of the instance"));
    let volumes = |rig: &mut Rig| match rig.watch("i-1") {
        Observation::Seen(instance) => instance.volume_ids.clone(),
        Observation::Absent | Observation::Unknown => Vec::new(),
    };
    assert_eq!(volumes(&mut rig), ["vol-1"]);
    rig.end(listing, &[running("i-1")]);
    assert_eq!(volumes(&mut rig), ["vol-1"], "the listing began before the write");
}

#[test]
fn a_stale_read_does_not_revive_a_terminated_instance() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.informer.changed_state("i-1", InstanceState::ShuttingDown);
    assert_eq!(rig.woken(), ["i-1"]);
    rig.pass(60);
    let listing = rig.due().remove(0);
    rig.end(listing, &[running("i-1")]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::ShuttingDown));
    assert_eq!(rig.woken(), [""; 0]);
}

#[test]
fn a_failure_is_reported_once_per_error_and_its_end_once() {
    let mut rig = Rig::listed(&[running("i-1")]);
    let mut report = |answer: Result<Vec<Instance>, CloudError>| {
        rig.pass(60);
        let call = rig.due().remove(0);
        rig.informer.read_ended(call, answer, rig.now)
    };
    assert_eq!(report(Err(unreachable())), [InformerReport::Failing(unreachable())]);
    assert_eq!(report(Err(unreachable())), []);
    assert_eq!(report(Err(unauthorized())), [InformerReport::Failing(unauthorized())]);
    assert_eq!(report(Ok(vec![running("i-1")])), [InformerReport::Recovered]);
    assert_eq!(report(Ok(vec![running("i-1")])), []);
}

#[test]
fn refused_credentials_wake_every_machine_once() {
    let mut rig = Rig::listed(&[running("i-1"), running("i-2")]);
    let mut woken = |error: CloudError| {
        rig.pass(60);
        let call = rig.due().remove(0);
        rig.fail(call, error);
        rig.woken()
    };
    assert_eq!(woken(unreachable()), [""; 0]);
    assert_eq!(woken(unauthorized()), ["i-1", "i-2"]);
    assert_eq!(woken(unauthorized()), [""; 0]);
}

#[test]
fn unwatched_instances_are_dropped_when_a_listing_misses_them() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.informer.launched(&running("i-2"), rig.now);
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[running("i-1")]);
    assert_eq!(rig.informer.instances(), 1);
}

#[test]
fn a_machine_watches_one_instance_at_a_time() {
    let mut rig = Rig::listed(&[running("i-1"), running("i-2")]);
    let mover = machine("i-1");
    assert_eq!(state(&rig.informer.watch(&mover, "dev", "i-2")), Some(InstanceState::Running));
    rig.informer.changed_state("i-1", InstanceState::Stopped);
    assert_eq!(rig.woken(), [""; 0]);
    rig.informer.changed_state("i-2", InstanceState::Stopped);
    assert_eq!(rig.woken(), ["i-1", "i-2"]);
}

#[test]
fn a_pass_lookup_shows_instances_and_proves_no_absence() {
    let mut rig = Rig::listed(&[running("i-1")]);
    let began = rig.informer.lookup_began();
    rig.informer.lookup_ended(began, &[running("i-2")]);
    assert_eq!(state(&rig.watch("i-2")), Some(InstanceState::Running));
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
}

#[test]
fn an_old_pass_lookup_does_not_undo_newer_reads() {
    let mut rig = rig();
    rig.watch("i-1");
    let began = rig.informer.lookup_began();
    let listing = rig.call();
    rig.end(listing, &[]);
    let poll = rig.call();
    rig.end(poll, &[]);
    rig.informer.lookup_ended(began, &[running("i-1")]);
    assert_eq!(rig.watch("i-1"), Observation::Absent);
}

#[test]
fn a_terminated_instance_stays_terminated_when_a_poll_misses_it() {
    let mut rig = Rig::listed(&[instance("i-1", InstanceState::ShuttingDown)]);
    assert_eq!(rig.due(), []);
    rig.pass(59);
    let poll = rig.call();
    rig.pass(1);
    let listing = rig.call();
    rig.end(listing, &[instance("i-1", InstanceState::Terminated)]);
    rig.end(poll, &[]);
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Terminated));
}
