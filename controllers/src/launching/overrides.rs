//! Validation of `securityGroupOverrides` of a machine. Pure.

use capa_api::cluster::security_group::SecurityGroupRole;
use capa_api::machine::AWSMachineSpec;

/// The first problem: a role that machines do not have, or an override that would remove another security group from
/// the machine.
pub(crate) fn validate_overrides(spec: &AWSMachineSpec) -> Option<String> {
    let overrides = &spec.security_group_overrides;
    let of_machines = SecurityGroupRole::ALL.into_iter().filter(|role| role.concerns_machines());
    let of_machines: Vec<&str> = of_machines.map(SecurityGroupRole::as_str).collect();
    let is_set = |role: SecurityGroupRole| overrides.get(role.as_str()).is_some_and(|id| !id.is_empty());
    if let Some(name) = overrides.keys().find(|name| SecurityGroupRole::named(name).is_none()) {
        return Some(format!("{name} is no role: use one of {}", of_machines.join(", ")));
    }
    let of_no_machine = |role: &SecurityGroupRole| !role.concerns_machines() && is_set(*role);
    if let Some(role) = SecurityGroupRole::ALL.into_iter().find(of_no_machine) {
        return Some(format!("{} concerns no machine: leave it out", role.as_str()));
    }
    let without_node = is_set(SecurityGroupRole::Lb) && !is_set(SecurityGroupRole::Node);
    without_node.then(|| "lb and node of a machine replace the cluster's together: name node as well".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    #[test]
    fn an_override_of_a_role_that_no_machine_has_is_refused() {
        let named = |overrides: &str| {
            let spec: AWSMachineSpec =
                read(&format!("{{instanceType: t3.large, securityGroupOverrides: {overrides}}}"));
            validate_overrides(&spec)
        };
        for overrides in [
            "{}",
            "{node: sg-1}",
            "{controlplane: sg-1}",
            "{node: sg-1, lb: sg-2, controlplane: sg-3}",
            "{node: sg-1, lb: ''}",
            "{bastion: ''}",
        ] {
            assert_eq!(named(overrides), None, "{overrides}");
        }
        let table: [(&str, &[&str]); 6] = [
            ("{controlPlane: sg-1}", &["controlPlane", "node, controlplane, lb"]),
            ("{node: sg-1, nodes: sg-2}", &["nodes", "node, controlplane, lb"]),
            ("{bastion: sg-1}", &["bastion", "concerns no machine"]),
            ("{apiserver-lb: sg-1}", &["apiserver-lb", "concerns no machine"]),
            ("{node-eks-additional: sg-1}", &["node-eks-additional", "concerns no machine"]),
            ("{lb: sg-1}", &["lb", "node", "replace the cluster's together"]),
        ];
        for (overrides, parts) in table {
            let message = named(overrides).unwrap_or_else(|| panic!("{overrides} passes"));
            for part in parts {
                assert!(message.contains(part), "{part}: {message}");
            }
        }
    }
}
