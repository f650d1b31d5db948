//! VPCs and their DNS attributes.

use std::time::Duration;

use capa_api::common::Tags;
use capa_cloud::ec2::vpc::{Call, DnsAttribute};
use capa_cloud::ec2::{Vpc, VpcDns};
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::{CloudError, Query};

use ipnet::Ipv4Net;

use super::subnet::overlap;
use super::{Ec2, Resource, cloned, is_allowed_size, parsed_range};
use crate::filters::select;

/// The most IPv4 ranges of a VPC, unless AWS has raised the quota.
const MAX_RANGES: usize = 5;

/// A VPC with the attributes that no list shows.
#[derive(Clone, Debug)]
pub(super) struct Body {
    /// Without the ranges that calls have added.
    vpc: Vpc,
    dns: VpcDns,
    /// The ranges that calls have added, with the times of the calls.
    added: Vec<(String, Duration)>,
}

impl Body {
    fn new(id: String, cidr_block: String, tags: Tags) -> Self {
        Self {
            vpc: Vpc { id, cidr_blocks: vec![cidr_block], tags, ..Vpc::default() },
            dns: VpcDns { support: true, hostnames: false },
            added: vec![],
        }
    }
}

impl Ec2 {
    pub(super) fn call_vpc(&mut self, action: &'static str, call: &Call<String>) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::CreateVpc { cidr_block, tags } => self.create_vpc(action, cidr_block, tags),
            Call::ModifyVpcAttribute { vpc, attribute } => self.modify_vpc(action, vpc, *attribute),
            Call::AssociateVpcCidrBlock { vpc, cidr_block } => self.associate_range(action, vpc, cidr_block),
            Call::DeleteVpc { vpc } => self.delete_vpc(action, vpc),
        }
    }

    fn create_vpc(&mut self, action: &'static str, cidr_block: &str, tags: &Tags) -> Result<ChangeAnswer, CloudError> {
        let range = parsed_range(action, cidr_block)?;
        if !is_allowed_size(range) {
            let message = format!("The CIDR '{cidr_block}' is invalid.");
            return Err(CloudError::answered(action, "InvalidVpc.Range", &message));
        }
        if self.vpcs.len() >= self.behaviour.vpc_quota {
            let message = "The maximum number of VPCs has been reached.";
            return Err(CloudError::answered(action, "VpcLimitExceeded", message));
        }
        let id = self.next_id("vpc");
        let body = Body::new(id.clone(), range.to_string(), tags.clone());
        let resource = self.new_resource(body);
        self.insert_vpc(&id, resource);
        Ok(ChangeAnswer::Made(id))
    }

    fn modify_vpc(
        &mut self,
        action: &'static str,
        id: &str,
        attribute: DnsAttribute,
    ) -> Result<ChangeAnswer, CloudError> {
        self.known_vpc(action, id)?;
        let Some(resource) = self.vpcs.get_mut(id) else {
            return Err(unknown(action, id));
        };
        let dns = &mut resource.body.dns;
        match attribute {
            DnsAttribute::Support => dns.support = true,
            DnsAttribute::Hostnames if dns.support => dns.hostnames = true,
            DnsAttribute::Hostnames => {
                let message = format!("DNS hostnames of {id} need DNS support: enable enableDnsSupport first.");
                return Err(CloudError::answered(action, "InvalidParameterValue", &message));
            }
        }
        Ok(ChangeAnswer::Done)
    }

    fn associate_range(
        &mut self,
        action: &'static str,
        id: &str,
        cidr_block: &str,
    ) -> Result<ChangeAnswer, CloudError> {
        let range = parsed_range(action, cidr_block)?;
        self.known_vpc(action, id)?;
        let now = self.now();
        let Some(resource) = self.vpcs.get_mut(id) else {
            return Err(unknown(action, id));
        };
        let Body { vpc, added, .. } = &mut resource.body;
        let known = vpc.cidr_blocks.iter().chain(added.iter().map(|(range, _)| range));
        let known: Vec<Ipv4Net> = known.filter_map(|range| range.parse().ok()).collect();
        if !is_allowed_size(range) || known.iter().any(|other| overlap(*other, range)) {
            let message = format!("The CIDR '{cidr_block}' is invalid.");
            return Err(CloudError::answered(action, "InvalidVpc.Range", &message));
        }
        if known.len() >= MAX_RANGES {
            let message = format!("This network '{id}' has met its maximum number of allowed CIDRs: {MAX_RANGES}");
            return Err(CloudError::answered(action, "CidrLimitExceeded", &message));
        }
        added.push((range.to_string(), now));
        Ok(ChangeAnswer::Done)
    }

    fn delete_vpc(&mut self, action: &'static str, id: &str) -> Result<ChangeAnswer, CloudError> {
        self.known_vpc(action, id)?;
        let has_subnet = self.subnets.values().any(|subnet| subnet.body.vpc_id == id);
        let has_other = self.has_other_route_table(id) || self.has_other_security_group(id);
        let has_interfaces = self.has_interface(|interface| interface.vpc_id == id);
        if has_subnet || has_other || has_interfaces || self.gateway_of(id).is_some() {
            let message = format!("The vpc '{id}' has dependencies and cannot be deleted.");
            return Err(CloudError::answered(action, "DependencyViolation", &message));
        }
        self.remove_route_tables_of(id);
        self.remove_security_groups_of(id);
        self.vpcs.remove(id);
        Ok(ChangeAnswer::Done)
    }

    /// Adds a VPC with its main route table and its default security group, which are as old as the VPC.
    fn insert_vpc(&mut self, id: &str, resource: Resource<Body>) {
        self.insert_main_table(id, resource.made_at);
        self.insert_default_group(id, resource.made_at);
        self.vpcs.insert(id.to_owned(), resource);
    }

    /// The VPC that a call names.
    pub(crate) fn known_vpc(&self, action: &'static str, id: &str) -> Result<&Vpc, CloudError> {
        let known = self.vpcs.get(id).filter(|resource| self.is_shown(resource));
        known.map(|resource| &resource.body.vpc).ok_or_else(|| unknown(action, id))
    }

    pub(super) fn shown_vpcs(&self, selects: impl Fn(&Vpc) -> bool) -> Vec<Vpc> {
        let shown = self.vpcs.values().filter(|resource| self.is_shown(resource));
        let views = shown.map(|resource| Vpc {
            tags: self.shown_tags(resource, &resource.body.vpc.tags),
            ..self.view_vpc(resource)
        });
        views.filter(selects).collect()
    }

    /// DescribeVpcs, all pages.
    pub(crate) fn describe_vpcs(&self, query: &Query) -> Result<Vec<Vpc>, CloudError> {
        let shown = self.shown_vpcs(|_| true);
        let things = shown.iter().map(|vpc| (vpc, &vpc.tags));
        select("DescribeVpcs", query, &["vpc-id", "cidr"], things, |vpc, filter| match filter {
            "vpc-id" => vec![vpc.id.clone()],
            _ => vpc.cidr_blocks.iter().take(1).cloned().collect(),
        })
        .map(cloned)
    }

    /// Both attributes. EC2 shows one in an answer, so these are two calls.
    pub(super) fn describe_dns(&mut self, vpc: &str) -> Result<VpcDns, CloudError> {
        const ACTION: &str = "DescribeVpcAttribute";
        self.count(ACTION);
        self.describe(ACTION, |ec2| {
            ec2.known_vpc(ACTION, vpc)?;
            ec2.dns_of(vpc).ok_or_else(|| unknown(ACTION, vpc))
        })
    }

    /// The IPv4 ranges of a VPC; none if it does not exist.
    pub(super) fn ranges_of(&self, vpc: &str) -> Vec<String> {
        let vpc = self.vpcs.get(vpc);
        vpc.map_or_else(Vec::new, |resource| self.view_vpc(resource).cidr_blocks)
    }

    fn view_vpc(&self, resource: &Resource<Body>) -> Vpc {
        let mut vpc = Vpc { state: self.network_state(resource), ..resource.body.vpc.clone() };
        for (range, at) in &resource.body.added {
            let is_associated = self.now() >= *at + self.behaviour.network_pending;
            let ranges = if is_associated { &mut vpc.cidr_blocks } else { &mut vpc.associating_cidr_blocks };
            ranges.push(range.clone());
        }
        vpc
    }
}

