//! The API of cluster-api-provider-aws-rs: CRD types, network contract, conditions, defaults.
//!
//! Everything here is pure: no client, no runtime, no AWS. Doc comments on the fields of CRD types are what
//! `kubectl explain` shows to users.

pub mod conditions;
pub mod contract;
pub mod crd;
pub mod forms;
pub mod lenient;
pub mod meta;
pub mod network;
pub mod selector;
mod types;
pub mod unsupported;

pub use types::{cluster, common, identity, machine};
