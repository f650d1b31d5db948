//! What users require of the infrastructure: the part of the facts that comes from their objects and not from AWS.

use std::collections::BTreeSet;

use capa_api::cluster::preflight::PodNetwork;
use capa_api::cluster::security_group::SecurityGroupRole;
use capa_api::common::{ControlPlaneTarget, MachineRole};
use capa_api::machine::{AWSMachineSpec, MarketType};
use capa_api::network::MachineNetwork;
use serde::{Deserialize, Serialize};

/// Code of the service quota for the virtual CPUs of on-demand instances of the standard families.
pub const ON_DEMAND_VCPUS: &str = "L-1216C47A";
/// Code of the service quota for the virtual CPUs of spot instances of the standard families.
pub const SPOT_VCPUS: &str = "L-34B43A08";
/// Code of the service quota for the security groups of a network interface.
pub const GROUPS_OF_AN_INTERFACE: &str = "L-2AFB9258";
/// Code of the service quota for the rules of a security group.
pub const RULES_OF_A_GROUP: &str = "L-0EA8095F";

/// What a cluster requires of the infrastructure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Demand {
    /// Name of the cluster in the keys of AWS tags.
    pub cluster_tag: String,
    /// Region of the cluster.
    pub region: String,
    /// Account that the cluster expects; absent for any account.
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
    pub role: MachineRole,
    /// Number of machines, including those that an update adds temporarily.
    pub replicas: i32,
    /// Number of these machines that exist.
    #[serde(default)]
    pub existing: i32,
    /// Zones that the machines are pinned to; empty: any.
    pub failure_domains: BTreeSet<String>,
    /// Spec of the machines.
    pub spec: AWSMachineSpec,
    /// Size of the user data that the instances get, in bytes; absent while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data_bytes: Option<usize>,
}

impl MachineDemand {
    /// Ids of the subnets in which the machines may be launched: the one that their spec names, or else the subnets of
    /// the network that serve their role and failure domains. Machines with a public address use public subnets only.
    pub fn subnet_ids<'a>(&'a self, network: &'a MachineNetwork) -> BTreeSet<&'a str> {
        if let Some(id) = self.spec.subnet.as_ref().and_then(|subnet| subnet.id.as_deref()) {
            return [id].into();
        }
        let role = self.role;
        let serving = network.subnets.iter().filter(|subnet| subnet.serves(role) && !subnet.is_edge());
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
        let own = |roles: &[SecurityGroupRole]| -> Vec<&'a str> {
            let named = roles.iter().filter_map(|role| self.spec.security_group_overrides.get(role.as_str()));
            named.map(String::as_str).filter(|id| !id.is_empty()).collect()
        };
        let or_of_network = |own: Vec<&'a str>, of_network: Option<&'a [String]>| {
            if own.is_empty() { of_network.unwrap_or_default().iter().map(String::as_str).collect() } else { own }
        };
        let of_all = own(&[SecurityGroupRole::Node, SecurityGroupRole::Lb]);
        let of_role = match self.role {
            MachineRole::ControlPlane => own(&[SecurityGroupRole::ControlPlane]),
            MachineRole::Worker => Vec::new(),
        };
        let of_all = or_of_network(of_all, groups.map(|groups| groups.all.as_slice()));
        let of_role = or_of_network(of_role, groups.map(|groups| groups.of_role(self.role)));
        let additional = self.spec.additional_security_groups.iter();
        let additional = additional.filter_map(|group| group.id.as_deref());
        of_all.into_iter().chain(of_role).chain(additional).collect()
    }

    /// Whether the spec names security groups by filters, so that not all of their ids are known.
    pub fn has_security_group_filters(&self) -> bool {
        self.spec.additional_security_groups.iter().any(|group| group.id.is_none())
    }
}

impl MachineDemand {
    /// Id of the image, if the machines name one. Without an id, each launch looks the image up by its name.
    pub fn image_id(&self) -> Option<&str> {
        self.spec.ami.as_ref()?.id.as_deref().filter(|id| !id.is_empty())
    }

    /// Whether the machines are spot instances.
    pub fn is_spot(&self) -> bool {
        self.spec.spot_market_options.is_some() || self.spec.market_type == Some(MarketType::Spot)
    }

    /// Name of the instance profile of the machines: their own, or else that of the network.
    pub fn instance_profile<'a>(&'a self, network: &'a MachineNetwork) -> Option<&'a str> {
        let own = self.spec.iam_instance_profile.as_deref();
        let of_network = network.instance_profiles.as_ref().and_then(|profiles| {
            let profile = match self.role {
                MachineRole::ControlPlane => &profiles.control_plane,
                MachineRole::Worker => &profiles.worker,
            };
            profile.as_deref()
        });
        own.filter(|name| !name.is_empty()).or(of_network)
    }

    /// The encryption keys that the volumes of the machines name.
    pub fn encryption_keys(&self) -> BTreeSet<&str> {
        let volumes = self.spec.root_volume.iter().chain(&self.spec.non_root_volumes);
        let keys = volumes.filter_map(|volume| volume.encryption_key.as_deref());
        keys.filter(|key| !key.is_empty()).collect()
    }
}

