//! Joins the networks of the machines of a cluster, whose templates may have their own network sources. Pure.

use std::collections::BTreeSet;

use capa_api::common::MachineRole;
use capa_api::network::{MachineNetwork, NetworkSecurityGroups};

/// One network for the machines of all roles. If the networks differ, each subnet and each security group belongs to
/// the roles of the machines whose network contains it. Fields with a single value come from the first network.
pub(crate) fn joined(networks: Vec<(MachineRole, MachineNetwork)>) -> MachineNetwork {
    let mut all = networks.iter().map(|(_, network)| network);
    let Some(first) = all.next().cloned() else {
        return MachineNetwork::default();
    };
    if all.all(|network| *network == first) {
        return first;
    }
    let mut joined = MachineNetwork { subnets: vec![], security_groups: None, ..first };
    let mut control_plane = BTreeSet::new();
    let mut workers = BTreeSet::new();
    for (role, network) in networks {
        add_subnets(&mut joined, role, &network);
        let groups = network.security_groups.unwrap_or_default();
        let (of_role, own) = match role {
            MachineRole::ControlPlane => (&mut control_plane, groups.control_plane),
            MachineRole::Worker => (&mut workers, groups.worker),
        };
        of_role.extend(groups.all.into_iter().chain(own));
    }
    joined.security_groups = Some(NetworkSecurityGroups {
        control_plane: control_plane.into_iter().collect(),
        worker: workers.into_iter().collect(),
        ..NetworkSecurityGroups::default()
    });
    joined
}

fn add_subnets(joined: &mut MachineNetwork, role: MachineRole, network: &MachineNetwork) {
    for subnet in network.subnets.iter().filter(|subnet| subnet.serves(role)) {
        match joined.subnets.iter_mut().find(|known| known.id == subnet.id) {
            Some(known) if !known.roles.contains(&role) => known.roles.push(role),
            Some(_) => {}
            None => {
                let mut subnet = subnet.clone();
                subnet.roles = vec![role];
                joined.subnets.push(subnet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(subnets: &[&str], group: &str) -> MachineNetwork {
        let subnets: Vec<_> = subnets.iter().map(|id| serde_json::json!({"id": id})).collect();
        let network =
            serde_json::json!({"region": "eu-west-1", "subnets": subnets, "securityGroups": {"all": [group]}});
        serde_json::from_value(network).expect("a network")
    }

    #[test]
    fn equal_networks_stay_as_they_are() {
        let one = network(&["subnet-0000000a"], "sg-0000000a");
        let both = vec![(MachineRole::ControlPlane, one.clone()), (MachineRole::Worker, one.clone())];
        assert_eq!(joined(both), one);
        assert_eq!(joined(vec![]), MachineNetwork::default());
    }

    #[test]
    fn parts_of_different_networks_belong_to_their_roles() {
        let joined = joined(vec![
            (MachineRole::ControlPlane, network(&["subnet-0000000a", "subnet-0000000b"], "sg-0000000a")),
            (MachineRole::Worker, network(&["subnet-0000000b"], "sg-0000000b")),
        ]);
        let roles: Vec<_> = joined.subnets.iter().map(|subnet| (subnet.id.as_str(), subnet.roles.len())).collect();
        assert_eq!(roles, [("subnet-0000000a", 1), ("subnet-0000000b", 2)]);
        let groups = joined.security_groups.expect("groups");
        assert_eq!((groups.control_plane, groups.worker), (vec!["sg-0000000a".into()], vec!["sg-0000000b".into()]));
    }
}
