//! The capacity reservation or Dedicated Host that a machine names, which decides the zone.

use capa_api::conditions::{ConditionType, Reason};
use capa_api::machine::AWSMachineSpec;
use capa_api::network::MachineNetwork;
use capa_cloud::{CapacitySource, Reads};
use capa_network::Problem;

use crate::blocked::Blocked;

/// A zone, and the capacity in it that the machine names. A launch elsewhere is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CapacityZone {
    zone: String,
    source: CapacitySource,
}

/// The capacity that a machine names.
pub(crate) fn capacity_source(spec: &AWSMachineSpec) -> Option<CapacitySource> {
    let given = |id: &Option<String>| id.clone().filter(|id| !id.is_empty());
    let reservation = given(&spec.capacity_reservation_id).map(CapacitySource::Reservation);
    reservation.or_else(|| given(&spec.host_id).map(CapacitySource::Host))
}

/// Looks the zone up. `None` without such capacity, or after a permanent error, because the permission is optional:
/// then launches try the zones.
pub(crate) async fn capacity_zone(spec: &AWSMachineSpec, cloud: &dyn Reads) -> Result<Option<CapacityZone>, Blocked> {
    let Some(source) = capacity_source(spec) else {
        return Ok(None);
    };
    match cloud.capacity_zone(&source).await {
        Ok(zone) => Ok(Some(CapacityZone { zone, source })),
        Err(error) if error.class.is_permanent() => Ok(None),
        Err(error) => {
            let message = format!("the lookup of the zone of {source} failed: {error}");
            Err(Blocked::by_call(ConditionType::NetworkReady, message, &error))
        }
    }
}

impl CapacityZone {
    /// The network without the subnets of other zones. Subnets of unknown zones stay.
    pub(crate) fn restrict(
        &self,
        network: &MachineNetwork,
        failure_domain: Option<&str>,
    ) -> Result<MachineNetwork, Problem> {
        let Self { zone, source } = self;
        if let Some(wanted) = failure_domain.filter(|wanted| wanted != zone) {
            let message = format!(
                "the Machine asks for failure domain {wanted}, and {source} is in {zone}: ask for {zone}, or name \
                 capacity in {wanted} in a new template"
            );
            return Err(Problem::new(Reason::NoSubnetInFailureDomain, message));
        }
        let mut reduced = network.clone();
        let is_there = |shown: &Option<String>| shown.as_ref().is_none_or(|shown| shown == zone);
        reduced.subnets.retain(|subnet| is_there(&subnet.availability_zone));
        if reduced.subnets.is_empty() && !network.subnets.is_empty() {
            let message = format!(
                "no subnet of the machine's network is in {zone}, the zone of {source}: add a subnet in {zone} to the \
                 network, or name other capacity in a new template"
            );
            return Err(Problem::new(Reason::NoSubnetInFailureDomain, message));
        }
        Ok(reduced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    #[test]
    fn a_reservation_precedes_a_host_and_empty_ids_are_absent() {
        let named = |fields: &str| capacity_source(&read(&format!("{{instanceType: m6i.large, {fields}}}")));
        let reservation = CapacitySource::Reservation("cr-1".into());
        assert_eq!(named("capacityReservationId: cr-1, hostID: h-1"), Some(reservation));
        assert_eq!(named("capacityReservationId: '', hostID: h-1"), Some(CapacitySource::Host("h-1".into())));
        assert_eq!(named("hostID: ''"), None);
    }

    #[test]
    fn only_subnets_in_the_zone_of_the_capacity_remain() {
        let network = read(
            "{subnets: [{id: subnet-a, availabilityZone: eu-west-1a}, {id: subnet-b, availabilityZone: eu-west-1b}, \
             {id: subnet-x}]}",
        );
        let restricted = |zone: &str, failure_domain| {
            let zone = CapacityZone { zone: zone.to_owned(), source: CapacitySource::Reservation("cr-1".into()) };
            let network = zone.restrict(&network, failure_domain);
            network.map(|network| network.subnets.into_iter().map(|subnet| subnet.id).collect::<Vec<_>>())
        };
        assert_eq!(restricted("eu-west-1b", None).unwrap(), ["subnet-b", "subnet-x"]);
        assert_eq!(restricted("eu-west-1b", Some("eu-west-1b")).unwrap(), ["subnet-b", "subnet-x"]);
        let elsewhere = restricted("eu-west-1b", Some("eu-west-1a")).unwrap_err().message;
        assert!(elsewhere.contains("failure domain eu-west-1a, and capacity reservation cr-1 is in eu-west-1b"));
    }

    #[test]
    fn a_zone_without_a_subnet_is_named() {
        let network = read("{subnets: [{id: subnet-a, availabilityZone: eu-west-1a}]}");
        let zone = CapacityZone { zone: "eu-west-1b".to_owned(), source: CapacitySource::Host("h-1".into()) };
        let problem = zone.restrict(&network, None).unwrap_err();
        let expected = "no subnet of the machine's network is in eu-west-1b, the zone of Dedicated Host h-1";
        assert!(problem.message.starts_with(expected), "{}", problem.message);
    }
}
