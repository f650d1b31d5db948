//! `spec.bastion`: the SSH jump host of a managed cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An EC2 instance in a public subnet for SSH to nodes that have private addresses only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!(has(self.disableIngressRules) && self.disableIngressRules && has(self.allowedCIDRBlocks) && \
             size(self.allowedCIDRBlocks) > 0)",
    "message": "allowedCIDRBlocks has no effect with disableIngressRules: set one of them",
}, {
    "rule": "!has(self.allowedCIDRBlocks) || self.allowedCIDRBlocks.all(range, isCIDR(range))",
    "message": "allowedCIDRBlocks lists CIDR blocks, for example 198.51.100.0/24 or 2001:db8::/32",
}]))]
pub struct Bastion {
    /// Whether the bastion exists. Turning it off terminates the instance. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enabled: bool,

    /// Whether the bastion's security group has no ingress rules, for access through SSM Session Manager only. `true`
    /// excludes `allowedCIDRBlocks`. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_ingress_rules: bool,

    /// Ranges from which SSH (TCP 22) is admitted, e.g. `198.51.100.0/24`. Default: all addresses, `0.0.0.0/0` and
    /// `::/0`, unless `disableIngressRules` is true; set narrower ranges.
    #[serde(rename = "allowedCIDRBlocks", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 60), inner(length(max = 43)))]
    pub allowed_cidr_blocks: Vec<String>,

    /// EC2 instance type of the bastion, e.g. `t3.small`. The provider reads the field when it creates the instance.
    /// Default: `t3.micro`, in us-east-1 `t2.micro`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,

    /// Id of the machine image of the bastion, e.g. `ami-0a1b2c3d`. The provider reads the field when it creates the
    /// instance. Default: Canonical's newest image of Ubuntu 24.04 for x86-64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ami: Option<String>,
}
