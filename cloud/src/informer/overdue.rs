//! Detects an informer whose listings do not complete. The data of such an informer may be old.

use std::time::Duration;

use super::InstanceInformer;
use crate::Timing;

/// Number of intervals without a complete listing after which an informer is overdue. With short intervals, it is not
/// before [`Timing::visibility_age`].
const INTERVALS: u32 = 5;

/// The time since the last complete listing of an informer.
#[derive(Default)]
pub(super) struct Overdue {
    /// The end of the last complete listing, or the arrival of the first machine. `None` while there is no machine.
    since: Option<Duration>,
    is_overdue: bool,
}

impl Overdue {
    /// The time at which the informer becomes overdue. `None` if the listing interval is zero.
    pub(super) fn due(&self, timing: &Timing) -> Option<Duration> {
        let since = self.since.filter(|_| !self.is_overdue && !timing.listing_interval.is_zero());
        since.map(|since| since + (timing.listing_interval * INTERVALS).max(timing.visibility_age))
    }
}

impl InstanceInformer {
    /// Whether no listing has completed for five intervals and five minutes. The listings fail, or wait for their
    /// turns.
    pub fn is_overdue(&self) -> bool {
        self.overdue.is_overdue
    }

    /// Checks whether the informer has become overdue, and wakes its machines if it has.
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

    /// Records a complete listing, and wakes the machines of an overdue informer.
    pub(super) fn note_listed(&mut self, now: Duration) {
        self.overdue.since = Some(now);
        if std::mem::take(&mut self.overdue.is_overdue) {
            self.wake_all();
        }
    }

    /// Wakes all machines of the informer.
    pub(super) fn wake_all(&mut self) {
        let machines = self.watches.keys().map(|machine| machine.as_ref().clone());
        self.woken.extend(machines);
    }
}
