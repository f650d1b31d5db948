//! Route tables of managed clusters.

use aws_sdk_ec2::types::{self, ResourceType, RouteTableAssociationState, RouteTableAssociationStateCode};
use capa_cloud::ec2::route_table::{Call, RouteTarget};
use capa_cloud::ec2::{Route, RouteTable, RouteTableAssociation};
use capa_cloud::managed::Answer;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, Query};

use super::super::{Ec2Calls, some_text, tags, text};
use super::{made, tag_specification};

impl Ec2Calls {
    /// The route tables of a VPC.
    pub(super) async fn route_tables_in(&self, vpc: &str) -> Result<Vec<RouteTable>, CloudError> {
        let query = Query::filter("vpc-id", [vpc]);
        let mut shown = self.route_tables_as(&query, route_table).await?;
        shown.retain(|table| table.vpc_id == vpc);
        Ok(shown)
    }

    pub(super) async fn route_table_call(&self, permit: Permit, call: &Call<String>) -> Result<Answer, CloudError> {
        let action = permit.action;
        match call {
            Call::CreateRouteTable {
                vpc,
                client_token,
                tags,
            } => {
                let request = self.client.create_route_table().client_token(client_token);
                let tags = tag_specification(ResourceType::RouteTable, tags);
                let request = request.vpc_id(vpc).tag_specifications(tags);
                let answer = self.runner.call(permit, request.send()).await?;
                let shown = answer.route_table();
                return made(action, shown.and_then(types::RouteTable::route_table_id));
            }
            Call::CreateRoute {
                table,
                destination,
                target,
            } => {
                let (gateway, nat_gateway) = gateways(target);
                let request = self.client.create_route().route_table_id(table).set_gateway_id(gateway);
                let request = request
                    .set_nat_gateway_id(nat_gateway)
                    .destination_cidr_block(destination);
                self.runner.call(permit, request.send()).await?;
            }
            Call::ReplaceRoute {
                table,
                destination,
                target,
            } => {
                let (gateway, nat_gateway) = gateways(target);
                let request = self
                    .client
                    .replace_route()
                    .route_table_id(table)
                    .set_gateway_id(gateway);
                let request = request
                    .set_nat_gateway_id(nat_gateway)
                    .destination_cidr_block(destination);
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
        Ok(Answer::Done)
    }
}

/// The ids of the internet gateway and of the NAT gateway. One of them is the target, and the other is absent.
fn gateways(target: &RouteTarget<String>) -> (Option<String>, Option<String>) {
    match target {
        RouteTarget::InternetGateway(gateway) => (Some(gateway.clone()), None),
        RouteTarget::NatGateway(gateway) => (None, Some(gateway.clone())),
    }
}

fn route_table(table: &types::RouteTable) -> RouteTable {
    let associations = || table.associations().iter().filter(|association| is_in_use(association));
    RouteTable {
        id: text(table.route_table_id()),
        vpc_id: text(table.vpc_id()),
        is_main: associations().any(|association| association.main() == Some(true)),
        associations: associations().filter_map(with_subnet).collect(),
        routes: table.routes().iter().filter_map(route).collect(),
        tags: tags(table.tags()),
    }
}

/// Whether the association is in use. An association without a state counts as in use.
fn is_in_use(association: &types::RouteTableAssociation) -> bool {
    let state = association.association_state();
    !matches!(
        state.and_then(RouteTableAssociationState::state),
        Some(
            RouteTableAssociationStateCode::Disassociating
                | RouteTableAssociationStateCode::Disassociated
                | RouteTableAssociationStateCode::Failed
        )
    )
}

/// The association if it belongs to a subnet. The main association and those of gateways have no subnet.
fn with_subnet(association: &types::RouteTableAssociation) -> Option<RouteTableAssociation> {
    Some(RouteTableAssociation {
        subnet_id: some_text(association.subnet_id())?,
        id: text(association.route_table_association_id()),
    })
}

/// The route if its destination is an IPv4 range.
fn route(route: &types::Route) -> Option<Route> {
    // AWS also shows the network interface for a route to an instance.
    let targets = [
        route.gateway_id(),
        route.nat_gateway_id(),
        route.transit_gateway_id(),
        route.instance_id(),
        route.network_interface_id(),
        route.vpc_peering_connection_id(),
        route.carrier_gateway_id(),
        route.local_gateway_id(),
        route.egress_only_internet_gateway_id(),
        route.core_network_arn(),
        route.odb_network_arn(),
    ];
    Some(Route {
        destination: some_text(route.destination_cidr_block())?,
        target: targets.into_iter().find_map(some_text).unwrap_or_default(),
    })
}
