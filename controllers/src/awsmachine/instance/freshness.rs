//! Says when what is shown of an instance may be old.

use capa_api::conditions::{ConditionType, Reason, find};

use crate::awsmachine::locate::InstanceLocation;
use crate::awsmachine::scope::MachineScope;

/// Sets `InstanceUpToDate`. The condition is absent until there is something to say for the first time.
pub(super) fn report_freshness(scope: &mut MachineScope, location: &InstanceLocation) {
    if !location.cloud.listing_overdue() {
        if find(&scope.status.conditions, ConditionType::InstanceUpToDate).is_some() {
            scope.set_condition(ConditionType::InstanceUpToDate.is_true(Reason::Ready));
        }
        return;
    }
    let (reason, message) = location
        .cloud
        .reading_failure()
        .map_or_else(waits_for_its_turn, |error| {
            let message = format!("AWS has not shown the instances of this identity for five intervals: {error}");
            (error.class.reason(), message)
        });
    scope.set_condition(ConditionType::InstanceUpToDate.is_false(reason, message));
}

fn waits_for_its_turn() -> (Reason, String) {
    let message = "the instances of this identity have not been listed for five intervals, within the request rate that \
                   is left to this account and region: what is shown of the instance may be old";
    (Reason::Throttled, message.to_owned())
}
