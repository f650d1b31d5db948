//! Facts about regions, zones, VPCs and subnets.

use aws_sdk_ec2::types;
use capa_cloud::{CloudError, Query};
use capa_preflight::facts::{DhcpOptions, Region, Subnet, Vpc, VpcDns, Zone};

use super::super::{Ec2Calls, PAGE_SIZE, filters, tags, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The region with this name; none where AWS has no such region. Regions that the account has not enabled are among
    /// the answers.
    pub(crate) async fn region_facts(&self, name: &str) -> Result<Vec<Region>, CloudError> {
        let query = &Query::filter("region-name", [name]);
        self.runner
            .describe("DescribeRegions", query, |permit, _| async move {
                let request = self
                    .client
                    .describe_regions()
                    .all_regions(true)
                    .set_filters(filters(query));
                let answer = self.runner.call(permit, request.send()).await?;
                let regions = answer.regions().iter().map(|region| Region {
                    name: text(region.region_name()),
                    opt_in_status: text(region.opt_in_status()),
                });
                Ok(Page::only(regions))
            })
            .await
    }

    /// All zones of the region that the account can use.
    pub(crate) async fn zone_facts(&self) -> Result<Vec<Zone>, CloudError> {
        self.zones_as(&Query::default(), zone).await
    }

    /// The VPC with this id; `None` where it does not exist.
    pub(crate) async fn vpc_facts(&self, id: &str) -> Result<Option<Vpc>, CloudError> {
        let vpcs = self.vpcs_as(&Query::filter("vpc-id", [id]), vpc).await?;
        Ok(vpcs.into_iter().find(|vpc| vpc.id == id))
    }

    /// The DNS settings of a VPC: two calls, because each call answers one attribute.
    pub(crate) async fn vpc_dns_facts(&self, id: &str) -> Result<VpcDns, CloudError> {
        use types::VpcAttributeName::{EnableDnsHostnames, EnableDnsSupport};
        Ok(VpcDns {
            support: self.vpc_attribute(id, EnableDnsSupport).await?,
            hostnames: self.vpc_attribute(id, EnableDnsHostnames).await?,
        })
    }

    /// The DHCP options with this id; `None` where they do not exist.
    pub(crate) async fn dhcp_options_facts(&self, id: &str) -> Result<Option<DhcpOptions>, CloudError> {
        let query = &Query::filter("dhcp-options-id", [id]);
        let options = self
            .runner
            .describe("DescribeDhcpOptions", query, |permit, token| async move {
                let request = self
                    .client
                    .describe_dhcp_options()
                    .set_filters(filters(query))
                    .max_results(PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
                Ok(Page {
                    items: answer.dhcp_options().iter().map(dhcp_options).collect(),
                    next: answer.next_token,
                })
            });
        Ok(options.await?.into_iter().find(|options| options.id == id))
    }

    /// Subnets.
    pub(crate) async fn subnet_facts(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        self.subnets_as(query, subnet).await
    }
}

fn zone(zone: &types::AvailabilityZone) -> Zone {
    Zone {
        name: text(zone.zone_name()),
        zone_type: text(zone.zone_type()),
        state: text(zone.state().map(types::AvailabilityZoneState::as_str)),
    }
}

fn vpc(vpc: &types::Vpc) -> Vpc {
    let blocks = vpc.cidr_block_association_set().iter().filter(|block| {
        let state = block.cidr_block_state().and_then(types::VpcCidrBlockState::state);
        state == Some(&types::VpcCidrBlockStateCode::Associated)
    });
    let ipv6_blocks = vpc.ipv6_cidr_block_association_set().iter().filter(|block| {
        let state = block.ipv6_cidr_block_state().and_then(types::VpcCidrBlockState::state);
        state == Some(&types::VpcCidrBlockStateCode::Associated)
    });
    Vpc {
        id: text(vpc.vpc_id()),
        state: text(vpc.state().map(types::VpcState::as_str)),
        owner_id: text(vpc.owner_id()),
        cidr_blocks: blocks.map(|block| text(block.cidr_block())).collect(),
        ipv6_cidr_blocks: ipv6_blocks.map(|block| text(block.ipv6_cidr_block())).collect(),
        tenancy: text(vpc.instance_tenancy().map(types::Tenancy::as_str)),
        dhcp_options_id: text(vpc.dhcp_options_id()),
    }
}

fn dhcp_options(options: &types::DhcpOptions) -> DhcpOptions {
    let values = |key: &str| {
        let configurations = options.dhcp_configurations().iter();
        let values = configurations
            .filter(|of| of.key() == Some(key))
            .flat_map(types::DhcpConfiguration::values);
        values.map(|value| text(value.value())).collect()
    };
    DhcpOptions {
        id: text(options.dhcp_options_id()),
        domain_names: values("domain-name"),
        domain_name_servers: values("domain-name-servers"),
    }
}

fn subnet(subnet: &types::Subnet) -> Subnet {
    let ipv6_blocks = subnet.ipv6_cidr_block_association_set().iter().filter(|block| {
        let state = block
            .ipv6_cidr_block_state()
            .and_then(types::SubnetCidrBlockState::state);
        state == Some(&types::SubnetCidrBlockStateCode::Associated)
    });
    Subnet {
        id: text(subnet.subnet_id()),
        vpc_id: text(subnet.vpc_id()),
        state: text(subnet.state().map(types::SubnetState::as_str)),
        zone: text(subnet.availability_zone()),
        cidr_block: text(subnet.cidr_block()),
        ipv6_cidr_blocks: ipv6_blocks.map(|block| text(block.ipv6_cidr_block())).collect(),
        assigns_ipv6: subnet.assign_ipv6_address_on_creation() == Some(true),
        assigns_public_ip: subnet.map_public_ip_on_launch() == Some(true),
        free_addresses: subnet.available_ip_address_count().unwrap_or_default(),
        outpost_arn: super::super::some_text(subnet.outpost_arn()),
        tags: tags(subnet.tags()),
    }
}
