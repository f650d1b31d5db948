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
                 ((!has(self.secretPrefix) || self.secretPrefix == '') && \
                 (!has(self.secretCount) || self.secretCount == 0))",
        "message": "insecureSkipSecretsManager: true excludes secretPrefix and secretCount",
    },
    {
        "rule": "(has(self.secretPrefix) && self.secretPrefix != '') == (has(self.secretCount) && self.secretCount != \
                 0)",
        "message": "secretPrefix and secretCount belong together: set both or none",
    },
]))]
pub struct CloudInit {
    /// Whether the bootstrap data is part of the instance's user data. User data is limited to 16 KiB, and every
    /// process on the instance that reaches the metadata service can read it. Absent or `false`: the instance fetches
    /// the bootstrap data from `secureSecretsBackend`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure_skip_secrets_manager: Option<bool>,
    /// Minimum number of secrets into which the bootstrap data is divided; a number above 10 counts as 10. Absent: as
    /// many secrets as the data needs. Other providers write this field. This provider records the number of secrets of
    /// a launch, which is larger if the data needs more secrets, in `status.bootstrapSecrets`. Mutable; a change
    /// applies to the next launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_count: Option<i32>,
    /// Prefix of the names of the secrets that hold the bootstrap data. In each name, a number that counts from 0
    /// follows the prefix. Absent: the provider chooses the prefix and records it in `status.bootstrapSecrets`.
    /// Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_prefix: Option<String>,
    /// AWS service that keeps the bootstrap data until the instance has fetched it: `secrets-manager` or
    /// `ssm-parameter-store`. Absent: `secrets-manager`. The field has no effect with
    /// `insecureSkipSecretsManager: true`. Mutable.
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
    /// Ignition version of the configuration in user data. Absent: `2.3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<IgnitionVersion>,
    /// Storage of the bootstrap data. `ClusterObjectStore`: the cluster's S3 bucket, to which the user data refers.
    /// `UnencryptedUserData`: the user data itself, limited to 16 KiB.
    #[serde(default)]
    pub storage_type: IgnitionStorageType,
    /// Proxies through which Ignition fetches configuration. Needs version 3.1 or newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<IgnitionProxy>,
    /// TLS settings with which Ignition fetches configuration. Needs version 3.1 or newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<IgnitionTls>,
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

/// Storage of Ignition bootstrap data.
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
    /// URL of the proxy for HTTPS requests. Absent: the proxy for HTTP requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https_proxy: Option<String>,
    /// Hosts for which Ignition uses no proxy: IP addresses, CIDR ranges, domain names (subdomains included), or `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 2048)))]
    pub no_proxy: Vec<String>,
}

/// TLS settings for Ignition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnitionTls {
    /// Certificate authorities that Ignition trusts in addition to the authorities of the operating system: URLs
    /// (`http`, `https`, `tftp`, `s3`, `arn`, `gs`), or certificates as base64 `data` URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 65536)))]
    pub certificate_authorities: Vec<String>,
}
