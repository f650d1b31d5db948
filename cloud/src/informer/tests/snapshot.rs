//! Tests of the snapshots and counts of an informer.

use super::*;
use crate::ControlPlaneTarget;
use crate::targets::{TargetPolicy, TargetRequest, TargetUser};

#[test]
fn a_failed_listing_is_told_until_one_succeeds() {
    let mut rig = rig();
    rig.watch("i-1");
    let listing = rig.call();
    rig.fail(listing, unreachable());
    assert_eq!(rig.informer.reading_failure(), Some(&unreachable()));
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[running("i-1")]);
    assert_eq!(rig.informer.reading_failure(), None);
}

#[test]
fn a_failed_lookup_is_told_until_one_succeeds() {
    let pending = instance("i-1", InstanceState::Pending);
    let mut rig = Rig::listed(std::slice::from_ref(&pending));
    assert_eq!(rig.due(), []);
    rig.pass(5);
    let lookup = rig.call();
    rig.fail(lookup, unreachable());
    assert_eq!(rig.informer.reading_failure(), Some(&unreachable()));
    rig.pass(5);
    let lookup = rig.call();
    rig.end(lookup, &[pending]);
    assert_eq!(rig.informer.reading_failure(), None);
}

#[test]
fn the_last_listing_has_its_end_and_its_duration() {
    let mut rig = rig();
    rig.watch("i-1");
    assert!(rig.informer.last_listing().is_none());
    rig.pass(10);
    let listing = rig.call();
    rig.pass(3);
    rig.end(listing, &[running("i-1")]);
    let last = rig.informer.last_listing().expect("a listing has ended");
    assert_eq!((last.ended.as_secs(), last.took.as_secs()), (13, 3));
}

#[test]
fn every_stored_entry_is_counted() {
    let pending = instance("i-3", InstanceState::Pending);
    let mut rig = Rig::listed(&[running("i-1"), running("i-2"), pending.clone()]);
    let (instances, machines, in_transition) = (3, 3, 1);
    assert_eq!(rig.informer.entries(), instances + machines + in_transition);
    rig.pass(60);
    let listing = rig.call();
    rig.end(listing, &[running("i-1"), pending]);
    rig.informer.changed_state("i-1", InstanceState::Stopping);
    let (in_transition, wanted, woken) = (2, 1, 1);
    let kept = instances + machines + in_transition + wanted + woken;
    assert_eq!(rig.informer.entries(), kept);
    for id in ["i-1", "i-3"] {
        let submitted = rig.informer.terminate(&machine(id), "dev", id, rig.now);
        assert_eq!(submitted, Ok(()));
    }
    let (submitted, open) = (2, 2);
    assert_eq!(rig.informer.entries(), kept + submitted + open);
    rig.pass(1);
    let batch = rig.informer.next_termination(rig.now).expect("a batch is due");
    assert_eq!(batch.ids().len(), 2);
    assert_eq!(rig.informer.entries(), kept + submitted);
}

/// The API target of a control plane machine.
fn target() -> TargetRequest {
    TargetRequest {
        target: ControlPlaneTarget { classic_load_balancer_name: Some("api".into()), ..ControlPlaneTarget::default() },
        user: TargetUser {
            cluster: "default/dev".into(),
            cluster_tag: "dev".into(),
            policy: TargetPolicy::Any,
            used_by: None,
        },
        on_record: false,
    }
}

#[test]
fn targets_are_asked_for_and_forgotten() {
    let mut rig = Rig::listed(&[running("i-1")]);
    let before = rig.informer.entries();
    assert_eq!(rig.informer.ask_for_targets(&machine("i-1"), &[target()], rig.now).len(), 1);
    assert!(rig.informer.entries() > before);
    rig.informer.forget_targets(&machine("i-1"));
    assert_eq!(rig.informer.entries(), before);
}
