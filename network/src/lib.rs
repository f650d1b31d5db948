//! Merges network sources into one network, and places machines in a network. Pure.
//!
//! An AWSMachine never names the kind of its infrastructure object. [`merge()`] takes every field from the first
//! [`Source`] that has it, and [`place`] chooses subnet and security groups. Normative text:
//! `docs/network-contract.md`.

mod drift;
mod infrastructure_network;
mod merge;
mod missing;
mod placement;
#[cfg(test)]
mod properties;
mod trust;

pub use drift::drift;
pub use infrastructure_network::infrastructure_network;
pub use merge::{Contribution, Merged, Problem, Source, UnlabelledKind, merge};
pub use missing::MissingField;
pub use placement::{Placement, PlacementRequest, place};
pub use trust::{Trust, trust_of};
