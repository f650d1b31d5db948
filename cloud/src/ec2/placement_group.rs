//! Placement groups.

use serde::{Deserialize, Serialize};

use super::availability::Availability;

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
