//! The types of load balancer targets, independent of the AWS SDK.

use std::fmt;
use std::time::Duration;

use capa_api::common::ControlPlaneTarget;

use super::access::{GroupTags, Refusal};
use crate::elb::{AddressFamily, TargetType};
use crate::limits::{CallRequest, Caller, Flow, Priority};
use crate::{CloudError, ClusterKey};

/// The load balancer object that targets are registered with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// A target group, by its ARN.
    TargetGroup(String),
    /// A Classic Load Balancer, by its name.
    Classic(String),
}

impl Group {
    /// The group that an entry of `controlPlaneTargets` names; `None` for an entry that names none.
    pub fn of(target: &ControlPlaneTarget) -> Option<Self> {
        let named = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        let target_group = named(&target.target_group_arn).map(Self::TargetGroup);
        target_group.or_else(|| named(&target.classic_load_balancer_name).map(Self::Classic))
    }

    /// The ARN or the name.
    pub fn id(&self) -> &str {
        match self {
            Self::TargetGroup(id) | Self::Classic(id) => id,
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The last part of the ARN is enough: the condition already belongs to one account and region.
            Self::TargetGroup(arn) => {
                let name = arn.split_once(":targetgroup/").map_or(arn.as_str(), |(_, name)| name);
                write!(formatter, "target group {name}")
            }
            Self::Classic(name) => write!(formatter, "classic load balancer {name}"),
        }
    }
}

/// The immutable attributes of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFacts {
    /// The type of the targets. The targets of a Classic Load Balancer are instances.
    pub target_type: TargetType,
    /// The default port of targets; `None` for a Classic Load Balancer, whose listeners define the port.
    pub port: Option<i32>,
}

/// A target of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The instance id or the private IP address.
    pub id: String,
    /// The port; `None` in a Classic Load Balancer.
    pub port: Option<i32>,
}

/// An instance that is registered as a target or whose registration is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetInstance {
    /// The instance id, `i-…`.
    pub id: String,
    /// The private IP addresses, as far as they are known, those of the primary network interface first.
    pub addresses: Vec<String>,
}

impl TargetInstance {
    /// The first address of this family.
    pub fn address(&self, family: AddressFamily) -> Option<&String> {
        self.addresses.iter().find(|address| family.has(address))
    }
}

/// The health state of a registered target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// The load balancer has not completed the first health check of the target.
    Initial,
    /// The target passes its health checks and receives traffic.
    Healthy,
    /// The target fails its health checks.
    Unhealthy,
    /// The target receives no traffic regardless of its health: no load balancer uses the group, or the instance is
    /// stopped.
    Unused,
    /// The target is deregistered, and its open connections may complete.
    Draining,
}

/// The health state of a registered target, and AWS's reason code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The state.
    pub state: TargetState,
    /// AWS's reason code, for example `Target.FailedHealthChecks`.
    pub reason: Option<String>,
}

/// The desired state of an instance in its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Desired {
    /// The instance is registered.
    Registered,
    /// The instance leaves the group before its node is drained. Nothing waits for the deregistration yet. The last
    /// healthy target of the group stays.
    Departing,
    /// The instance is not registered, though it exists. Its termination waits for the deregistration.
    Deregistered,
    /// The instance is gone, and none of its targets remain. AWS automatically deregisters instance ids, but not IP
    /// addresses.
    Forgotten,
}

/// The state of an instance in one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationState {
    /// The group has not been read yet, or the address of the instance is not known yet.
    Unknown,
    /// The group has not been read yet, because the reads fail with this error.
    Unreadable(CloudError),
    /// The registration of the instance has not succeeded yet.
    Registering,
    /// The reads of the group have failed with this error, other than throttling, for longer than the normal interval.
    Stale(CloudError),
    /// The instance is registered.
    Registered {
        /// The health of the target.
        health: Health,
        /// Whether this process has registered the instance.
        by_us: bool,
    },
    /// The deregistration of the instance has not succeeded yet, or the target is draining.
    Leaving,
    /// The instance is not registered and receives no traffic.
    Out,
    /// The instance should be out of the group, and the drain limit is over.
    Overdue,
    /// The group has targets of this type, which the instance cannot be.
    Unsuitable(String),
    /// The control plane may not use the group. A registered target stays registered.
    Refused(Refusal),
    /// The last registration or deregistration failed with this error, or the group does not exist. The write is
    /// retried.
    Failed(CloudError),
}

