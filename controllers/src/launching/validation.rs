//! The validation of a machine's spec and network. Pure.

use capa_api::common::{ControlPlaneTarget, ResourceReference, Volume};
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::machine::AWSMachineSpec;
use capa_api::network::{MachineNetwork, Oversized};
use capa_network::Problem;

use crate::launching::forms;
use crate::launching::options::contradiction;
use crate::launching::overrides::validate_overrides;
use crate::{tags, target_forms};

/// Refuses tags that only the manager may set, because these tags decide which instances are deleted. `cluster_tag` is
/// the name of the cluster in tags.
pub(crate) fn validate_tags(spec: &AWSMachineSpec, network: &MachineNetwork, cluster_tag: &str) -> Option<Problem> {
    let refused = |path, tags| tags::refused(path, tags, cluster_tag);
    let path = "additionalTags";
    let of_host = spec.dynamic_host_allocation.iter();
    let of_host = of_host.flat_map(|host| refused("dynamicHostAllocation.tags", &host.tags));
    let of_instance = refused(path, &spec.additional_tags).chain(refused(path, &network.additional_tags));
    of_instance.chain(of_host).next()
}

/// Refuses a spec that cannot be launched, and names the field.
pub(crate) fn validate(spec: &AWSMachineSpec) -> Option<ConditionUpdate> {
    let unnamed = |volume: &Volume| volume.device_name.as_ref().is_none_or(String::is_empty);
    let message = if let Some(contradiction) = spec.wrong_instance_ids() {
        contradiction
    } else if let Some(invalid) = forms::first_invalid_id(spec) {
        invalid
    } else if let Some(contradiction) = contradiction(spec) {
        contradiction.to_owned()
    } else if let Some(index) = spec.non_root_volumes.iter().position(unnamed) {
        format!("nonRootVolumes[{index}] has no deviceName: set it, for example to /dev/sdb")
    } else if let Some(wrong) = validate_overrides(spec) {
        format!("securityGroupOverrides: {wrong}")
    } else if spec.subnet.as_ref().is_some_and(ResourceReference::is_empty) {
        "subnet has neither id nor filters: set one of them, or leave it out".to_owned()
    } else {
        let index = spec.additional_security_groups.iter().position(ResourceReference::is_empty)?;
        format!("additionalSecurityGroups[{index}] has neither id nor filters: set one of them")
    };
    Some(ConditionType::InstanceReady.is_false(Reason::InvalidSpec, message))
}

/// Refuses a network with a value that the status of a machine cannot have, or with an invalid AWS id.
/// `cluster_name` is the name in tags if no source supplies another one.
pub(crate) fn validate_network(network: &MachineNetwork, cluster_name: &str) -> Option<Problem> {
    let mut sized = network.clone();
    sized.cluster_tag.get_or_insert_with(|| cluster_name.to_owned());
    let message = if let Some(Oversized { field, limit }) = sized.take_oversized().first() {
        format!(
            "{field} of the network has more than {limit} characters, more than any such value in AWS: correct it \
             in its source"
        )
    } else if let Some(refused) = refused_targets(network) {
        refused
    } else {
        let (field, form) = forms::first_invalid_id_of_network(network)?;
        format!("{field} of the network is no id of AWS: set it to {form} in its source")
    };
    Some(Problem::new(Reason::InvalidSpec, message))
}

