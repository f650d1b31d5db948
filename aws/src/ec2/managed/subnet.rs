//! Subnets of managed clusters.

use aws_sdk_ec2::types::{self, AttributeBooleanValue, ResourceType};
use capa_cloud::ec2::Subnet;
use capa_cloud::ec2::subnet::{Attribute, Call};
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, Query};

use super::super::Ec2Calls;
use super::{made, tag_specification};

impl Ec2Calls {
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
