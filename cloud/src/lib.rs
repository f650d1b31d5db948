//! What the reconcilers know of AWS: our own model, one narrow trait per use, error classes, and the pure logic of the
//! instance store and of the call rates. No SDK.
//!
//! The `aws` crate implements these traits over the wire; tests and the simulation implement them in memory, the latter
//! over the EC2 in [`sim`].

mod error;
mod identity;
mod launch;
pub mod limits;
mod model;
pub mod sim;
pub mod store;
pub mod targets;
mod timing;
mod traits;

pub use error::{CloudError, ErrorClass, classify};
pub use identity::{CredentialSource, ResolvedIdentity};
pub use launch::{LaunchRequest, LaunchVolume, MetadataOptions, UserData};
pub use model::{
    ApiLoadBalancer, Image, Instance, InstanceType, Query, RouteTable, SecurityGroup, StateReason, Subnet, Vpc,
    identifying_tag, zone_type,
};
pub use timing::Timing;
pub use traits::{
    ClusterCloud, ClusterClouds, MachineCloud, MachineClouds, MachineKey, Observation, TemplateCloud, TemplateClouds,
};

// Targets, states and addresses are the API's own words for them.
pub use capa_api::common::{ControlPlaneTarget, MachineAddress, MachineAddressType};
pub use capa_api::machine::InstanceState;
