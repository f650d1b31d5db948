//! Facts about the AWS resources that machine templates name.

use capa_cloud::Availability;
use serde::{Deserialize, Serialize};

use super::Answer;

/// A zone in which an instance type is offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offering {
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
}

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
    /// `Enabled`, `Disabled`, `PendingDeletion` or another state.
    pub state: String,
    /// `ENCRYPT_DECRYPT` or another usage.
    pub usage: String,
}

/// A placement group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementGroup {
    /// Name.
    pub name: String,
    /// State of the group.
    pub state: Availability,
    /// Number of partitions; absent unless the strategy is `partition`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<i32>,
}

/// A capacity reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    /// `cr-…`
    pub id: String,
    /// `active` or another state.
    pub state: String,
    /// Zone.
    pub zone: String,
    /// Instance type.
    pub instance_type: String,
    /// Number of instances that can still be launched.
    pub free: i32,
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
