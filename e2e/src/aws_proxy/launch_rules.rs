//! Rules of EC2 about the content of RunInstances that moto does not know. Pure.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::answer::Refusal;

/// The parameters of a call.
type Parameters = BTreeMap<String, String>;

/// A rule: the code and the words of the refusal, where the parameters break it.
type Rule = fn(&Parameters) -> Option<(&'static str, String)>;

const RULES: [Rule; 6] = [metadata, volumes, tags, placement, interfaces, reservation];

const VALUE: &str = "InvalidParameterValue";
const COMBINATION: &str = "InvalidParameterCombination";

/// EC2's refusal of a launch with these parameters; `None` where these rules allow it.
pub(super) fn refusal(parameters: &Parameters) -> Option<Refusal> {
    let (code, problem) = RULES.iter().find_map(|rule| rule(parameters))?;
    Some(Refusal::new(400, code, problem))
}

fn given<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a str> {
    parameters.get(name).map(String::as_str)
}

fn number(parameters: &Parameters, name: &str) -> Option<u32> {
    given(parameters, name).and_then(|text| text.parse().ok())
}

/// The metadata service takes 1 to 64 hops
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceMetadataOptionsRequest.html>). With tags in the
/// metadata of an instance, the keys of its tags are parts of paths
/// (<https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/work-with-tags-in-IMDS.html>).
fn metadata(parameters: &Parameters) -> Option<(&'static str, String)> {
    let hops = number(parameters, "MetadataOptions.HttpPutResponseHopLimit");
    if let Some(hops) = hops.filter(|hops| !(1..=64).contains(hops)) {
        return Some((VALUE, format!("the hop limit {hops} is not between 1 and 64")));
    }
    if given(parameters, "MetadataOptions.InstanceMetadataTags") != Some("enabled") {
        return None;
    }
    let key = tag_fields(parameters, ".Key").find(|key| key.contains(['/', ' ']))?;
    let problem = format!("'{key}' is not a valid tag key for tags in instance metadata");
    Some((VALUE, problem))
}

/// The keys or values of all tags.
fn tag_fields<'a>(parameters: &'a Parameters, end: &'static str) -> impl Iterator<Item = &'a str> {
    let tags = parameters.iter();
    let tags = tags.filter(move |(name, _)| name.starts_with("TagSpecification.") && name.ends_with(end));
    tags.map(|(_, text)| text.as_str())
}

/// A resource has 50 tags at most. A key has 128 characters at most, a value 256, and the prefix `aws:` is AWS's own
/// (<https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html>).
fn tags(parameters: &Parameters) -> Option<(&'static str, String)> {
    let is_key = |text: &&str| text.is_empty() || text.chars().count() > 128 || text.to_lowercase().starts_with("aws:");
    if let Some(key) = tag_fields(parameters, ".Key").find(is_key) {
        return Some((VALUE, format!("'{key}' is no key of a tag")));
    }
    if let Some(value) = tag_fields(parameters, ".Value").find(|text| text.chars().count() > 256) {
        return Some((VALUE, format!("'{value}' is too long for a tag")));
    }
    let starts = (1..).map(|number| format!("TagSpecification.{number}."));
    let mut specifications = starts.take_while(|start| parameters.contains_key(&format!("{start}ResourceType")));
    let too_many = specifications.any(|start| parameters.contains_key(&format!("{start}Tag.51.Key")));
    too_many.then(|| ("TagLimitExceeded", "a resource has more than 50 tags".to_owned()))
}

/// A host and an affinity are for the tenancy `host`, and a partition for a placement group
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Placement.html>).
fn placement(parameters: &Parameters) -> Option<(&'static str, String)> {
    let is_on_host = given(parameters, "Placement.Tenancy") == Some("host");
    for field in ["HostId", "Affinity"] {
        if !is_on_host && parameters.contains_key(&format!("Placement.{field}")) {
            return Some((COMBINATION, format!("{field} needs the tenancy host")));
        }
    }
    let has_group = ["GroupName", "GroupId"].map(|field| parameters.contains_key(&format!("Placement.{field}")));
    let lacks_group = parameters.contains_key("Placement.PartitionNumber") && !has_group.contains(&true);
    lacks_group.then(|| (COMBINATION, "a partition needs a placement group".to_owned()))
}

/// With network interfaces, subnets and groups are theirs, and a public address is for a single interface
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RunInstances.html>).
fn interfaces(parameters: &Parameters) -> Option<(&'static str, String)> {
    let interface = |number: usize, field: &str| format!("NetworkInterface.{number}.{field}");
    let has = |number: usize| {
        let mut names = parameters.keys();
        names.any(|name| name.starts_with(&interface(number, "")))
    };
    let at_instance = ["SubnetId", "SecurityGroupId.1"].into_iter();
    if let Some(field) = at_instance.filter(|_| has(1)).find(|field| parameters.contains_key(*field)) {
        let problem =
            format!("Network interfaces and an instance-level {field} may not be specified on the same request");
        return Some((COMBINATION, problem));
    }
    let mut public = (1..).take_while(|number| has(*number));
    let is_public = public.any(|number| parameters.contains_key(&interface(number, "AssociatePublicIpAddress")));
    let several = is_public && has(2);
    several.then(|| (COMBINATION, "a public address is for a single network interface".to_owned()))
}

