//! Instance types, as machines, templates and checks look them up. The facts of a check are saved as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceType {
    /// Name of the type, for example `t3.large`.
    pub name: String,
    /// Processor architectures in EC2's spelling, for example `x86_64` or `arm64`. Old types also have `i386`.
    pub architectures: Vec<String>,
    /// Boot modes.
    pub boot_modes: Vec<String>,
    /// Enhanced networking with ENA: `required`, `supported` or `unsupported`.
    pub ena: String,
    /// Number of virtual CPUs.
    pub vcpus: i32,
    /// Memory in MiB.
    #[serde(default)]
    pub memory: i64,
    /// Number of GPUs by manufacturer in EC2's spelling, for example `NVIDIA`.
    #[serde(default)]
    pub gpus: BTreeMap<String, i32>,
    /// Number of AWS's own accelerators, Inferentia and Trainium.
    #[serde(default)]
    pub neuron_devices: i32,
}

/// A zone in which an instance type is offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offering {
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
}
