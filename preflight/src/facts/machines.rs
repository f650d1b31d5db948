//! Facts about the resources of services other than EC2 that machine templates name, and about dry runs.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

use super::Answer;

/// An instance profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceProfile {
    /// Name.
    pub name: String,
    /// Names of its roles: one or none.
    pub roles: Vec<String>,
    /// ARNs of the managed policies, and names of the inline policies, of the role.
    pub policies: Answer<Vec<String>>,
}

/// A key of the Key Management Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EncryptionKey {
    /// ARN.
    pub arn: String,
    /// State of the key.
    pub state: KeyState,
    /// What the key can be used for.
    pub usage: KeyUsage,
}

/// The state of a key, in AWS's words.
#[derive(Clone, Debug, Default, Display, EnumString, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[strum(serialize_all = "PascalCase")]
pub enum KeyState {
    /// The key can be used.
    #[default]
    Enabled,
    /// A state in which the key cannot be used, for example `PendingDeletion`.
    #[serde(untagged)]
    #[strum(default)]
    Other(String),
}

/// What a key can be used for, in AWS's words.
#[derive(Clone, Debug, Default, Display, EnumString, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum KeyUsage {
    /// Encryption.
    #[default]
    EncryptDecrypt,
    /// Another usage, for example `SIGN_VERIFY`.
    #[serde(untagged)]
    #[strum(default)]
    Other(String),
}

/// A bucket for bootstrap data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bucket {
    /// Name.
    pub name: String,
    /// Region.
    pub region: String,
    /// Whether the policy or the access control list of the bucket makes it public.
    pub is_public: bool,
}

/// The answer to a call with `DryRun=true`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DryRun {
    /// AWS would have allowed the call.
    Allowed,
    /// The credentials may not make the call.
    Denied(String),
    /// AWS refuses the parameters of the call.
    Refused(String),
}
