//! Capacity Reservations, which moto lacks.

use super::answer::{Answer, Refusal};
use super::pipeline::{CallerIdentity, unreadable};
use super::state::Shared;
use super::xml::Element;

/// DescribeCapacityReservations: the reservations of the account, whatever the filters.
pub(super) fn describe(shared: &Shared, caller: &CallerIdentity) -> Result<Answer, Refusal> {
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
    let request_id = Element::text("requestId", "");
    let tree = Element::parent("DescribeCapacityReservationsResponse", vec![request_id, set]);
    Ok(Answer {
        status: 200,
        body: tree.write().map_err(unreadable)?,
    })
}
