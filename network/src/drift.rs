//! Whether the network that a machine was launched into still equals its network sources.

use capa_api::common::{ControlPlaneTarget, MachineRole};
use capa_api::machine::MachineNetworkInUse;
use capa_api::network::MachineNetwork;

/// The differences, as a message for `NetworkUpToDate`; `None` if there are none. A machine keeps its network: the
/// provider reports a difference and does not act on it. A field without a source is not a difference, because a source
/// may be deleted once its machines run. `in_use` contains only the security groups that come from the network.
pub fn drift(network: &MachineNetwork, in_use: &MachineNetworkInUse, role: MachineRole) -> Option<String> {
    let mut differences = Vec::new();
    if let (Some(now), Some(then)) = (&network.region, &in_use.region)
        && now != then
    {
        differences.push(format!("the region is now {now}, but the machine runs in {then}"));
    }
    if let Some(then) = &in_use.subnet_id
        && !network.subnets.is_empty()
        && !network.subnets.iter().any(|subnet| subnet.id == *then)
    {
        differences.push(format!("subnet {then} of the machine is no longer among the subnets of the network"));
    }
    differences.extend(group_differences(network, in_use, role));
    if role == MachineRole::ControlPlane {
        differences.extend(target_differences(network, in_use));
    }
    (!differences.is_empty()).then(|| differences.join("; "))
}

/// The differences of the load balancer targets. Their order does not matter. Targets behind the name of a load
/// balancer are not compared.
fn target_differences(network: &MachineNetwork, in_use: &MachineNetworkInUse) -> Vec<String> {
    let (now, then) = (&network.control_plane_targets, &in_use.control_plane_targets);
    // Only AWS knows the target groups behind the name of a load balancer.
    let are_behind_names = now.iter().any(|target| target.load_balancer_name.is_some());
    if now.is_empty() || are_behind_names {
        return vec![];
    }
    let missing = now.iter().filter(|target| !then.contains(target)).map(described);
    let kept = then.iter().filter(|target| !now.contains(target)).map(described);
    let missing = missing.map(|target| format!("the machine was launched without {target}"));
    let kept = kept.map(|target| format!("the machine keeps {target}, which no source names any longer"));
    missing.chain(kept).collect()
}

fn described(target: &ControlPlaneTarget) -> String {
    let named = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    let port = target.port.map(|port| format!(" port {port}")).unwrap_or_default();
    match (named(&target.target_group_arn), named(&target.classic_load_balancer_name)) {
        (Some(arn), _) => format!("target {arn}{port}"),
        (None, Some(name)) => format!("target classic load balancer {name}"),
        (None, None) => "a target without a name".to_owned(),
    }
}

