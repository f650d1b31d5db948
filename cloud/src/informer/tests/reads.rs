//! Tests of reads that overlap with other reads and with launches.

use super::*;

#[test]
fn a_lookup_outside_of_the_informer_shows_the_newer_state() {
    let mut rig = Rig::listed(&[running("i-1")]);
    let began = rig.informer.lookup_began();
    rig.informer.lookup_ended(began, &[instance("i-1", InstanceState::Stopped)]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Stopped));
}

#[test]
fn an_older_lookup_outside_of_the_informer_changes_nothing() {
    let mut rig = Rig::listed(&[running("i-1")]);
    let began = rig.informer.lookup_began();
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[running("i-1")]);
    rig.informer.lookup_ended(began, &[instance("i-1", InstanceState::Stopped)]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Running));
}

#[test]
fn an_instance_that_is_launched_during_a_listing_is_kept() {
    let mut rig = rig();
    rig.watch("i-1");
    let listing = rig.call();
    // The first machine of its cluster watches the instance after the answer of the launch.
    let launched = Instance { tags: tags("default", "i-2", "another"), ..instance("i-2", InstanceState::Pending) };
    rig.informer.launched(&launched, rig.now);
    rig.end(listing, &[running("i-1")]);
    let seen = rig.informer.watch(&machine("i-2"), "another", "i-2");
    assert_eq!(state(&seen), Some(InstanceState::Pending));
}

#[test]
fn a_terminated_instance_stays_terminated() {
    let mut rig = Rig::listed(&[instance("i-1", InstanceState::Terminated)]);
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[running("i-1")]);
    assert_eq!(state(&rig.watch("i-1")), Some(InstanceState::Terminated));
}