/// What is wrong with the targets of a network.
fn refused_targets(network: &MachineNetwork) -> Option<String> {
    let targets = &network.control_plane_targets;
    if targets.len() > ControlPlaneTarget::MAX_COUNT {
        return Some(format!(
            "controlPlaneTargets of the network has {} entries, of which a machine can have {}: remove entries in its \
             source",
            targets.len(),
            ControlPlaneTarget::MAX_COUNT
        ));
    }
    let mut numbered = targets.iter().enumerate();
    let (index, why) = numbered.find_map(|(index, target)| Some((index, target_forms::refused(target)?)))?;
    Some(format!("controlPlaneTargets[{index}] of the network {why}: correct it in its source"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{plain_machine, read};

    #[test]
    fn tags_that_identify_instances_are_refused_from_any_source() {
        for key in [
            "sigs.k8s.io/cluster-api-provider-aws/cluster/other",
            "sigs.k8s.io/cluster-api-provider-aws/role",
            "kubernetes.io/cluster/other",
            "aws:cloudformation:stack-id",
            "MachineName",
        ] {
            let tags = format!("additionalTags: {{'{key}': owned}}");
            let of_machine = validate_tags(&plain_machine(&tags).spec, &MachineNetwork::default(), "dev").unwrap();
            let of_network = validate_tags(&plain_machine("").spec, &read(&format!("{{{tags}}}")), "dev").unwrap();
            for problem in [of_machine, of_network] {
                assert_eq!(problem.reason, Reason::Conflict);
                assert!(problem.message.contains(key), "{}", problem.message);
            }
        }
        let own = plain_machine("additionalTags: {team: a, Name: mine, kubernetes.io/cluster/dev: owned}").spec;
        assert_eq!(validate_tags(&own, &MachineNetwork::default(), "dev"), None);
        let shared = plain_machine("additionalTags: {kubernetes.io/cluster/dev: shared}").spec;
        assert!(validate_tags(&shared, &MachineNetwork::default(), "dev").is_some());
    }

    #[test]
    fn an_unusable_volume_or_group_is_named() {
        let named = |spec| validate(&plain_machine(spec).spec).map(|update| update.message);
        assert_eq!(named("nonRootVolumes: [{size: 8, deviceName: /dev/sdb}]"), None);
        let volumes = named("nonRootVolumes: [{size: 8}]").unwrap();
        assert!(volumes.contains("nonRootVolumes[0]"), "{volumes}");
        let groups = named("additionalSecurityGroups: [{id: sg-00000001}, {}]").unwrap();
        assert!(groups.contains("additionalSecurityGroups[1]"), "{groups}");
    }

    #[test]
    fn an_invalid_aws_id_in_the_spec_is_refused() {
        let mut pattern = plain_machine("").spec;
        pattern.ami = read("{id: 'ami-*'}");
        let update = validate(&pattern).unwrap();
        assert_eq!((update.condition, update.reason), (ConditionType::InstanceReady, Reason::InvalidSpec));
        assert!(update.message.starts_with("ami.id is \"ami-*\""), "{}", update.message);
    }

    #[test]
    fn an_empty_subnet_reference_is_named() {
        for subnet in ["{}", "{id: ''}", "{filters: []}"] {
            let spec = plain_machine(&format!("subnet: {subnet}")).spec;
            let message = validate(&spec).map(|update| update.message).unwrap_or_default();
            assert_eq!(message, "subnet has neither id nor filters: set one of them, or leave it out");
        }
    }

    #[test]
    fn an_invalid_or_long_network_value_is_not_quoted() {
        let long = "x".repeat(65);
        let in_network =
            |network: &str, cluster: &str| validate_network(&read(network), cluster).map(|problem| problem.message);
        assert_eq!(in_network("{region: eu-west-1}", "dev"), None);
        let said = in_network(&format!("{{subnets: [{{id: {long}}}]}}"), "dev").unwrap();
        assert!(said.starts_with("subnets[].id of the network") && !said.contains(&long), "{said}");
        let said = in_network("{region: eu-west-1}", &"x".repeat(101)).unwrap();
        assert!(said.starts_with("clusterTag"), "{said}");
        for targets in [
            "[{}]",
            "[{targetGroupARN: 'arn:a', classicLoadBalancerName: api}]",
            "[{targetGroupARN: 'arn:a', port: 0}]",
            "[{classicLoadBalancerName: api, port: 1}]",
            &format!("[{{loadBalancerName: {long}}}]"),
        ] {
            let said = in_network(&format!("{{controlPlaneTargets: {targets}}}"), "dev").unwrap();
            assert!(said.starts_with("controlPlaneTargets[0] of the network "), "{said}");
        }
        let many = ["{loadBalancerName: api}"; ControlPlaneTarget::MAX_COUNT + 1].join(", ");
        let said = in_network(&format!("{{controlPlaneTargets: [{many}]}}"), "dev").unwrap();
        assert!(said.contains("has 9 entries"), "{said}");
        let said = in_network("{subnets: [{id: 'subnet-*'}]}", "dev").unwrap();
        assert!(said.starts_with("subnets[].id of the network") && !said.contains('*'), "{said}");
    }
}
