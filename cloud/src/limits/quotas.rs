//! The request rates that AWS publishes.

/// A token bucket as AWS describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens that a full bucket holds: what may be used in one burst.
    pub burst: u32,
    /// Tokens that come back every second.
    pub refill: u32,
}

/// The published limits of one action, for each account and region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// One token a request.
    pub requests: Rate,
    /// One token for each instance that a request names or asks for, where AWS counts those as well.
    pub instances: Option<Rate>,
    /// Whether this provider may use the whole limit, because other clients of an account hardly call the action.
    pub ours: bool,
}

const fn rate(burst: u32, refill: u32) -> Rate {
    Rate { burst, refill }
}

/// The published limit of an action. EC2 counts each action by itself: the numbers of a category hold for every one
/// of its actions (<https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html>). The poorer numbers for
/// describes without filter and page size do not matter: every describe of ours has a page size.
///
/// Elastic Load Balancing counts the actions of a category together
/// (<https://docs.aws.amazon.com/elasticloadbalancing/latest/userguide/elb-api-throttling.html>: describes have a
/// bucket of 40 that 10 a second fill). As each action has a bucket of its own here, each gets its part of that.
pub fn quota(action: &str) -> Quota {
    let (requests, instances) = match action {
        "RunInstances" => (rate(5, 2), Some(rate(1000, 2))),
        "TerminateInstances" => (rate(100, 5), Some(rate(1000, 20))),
        "CreateTags" | "DeleteTags" => (rate(100, 10), None),
        "RegisterTargets"
        | "DeregisterTargets"
        | "RegisterInstancesWithLoadBalancer"
        | "DeregisterInstancesFromLoadBalancer" => (rate(10, 2), None),
        "DescribeTags"
        | "DescribeTargetGroups"
        | "DescribeTargetHealth"
        | "DescribeTargetGroupAttributes"
        | "DescribeLoadBalancers"
        | "DescribeListeners"
        | "DescribeInstanceHealth"
        | "DescribeLoadBalancerAttributes" => (rate(8, 2), None),
        _ if action.starts_with("Describe") || action.starts_with("Get") => (rate(100, 20), None),
        _ => (rate(50, 5), None),
    };
    Quota {
        requests,
        instances,
        ours: matches!(action, "RunInstances" | "TerminateInstances"),
    }
}
