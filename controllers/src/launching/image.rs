//! The machine image of a machine spec: its id, or the search for it by name, with CAPA's defaults and placeholders:
//! <https://cluster-api-aws.sigs.k8s.io/topics/images/amis>. Pure.

use std::fmt;

use capa_api::common::ImageLookup;
use capa_api::machine::AWSMachineSpec;
use capa_cloud::{Image, Query};

/// The architecture of Arm's processors, as images spell it.
pub(super) const ARM64: &str = "arm64";

/// The architectures of images, the preferred one first.
const ARCHITECTURES: [&str; 2] = ["x86_64", ARM64];

/// The longest format, in bytes. Names of images have at most 128 characters.
const MAX_CHARACTERS: usize = 256;

/// The digits of an account's id.
const ACCOUNT_DIGITS: usize = 12;

/// The image that the spec names by id.
pub(crate) fn image_id(spec: &AWSMachineSpec) -> Option<&str> {
    spec.ami.as_ref()?.id.as_deref().filter(|id| !id.is_empty())
}

/// The search for an image by its name. Equal searches of several machines are one call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ImageSearch {
    name: String,
    owner: String,
    architecture: String,
}

impl ImageSearch {
    /// The search for machines of a Kubernetes version on an instance type with these architectures. Each part of
    /// `lookup` has a value.
    ///
    /// # Errors
    /// What the user has to correct.
    pub(crate) fn new(
        lookup: &ImageLookup,
        version: Option<&str>,
        instance_type: &str,
        architectures: &[String],
    ) -> Result<Self, String> {
        let owner = lookup.org.clone().unwrap_or_default();
        // Anybody can publish an image under any name, so an image of an unknown owner is never launched.
        if owner.len() != ACCOUNT_DIGITS || !owner.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!(
                "imageLookupOrg is no AWS account: set it to the {ACCOUNT_DIGITS} digits of the account that publishes \
                 the images"
            ));
        }
        let architecture = architecture(instance_type, architectures)?.to_owned();
        Ok(Self { name: name(lookup, version)?, owner, architecture })
    }

    /// The query for the images.
    pub(crate) fn query(&self) -> Query {
        Query::filter("owner-id", [self.owner.as_str()])
            .and("name", [self.name.as_str()])
            .and("architecture", [self.architecture.as_str()])
            .and("state", ["available"])
            .and("virtualization-type", ["hvm"])
    }
}

impl fmt::Display for ImageSearch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, owner, architecture } = self;
        write!(formatter, "image {name} ({architecture}) of account {owner}")
    }
}

/// The architecture of the images for an instance type with these architectures.
///
/// # Errors
/// What the user has to correct.
pub(super) fn architecture(instance_type: &str, architectures: &[String]) -> Result<&'static str, String> {
    let mut known = ARCHITECTURES.into_iter();
    let known = known.find(|known| architectures.iter().any(|architecture| architecture == known));
    known.ok_or_else(|| {
        let found = architectures.join(", ");
        format!("instance type {instance_type} has no architecture of images ({found}): set ami.id")
    })
}

/// The newest image. Of several images that were created at the same time, the one with the greatest id wins, so that
/// every machine gets the same one.
pub(crate) fn newest(images: Vec<Image>) -> Option<Image> {
    images.into_iter().max_by(|one, other| (&one.created, &one.id).cmp(&(&other.created, &other.id)))
}

