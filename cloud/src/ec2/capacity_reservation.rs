//! Capacity Reservations.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

/// A Capacity Reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    /// `cr-…`
    pub id: String,
    /// State of the reservation.
    pub state: CapacityReservationState,
    /// Zone.
    pub zone: String,
    /// Instance type.
    pub instance_type: String,
    /// Number of instances that can still be launched.
    pub free: i32,
}

/// The state of a Capacity Reservation, in AWS's words.
#[derive(Clone, Debug, Default, Display, EnumString, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum CapacityReservationState {
    /// AWS is creating the reservation.
    #[default]
    Pending,
    /// Instances can use the reservation.
    Active,
    /// A state in which instances cannot use the reservation.
    #[serde(untagged)]
    #[strum(default)]
    Other(String),
}
