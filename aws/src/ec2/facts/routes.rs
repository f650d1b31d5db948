//! Facts about route tables, NAT gateways, network ACLs and VPC endpoints.

use aws_sdk_ec2::types;
use capa_cloud::{CloudError, Query};
use capa_preflight::facts::{AclEntry, NatGateway, NetworkAcl, Route, RouteTable, RouteTarget, VpcEndpoint};

use super::super::{Ec2Calls, PAGE_SIZE, filters, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The route tables of a VPC.
    pub(crate) async fn route_table_facts(&self, vpc_id: &str) -> Result<Vec<RouteTable>, CloudError> {
        let query = Query::filter("vpc-id", [vpc_id]);
        self.route_tables_as(&query, route_table).await
    }

    /// The NAT gateways of a VPC. Deleted ones are among them for an hour.
    pub(crate) async fn nat_gateway_facts(&self, vpc_id: &str) -> Result<Vec<NatGateway>, CloudError> {
        let query = &Query::filter("vpc-id", [vpc_id]);
        self.runner
            .describe("DescribeNatGateways", query, |permit, token| async move {
                let request = self.client.describe_nat_gateways().set_filter(filters(query));
                let request = request.max_results(PAGE_SIZE).set_next_token(token);
                let answer = self.runner.call(permit, request.send()).await?;
                let gateways = answer.nat_gateways().iter().map(|gateway| NatGateway {
                    id: text(gateway.nat_gateway_id()),
                    subnet_id: text(gateway.subnet_id()),
                    state: text(gateway.state().map(types::NatGatewayState::as_str)),
                });
                Ok(Page {
                    items: gateways.collect(),
                    next: answer.next_token,
                })
            })
            .await
    }

    /// The network ACLs of a VPC.
    pub(crate) async fn network_acl_facts(&self, vpc_id: &str) -> Result<Vec<NetworkAcl>, CloudError> {
        let query = &Query::filter("vpc-id", [vpc_id]);
        self.runner
            .describe("DescribeNetworkAcls", query, |permit, token| async move {
                let request = self.client.describe_network_acls().set_filters(filters(query));
                let request = request.max_results(PAGE_SIZE).set_next_token(token);
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page {
                    items: answer.network_acls().iter().map(network_acl).collect(),
                    next: answer.next_token,
                })
            })
            .await
    }

    /// The endpoints of a VPC.
    pub(crate) async fn vpc_endpoint_facts(&self, vpc_id: &str) -> Result<Vec<VpcEndpoint>, CloudError> {
        let query = &Query::filter("vpc-id", [vpc_id]);
        self.runner
            .describe("DescribeVpcEndpoints", query, |permit, token| async move {
                let request = self.client.describe_vpc_endpoints().set_filters(filters(query));
                let request = request.max_results(PAGE_SIZE).set_next_token(token);
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page {
                    items: answer.vpc_endpoints().iter().map(vpc_endpoint).collect(),
                    next: answer.next_token,
                })
            })
            .await
    }
}

fn route_table(table: &types::RouteTable) -> RouteTable {
    let associations = table.associations();
    let subnets = associations.iter().filter_map(types::RouteTableAssociation::subnet_id);
    RouteTable {
        id: text(table.route_table_id()),
        is_main: associations.iter().any(|association| association.main() == Some(true)),
        subnet_ids: subnets.map(str::to_owned).collect(),
        routes: table.routes().iter().map(route).collect(),
    }
}

fn route(route: &types::Route) -> Route {
    let destination = route
        .destination_cidr_block()
        .or_else(|| route.destination_ipv6_cidr_block());
    Route {
        destination: text(destination.or_else(|| route.destination_prefix_list_id())),
        target: target(route),
        is_blackhole: route.state() == Some(&types::RouteState::Blackhole),
    }
}