/// What tests see and change by hand.
impl Ec2 {
    pub(crate) fn all_vpcs(&self) -> Vec<Vpc> {
        self.vpcs.values().map(|resource| self.view_vpc(resource)).collect()
    }

    pub(crate) fn dns_of(&self, vpc: &str) -> Option<VpcDns> {
        self.vpcs.get(vpc).map(|resource| resource.body.dns)
    }

    pub(crate) fn add_vpc(&mut self, cidr_block: &str, tags: Tags) -> String {
        let id = self.next_id("vpc");
        self.put_vpc(&id, cidr_block, tags);
        id
    }

    /// Adds a VPC with an id of the caller's choice.
    pub(crate) fn put_vpc(&mut self, id: &str, cidr_block: &str, tags: Tags) {
        let body = Body::new(id.to_owned(), cidr_block.to_owned(), tags);
        self.insert_vpc(id, Resource::by_hand(body));
    }

    /// The VPC, for a change by hand.
    pub(crate) fn vpc_mut(&mut self, id: &str) -> Option<&mut Vpc> {
        self.vpcs.get_mut(id).map(|resource| &mut resource.body.vpc)
    }

    /// The DNS attributes of a VPC, for a change by hand.
    pub(crate) fn dns_mut(&mut self, vpc: &str) -> Option<&mut VpcDns> {
        self.vpcs.get_mut(vpc).map(|resource| &mut resource.body.dns)
    }

    /// Removes a VPC with its subnets, NAT gateways, route tables, security groups and interfaces, and detaches its
    /// internet gateway.
    pub(crate) fn remove_vpc(&mut self, id: &str) -> bool {
        self.forget_nat_gateways(|gateway| gateway.vpc_id == id);
        self.remove_route_tables_of(id);
        self.remove_security_groups_of(id);
        self.remove_interfaces_of(id);
        self.subnets.retain(|_, subnet| subnet.body.vpc_id != id);
        for gateway in self.internet_gateways.values_mut() {
            gateway.body.vpc_id.take_if(|vpc| vpc == id);
        }
        self.vpcs.remove(id).is_some()
    }
}

fn unknown(action: &'static str, id: &str) -> CloudError {
    let message = format!("The vpc ID '{id}' does not exist");
    CloudError::answered(action, "InvalidVpcID.NotFound", &message)
}
