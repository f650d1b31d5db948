//! The machine image that AWS recommends for nodes of EKS: the public parameter that has its id. Pure.

use capa_api::machine::EksLookupType;

use super::image::{ARM64, architecture};

/// The path of the parameters of all images:
/// <https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html>.
const PATH: &str = "/aws/service/eks/optimized-ami";

/// The search for the recommended image of a family. Equal searches of several machines are one call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EksImageSearch {
    /// The Kubernetes version without its patch level, as EKS counts versions: `1.36`.
    pub(crate) version: String,
    /// The name of the parameter.
    pub(crate) parameter: String,
}

impl EksImageSearch {
    /// The search for machines of a Kubernetes version on an instance type with these architectures.
    ///
    /// # Errors
    /// What the user has to correct.
    pub(crate) fn new(
        family: EksLookupType,
        version: Option<&str>,
        instance_type: &str,
        architectures: &[String],
    ) -> Result<Self, String> {
        let version = version.filter(|version| !version.is_empty()).ok_or(
            "the Machine has no spec.version, which ami.eksLookupType needs: set the version where the Machine comes \
             from, or ami.id",
        )?;
        let version = minor(version)
            .ok_or_else(|| format!("the Machine's spec.version {version:?} is no version of Kubernetes: correct it"))?;
        let architecture = architecture(instance_type, architectures)?;
        let image = match family {
            EksLookupType::AmazonLinux if architecture == ARM64 => "amazon-linux-2-arm64".to_owned(),
            EksLookupType::AmazonLinux => "amazon-linux-2".to_owned(),
            EksLookupType::AmazonLinuxGPU if architecture == ARM64 => {
                return Err(format!(
                    "ami.eksLookupType AmazonLinuxGPU has no images for instance type {instance_type} ({ARM64}): \
                     choose AmazonLinux2023GPU, or an instance type for x86_64"
                ));
            }
            EksLookupType::AmazonLinuxGPU => "amazon-linux-2-gpu".to_owned(),
            EksLookupType::AmazonLinux2023 => format!("amazon-linux-2023/{architecture}/standard"),
            EksLookupType::AmazonLinux2023GPU => format!("amazon-linux-2023/{architecture}/nvidia"),
        };
        let parameter = format!("{PATH}/{version}/{image}/recommended/image_id");
        Ok(Self { version, parameter })
    }
}

/// The major and the minor version, without a leading `v`.
fn minor(version: &str) -> Option<String> {
    let mut parts = version.strip_prefix('v').unwrap_or(version).split('.');
    let (major, minor) = (parts.next()?, parts.next()?);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(major) && is_number(minor)).then(|| format!("{major}.{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(family: EksLookupType, version: Option<&str>, architecture: &str) -> Result<String, String> {
        let search = EksImageSearch::new(family, version, "m7.large", &[architecture.to_owned()])?;
        let name = search.parameter.strip_prefix("/aws/service/eks/optimized-ami/");
        let name = name.and_then(|name| name.strip_suffix("/recommended/image_id"));
        Ok(name.unwrap().to_owned())
    }

    #[test]
    fn each_family_has_the_parameters_that_aws_documents() {
        use EksLookupType::{AmazonLinux, AmazonLinux2023, AmazonLinux2023GPU, AmazonLinuxGPU};
        for (family, architecture, expected) in [
            (AmazonLinux, "x86_64", "1.36/amazon-linux-2"),
            (AmazonLinux, "arm64", "1.36/amazon-linux-2-arm64"),
            (AmazonLinuxGPU, "x86_64", "1.36/amazon-linux-2-gpu"),
            (AmazonLinux2023, "x86_64", "1.36/amazon-linux-2023/x86_64/standard"),
            (AmazonLinux2023, "arm64", "1.36/amazon-linux-2023/arm64/standard"),
            (AmazonLinux2023GPU, "x86_64", "1.36/amazon-linux-2023/x86_64/nvidia"),
            (AmazonLinux2023GPU, "arm64", "1.36/amazon-linux-2023/arm64/nvidia"),
        ] {
            let found = search(family, Some("v1.36.3"), architecture);
            assert_eq!(found.as_deref(), Ok(expected), "{family:?} {architecture}");
        }
    }

    #[test]
    fn the_patch_level_of_the_version_does_not_count() {
        for version in ["v1.36.3", "1.36.0", "v1.36", "v1.36.3+build.1", "v1.36.0-rc.1"] {
            let found = search(EksLookupType::AmazonLinux, Some(version), "x86_64");
            assert_eq!(found.as_deref(), Ok("1.36/amazon-linux-2"), "{version}");
        }
    }

    #[test]
    fn a_search_that_cannot_be_made_says_what_to_correct() {
        use EksLookupType::{AmazonLinux2023, AmazonLinuxGPU};
        for (family, version, architecture, part) in [
            (AmazonLinux2023, None, "x86_64", "spec.version"),
            (AmazonLinux2023, Some(""), "x86_64", "spec.version"),
            (AmazonLinux2023, Some("v1"), "x86_64", "\"v1\" is no version"),
            (AmazonLinux2023, Some("v1.x/../y"), "x86_64", "is no version"),
            (AmazonLinux2023, Some("v1.36.3"), "arm64_mac", "m7.large"),
            (AmazonLinuxGPU, Some("v1.36.3"), "arm64", "choose AmazonLinux2023GPU"),
        ] {
            let error = search(family, version, architecture).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
