//! Route tables of managed clusters.

use aws_sdk_ec2::types::{self, ResourceType};
use capa_cloud::ec2::RouteTable;
use capa_cloud::ec2::route_table::{Call, NewRouteTarget};
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, Query};

use super::super::Ec2Calls;
use super::{made, tag_specification};

impl Ec2Calls {
    /// The route tables of a VPC.
    pub(super) async fn route_tables_in(&self, vpc: &str) -> Result<Vec<RouteTable>, CloudError> {
        let query = Query::filter("vpc-id", [vpc]);
        let mut shown = self.route_tables(&query).await?;
        shown.retain(|table| table.vpc_id == vpc);
        Ok(shown)
    }

    pub(super) async fn route_table_call(
        &self,
        permit: Permit,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        let action = permit.action;
        match call {
            Call::CreateRouteTable { vpc, client_token, tags } => {
                let request = self.client.create_route_table().client_token(client_token);
                let tags = tag_specification(ResourceType::RouteTable, tags);
                let request = request.vpc_id(vpc).tag_specifications(tags);
                let answer = self.runner.call(permit, request.send()).await?;
                let shown = answer.route_table();
                return made(action, shown.and_then(types::RouteTable::route_table_id));
            }
            Call::CreateRoute { table, destination, target } => {
                let (gateway, nat_gateway) = gateways(target);
                let request = self.client.create_route().route_table_id(table).set_gateway_id(gateway);
                let request = request.set_nat_gateway_id(nat_gateway).destination_cidr_block(destination);
                self.runner.call(permit, request.send()).await?;
            }
            Call::ReplaceRoute { table, destination, target } => {
                let (gateway, nat_gateway) = gateways(target);
                let request = self.client.replace_route().route_table_id(table).set_gateway_id(gateway);
                let request = request.set_nat_gateway_id(nat_gateway).destination_cidr_block(destination);
                self.runner.call(permit, request.send()).await?;
            }
            Call::AssociateRouteTable { table, subnet } => {
                let request = self.client.associate_route_table().route_table_id(table);
                self.runner.call(permit, request.subnet_id(subnet).send()).await?;
            }
            Call::ReplaceRouteTableAssociation { association, table } => {
                let request = self.client.replace_route_table_association();
                let request = request.association_id(association).route_table_id(table);
                self.runner.call(permit, request.send()).await?;
            }
            Call::DisassociateRouteTable { association } => {
                let request = self.client.disassociate_route_table().association_id(association);
                self.runner.call(permit, request.send()).await?;
            }
            Call::DeleteRouteTable { table } => {
                let request = self.client.delete_route_table().route_table_id(table);
                self.runner.call(permit, request.send()).await?;
            }
        }
        Ok(ChangeAnswer::Done)
    }
}

/// The ids of the internet gateway and of the NAT gateway. One of them is the target, and the other is absent.
fn gateways(target: &NewRouteTarget<String>) -> (Option<String>, Option<String>) {
    match target {
        NewRouteTarget::InternetGateway(gateway) => (Some(gateway.clone()), None),
        NewRouteTarget::NatGateway(gateway) => (None, Some(gateway.clone())),
    }
}
