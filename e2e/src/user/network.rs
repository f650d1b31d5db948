//! A network that a user provides: a VPC with public and private subnets, its routes and two security groups.

use anyhow::Context;
use aws_sdk_ec2::types::{
    AttributeBooleanValue, DomainType, IpPermission, IpRange, ResourceType, Tag, TagSpecification, UserIdGroupPair,
};

use super::User;

const CIDR_BLOCK: &str = "10.0.0.0/16";

/// The plan of a network.
#[derive(Clone, Debug)]
pub struct NetworkPlan {
    /// The name in the `Name` tag of every resource.
    pub name: String,
    /// Zones by name, e.g. `eu-west-1a`; each gets a public and a private subnet. At most 100.
    pub zones: Vec<String>,
    /// Whether each private subnet has room for 4,091 instances instead of 251. Then there are at most 15 zones.
    pub is_large: bool,
}

/// The created network.
#[derive(Clone, Debug)]
pub struct Network {
    /// The VPC, 10.0.0.0/16.
    pub vpc_id: String,
    /// The zones in the order of the plan.
    pub zones: Vec<Zone>,
    /// The security group of nodes: allows all traffic among them and from the control plane.
    pub node_security_group_id: String,
    /// The security group of the control plane: allows port 6443 from the VPC.
    pub control_plane_security_group_id: String,
    /// The internet gateway.
    pub internet_gateway_id: String,
    /// The NAT gateway, in the public subnet of the first zone.
    pub nat_gateway_id: String,
    /// The route table of the private subnets.
    pub private_route_table_id: String,
}

/// The subnets of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The zone's name.
    pub name: String,
    /// The public subnet, whose default route is the internet gateway.
    pub public_subnet_id: String,
    /// The private subnet, whose default route leads to a NAT gateway in the first zone.
    pub private_subnet_id: String,
}

impl NetworkPlan {
    /// A network in the first `zones` zones of a region.
    pub fn new(name: &str, region: &str, zones: u8) -> Self {
        let zones = ('a'..='z').take(zones.into()).map(|letter| format!("{region}{letter}")).collect();
        Self { name: name.to_owned(), zones, is_large: false }
    }

    /// The ranges of the public and of the private subnet of the zone with this index.
    fn ranges(&self, index: usize) -> [String; 2] {
        let private = if self.is_large {
            format!("10.0.{}.0/20", 16 * (index + 1))
        } else {
            format!("10.0.{}.0/24", 100 + index)
        };
        [format!("10.0.{index}.0/24"), private]
    }
}

impl Network {
    /// The ids of the private subnets.
    pub fn private_subnet_ids(&self) -> Vec<&str> {
        self.zones.iter().map(|zone| zone.private_subnet_id.as_str()).collect()
    }

    /// The ids of the public subnets.
    pub fn public_subnet_ids(&self) -> Vec<&str> {
        self.zones.iter().map(|zone| zone.public_subnet_id.as_str()).collect()
    }
}

impl User {
    /// Creates a network.
    pub async fn create_network(&self, plan: &NetworkPlan) -> anyhow::Result<Network> {
        let network = self.create_incomplete_network(plan).await?;
        self.complete_network(&network).await?;
        Ok(network)
    }

    /// Creates a network with three usual mistakes: instances get no DNS names, private subnets have no default route,
    /// and the security group of the control plane admits nobody to the API server.
    pub async fn create_incomplete_network(&self, plan: &NetworkPlan) -> anyhow::Result<Network> {
        let name = &plan.name;
        let vpc_id = self.create_vpc(name).await?;
        let internet_gateway_id = self.create_internet_gateway(name, &vpc_id).await?;
        let public_routes = self.create_route_table(&vpc_id, &format!("{name}-public")).await?;
        self.route_to_internet(&public_routes, &internet_gateway_id).await?;
        let private_routes = self.create_route_table(&vpc_id, &format!("{name}-private")).await?;
        let mut zones = Vec::new();
        for (index, zone) in plan.zones.iter().enumerate() {
            let mut subnets = Vec::new();
            let [public, private] = plan.ranges(index);
            for (kind, range, routes) in [("public", public, &public_routes), ("private", private, &private_routes)] {
                let subnet_name = format!("{name}-{kind}-{zone}");
                let subnet = self.create_subnet(&vpc_id, &subnet_name, zone, &range).await?;
                self.associate_route_table(routes, &subnet).await?;
                subnets.push(subnet);
            }
            if let [public, private] = subnets.as_slice() {
                let (public_subnet_id, private_subnet_id) = (public.clone(), private.clone());
                zones.push(Zone { name: zone.clone(), public_subnet_id, private_subnet_id });
            }
        }
        let first = zones.first().context("a network needs a zone")?;
        let nat_gateway_id = self.create_nat_gateway(name, &first.public_subnet_id).await?;
        let control_plane = self.create_security_group(&vpc_id, &format!("{name}-control-plane")).await?;
        let node = self.create_security_group(&vpc_id, &format!("{name}-node")).await?;
        for source in [&node, &control_plane] {
            self.allow_from_group(&node, source).await?;
        }
        Ok(Network {
            vpc_id,
            zones,
            node_security_group_id: node,
            control_plane_security_group_id: control_plane,
            internet_gateway_id,
            nat_gateway_id,
            private_route_table_id: private_routes,
        })
    }

