//! Regions.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

/// A region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Region {
    /// Name, for example `eu-west-1`.
    pub name: String,
    /// Whether the account can use the region.
    pub opt_in_status: OptInStatus,
}

/// Whether an account can use a region, in AWS's words.
#[derive(Clone, Debug, Default, Display, EnumString, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum OptInStatus {
    /// Every account can use the region.
    #[default]
    OptInNotRequired,
    /// The account has enabled the region.
    OptedIn,
    /// The account has not enabled the region.
    NotOptedIn,
    /// A status that this version does not know.
    #[serde(untagged)]
    #[strum(default)]
    Other(String),
}
