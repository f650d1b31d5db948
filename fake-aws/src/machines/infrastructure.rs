//! VPCs, subnets, security groups, route tables, images with the parameters that name them, and key pairs, which tests
//! create and describe calls return.

use std::collections::{BTreeMap, BTreeSet};

use capa_cloud::ec2::{NetworkInterface, RouteTable, SecurityGroup, Subnet, Vpc};
use capa_cloud::{CloudError, Image, InstanceType, Query};

use super::filters::{Tags, select};

/// An image with what lookups look for and [`Image`] does not have.
#[derive(Clone, Debug)]
pub struct PublishedImage {
    /// The name.
    pub name: String,
    /// Id of the account that owns the image.
    pub owner: String,
    /// The rest.
    pub image: Image,
}

/// The infrastructure of a region, by id.
#[derive(Clone, Debug, Default)]
pub(super) struct Infrastructure {
    vpcs: BTreeMap<String, Vpc>,
    subnets: BTreeMap<String, Subnet>,
    security_groups: BTreeMap<String, SecurityGroup>,
    route_tables: BTreeMap<String, RouteTable>,
    network_interfaces: BTreeMap<String, NetworkInterface>,
    images: BTreeMap<String, PublishedImage>,
    public_parameters: BTreeMap<String, String>,
    instance_types: BTreeMap<String, InstanceType>,
    key_pairs: BTreeSet<String>,
    tags: BTreeMap<String, Tags>,
}

/// The tags of an untagged resource.
static NO_TAGS: Tags = Tags::new();

impl Infrastructure {
    pub(super) fn add_vpc(&mut self, id: &str, cidr_block: &str) {
        let vpc = Vpc { id: id.to_owned(), cidr_blocks: vec![cidr_block.to_owned()], ..Vpc::default() };
        self.vpcs.insert(id.to_owned(), vpc);
        self.add_route_table(RouteTable {
            id: format!("rtb-main-{id}"),
            vpc_id: id.to_owned(),
            is_main: true,
            ..RouteTable::default()
        });
    }

    pub(super) fn add_subnet(&mut self, subnet: Subnet) {
        self.subnets.insert(subnet.id.clone(), subnet);
    }

    pub(super) fn add_security_group(&mut self, id: &str, vpc_id: &str, name: &str) {
        let group = SecurityGroup {
            id: id.to_owned(),
            vpc_id: vpc_id.to_owned(),
            name: name.to_owned(),
            ..SecurityGroup::default()
        };
        self.security_groups.insert(id.to_owned(), group);
    }

    pub(super) fn add_route_table(&mut self, table: RouteTable) {
        self.route_tables.insert(table.id.clone(), table);
    }

    pub(super) fn add_network_interface(&mut self, interface: NetworkInterface) {
        self.network_interfaces.insert(interface.id.clone(), interface);
    }

    pub(super) fn add_image(&mut self, image: PublishedImage) {
        self.images.insert(image.image.id.clone(), image);
    }

    pub(super) fn add_public_parameter(&mut self, name: &str, value: &str) {
        self.public_parameters.insert(name.to_owned(), value.to_owned());
    }

    pub(super) fn public_parameter(&self, name: &str) -> Option<String> {
        self.public_parameters.get(name).cloned()
    }

    pub(super) fn add_instance_type(&mut self, instance_type: InstanceType) {
        self.instance_types.insert(instance_type.name.clone(), instance_type);
    }

    pub(super) fn instance_type(&self, name: &str) -> Option<InstanceType> {
        self.instance_types.get(name).cloned()
    }

    pub(super) fn add_key_pair(&mut self, name: &str) {
        self.key_pairs.insert(name.to_owned());
    }

    pub(super) fn set_tag(&mut self, id: &str, key: &str, value: &str) {
        let tags = self.tags.entry(id.to_owned()).or_default();
        tags.insert(key.to_owned(), value.to_owned());
        if let Some(vpc) = self.vpcs.get_mut(id) {
            vpc.tags.clone_from(tags);
        }
        if let Some(subnet) = self.subnets.get_mut(id) {
            subnet.tags.clone_from(tags);
        }
        if let Some(group) = self.security_groups.get_mut(id) {
            group.tags.clone_from(tags);
        }
    }

    pub(super) fn remove(&mut self, id: &str) {
        self.vpcs.remove(id);
        self.subnets.remove(id);
        self.security_groups.remove(id);
        self.route_tables.remove(id);
        self.network_interfaces.remove(id);
        self.images.remove(id);
        self.key_pairs.remove(id);
        self.tags.remove(id);
    }

