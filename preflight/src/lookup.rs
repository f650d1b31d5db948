//! Lookups in the facts for the rules: the parts of the network that the demand names.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::{
    Answer, Demand, Facts, Listener, LoadBalancer, MachineRole, NetworkAcl, RouteTable, SecurityGroup, Subnet,
    TargetGroup, Vpc,
};
use crate::rule::{Skipped, applies, known};

/// Destination of the default route for IPv4.
pub(crate) const DEFAULT_ROUTE: &str = "0.0.0.0/0";
/// Destination of the default route for IPv6.
pub(crate) const DEFAULT_ROUTE_IPV6: &str = "::/0";

impl Facts {
    /// An answer about the network. Rules about the network do not apply while nothing names a network.
    pub(crate) fn of_network<'a, T>(&self, answer: &'a Answer<T>, what: &str) -> Result<&'a T, Skipped> {
        let demand = &self.demand;
        let is_named = demand.network.vpc.is_some() || !demand.subnet_ids(None).is_empty();
        applies(is_named || !demand.machines.is_empty())?;
        known(answer, what)
    }

    /// The VPC. If the VPC does not exist, rule V1 reports it, and the other rules about the VPC are unknown.
    pub(crate) fn the_vpc(&self) -> Result<&Vpc, Skipped> {
        let vpc = self.of_network(&self.vpc, "the VPC")?.as_ref();
        vpc.ok_or_else(|| Skipped::Unknown("the VPC does not exist: see V1".to_owned()))
    }

    /// The existing subnets of machines with this role, or of all machines.
    pub(crate) fn subnets_of(&self, role: Option<MachineRole>) -> Result<Vec<&Subnet>, Skipped> {
        let ids = self.demand.subnet_ids(role);
        let subnets = self.of_network(&self.subnets, "the subnets")?.iter();
        Ok(subnets.filter(|subnet| ids.contains(subnet.id.as_str())).collect())
    }

    /// The route table of a subnet.
    pub(crate) fn route_table(&self, subnet: &Subnet) -> Result<&RouteTable, Skipped> {
        let table = subnet.route_table(self.of_network(&self.route_tables, "the route tables")?);
        table.ok_or_else(|| Skipped::Unknown(format!("no route table of subnet {} was found", subnet.id)))
    }

    /// The network access control list of a subnet.
    pub(crate) fn network_acl(&self, subnet: &str) -> Result<Option<&NetworkAcl>, Skipped> {
        let lists = self.of_network(&self.network_acls, "the network ACLs")?;
        Ok(lists.iter().find(|list| list.subnet_ids.iter().any(|id| id == subnet)))
    }

    /// The security groups with these ids that exist.
    pub(crate) fn groups(&self, ids: &BTreeSet<&str>) -> Result<Vec<&SecurityGroup>, Skipped> {
        let groups = known(&self.security_groups, "the security groups")?.iter();
        Ok(groups.filter(|group| ids.contains(group.id.as_str())).collect())
    }

    /// The target groups of the control plane that exist.
    pub(crate) fn the_target_groups(&self) -> Result<Vec<&TargetGroup>, Skipped> {
        let arns = self.demand.target_group_arns();
        let groups = known(&self.target_groups, "the target groups")?.iter();
        Ok(groups.filter(|group| arns.contains(group.arn.as_str())).collect())
    }

    /// The load balancers of the control plane that exist.
    pub(crate) fn the_load_balancers(&self) -> Result<Vec<&LoadBalancer>, Skipped> {
        let groups = self.the_target_groups()?;
        let arns: BTreeSet<&String> = groups.iter().flat_map(|group| &group.load_balancer_arns).collect();
        let balancers = known(&self.load_balancers, "the load balancers")?.iter();
        Ok(balancers.filter(|balancer| arns.contains(&balancer.arn)).collect())
    }

    /// The attributes of a target group or load balancer.
    pub(crate) fn attributes_of(&self, arn: &str, what: &str) -> Result<&BTreeMap<String, String>, Skipped> {
        let answer = self.load_balancing_attributes.get(arn).unwrap_or(&Answer::NotAsked);
        known(answer, what)
    }

    /// The listeners of a load balancer.
    pub(crate) fn listeners_of(&self, balancer: &LoadBalancer) -> Result<&[Listener], Skipped> {
        let answer = self.listeners.get(&balancer.arn).unwrap_or(&Answer::NotAsked);
        known(answer, "the listeners").map(Vec::as_slice)
    }

    /// The load balancers behind the endpoint of the control plane: those with its name, or else all that listen on its
    /// port, because the endpoint may be another name for them.
    pub(crate) fn endpoint_balancers(&self) -> Result<Vec<&LoadBalancer>, Skipped> {
        let all = self.the_load_balancers()?;
        let host = self.demand.endpoint.as_ref().map(|endpoint| endpoint.host.as_str()).unwrap_or_default();
        let is_named = |balancer: &&&LoadBalancer| balancer.dns_name.eq_ignore_ascii_case(host);
        let named: Vec<_> = all.iter().filter(is_named).copied().collect();
        if !named.is_empty() {
            return Ok(named);
        }
        let port = self.demand.endpoint_port();
        let listens = |balancer: &&LoadBalancer| {
            let listeners = self.listeners_of(balancer);
            listeners.map_or(true, |listeners| listeners.iter().any(|listener| listener.port == port))
        };
        Ok(all.into_iter().filter(listens).collect())
    }

    /// A command of the AWS CLI in the region of the cluster.
    pub(crate) fn aws(&self, command: &str) -> String {
        format!("aws --region {} {command}", self.demand.region)
    }

    /// Whether the VPC belongs to another account, which shares its subnets. AWS shows the gateways and endpoints of
    /// such a VPC to its owner only. Source: the user guide of VPC, «Share your VPC subnets with other accounts».
    pub(crate) fn is_in_shared_vpc(&self) -> bool {
        let vpc = self.vpc.found().and_then(Option::as_ref);
        vpc.zip(self.account_id.found()).is_some_and(|(vpc, account)| vpc.owner_id != *account)
    }

    /// Destination of the default route of all machines: that for IPv6 if they are all in subnets without IPv4.
    pub(crate) fn default_destination_of_machines(&self) -> Result<&'static str, Skipped> {
        let subnets = self.subnets_of(None)?;
        let has_ipv4 = subnets.is_empty() || subnets.into_iter().any(has_ipv4);
        Ok(if has_ipv4 { DEFAULT_ROUTE } else { DEFAULT_ROUTE_IPV6 })
    }
}