/// The name of the images, with EC2's wildcards: the format with its placeholders replaced. The version has no leading
/// `v`.
fn name(lookup: &ImageLookup, version: Option<&str>) -> Result<String, String> {
    let format = lookup.format.as_deref().unwrap_or_default();
    if format.len() > MAX_CHARACTERS {
        return Err(format!(
            "imageLookupFormat has more than {MAX_CHARACTERS} characters: names of images are shorter"
        ));
    }
    let mut name = String::new();
    let mut rest = format;
    while let Some((before, placeholder)) = rest.split_once("{{") {
        name.push_str(before);
        let Some((placeholder, after)) = placeholder.split_once("}}") else {
            return Err(format!("imageLookupFormat {format:?} has {{{{ without }}}}: correct it"));
        };
        match placeholder.trim() {
            ".BaseOS" => name.push_str(lookup.base_os.as_deref().unwrap_or_default()),
            ".K8sVersion" => {
                let version = version.filter(|version| !version.is_empty()).ok_or(
                    "the Machine has no spec.version, which imageLookupFormat needs: set the version where the Machine \
                     comes from, or ami.id",
                )?;
                name.push_str(version.strip_prefix('v').unwrap_or(version));
            }
            other => {
                return Err(format!(
                    "imageLookupFormat has the placeholder {{{{{other}}}}}: only {{{{.BaseOS}}}} and \
                     {{{{.K8sVersion}}}} are replaced"
                ));
            }
        }
        rest = after;
    }
    name.push_str(rest);
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(format: &str) -> ImageLookup {
        ImageLookup {
            format: Some(format.to_owned()),
            org: Some("819546954734".to_owned()),
            base_os: Some("ubuntu-24.04".to_owned()),
        }
    }

    fn search(format: &str, version: Option<&str>, architectures: &[&str]) -> Result<String, String> {
        let architectures: Vec<String> = architectures.iter().map(|&name| name.to_owned()).collect();
        let search = ImageSearch::new(&lookup(format), version, "t3.large", &architectures)?;
        Ok(search.to_string())
    }

    #[test]
    fn placeholders_are_replaced_as_in_capa() {
        let default = AWSMachineSpec::default().effective_image_lookup(None);
        let search = ImageSearch::new(&default, Some("v1.36.3"), "t3.large", &["x86_64".to_owned()]).unwrap();
        assert_eq!(search.to_string(), "image capa-ami-ubuntu-24.04-?1.36.3-* (x86_64) of account 819546954734");
        let query = search.query();
        let names: Vec<&str> = query.filters.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["owner-id", "name", "architecture", "state", "virtualization-type"]);
    }

    #[test]
    fn the_architecture_is_one_of_the_instance_type() {
        for (architectures, expected) in
            [(["i386", "x86_64"].as_slice(), "(x86_64)"), (["arm64"].as_slice(), "(arm64)")]
        {
            let found = search("a-{{ .BaseOS }}", None, architectures).unwrap();
            assert!(found.contains(expected), "{found}");
        }
        let error = search("a", None, &["arm64_mac"]).unwrap_err();
        assert!(error.contains("t3.large") && error.contains("arm64_mac"), "{error}");
    }

    #[test]
    fn a_search_that_cannot_be_made_says_what_to_correct() {
        for (format, version, part) in [
            ("a-{{.K8sVersion}}", None, "spec.version"),
            ("a-{{.K8sVersion}}", Some(""), "spec.version"),
            ("a-{{.Arch}}", Some("v1"), "{{.Arch}}"),
            ("a-{{.BaseOS", Some("v1"), "without }}"),
        ] {
            let error = search(format, version, &["x86_64"]).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        for org in ["*", "amazon", "81954695473?", ""] {
            let lookup = ImageLookup { org: Some(org.to_owned()), ..lookup("a") };
            let error = ImageSearch::new(&lookup, None, "t3.large", &["x86_64".to_owned()]).unwrap_err();
            assert!(error.contains("imageLookupOrg"), "{error}");
        }
    }

    #[test]
    fn the_newest_image_is_the_same_for_every_machine() {
        let image =
            |id: &str, created: &str| Image { id: id.to_owned(), created: created.to_owned(), ..Image::default() };
        let (old, new) = ("2025-12-31T23:59:59.000Z", "2026-01-01T00:00:00.000Z");
        let mut images = vec![image("ami-3", old), image("ami-1", new), image("ami-2", new)];
        for _ in 0..3 {
            images.rotate_left(1);
            assert_eq!(newest(images.clone()).map(|image| image.id).as_deref(), Some("ami-2"));
        }
        assert_eq!(newest(vec![]), None);
    }
}
