//! Capacity Reservations, and the zone of the capacity that a machine names.

use std::slice;

use aws_sdk_ec2::types;
use capa_cloud::ec2::CapacityReservation;
use capa_cloud::{CapacitySource, CloudError, Query};

use super::{Ec2Calls, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The Capacity Reservations with these ids.
    pub(crate) async fn capacity_reservations(&self, ids: Vec<String>) -> Result<Vec<CapacityReservation>, CloudError> {
        let query = &Query::filter("capacity-reservation-id", ids.clone());
        let ids = &ids;
        self.runner
            .describe("DescribeCapacityReservations", query, |permit, token| async move {
                let request = self.client.describe_capacity_reservations().set_next_token(token);
                let answer = self.runner.call(permit, request.send()).await?;
                let shown = answer.capacity_reservations().iter().map(reservation);
                Ok(Page {
                    items: shown.filter(|reservation| ids.contains(&reservation.id)).collect(),
                    next: answer.next_token,
                })
            })
            .await
    }

    /// The zone of the capacity that a machine names.
    ///
    /// # Errors
    /// The class is `NotFound` if AWS does not show the capacity, or does not show it yet.
    pub(crate) async fn capacity_zone(&self, source: &CapacitySource) -> Result<String, CloudError> {
        let (action, zone) = match source {
            CapacitySource::Reservation(id) => {
                let found = self.capacity_reservations(vec![id.clone()]).await?.into_iter().next();
                ("DescribeCapacityReservations", found.map(|reservation| reservation.zone))
            }
            CapacitySource::Host(id) => {
                let found = self.hosts_with(slice::from_ref(id)).await?.into_iter().next();
                ("DescribeHosts", found.map(|host| host.availability_zone))
            }
        };
        let zone = zone.filter(|zone| !zone.is_empty());
        zone.ok_or_else(|| CloudError::not_found(action, format!("{source} is not shown")))
    }
}

fn reservation(shown: &types::CapacityReservation) -> CapacityReservation {
    CapacityReservation {
        id: text(shown.capacity_reservation_id()),
        state: shown.state().map_or("", types::CapacityReservationState::as_str).into(),
        zone: text(shown.availability_zone()),
        instance_type: text(shown.instance_type()),
        free: shown.available_instance_count().unwrap_or_default(),
    }
}
