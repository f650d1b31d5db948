//! Subnets.

use capa_api::common::{HostnameType, Tags};
use capa_cloud::ec2::Subnet;
use capa_cloud::ec2::subnet::{Attribute, Call};
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::{CloudError, Query};
use ipnet::Ipv4Net;

use super::{Ec2, Resource, cloned, is_allowed_size, parsed_range};
use crate::filters::select;

impl Ec2 {
    pub(super) fn call_subnet(
        &mut self,
        action: &'static str,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::CreateSubnet { vpc, cidr_block, zone, tags } => {
                let range = self.free_range(action, vpc, cidr_block, zone)?.to_string();
                let id = self.next_id("subnet");
                let resource = self.new_resource(new_subnet(&id, vpc, &range, zone, tags.clone()));
                self.subnets.insert(id.clone(), resource);
                Ok(ChangeAnswer::Made(id))
            }
            Call::ModifySubnetAttribute { subnet, attribute } => {
                self.known_subnet(action, subnet)?;
                self.set_subnet_attribute(subnet, *attribute);
                Ok(ChangeAnswer::Done)
            }
            Call::DeleteSubnet { subnet } => {
                self.known_subnet(action, subnet)?;
                let has_interfaces = self.has_interface(|interface| interface.subnet_id == *subnet);
                if has_interfaces || self.has_nat_gateway(|gateway| gateway.subnet_id == *subnet) {
                    let message = format!("The subnet '{subnet}' has dependencies and cannot be deleted.");
                    return Err(CloudError::answered(action, "DependencyViolation", &message));
                }
                self.disassociate_subnet(subnet);
                self.subnets.remove(subnet);
                Ok(ChangeAnswer::Done)
            }
        }
    }

    /// The range of a new subnet, if all that the call says is allowed.
    fn free_range(&self, action: &'static str, vpc: &str, cidr_block: &str, zone: &str) -> Result<Ipv4Net, CloudError> {
        let range = parsed_range(action, cidr_block)?;
        let vpc = self.known_vpc(action, vpc)?;
        if !self.behaviour.zones.iter().any(|known| known == zone) {
            let zones = self.behaviour.zones.join(", ");
            let message = format!(
                "Value ({zone}) for parameter availabilityZone is invalid. Subnets can currently only be created in \
                 the following availability zones: {zones}."
            );
            return Err(CloudError::answered(action, "InvalidParameterValue", &message));
        }
        let blocks = self.ranges_of(&vpc.id);
        if !is_allowed_size(range) || !ranges(blocks.iter()).any(|block| block.contains(&range)) {
            let message = format!("The CIDR '{cidr_block}' is invalid.");
            return Err(CloudError::answered(action, "InvalidSubnet.Range", &message));
        }
        let subnets = self.subnets.values().map(|other| &other.body);
        let others = subnets.filter(|other| other.vpc_id == vpc.id);
        if ranges(others.map(|other| &other.cidr_block)).any(|other| overlap(other, range)) {
            let message = format!("The CIDR '{cidr_block}' conflicts with another subnet");
            return Err(CloudError::answered(action, "InvalidSubnet.Conflict", &message));
        }
        Ok(range)
    }

    /// The subnet that a call names.
    pub(crate) fn known_subnet(&self, action: &'static str, id: &str) -> Result<&Subnet, CloudError> {
        let known = self.subnets.get(id).filter(|resource| self.is_shown(resource));
        known.map(|resource| &resource.body).ok_or_else(|| {
            let message = format!("The subnet ID '{id}' does not exist");
            CloudError::answered(action, "InvalidSubnetID.NotFound", &message)
        })
    }

    pub(super) fn shown_subnets(&self, selects: impl Fn(&Subnet) -> bool) -> Vec<Subnet> {
        let shown = self.subnets.values().filter(|resource| self.is_shown(resource));
        let views = shown.map(|resource| Subnet {
            tags: self.shown_tags(resource, &resource.body.tags),
            ..self.view_subnet(resource)
        });
        views.filter(selects).collect()
    }

    /// DescribeSubnets, all pages.
    pub(crate) fn describe_subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        let known = ["subnet-id", "vpc-id", "availability-zone"];
        let shown = self.shown_subnets(|_| true);
        let things = shown.iter().map(|subnet| (subnet, &subnet.tags));
        select("DescribeSubnets", query, &known, things, |subnet, filter| match filter {
            "subnet-id" => vec![subnet.id.clone()],
            "vpc-id" => vec![subnet.vpc_id.clone()],
            _ => vec![subnet.zone.clone()],
        })
        .map(cloned)
    }

    fn view_subnet(&self, resource: &Resource<Subnet>) -> Subnet {
        Subnet { state: self.network_state(resource), ..resource.body.clone() }
    }
}

/// What tests see and change by hand.
impl Ec2 {
    pub(crate) fn all_subnets(&self) -> Vec<Subnet> {
        let resources = self.subnets.values();
        resources.map(|resource| self.view_subnet(resource)).collect()
    }

    pub(crate) fn add_subnet(&mut self, vpc: &str, cidr_block: &str, zone: &str, tags: Tags) -> String {
        let id = self.next_id("subnet");
        self.put_subnet(&id, vpc, cidr_block, zone, tags);
        id
    }

    /// Adds a subnet with an id of the caller's choice.
    pub(crate) fn put_subnet(&mut self, id: &str, vpc: &str, cidr_block: &str, zone: &str, tags: Tags) {
        let body = new_subnet(id, vpc, cidr_block, zone, tags);
        self.subnets.insert(id.to_owned(), Resource::by_hand(body));
    }

    /// The subnet, for a change by hand.
    pub(crate) fn subnet_mut(&mut self, id: &str) -> Option<&mut Subnet> {
        self.subnets.get_mut(id).map(|resource| &mut resource.body)
    }

    pub(crate) fn set_subnet_attribute(&mut self, id: &str, attribute: Attribute) -> bool {
        let Some(subnet) = self.subnet_mut(id) else {
            return false;
        };
        match attribute {
            Attribute::MapPublicIpOnLaunch(maps) => subnet.assigns_public_ip = maps,
            Attribute::HostnameType(form) => subnet.hostname_type = Some(form),
        }
        true
    }

    /// Removes a subnet with its NAT gateways, as if these had been deleted long ago.
    pub(crate) fn remove_subnet(&mut self, id: &str) -> bool {
        self.forget_nat_gateways(|gateway| gateway.subnet_id == id);
        self.disassociate_subnet(id);
        self.subnets.remove(id).is_some()
    }
}

/// A subnet with the attributes that EC2 gives to a new one.
fn new_subnet(id: &str, vpc: &str, cidr_block: &str, zone: &str, tags: Tags) -> Subnet {
    Subnet {
        id: id.to_owned(),
        vpc_id: vpc.to_owned(),
        cidr_block: cidr_block.to_owned(),
        zone: zone.to_owned(),
        hostname_type: Some(HostnameType::IpName),
        tags,
        ..Subnet::default()
    }
}

fn ranges<'t>(texts: impl Iterator<Item = &'t String>) -> impl Iterator<Item = Ipv4Net> {
    texts.filter_map(|text| text.parse().ok())
}

pub(super) fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}
