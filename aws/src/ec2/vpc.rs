//! VPCs.

use aws_sdk_ec2::types::{self, AttributeBooleanValue, ResourceType};
use capa_cloud::ec2::vpc::{Call, DnsAttribute};
use capa_cloud::ec2::{Vpc, VpcDns};
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, Query};
use futures::future::try_join;

use super::managed::{is_owned, made, owned, tag_specification};
use super::{Ec2Calls, PAGE_SIZE, filters, once, tags, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    pub(crate) async fn vpcs(&self, query: &Query) -> Result<Vec<Vpc>, CloudError> {
        self.runner
            .describe("DescribeVpcs", query, |permit, token| async move {
                let request = self.client.describe_vpcs().set_filters(filters(query)).max_results(PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
                Ok(Page { items: answer.vpcs().iter().map(vpc).collect(), next: answer.next_token })
            })
            .await
    }

    /// The DNS attributes of a VPC: two calls, because each call answers one attribute.
    pub(crate) async fn vpc_dns(&self, id: &str) -> Result<VpcDns, CloudError> {
        let support = self.vpc_attribute(id, types::VpcAttributeName::EnableDnsSupport);
        let hostnames = self.vpc_attribute(id, types::VpcAttributeName::EnableDnsHostnames);
        let (support, hostnames) = try_join(support, hostnames).await?;
        Ok(VpcDns { support, hostnames })
    }

    /// Whether an attribute of a VPC is on.
    async fn vpc_attribute(&self, id: &str, name: types::VpcAttributeName) -> Result<bool, CloudError> {
        let query = Query::filter(name.as_str(), [id]);
        let name = &name;
        let values = self.runner.describe("DescribeVpcAttribute", &query, |permit, _| async move {
            let request = self.client.describe_vpc_attribute().vpc_id(id).attribute(name.clone());
            let answer = self.runner.call(permit, request.send()).await?;
            let value = match name {
                types::VpcAttributeName::EnableDnsSupport => answer.enable_dns_support(),
                _ => answer.enable_dns_hostnames(),
            };
            Ok(Page::only([value.and_then(types::AttributeBooleanValue::value)]))
        });
        Ok(values.await?.into_iter().any(|value| value == Some(true)))
    }

    /// The VPC with this id; empty if AWS shows none.
    pub(super) async fn vpc_with_id(&self, id: &str) -> Result<Vec<Vpc>, CloudError> {
        let mut shown = self.vpcs(&Query::filter("vpc-id", [id])).await?;
        shown.retain(|vpc| vpc.id == id);
        Ok(shown)
    }

    /// The VPCs that a cluster owns.
    pub(super) async fn owned_vpcs(&self, tag: &str) -> Result<Vec<Vpc>, CloudError> {
        let mut shown = self.vpcs(&owned(tag)).await?;
        shown.retain(|vpc| is_owned(&vpc.tags, tag));
        Ok(shown)
    }

    pub(super) async fn vpc_call(&self, permit: Permit, call: &Call<String>) -> Result<ChangeAnswer, CloudError> {
        let action = permit.action;
        match call {
            Call::CreateVpc { cidr_block, tags } => {
                let request = self.client.create_vpc().cidr_block(cidr_block);
                let request = request.tag_specifications(tag_specification(ResourceType::Vpc, tags));
                let call = request.customize().config_override(once()).send();
                let answer = self.runner.call(permit, call).await?;
                return made(action, answer.vpc().and_then(types::Vpc::vpc_id));
            }
            Call::ModifyVpcAttribute { vpc, attribute } => {
                let on = AttributeBooleanValue::builder().value(true).build();
                let request = self.client.modify_vpc_attribute().vpc_id(vpc);
                let request = match attribute {
                    DnsAttribute::Support => request.enable_dns_support(on),
                    DnsAttribute::Hostnames => request.enable_dns_hostnames(on),
                };
                self.runner.call(permit, request.send()).await?;
            }
            Call::AssociateVpcCidrBlock { vpc, cidr_block } => {
                let request = self.client.associate_vpc_cidr_block().vpc_id(vpc);
                self.runner.call(permit, request.cidr_block(cidr_block).send()).await?;
            }
            Call::DeleteVpc { vpc } => {
                let request = self.client.delete_vpc().vpc_id(vpc);
                self.runner.call(permit, request.send()).await?;
            }
        }
        Ok(ChangeAnswer::Done)
    }
}

/// The IPv4 ranges of a VPC in a state.
fn blocks_in(vpc: &types::Vpc, wanted: &types::VpcCidrBlockStateCode) -> Vec<String> {
    let blocks = vpc.cidr_block_association_set().iter();
    let blocks = blocks.filter(|block| {
        let state = block.cidr_block_state().and_then(|state| state.state());
        state == Some(wanted)
    });
    blocks.map(|block| text(block.cidr_block())).collect()
}

fn vpc(vpc: &types::Vpc) -> Vpc {
    let ipv6_blocks = vpc.ipv6_cidr_block_association_set().iter();
    let ipv6_blocks = ipv6_blocks.filter(|block| {
        let state = block.ipv6_cidr_block_state().and_then(|state| state.state());
        state == Some(&types::VpcCidrBlockStateCode::Associated)
    });
    let mut cidr_blocks = blocks_in(vpc, &types::VpcCidrBlockStateCode::Associated);
    cidr_blocks.sort_by_key(|block| vpc.cidr_block() != Some(block.as_str()));
    Vpc {
        id: text(vpc.vpc_id()),
        state: vpc.state().map_or("", types::VpcState::as_str).into(),
        owner_id: text(vpc.owner_id()),
        cidr_blocks,
        associating_cidr_blocks: blocks_in(vpc, &types::VpcCidrBlockStateCode::Associating),
        ipv6_cidr_blocks: ipv6_blocks.map(|block| text(block.ipv6_cidr_block())).collect(),
        tenancy: vpc.instance_tenancy().and_then(|tenancy| tenancy.as_str().parse().ok()).unwrap_or_default(),
        // A VPC without DHCP options has the id `default`.
        dhcp_options_id: vpc.dhcp_options_id().filter(|id| id.starts_with("dopt-")).map(str::to_owned),
        tags: tags(vpc.tags()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_associated_blocks_count() {
        let block = |cidr: &str, state: types::VpcCidrBlockStateCode| {
            types::VpcCidrBlockAssociation::builder()
                .cidr_block(cidr)
                .cidr_block_state(types::VpcCidrBlockState::builder().state(state).build())
                .build()
        };
        let shown = types::Vpc::builder()
            .vpc_id("vpc-1")
            .cidr_block_association_set(block("10.0.0.0/16", types::VpcCidrBlockStateCode::Associated))
            .cidr_block_association_set(block("10.1.0.0/16", types::VpcCidrBlockStateCode::Disassociated))
            .build();
        assert_eq!(vpc(&shown).cidr_blocks, ["10.0.0.0/16"]);
    }
}
