//! Whether a cluster supplies the parts of a network that every machine needs. Pure.

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::subnet::SubnetSpec;
use capa_api::common::MachineRole;
use capa_api::network::{MachineNetwork, NetworkSecurityGroups, NetworkSubnet};

use super::declared_groups;
use crate::awscluster::facts::NetworkLookup;

/// Whether a cluster supplies a part of the network to its machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awscluster) enum Supply {
    /// The cluster supplies the part.
    Usable,
    /// The cluster supplies the part to machines of one role, and nothing of what the spec declares for the other role
    /// can be used.
    OneRole,
    /// The spec declares the part. The lookup failed, so it is unknown whether the part can be used.
    Unverified,
    /// The spec declares the part, and nothing of what it declares can be used.
    Unusable,
    /// The spec declares nothing.
    Undeclared,
}

/// The supply of subnets. Subnets of which no lookup knows the zone while the lookup fails are doubtful: nothing shows
/// that they exist. So are subnets that are found by discovery while the lookup fails. A subnet in an edge zone is for
/// machines that name it.
pub(super) fn of_subnets(spec: &AWSClusterSpec, network: &MachineNetwork, lookup: &NetworkLookup) -> Supply {
    if !network.subnets.is_empty() && network.subnets.iter().all(NetworkSubnet::is_edge) {
        return Supply::Undeclared;
    }
    let discovery = spec.effective_discovery();
    let are_named = !spec.subnets().iter().all(SubnetSpec::is_for_pods_only);
    let declares = |role| are_named || discovery.subnets.iter().any(|entry| entry.serves(role));
    let usable = || network.subnets.iter().filter(|subnet| !subnet.is_edge());
    let supply = supply(declares, |role| usable().any(|subnet| subnet.serves(role)));
    let needs_lookup = match supply {
        Supply::Usable | Supply::OneRole => usable().all(|subnet| subnet.availability_zone.is_none()),
        Supply::Unusable => !are_named,
        Supply::Unverified | Supply::Undeclared => false,
    };
    if needs_lookup && lookup.is_unanswered() {
        return Supply::Unverified;
    }
    supply
}

/// The supply of security groups to the roles for which the spec declares some. Groups that are found by discovery are
/// doubtful while the lookup fails.
pub(super) fn of_security_groups(spec: &AWSClusterSpec, network: &MachineNetwork, lookup: &NetworkLookup) -> Supply {
    let named = declared_groups(spec);
    let discovery = spec.effective_discovery().security_groups.unwrap_or_default();
    let published = network.security_groups.clone().unwrap_or_default();
    let declares = |role| !are_none(&named, role) || discovery.serves(role);
    let supply = supply(declares, |role| !are_none(&published, role));
    let is_searched = discovery.parts().next().is_some();
    if supply == Supply::Unusable && is_searched && lookup.is_unanswered() {
        return Supply::Unverified;
    }
    supply
}

/// The supply of a part that the spec declares for some roles, and of which some roles have something usable.
fn supply(declares: impl Fn(MachineRole) -> bool, supplies: impl Fn(MachineRole) -> bool) -> Supply {
    let roles = [MachineRole::ControlPlane, MachineRole::Worker].into_iter();
    let roles = roles.filter(|role| declares(*role));
    let usable: Vec<bool> = roles.map(supplies).collect();
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
            ("{id: a}", "{id: a}", failed(), Supply::Unverified),
            ("{id: a}", "{id: a}", NetworkLookup::NoIdentity, Supply::Unverified),
            ("{id: a}", "", failed(), Supply::Unusable),
            ("{id: a}", "{id: a, zoneType: local-zone}", found(), Supply::Undeclared),
            ("{id: a}", "{id: a, zoneType: local-zone, availabilityZone: z}, {id: b}", failed(), Supply::Unverified),
            ("{id: a}", "{id: b}, {id: a, availabilityZone: z}", failed(), Supply::Usable),
        ];
        for (declared, published, lookup, expected) in table {
            let spec: AWSClusterSpec = read(&format!("{{network: {{subnets: [{declared}]}}}}"));
            let network: MachineNetwork = read(&format!("{{subnets: [{published}]}}"));
            assert_eq!(of_subnets(&spec, &network, &lookup), expected, "{declared}; {published}");
        }
    }

    #[test]
    fn discovered_parts_are_doubtful_while_the_lookup_fails() {
        let failed = || NetworkLookup::Failed(CloudError::no_answer("DescribeVpcs", "no answer"));
        let found = || NetworkLookup::Found(Box::default());
        let (both, workers) = ("{filters: []}", "{filters: [], roles: [Worker]}");
        let split = "{filters: [], roles: [Worker]}, {filters: [], roles: [ControlPlane]}";
        let of_workers = "{id: a, availabilityZone: z, roles: [Worker]}";
        let table = [
            (both, "", found(), Supply::Unusable),
            (both, "", failed(), Supply::Unverified),
            (both, of_workers, found(), Supply::OneRole),
            (workers, of_workers, found(), Supply::Usable),
            (split, of_workers, found(), Supply::OneRole),
            (split, of_workers, failed(), Supply::OneRole),
        ];
        for (discovery, published, lookup, expected) in table {
            let spec: AWSClusterSpec = read(&format!("{{discovery: {{subnets: [{discovery}]}}}}"));
            let network: MachineNetwork = read(&format!("{{subnets: [{published}]}}"));
            let supply = of_subnets(&spec, &network, &lookup);
            assert_eq!(supply, expected, "{discovery}; {published}");
        }
        let groups: AWSClusterSpec = read("{discovery: {securityGroups: {worker: {filters: []}}}}");
        let nothing = MachineNetwork::default();
        assert_eq!(of_security_groups(&groups, &nothing, &failed()), Supply::Unverified);
        assert_eq!(of_security_groups(&groups, &nothing, &found()), Supply::Unusable);
        let some: MachineNetwork = read("{securityGroups: {worker: [sg-0000000a]}}");
        assert_eq!(of_security_groups(&groups, &some, &found()), Supply::Usable);
    }

    #[test]
    fn each_role_with_declared_groups_needs_a_usable_one() {
        let table = [
            ("", "", Supply::Undeclared),
            ("node: a", "all: [a]", Supply::Usable),
            ("node: a", "", Supply::Unusable),
            ("node: a, controlplane: b", "controlPlane: [b]", Supply::OneRole),
            ("node: a, controlplane: b", "", Supply::Unusable),
            ("node: a, controlplane: b", "all: [a]", Supply::Usable),
            ("controlplane: b", "controlPlane: [b]", Supply::Usable),
            ("controlplane: b", "", Supply::Unusable),
        ];
        for (declared, published, expected) in table {
            let spec: AWSClusterSpec = read(&format!("{{network: {{securityGroupOverrides: {{{declared}}}}}}}"));
            let network: MachineNetwork = read(&format!("{{securityGroups: {{{published}}}}}"));
            let failed = NetworkLookup::Failed(CloudError::no_answer("DescribeVpcs", "no answer"));
            for lookup in [NetworkLookup::Found(Box::default()), failed] {
                let supply = of_security_groups(&spec, &network, &lookup);
                assert_eq!(supply, expected, "{declared}; {published}");
            }
        }
    }
}
