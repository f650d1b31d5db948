//! A launch as data: all parameters of RunInstances, and their hash.

use std::collections::BTreeMap;
use std::fmt;

use capa_api::common::Volume;
use capa_api::machine::{InstanceMetadataOptions, LaunchOptions};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// User data as the instance receives it, before the transport encoding. User data is never shown, because it contains
/// join tokens and CA keys.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct UserData(Vec<u8>);

impl UserData {
    /// EC2 accepts 16 KiB, counted before base64
    /// (<https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html>).
    pub const MAX_BYTES: usize = 16 * 1024;

    /// User data with these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes, for the call itself.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for UserData {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "UserData({} bytes)", self.0.len())
    }
}

/// The addresses to which the resource-based name of an instance resolves. Without a value: EC2's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DnsRecords {
    /// Whether the name resolves to the IPv4 address.
    pub a: Option<bool>,
    /// Whether the name resolves to the IPv6 address.
    pub aaaa: Option<bool>,
}

/// All parameters of one RunInstances call for exactly one instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaunchRequest {
    /// Idempotency token of the call, valid within one zone for at least a day.
    #[serde(skip)]
    pub client_token: String,
    /// AMI.
    pub image_id: String,
    /// Instance type.
    pub instance_type: String,
    /// Subnet, which determines the zone.
    pub subnet_id: String,
    /// Security groups of the primary interface. Never empty: EC2 would take the VPC's default group.
    pub security_group_ids: Vec<String>,
    /// Name of the instance profile.
    pub iam_instance_profile: Option<String>,
    /// Name of the key pair; no key when absent.
    pub key_name: Option<String>,
    /// Whether the primary interface gets a public address; the subnet's setting when absent.
    pub public_ip: Option<bool>,
    /// Root volume; the image's when absent.
    pub root_volume: Option<Volume>,
    /// Additional volumes.
    pub data_volumes: Vec<Volume>,
    /// Options of the instance metadata service of this launch.
    pub metadata_options: InstanceMetadataOptions,
    /// Tags of the instance, its volumes and its interface.
    pub tags: BTreeMap<String, String>,
    /// User data.
    pub user_data: UserData,
    /// The parameters that most machines leave to EC2. If all of them are absent, they are not part of the hash, so
    /// that the hash of a plain launch equals that of earlier versions.
    #[serde(skip_serializing_if = "LaunchOptions::is_default")]
    pub options: LaunchOptions,
}

impl LaunchRequest {
    /// A hash of all parameters except the token, as 16 hexadecimal digits. EC2 refuses a known token with other
    /// parameters, so a retry first compares this hash with the recorded hash.
    pub fn parameters_hash(&self) -> String {
        // The hash is over JSON, because Debug output omits the user data. The serialization of a struct of strings
        // cannot fail.
        let canonical = serde_json::to_vec(self).unwrap_or_default();
        let digest = Sha256::digest(&canonical);
        let first = digest.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        format!("{first:016x}")
    }
}

#[cfg(test)]
mod tests {
    use capa_api::machine::{HttpTokens, Switch};

    use super::*;

    fn request() -> LaunchRequest {
        LaunchRequest {
            client_token: "uid-1".into(),
            image_id: "ami-1".into(),
            instance_type: "t3.large".into(),
            subnet_id: "subnet-1".into(),
            security_group_ids: vec!["sg-1".into()],
            iam_instance_profile: None,
            key_name: None,
            public_ip: None,
            root_volume: None,
            data_volumes: vec![],
            metadata_options: InstanceMetadataOptions {
                http_endpoint: Switch::Enabled,
                http_tokens: HttpTokens::Required,
                http_put_response_hop_limit: 2,
                http_protocol_ipv6: Switch::Disabled,
                instance_metadata_tags: Switch::Disabled,
            },
            tags: BTreeMap::new(),
            user_data: UserData::new(b"secret".to_vec()),
            options: LaunchOptions::default(),
        }
    }

    #[test]
    fn the_hash_changes_with_any_parameter_but_not_with_the_token() {
        let base = request();
        let other_token = LaunchRequest { client_token: "uid-2".into(), ..request() };
        let other_data = LaunchRequest { user_data: UserData::new(b"other".to_vec()), ..request() };
        assert_eq!(base.parameters_hash(), other_token.parameters_hash());
        assert_ne!(base.parameters_hash(), other_data.parameters_hash());
        assert_eq!(base.parameters_hash().len(), 16);
    }

    #[test]
    fn a_new_version_computes_the_same_hash() {
        assert_eq!(request().parameters_hash(), "9de16df6875fa3f1");
        let mut with_options = request();
        with_options.options.primary_ipv6 = true;
        assert_eq!(with_options.parameters_hash(), "4030fadc89761d21");
    }

    #[test]
    fn user_data_never_shows_in_debug_output() {
        assert!(!format!("{:?}", request()).contains("secret"));
        assert!(format!("{:?}", request()).contains("UserData(6 bytes)"));
    }
}
