//! Tests of listings in which many instances are missing.

use super::*;

fn fleet(count: usize) -> Vec<Instance> {
    (0..count).map(|index| running(&format!("i-{index:03}"))).collect()
}

impl Rig {
    /// Advances by a minute. The listing shows `listed`, and the lookups that follow show `looked_up`.
    fn minute(&mut self, listed: &[Instance], looked_up: &[Instance]) -> Vec<InformerReport> {
        self.pass(60);
        let listing = self.call();
        let reports = self.informer.read_ended(listing, Ok(listed.to_vec()), self.now);
        let mut lookups = 0;
        while let Some(poll) = self.informer.next_read(self.now) {
            lookups += 1;
            assert!(lookups < 20, "lookups without end");
            let wanted = ids(&poll);
            let shown: Vec<_> = looked_up.iter().filter(|instance| wanted.contains(&instance.id)).cloned().collect();
            self.end(poll, &shown);
        }
        reports
    }

    fn absent(&mut self, fleet: &[Instance]) -> usize {
        let told = fleet.iter().filter(|instance| self.watch(&instance.id) == Observation::Absent);
        told.count()
    }
}

#[test]
fn a_mass_loss_counts_only_after_two_more_listings_agree() {
    let fleet = fleet(20);
    let mut rig = Rig::listed(&fleet);
    let loss = Loss { known: 20, lost: 20 };
    assert_eq!(rig.minute(&[], &[]), [InformerReport::ListingIncomplete(loss)]);
    assert_eq!((rig.absent(&fleet), rig.informer.instances()), (0, 20));
    assert_eq!(rig.minute(&[], &[]), []);
    assert_eq!((rig.absent(&fleet), rig.woken().len()), (0, 0), "no machine is woken");
    assert_eq!(rig.minute(&[], &[]), [InformerReport::ListingComplete]);
    assert_eq!((rig.absent(&fleet), rig.woken().len()), (20, 20));
    assert_eq!(rig.minute(&[], &[]), [], "instances that are gone are not missing again");
}

#[test]
fn more_than_a_fifth_and_more_than_five_are_too_much() {
    // The known instances, the missing ones, and whether their absence counts at once.
    for (known, lost, believed) in
        [(5, 5, true), (6, 6, false), (30, 6, true), (29, 6, false), (100, 20, true), (100, 21, false)]
    {
        let fleet = fleet(known);
        let mut rig = Rig::listed(&fleet);
        let reports = rig.minute(&fleet[lost..], &fleet[lost..]);
        assert_eq!(reports.is_empty(), believed, "{lost} of {known}");
        assert_eq!(rig.absent(&fleet), if believed { lost } else { 0 }, "{lost} of {known}");
    }
}

#[test]
fn a_fleet_that_reappears_never_counts_as_gone() {
    let fleet = fleet(20);
    let mut rig = Rig::listed(&fleet);
    rig.minute(&[], &[]);
    rig.minute(&[], &[]);
    assert_eq!(rig.minute(&fleet, &fleet), [InformerReport::ListingComplete]);
    assert_eq!((rig.absent(&fleet), rig.woken().len()), (0, 0));
    assert_eq!(
        rig.minute(&[], &[]),
        [InformerReport::ListingIncomplete(Loss { known: 20, lost: 20 })],
        "it counts from the start"
    );
    rig.minute(&[], &[]);
    assert_eq!(rig.absent(&fleet), 0);
}

#[test]
fn instances_of_machines_that_were_never_seen_count_as_lost() {
    let fleet = fleet(20);
    let mut rig = rig();
    for instance in &fleet {
        rig.watch(&instance.id);
    }
    assert_eq!(
        rig.minute(&[], &[]),
        [InformerReport::ListingIncomplete(Loss { known: 20, lost: 20 })],
        "after a restart"
    );
    rig.minute(&[], &[]);
    assert_eq!(rig.absent(&fleet), 0);
    rig.minute(&[], &[]);
    assert_eq!(rig.absent(&fleet), 20);
}

#[test]
fn ended_instances_disappear_without_a_report() {
    let fleet = fleet(20);
    let mut rig = Rig::listed(&fleet);
    let ended: Vec<_> = fleet.iter().map(|instance| super::instance(&instance.id, InstanceState::Terminated)).collect();
    assert_eq!(rig.minute(&ended, &ended), []);
    assert_eq!(rig.minute(&[], &[]), []);
}

#[test]
fn instances_that_only_lookups_show_are_no_loss() {
    let fleet = fleet(20);
    let mut rig = Rig::listed(&fleet);
    // A user removed the tag that listings filter by.
    assert_eq!(rig.minute(&[], &fleet), [InformerReport::ListingIncomplete(Loss { known: 20, lost: 20 })]);
    assert_eq!(rig.minute(&[], &fleet), [InformerReport::ListingComplete]);
    assert_eq!(rig.minute(&[], &fleet), []);
    assert_eq!(rig.minute(&[], &fleet[1..]), []);
    assert_eq!(rig.absent(&fleet), 1, "one that is really gone");
}

#[test]
fn no_instance_is_gone_before_its_lookup_agrees() {
    let fleet = fleet(20);
    let mut rig = Rig::listed(&fleet);
    for _ in 0..5 {
        rig.pass(60);
        let listing = rig.call();
        rig.end(listing, &[]);
        let poll = rig.call();
        rig.fail(poll, unreachable());
    }
    assert_eq!(rig.absent(&fleet), 0);
    rig.minute(&[], &[]);
    assert_eq!(rig.absent(&fleet), 20);
}

#[test]
fn an_instance_in_doubt_stays_known_without_watchers() {
    let mut rig = Rig::listed(&fleet(20));
    for index in 0..19 {
        rig.informer.forget(&machine(&format!("i-{index:03}")));
    }
    rig.minute(&[], &[]);
    assert_eq!(rig.informer.instances(), 20);
    rig.minute(&[], &[]);
    rig.minute(&[], &[]);
    assert_eq!(rig.informer.instances(), 0);
}

#[test]
fn a_snapshot_shows_doubt_and_unwatched_live_instances() {
    let mut rig = Rig::listed(&fleet(2));
    rig.minute(
        &[
            running("i-000"),
            running("i-001"),
            running("i-other"),
            super::instance("i-ended", InstanceState::Terminated),
        ],
        &[],
    );
    let view = rig.informer.snapshot();
    assert_eq!(view.doubted, [], "a snapshot contains no regular instances");
    let unwatched: Vec<_> = view.unwatched.iter().map(|instance| &*instance.id).collect();
    assert_eq!(unwatched, ["i-other"]);
    let mut rig = Rig::listed(&fleet(20));
    rig.minute(&[], &[]);
    assert_eq!(rig.informer.snapshot().doubted.len(), 20);
}

#[test]
fn a_doubted_listing_proves_the_end_of_what_shuts_down() {
    let fleet = fleet(20);
    let ending = instance("i-ending", InstanceState::ShuttingDown);
    let mut rig = Rig::listed(&[fleet.as_slice(), std::slice::from_ref(&ending)].concat());
    let reports = rig.minute(&[], &[]);
    assert!(matches!(reports[..], [InformerReport::ListingIncomplete(_)]), "{reports:?}");
    assert_eq!(rig.watch("i-ending"), Observation::Absent);
    assert_eq!(rig.absent(&fleet), 0);
}
