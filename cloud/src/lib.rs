//! What the reconcilers know of AWS: our own model, one narrow trait per use, error classes. No SDK.
//!
//! The `aws` crate implements these traits over the wire; tests and the simulation implement them in memory.

mod error;
mod identity;
mod launch;
mod model;
mod timing;
mod traits;

pub use error::{CloudError, ErrorClass, classify};
pub use identity::{CredentialSource, ResolvedIdentity};
pub use launch::{LaunchRequest, LaunchVolume, MetadataOptions, UserData};
pub use model::{
    Address, AddressKind, Image, Instance, InstanceState, Query, RouteTable, SecurityGroup, StateReason, Subnet, Vpc,
    zone_type,
};
pub use timing::Timing;
pub use traits::{ClusterCloud, ClusterClouds, MachineCloud, MachineClouds, MachineKey, Sighting};
