//! The delivery of bootstrap data to the instance.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

/// Delivery of cloud-init bootstrap data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.insecureSkipSecretsManager) || !self.insecureSkipSecretsManager || \
                 (!has(self.secureSecretsBackend) && (!has(self.secretPrefix) || self.secretPrefix == '') && \
                 (!has(self.secretCount) || self.secretCount == 0))",
        "message": "insecureSkipSecretsManager: true excludes secureSecretsBackend, secretPrefix and secretCount",
    },
    {
        "rule": "(has(self.secretPrefix) && self.secretPrefix != '') == (has(self.secretCount) && self.secretCount != \
                 0)",
        "message": "secretPrefix and secretCount belong together: set both or none",
    },
]))]
pub struct CloudInit {
    /// `true` puts the bootstrap data into the instance's user data, where everything on the instance that reaches the
    /// metadata service can read it, and which is limited to 16 KiB. Absent or `false`: it goes through
    /// `secureSecretsBackend`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure_skip_secrets_manager: Option<bool>,
    /// Number of secrets that hold the bootstrap data. Written by providers that record it in the spec; this one
    /// records it in `status.bootstrapSecrets`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_count: Option<i32>,
    /// Prefix of the names of the secrets that hold the bootstrap data, counted from 0. Absent: chosen by the provider
    /// and recorded in `status.bootstrapSecrets`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_prefix: Option<String>,
    /// AWS service that keeps the bootstrap data until the instance has fetched it: `secrets-manager` or
    /// `ssm-parameter-store`. Absent: `secrets-manager`. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_secrets_backend: Option<SecretsBackend>,
}

/// AWS service that can keep bootstrap data.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema, Display, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum SecretsBackend {
    /// AWS Secrets Manager.
    SecretsManager,
    /// Parameter Store of AWS Systems Manager.
    SsmParameterStore,
}

/// Delivery of Ignition bootstrap data, for machines whose operating system is Flatcar or Fedora CoreOS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ignition {
    /// Ignition version of the configuration in user data. Absent: `2.3` (`effective_version`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<IgnitionVersion>,
    /// Where the bootstrap data is kept: `ClusterObjectStore` is the cluster's S3 bucket, to which user data refers;
    /// `UnencryptedUserData` is the user data itself, limited to 16 KiB.
    #[serde(default)]
    pub storage_type: IgnitionStorageType,
    /// Proxies that Ignition itself uses to fetch configuration. Needs version 3.1 or newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<IgnitionProxy>,
    /// TLS settings with which Ignition itself fetches configuration. Needs version 3.1 or newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<IgnitionTls>,
}

impl Ignition {
    /// The version of the configuration that user data refers to the bootstrap data with; `None` where user data is the
    /// bootstrap data, which says its own version.
    pub fn effective_version(&self) -> Option<IgnitionVersion> {
        match self.storage_type {
            IgnitionStorageType::UnencryptedUserData => self.version,
            IgnitionStorageType::ClusterObjectStore => Some(self.version.unwrap_or_default()),
        }
    }
}

/// Version of the Ignition configuration.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema, Display,
)]
pub enum IgnitionVersion {
    /// 2.3
    #[default]
    #[serde(rename = "2.3")]
    #[strum(serialize = "2.3")]
    V2_3,
    /// 3.0
    #[serde(rename = "3.0")]
    #[strum(serialize = "3.0")]
    V3_0,
    /// 3.1
    #[serde(rename = "3.1")]
    #[strum(serialize = "3.1")]
    V3_1,
    /// 3.2
    #[serde(rename = "3.2")]
    #[strum(serialize = "3.2")]
    V3_2,
    /// 3.3
    #[serde(rename = "3.3")]
    #[strum(serialize = "3.3")]
    V3_3,
    /// 3.4
    #[serde(rename = "3.4")]
    #[strum(serialize = "3.4")]
    V3_4,
}

/// Where Ignition bootstrap data is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum IgnitionStorageType {
    /// The cluster's S3 bucket.
    #[default]
    ClusterObjectStore,
    /// The instance's user data.
    UnencryptedUserData,
}

/// Proxies for Ignition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnitionProxy {
    /// URL of the proxy for plain HTTP requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_proxy: Option<String>,
    /// URL of the proxy for HTTPS requests. Absent: the one for HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https_proxy: Option<String>,
    /// Hosts that are reached without a proxy: IP addresses, CIDR ranges, domain names (subdomains included), or `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 2048)))]
    pub no_proxy: Vec<String>,
}

/// TLS settings for Ignition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnitionTls {
    /// Certificate authorities to trust besides the system's: URLs (`http`, `https`, `tftp`, `s3`, `arn`, `gs`) or the
    /// certificate itself as a base64 `data` URL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 65536)))]
    pub certificate_authorities: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignition_version_defaults_for_the_object_store_only() {
        let cases = [
            ("{}", Some(IgnitionVersion::V2_3)),
            ("{version: '3.1'}", Some(IgnitionVersion::V3_1)),
            ("{storageType: UnencryptedUserData}", None),
            (
                "{storageType: UnencryptedUserData, version: '3.4'}",
                Some(IgnitionVersion::V3_4),
            ),
        ];
        for (yaml, expected) in cases {
            let ignition: Ignition = serde_saphyr::from_str(yaml).expect("ignition");
            assert_eq!(ignition.effective_version(), expected, "{yaml}");
        }
    }
}
