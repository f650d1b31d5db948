//! Many machines at once, within AWS's published limits.

use std::time::Duration;

use capa_simulation::fleet::{self, Weather};

#[test]
fn two_hundred_machines_launch_as_fast_as_run_instances_allows() {
    let fleet = fleet::launch(200, Weather::Fair);
    assert_eq!((fleet.violation.as_deref(), fleet.provisioned), (None, 200));
    // EC2 publishes a bucket of 5 that is refilled with 2 a second.
    let allowed = Duration::from_secs((200 - 5) / 2);
    assert!(fleet.took <= allowed.mul_f64(1.1), "{:?} in place of {allowed:?}", fleet.took);
    assert!(fleet.throttled * 100 <= fleet.calls, "{} of {} throttled", fleet.throttled, fleet.calls);
}

#[test]
fn ten_minutes_without_aws_end_without_a_stampede() {
    let fleet = fleet::launch(200, Weather::Outage(Duration::from_secs(600)));
    assert_eq!((fleet.violation.as_deref(), fleet.provisioned), (None, 200));
    assert!(fleet.throttled * 100 <= fleet.calls * 3, "{} of {} throttled", fleet.throttled, fleet.calls);
    assert!(fleet.busiest_second <= 40, "{} calls in a second", fleet.busiest_second);
    assert!(fleet.took <= Duration::from_secs(600 + 5 + 200), "{:?}", fleet.took);
}

#[test]
fn a_thousand_refused_machines_hold_no_other_cluster_up() {
    let flood = fleet::flood(1_000, Duration::from_secs(60), Duration::from_secs(30));
    assert_eq!(flood.violation, None);
    let waited = flood.launched_after.unwrap_or(Duration::MAX);
    // A turn is half a second. Nearly a thousand machines have asked before.
    assert!(waited <= Duration::from_secs(5), "{waited:?}");
    // Two a second for a minute. Then the newcomer's Cluster names the targets of the flood's control plane too, so
    // that only the workers of the flood go on.
    assert!(flood.refused >= 135, "two a second: {}", flood.refused);
}

#[test]
fn a_refused_machine_asks_once_in_five_minutes_in_the_end() {
    let (half, minute) = (Duration::from_secs(1_800), Duration::from_secs(60));
    let [first, longer] = [half, 2 * half].map(|lead| fleet::flood(1, lead, minute));
    assert_eq!((first.violation, longer.violation), (None, None));
    // At first after 15 s and 45 s.
    assert!((8..=9).contains(&first.refused), "{}", first.refused);
    let more = longer.refused - first.refused;
    assert!((5..=6).contains(&more), "{more} in half an hour");
}

#[test]
fn machines_that_launch_together_share_lookups() {
    for machines in [10, 100] {
        let fleet = fleet::launch(machines, Weather::Fair);
        assert_eq!((fleet.violation.as_deref(), fleet.provisioned), (None, machines));
        let calls = |action| fleet.by_action.get(action).copied().unwrap_or_default();
        // A machine whose data is stored, or whose host is allocated, uses its turn later: EC2 may throttle its launch.
        assert_eq!(calls("RunInstances"), machines + fleet.throttled);
        assert!(fleet.throttled <= machines / 10, "{} throttled", fleet.throttled);
        // A look at what is pending every five seconds, and a lookup before the launches of twenty seconds.
        let most = 3 + usize::try_from(fleet.took.as_secs() + 30).unwrap() * 3 / 10;
        assert!(calls("DescribeInstances") <= most, "more than {most}: {:?}", fleet.by_action);
    }
}

#[test]
fn a_throttled_minute_costs_few_calls_and_is_over_at_its_end() {
    let minute = Duration::from_secs(60);
    let fleet = fleet::launch(50, Weather::Throttles(minute));
    assert_eq!((fleet.violation.as_deref(), fleet.provisioned), (None, 50));
    assert!(fleet.in_first_minute <= 90, "{} calls: {:?}", fleet.in_first_minute, fleet.by_action);
    let allowed = Duration::from_secs((50 - 5) / 2);
    let took = fleet.took.saturating_sub(minute);
    assert!(took <= allowed + Duration::from_secs(8), "{took:?} in place of {allowed:?}");
}
