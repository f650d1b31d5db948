//! Whether the network a machine was launched into is still what its sources say.

use capa_api::common::MachineRole;
use capa_api::machine::MachineNetworkInUse;
use capa_api::network::MachineNetwork;

/// What differs, or nothing. A machine keeps what it was launched with; a difference is only told. Fields that no
/// source supplies any more are no difference: a source may go once its machines run.
pub fn drift(network: &MachineNetwork, in_use: &MachineNetworkInUse, role: MachineRole) -> Option<String> {
    let mut differences = Vec::new();
    if let (Some(now), Some(then)) = (&network.region, &in_use.region)
        && now != then
    {
        differences.push(format!("region is now {now}, the machine runs in {then}"));
    }
    if let Some(then) = &in_use.subnet_id
        && !network.subnets.is_empty()
        && !network.subnets.iter().any(|subnet| subnet.id == *then)
    {
        differences.push(format!("its subnet {then} is no more among the subnets"));
    }
    let groups = network.security_groups.iter();
    let wanted = groups.flat_map(|groups| groups.all.iter().chain(groups.of_role(role)));
    let missing: Vec<&str> = wanted
        .filter(|id| !in_use.security_group_ids.contains(id))
        .map(String::as_str)
        .collect();
    if !missing.is_empty() && !in_use.security_group_ids.is_empty() {
        differences.push(format!("it was launched without security group {}", missing.join(", ")));
    }
    (!differences.is_empty()).then(|| differences.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(yaml: &str) -> MachineNetwork {
        serde_saphyr::from_str(yaml).unwrap()
    }

    fn in_use() -> MachineNetworkInUse {
        MachineNetworkInUse {
            region: Some("eu-west-1".into()),
            subnet_id: Some("subnet-0000000a".into()),
            security_group_ids: vec!["sg-0000000a".into()],
            ..MachineNetworkInUse::default()
        }
    }

    #[test]
    fn what_is_still_the_same_or_no_more_supplied_is_no_difference() {
        for yaml in [
            "{}",
            "{region: eu-west-1, subnets: [{id: subnet-0000000a}, {id: subnet-0000000b}], securityGroups: {all: [sg-0000000a]}}",
            "{securityGroups: {controlPlane: [sg-0000000c]}}",
        ] {
            assert_eq!(drift(&network(yaml), &in_use(), MachineRole::Worker), None, "{yaml}");
        }
    }

    #[test]
    fn every_difference_is_told() {
        let yaml = "{region: us-east-1, subnets: [{id: subnet-0000000b}], securityGroups: {all: [sg-0000000b]}}";
        let told = drift(&network(yaml), &in_use(), MachineRole::Worker).unwrap();
        for part in ["us-east-1", "subnet-0000000a", "sg-0000000b"] {
            assert!(told.contains(part), "{told}");
        }
    }
}
