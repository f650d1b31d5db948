//! Capacity Reservations, which moto lacks.

use super::answer::Answer;
use super::caller::CallerIdentity;
use super::state::Shared;
use super::xml::Element;

/// DescribeCapacityReservations: the reservations of the account, whatever the filters.
pub(super) fn describe(shared: &Shared, caller: &CallerIdentity) -> Answer {
    let reservations = shared.with_account(&caller.account, |account| account.reservations.clone());
    let item = |(id, zone): (String, String)| {
        let fields = vec![
            Element::text("capacityReservationId", &id),
            Element::text("availabilityZone", &zone),
            Element::text("state", "active"),
        ];
        Element::parent("item", fields)
    };
    let set = Element::parent("capacityReservationSet", reservations.into_iter().map(item).collect());
    Answer::of("DescribeCapacityReservations", vec![set])
}