/// A launch names a reservation or says which it prefers, never both
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CapacityReservationSpecification.html>).
fn reservation(parameters: &Parameters) -> Option<(&'static str, String)> {
    let block = "CapacityReservationSpecification";
    let prefers = parameters.contains_key(&format!("{block}.CapacityReservationPreference"));
    let names = parameters.contains_key(&format!("{block}.CapacityReservationTarget.CapacityReservationId"));
    let both = prefers && names;
    both.then(|| {
        (COMBINATION, "CapacityReservationPreference and CapacityReservationTarget exclude each other".to_owned())
    })
}

/// Each value of a volume counts as given, zero and the empty text too
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EbsBlockDevice.html>).
fn volumes(parameters: &Parameters) -> Option<(&'static str, String)> {
    let of = |index: usize| {
        let name = |field: &str| format!("BlockDeviceMapping.{index}.Ebs.{field}");
        let kind = given(parameters, &name("VolumeType"));
        match (kind, number(parameters, &name("Iops")), number(parameters, &name("Throughput"))) {
            (Some(""), ..) => Some("volumeType is empty".to_owned()),
            (Some(kind @ ("gp2" | "standard" | "st1" | "sc1")), Some(_), _) => {
                Some(format!("iops is not supported for {kind}"))
            }
            (kind, Some(iops), _) if !iops_of(kind).contains(&iops) => Some(format!("iops is {iops}")),
            (_, _, Some(throughput)) if !(125..=2000).contains(&throughput) => {
                Some(format!("throughput is {throughput}"))
            }
            (kind, _, Some(_)) if kind != Some("gp3") => Some("throughput is for gp3".to_owned()),
            _ => None,
        }
    };
    let is_there = |index: &usize| parameters.contains_key(&format!("BlockDeviceMapping.{index}.DeviceName"));
    let problem = (1..).take_while(is_there).find_map(of)?;
    Some((VALUE, problem))
}

/// The operations per second that a volume of this type can have.
fn iops_of(kind: Option<&str>) -> RangeInclusive<u32> {
    match kind {
        Some("gp3") => 3_000..=80_000,
        Some("io1") => 100..=64_000,
        _ => 100..=256_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(parameters: &[(&str, &str)]) -> Option<String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let refusal = refusal(&parameters.iter().map(own).collect());
        refusal.map(|refusal| refusal.message)
    }

    #[test]
    fn tags_in_the_metadata_have_keys_without_slashes() {
        let key = ("TagSpecification.1.Tag.1.Key", "kubernetes.io/cluster/dev");
        let setting = |value| ("MetadataOptions.InstanceMetadataTags", value);
        assert_eq!(said(&[key, setting("disabled")]), None);
        assert_eq!(said(&[("TagSpecification.1.Tag.1.Key", "Name"), setting("enabled")]), None);
        let refused = said(&[key, setting("enabled")]).unwrap_or_default();
        assert!(refused.contains("kubernetes.io/cluster/dev"), "{refused}");
    }

    #[test]
    fn zero_and_empty_values_of_volumes_are_refused() {
        let table = [
            ("VolumeType", "gp3", None),
            ("VolumeType", "", Some("volumeType is empty")),
            ("Iops", "3000", None),
            ("Iops", "0", Some("iops is 0")),
            ("Throughput", "0", Some("throughput is 0")),
            ("Throughput", "125", Some("throughput is for gp3")),
        ];
        for (field, value, expected) in table {
            let device = ("BlockDeviceMapping.1.DeviceName", "/dev/sdf");
            let name = format!("BlockDeviceMapping.1.Ebs.{field}");
            assert_eq!(said(&[device, (&name, value)]).as_deref(), expected, "{field} {value}");
        }
    }

    /// Parameters, and what the refusal says of them.
    type Row<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>);

    #[test]
    fn parameters_that_exclude_each_other_are_refused() {
        let key = format!("aws:{}", "x".repeat(5));
        let table: [Row<'_>; 9] = [
            (&[("MetadataOptions.HttpPutResponseHopLimit", "64")], None),
            (&[("MetadataOptions.HttpPutResponseHopLimit", "0")], Some("hop limit 0")),
            (&[("TagSpecification.1.Tag.1.Key", &key)], Some("no key of a tag")),
            (&[("Placement.HostId", "h-1"), ("Placement.Tenancy", "host")], None),
            (&[("Placement.HostId", "h-1")], Some("HostId needs the tenancy host")),
            (&[("Placement.PartitionNumber", "1")], Some("needs a placement group")),
            (&[("SubnetId", "s"), ("NetworkInterface.1.SubnetId", "s")], Some("instance-level SubnetId")),
            (
                &[("NetworkInterface.1.AssociatePublicIpAddress", "true"), ("NetworkInterface.2.SubnetId", "s")],
                Some("single network interface"),
            ),
            (
                &[
                    ("CapacityReservationSpecification.CapacityReservationPreference", "open"),
                    ("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId", "cr-1"),
                ],
                Some("exclude each other"),
            ),
        ];
        for (parameters, expected) in table {
            let said = said(parameters);
            let told = match (expected, &said) {
                (Some(expected), Some(said)) => said.contains(expected),
                (expected, said) => expected.is_none() && said.is_none(),
            };
            assert!(told, "{parameters:?}: {said:?}");
        }
    }

    #[test]
    fn a_resource_has_fifty_tags_at_most() {
        let of = |count: usize| {
            let keys = (1..=count).map(|index| (format!("TagSpecification.1.Tag.{index}.Key"), format!("k{index}")));
            let kind = ("TagSpecification.1.ResourceType".to_owned(), "instance".to_owned());
            refusal(&keys.chain([kind]).collect()).map(|refusal| refusal.message)
        };
        assert_eq!(of(50), None);
        assert_eq!(of(51).as_deref(), Some("a resource has more than 50 tags"));
    }
}
