//! `spec.network`: VPC, subnets and security groups.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::security_group::{CniIngressRule, CniSpec, IngressRule};
use super::subnet::SubnetSpec;
use super::vpc::VpcSpec;

/// IPv4 range that is allowed to reach NodePort services if the spec names no ranges.
const ANY_IPV4: &str = "0.0.0.0/0";
/// IPv6 range that is allowed to reach NodePort services of clusters with IPv6 if the spec names no ranges.
const ANY_IPV6: &str = "::/0";

/// The network of a cluster: existing resources to use, or resources to create.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSpec {
    /// VPC of the cluster: an existing VPC, by `id`, or the properties of the VPC to create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc: Option<VpcSpec>,

    /// Subnets of the cluster, at most 200. With a VPC that you bring, list by id the subnets in which machines may be
    /// placed. In a managed VPC, list the subnets to create; an empty list means public and private default subnets in
    /// several zones. The zones of the subnets are the cluster's failure domains. In unmanaged mode the list may be
    /// empty if the specs of the machines name their subnets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 200),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"])
    )]
    pub subnets: Vec<SubnetSpec>,

    /// Security group rules that the pod network needs in a managed cluster. Absent: the rules for Calico. `{}` means
    /// no rules. In unmanaged mode, `preflight.cni` selects the rules to check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<CniSpec>,

    /// Security groups that you bring, by role: keys `node`, `lb`, `controlplane`, `apiserver-lb` and `bastion`, values
    /// ids, e.g. `{node: sg-0a1b2c3d}`. The provider writes no rules and no tags to these groups. In unmanaged mode
    /// every machine gets the groups `node` and `lb`, and control plane machines also get `controlplane`; `bastion` and
    /// `apiserver-lb` are ignored, and the condition `Ready` names them. A key that is not a role makes `NetworkReady`
    /// False. In managed mode the field needs a VPC that you bring; the provider creates the groups of missing roles.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub security_group_overrides: BTreeMap<String, String>,

    /// Ingress rules to add to the security group of the control plane of a managed cluster, e.g. for a metrics
    /// scraper. A security group that you bring keeps its rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub additional_control_plane_ingress_rules: Vec<IngressRule>,

    /// Ingress rules to add to the security group of all nodes of a managed cluster, e.g. for a host agent. A security
    /// group that you bring keeps its rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub additional_node_ingress_rules: Vec<IngressRule>,

    /// IPv4 and IPv6 ranges that are allowed to reach the NodePort range (TCP 30000 to 32767) of a managed cluster,
    /// e.g. `10.0.0.0/8`. Default: all addresses, `0.0.0.0/0`, with IPv6 also `::/0`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 60), inner(length(max = 43)))]
    pub node_port_ingress_rule_cidr_blocks: Vec<String>,
}

impl NetworkSpec {
    /// Rules between the nodes for the pod network: the rules of `cni`, or Calico's if `cni` is absent.
    pub fn effective_cni_ingress_rules(&self) -> Vec<CniIngressRule> {
        self.cni.as_ref().map_or_else(CniIngressRule::calico, |cni| cni.cni_ingress_rules.clone())
    }

    /// Ranges that are allowed to reach NodePort services.
    pub fn effective_node_port_cidr_blocks(&self) -> Vec<&str> {
        if !self.node_port_ingress_rule_cidr_blocks.is_empty() {
            return self.node_port_ingress_rule_cidr_blocks.iter().map(String::as_str).collect();
        }
        if self.vpc.as_ref().is_some_and(|vpc| vpc.ipv6.is_some()) { vec![ANY_IPV4, ANY_IPV6] } else { vec![ANY_IPV4] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(yaml: &str) -> NetworkSpec {
        serde_saphyr::from_str(yaml).expect("a network")
    }

    #[test]
    fn an_absent_cni_block_means_calico_and_an_empty_one_no_rules() {
        let cases: [(&str, &[&str]); 4] = [
            ("{}", &["bgp (calico)", "IP-in-IP (calico)"]),
            ("{cni: {}}", &[]),
            ("{cni: {cniIngressRules: []}}", &[]),
            (
                "{cni: {cniIngressRules: [{description: vxlan, protocol: udp, fromPort: 8472, toPort: 8472}]}}",
                &["vxlan"],
            ),
        ];
        for (yaml, expected) in cases {
            let rules = network(yaml).effective_cni_ingress_rules();
            let descriptions: Vec<&str> = rules.iter().map(|rule| rule.description.as_str()).collect();
            assert_eq!(descriptions, expected, "{yaml}");
        }
    }

    #[test]
    fn node_ports_are_open_everywhere_unless_narrowed() {
        let cases: [(&str, &[&str]); 3] = [
            ("{}", &["0.0.0.0/0"]),
            ("{vpc: {ipv6: {}}}", &["0.0.0.0/0", "::/0"]),
            ("{vpc: {ipv6: {}}, nodePortIngressRuleCidrBlocks: [10.0.0.0/8]}", &["10.0.0.0/8"]),
        ];
        for (yaml, expected) in cases {
            assert_eq!(network(yaml).effective_node_port_cidr_blocks(), expected, "{yaml}");
        }
    }
}
