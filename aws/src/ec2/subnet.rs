//! Subnets.

use aws_sdk_ec2::types::{self, AttributeBooleanValue, ResourceType};
use capa_api::common::HostnameType;
use capa_cloud::ec2::Subnet;
use capa_cloud::ec2::subnet::{Attribute, Call};
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, Query};

use super::managed::{made, tag_specification};
use super::{Ec2Calls, PAGE_SIZE, filters, some_text, tags, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    pub(crate) async fn subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        self.runner
            .describe("DescribeSubnets", query, |permit, token| async move {
                let request = self.client.describe_subnets().set_filters(filters(query)).max_results(PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
                Ok(Page { items: answer.subnets().iter().map(subnet).collect(), next: answer.next_token })
            })
            .await
    }

    /// The subnets of a VPC.
    pub(super) async fn subnets_in(&self, vpc: &str) -> Result<Vec<Subnet>, CloudError> {
        let mut shown = self.subnets(&Query::filter("vpc-id", [vpc])).await?;
        shown.retain(|subnet| subnet.vpc_id == vpc);
        Ok(shown)
    }

    pub(super) async fn subnet_call(&self, permit: Permit, call: &Call<String>) -> Result<ChangeAnswer, CloudError> {
        let action = permit.action;
        match call {
            Call::CreateSubnet { vpc, cidr_block, zone, tags } => {
                let request = self.client.create_subnet().vpc_id(vpc).cidr_block(cidr_block);
                let request =
                    request.availability_zone(zone).tag_specifications(tag_specification(ResourceType::Subnet, tags));
                let answer = self.runner.call(permit, request.send()).await?;
                return made(action, answer.subnet().and_then(types::Subnet::subnet_id));
            }
            Call::ModifySubnetAttribute { subnet, attribute } => {
                let request = self.client.modify_subnet_attribute().subnet_id(subnet);
                let request = match attribute {
                    Attribute::MapPublicIpOnLaunch(value) => {
                        request.map_public_ip_on_launch(AttributeBooleanValue::builder().value(*value).build())
                    }
                    Attribute::HostnameType(form) => {
                        request.private_dns_hostname_type_on_launch(<&str>::from(*form).into())
                    }
                };
                self.runner.call(permit, request.send()).await?;
            }
            Call::DeleteSubnet { subnet } => {
                let request = self.client.delete_subnet().subnet_id(subnet);
                self.runner.call(permit, request.send()).await?;
            }
        }
        Ok(ChangeAnswer::Done)
    }
}

fn subnet(subnet: &types::Subnet) -> Subnet {
    let ipv6_blocks = subnet.ipv6_cidr_block_association_set().iter().filter(|block| {
        let state = block.ipv6_cidr_block_state().and_then(types::SubnetCidrBlockState::state);
        state == Some(&types::SubnetCidrBlockStateCode::Associated)
    });
    let names = subnet.private_dns_name_options_on_launch();
    Subnet {
        id: text(subnet.subnet_id()),
        vpc_id: text(subnet.vpc_id()),
        state: subnet.state().map_or("", types::SubnetState::as_str).into(),
        zone: text(subnet.availability_zone()),
        cidr_block: text(subnet.cidr_block()),
        ipv6_cidr_blocks: ipv6_blocks.map(|block| text(block.ipv6_cidr_block())).collect(),
        assigns_ipv6: subnet.assign_ipv6_address_on_creation() == Some(true),
        assigns_public_ip: subnet.map_public_ip_on_launch() == Some(true),
        free_addresses: subnet.available_ip_address_count().unwrap_or_default(),
        outpost_arn: some_text(subnet.outpost_arn()),
        hostname_type: match names.and_then(types::PrivateDnsNameOptionsOnLaunch::hostname_type) {
            Some(types::HostnameType::IpName) => Some(HostnameType::IpName),
            Some(types::HostnameType::ResourceName) => Some(HostnameType::ResourceName),
            _ => None,
        },
        tags: tags(subnet.tags()),
    }
}
