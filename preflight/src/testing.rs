//! Facts for tests.

use capa_cloud::ec2::security_group::{Rule, Source, Traffic};

use crate::facts::Facts;

/// The file with the facts of [`good`].
pub(crate) const GOOD: &str = include_str!("../fixtures/good.json");
/// The VPC of these facts.
pub(crate) const VPC: &str = "vpc-0000000a";
/// The target group of these facts.
pub(crate) const GROUP_ARN: &str =
    "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0000000000000001";
/// The load balancer of these facts.
pub(crate) const BALANCER_ARN: &str =
    "arn:aws:elasticloadbalancing:eu-west-1:111122223333:loadbalancer/net/api/0000000000000002";

/// Facts of infrastructure in which no rule is broken.
///
/// Three private subnets, two with NAT gateways in their zones and one with VPC endpoints; one public subnet. An
/// internal load balancer with a security group. A control plane, workers, and workers with public addresses. Security
/// group `a` belongs to all machines, `b` to the control plane, `d` to the load balancer, and `e` to endpoints.
pub(crate) fn good() -> Facts {
    serde_json::from_str(GOOD).expect("facts")
}

/// A rule of a security group.
pub(crate) fn rule(protocol: &str, ports: Option<(i32, i32)>, source: Source<String>) -> Rule<String> {
    Rule { traffic: Traffic { protocol: protocol.parse().unwrap(), ports }, source, description: String::new() }
}

/// A rule with a range as its source.
pub(crate) fn of_range(protocol: &str, ports: Option<(i32, i32)>, range: &str) -> Rule<String> {
    rule(protocol, ports, Source::Cidr(range.to_owned()))
}
