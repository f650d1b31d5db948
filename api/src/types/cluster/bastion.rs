//! `spec.bastion`: the SSH jump host of a managed cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ranges that are allowed to reach the bastion if the spec names no ranges.
const ANYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];

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

impl Bastion {
    /// Ranges from which SSH is admitted: none with `disableIngressRules`, all addresses if the list is empty.
    pub fn effective_allowed_cidr_blocks(&self) -> Vec<&str> {
        if self.disable_ingress_rules {
            Vec::new()
        } else if self.allowed_cidr_blocks.is_empty() {
            ANYWHERE.to_vec()
        } else {
            self.allowed_cidr_blocks.iter().map(String::as_str).collect()
        }
    }

    /// Instance type of the bastion in `region`. The default differs in us-east-1, because one of its zones has no t3.
    pub fn effective_instance_type(&self, region: &str) -> &str {
        let default = if region == "us-east-1" { "t2.micro" } else { "t3.micro" };
        self.instance_type.as_deref().filter(|instance_type| !instance_type.is_empty()).unwrap_or(default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bastion(yaml: &str) -> Bastion {
        serde_saphyr::from_str(yaml).expect("a bastion")
    }

    #[test]
    fn ssh_is_open_everywhere_unless_narrowed_or_disabled() {
        let cases: [(&str, &[&str]); 3] = [
            ("{enabled: true}", &["0.0.0.0/0", "::/0"]),
            ("{enabled: true, allowedCIDRBlocks: [198.51.100.0/24]}", &["198.51.100.0/24"]),
            ("{enabled: true, disableIngressRules: true}", &[]),
        ];
        for (yaml, expected) in cases {
            assert_eq!(bastion(yaml).effective_allowed_cidr_blocks(), expected, "{yaml}");
        }
    }

    #[test]
    fn the_instance_type_defaults_by_region() {
        let cases = [
            ("{}", "eu-west-1", "t3.micro"),
            ("{}", "us-east-1", "t2.micro"),
            ("{instanceType: ''}", "eu-west-1", "t3.micro"),
            ("{instanceType: m5.large}", "us-east-1", "m5.large"),
        ];
        for (yaml, region, expected) in cases {
            assert_eq!(bastion(yaml).effective_instance_type(region), expected, "{yaml} in {region}");
        }
    }
}