    /// Corrects the mistakes of an incomplete network.
    pub async fn complete_network(&self, network: &Network) -> anyhow::Result<()> {
        self.give_dns_names(&network.vpc_id).await?;
        self.route_to_nat_gateway(&network.private_route_table_id, &network.nat_gateway_id).await?;
        self.allow_from_vpc(&network.control_plane_security_group_id, 6443).await
    }

    async fn give_dns_names(&self, vpc: &str) -> anyhow::Result<()> {
        self.announce(&format!("modify-vpc-attribute --vpc-id {vpc} --enable-dns-hostnames"));
        let hostnames = AttributeBooleanValue::builder().value(true).build();
        let modify = self.ec2.modify_vpc_attribute().vpc_id(vpc).enable_dns_hostnames(hostnames);
        modify.send().await.with_context(|| format!("giving DNS names to instances of {vpc}"))?;
        Ok(())
    }

    async fn create_vpc(&self, name: &str) -> anyhow::Result<String> {
        let tags = self.announce_tagged(&format!("create-vpc --cidr-block {CIDR_BLOCK}"), &ResourceType::Vpc, name);
        let created = self.ec2.create_vpc().cidr_block(CIDR_BLOCK).tag_specifications(tags).send().await;
        let vpc = created.context("creating a VPC")?.vpc;
        vpc.and_then(|vpc| vpc.vpc_id).context("no id of the VPC")
    }

    async fn create_internet_gateway(&self, name: &str, vpc: &str) -> anyhow::Result<String> {
        let tags = self.announce_tagged("create-internet-gateway", &ResourceType::InternetGateway, name);
        let created = self.ec2.create_internet_gateway().tag_specifications(tags).send().await;
        let created = created.context("creating an internet gateway")?.internet_gateway;
        let gateway = created.and_then(|gateway| gateway.internet_gateway_id).context("no id of the gateway")?;
        self.announce(&format!("attach-internet-gateway --internet-gateway-id {gateway} --vpc-id {vpc}"));
        let attach = self.ec2.attach_internet_gateway().internet_gateway_id(&gateway).vpc_id(vpc);
        attach.send().await.with_context(|| format!("attaching {gateway} to {vpc}"))?;
        Ok(gateway)
    }

    async fn create_route_table(&self, vpc: &str, name: &str) -> anyhow::Result<String> {
        let command = format!("create-route-table --vpc-id {vpc}");
        let tags = self.announce_tagged(&command, &ResourceType::RouteTable, name);
        let created = self.ec2.create_route_table().vpc_id(vpc).tag_specifications(tags).send().await;
        let table = created.with_context(|| format!("creating the route table {name}"))?.route_table;
        table.and_then(|table| table.route_table_id).context("no id of the route table")
    }

    async fn route_to_internet(&self, table: &str, gateway: &str) -> anyhow::Result<()> {
        self.announce(&format!(
            "create-route --route-table-id {table} --destination-cidr-block 0.0.0.0/0 --gateway-id {gateway}"
        ));
        let create = self.ec2.create_route().route_table_id(table).destination_cidr_block("0.0.0.0/0");
        create.gateway_id(gateway).send().await.with_context(|| format!("adding a route to {table}"))?;
        Ok(())
    }

    async fn create_subnet(&self, vpc: &str, name: &str, zone: &str, cidr_block: &str) -> anyhow::Result<String> {
        let command = format!("create-subnet --vpc-id {vpc} --cidr-block {cidr_block} --availability-zone {zone}");
        let tags = self.announce_tagged(&command, &ResourceType::Subnet, name);
        let create = self.ec2.create_subnet().vpc_id(vpc).cidr_block(cidr_block).availability_zone(zone);
        let created = create.tag_specifications(tags).send().await;
        let subnet = created.with_context(|| format!("creating the subnet {name}"))?.subnet;
        subnet.and_then(|subnet| subnet.subnet_id).context("no id of the subnet")
    }

