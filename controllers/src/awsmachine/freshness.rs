//! The age of what is known about instances, and the condition `InstanceUpToDate`.

use capa_api::conditions::{ConditionType, Reason, find};

use super::locate::InstanceLocation;
use super::scope::MachineScope;

/// Sets `InstanceUpToDate`. The condition is absent until it is False for the first time.
pub(super) fn report_freshness(scope: &mut MachineScope, location: &InstanceLocation) {
    match overdue(location) {
        Some((reason, message)) => {
            scope.set_condition(ConditionType::InstanceUpToDate.is_false(reason, message));
        }
        None if find(&scope.status.conditions, ConditionType::InstanceUpToDate).is_some() => {
            scope.set_condition(ConditionType::InstanceUpToDate.is_true(Reason::Ready));
        }
        None => {}
    }
}

/// Why the known states of the instances may be old. `None` while the listings complete in time.
pub(super) fn overdue(location: &InstanceLocation) -> Option<(Reason, String)> {
    if !location.cloud.listing_overdue() {
        return None;
    }
    let failure = location.cloud.reading_failure();
    Some(failure.map_or_else(waits_for_its_turn, |error| {
        let message = format!("listings of the instances of this identity have failed for five intervals: {error}");
        (error.class.reason(), message)
    }))
}

fn waits_for_its_turn() -> (Reason, String) {
    let message = "the instances of this identity were not listed for five intervals, because the listings wait for \
                   their turns in the request rates of this account and region: the state of the instance may be old";
    (Reason::Throttled, message.to_owned())
}
