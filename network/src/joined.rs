//! Joins the networks of the objects that one selector matches.

use capa_api::conditions::Reason;
use capa_api::network::{MachineNetwork, NetworkSecurityGroups};

use crate::{Field, Problem};

/// Joins the networks of objects, given with the names of the objects, in this order. Lists are concatenated. Another
/// field must have the same value in all objects that have the field.
pub(crate) fn joined(networks: Vec<(String, MachineNetwork)>) -> Result<MachineNetwork, Problem> {
    let mut networks = networks.into_iter();
    let Some((mut names, mut network)) = networks.next() else {
        return Ok(MachineNetwork::default());
    };
    for (name, other) in networks {
        let conflict = |field: Field| conflict(field, &names, &name);
        append(&mut network.subnets, other.subnets);
        append(&mut network.control_plane_targets, other.control_plane_targets);
        if let Some(other) = other.security_groups {
            let groups = network.security_groups.get_or_insert_with(NetworkSecurityGroups::default);
            append(&mut groups.all, other.all);
            append(&mut groups.control_plane, other.control_plane);
            append(&mut groups.worker, other.worker);
        }
        agree(&mut network.region, other.region).map_err(|()| conflict(Field::Region))?;
        agree(&mut network.vpc, other.vpc).map_err(|()| conflict(Field::Vpc))?;
        agree(&mut network.cluster_tag, other.cluster_tag).map_err(|()| conflict(Field::ClusterTag))?;
        agree(&mut network.ssh_key_name, other.ssh_key_name).map_err(|()| conflict(Field::SshKeyName))?;
        agree(&mut network.image_lookup, other.image_lookup).map_err(|()| conflict(Field::ImageLookup))?;
        agree(&mut network.identity_ref, other.identity_ref).map_err(|()| conflict(Field::IdentityRef))?;
        let profiles = agree(&mut network.instance_profiles, other.instance_profiles);
        profiles.map_err(|()| conflict(Field::InstanceProfiles))?;
        let storage = agree(&mut network.bootstrap_storage, other.bootstrap_storage);
        storage.map_err(|()| conflict(Field::BootstrapStorage))?;
        for (key, value) in other.additional_tags {
            let known = network.additional_tags.entry(key).or_insert_with(|| value.clone());
            if *known != value {
                return Err(conflict(Field::AdditionalTags));
            }
        }
        names = format!("{names}, {name}");
    }
    Ok(network)
}

fn append<T: PartialEq>(into: &mut Vec<T>, from: Vec<T>) {
    for item in from {
        if !into.contains(&item) {
            into.push(item);
        }
    }
}

fn agree<T: PartialEq>(into: &mut Option<T>, from: Option<T>) -> Result<(), ()> {
    match (&into, from) {
        (_, None) => Ok(()),
        (None, from) => {
            *into = from;
            Ok(())
        }
        (Some(known), Some(from)) if *known == from => Ok(()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// The problem that an object has another value than one of the objects before it.
fn conflict(field: Field, before: &str, other: &str) -> Problem {
    let field = field.path();
    let message =
        format!("{before} and {other} match one selector and differ in {field}: let the selector match one of them");
    Problem::new(Reason::Conflict, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(yaml: &[&str]) -> Result<MachineNetwork, Problem> {
        let networks = yaml.iter().enumerate();
        joined(networks.map(|(number, yaml)| (format!("K/{number}"), serde_saphyr::from_str(yaml).unwrap())).collect())
    }

    #[test]
    fn lists_are_concatenated_without_repetition() {
        let network = of(&[
            "{region: r, subnets: [{id: a}], securityGroups: {all: [x]}}",
            "{region: r, subnets: [{id: b}, {id: a}], securityGroups: {all: [x, y], worker: [z]}}",
            "{vpc: {id: v}, additionalTags: {a: b}}",
        ])
        .unwrap();
        let ids: Vec<_> = network.subnets.iter().map(|subnet| subnet.id.as_str()).collect();
        assert_eq!(ids, ["a", "b"]);
        let groups = network.security_groups.unwrap();
        assert_eq!((groups.all, groups.worker), (vec!["x".to_owned(), "y".to_owned()], vec!["z".to_owned()]));
        assert_eq!(network.region.as_deref(), Some("r"));
        assert_eq!(network.vpc.unwrap().id, "v");
    }

    #[test]
    fn objects_that_differ_in_a_plain_field_conflict() {
        let table = [
            ("{region: a}", "{region: b}", "region"),
            ("{vpc: {id: a}}", "{vpc: {id: b}}", "vpc"),
            ("{clusterTag: a}", "{clusterTag: b}", "clusterTag"),
            ("{sshKeyName: a}", "{sshKeyName: b}", "sshKeyName"),
            ("{imageLookup: {org: a}}", "{imageLookup: {org: b}}", "imageLookup"),
            ("{additionalTags: {k: a}}", "{additionalTags: {k: b}}", "additionalTags"),
            ("{instanceProfiles: {worker: a}}", "{instanceProfiles: {worker: b}}", "instanceProfiles"),
            ("{bootstrapStorage: {s3: {bucket: aaa}}}", "{bootstrapStorage: {s3: {bucket: bbb}}}", "bootstrapStorage"),
        ];
        for (one, other, field) in table {
            let problem = of(&[one, other]).unwrap_err();
            assert_eq!(problem.reason, Reason::Conflict);
            let expected =
                format!("K/0 and K/1 match one selector and differ in {field}: let the selector match one of them");
            assert_eq!(problem.message, expected);
        }
        let third = of(&["{region: a}", "{}", "{region: b}"]).unwrap_err();
        assert!(third.message.starts_with("K/0, K/1 and K/2 match one selector"), "{}", third.message);
    }
}
