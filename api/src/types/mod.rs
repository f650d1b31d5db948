//! The API types of this provider.

pub mod cluster;
pub mod common;
pub mod identity;
pub mod machine;
pub mod network_mapping;
pub mod network_source;
