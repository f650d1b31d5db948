//! Whether a cluster supplies the parts of a network that every machine needs. Pure.

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::subnet::SubnetSpec;
use capa_api::common::MachineRole;
use capa_api::network::{MachineNetwork, NetworkSecurityGroups, NetworkSubnet};

use crate::awscluster::facts::NetworkLookup;

/// Whether a cluster supplies a part of the network to its machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awscluster) enum Supply {
    /// The cluster supplies the part.
    Usable,
    /// The cluster supplies the part to machines of one role, and nothing of what the spec declares for the other role
    /// can be used.
    OneRole,
    /// The spec declares the part. No lookup succeeds, and nothing shows whether the part can be used.
    Doubtful,
    /// The spec declares the part, and nothing of what it declares can be used.
    Unusable,
    /// The spec declares nothing.
    Undeclared,
}

/// The supply of subnets. Subnets of which no lookup knows the zone while the lookup fails are doubtful: nothing shows
/// that they exist. A subnet in an edge zone is for machines that name it.
pub(super) fn of_subnets(spec: &AWSClusterSpec, network: &MachineNetwork, lookup: &NetworkLookup) -> Supply {
    let are_edge = !network.subnets.is_empty() && network.subnets.iter().all(NetworkSubnet::is_edge);
    if are_edge || spec.subnets().iter().all(SubnetSpec::is_for_pods_only) {
        return Supply::Undeclared;
    }
    let is_unanswered = matches!(lookup, NetworkLookup::Failed(_) | NetworkLookup::NoIdentity);
    let mut usable = network.subnets.iter().filter(|subnet| !subnet.is_edge()).peekable();
    if usable.peek().is_none() {
        Supply::Unusable
    } else if !is_unanswered || usable.any(|subnet| subnet.availability_zone.is_some()) {
        Supply::Usable
    } else {
        Supply::Doubtful
    }
}

/// The supply of security groups to the roles for which the spec declares some.
pub(super) fn of_security_groups(declared: &NetworkSecurityGroups, network: &MachineNetwork) -> Supply {
    let published = network.security_groups.clone().unwrap_or_default();
    let roles = [MachineRole::ControlPlane, MachineRole::Worker];
    let declared = roles.into_iter().filter(|role| !are_none(declared, *role));
    let usable: Vec<bool> = declared.map(|role| !are_none(&published, role)).collect();
    match (usable.contains(&true), usable.contains(&false)) {
        (false, false) => Supply::Undeclared,
        (true, false) => Supply::Usable,
        (true, true) => Supply::OneRole,
        (false, true) => Supply::Unusable,
    }
}

/// Whether machines of the role get no group.
fn are_none(groups: &NetworkSecurityGroups, role: MachineRole) -> bool {
    groups.all.is_empty() && groups.of_role(role).is_empty()
}

#[cfg(test)]
mod tests {
    use capa_cloud::CloudError;

    use super::*;
    use crate::testing::read;

    #[test]
    fn subnets_are_supplied_if_one_of_the_declared_is_usable() {
        let pods = "{id: b, tags: {sigs.k8s.io/cluster-api-provider-aws/association: secondary}}";
        let failed = || NetworkLookup::Failed(CloudError::no_answer("DescribeSubnets", "no answer"));
        let found = || NetworkLookup::Found(Box::default());
        let table = [
            ("", "", found(), Supply::Undeclared),
            (pods, "", found(), Supply::Undeclared),
            ("{id: a}", "", found(), Supply::Unusable),
            ("{id: a}", "{id: a}", found(), Supply::Usable),
            ("{id: a}", "{id: a}", NetworkLookup::Disabled, Supply::Usable),
            ("{id: a}", "{id: a}", failed(), Supply::Doubtful),
            ("{id: a}", "{id: a}", NetworkLookup::NoIdentity, Supply::Doubtful),
            ("{id: a}", "", failed(), Supply::Unusable),
            ("{id: a}", "{id: a, zoneType: local-zone}", found(), Supply::Undeclared),
            (
                "{id: a}",
                "{id: a, zoneType: local-zone, availabilityZone: z}, {id: b}",
                failed(),
                Supply::Doubtful,
            ),
            (
                "{id: a}",
                "{id: b}, {id: a, availabilityZone: z}",
                failed(),
                Supply::Usable,
            ),
        ];
        for (declared, published, lookup, expected) in table {
            let spec: AWSClusterSpec = read(&format!("{{network: {{subnets: [{declared}]}}}}"));
            let network: MachineNetwork = read(&format!("{{subnets: [{published}]}}"));
            assert_eq!(
                of_subnets(&spec, &network, &lookup),
                expected,
                "{declared}; {published}"
            );
        }
    }

    #[test]
    fn each_role_with_declared_groups_needs_a_usable_one() {
        let table = [
            ("", "", Supply::Undeclared),
            ("all: [a]", "all: [a]", Supply::Usable),
            ("all: [a]", "", Supply::Unusable),
            ("all: [a], controlPlane: [b]", "controlPlane: [b]", Supply::OneRole),
            ("all: [a], controlPlane: [b]", "", Supply::Unusable),
            ("all: [a], controlPlane: [b]", "all: [a]", Supply::Usable),
            ("controlPlane: [b]", "controlPlane: [b]", Supply::Usable),
            ("controlPlane: [b]", "", Supply::Unusable),
        ];
        for (declared, published, expected) in table {
            let groups: NetworkSecurityGroups = read(&format!("{{{declared}}}"));
            let network: MachineNetwork = read(&format!("{{securityGroups: {{{published}}}}}"));
            assert_eq!(
                of_security_groups(&groups, &network),
                expected,
                "{declared}; {published}"
            );
        }
    }
}
