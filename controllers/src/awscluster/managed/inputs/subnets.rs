//! The subnets that a managed cluster is to have: those of the spec, or the default ones. Pure.

use capa_api::cluster::subnet::SubnetSpec;
use capa_api::cluster::vpc::VpcSpec;
use capa_api::cluster::{AWSCluster, AWSClusterSpec};
use capa_api::common::Tags;
use capa_cloud::ec2;
use ipnet::Ipv4Net;

use super::{Inputs, Known, WantedSubnet, brought, problem};
use crate::awscluster::managed::layout::{self, default_subnets, range};
use crate::awscluster::managed::problem::Problem;
use crate::awscluster::managed::reference::{Kind, Ref};

impl Inputs {
    /// The subnets of the spec, or the default ones. An error is a problem for which there is no subnet at all.
    pub(super) fn add_subnets(
        &mut self,
        cluster: &AWSCluster,
        vpc: &VpcSpec,
        known: &Known<'_>,
    ) -> Result<(), Problem> {
        let listed = cluster.spec.subnets();
        if let Some(vpc) = self.vpc.brought.clone() {
            return self.add_brought_subnets(&cluster.spec, &vpc, known);
        }
        let range = self.vpc_range()?;
        self.add_secondary_cidr_blocks(vpc, range);
        if listed.is_empty() {
            return self.add_default_subnets(cluster, vpc, range, known);
        }
        for subnet in listed {
            let own_tags = brought::own_tags_of_subnet(&cluster.spec, &self.names.cluster, subnet);
            match self.listed_subnet(subnet, &own_tags, range, known) {
                Ok(subnet) => self.subnets.push(subnet),
                Err(problem) => self.problems.push(problem),
            }
        }
        if !self.subnets.iter().any(|subnet| subnet.is_public) && self.problems.is_empty() {
            let message = "network.subnets has no public subnet, which the internet gateway and NAT gateways need: set \
                           isPublic: true on one";
            self.problems.push(problem(&self.vpc.target.part(Kind::Subnet), message));
        }
        Ok(())
    }

    /// The secondary ranges of the VPC.
    fn add_secondary_cidr_blocks(&mut self, vpc: &VpcSpec, primary: Ipv4Net) {
        for block in &vpc.secondary_cidr_blocks {
            let text = &block.ipv4_cidr_block;
            let refused = |message: String| {
                let message = format!("network.vpc.secondaryCidrBlocks {text}: {message}");
                problem(&Ref::new(Kind::SecondaryCidrBlock, text), message)
            };
            let Some(range) = range(text) else {
                let message = "want the first address of an IPv4 range from /16 to /28".to_owned();
                self.problems.push(refused(message));
                continue;
            };
            let mut others = std::iter::once(&primary).chain(&self.secondary_cidr_blocks);
            let overlaps = others.find(|other| other.contains(&range) || range.contains(*other));
            if let Some(other) = overlaps {
                let message = format!("it overlaps with {other} of the VPC");
                self.problems.push(refused(message));
                continue;
            }
            self.secondary_cidr_blocks.push(range);
        }
    }

    /// The listed subnets of a VPC of the user.
    fn add_brought_subnets(&mut self, spec: &AWSClusterSpec, vpc: &str, known: &Known<'_>) -> Result<(), Problem> {
        let (listed, region) = (spec.subnets(), spec.region().unwrap_or_default());
        if listed.is_empty() {
            let message =
                format!("the VPC {vpc} is yours, and network.subnets does not list its subnets: list them by id");
            return Err(problem(&self.vpc.target.part(Kind::Subnet), message));
        }
        let subnets = listed.iter().filter_map(|subnet| brought::subnet(subnet, vpc, region, known));
        for subnet in subnets {
            match subnet {
                Ok(subnet) => self.subnets.push(subnet),
                Err(problem) => self.problems.push(problem),
            }
        }
        Ok(())
    }

    /// The range of the VPC.
    fn vpc_range(&self) -> Result<Ipv4Net, Problem> {
        let text = &self.vpc.cidr_block;
        range(text).ok_or_else(|| {
            let message = format!(
                "network.vpc.cidrBlock {text} is no IPv4 range of a VPC: want the first address of a range from /16 to \
                 /28"
            );
            problem(&self.vpc.target, message)
        })
    }

