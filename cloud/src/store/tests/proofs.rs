//! What is proven with some credentials is not proven with others.

use super::*;

impl Rig {
    /// One listing and whatever lookups follow from it, all of which show these instances.
    fn shown(&mut self, instances: &[Instance]) {
        self.pass(60);
        for _ in 0..2 {
            for call in self.due() {
                self.end(call, instances);
            }
        }
    }
}

#[test]
fn what_was_missed_with_credentials_that_were_replaced_is_looked_for_anew() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.shown(&[]);
    assert_eq!(rig.watch("i-1"), Observation::Absent);
    rig.store.credentials_replaced(1);
    assert_eq!(rig.watch("i-1"), Observation::Unknown);
    rig.shown(&[running("i-1")]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
    rig.store.credentials_replaced(1);
    rig.shown(&[]);
    assert_eq!(
        rig.watch("i-1"),
        Observation::Absent,
        "the credentials are the same as before"
    );
}

#[test]
fn an_instance_that_is_not_shown_with_the_new_credentials_either_is_absent() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.shown(&[]);
    rig.store.credentials_replaced(1);
    rig.woken();
    rig.shown(&[]);
    assert_eq!(rig.watch("i-1"), Observation::Absent);
    assert_eq!(rig.woken(), ["i-1"]);
    assert_eq!(rig.store.absence_age("i-1", rig.now), Duration::ZERO);
}

#[test]
fn a_listing_and_a_lookup_with_different_credentials_prove_nothing_together() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[]);
    rig.store.credentials_replaced(1);
    assert_eq!(rig.due(), [], "nothing is looked up before the new credentials list");
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[running("i-1")]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
}

#[test]
fn what_the_credentials_of_one_account_showed_is_not_known_to_those_of_another() {
    let mut rig = rig();
    rig.store.belongs_to("111111111111");
    rig.watch("i-1");
    let listing = rig.call();
    rig.end(listing, &[running("i-1")]);
    rig.store.belongs_to("111111111111");
    assert_eq!(
        state(&rig.watch("i-1")),
        Some(InstanceState::Running),
        "the same account"
    );
    rig.pass(60);
    let of_the_first = rig.call();
    rig.woken();
    rig.store.belongs_to("222222222222");
    assert_eq!(rig.watch("i-1"), Observation::Unknown);
    assert_eq!(rig.woken(), ["i-1"]);
    rig.end(of_the_first, &[running("i-1")]);
    assert_eq!(rig.watch("i-1"), Observation::Unknown, "the call began before");
    rig.shown(&[]);
    assert_eq!(rig.watch("i-1"), Observation::Absent);
    rig.store.belongs_to("111111111111");
    rig.shown(&[running("i-1")]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
}

#[test]
fn calls_under_way_when_credentials_are_replaced_prove_no_absence() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.pass(60);
    let listing = rig.call();
    rig.store.credentials_replaced(1);
    rig.end(listing, &[]);
    assert_eq!(rig.due(), []);
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[]);
    let look = rig.call();
    rig.store.credentials_replaced(2);
    rig.end(look, &[]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
}