/// The security groups of machines of one template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupSet<'a> {
    /// Ids of the groups.
    pub ids: BTreeSet<&'a str>,
    /// The template, if it names more groups by filters.
    pub found_by: Option<&'a str>,
}

impl Demand {
    /// Names of the instance profiles of all machines.
    pub fn instance_profiles(&self) -> BTreeSet<&str> {
        let machines = self.machines.iter();
        machines.filter_map(|machines| machines.instance_profile(&self.network)).collect()
    }

    /// The encryption keys that the volumes of all machines name.
    pub fn encryption_keys(&self) -> BTreeSet<&str> {
        self.machines.iter().flat_map(MachineDemand::encryption_keys).collect()
    }

    /// Name of the bucket for bootstrap data, if the network names one and there are machines that need it.
    pub fn bucket(&self) -> Option<&str> {
        let storage = self.network.bootstrap_storage.as_ref()?.s3.as_ref()?;
        (!self.machines.is_empty()).then_some(storage.bucket.as_str())
    }

    /// Whether some machines are spot instances.
    pub fn has_spot_machines(&self) -> bool {
        self.machines.iter().any(MachineDemand::is_spot)
    }

    /// Codes of the service quotas that the machines count towards.
    pub fn quota_codes(&self) -> BTreeSet<&'static str> {
        let code = |machines: &MachineDemand| {
            if machines.is_spot() { SPOT_VCPUS } else { ON_DEMAND_VCPUS }
        };
        self.machines.iter().map(code).collect()
    }

    /// Whether machines of the cluster run the control plane.
    pub fn has_control_plane_machines(&self) -> bool {
        let mut machines = self.machines.iter();
        self.runs_control_plane || machines.any(|machines| machines.role == MachineRole::ControlPlane)
    }

    /// Codes of the service quotas of VPCs that the machines may reach.
    pub fn vpc_quota_codes(&self) -> BTreeSet<&'static str> {
        if self.machines.is_empty() { BTreeSet::new() } else { [GROUPS_OF_AN_INTERFACE, RULES_OF_A_GROUP].into() }
    }

    /// Ids of the subnets of machines with a role, or with any. In a Local Zone or Wavelength Zone are only machines
    /// whose spec names the subnet.
    pub fn subnet_ids(&self, role: Option<MachineRole>) -> BTreeSet<&str> {
        let subnets = self.network.subnets.iter();
        let serving = subnets.filter(|subnet| role.is_none_or(|role| subnet.serves(role) && !subnet.is_edge()));
        let of_network = serving.map(|subnet| subnet.id.as_str());
        let named = self.machines.iter().filter(|machines| role.is_none_or(|role| machines.role == role));
        let named = named.filter_map(|machines| machines.spec.subnet.as_ref()?.id.as_deref());
        of_network.chain(named).collect()
    }

    /// Ids of the security groups of machines with a role, or with any.
    pub fn group_ids(&self, role: Option<MachineRole>) -> BTreeSet<&str> {
        let groups = self.network.security_groups.as_ref();
        let of_network = groups.into_iter().flat_map(|groups| {
            let of_role = [(MachineRole::ControlPlane, &groups.control_plane), (MachineRole::Worker, &groups.worker)];
            let of_role = of_role.into_iter().filter(move |(of, _)| role.is_none_or(|role| role == *of));
            groups.all.iter().chain(of_role.flat_map(|(_, ids)| ids)).map(String::as_str)
        });
        let machines = self.machines.iter().filter(|machines| role.is_none_or(|role| machines.role == role));
        let of_machines = machines.flat_map(|machines| machines.security_groups(&self.network));
        of_network.chain(of_machines).collect()
    }

    /// The sets of security groups that machines of a role have: one for each template, or that of the network while no
    /// template of the role is known.
    pub fn group_sets(&self, role: MachineRole) -> BTreeSet<GroupSet<'_>> {
        let machines = self.machines.iter().filter(|machines| machines.role == role);
        let of_template = |machines| GroupSet {
            ids: MachineDemand::security_groups(machines, &self.network),
            found_by: machines.has_security_group_filters().then_some(machines.template.as_str()),
        };
        let mut sets: BTreeSet<_> = machines.map(of_template).collect();
        if sets.is_empty() {
            sets.insert(GroupSet { ids: self.group_ids(Some(role)), found_by: None });
        }
        sets.retain(|set| !set.ids.is_empty() || set.found_by.is_some());
        sets
    }

    /// The first template of machines with a role, or with any, that names security groups by filters.
    pub fn with_security_group_filters(&self, role: Option<MachineRole>) -> Option<&str> {
        let mut machines = self.machines.iter().filter(|machines| role.is_none_or(|role| machines.role == role));
        let found = machines.find(|machines| machines.has_security_group_filters());
        found.map(|machines| machines.template.as_str())
    }

    /// The targets of the control plane, of the network and of the templates.
    pub fn control_plane_targets(&self) -> impl Iterator<Item = &ControlPlaneTarget> {
        let of_machines = self.machines.iter().flat_map(|machines| &machines.spec.control_plane_targets);
        self.network.control_plane_targets.iter().chain(of_machines)
    }

    /// ARNs of the target groups of the control plane.
    pub fn target_group_arns(&self) -> BTreeSet<&str> {
        self.control_plane_targets().filter_map(|target| target.target_group_arn.as_deref()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// One machine for each spec, in a network with instance profiles and a bucket.
    fn demand(specs: Vec<serde_json::Value>) -> Demand {
        let network = json!({
            "instanceProfiles": {"controlPlane": "masters", "worker": "nodes"},
            "bootstrapStorage": {"s3": {"bucket": "bootstrap"}},
        });
        let machines = specs
            .into_iter()
            .map(|spec| MachineDemand { spec: serde_json::from_value(spec).unwrap(), ..MachineDemand::default() });
        Demand { network: serde_json::from_value(network).unwrap(), machines: machines.collect(), ..Demand::default() }
    }

    #[test]
    fn nothing_is_asked_about_without_machines() {
        let demand = demand(vec![]);
        assert!(demand.instance_profiles().is_empty() && demand.encryption_keys().is_empty());
        assert!(demand.bucket().is_none() && demand.quota_codes().is_empty() && !demand.has_spot_machines());
        assert!(demand.vpc_quota_codes().is_empty());
    }

    #[test]
    fn the_profile_is_that_of_the_machine_or_of_its_role() {
        let plain = json!({"instanceType": "m5.large"});
        let own = json!({"instanceType": "m5.large", "iamInstanceProfile": "own"});
        let empty = json!({"instanceType": "m5.large", "iamInstanceProfile": ""});
        let mut demand = demand(vec![own, plain.clone(), empty, plain]);
        assert_eq!(demand.instance_profiles(), ["nodes", "own"].into());
        demand.machines.last_mut().unwrap().role = MachineRole::ControlPlane;
        assert_eq!(demand.instance_profiles(), ["masters", "nodes", "own"].into());
    }

    #[test]
    fn each_override_replaces_the_groups_of_the_network_for_its_machines() {
        let network = json!({"securityGroups": {"all": ["sg-a"], "controlPlane": ["sg-b"], "worker": ["sg-c"]}});
        let network = serde_json::from_value(network).unwrap();
        let (control_plane, worker) = (MachineRole::ControlPlane, MachineRole::Worker);
        for (overrides, role, expected) in [
            (json!({}), control_plane, vec!["sg-a", "sg-b"]),
            (json!({}), worker, vec!["sg-a", "sg-c"]),
            (json!({"node": "sg-1", "lb": ""}), worker, vec!["sg-1", "sg-c"]),
            (json!({"node": "sg-1", "lb": "sg-2"}), worker, vec!["sg-1", "sg-2", "sg-c"]),
            (json!({"controlplane": "sg-3"}), control_plane, vec!["sg-3", "sg-a"]),
            (json!({"controlplane": "sg-3"}), worker, vec!["sg-a", "sg-c"]),
        ] {
            let spec = serde_json::from_value(json!({"instanceType": "m5.large", "securityGroupOverrides": overrides}));
            let machines = MachineDemand { spec: spec.unwrap(), role, ..MachineDemand::default() };
            assert_eq!(machines.security_groups(&network), expected.into_iter().collect(), "{overrides} {role:?}");
        }
    }

    #[test]
    fn keys_are_those_of_all_volumes_once() {
        let spec = json!({
            "instanceType": "m5.large",
            "rootVolume": {"size": 20, "encryptionKey": "alias/a"},
            "nonRootVolumes": [
                {"deviceName": "/dev/sdb", "size": 20, "encryptionKey": "alias/b"},
                {"deviceName": "/dev/sdc", "size": 20, "encryptionKey": ""},
                {"deviceName": "/dev/sdd", "size": 20, "encryptionKey": "alias/a"},
            ],
        });
        assert_eq!(demand(vec![spec.clone(), spec]).encryption_keys(), ["alias/a", "alias/b"].into());
    }

    #[test]
    fn the_quotas_are_those_of_the_markets_in_use() {
        let plain = json!({"instanceType": "m5.large"});
        let spot = json!({"instanceType": "m5.large", "spotMarketOptions": {}});
        let market = json!({"instanceType": "m5.large", "marketType": "Spot"});
        assert_eq!(demand(vec![plain.clone()]).quota_codes(), [ON_DEMAND_VCPUS].into());
        assert_eq!(demand(vec![spot]).quota_codes(), [SPOT_VCPUS].into());
        let both = demand(vec![plain, market]);
        assert_eq!(both.quota_codes(), [ON_DEMAND_VCPUS, SPOT_VCPUS].into());
        assert!(both.has_spot_machines());
        assert_eq!(both.bucket(), Some("bootstrap"));
    }
}
