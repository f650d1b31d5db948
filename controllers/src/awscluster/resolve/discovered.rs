//! The parts of a network that are found by `spec.discovery`. Pure.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::discovery::{DiscoverySpec, SubnetDiscovery};
use capa_api::cluster::subnet::SubnetSpec;
use capa_api::common::{ControlPlaneTarget, MachineRole};
use capa_api::conditions::Reason;
use capa_api::network::{MachineNetwork, NetworkSecurityGroups, NetworkSubnet, NetworkVpc};

use super::subnets::from_lookup;
use crate::awscluster::facts::{FoundNetwork, FoundParts, TargetSearch};
use crate::awscluster::load_balancer::Targets;
use crate::awscluster::network_problems::{Blocked, NetworkProblems};
use crate::filters::candidates;

const PATH: &str = "spec.discovery";
/// The most entries that the network contract has in each of its lists.
const MAX_SUBNETS: usize = 200;
const MAX_SECURITY_GROUPS: usize = 16;

/// The results of the searches for `spec.discovery`.
pub(super) struct Discovered<'a> {
    /// The search that the spec describes.
    discovery: DiscoverySpec,
    found: Option<&'a FoundNetwork>,
    /// The network that was published for this spec, if no search was answered.
    published: Option<&'a MachineNetwork>,
    region: &'a str,
}

impl<'a> Discovered<'a> {
    pub(super) fn new(
        spec: &AWSClusterSpec,
        region: &'a str,
        found: Option<&'a FoundNetwork>,
        published: Option<&'a MachineNetwork>,
    ) -> Self {
        Self { discovery: spec.effective_discovery(), found, published, region }
    }

    /// Whether the VPC is found by discovery.
    pub(super) fn has_vpc(&self) -> bool {
        self.discovery.vpc.is_some()
    }

    /// Whether subnets are found by discovery.
    pub(super) fn has_subnets(&self) -> bool {
        !self.discovery.subnets.is_empty()
    }

    /// Whether targets are found by discovery.
    pub(super) fn has_targets(&self) -> bool {
        self.discovery.control_plane_targets.is_some()
    }

    /// Whether a part is searched for in the VPC.
    fn has_parts(&self) -> bool {
        self.has_subnets() || self.has_targets() || self.discovery.security_groups.is_some()
    }

    /// The machines that cannot be launched until the VPC is known.
    pub(super) fn held_up_without_vpc(&self) -> Option<Blocked> {
        self.has_targets().then_some(Blocked::ControlPlane)
    }

