//! Tests of replaced credentials: an absence is proven for one set of credentials.

use super::*;

impl Rig {
    /// Answers one listing and the lookups that follow with these instances.
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
fn replaced_credentials_prove_an_absence_anew() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.shown(&[]);
    assert_eq!(rig.watch("i-1"), Observation::Absent);
    rig.informer.credentials_replaced(1);
    assert_eq!(rig.watch("i-1"), Observation::Unknown);
    rig.shown(&[running("i-1")]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
    rig.informer.credentials_replaced(1);
    rig.shown(&[]);
    assert_eq!(rig.watch("i-1"), Observation::Absent, "the credentials are the same as before");
}

#[test]
fn an_instance_missed_with_the_new_credentials_too_is_absent() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.shown(&[]);
    rig.informer.credentials_replaced(1);
    rig.woken();
    rig.shown(&[]);
    assert_eq!(rig.watch("i-1"), Observation::Absent);
    assert_eq!(rig.woken(), ["i-1"]);
    assert_eq!(rig.informer.absence_age("i-1", rig.now), Duration::ZERO);
}

#[test]
fn reads_with_different_credentials_prove_no_absence() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[]);
    rig.informer.credentials_replaced(1);
    assert_eq!(rig.due(), [], "lookups wait for a listing with the new credentials");
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[running("i-1")]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
}

#[test]
fn instances_of_one_account_are_unknown_in_another() {
    let mut rig = rig();
    rig.informer.belongs_to("111111111111");
    rig.watch("i-1");
    let listing = rig.call();
    rig.end(listing, &[running("i-1")]);
    rig.informer.belongs_to("111111111111");
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running), "the same account");
    rig.pass(60);
    let of_the_first = rig.call();
    rig.woken();
    rig.informer.belongs_to("222222222222");
    assert_eq!(rig.watch("i-1"), Observation::Unknown);
    assert_eq!(rig.woken(), ["i-1"]);
    rig.end(of_the_first, &[running("i-1")]);
    assert_eq!(rig.watch("i-1"), Observation::Unknown, "the call began before");
    rig.shown(&[]);
    assert_eq!(rig.watch("i-1"), Observation::Absent);
    rig.informer.belongs_to("111111111111");
    rig.shown(&[running("i-1")]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
}

#[test]
fn calls_under_way_during_a_replacement_prove_no_absence() {
    let mut rig = Rig::listed(&[running("i-1")]);
    rig.pass(60);
    let listing = rig.call();
    rig.informer.credentials_replaced(1);
    rig.end(listing, &[]);
    assert_eq!(rig.due(), []);
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[]);
    let poll = rig.call();
    rig.informer.credentials_replaced(2);
    rig.end(poll, &[]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
}
