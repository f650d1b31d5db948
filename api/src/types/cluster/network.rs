//! `spec.network`: VPC, subnets and security groups.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::security_group::{CniIngressRule, CniSpec, IngressRule};
use super::subnet::SubnetSpec;
use super::vpc::VpcSpec;

/// Ranges that reach NodePort services when the spec names none.
const ANY_IPV4: &str = "0.0.0.0/0";
/// The same for clusters with IPv6.
const ANY_IPV6: &str = "::/0";

/// The network of a cluster: what exists and is to be used, or what is to be created.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSpec {
    /// VPC to use, by `id`, or to create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc: Option<VpcSpec>,

    /// Subnets of the cluster, at most 200. With a VPC that you bring, list those that machines may be placed in, by
    /// id. In a managed VPC: the subnets to create; empty means public and private default subnets in several zones.
    /// Their zones are the cluster's failure domains. In unmanaged mode the list may be empty, where machines bring
    /// their own subnets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 200),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"])
    )]
    pub subnets: Vec<SubnetSpec>,

    /// Security group rules that the pod network needs in a managed cluster. Absent: those for Calico
    /// (`effective_cni_ingress_rules`); `{}` opens nothing. No effect in unmanaged mode, where `preflight.cni` says
    /// which rules are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<CniSpec>,

    /// Security groups that you bring, by role: keys `node`, `lb`, `controlplane`, `apiserver-lb` and `bastion`, values
    /// ids, e.g. `{node: sg-0a1b2c3d}`. They are used as they are: no rule or tag is written. In unmanaged mode every
    /// machine gets `node` and `lb`, control planes `controlplane` as well; `bastion` and `apiserver-lb` are ignored,
    /// and `Ready` names them. A key that is no role makes `NetworkReady` False. In managed mode only with a VPC that
    /// you bring; missing roles are created.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub security_group_overrides: BTreeMap<String, String>,

    /// Rules added to the control plane's group of a managed cluster, e.g. for a metrics scraper. No effect on a group
    /// that you bring.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub additional_control_plane_ingress_rules: Vec<IngressRule>,

    /// Rules added to the group of all nodes of a managed cluster, e.g. for a host agent. No effect on a group that you
    /// bring.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub additional_node_ingress_rules: Vec<IngressRule>,

    /// Ranges, IPv4 and IPv6, from which the NodePort range (TCP 30000 to 32767) of a managed cluster is reached, e.g.
    /// `10.0.0.0/8`. Default: everywhere, `0.0.0.0/0`, with IPv6 also `::/0` (`effective_node_port_cidr_blocks`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 60), inner(length(max = 43)))]
    pub node_port_ingress_rule_cidr_blocks: Vec<String>,
}

impl NetworkSpec {
    /// Rules between the nodes for the pod network: Calico's, unless `cni` is there.
    pub fn effective_cni_ingress_rules(&self) -> Vec<CniIngressRule> {
        self.cni
            .as_ref()
            .map_or_else(CniIngressRule::calico, |cni| cni.cni_ingress_rules.clone())
    }

    /// Ranges from which NodePort services are reached.
    pub fn effective_node_port_cidr_blocks(&self) -> Vec<&str> {
        if !self.node_port_ingress_rule_cidr_blocks.is_empty() {
            return self
                .node_port_ingress_rule_cidr_blocks
                .iter()
                .map(String::as_str)
                .collect();
        }
        if self.vpc.as_ref().is_some_and(|vpc| vpc.ipv6.is_some()) {
            vec![ANY_IPV4, ANY_IPV6]
        } else {
            vec![ANY_IPV4]
        }
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
            (
                "{vpc: {ipv6: {}}, nodePortIngressRuleCidrBlocks: [10.0.0.0/8]}",
                &["10.0.0.0/8"],
            ),
        ];
        for (yaml, expected) in cases {
            assert_eq!(network(yaml).effective_node_port_cidr_blocks(), expected, "{yaml}");
        }
    }
}