    pub(super) fn subnet(&self, id: &str) -> Option<&Subnet> {
        self.subnets.get(id)
    }

    pub(super) fn security_group(&self, id: &str) -> Option<&SecurityGroup> {
        self.security_groups.get(id)
    }

    pub(super) fn network_interface(&self, id: &str) -> Option<&NetworkInterface> {
        self.network_interfaces.get(id)
    }

    pub(super) fn has_image(&self, id: &str) -> bool {
        self.images.contains_key(id)
    }

    pub(super) fn has_key_pair(&self, name: &str) -> bool {
        self.key_pairs.contains(name)
    }

    pub(super) fn describe_vpcs(&self, query: &Query) -> Result<Vec<Vpc>, CloudError> {
        let things = self.tagged(&self.vpcs);
        select("DescribeVpcs", query, &["vpc-id", "cidr"], things, |vpc, filter| match filter {
            "vpc-id" => vec![vpc.id.clone()],
            _ => vpc.cidr_blocks.iter().take(1).cloned().collect(),
        })
        .map(cloned)
    }

    pub(super) fn describe_subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        let known = ["subnet-id", "vpc-id", "availability-zone"];
        let things = self.tagged(&self.subnets);
        select("DescribeSubnets", query, &known, things, |subnet, filter| match filter {
            "subnet-id" => vec![subnet.id.clone()],
            "vpc-id" => vec![subnet.vpc_id.clone()],
            _ => vec![subnet.zone.clone()],
        })
        .map(cloned)
    }

    pub(super) fn describe_security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        let known = ["group-id", "group-name", "vpc-id"];
        let things = self.tagged(&self.security_groups);
        select("DescribeSecurityGroups", query, &known, things, |group, filter| match filter {
            "group-id" => vec![group.id.clone()],
            "group-name" => vec![group.name.clone()],
            _ => vec![group.vpc_id.clone()],
        })
        .map(cloned)
    }

    pub(super) fn describe_route_tables(&self, query: &Query) -> Result<Vec<RouteTable>, CloudError> {
        let known = ["route-table-id", "vpc-id", "association.main", "association.subnet-id"];
        let things = self.tagged(&self.route_tables);
        select("DescribeRouteTables", query, &known, things, |table, filter| match filter {
            "route-table-id" => vec![table.id.clone()],
            "vpc-id" => vec![table.vpc_id.clone()],
            "association.main" => vec![table.is_main.to_string()],
            _ => table.associations.iter().map(|association| association.subnet_id.clone()).collect(),
        })
        .map(cloned)
    }

    pub(super) fn describe_network_interfaces(&self, query: &Query) -> Result<Vec<NetworkInterface>, CloudError> {
        let known = ["network-interface-id", "subnet-id"];
        let things = self.tagged(&self.network_interfaces);
        select("DescribeNetworkInterfaces", query, &known, things, |interface, filter| match filter {
            "network-interface-id" => vec![interface.id.clone()],
            _ => vec![interface.subnet_id.clone()],
        })
        .map(cloned)
    }

    pub(super) fn describe_images(&self, query: &Query) -> Result<Vec<Image>, CloudError> {
        let things = self.tagged(&self.images);
        let known =
            ["architecture", "image-id", "name", "owner-id", "root-device-name", "state", "virtualization-type"];
        let found = select("DescribeImages", query, &known, things, |published, filter| {
            let image = &published.image;
            match filter {
                "architecture" => image.architecture.iter().cloned().collect(),
                "image-id" => vec![image.id.clone()],
                "name" => vec![published.name.clone()],
                "owner-id" => vec![published.owner.clone()],
                "state" => vec!["available".to_owned()],
                "virtualization-type" => vec!["hvm".to_owned()],
                _ => image.root_device_name.iter().cloned().collect(),
            }
        })?;
        Ok(found.into_iter().map(|published| published.image.clone()).collect())
    }

    fn tagged<'a, T>(&'a self, things: &'a BTreeMap<String, T>) -> impl Iterator<Item = (&'a T, &'a Tags)> {
        things.iter().map(|(id, thing)| (thing, self.tags.get(id).unwrap_or(&NO_TAGS)))
    }
}

fn cloned<T: Clone>(things: Vec<&T>) -> Vec<T> {
    things.into_iter().cloned().collect()
}
