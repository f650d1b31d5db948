//! The API of cluster-api-provider-aws-rs: CRD types, network contract, conditions, defaults.
//!
//! This crate is pure: it uses no Kubernetes client, no async runtime and no AWS SDK. `kubectl explain` shows the doc
//! comments on the fields of CRD types to users.

pub mod conditions;
pub mod contract;
pub mod crd;
pub mod forms;
pub mod go_duration;
pub mod lenient;
pub mod meta;
pub mod network;
pub mod network_schema;
pub mod selector;
mod types;
pub mod unsupported;

pub use types::{cluster, common, identity, machine, network_mapping, network_source};
