//! Machine images, as machines, templates and checks look them up. The facts of a check are saved as JSON.

use serde::{Deserialize, Serialize};

use super::availability::Availability;

/// A machine image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// `ami-…`
    pub id: String,
    /// State of the image.
    pub state: Availability,
    /// Processor architecture in EC2's spelling, for example `x86_64` or `arm64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Device of the root volume, for example `/dev/xvda`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_device_name: Option<String>,
    /// Size of the snapshot of the root volume in GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_snapshot_gib: Option<i32>,
    /// `legacy-bios`, `uefi` or `uefi-preferred`; absent: the default of the instance type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<String>,
    /// Whether the image supports enhanced networking with ENA.
    pub has_ena: bool,
    /// `v2.0` if instances of the image require tokens of the metadata service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imds_support: Option<String>,
    /// Whether the image is a Windows image.
    #[serde(default)]
    pub windows: bool,
    /// Time of the creation as EC2 writes it, for example `2026-01-31T12:00:00.000Z`: the texts sort in the order of
    /// the times. Empty if EC2 gives no time.
    #[serde(default)]
    pub created: String,
    /// Time of the deprecation, in the form of RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecation_time: Option<String>,
}
