//! Tests of the published rates and of single token buckets.

use super::super::quotas::{Rate, quota};
use super::super::token_bucket::TokenBucket;
use super::*;

#[test]
fn elastic_load_balancing_has_its_own_rates() {
    let writes = [
        "RegisterTargets",
        "DeregisterTargets",
        "RegisterInstancesWithLoadBalancer",
        "DeregisterInstancesFromLoadBalancer",
    ];
    for action in writes {
        assert_eq!(quota(action).requests, Rate { burst: 10, refill: 2 }, "{action}");
    }
    // Together they use no more than the published 10 calls a second and 40 in a burst.
    for action in ["DescribeTags", "DescribeTargetHealth", "DescribeLoadBalancers"] {
        assert_eq!(quota(action).requests, Rate { burst: 8, refill: 2 }, "{action}");
    }
}

#[test]
fn a_promised_turn_comes_at_its_nanosecond() {
    let nanosecond = Duration::from_nanos(1);
    for refill in 1..=20 {
        let now = Duration::from_secs(7);
        let mut bucket = TokenBucket::new(Rate { burst: 5, refill }, Share::WHOLE, now);
        bucket.charge(bucket.capacity(), now);
        let wait = bucket.wait_for(1, now);
        assert_eq!(
            bucket.wait_for(1, now + wait.saturating_sub(nanosecond)),
            nanosecond,
            "{refill} a second"
        );
        assert_eq!(bucket.wait_for(1, now + wait), Duration::ZERO, "{refill} a second");
    }
}

#[test]
fn each_listing_of_listeners_uses_the_rate_of_its_action() {
    let flow = Flow::Session("one".into());
    let call = CallRequest::listeners(&flow, "api");
    assert_eq!(call.action, "DescribeListeners");
    assert_eq!(call.caller, caller("api"));
}
