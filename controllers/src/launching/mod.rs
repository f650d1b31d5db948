//! Launching an instance from a machine spec: shared by AWSMachines and AWSMachineTemplates.
//!
//! Only `network.rs` reads from Kubernetes; all other files are pure.

pub mod boot_hook;
pub(crate) mod bootstrap;
pub(crate) mod bootstrap_secret;
mod compression;
pub(crate) mod digest;
pub(crate) mod eks_image;
pub(crate) mod forms;
mod ignition;
pub(crate) mod image;
pub(crate) mod kept;
pub(crate) mod lost;
pub(crate) mod network;
pub(crate) mod network_sources;
pub(crate) mod objects;
pub(crate) mod options;
pub(crate) mod overrides;
pub(crate) mod presigning;
pub(crate) mod replacement;
pub(crate) mod request;
pub(crate) mod secrets;
pub(crate) mod storage;