impl Demand {
    /// Key of the tag on resources that belong to the cluster.
    pub(crate) fn cluster_tag_key(&self) -> String {
        format!("kubernetes.io/cluster/{}", self.cluster_tag)
    }

    /// The port of the control plane endpoint, on which load balancers listen.
    pub(crate) fn endpoint_port(&self) -> i32 {
        self.endpoint.as_ref().map_or(self.api_port, |endpoint| endpoint.port)
    }
}

/// Whether instances in a subnet have IPv4 addresses.
pub(crate) fn has_ipv4(subnet: &Subnet) -> bool {
    !subnet.cidr_block.is_empty()
}

/// Destination of the default route of a subnet.
pub(crate) fn default_destination(subnet: &Subnet) -> &'static str {
    if has_ipv4(subnet) { DEFAULT_ROUTE } else { DEFAULT_ROUTE_IPV6 }
}

/// The address ranges of subnets: the IPv4 range, or the IPv6 ranges of a subnet without IPv4.
pub(crate) fn ranges<'a>(subnets: impl IntoIterator<Item = &'a Subnet>) -> Vec<&'a str> {
    let of_subnet = |subnet: &'a Subnet| {
        let ipv6 = if has_ipv4(subnet) { &[] } else { subnet.ipv6_cidr_blocks.as_slice() };
        std::iter::once(&subnet.cidr_block).chain(ipv6).map(String::as_str).filter(|range| !range.is_empty())
    };
    subnets.into_iter().flat_map(of_subnet).collect()
}
