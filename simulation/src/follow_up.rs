//! The actions that follow when a history comes to a certain point, which chance alone seldom meets.

use std::time::Duration;

use crate::simulation::user_actions::UserAction;

/// A point that a history may come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// A launch was called, and nobody gets its answer: the attempt stays open.
    LaunchUnanswered,
    /// EC2 has launched an instance, which may be hidden for a while.
    Launched,
    /// EC2 has allocated an Elastic IP, which may be hidden for a while.
    AddressAllocated,
}

/// The actions that follow an occasion, once.
pub(crate) struct FollowUp {
    pub(crate) occasion: Occasion,
    /// UserActions, with how long after the occasion.
    pub(crate) actions: Vec<(Duration, ThenDo)>,
}

/// An action for the machine that an occasion concerns.
pub(crate) struct ThenDo(Box<dyn Fn(usize) -> UserAction>);

impl ThenDo {
    pub(crate) fn from(action: impl Fn(usize) -> UserAction + 'static) -> Self {
        Self(Box::new(action))
    }

    pub(crate) fn action(&self, machine: usize) -> UserAction {
        (self.0)(machine)
    }
}
