//! Launching an instance from a machine spec: the inputs of the call, and the meaning of a refusal. No file here knows
//! the reconcilers of AWSMachines and AWSMachineTemplates, which both use this module.
//!
//! `network.rs` reads from Kubernetes, `references.rs`, `interfaces.rs`, `reserved_capacity.rs` and `image_lookup.rs`
//! read from AWS; all other files are pure.

pub mod boot_hook;
pub(crate) mod bootstrap;
pub(crate) mod bootstrap_secret;
mod compression;
pub(crate) mod digest;
pub(crate) mod eks_image;
pub(crate) mod forms;
mod ignition;
pub(crate) mod image;
pub(crate) mod image_lookup;
pub(crate) mod interfaces;
pub(crate) mod lost;
pub(crate) mod network;
pub(crate) mod network_sources;
pub(crate) mod objects;
pub(crate) mod options;
pub(crate) mod overrides;
pub(crate) mod presigning;
pub(crate) mod references;
pub(crate) mod rejection;
pub(crate) mod replacement;
pub(crate) mod request;
pub(crate) mod reserved_capacity;
pub(crate) mod secrets;
pub(crate) mod storage;
pub(crate) mod stored_bootstrap_data;
pub(crate) mod validation;
