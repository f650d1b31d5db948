//! The rate limits of AWS calls for one account in one region, and the order of the callers.
//!
//! This module does no I/O: the time is an argument, counted from any fixed origin, and nothing waits. A caller that
//! finds no token is told when its turn comes. The turn is kept for the caller until shortly after that time. EC2
//! limits each action separately, so each action has its own bucket, filled at our share of the limit that AWS
//! publishes ([`quota()`]).
//!
//! The queue of an action is fair: within a priority, turns are given round robin to tenants ([`Flow`]). A tenant with
//! a thousand callers delays a tenant with one caller by one turn. The turn of a caller may therefore move to a later
//! time after the caller was told. Such a caller is told the new time when it comes.

mod action;
mod queue;
mod quotas;
mod recovery;
mod share;
#[cfg(test)]
mod tests;
mod token_bucket;

use std::collections::BTreeMap;
use std::time::Duration;

use action::ActionLimiter;
pub use quotas::{Quota, Rate, quota};
pub use share::{AccountShares, ParseShareError, Share, Shares};

use crate::{ClusterKey, MachineKey, Query};

/// The purpose of a call, the most urgent first. The priority orders calls of the same action only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// The call ends an instance that costs money, or another resource.
    Terminate,
    /// The call launches an instance, or looks up something that a launch needs. Or the call creates or changes a
    /// resource of a managed cluster.
    Launch,
    /// The call reads something that can wait.
    Describe,
    /// The call writes tags.
    Tag,
}

impl Priority {
    fn rank(self) -> u32 {
        match self {
            Self::Terminate => 0,
            Self::Launch => 1,
            Self::Describe => 2,
            Self::Tag => 3,
        }
    }
}

/// The object that a call serves. Within a priority, turns are given round robin to namespaces and sessions, and within
/// a namespace round robin to its clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flow {
    /// A cluster.
    Cluster(ClusterKey),
    /// A session that several clusters share, for its calls that serve all of them; with the key of its identity.
    Session(String),
}

/// The caller of an action. A turn is kept under this key and the flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Caller {
    /// A machine.
    Machine(MachineKey),
    /// All callers of the flow that need the answer to this query.
    Query(Query),
    /// A background task, by its name.
    Task(String),
}

/// One call to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRequest {
    /// The API action, for example `RunInstances`.
    pub action: &'static str,
    /// The object that the call serves.
    pub flow: Flow,
    /// The caller.
    pub caller: Caller,
    /// The priority.
    pub priority: Priority,
    /// Number of instances that the call names or requests, if AWS counts them; 1 for a launch.
    pub instances: u64,
}

impl CallRequest {
    /// A describe call. Callers of a flow with the same query share the turn.
    pub fn describe(action: &'static str, flow: &Flow, query: &Query, priority: Priority) -> Self {
        Self { action, flow: flow.clone(), caller: Caller::Query(query.clone()), priority, instances: 0 }
    }

    /// A lookup of instances for a machine that is being launched or deleted.
    pub fn lookup(flow: &Flow, query: &Query) -> Self {
        Self::describe("DescribeInstances", flow, query, Priority::Launch)
    }

    /// A termination of instances.
    pub fn terminate(flow: &Flow, ids: &[String]) -> Self {
        Self {
            action: "TerminateInstances",
            flow: flow.clone(),
            caller: Caller::Task(ids.join(" ")),
            priority: Priority::Terminate,
            instances: ids.len() as u64,
        }
    }

    /// A lookup of a load balancer by its name.
    pub fn load_balancer(flow: &Flow, name: &str) -> Self {
        Self {
            action: "DescribeLoadBalancers",
            flow: flow.clone(),
            caller: Caller::Task(name.to_owned()),
            priority: Priority::Describe,
            instances: 0,
        }
    }

    /// A lookup of target groups by their ARNs.
    pub fn target_groups(flow: &Flow, arns: &[String]) -> Self {
        Self { action: "DescribeTargetGroups", ..Self::load_balancer(flow, &arns.join(" ")) }
    }

    /// A listing of all target groups, to find the target groups of this VPC.
    pub fn target_groups_in(flow: &Flow, vpc_id: &str) -> Self {
        Self { action: "DescribeTargetGroups", ..Self::load_balancer(flow, vpc_id) }
    }

    /// A lookup of the tags of target groups by their ARNs.
    pub fn target_group_tags(flow: &Flow, arns: &[String]) -> Self {
        Self { action: "DescribeTags", ..Self::load_balancer(flow, &arns.join(" ")) }
    }

