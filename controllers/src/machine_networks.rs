//! The parts of a network that the machines of a cluster name in their own specs. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};

use capa_api::cluster::AWSCluster;
use capa_api::conditions::{ConditionType, find, is_false};
use capa_api::machine::template::AWSMachineTemplate;
use capa_api::machine::{AWSMachine, AWSMachineSpec};
use capa_api::meta;
use capa_api::network::NetworkSecurityGroups;

/// The parts of a network that at least one machine, or template of machines, of a cluster names in its own spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MachineNetworks {
    /// A machine names a subnet.
    pub subnet: bool,
    /// A machine names a security group.
    pub security_group: bool,
}

impl MachineNetworks {
    /// The parts that at least one of the specs names.
    pub fn of<'a>(specs: impl IntoIterator<Item = &'a AWSMachineSpec>) -> Self {
        specs.into_iter().fold(Self::default(), |named, spec| Self {
            subnet: named.subnet || names_subnet(spec),
            security_group: named.security_group || names_security_group(spec),
        })
    }
}

/// Whether the spec names objects from which both subnet and security groups come. They are not read here: a machine
/// whose sources supply nothing reports that itself.
fn names_network(spec: &AWSMachineSpec) -> bool {
    !spec.network_sources.is_empty() || !spec.network_interfaces.is_empty()
}

fn names_subnet(spec: &AWSMachineSpec) -> bool {
    names_network(spec) || spec.names_subnet()
}

fn names_security_group(spec: &AWSMachineSpec) -> bool {
    let overrides = NetworkSecurityGroups::from_overrides(&spec.security_group_overrides);
    let mut additional = spec.additional_security_groups.iter();
    let by_override = !overrides.all.is_empty() || !overrides.control_plane.is_empty();
    names_network(spec) || by_override || additional.any(|reference| !reference.is_empty())
}

/// Hash of the fields of an AWSMachine whose change can make its AWSCluster `Ready`, or add or remove the need for its
/// finalizer.
pub fn watched_machine(machine: &AWSMachine) -> Option<u64> {
    let cluster = meta::cluster_name_label(&machine.metadata);
    let is_held = meta::has_finalizer(&machine.metadata, meta::MACHINE_FINALIZER);
    Some(hash(&(MachineNetworks::of([&machine.spec]), cluster, is_held)))
}

/// Hash of the fields of an AWSMachineTemplate whose change can make its AWSCluster `Ready`.
pub fn watched_template(template: &AWSMachineTemplate) -> Option<u64> {
    let cluster = meta::owner_cluster_name(&template.metadata);
    Some(hash(&(MachineNetworks::of([&template.spec.template.spec]), cluster)))
}

fn hash(facts: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    facts.hash(&mut hasher);
    hasher.finish()
}

/// Whether a change of a machine may affect the AWSCluster: a network that the machine names can make it `Ready`, the
/// machine requires its finalizer, or its deletion waits for machines.
pub fn may_wait_for_machines(cluster: &AWSCluster) -> bool {
    let is_held = meta::has_finalizer(&cluster.metadata, meta::CLUSTER_FINALIZER);
    if cluster.spec.unmanaged && (!is_held || cluster.metadata.deletion_timestamp.is_some()) {
        return true;
    }
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice());
    let ready = conditions.and_then(|conditions| find(conditions, ConditionType::Ready));
    ready.is_some_and(is_false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    fn named(spec: &str) -> (bool, bool) {
        let spec = read(&format!("{{instanceType: t3.large, {spec}}}"));
        let named = MachineNetworks::of([&spec]);
        (named.subnet, named.security_group)
    }

    #[test]
    fn a_spec_names_subnet_and_groups_by_id_or_by_filters() {
        let filter = "filters: [{name: 'tag:a', values: [b]}]";
        let table = [
            (String::new(), (false, false)),
            ("subnet: {id: subnet-0000000a}".to_owned(), (true, false)),
            (format!("subnet: {{{filter}}}"), (true, false)),
            ("subnet: {id: ''}".to_owned(), (false, false)),
            ("additionalSecurityGroups: [{id: sg-0000000a}]".to_owned(), (false, true)),
            (format!("additionalSecurityGroups: [{{{filter}}}]"), (false, true)),
            ("additionalSecurityGroups: [{}]".to_owned(), (false, false)),
            ("networkSources: [{kind: ConfigMap, name: n}]".to_owned(), (true, true)),
            ("networkInterfaces: [eni-0000000a]".to_owned(), (true, true)),
            ("securityGroupOverrides: {node: sg-0000000a}".to_owned(), (false, true)),
            ("securityGroupOverrides: {controlplane: sg-0000000a}".to_owned(), (false, true)),
            ("securityGroupOverrides: {bastion: sg-0000000a, node: ''}".to_owned(), (false, false)),
        ];
        for (spec, expected) in table {
            assert_eq!(named(&spec), expected, "{spec}");
        }
    }

    #[test]
    fn the_machines_of_a_cluster_name_parts_together() {
        let specs: [AWSMachineSpec; 2] = [
            read("{instanceType: a.b, subnet: {id: subnet-0000000a}}"),
            read("{instanceType: a.b, additionalSecurityGroups: [{id: sg-0000000a}]}"),
        ];
        let both = MachineNetworks { subnet: true, security_group: true };
        assert_eq!(MachineNetworks::of(&specs), both);
        assert_eq!(MachineNetworks::of([]), MachineNetworks::default());
    }
}