    fn add_default_subnets(
        &mut self,
        cluster: &AWSCluster,
        vpc: &VpcSpec,
        range: Ipv4Net,
        known: &Known<'_>,
    ) -> Result<(), Problem> {
        let schema = vpc.subnet_schema;
        let zones = match known.recorded_zones {
            [] => self.choose_zones(cluster, vpc, range, known),
            recorded => recorded.to_vec(),
        };
        let target = self.vpc.target.part(Kind::Subnet);
        if zones.is_empty() {
            let message = "no default layout has the subnets that the cluster owns, or AWS shows no availability zone: \
                           list the subnets in network.subnets";
            return Err(problem(&target, message));
        }
        let subnets = default_subnets(range, &zones, schema).map_err(|message| problem(&self.vpc.target, message))?;
        self.subnets = subnets
            .into_iter()
            .map(|subnet| {
                let name = self.names.subnet(subnet.is_public, &subnet.zone);
                WantedSubnet {
                    tags: self.names.subnet_tags(&name, subnet.is_public, &Tags::new()),
                    target: Ref::new(Kind::Subnet, name),
                    cidr_block: subnet.cidr_block,
                    zone: subnet.zone,
                    is_public: subnet.is_public,
                    is_for_pods_only: false,
                }
            })
            .collect();
        self.zones = zones;
        Ok(())
    }

    /// The zones for default subnets. If the status is lost, subnets may exist: then the zones, in the order of the
    /// spec, are those whose layout contains all existing subnets.
    fn choose_zones(&self, cluster: &AWSCluster, vpc: &VpcSpec, range: Ipv4Net, known: &Known<'_>) -> Vec<String> {
        let [namespace, name] = [&cluster.metadata.namespace, &cluster.metadata.name].map(|part| part.as_deref());
        let seed = format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default());
        let limit = usize::try_from(vpc.effective_availability_zone_usage_limit()).unwrap_or(1).max(1);
        let choose = |limit| layout::zones(known.zones, vpc.availability_zone_selection, limit, &seed);
        let owned: Vec<&ec2::Subnet> =
            known.subnets.unwrap_or_default().iter().filter(|subnet| self.names.owns(&subnet.tags)).collect();
        let has_all = |zones: &Vec<String>| {
            let layout = default_subnets(range, zones, vpc.subnet_schema).unwrap_or_default();
            owned.iter().all(|subnet| {
                let mut places = layout.iter();
                places.any(|place| place.zone == subnet.zone && place.cidr_block.to_string() == subnet.cidr_block)
            })
        };
        let all = known.zones.len();
        let limits = std::iter::once(limit).chain((1..=all).rev());
        limits.map(choose).find(has_all).unwrap_or_default()
    }

    fn listed_subnet(
        &self,
        spec: &SubnetSpec,
        own_tags: &Tags,
        vpc: Ipv4Net,
        known: &Known<'_>,
    ) -> Result<WantedSubnet, Problem> {
        let target = Ref::new(Kind::Subnet, &spec.id);
        let refused = |message: String| problem(&target, format!("network.subnets {}: {message}", spec.id));
        let text = spec.cidr_block.as_deref().unwrap_or_default();
        let cidr_block = range(text)
            .ok_or_else(|| refused(format!("cidrBlock {text} is no IPv4 range of a subnet: want /16 to /28")))?;
        let mut ranges = std::iter::once(&vpc).chain(&self.secondary_cidr_blocks);
        if !ranges.any(|range| range.contains(&cidr_block)) {
            return Err(refused(format!(
                "cidrBlock {cidr_block} is not in the range {vpc} of the VPC, and in none of secondaryCidrBlocks"
            )));
        }
        let others = self.subnets.iter();
        let overlaps =
            |other: &&WantedSubnet| other.cidr_block.contains(&cidr_block) || cidr_block.contains(&other.cidr_block);
        if let Some(other) = others.clone().find(overlaps) {
            let name = &other.target.name;
            return Err(refused(format!("cidrBlock {cidr_block} overlaps with {} of {name}", other.cidr_block)));
        }
        let zone = spec.availability_zone.clone().unwrap_or_default();
        if !known.zones.is_empty() && !known.zones.contains(&zone) {
            let zones = known.zones.join(", ");
            return Err(refused(format!("availabilityZone {zone:?} is not among the zones of the region: {zones}")));
        }
        let is_public = spec.is_public.unwrap_or_default();
        let default_name = || self.names.subnet(is_public, &zone);
        let name = spec.name().map_or_else(default_name, str::to_owned);
        Ok(WantedSubnet {
            tags: self.names.subnet_tags(&name, is_public, own_tags),
            target,
            cidr_block,
            zone,
            is_public,
            is_for_pods_only: spec.is_for_pods_only(),
        })
    }
}