/// The differences of the security groups, as far as the recorded ids show them.
fn group_differences(network: &MachineNetwork, in_use: &MachineNetworkInUse, role: MachineRole) -> Vec<String> {
    let then = &in_use.security_group_ids;
    if then.is_empty() {
        return vec![];
    }
    let groups = network.security_groups.iter();
    let named: Vec<&String> = groups.flat_map(|groups| groups.of_machine(role)).collect();
    let message = |text: &str, ids: Vec<&str>| (!ids.is_empty()).then(|| text.replace("{}", &ids.join(", ")));
    let missing = named.iter().filter(|id| !id.is_empty() && !then.contains(id));
    let missing = missing.map(|id| id.as_str()).collect();
    let kept = then.iter().filter(|id| !named.contains(id)).map(String::as_str);
    // Without known origins, a recorded group may come from a source that no longer names groups.
    let origins_known = still_supplied(network, in_use, role);
    let kept = kept.filter(|_| origins_known).collect();
    [
        message("the machine was launched without security group {}", missing),
        message("the machine keeps security group {}, which no source names any longer", kept),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whether a source still supplies each field of security groups with which the machine was launched.
fn still_supplied(network: &MachineNetwork, in_use: &MachineNetworkInUse, role: MachineRole) -> bool {
    let groups = network.security_groups.clone().unwrap_or_default();
    let field_of_role = match role {
        MachineRole::ControlPlane => "securityGroups.controlPlane",
        MachineRole::Worker => "securityGroups.worker",
    };
    let fields = [("securityGroups.all", groups.all.as_slice()), (field_of_role, groups.of_role(role))];
    let gone = |(field, ids): &(&str, &[String])| in_use.sources.contains_key(*field) && ids.is_empty();
    !fields.iter().any(gone)
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
            sources: [("securityGroups.all".to_owned(), "AWSCluster/c".to_owned())].into(),
            ..MachineNetworkInUse::default()
        }
    }

    fn told(sources: &str, in_use: &MachineNetworkInUse) -> Option<String> {
        drift(&network(sources), in_use, MachineRole::Worker)
    }

    #[test]
    fn equal_or_removed_source_values_are_no_difference() {
        for yaml in [
            "{}",
            "{region: eu-west-1, subnets: [{id: subnet-0000000a}, {id: subnet-0000000b}], securityGroups: {all: \
             [sg-0000000a]}}",
            "{securityGroups: {controlPlane: [sg-0000000c]}}",
        ] {
            assert_eq!(told(yaml, &in_use()), None, "{yaml}");
        }
    }

    #[test]
    fn every_difference_is_reported() {
        let yaml = "{region: us-east-1, subnets: [{id: subnet-0000000b}], securityGroups: {all: [sg-0000000b]}}";
        let told = told(yaml, &in_use()).unwrap();
        for part in ["us-east-1", "subnet-0000000a", "sg-0000000b"] {
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn changed_targets_of_control_planes_are_reported() {
        let (a, b) = ("{targetGroupARN: 'arn:a', port: 6443}", "{classicLoadBalancerName: b}");
        let launched_with = |targets: &str| MachineNetworkInUse {
            control_plane_targets: network(&format!("{{controlPlaneTargets: {targets}}}")).control_plane_targets,
            ..MachineNetworkInUse::default()
        };
        let told = |now: &str, then: &str, role| {
            let now = network(&format!("{{controlPlaneTargets: {now}}}"));
            drift(&now, &launched_with(then), role)
        };
        let (one, both, turned) = (format!("[{a}]"), format!("[{a}, {b}]"), format!("[{b}, {a}]"));
        let table = [
            (&both, &both, None),
            (&turned, &both, None),
            (&one, &both, Some("the machine keeps target classic load balancer b, which no source names any longer")),
            (&both, &one, Some("the machine was launched without target classic load balancer b")),
        ];
        for (now, then, expected) in table {
            assert_eq!(told(now, then, MachineRole::ControlPlane).as_deref(), expected, "{now} {then}");
            assert_eq!(told(now, then, MachineRole::Worker), None);
        }
        assert_eq!(told("[]", &one, MachineRole::ControlPlane), None, "a source may go");
    }

    #[test]
    fn changed_security_groups_are_reported() {
        let launched_with =
            MachineNetworkInUse { security_group_ids: vec!["sg-0000000a".into(), "sg-0000000d".into()], ..in_use() };
        let table = [
            ("[sg-0000000a, sg-0000000d]", None),
            (
                "[sg-0000000a, sg-0000000d, sg-0000000e]",
                Some("the machine was launched without security group sg-0000000e"),
            ),
            ("[sg-0000000a]", Some("the machine keeps security group sg-0000000d, which no source names any longer")),
        ];
        for (all, expected) in table {
            let told = told(&format!("{{securityGroups: {{all: {all}}}}}"), &launched_with);
            assert_eq!(told.as_deref(), expected, "{all}");
        }
        assert_eq!(told("{}", &launched_with), None, "a source may go");
        let recovered = MachineNetworkInUse { security_group_ids: vec![], ..launched_with };
        let all = "{securityGroups: {all: [sg-0000000e]}}";
        assert_eq!(told(all, &recovered), None, "nothing is on record");
    }
}
