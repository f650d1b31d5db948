//! The network interfaces of users, which a machine names in place of a subnet.

use capa_api::conditions::{ConditionType, Reason};
use capa_api::machine::AWSMachineSpec;
use capa_cloud::ec2::NetworkInterface;
use capa_cloud::{Query, Reads};
use capa_network::{Placement, Problem};
use capa_runtime::reconcile::Next;

use crate::blocked::Blocked;

/// The network interfaces of a machine's spec, in the order of their devices.
pub(crate) struct OwnInterfaces(Vec<NetworkInterface>);

impl OwnInterfaces {
    /// Looks up the interfaces that the spec names. `None` for a spec without any: its instance gets a new interface.
    pub(crate) async fn resolve(
        spec: &AWSMachineSpec,
        region: &str,
        cloud: &dyn Reads,
    ) -> Result<Option<Self>, Blocked> {
        let ids = &spec.network_interfaces;
        if ids.is_empty() {
            return Ok(None);
        }
        let query = Query::filter("network-interface-id", ids.clone());
        let found = cloud.network_interfaces(&query).await.map_err(|error| {
            let message = format!("the lookup of the network interfaces in {region} failed: {error}");
            Blocked::by_call(ConditionType::NetworkReady, message, &error)
        })?;
        let in_order = ids.iter().map(|id| {
            let interface = found.iter().find(|interface| interface.id == *id).cloned();
            interface.ok_or_else(|| {
                let message = format!(
                    "spec.networkInterfaces: {id} does not exist in {region}: create it, or name another in a new \
                     template"
                );
                Blocked::new(ConditionType::NetworkReady.is_false(Reason::NotFound, message), Next::Retry)
            })
        });
        Ok(Some(Self(in_order.collect::<Result<_, _>>()?)))
    }

    /// The zone of a subnet, where one of the interfaces lies in it.
    pub(crate) fn zone_of(&self, subnet_id: &str) -> Option<&str> {
        let interface = self.0.iter().find(|interface| interface.subnet_id == subnet_id)?;
        Some(&interface.availability_zone)
    }

    /// The placement that the interfaces determine. `wanted_zone` is the Machine's failure domain, and `own_subnets`
    /// are the ids of the subnets that the spec itself names, if it names any.
    pub(crate) fn placement(
        &self,
        wanted_zone: Option<&str>,
        own_subnets: Option<&[&str]>,
    ) -> Result<Placement, Problem> {
        let conflict = |message: String| Problem::new(Reason::Conflict, message);
        let Some(first) = self.0.first() else {
            return Err(conflict("the spec names no network interface".to_owned()));
        };
        if let Some((id, instance)) = self.0.iter().find_map(NetworkInterface::attached) {
            return Err(conflict(format!(
                "network interface {id} is attached to instance {instance}: detach it, or name another in a new \
                 template"
            )));
        }
        if let Some(zone) = wanted_zone.filter(|zone| *zone != first.availability_zone) {
            return Err(conflict(format!(
                "network interface {} lies in {}, and the failure domain of the Machine is {zone}: name one in {zone}, \
                 or set that failure domain",
                first.id, first.availability_zone
            )));
        }
        if own_subnets.is_some_and(|subnets| !subnets.contains(&first.subnet_id.as_str())) {
            return Err(conflict(format!(
                "network interface {} lies in {}, which is not the subnet of spec.subnet: leave subnet out",
                first.id, first.subnet_id
            )));
        }
        Ok(Placement {
            subnet_id: first.subnet_id.clone(),
            availability_zone: Some(first.availability_zone.clone()),
            security_group_ids: self.security_groups(),
        })
    }

    /// The security groups of all interfaces, without duplicates.
    fn security_groups(&self) -> Vec<String> {
        let mut ids: Vec<String> = Vec::new();
        for id in self.0.iter().flat_map(|interface| &interface.security_group_ids) {
            if !ids.contains(id) {
                ids.push(id.clone());
            }
        }
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(id: &str, groups: &[&str]) -> NetworkInterface {
        NetworkInterface {
            id: id.into(),
            subnet_id: "subnet-0000000a".into(),
            availability_zone: "eu-west-1a".into(),
            security_group_ids: groups.iter().map(|id| (*id).to_owned()).collect(),
            ..NetworkInterface::default()
        }
    }

    #[test]
    fn the_first_interface_places_and_all_give_their_groups() {
        let interfaces = OwnInterfaces(vec![
            interface("eni-0000000a", &["sg-0000000a", "sg-0000000b"]),
            interface("eni-0000000b", &["sg-0000000b", "sg-0000000c"]),
        ]);
        let placement = interfaces.placement(Some("eu-west-1a"), Some(&["subnet-0000000a"])).unwrap();
        assert_eq!(placement.subnet_id, "subnet-0000000a");
        assert_eq!(placement.availability_zone.as_deref(), Some("eu-west-1a"));
        assert_eq!(placement.security_group_ids, ["sg-0000000a", "sg-0000000b", "sg-0000000c"]);
        assert_eq!(interfaces.zone_of("subnet-0000000a"), Some("eu-west-1a"));
        assert_eq!(interfaces.zone_of("subnet-0000000b"), None);
    }

    #[test]
    fn an_interface_that_cannot_be_used_is_a_conflict() {
        let attached = NetworkInterface { instance_id: Some("i-00000001".into()), ..interface("eni-0000000b", &[]) };
        let both = OwnInterfaces(vec![interface("eni-0000000a", &[]), attached]);
        let one = OwnInterfaces(vec![interface("eni-0000000a", &[])]);
        for (problem, parts) in [
            (both.placement(None, None), ["eni-0000000b", "i-00000001"]),
            (one.placement(Some("eu-west-1b"), None), ["eu-west-1a", "eu-west-1b"]),
            (one.placement(None, Some(&["subnet-0000000b"])), ["subnet-0000000a", "spec.subnet"]),
        ] {
            let problem = problem.unwrap_err();
            assert_eq!(problem.reason, Reason::Conflict);
            for part in parts {
                assert!(problem.message.contains(part), "{part}: {}", problem.message);
            }
        }
    }
}
