use super::*;

#[test]
fn unfinished_listings_are_overdue_after_five_intervals() {
    let mut rig = rig();
    rig.watch("i-1");
    let call = rig.call();
    assert_eq!(rig.informer.next_due(), Some(Duration::from_secs(300)));
    rig.pass(299);
    assert!(rig.due().is_empty() && !rig.informer.is_overdue());
    rig.pass(1);
    assert!(rig.due().is_empty() && rig.informer.is_overdue());
    assert_eq!(rig.woken(), ["i-1"], "once");
    rig.pass(600);
    assert!(rig.due().is_empty() && rig.woken().is_empty());
    rig.end(call, &[]);
    assert!(!rig.informer.is_overdue());
    assert_eq!(rig.woken(), ["i-1"]);
}

#[test]
fn failing_listings_are_overdue_after_five_intervals() {
    let mut rig = rig();
    rig.watch("i-1");
    for _ in 0..5 {
        let call = rig.call();
        rig.fail(call, unreachable());
        assert!(!rig.informer.is_overdue());
        rig.pass(60);
    }
    rig.due();
    assert!(rig.informer.is_overdue());
}

#[test]
fn an_informer_without_machines_is_never_overdue() {
    let mut rig = rig();
    rig.watch("i-1");
    let call = rig.call();
    rig.end(call, &[running("i-1")]);
    rig.informer.forget(&machine("i-1"));
    rig.due();
    rig.pass(3_600);
    rig.watch("i-1");
    assert_eq!(rig.due().len(), 1);
    assert!(!rig.informer.is_overdue());
}

#[test]
fn listings_with_a_short_interval_are_overdue_after_five_minutes() {
    let informer = InstanceInformer::new(Timing::default().with_periods_divided_by(20));
    let mut rig = Rig { informer, ..rig() };
    rig.watch("i-1");
    rig.call();
    assert_eq!(rig.informer.next_due(), Some(Duration::from_mins(5)));
}
