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
fn nat_gateways_have_a_lower_rate_than_other_writes() {
    for action in ["CreateNatGateway", "DeleteNatGateway"] {
        assert_eq!(quota(action).requests, Rate { burst: 10, refill: 1 }, "{action}");
    }
    assert_eq!(quota("CreateSubnet").requests, Rate { burst: 50, refill: 5 });
}

#[test]
fn managers_with_halves_of_a_rate_stay_within_the_whole() {
    let half: Share = "0.5".parse().unwrap();
    for action in [LAUNCH, DESCRIBE] {
        let mut managers = [Limiter::new(half, half), Limiter::new(half, half)];
        let published = quota(action).requests;
        let mut calls = 0;
        for second in 0..20 {
            let now = Duration::from_secs(second);
            calls += managers.iter_mut().map(|manager| drain(manager, action, now)).sum::<usize>();
            let most = u64::from(published.burst) + second * u64::from(published.refill);
            assert!(calls as u64 <= most, "{calls} calls of {action} by second {second}");
        }
        assert!(calls as u64 >= 19 * u64::from(published.refill), "{calls} calls of {action}");
    }
}

#[test]
fn a_promised_turn_is_rounded_up_to_a_nanosecond() {
    let now = Duration::from_secs(7);
    for (refill, nanoseconds) in [(1, 1_000_000_000), (2, 500_000_000), (3, 333_333_334), (7, 142_857_143)] {
        let mut bucket = TokenBucket::new(Rate { burst: 1, refill }, Share::WHOLE, now);
        bucket.charge(1, now);
        let wait = bucket.wait_for(1, now);
        assert_eq!(wait, Duration::from_nanos(nanoseconds), "{refill} a second");
        assert_eq!(bucket.wait_for(1, now + wait), Duration::ZERO, "{refill} a second");
    }
}

#[test]
fn each_lookup_of_load_balancing_uses_the_rate_of_its_action() {
    let (flow, arns) = (Flow::Session("one".into()), ["arn:a".to_owned(), "arn:b".to_owned()]);
    for (call, action, of) in [
        (CallRequest::load_balancer(&flow, "api"), "DescribeLoadBalancers", "api"),
        (CallRequest::listeners(&flow, "api"), "DescribeListeners", "api"),
        (CallRequest::target_groups(&flow, &arns), "DescribeTargetGroups", "arn:a arn:b"),
        (CallRequest::target_groups_in(&flow, "vpc-1"), "DescribeTargetGroups", "vpc-1"),
        (CallRequest::target_group_tags(&flow, &arns), "DescribeTags", "arn:a arn:b"),
    ] {
        assert_eq!((call.action, call.caller), (action, caller(of)));
    }
}
