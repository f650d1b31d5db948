//! `spec.preflight`: the infrastructure checks that run, and whether findings block provisioning.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Mode of the infrastructure checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PreflightMode {
    /// The provider makes no AWS call for the cluster and uses the values of the spec without checks.
    Disabled,
    /// The provider reports findings in conditions; findings block nothing.
    #[default]
    Report,
    /// Findings of severity Blocking keep the cluster from being provisioned.
    Require,
}

/// The pod network of a cluster, for the checks of security groups.
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

/// Settings of the checks of the infrastructure that you bring. The checks run before machines depend on the
/// infrastructure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreflightSpec {
    /// Mode of the checks. `Report`: the provider checks the infrastructure in AWS and reports findings in conditions;
    /// findings block nothing. `Require`: blocking findings keep the cluster from being provisioned. `Disabled`: the
    /// provider makes no AWS call for this cluster; set `availabilityZone` of every subnet. Default: `Report`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PreflightMode>,

    /// Ids of rules to skip, e.g. `S7` for a NAT gateway in another zone. Every finding contains the id of its rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(max = 3), regex(pattern = "^[A-Z][0-9]{1,2}$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub skip_rules: Vec<String>,

    /// Pod network of the cluster. The provider checks that the security groups open the ports that the pod network
    /// needs between nodes. Absent or `None`: these ports are not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<PodNetwork>,
}
