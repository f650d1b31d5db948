//! Load balancer targets in our own words.

use std::fmt;
use std::time::Duration;

use capa_api::common::ControlPlaneTarget;

use super::access::{GroupTags, Refusal};
use crate::CloudError;
use crate::limits::{CallRequest, Caller, Priority};

/// What targets are registered with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// A target group, by its ARN.
    TargetGroup(String),
    /// A classic load balancer, by its name.
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
            // By what the ARN ends in: the rest is said of the machine.
            Self::TargetGroup(arn) => {
                let name = arn.split_once(":targetgroup/").map_or(arn.as_str(), |(_, name)| name);
                write!(formatter, "target group {name}")
            }
            Self::Classic(name) => write!(formatter, "classic load balancer {name}"),
        }
    }
}

/// By what a group knows its targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// By instance id.
    Instance,
    /// By private address.
    Address,
    /// By something that no instance has, for example `lambda`.
    Other(String),
}

/// What never changes of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFacts {
    /// By what it knows its targets.
    pub kind: TargetKind,
    /// The port of targets that are registered without one; none for a classic load balancer, whose listeners have it.
    pub port: Option<i32>,
}

/// A target as its group shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Instance id or private address.
    pub id: String,
    /// Its port; none in a classic load balancer.
    pub port: Option<i32>,
}

/// An instance that is, or is to be, a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetInstance {
    /// `i-…`
    pub id: String,
    /// Its private address, where it is known.
    pub address: Option<String>,
}

/// How a registered target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// It was not checked yet.
    Initial,
    /// It gets traffic.
    Healthy,
    /// It fails its health checks.
    Unhealthy,
    /// It gets no traffic whatever its health is: no load balancer uses the group, or the instance is stopped.
    Unused,
    /// It is deregistered, and connections that it has may end.
    Draining,
}

/// A registered target's state, and AWS's code for why it is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The state.
    pub state: TargetState,
    /// For example `Target.FailedHealthChecks`.
    pub reason: Option<String>,
}

/// What is wanted of an instance in its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Desired {
    /// It is registered.
    Registered,
    /// It is not, though it is there.
    Deregistered,
    /// It is not there any more, and nothing is left of it: AWS takes instances out by itself, addresses not.
    Forgotten,
}

/// How an instance stands with a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationState {
    /// The group was not looked at yet.
    Unknown,
    /// The group was not looked at yet, because AWS does not show it.
    Unreadable(CloudError),
    /// It is about to be registered.
    Registering,
    /// AWS has not shown the group for as long as it is looked at once, and not because it was asked too often.
    Stale(CloudError),
    /// It is registered.
    Registered {
        /// How it is.
        health: Health,
        /// Whether this process has registered it.
        by_us: bool,
    },
    /// It is about to be deregistered, or drains.
    Leaving,
    /// It is not registered and gets no traffic.
    Out,
    /// It should be out, and the longest time that is waited for that is over.
    Overdue,
    /// The group takes targets of this type, and no instances.
    Unsuitable(String),
    /// The control plane may not use the group. What is registered stays so.
    Refused(Refusal),
    /// The last write that it hangs on failed, or its group does not exist; that is repeated.
    Failed(CloudError),
}

impl RegistrationState {
    /// Whether the instance is registered and gets traffic.
    pub fn is_healthy(&self) -> bool {
        matches!(self, Self::Registered { health, .. } if health.state == TargetState::Healthy)
    }
}

/// Something about reading a group that is to be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupReport {
    /// Reads of the group began to fail, or fail with another error than before.
    Failing(Group, CloudError),
    /// They work again.
    Recovered(Group),
}

/// A call about a group. Its answer goes to [`super::Targets::ended`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCall {
    /// The group.
    pub group: Group,
    /// What is asked.
    pub request: GroupRequest,
    /// Whether an instance is only terminated once the group has let go of it.
    pub urgent: bool,
}

impl GroupCall {
    /// The API action, by which calls are counted.
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

    /// The turn that it waits for. What ends goes first.
    pub fn rate_request(&self) -> CallRequest {
        let priority = match self.request {
            _ if self.urgent => Priority::Terminate,
            GroupRequest::Deregister(_) => Priority::Terminate,
            GroupRequest::Register(_) => Priority::Launch,
            GroupRequest::Facts | GroupRequest::Tags | GroupRequest::Health | GroupRequest::Delay => Priority::Describe,
        };
        CallRequest {
            action: self.action(),
            caller: Caller::Task(self.group.to_string()),
            priority,
            instances: 0,
        }
    }
}

/// What is asked of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRequest {
    /// Of which kind it is. Never asked of a classic load balancer.
    Facts,
    /// Whose it is.
    Tags,
    /// Which targets it has, and how they are.
    Health,
    /// How long its targets drain.
    Delay,
    /// To register targets.
    Register(Vec<Target>),
    /// To deregister targets.
    Deregister(Vec<Target>),
}

/// The answer to a [`GroupCall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupAnswer {
    /// To [`GroupRequest::Facts`].
    Facts(GroupFacts),
    /// To [`GroupRequest::Tags`].
    Tags(GroupTags),
    /// To [`GroupRequest::Health`]: all targets that are registered or drain.
    Health(Vec<(Target, Health)>),
    /// To [`GroupRequest::Delay`].
    Delay(Duration),
    /// To both writes.
    Done,
}
