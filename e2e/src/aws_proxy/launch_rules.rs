//! Rules of EC2 about the content of RunInstances that moto does not know. Pure.

use std::collections::BTreeMap;

use super::answer::Refusal;

/// The parameters of a call.
type Parameters = BTreeMap<String, String>;

/// EC2's refusal of a launch with these parameters; `None` where these rules allow it.
pub(super) fn refusal(parameters: &Parameters) -> Option<Refusal> {
    let problem = metadata_tags(parameters).or_else(|| volumes(parameters))?;
    Some(Refusal::new(400, "InvalidParameterValue", problem))
}

/// With tags in the metadata of an instance, the keys of its tags are parts of paths
/// (<https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/work-with-tags-in-IMDS.html>).
fn metadata_tags(parameters: &Parameters) -> Option<String> {
    let setting = parameters.get("MetadataOptions.InstanceMetadataTags")?;
    if setting != "enabled" {
        return None;
    }
    let mut tags = parameters.iter();
    let is_key = |name: &str| name.starts_with("TagSpecification.") && name.ends_with(".Key");
    let (_, key) = tags.find(|(name, key)| is_key(name) && key.contains(['/', ' ']))?;
    Some(format!("'{key}' is not a valid tag key for tags in instance metadata"))
}

/// Each value of a volume counts as given, zero and the empty text too
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EbsBlockDevice.html>).
fn volumes(parameters: &Parameters) -> Option<String> {
    let volume = |number: usize, field: &str| {
        let value = parameters.get(&format!("BlockDeviceMapping.{number}.Ebs.{field}"));
        value.map(String::as_str)
    };
    let of = |number: usize| {
        let kind = volume(number, "VolumeType");
        let number_of = |field: &str| volume(number, field).and_then(|text| text.parse::<u32>().ok());
        match (kind, number_of("Iops"), number_of("Throughput")) {
            (Some(""), ..) => Some("volumeType is empty".to_owned()),
            (_, Some(0), _) => Some("iops is 0".to_owned()),
            (_, _, Some(throughput)) if !(125..=2000).contains(&throughput) => {
                Some(format!("throughput is {throughput}"))
            }
            (kind, _, Some(_)) if kind != Some("gp3") => Some("throughput is for gp3".to_owned()),
            (Some(kind @ ("gp2" | "standard" | "st1" | "sc1")), Some(_), _) => {
                Some(format!("iops is not supported for {kind}"))
            }
            _ => None,
        }
    };
    let is_there = |number: &usize| parameters.contains_key(&format!("BlockDeviceMapping.{number}.DeviceName"));
    (1..).take_while(is_there).find_map(of)
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
        assert_eq!(
            said(&[("TagSpecification.1.Tag.1.Key", "Name"), setting("enabled")]),
            None
        );
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
}
