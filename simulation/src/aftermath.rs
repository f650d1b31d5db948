//! The deeds that follow when a history comes to a certain point, which chance alone seldom meets.

use std::time::Duration;

use crate::deeds::Deed;

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

/// The deeds that follow an occasion, once.
pub(crate) struct Aftermath {
    pub(crate) occasion: Occasion,
    /// Deeds, with how long after the occasion.
    pub(crate) deeds: Vec<(Duration, ThenDo)>,
}

/// A deed for the machine that an occasion concerns.
pub(crate) struct ThenDo(Box<dyn Fn(usize) -> Deed>);

impl ThenDo {
    pub(crate) fn from(deed: impl Fn(usize) -> Deed + 'static) -> Self {
        Self(Box::new(deed))
    }

    pub(crate) fn deed(&self, machine: usize) -> Deed {
        (self.0)(machine)
    }
}