    /// A listing of the listeners of the load balancer with this ARN.
    pub fn listeners(flow: &Flow, load_balancer: &str) -> Self {
        Self { action: "DescribeListeners", ..Self::load_balancer(flow, load_balancer) }
    }

    /// A launch of a machine's instance.
    pub fn launch(flow: &Flow, machine: &MachineKey) -> Self {
        Self {
            action: "RunInstances",
            flow: flow.clone(),
            caller: Caller::Machine(machine.clone()),
            priority: Priority::Launch,
            instances: 1,
        }
    }

    /// A change of a machine's instance after the launch.
    pub fn update(action: &'static str, flow: &Flow, machine: &MachineKey) -> Self {
        Self::of_machine(action, flow, machine, Priority::Tag)
    }

    /// A write of a resource that belongs to a machine, other than its instance.
    pub fn of_machine(action: &'static str, flow: &Flow, machine: &MachineKey, priority: Priority) -> Self {
        Self { action, flow: flow.clone(), caller: Caller::Machine(machine.clone()), priority, instances: 0 }
    }

    /// A write for a cluster. `call` distinguishes calls of the same action, each of which waits for its own turn.
    pub fn of_cluster(action: &'static str, flow: &Flow, call: &str, priority: Priority) -> Self {
        Self { action, flow: flow.clone(), caller: Caller::Task(call.to_owned()), priority, instances: 0 }
    }
}

/// The rates of one account in one region.
pub struct Limiter {
    share: Share,
    launches: Share,
    buckets: BTreeMap<&'static str, ActionLimiter>,
}

impl Limiter {
    /// A limiter with the share `share` of the published rates, and with the share `launches` for launches and
    /// terminations. A bucket starts with one second of refill at its first use.
    pub fn new(share: Share, launches: Share) -> Self {
        Self { share, launches, buckets: BTreeMap::new() }
    }

    /// Requests a turn before the call is made. A turn that has come stays reserved for some seconds, for
    /// [`Limiter::acquire`].
    ///
    /// # Errors
    /// The time until the turn comes.
    pub fn reserve(&mut self, turn: &CallRequest, now: Duration) -> Result<(), Duration> {
        self.bucket(turn.action, now).reserve(turn, now)
    }

    /// Takes the tokens of a call that is made now.
    ///
    /// # Errors
    /// The time until the caller's turn comes. A caller that comes back then, or up to ten seconds later, is granted
    /// the turn unless a more urgent call, a throttle, or a call of a tenant that waits for fewer turns came between.
    /// The others do not wait for a caller that comes later, but the caller keeps its place for ten minutes.
    pub fn acquire(&mut self, turn: &CallRequest, now: Duration) -> Result<(), Duration> {
        self.bucket(turn.action, now).acquire(turn, now)
    }

    /// Takes the token of a call that continues an earlier one, such as the next page. The call itself does not wait;
    /// later calls wait longer.
    pub fn charge(&mut self, action: &'static str, now: Duration) {
        self.bucket(action, now).charge(0, now);
    }

    /// Removes a caller that will not come back, and returns the tokens of its unused turns.
    pub fn forget(&mut self, caller: &Caller) {
        for bucket in self.buckets.values_mut() {
            bucket.forget(caller);
        }
    }

    /// Removes the caller of a call that is not made for now, and returns the tokens of its unused turn.
    pub fn release(&mut self, turn: &CallRequest) {
        if let Some(bucket) = self.buckets.get_mut(turn.action) {
            bucket.release(turn);
        }
    }

    /// Records that AWS throttled a call that began at `began`. The action's rate is reduced to seven tenths of the
    /// rate at which the calls were made, but not below an eighth of the full rate, and recovers with the cube of the
    /// time without a throttle. Throttles of simultaneous calls count once.
    pub fn throttled(&mut self, action: &'static str, began: Duration, now: Duration) {
        self.bucket(action, now).throttled(began, now);
    }

    /// Whether no caller waits for a turn or has an unused turn.
    #[cfg(test)]
    fn is_idle(&self) -> bool {
        self.buckets.values().all(ActionLimiter::is_idle)
    }

    fn bucket(&mut self, action: &'static str, now: Duration) -> &mut ActionLimiter {
        let Self { share, launches, buckets } = self;
        buckets.entry(action).or_insert_with(|| {
            let published = quota(action);
            ActionLimiter::new(published, if published.ours { *launches } else { *share }, now)
        })
    }
}