fn target(route: &types::Route) -> RouteTarget {
    let owned = str::to_owned;
    if let Some(id) = route.nat_gateway_id() {
        return RouteTarget::NatGateway(owned(id));
    }
    if let Some(id) = route.transit_gateway_id() {
        return RouteTarget::TransitGateway(owned(id));
    }
    if let Some(id) = route.egress_only_internet_gateway_id() {
        return RouteTarget::EgressOnlyInternetGateway(owned(id));
    }
    if let Some(id) = route.network_interface_id().or_else(|| route.instance_id()) {
        return RouteTarget::Appliance(owned(id));
    }
    match route.gateway_id() {
        Some("local") => RouteTarget::Local,
        Some(id) if id.starts_with("igw-") => RouteTarget::InternetGateway(owned(id)),
        Some(id) if id.starts_with("vpce-") => RouteTarget::VpcEndpoint(owned(id)),
        other => {
            let other = other.or_else(|| route.vpc_peering_connection_id());
            let other = other.or_else(|| route.local_gateway_id());
            let other = other.or_else(|| route.carrier_gateway_id());
            let other = other.or_else(|| route.core_network_arn());
            RouteTarget::Other(text(other))
        }
    }
}

fn network_acl(list: &types::NetworkAcl) -> NetworkAcl {
    let subnets = list
        .associations()
        .iter()
        .filter_map(types::NetworkAclAssociation::subnet_id);
    NetworkAcl {
        id: text(list.network_acl_id()),
        subnet_ids: subnets.map(str::to_owned).collect(),
        entries: list.entries().iter().map(acl_entry).collect(),
    }
}

fn acl_entry(entry: &types::NetworkAclEntry) -> AclEntry {
    let ports = entry.port_range().and_then(|range| {
        let port = |port: Option<i32>| u16::try_from(port?).ok();
        port(range.from()).zip(port(range.to()))
    });
    AclEntry {
        number: entry.rule_number().unwrap_or_default(),
        is_egress: entry.egress() == Some(true),
        allows: entry.rule_action() == Some(&types::RuleAction::Allow),
        protocol: text(entry.protocol()),
        cidr_block: text(entry.cidr_block().or_else(|| entry.ipv6_cidr_block())),
        ports,
    }
}

fn vpc_endpoint(endpoint: &types::VpcEndpoint) -> VpcEndpoint {
    // The name is `com.amazonaws.<region>.<service>`.
    let service = endpoint.service_name().unwrap_or_default().splitn(4, '.').nth(3);
    let groups = endpoint
        .groups()
        .iter()
        .filter_map(types::SecurityGroupIdentifier::group_id);
    VpcEndpoint {
        id: text(endpoint.vpc_endpoint_id()),
        service: text(service.or_else(|| endpoint.service_name())),
        endpoint_type: text(endpoint.vpc_endpoint_type().map(types::VpcEndpointType::as_str)),
        state: text(endpoint.state().map(types::State::as_str)),
        has_private_dns: endpoint.private_dns_enabled() == Some(true),
        subnet_ids: endpoint.subnet_ids().to_vec(),
        security_group_ids: groups.map(str::to_owned).collect(),
        route_table_ids: endpoint.route_table_ids().to_vec(),
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
            (
                builder().gateway_id("igw-1"),
                RouteTarget::InternetGateway("igw-1".to_owned()),
            ),
            (
                builder().gateway_id("vpce-1"),
                RouteTarget::VpcEndpoint("vpce-1".to_owned()),
            ),
            (builder().gateway_id("vgw-1"), RouteTarget::Other("vgw-1".to_owned())),
            (
                builder().nat_gateway_id("nat-1"),
                RouteTarget::NatGateway("nat-1".to_owned()),
            ),
            (
                builder().transit_gateway_id("tgw-1"),
                RouteTarget::TransitGateway("tgw-1".to_owned()),
            ),
            (
                builder().network_interface_id("eni-1"),
                RouteTarget::Appliance("eni-1".to_owned()),
            ),
            (
                builder().vpc_peering_connection_id("pcx-1"),
                RouteTarget::Other("pcx-1".to_owned()),
            ),
        ] {
            assert_eq!(target(&route.build()), expected);
        }
    }

    #[test]
    fn the_service_of_an_endpoint_has_no_prefix_of_the_region() {
        for (name, expected) in [
            ("com.amazonaws.eu-west-1.ecr.api", "ecr.api"),
            ("com.amazonaws.eu-west-1.s3", "s3"),
            ("aws.example", "aws.example"),
        ] {
            let shown = types::VpcEndpoint::builder().service_name(name).build();
            assert_eq!(vpc_endpoint(&shown).service, expected);
        }
    }
}