    async fn associate_route_table(&self, table: &str, subnet: &str) -> anyhow::Result<()> {
        self.announce(&format!("associate-route-table --route-table-id {table} --subnet-id {subnet}"));
        let associate = self.ec2.associate_route_table().route_table_id(table).subnet_id(subnet);
        associate.send().await.with_context(|| format!("associating {table} with {subnet}"))?;
        Ok(())
    }

    async fn create_nat_gateway(&self, name: &str, subnet: &str) -> anyhow::Result<String> {
        let tags = self.announce_tagged("allocate-address --domain vpc", &ResourceType::ElasticIp, name);
        let address = self.ec2.allocate_address().domain(DomainType::Vpc).tag_specifications(tags).send().await;
        let allocation = address.context("allocating an address")?.allocation_id.context("no id of the address")?;
        let command = format!("create-nat-gateway --subnet-id {subnet} --allocation-id {allocation}");
        let tags = self.announce_tagged(&command, &ResourceType::Natgateway, name);
        let create = self.ec2.create_nat_gateway().subnet_id(subnet).allocation_id(allocation);
        let created = create.tag_specifications(tags).send().await.context("creating a NAT gateway")?.nat_gateway;
        created.and_then(|gateway| gateway.nat_gateway_id).context("no id of the NAT gateway")
    }

    async fn route_to_nat_gateway(&self, routes: &str, gateway: &str) -> anyhow::Result<()> {
        self.announce(&format!(
            "create-route --route-table-id {routes} --destination-cidr-block 0.0.0.0/0 --nat-gateway-id {gateway}"
        ));
        let route = self.ec2.create_route().route_table_id(routes).destination_cidr_block("0.0.0.0/0");
        route.nat_gateway_id(gateway).send().await.with_context(|| format!("adding a route to {routes}"))?;
        Ok(())
    }

    async fn create_security_group(&self, vpc: &str, name: &str) -> anyhow::Result<String> {
        let command = format!("create-security-group --vpc-id {vpc} --group-name {name} --description {name}");
        let tags = self.announce_tagged(&command, &ResourceType::SecurityGroup, name);
        let create = self.ec2.create_security_group().vpc_id(vpc).group_name(name).description(name);
        let created = create.tag_specifications(tags).send().await;
        created.with_context(|| format!("creating the security group {name}"))?.group_id.context("no id of the group")
    }

    async fn allow_from_vpc(&self, group: &str, port: u16) -> anyhow::Result<()> {
        self.announce(&format!(
            "authorize-security-group-ingress --group-id {group} --protocol tcp --port {port} --cidr {CIDR_BLOCK}"
        ));
        let ports = IpPermission::builder().ip_protocol("tcp").from_port(port.into()).to_port(port.into());
        self.authorize(group, ports.ip_ranges(IpRange::builder().cidr_ip(CIDR_BLOCK).build()).build()).await
    }

    async fn allow_from_group(&self, group: &str, source: &str) -> anyhow::Result<()> {
        self.announce(&format!(
            "authorize-security-group-ingress --group-id {group} --protocol=-1 --source-group {source}"
        ));
        let pair = UserIdGroupPair::builder().group_id(source).build();
        self.authorize(group, IpPermission::builder().ip_protocol("-1").user_id_group_pairs(pair).build()).await
    }

    async fn authorize(&self, group: &str, permission: IpPermission) -> anyhow::Result<()> {
        let authorize = self.ec2.authorize_security_group_ingress().group_id(group).ip_permissions(permission);
        authorize.send().await.with_context(|| format!("adding a rule to {group}"))?;
        Ok(())
    }

    /// Announces a creation with its `Name` tag, and returns the tag for the call.
    fn announce_tagged(&self, command: &str, resource_type: &ResourceType, name: &str) -> TagSpecification {
        let resource = resource_type.as_str();
        self.announce(&format!(
            "{command} --tag-specifications 'ResourceType={resource},Tags=[{{Key=Name,Value={name}}}]'"
        ));
        let tag = Tag::builder().key("Name").value(name).build();
        TagSpecification::builder().resource_type(resource_type.clone()).tags(tag).build()
    }
}
