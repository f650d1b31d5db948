//! The request rates that AWS publishes.

/// A token bucket as AWS describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens of a full bucket: the largest burst.
    pub burst: u32,
    /// Tokens that are added every second.
    pub refill: u32,
}

/// The published limits of one action, for each account and region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The bucket with one token for each request.
    pub requests: Rate,
    /// The bucket with one token for each instance that a request names or requests, if AWS counts instances.
    pub instances: Option<Rate>,
    /// Whether hardly any other client of an account calls the action, so that it has a share of its own
    /// ([`Shares::launches`](super::Shares::launches)).
    pub ours: bool,
}

const fn rate(burst: u32, refill: u32) -> Rate {
    Rate { burst, refill }
}

/// The published limit of an action. EC2 counts each action separately: the numbers of a category apply to each of its
/// actions (<https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html>). The lower limits for describes
/// without filter and page size do not apply: this provider sets a page size in every describe.
///
/// Elastic Load Balancing counts the actions of a category together
/// (<https://docs.aws.amazon.com/elasticloadbalancing/latest/userguide/elb-api-throttling.html>: describes have a
/// bucket of 40 tokens with a refill of 10 per second). Each action has its own bucket here, so each gets a part of
/// that limit.
///
/// IAM publishes no limits, and its limits apply to all regions of an account together: the rates here are low.
pub fn quota(action: &str) -> Quota {
    let (requests, instances) = match action {
        "RunInstances" => (rate(5, 2), Some(rate(1000, 2))),
        "TerminateInstances" => (rate(100, 5), Some(rate(1000, 20))),
        "CreateTags" | "DeleteTags" => (rate(100, 10), None),
        "CreateNatGateway" | "DeleteNatGateway" => (rate(10, 1), None),
        "RegisterTargets"
        | "DeregisterTargets"
        | "RegisterInstancesWithLoadBalancer"
        | "DeregisterInstancesFromLoadBalancer"
        | "CreateLoadBalancer"
        | "ModifyLoadBalancerAttributes"
        | "SetSubnets"
        | "SetSecurityGroups"
        | "AttachLoadBalancerToSubnets"
        | "ApplySecurityGroupsToLoadBalancer"
        | "ConfigureHealthCheck"
        | "CreateLoadBalancerListeners"
        | "DeleteLoadBalancer"
        | "CreateTargetGroup"
        | "ModifyTargetGroup"
        | "ModifyTargetGroupAttributes"
        | "DeleteTargetGroup"
        | "CreateListener"
        | "ModifyListener"
        | "DeleteListener"
        | "AddTags"
        | "RemoveTags" => (rate(10, 2), None),
        "DescribeTags"
        | "DescribeTargetGroups"
        | "DescribeTargetHealth"
        | "DescribeTargetGroupAttributes"
        | "DescribeLoadBalancers"
        | "DescribeListeners"
        | "DescribeInstanceHealth"
        | "DescribeLoadBalancerAttributes" => (rate(8, 2), None),
        "GetInstanceProfile" | "GetRole" | "ListAttachedRolePolicies" | "ListRolePolicies" => (rate(20, 10), None),
        // <https://docs.aws.amazon.com/secretsmanager/latest/userguide/reference_limits.html>
        "CreateSecret" | "PutSecretValue" | "DeleteSecret" => (rate(50, 50), None),
        // S3 accepts 3,500 writes a second for each prefix of keys
        // (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html>). No cluster needs as
        // many.
        "PutObject" | "DeleteObject" => (rate(100, 100), None),
        // <https://docs.aws.amazon.com/general/latest/gr/ssm.html>
        "PutParameter" => (rate(3, 3), None),
        "GetParameter" => (rate(40, 40), None),
        "DeleteParameters" => (rate(5, 5), None),
        // <https://docs.aws.amazon.com/servicequotas/latest/userguide/reference_limits.html>
        "GetServiceQuota" => (rate(10, 5), None),
        _ if action.starts_with("Describe") || action.starts_with("Get") => (rate(100, 20), None),
        _ => (rate(50, 5), None),
    };
    Quota { requests, instances, ours: matches!(action, "RunInstances" | "TerminateInstances") }
}