    fn parts(&self) -> Option<&'a FoundParts> {
        self.found?.parts.as_ref()
    }

    /// The only VPC that matches.
    pub(super) fn vpc(&self, place: &str, problems: &mut NetworkProblems) -> Option<NetworkVpc> {
        let Some(found) = self.found else {
            return self.published.and_then(|published| published.vpc.clone());
        };
        let problem = match found.matching_vpcs.as_slice() {
            [_] => return found.vpcs.first().map(|vpc| super::as_network_vpc(vpc, false)),
            [] => (Reason::NotFound, format!("no VPC in {place} matches {PATH}.vpc: tag one, or correct the filters")),
            several => (
                Reason::Conflict,
                format!(
                    "{PATH}.vpc matches several VPCs in {place}: {}: narrow the filters, or set spec.network.vpc.id",
                    candidates(several)
                ),
            ),
        };
        problems.add_for(self.held_up_without_vpc(), problem.0, problem.1);
        None
    }

    /// Adds a problem if parts are to be searched for, and the spec does not say in which VPC.
    pub(super) fn check_vpc(&self, spec: &AWSClusterSpec, problems: &mut NetworkProblems) {
        if self.has_parts() && !self.has_vpc() && spec.vpc_id().is_none() {
            let message = format!("{PATH} searches in one VPC: set {PATH}.vpc or spec.network.vpc.id");
            problems.add_for(self.held_up_without_vpc(), Reason::InvalidSpec, message);
        }
    }

    /// The subnets that match, each for the roles of all entries that it matches.
    pub(super) fn subnets(&self, problems: &mut NetworkProblems) -> Vec<NetworkSubnet> {
        let Some(found) = self.found else {
            let published = self.published.map(|published| published.subnets.clone());
            return published.unwrap_or_default();
        };
        let Some(parts) = &found.parts else {
            return vec![];
        };
        let mut roles: BTreeMap<&str, Option<BTreeSet<MachineRole>>> = BTreeMap::new();
        for (index, (entry, ids)) in self.discovery.subnets.iter().zip(&parts.subnets).enumerate() {
            if ids.is_empty() {
                problems.add(Reason::NotFound, self.nothing("subnet", &format!("subnets[{index}]")));
            }
            for id in ids {
                add_roles(roles.entry(id).or_insert_with(|| Some(BTreeSet::new())), entry);
            }
        }
        if roles.len() > MAX_SUBNETS {
            let message = self.too_many("subnets", "subnets", MAX_SUBNETS, roles.keys());
            problems.add(Reason::Conflict, message);
            return vec![];
        }
        let seen = |id: &str| found.subnets.iter().find(|subnet| subnet.id == id);
        let subnets = roles.into_iter().filter_map(|(id, roles)| {
            let subnet = from_lookup(&SubnetSpec::default(), seen(id)?, self.region, &found.route_tables);
            Some(NetworkSubnet { roles: roles.into_iter().flatten().collect(), ..subnet })
        });
        subnets.collect()
    }

    /// The security groups that match, beside `declared`, which the spec names by id.
    pub(super) fn security_groups(
        &self,
        declared: Option<NetworkSecurityGroups>,
        problems: &mut NetworkProblems,
    ) -> Option<NetworkSecurityGroups> {
        let Some(discovery) = &self.discovery.security_groups else {
            return declared;
        };
        let mut groups = declared.unwrap_or_default();
        let found = match (self.found, self.parts()) {
            (None, _) => self.published.and_then(|published| published.security_groups.clone()),
            (Some(_), parts) => parts.map(|parts| parts.security_groups.clone()),
        };
        let found = found.unwrap_or_default();
        for (field, _) in discovery.parts() {
            let (into, ids) = match field {
                "all" => (&mut groups.all, &found.all),
                "controlPlane" => (&mut groups.control_plane, &found.control_plane),
                _ => (&mut groups.worker, &found.worker),
            };
            let path = format!("securityGroups.{field}");
            if self.parts().is_some() && ids.is_empty() {
                problems.add(Reason::NotFound, self.nothing("security group", &path));
            }
            if ids.len() > MAX_SECURITY_GROUPS {
                let message = self.too_many("security groups", &path, MAX_SECURITY_GROUPS, ids);
                problems.add(Reason::Conflict, message);
            } else {
                into.clone_from(ids);
            }
        }
        Some(groups)
    }

    /// The target groups that match.
    pub(super) fn targets(&self, problems: &mut NetworkProblems) -> Targets {
        let path = "controlPlaneTargets";
        let published = || self.published.map(|published| published.control_plane_targets.clone());
        let targets = match (self.found, self.parts().and_then(|parts| parts.targets.as_ref())) {
            (None, _) => published(),
            (Some(_), None) => None,
            (Some(_), Some(TargetSearch::Matching(arns))) => {
                let problem = match arns.len() {
                    0 => Some((Reason::NotFound, self.nothing("target group of type instance or ip", path))),
                    1..=ControlPlaneTarget::MAX_COUNT => None,
                    _ => Some((
                        Reason::Conflict,
                        self.too_many("target groups", path, ControlPlaneTarget::MAX_COUNT, arns),
                    )),
                };
                match problem {
                    None => Some(arns.iter().map(|arn| ControlPlaneTarget::target_group(arn)).collect()),
                    Some((reason, message)) => {
                        problems.add_blocking(Blocked::ControlPlane, reason, message);
                        None
                    }
                }
            }
            (Some(_), Some(TargetSearch::TooMany(most))) => {
                let message = format!(
                    "{} has more than {most} target groups, too many to search: name those of the control plane in \
                     spec.controlPlaneTargets instead of {PATH}.{path}",
                    self.vpc_id()
                );
                problems.add_blocking(Blocked::ControlPlane, Reason::InvalidSpec, message);
                None
            }
            (Some(_), Some(TargetSearch::Failed(error))) => {
                let message = format!(
                    "the target groups of {PATH}.{path} could not be looked up, and the provider retries the lookup: \
                     {error}"
                );
                problems.add_blocking(Blocked::ControlPlane, error.class.reason(), message);
                published()
            }
        };
        match targets.filter(|targets| !targets.is_empty()) {
            Some(targets) => Targets::Known(targets),
            None => Targets::Pending(format!("target groups of {PATH}.{path}")),
        }
    }

    fn vpc_id(&self) -> &str {
        let vpc = self.found.and_then(|found| found.vpcs.first());
        vpc.map_or("the VPC", |vpc| vpc.id.as_str())
    }

    fn nothing(&self, thing: &str, path: &str) -> String {
        format!("no {thing} in {} matches {PATH}.{path}: tag one, or correct {path}", self.vpc_id())
    }

    fn too_many<T: AsRef<str>>(
        &self,
        things: &str,
        path: &str,
        most: usize,
        ids: impl IntoIterator<Item = T>,
    ) -> String {
        format!("{PATH}.{path} matches more than {most} {things} in {}: {}: narrow it", self.vpc_id(), candidates(ids))
    }
}

/// Adds the roles of an entry. `None` means both roles, for an entry without roles.
fn add_roles(roles: &mut Option<BTreeSet<MachineRole>>, entry: &SubnetDiscovery) {
    if entry.roles.is_empty() {
        *roles = None;
    } else if let Some(roles) = roles {
        roles.extend(&entry.roles);
    }
}
