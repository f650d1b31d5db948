//! `spec.preflight`: which checks of the infrastructure run, and what they are allowed to hold back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of the infrastructure is looked at in AWS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PreflightMode {
    /// No AWS call for the cluster; everything is taken from the spec as it stands.
    Disabled,
    /// Checks become conditions and hold nothing back.
    #[default]
    Report,
    /// Failing checks of severity Blocking keep the cluster from being provisioned.
    Require,
}

/// The pod network of a cluster, as far as security groups have to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PodNetwork {
    /// No rule about pod traffic is checked.
    None,
    /// Calico: BGP and IP in IP.
    Calico,
    /// Cilium: VXLAN and its health checks.
    Cilium,
    /// Flannel: VXLAN.
    Flannel,
    /// Antrea: Geneve.
    Antrea,
}

/// Checks of the infrastructure that you bring, made before machines depend on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreflightSpec {
    /// `Report`: look at AWS, tell what is wrong in conditions, hold nothing back. `Require`: blocking findings keep
    /// the cluster from being provisioned. `Disabled`: no AWS call for this cluster at all; give `availabilityZone` for
    /// every subnet then. Default: `Report` (`effective_preflight_mode`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PreflightMode>,

    /// Rules that are not to be checked, by their id, e.g. `S7` for a NAT gateway in another zone. Every finding names
    /// its rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(max = 3), regex(pattern = "^[A-Z][0-9]{1,2}$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub skip_rules: Vec<String>,

    /// Pod network of the cluster: the ports that it needs between nodes are then checked in the security groups.
    /// Absent or `None`: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<PodNetwork>,
}
