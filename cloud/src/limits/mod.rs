//! How often AWS may be called: the rates of one account in one region, and whose turn it is.
//!
//! Pure: time is passed in, counted from any fixed origin, and nothing waits. A call that finds no token is told when
//! its turn comes; the turn is kept for the caller until shortly after that time. EC2 counts each action by itself, so
//! each action has a bucket of its own, filled at our share of what AWS publishes ([`quota()`]).

mod action;
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

use crate::{MachineKey, Query};

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

/// Who calls: a turn is kept for it by this.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Caller {
    /// A machine.
    Machine(MachineKey),
    /// All callers with this query.
    Query(Query),
    /// A task of its own, by name.
    Task(String),
}

/// One call to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRequest {
    /// The API action, for example `RunInstances`.
    pub action: &'static str,
    /// Who calls.
    pub caller: Caller,
    /// What for.
    pub priority: Priority,
    /// How many instances the call names or asks for, where AWS counts them; 1 for a launch.
    pub instances: u64,
}

impl CallRequest {
    /// A describe. Callers with the same query share the turn.
    pub fn describe(action: &'static str, query: &Query, priority: Priority) -> Self {
        Self {
            action,
            caller: Caller::Query(query.clone()),
            priority,
            instances: 0,
        }
    }

    /// To look instances up for a machine that is to be launched or deleted.
    pub fn lookup(query: &Query) -> Self {
        Self::describe("DescribeInstances", query, Priority::Launch)
    }

    /// To terminate instances.
    pub fn terminate(ids: &[String]) -> Self {
        Self {
            action: "TerminateInstances",
            caller: Caller::Task(ids.join(" ")),
            priority: Priority::Terminate,
            instances: ids.len() as u64,
        }
    }

    /// To look a load balancer up by its name.
    pub fn load_balancer(name: &str) -> Self {
        Self {
            action: "DescribeLoadBalancers",
            caller: Caller::Task(name.to_owned()),
            priority: Priority::Describe,
            instances: 0,
        }
    }

    /// To list the listeners of a load balancer, by the name of the latter.
    pub fn listeners(name: &str) -> Self {
        Self {
            action: "DescribeListeners",
            ..Self::load_balancer(name)
        }
    }

    /// To launch a machine's instance.
    pub fn launch(machine: &MachineKey) -> Self {
        Self {
            action: "RunInstances",
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
        self.bucket(turn.action, now)
            .reserve(&turn.caller, turn.priority, turn.instances, now)
    }

    /// Takes the tokens of a call that is made now.
    ///
    /// # Errors
    /// How long until the caller's turn comes. A caller that comes back then, or up to ten seconds later, is granted
    /// the turn unless a more urgent call or a throttle came between.
    pub fn acquire(&mut self, turn: &CallRequest, now: Duration) -> Result<(), Duration> {
        self.bucket(turn.action, now)
            .acquire(&turn.caller, turn.priority, turn.instances, now)
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

    fn bucket(&mut self, action: &'static str, now: Duration) -> &mut ActionLimiter {
        let share = self.share;
        self.buckets
            .entry(action)
            .or_insert_with(|| ActionLimiter::new(quota(action), share, now))
    }
}
