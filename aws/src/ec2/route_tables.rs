//! Route tables.

use aws_sdk_ec2::types;
use capa_cloud::{CloudError, Query, RouteTable};

use super::{Ec2Calls, SMALL_PAGE_SIZE, filters, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    pub(crate) async fn route_tables(&self, query: &Query) -> Result<Vec<RouteTable>, CloudError> {
        self.route_tables_as(query, route_table).await
    }

    /// The same route tables in the form that `convert` gives them.
    pub(super) async fn route_tables_as<T>(
        &self,
        query: &Query,
        convert: fn(&types::RouteTable) -> T,
    ) -> Result<Vec<T>, CloudError> {
        self.runner
            .describe("DescribeRouteTables", query, |permit, token| async move {
                let request = self.client.describe_route_tables().set_filters(filters(query));
                let request = request.max_results(SMALL_PAGE_SIZE).set_next_token(token);
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page {
                    items: answer.route_tables().iter().map(convert).collect(),
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
        vpc_id: text(table.vpc_id()),
        main: associations.iter().any(|association| association.main() == Some(true)),
        subnet_ids: subnets.map(str::to_owned).collect(),
        internet_gateway_route: table.routes().iter().any(leads_to_the_internet),
    }
}

fn leads_to_the_internet(route: &types::Route) -> bool {
    let default =
        route.destination_cidr_block() == Some("0.0.0.0/0") || route.destination_ipv6_cidr_block() == Some("::/0");
    default && route.gateway_id().is_some_and(|gateway| gateway.starts_with("igw-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_route_to_an_internet_gateway_makes_a_table_public() {
        let table = |destination: &str, gateway: &str| {
            let route = types::Route::builder()
                .destination_cidr_block(destination)
                .gateway_id(gateway)
                .build();
            route_table(&types::RouteTable::builder().routes(route).build()).internet_gateway_route
        };
        assert!(table("0.0.0.0/0", "igw-1"));
        assert!(!table("10.0.0.0/8", "igw-1"));
        assert!(!table("0.0.0.0/0", "vgw-1"));
        let ipv6 = types::Route::builder()
            .destination_ipv6_cidr_block("::/0")
            .gateway_id("igw-1")
            .build();
        assert!(route_table(&types::RouteTable::builder().routes(ipv6).build()).internet_gateway_route);
    }
}
