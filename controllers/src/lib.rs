//! The reconcilers, one module for each kind, and their access to Kubernetes.
//!
//! This crate does not depend on the AWS SDK: reconcilers use AWS through the traits of `capa_cloud`.

pub mod awscluster;
pub mod awsclusteridentity;
pub mod awsmachine;
pub mod awsmachinetemplate;
pub mod awsnetworkmapping;
mod blocked;
mod call_fingerprint;
mod filters;
pub mod identity;
mod invalid_value;
pub mod kubernetes;
pub mod kubernetes_api;
mod launch_memory;
mod launching;
pub mod machine_networks;
pub mod machine_phases;
mod named_load_balancers;
pub mod object_counts;
pub mod orphans;
mod pause;
mod public_ipv4_pool;
pub mod refusals;
mod resync;
mod retry;
pub mod source_documents;
mod tags;
mod target_forms;
mod target_users;
#[cfg(test)]
mod testing;
mod time;
mod transitions;

pub use launch_memory::LaunchMemory;
pub use launching::boot_hook;
