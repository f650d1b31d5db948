//! Merges network sources into one network, and places machines in a network. Pure.
//!
//! An AWSMachine never names the kind of its infrastructure object. A [`Description`] reads the objects of a kind,
//! [`merge()`] takes every field from the first [`Source`] that has it, and [`place`] chooses the subnet and the
//! security groups. Normative text: `docs/network-contract.md`.

mod ack;
mod data;
mod deep_stack;
mod description;
mod drift;
mod expression;
mod field;
mod infrastructure_network;
mod joined;
mod mapping;
mod merge;
mod missing;
mod parse;
mod placement;
#[cfg(test)]
mod properties;
mod trust;
mod work;

pub use ack::AckKind;
pub use description::{Description, SourceKind};
pub use drift::drift;
pub use field::Field;
pub use mapping::{InvalidExpression, Mapping};
pub use merge::{Contribution, Merged, Problem, Source, UnlabelledKind, merge};
pub use missing::MissingField;
pub use placement::{Capacity, Placement, PlacementRequest, place};
pub use trust::{Trust, trust_of};
