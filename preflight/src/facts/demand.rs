//! What users ask of the infrastructure: the part of the facts that comes from their objects and not from AWS.

use std::collections::BTreeSet;

use capa_api::cluster::preflight::PodNetwork;
use capa_api::common::MachineRole;
use capa_api::machine::AWSMachineSpec;
use capa_api::network::MachineNetwork;
use serde::{Deserialize, Serialize};

/// What a cluster asks of the infrastructure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Demand {
    /// Name of the cluster in the keys of AWS tags.
    pub cluster_tag: String,
    /// Region of the cluster.
    pub region: String,
    /// Account that the cluster expects; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// The network of machines.
    pub network: MachineNetwork,
    /// Address ranges of pods and Services.
    pub cluster_cidrs: Vec<String>,
    /// Whether pods or Services get IPv6 addresses.
    pub wants_ipv6: bool,
    /// The pod network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<PodNetwork>,
    /// The endpoint of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointDemand>,
    /// Port of the API servers.
    pub api_port: i32,
    /// Whether machines of the cluster run the control plane, even if none of their templates is known.
    pub runs_control_plane: bool,
    /// Whether the control plane runs outside the cluster's machines.
    pub has_hosted_control_plane: bool,
    /// The machines.
    pub machines: Vec<MachineDemand>,
}

/// The endpoint of the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointDemand {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: i32,
    /// Whether a control plane machine has been up.
    pub is_initialized: bool,
}

/// Machines of one template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineDemand {
    /// Kind and name of the template, for example `AWSMachineTemplate/workers`.
    pub template: String,
    /// Role of the machines.
    pub role: RoleOfMachines,
    /// Number of machines, with those that an update adds for a time.
    pub replicas: i32,
    /// Zones that the machines are pinned to; empty: any.
    pub failure_domains: BTreeSet<String>,
    /// Spec of the machines.
    pub spec: AWSMachineSpec,
    /// Size of the user data in bytes, as the instances get it; absent while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data_bytes: Option<usize>,
}

/// Role of machines, `Worker` unless a control plane makes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoleOfMachines {
    /// Control plane machines.
    ControlPlane,
    /// Other machines.
    #[default]
    Worker,
}

impl From<RoleOfMachines> for MachineRole {
    fn from(role: RoleOfMachines) -> Self {
        match role {
            RoleOfMachines::ControlPlane => Self::ControlPlane,
            RoleOfMachines::Worker => Self::Worker,
        }
    }
}

impl MachineDemand {
    /// Ids of the subnets in which the machines may be launched: the one that their spec names, or else those of the
    /// network that serve their role and failure domains, and that are public if the machines get a public address.
    pub fn subnet_ids<'a>(&'a self, network: &'a MachineNetwork) -> BTreeSet<&'a str> {
        if let Some(id) = self.spec.subnet.as_ref().and_then(|subnet| subnet.id.as_deref()) {
            return [id].into();
        }
        let role = self.role.into();
        let serving = network
            .subnets
            .iter()
            .filter(|subnet| subnet.serves(role) && !subnet.is_edge());
        let in_domain = serving.filter(|subnet| {
            let zone = subnet.availability_zone.as_ref();
            self.failure_domains.is_empty() || zone.is_none_or(|zone| self.failure_domains.contains(zone))
        });
        let wants_public = self.spec.public_ip.unwrap_or(false);
        let fitting = in_domain.filter(|subnet| subnet.public.is_none_or(|is_public| is_public == wants_public));
        fitting.map(|subnet| subnet.id.as_str()).collect()
    }

    /// Ids of the security groups of the machines.
    pub fn security_groups<'a>(&'a self, network: &'a MachineNetwork) -> BTreeSet<&'a str> {
        let groups = network.security_groups.as_ref();
        let overrides = &self.spec.security_group_overrides;
        let of_all: Vec<&str> = if overrides.contains_key("node") {
            let roles = ["node", "lb"].into_iter();
            roles
                .filter_map(|role| overrides.get(role))
                .map(String::as_str)
                .collect()
        } else {
            groups
                .map(|groups| groups.all.iter().map(String::as_str).collect())
                .unwrap_or_default()
        };
        let of_role = groups
            .map(|groups| groups.of_role(self.role.into()))
            .unwrap_or_default();
        let additional = self.spec.additional_security_groups.iter();
        of_all
            .into_iter()
            .chain(of_role.iter().map(String::as_str))
            .chain(additional.filter_map(|group| group.id.as_deref()))
            .collect()
    }
}

impl Demand {
    /// Whether machines of the cluster run the control plane.
    pub fn has_control_plane_machines(&self) -> bool {
        let mut machines = self.machines.iter();
        self.runs_control_plane || machines.any(|machines| machines.role == RoleOfMachines::ControlPlane)
    }

    /// Ids of the subnets of machines with a role, or with any.
    pub fn subnet_ids(&self, role: Option<RoleOfMachines>) -> BTreeSet<&str> {
        let subnets = self.network.subnets.iter();
        let serving = subnets.filter(|subnet| role.is_none_or(|role| subnet.serves(role.into())));
        let of_network = serving.map(|subnet| subnet.id.as_str());
        let named = self
            .machines
            .iter()
            .filter(|machines| role.is_none_or(|role| machines.role == role));
        let named = named.filter_map(|machines| machines.spec.subnet.as_ref()?.id.as_deref());
        of_network.chain(named).collect()
    }

    /// Ids of the security groups of machines with a role, or with any.
    pub fn group_ids(&self, role: Option<RoleOfMachines>) -> BTreeSet<&str> {
        let groups = self.network.security_groups.as_ref();
        let of_network = groups.into_iter().flat_map(|groups| {
            let of_role = [
                (RoleOfMachines::ControlPlane, &groups.control_plane),
                (RoleOfMachines::Worker, &groups.worker),
            ];
            let of_role = of_role
                .into_iter()
                .filter(move |(of, _)| role.is_none_or(|role| role == *of));
            groups
                .all
                .iter()
                .chain(of_role.flat_map(|(_, ids)| ids))
                .map(String::as_str)
        });
        let machines = self
            .machines
            .iter()
            .filter(|machines| role.is_none_or(|role| machines.role == role));
        let of_machines = machines.flat_map(|machines| machines.security_groups(&self.network));
        of_network.chain(of_machines).collect()
    }

    /// ARNs of the target groups of the control plane.
    pub fn target_group_arns(&self) -> BTreeSet<&str> {
        let of_machines = self
            .machines
            .iter()
            .flat_map(|machines| &machines.spec.control_plane_targets);
        let targets = self.network.control_plane_targets.iter().chain(of_machines);
        targets
            .filter_map(|target| target.target_group_arn.as_deref())
            .collect()
    }
}
