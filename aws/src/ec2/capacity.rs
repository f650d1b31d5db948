//! The zones of Capacity Reservations and Dedicated Hosts.

use capa_cloud::{CapacitySource, CloudError};

use super::Ec2Calls;

impl Ec2Calls {
    /// The zone of capacity that a machine names; `None` if AWS does not show it.
    pub(crate) async fn capacity_zone(&self, source: CapacitySource) -> Result<Option<String>, CloudError> {
        let zone = match source {
            CapacitySource::Reservation(id) => {
                let found = self.reservation_facts(vec![id]).await?.into_iter().next();
                found.map(|reservation| reservation.zone)
            }
            CapacitySource::Host(id) => {
                let found = self.host_facts(vec![id]).await?.into_iter().next();
                found.map(|host| host.zone)
            }
        };
        Ok(zone.filter(|zone| !zone.is_empty()))
    }
}
