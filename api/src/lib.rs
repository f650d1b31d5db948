//! The API of cluster-api-provider-aws-rs: CRD types, network contract, conditions, defaults.
//!
//! Everything here is pure: no client, no runtime, no AWS. Doc comments on the fields of CRD types are what
//! `kubectl explain` shows to users.

pub mod cluster;
pub mod common;
pub mod conditions;
pub mod core;
pub mod identity;
pub mod lenient;
pub mod machine;
pub mod machine_template;
pub mod meta;
pub mod network;
pub mod schema;
pub mod selector;
pub mod unsupported;
