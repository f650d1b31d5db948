//! A Dedicated Host, the request for one, and capacity that a machine names.

use std::fmt;

use capa_api::common::Tags;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

/// A Dedicated Host, with only the fields that decisions need. The facts of a check are saved as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Host {
    /// `h-…`
    pub id: String,
    /// The client token of the call that allocated the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_token: Option<String>,
    /// Name of its zone.
    #[serde(rename = "zone")]
    pub availability_zone: String,
    /// The instance type that it was allocated for.
    pub instance_type: String,
    /// State of the host.
    pub state: HostState,
    /// Tags of the host.
    pub tags: Tags,
}

/// The state of a Dedicated Host, in AWS's words.
#[derive(Clone, Debug, Default, Display, EnumString, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum HostState {
    /// AWS is allocating the host.
    #[default]
    Pending,
    /// Instances can be launched on the host.
    Available,
    /// The host is released. EC2 shows it for a while.
    Released,
    /// AWS has released the host, because it failed.
    ReleasedPermanentFailure,
    /// A state in which no instance can be launched on the host.
    #[serde(untagged)]
    #[strum(default)]
    Other(String),
}

impl Host {
    /// Whether instances can be launched on the host.
    pub fn is_available(&self) -> bool {
        self.state == HostState::Available
    }

    /// Whether the host is released.
    pub fn is_released(&self) -> bool {
        matches!(self.state, HostState::Released | HostState::ReleasedPermanentFailure)
    }
}

/// The request for one Dedicated Host. EC2 places only instances that name the host on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRequest {
    /// Client token: a repeated request with the same token and parameters allocates no second host.
    pub client_token: String,
    /// Name of the zone.
    pub availability_zone: String,
    /// The instance type.
    pub instance_type: String,
    /// Tags of the host.
    pub tags: Tags,
}

/// Capacity that a machine names, and that is in one zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CapacitySource {
    /// A Capacity Reservation or a Capacity Block by its id, `cr-…`.
    Reservation(String),
    /// A Dedicated Host by its id, `h-…`.
    Host(String),
}

impl fmt::Display for CapacitySource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reservation(id) => write!(formatter, "capacity reservation {id}"),
            Self::Host(id) => write!(formatter, "Dedicated Host {id}"),
        }
    }
}
