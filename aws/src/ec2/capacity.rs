//! The zones of Capacity Reservations and Dedicated Hosts.

use std::slice;

use capa_cloud::{CapacitySource, CloudError};

use super::Ec2Calls;

impl Ec2Calls {
    /// The zone of the capacity that a machine names.
    ///
    /// # Errors
    /// The class is `NotFound` if AWS does not show the capacity, or does not show it yet.
    pub(crate) async fn capacity_zone(&self, source: &CapacitySource) -> Result<String, CloudError> {
        let (action, zone) = match source {
            CapacitySource::Reservation(id) => {
                let found = self.reservation_facts(vec![id.clone()]).await?.into_iter().next();
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
