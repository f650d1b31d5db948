//! Tests of the waits after refused reads.

use super::*;

impl Rig {
    /// Refuses each read that becomes due in this many seconds. Returns the seconds at which the reads began.
    fn refused_in(&mut self, seconds: u64) -> Vec<u64> {
        let mut began = Vec::new();
        for _ in 0..seconds {
            for call in self.due() {
                began.push(self.now.as_secs());
                self.fail(call, unauthorized());
            }
            self.pass(1);
        }
        began
    }
}

#[test]
fn refused_listings_back_off_to_one_in_five_minutes() {
    let mut rig = rig();
    rig.watch("i-1");
    assert_eq!(rig.refused_in(1_100), [0, 60, 180, 420, 720, 1_020]);
    assert_eq!(rig.informer.next_due(), Some(Duration::from_secs(1_320)));
    rig.informer.watch(&machine("i-2"), "other", "i-2");
    assert_eq!(rig.refused_in(200), [0; 0], "a new cluster does not end the wait");
    rig.pass(20);
    let listing = rig.call();
    rig.end(listing, &[running("i-1"), running("i-2")]);
    assert_eq!(rig.informer.next_due(), Some(Duration::from_secs(1_380)), "an answer does");
}

#[test]
fn refused_lookups_back_off_to_one_in_five_minutes() {
    let mut rig = Rig::listed(&[instance("i-1", InstanceState::Pending)]);
    let mut began = Vec::new();
    for _ in 0..1_000 {
        for call in rig.due() {
            if let InstanceRead::List { .. } = call {
                rig.end(call, &[instance("i-1", InstanceState::Pending)]);
            } else {
                began.push(rig.now.as_secs());
                rig.fail(call, unauthorized());
            }
        }
        assert!(rig.informer.next_due() > Some(rig.now), "the driver would not rest");
        rig.pass(1);
    }
    assert_eq!(began, [5, 65, 185, 425, 725]);
}

#[test]
fn a_missed_instance_waits_after_refused_lookups() {
    let mut rig = Rig::listed(&[running("i-1")]);
    let mut lookups = 0;
    for _ in 0..20 {
        rig.pass(60);
        while let Some(call) = rig.informer.next_read(rig.now) {
            if let InstanceRead::List { .. } = call {
                rig.end(call, &[]);
            } else {
                lookups += 1;
                rig.fail(call, unauthorized());
            }
        }
    }
    assert_eq!(lookups, 6, "after 60, 120, 240, 480, 780 and 1,080 seconds");
}

#[test]
fn errors_that_may_pass_do_not_delay_listings() {
    let mut rig = rig();
    rig.watch("i-1");
    for _ in 0..10 {
        let call = rig.call();
        rig.fail(call, unreachable());
        rig.pass(60);
    }
}

#[test]
fn replaced_credentials_end_the_wait_after_refusals() {
    let mut rig = rig();
    rig.watch("i-1");
    rig.refused_in(800);
    assert_eq!(rig.due(), []);
    rig.informer.credentials_replaced(1);
    assert!(rig.informer.next_due() <= Some(rig.now));
    let began = rig.now.as_secs();
    assert_eq!(rig.refused_in(61), [began, began + 60], "and the wait is short again");
}

#[test]
fn replaced_credentials_are_tried_at_once() {
    let mut rig = rig();
    rig.watch("i-1");
    assert_eq!(rig.refused_in(2), [0]);
    rig.informer.credentials_replaced(1);
    assert_eq!(rig.refused_in(1), [2]);
}
