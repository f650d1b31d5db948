//! Route tables.

use aws_sdk_ec2::types::{self, ResourceType};
use capa_cloud::ec2::route_table::{Call, NewRouteTarget};
use capa_cloud::ec2::{Route, RouteTable, RouteTableAssociation, RouteTarget};
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, Query};

use super::managed::{made, tag_specification};
use super::{Ec2Calls, SMALL_PAGE_SIZE, filters, some_text, tags, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    pub(crate) async fn route_tables(&self, query: &Query) -> Result<Vec<RouteTable>, CloudError> {
        self.runner
            .describe("DescribeRouteTables", query, |permit, token| async move {
                let request = self.client.describe_route_tables().set_filters(filters(query));
                let request = request.max_results(SMALL_PAGE_SIZE).set_next_token(token);
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page { items: answer.route_tables().iter().map(route_table).collect(), next: answer.next_token })
            })
            .await
    }

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

fn route_table(table: &types::RouteTable) -> RouteTable {
    let associations = || table.associations().iter().filter(|association| is_in_use(association));
    RouteTable {
        id: text(table.route_table_id()),
        vpc_id: text(table.vpc_id()),
        is_main: associations().any(|association| association.main() == Some(true)),
        associations: associations().filter_map(with_subnet).collect(),
        routes: table.routes().iter().map(route).collect(),
        tags: tags(table.tags()),
    }
}

/// Whether the association is in use. An association without a state counts as in use.
fn is_in_use(association: &types::RouteTableAssociation) -> bool {
    let state = association.association_state();
    !matches!(
        state.and_then(types::RouteTableAssociationState::state),
        Some(
            types::RouteTableAssociationStateCode::Disassociating
                | types::RouteTableAssociationStateCode::Disassociated
                | types::RouteTableAssociationStateCode::Failed
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

fn route(route: &types::Route) -> Route {
    let destination = route.destination_cidr_block().or_else(|| route.destination_ipv6_cidr_block());
    Route {
        destination: text(destination.or_else(|| route.destination_prefix_list_id())),
        target: target(route),
        is_blackhole: route.state() == Some(&types::RouteState::Blackhole),
    }
}

fn target(route: &types::Route) -> RouteTarget {
    if let Some(id) = some_text(route.nat_gateway_id()) {
        return RouteTarget::NatGateway(id);
    }
    if let Some(id) = some_text(route.transit_gateway_id()) {
        return RouteTarget::TransitGateway(id);
    }
    if let Some(id) = some_text(route.egress_only_internet_gateway_id()) {
        return RouteTarget::EgressOnlyInternetGateway(id);
    }
    // AWS also shows the network interface for a route to an instance.
    let instance = some_text(route.instance_id());
    if let Some(id) = instance.or_else(|| some_text(route.network_interface_id())) {
        return RouteTarget::Appliance(id);
    }
    match some_text(route.gateway_id()) {
        Some(id) if id == "local" => RouteTarget::Local,
        Some(id) if id.starts_with("igw-") => RouteTarget::InternetGateway(id),
        Some(id) if id.starts_with("vpce-") => RouteTarget::VpcEndpoint(id),
        Some(id) => RouteTarget::Other(id),
        None => {
            let others = [
                route.vpc_peering_connection_id(),
                route.local_gateway_id(),
                route.carrier_gateway_id(),
                route.core_network_arn(),
                route.odb_network_arn(),
            ];
            RouteTarget::Other(others.into_iter().find_map(some_text).unwrap_or_default())
        }
    }
}

/// The ids of the internet gateway and of the NAT gateway. One of them is the target, and the other is absent.
fn gateways(target: &NewRouteTarget<String>) -> (Option<String>, Option<String>) {
    match target {
        NewRouteTarget::InternetGateway(gateway) => (Some(gateway.clone()), None),
        NewRouteTarget::NatGateway(gateway) => (None, Some(gateway.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_of_a_route_is_told_by_its_field_and_its_id() {
        let builder = types::Route::builder;
        for (route, expected) in [
            (builder().gateway_id("local"), RouteTarget::Local),
            (builder().gateway_id("igw-1"), RouteTarget::InternetGateway("igw-1".to_owned())),
            (builder().gateway_id("vpce-1"), RouteTarget::VpcEndpoint("vpce-1".to_owned())),
            (builder().gateway_id("vgw-1"), RouteTarget::Other("vgw-1".to_owned())),
            (builder().nat_gateway_id("nat-1"), RouteTarget::NatGateway("nat-1".to_owned())),
            (builder().transit_gateway_id("tgw-1"), RouteTarget::TransitGateway("tgw-1".to_owned())),
            (builder().network_interface_id("eni-1"), RouteTarget::Appliance("eni-1".to_owned())),
            (builder().vpc_peering_connection_id("pcx-1"), RouteTarget::Other("pcx-1".to_owned())),
        ] {
            assert_eq!(target(&route.build()), expected);
        }
    }
}
