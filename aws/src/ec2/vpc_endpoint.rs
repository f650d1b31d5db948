//! VPC endpoints.

use aws_sdk_ec2::types;
use capa_cloud::ec2::VpcEndpoint;
use capa_cloud::{CloudError, Query};

use super::{Ec2Calls, PAGE_SIZE, filters, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The endpoints of a VPC.
    pub(crate) async fn vpc_endpoints(&self, vpc_id: &str) -> Result<Vec<VpcEndpoint>, CloudError> {
        let query = &Query::filter("vpc-id", [vpc_id]);
        self.runner
            .describe("DescribeVpcEndpoints", query, |permit, token| async move {
                let request = self.client.describe_vpc_endpoints().set_filters(filters(query));
                let request = request.max_results(PAGE_SIZE).set_next_token(token);
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page { items: answer.vpc_endpoints().iter().map(vpc_endpoint).collect(), next: answer.next_token })
            })
            .await
    }
}

fn vpc_endpoint(endpoint: &types::VpcEndpoint) -> VpcEndpoint {
    // The name is `com.amazonaws.<region>.<service>`; in China most services have the prefix `cn.`.
    let name = endpoint.service_name().unwrap_or_default();
    let service = name.strip_prefix("cn.").unwrap_or(name).splitn(4, '.').nth(3);
    let groups = endpoint.groups().iter().filter_map(types::SecurityGroupIdentifier::group_id);
    VpcEndpoint {
        id: text(endpoint.vpc_endpoint_id()),
        service: text(service.or_else(|| endpoint.service_name())),
        endpoint_type: endpoint.vpc_endpoint_type().map_or("", types::VpcEndpointType::as_str).into(),
        state: endpoint.state().map_or("", types::State::as_str).into(),
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
    fn the_service_of_an_endpoint_has_no_prefix_of_the_region() {
        for (name, expected) in [
            ("com.amazonaws.eu-west-1.ecr.api", "ecr.api"),
            ("com.amazonaws.eu-west-1.s3", "s3"),
            ("com.amazonaws.cn-north-1.s3", "s3"),
            ("cn.com.amazonaws.cn-north-1.ecr.api", "ecr.api"),
            ("aws.example", "aws.example"),
        ] {
            let shown = types::VpcEndpoint::builder().service_name(name).build();
            assert_eq!(vpc_endpoint(&shown).service, expected);
        }
    }
}
