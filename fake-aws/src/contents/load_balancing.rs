//! The load balancers and target groups among the contents of an account.

use std::collections::BTreeMap;

use capa_api::cluster::load_balancer::LoadBalancerScheme;
use capa_api::common::Tags;
use capa_cloud::elb::{ClassicLoadBalancer, HealthCheck, Listener, LoadBalancer, Protocol, TargetGroup};

use super::sorted;
use crate::ec2::Ec2;
use crate::elb::Elb;

/// A load balancer of the second generation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoadBalancerContents {
    /// Name.
    pub name: String,
    /// Whether only the VPC and connected networks reach the load balancer.
    pub is_internal: bool,
    /// Names of the zones.
    pub zones: Vec<String>,
    /// Names of the security groups; `no group` for one that does not exist.
    pub security_groups: Vec<String>,
    /// Attributes by AWS's names.
    pub attributes: BTreeMap<String, String>,
    /// Tags.
    pub tags: Tags,
    /// The listeners.
    pub listeners: Vec<ListenerContents>,
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListenerContents {
    /// Port.
    pub port: i32,
    /// Names of the target groups; `no group` for one that does not exist.
    pub target_groups: Vec<String>,
    /// Tags.
    pub tags: Tags,
}

/// A target group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetGroupContents {
    /// Name.
    pub name: String,
    /// Port of the targets.
    pub port: i32,
    /// The health check.
    pub health_check: HealthCheckContents,
    /// Attributes by AWS's names.
    pub attributes: BTreeMap<String, String>,
    /// Tags.
    pub tags: Tags,
}

/// The health check of a target group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HealthCheckContents {
    /// `TCP`, `HTTP` or `HTTPS`.
    pub protocol: Protocol,
    /// Port, or `traffic-port`.
    pub port: String,
    /// Path of a request.
    pub path: Option<String>,
    /// Seconds between two checks.
    pub interval_seconds: i64,
    /// Seconds after which a check counts as failed.
    pub timeout_seconds: i64,
    /// Checks after which a target is healthy.
    pub threshold_count: i64,
    /// Checks after which a target is unhealthy.
    pub unhealthy_threshold_count: i64,
}

/// A Classic Load Balancer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassicLoadBalancerContents {
    /// Name.
    pub name: String,
    /// Whether only the VPC and connected networks reach the load balancer.
    pub is_internal: bool,
    /// Names of the zones.
    pub zones: Vec<String>,
    /// Names of the security groups; `no group` for one that does not exist.
    pub security_groups: Vec<String>,
    /// The listeners as texts, for example `TCP 6443 to TCP 6443`.
    pub listeners: Vec<String>,
    /// The health check as a text, which begins with the target.
    pub health_check: String,
    /// The attributes as a text, for example `cross-zone off, idle timeout 60 s`.
    pub attributes: String,
    /// Tags.
    pub tags: Tags,
}

/// The load balancers of a VPC.
pub(super) fn load_balancers_of(ec2: &Ec2, elb: &Elb, vpc: &str) -> Vec<LoadBalancerContents> {
    let balancers = elb.all_load_balancers(ec2).into_iter();
    let of_vpc = balancers.filter(|balancer| balancer.vpc_id == vpc);
    sorted(of_vpc.map(|balancer| load_balancer_contents(ec2, elb, balancer)))
}

/// The target groups whose VPC is selected.
pub(super) fn target_groups(elb: &Elb, selects: impl Fn(&str) -> bool) -> Vec<TargetGroupContents> {
    let groups = elb.all_target_groups().into_iter();
    let selected = groups.filter(|group| selects(&group.vpc_id));
    sorted(selected.map(target_group_contents))
}

/// The Classic Load Balancers of a VPC.
pub(super) fn classic_load_balancers_of(ec2: &Ec2, elb: &Elb, vpc: &str) -> Vec<ClassicLoadBalancerContents> {
    let balancers = elb.all_classic_load_balancers().into_iter();
    let of_vpc = balancers.filter(|balancer| balancer.vpc_id == vpc);
    sorted(of_vpc.map(|balancer| classic_load_balancer_contents(ec2, balancer)))
}

fn classic_load_balancer_contents(ec2: &Ec2, balancer: ClassicLoadBalancer) -> ClassicLoadBalancerContents {
    let attributes = balancer.attributes.shown();
    ClassicLoadBalancerContents {
        is_internal: balancer.scheme == LoadBalancerScheme::Internal,
        security_groups: security_group_names(ec2, &balancer.security_group_ids),
        listeners: sorted(balancer.listeners.iter().map(ToString::to_string)),
        health_check: balancer.health_check.to_string(),
        attributes: attributes.map(ToString::to_string).unwrap_or_default(),
        zones: sorted(balancer.zones.into_iter()),
        name: balancer.name,
        tags: balancer.tags,
    }
}

fn load_balancer_contents(ec2: &Ec2, elb: &Elb, balancer: LoadBalancer) -> LoadBalancerContents {
    let listeners = elb.all_listeners().into_iter();
    let listeners = listeners.filter(|listener| listener.load_balancer_arn == balancer.arn);
    LoadBalancerContents {
        is_internal: balancer.scheme == LoadBalancerScheme::Internal,
        zones: balancer.subnets.keys().cloned().collect(),
        security_groups: security_group_names(ec2, &balancer.security_group_ids),
        attributes: balancer.attributes.shown().cloned().unwrap_or_default(),
        listeners: sorted(listeners.map(|listener| listener_contents(elb, listener))),
        name: balancer.name,
        tags: balancer.tags,
    }
}

fn listener_contents(elb: &Elb, listener: Listener) -> ListenerContents {
    let groups = elb.all_target_groups();
    let name_of = |arn: &String| name(groups.iter().find(|group| group.arn == *arn).map(|group| &group.name));
    ListenerContents {
        port: listener.port,
        target_groups: sorted(listener.target_group_arns.iter().map(name_of)),
        tags: listener.tags,
    }
}

fn target_group_contents(group: TargetGroup) -> TargetGroupContents {
    TargetGroupContents {
        health_check: health_check_contents(group.health_check),
        attributes: group.attributes.shown().cloned().unwrap_or_default(),
        name: group.name,
        port: group.port,
        tags: group.tags,
    }
}

fn health_check_contents(check: HealthCheck) -> HealthCheckContents {
    HealthCheckContents {
        protocol: check.protocol,
        port: check.port,
        path: check.path,
        interval_seconds: check.timing.interval_seconds,
        timeout_seconds: check.timing.timeout_seconds,
        threshold_count: check.timing.threshold_count,
        unhealthy_threshold_count: check.timing.unhealthy_threshold_count,
    }
}

fn security_group_names(ec2: &Ec2, ids: &[String]) -> Vec<String> {
    let groups = ec2.all_security_groups();
    let name_of = |id: &String| name(groups.iter().find(|group| group.id == *id).map(|group| &group.name));
    sorted(ids.iter().map(name_of))
}

/// The name of a group that may not exist.
fn name(known: Option<&String>) -> String {
    known.map_or_else(|| "no group".to_owned(), String::clone)
}
