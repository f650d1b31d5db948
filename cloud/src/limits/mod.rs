//! How often AWS may be called: the rates of one account in one region, and whose turn it is.
//!
//! Pure: time is passed in, counted from any fixed origin, and nothing waits. A call that finds no token is told when
//! its turn comes; the turn is kept for the caller until shortly after that time. EC2 counts each action by itself, so
//! each action has a bucket of its own, filled at our share of what AWS publishes ([`quota()`]).
//!
//! Turns go round between tenants ([`Flow`]): one that has a thousand machines does not hold up one that has a single
//! machine. So the time that a caller was told may move: one that comes then and is told another time comes again.

mod action;
mod queue;
mod quotas;
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

/// What a call is for, the most urgent first. It matters between calls of one action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Ends an instance that costs money.
    Terminate,
    /// Brings an instance up, or is looked up before that.
    Launch,
    /// Reads what may be read a little later as well.
    Describe,
    /// Writes tags.
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

/// What a call is made for. Turns go round between namespaces and sessions, and within a namespace between its clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flow {
    /// An object of a cluster.
    Cluster(ClusterKey),
    /// What a session does by itself for all of its machines; by the key of its identity.
    Session(String),
}

/// Who calls: a turn is kept for it by this, within its flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Caller {
    /// A machine.
    Machine(MachineKey),
    /// All callers of the flow with this query.
    Query(Query),
    /// A task of its own, by name.
    Task(String),
}

/// One call to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRequest {
    /// The API action, for example `RunInstances`.
    pub action: &'static str,
    /// What for.
    pub flow: Flow,
    /// Who calls.
    pub caller: Caller,
    /// How urgent it is.
    pub priority: Priority,
    /// How many instances the call names or asks for, where AWS counts them; 1 for a launch.
    pub instances: u64,
}

impl CallRequest {
    /// A describe. Callers of a flow with the same query share the turn.
    pub fn describe(action: &'static str, flow: &Flow, query: &Query, priority: Priority) -> Self {
        Self {
            action,
            flow: flow.clone(),
            caller: Caller::Query(query.clone()),
            priority,
            instances: 0,
        }
    }

    /// To look instances up for a machine that is to be launched or deleted.
    pub fn lookup(flow: &Flow, query: &Query) -> Self {
        Self::describe("DescribeInstances", flow, query, Priority::Launch)
    }

    /// To terminate instances.
    pub fn terminate(flow: &Flow, ids: &[String]) -> Self {
        Self {
            action: "TerminateInstances",
            flow: flow.clone(),
            caller: Caller::Task(ids.join(" ")),
            priority: Priority::Terminate,
            instances: ids.len() as u64,
        }
    }

    /// To look a load balancer up by its name.
    pub fn load_balancer(flow: &Flow, name: &str) -> Self {
        Self {
            action: "DescribeLoadBalancers",
            flow: flow.clone(),
            caller: Caller::Task(name.to_owned()),
            priority: Priority::Describe,
            instances: 0,
        }
    }

    /// To launch a machine's instance.
    pub fn launch(flow: &Flow, machine: &MachineKey) -> Self {
        Self {
            action: "RunInstances",
            flow: flow.clone(),
            caller: Caller::Machine(machine.clone()),
            priority: Priority::Launch,
            instances: 1,
        }
    }
}

/// The rates of one account in one region.
pub struct Limiter {
    share: Share,
    buckets: BTreeMap<&'static str, ActionLimiter>,
}

impl Limiter {
    /// Rates at this share of the published ones. Launches and terminations have all of theirs. Every bucket starts
    /// with one second of refill when it is first used.
    pub fn new(share: Share) -> Self {
        Self {
            share,
            buckets: BTreeMap::new(),
        }
    }

    /// Asks for a turn without making the call yet: once it has come it stays the caller's for some seconds, for
    /// [`Limiter::acquire`].
    ///
    /// # Errors
    /// How long until the turn comes.
    pub fn reserve(&mut self, turn: &CallRequest, now: Duration) -> Result<(), Duration> {
        self.bucket(turn.action, now).reserve(turn, now)
    }

    /// Takes the tokens of a call that is made now.
    ///
    /// # Errors
    /// How long until the caller's turn comes. A caller that comes back then, or up to ten seconds later, is granted
    /// the turn unless a more urgent call, a throttle, or a call of a tenant that waits for fewer turns came between.
    pub fn acquire(&mut self, turn: &CallRequest, now: Duration) -> Result<(), Duration> {
        self.bucket(turn.action, now).acquire(turn, now)
    }

    /// Counts a call that goes on with an earlier one, such as the next page: it is not held up halfway, those that
    /// come after it are.
    pub fn charge(&mut self, action: &'static str, now: Duration) {
        self.bucket(action, now).charge(0, now);
    }

    /// Gives up the turns of somebody who will not come.
    pub fn forget(&mut self, caller: &Caller) {
        for bucket in self.buckets.values_mut() {
            bucket.forget(caller);
        }
    }

    /// AWS throttled a call that began then: the action's rate is halved, and recovers a tenth of the whole for each
    /// minute without a throttle. Calls that were under way together count as one.
    pub fn throttled(&mut self, action: &'static str, began: Duration, now: Duration) {
        self.bucket(action, now).throttled(began, now);
    }

    /// Whether nobody waits for a turn, or has one that is not used.
    #[cfg(test)]
    fn is_idle(&self) -> bool {
        self.buckets.values().all(ActionLimiter::is_idle)
    }

    fn bucket(&mut self, action: &'static str, now: Duration) -> &mut ActionLimiter {
        let share = self.share;
        self.buckets
            .entry(action)
            .or_insert_with(|| ActionLimiter::new(quota(action), share, now))
    }
}
