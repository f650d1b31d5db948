//! Launching an instance from a machine spec: shared by AWSMachines and AWSMachineTemplates.
//!
//! Only `network.rs` reads from Kubernetes; all other files are pure.

pub mod boot_hook;
pub(crate) mod bootstrap;
pub(crate) mod bootstrap_secret;
mod compression;
pub(crate) mod forms;
pub(crate) mod image;
pub(crate) mod network;
pub(crate) mod network_sources;
pub(crate) mod overrides;
pub(crate) mod replacement;
pub(crate) mod request;
