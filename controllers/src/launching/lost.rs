//! The bootstrap data that AWS may keep of a machine whose status was lost. Pure.

use capa_api::common::MachineRole;
use capa_api::machine::{AWSMachineSpec, BootstrapDelivery};
use capa_api::network::NetworkBootstrapBucket;

use super::bootstrap::Format;
use super::stored_bootstrap_data::StoredBootstrapData;
use super::{objects, secrets};

/// A machine whose status was lost.
pub(crate) struct LostMachine<'a> {
    pub(crate) spec: &'a AWSMachineSpec,
    /// UID of the AWSMachine when its data was stored.
    pub(crate) uid: &'a str,
    pub(crate) role: MachineRole,
    /// The format of its bootstrap data; `None` if that cannot be read any longer.
    pub(crate) format: Option<Format>,
    /// The bucket of its network.
    pub(crate) bucket: Option<&'a NetworkBootstrapBucket>,
}

/// The data that AWS may keep of a machine whose status was lost. If the format is unknown, the data may be in both
/// stores.
pub(crate) fn assumed(lost: &LostMachine<'_>) -> Vec<StoredBootstrapData> {
    let spec = lost.spec;
    let mut kept = Vec::new();
    if let BootstrapDelivery::Secrets(backend) = spec.effective_bootstrap_delivery()
        && spec.ignition.is_none()
        && !matches!(lost.format, Some(Format::Ignition | Format::Other))
    {
        kept.push(StoredBootstrapData::Secrets(secrets::assumed(spec, backend, lost.uid)));
    }
    if let Some(bucket) = lost.bucket
        && may_be_in_bucket(spec, lost.format)
    {
        kept.push(StoredBootstrapData::Object(objects::assumed(bucket, lost.role, lost.uid)));
    }
    kept
}

/// Whether the cluster's bucket may keep the bootstrap data of a machine.
pub(crate) fn may_be_in_bucket(spec: &AWSMachineSpec, format: Option<Format>) -> bool {
    spec.may_use_bucket() && !matches!(format, Some(Format::CloudConfig | Format::Other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    fn shown(spec: &str, format: Option<Format>, bucket: Option<&str>) -> Vec<String> {
        let bucket = bucket.map(|name| read(&format!("{{bucket: {name}, prefix: clusters/dev/}}")));
        let kept = assumed(&LostMachine {
            spec: &read(&format!("{{instanceType: t3.large{spec}}}")),
            uid: "uid-m",
            role: MachineRole::Worker,
            format,
            bucket: bucket.as_ref(),
        });
        kept.iter().map(StoredBootstrapData::shown).collect()
    }

    #[test]
    fn what_a_lost_machine_may_have_follows_from_spec_and_format() {
        let secrets = "aws.cluster.x-k8s.io/uid-m in Secrets Manager";
        let object = "clusters/dev/node/uid-m in the S3 bucket boot";
        let in_bucket = ", ignition: {version: '3.4'}";
        let inline = ", ignition: {storageType: UnencryptedUserData}";
        let skips = ", cloudInit: {insecureSkipSecretsManager: true}";
        for (spec, format, bucket, expected) in [
            ("", None, None, vec![secrets]),
            ("", None, Some("boot"), vec![secrets, object]),
            ("", Some(Format::CloudConfig), Some("boot"), vec![secrets]),
            ("", Some(Format::Ignition), Some("boot"), vec![object]),
            (skips, Some(Format::CloudConfig), Some("boot"), vec![]),
            (in_bucket, None, Some("boot"), vec![object]),
            (in_bucket, None, None, vec![]),
            (inline, None, Some("boot"), vec![]),
        ] {
            assert_eq!(shown(spec, format, bucket), expected, "{spec} {format:?} {bucket:?}");
        }
    }
}
