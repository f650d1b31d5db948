//! Listings that do not come to an end: what an informer shows grows old then, and its machines say so.

use std::time::Duration;

use super::InstanceInformer;
use crate::Timing;

/// How many intervals without a complete listing are too many.
const INTERVALS: u32 = 5;

/// Since when an informer lacks a complete listing.
#[derive(Default)]
pub(super) struct Overdue {
    /// When the last one ended, or the first machine came; none while there is no machine.
    since: Option<Duration>,
    is_overdue: bool,
}

impl Overdue {
    /// When listings are overdue, if none ends before. Never where they follow each other without a pause.
    pub(super) fn due(&self, timing: &Timing) -> Option<Duration> {
        let longest = timing.listing_interval * INTERVALS;
        let since = self.since.filter(|_| !self.is_overdue && !longest.is_zero());
        since.map(|since| since + longest)
    }
}

impl InstanceInformer {
    /// Whether no listing has come to its end for five intervals: it fails, or waits for its turn.
    pub fn is_overdue(&self) -> bool {
        self.overdue.is_overdue
    }

    /// Notes that time has passed. The machines are woken when listings become overdue.
    pub(super) fn note_overdue(&mut self, now: Duration) {
        if self.watches.is_empty() {
            self.overdue = Overdue::default();
            return;
        }
        self.overdue.since.get_or_insert(now);
        if self.overdue.due(&self.timing).is_some_and(|due| due <= now) {
            self.overdue.is_overdue = true;
            self.wake_all();
        }
    }

    /// A listing has come to its end. The machines are woken where that was overdue.
    pub(super) fn note_listed(&mut self, now: Duration) {
        self.overdue.since = Some(now);
        if std::mem::take(&mut self.overdue.is_overdue) {
            self.wake_all();
        }
    }

    /// Wakes every machine.
    pub(super) fn wake_all(&mut self) {
        let machines = self.watches.keys().map(|machine| machine.as_ref().clone());
        self.woken.extend(machines);
    }
}
