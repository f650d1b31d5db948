//! VPCs of managed clusters.

use aws_sdk_ec2::types::{self, AttributeBooleanValue, ResourceType};
use capa_cloud::ec2::Vpc;
use capa_cloud::ec2::vpc::{Call, DnsAttribute};
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, Query};

use super::super::{Ec2Calls, once};
use super::{is_owned, made, owned, tag_specification};

impl Ec2Calls {
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