impl RegistrationState {
    /// Whether the instance is registered and passes its health checks.
    pub fn is_healthy(&self) -> bool {
        matches!(self, Self::Registered { health, .. } if health.state == TargetState::Healthy)
    }
}

/// A log entry about reads of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupReport {
    /// The reads of the group began to fail, or fail with another error than before.
    Failing(Group, CloudError),
    /// The reads of the group work again.
    Recovered(Group),
}

/// A call about a group. [`super::Targets::ended`] takes its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCall {
    /// The group.
    pub group: Group,
    /// The request.
    pub request: GroupRequest,
    /// Whether the termination of an instance waits for a deregistration from the group.
    pub urgent: bool,
    /// The cluster that uses the group. `None` if no machine names the group.
    pub cluster: Option<ClusterKey>,
}

impl GroupCall {
    /// The name of the API action. Calls are counted and limited by this name.
    pub fn action(&self) -> &'static str {
        match (&self.group, &self.request) {
            (_, GroupRequest::Tags) => "DescribeTags",
            (Group::TargetGroup(_), GroupRequest::Facts) => "DescribeTargetGroups",
            (Group::TargetGroup(_), GroupRequest::Health) => "DescribeTargetHealth",
            (Group::TargetGroup(_), GroupRequest::Delay) => "DescribeTargetGroupAttributes",
            (Group::TargetGroup(_), GroupRequest::Register(_)) => "RegisterTargets",
            (Group::TargetGroup(_), GroupRequest::Deregister(_)) => "DeregisterTargets",
            (Group::Classic(_), GroupRequest::Facts) => "DescribeLoadBalancers",
            (Group::Classic(_), GroupRequest::Health) => "DescribeInstanceHealth",
            (Group::Classic(_), GroupRequest::Delay) => "DescribeLoadBalancerAttributes",
            (Group::Classic(_), GroupRequest::Register(_)) => "RegisterInstancesWithLoadBalancer",
            (Group::Classic(_), GroupRequest::Deregister(_)) => "DeregisterInstancesFromLoadBalancer",
        }
    }

    /// The request for a turn at the rate limiter. Calls that an instance's termination waits for have the highest
    /// priority. The call uses the turns of its cluster, or of `session` if no machine names the group.
    pub fn rate_request(&self, session: &Flow) -> CallRequest {
        let priority = match self.request {
            _ if self.urgent => Priority::Terminate,
            GroupRequest::Deregister(_) => Priority::Terminate,
            GroupRequest::Register(_) => Priority::Launch,
            GroupRequest::Facts | GroupRequest::Tags | GroupRequest::Health | GroupRequest::Delay => Priority::Describe,
        };
        CallRequest {
            action: self.action(),
            flow: self.cluster.clone().map_or_else(|| session.clone(), Flow::Cluster),
            caller: Caller::Task(self.group.to_string()),
            priority,
            instances: 0,
        }
    }
}

/// A request about a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRequest {
    /// The immutable attributes of the group. Never requested for a Classic Load Balancer.
    Facts,
    /// The group's tags.
    Tags,
    /// The group's targets and their health.
    Health,
    /// The deregistration delay of the group's targets.
    Delay,
    /// The registration of targets.
    Register(Vec<Target>),
    /// The deregistration of targets.
    Deregister(Vec<Target>),
}

/// The answer to a [`GroupCall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupAnswer {
    /// The answer to [`GroupRequest::Facts`].
    Facts(GroupFacts),
    /// The answer to [`GroupRequest::Tags`].
    Tags(GroupTags),
    /// The answer to [`GroupRequest::Health`]: all targets that are registered or draining.
    Health(Vec<(Target, Health)>),
    /// The answer to [`GroupRequest::Delay`].
    Delay(Duration),
    /// The answer to a registration or a deregistration.
    Done,
}
