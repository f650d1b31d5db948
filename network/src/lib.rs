//! The heart of the provider, pure: from network sources to one network, and from a network to a placement.
//!
//! Machines never name the kind of their infrastructure object. They are handed [`Source`]s, [`merge()`] takes every field
//! from the first source that has it, and [`place`] chooses subnet and security groups. Normative text:
//! `docs/network-contract.md`.

mod drift;
mod merge;
mod placement;
#[cfg(test)]
mod properties;
mod published;
mod trust;

pub use drift::drift;
pub use merge::{Contribution, Merged, Problem, Source, merge};
pub use placement::{Placement, PlacementRequest, place};
pub use published::published;
pub use trust::{Trust, trust_of};
