//! What clusters ask.

use async_trait::async_trait;
use capa_cloud::{ApiLoadBalancer, CloudError, ClusterCloud, Query, RouteTable, SecurityGroup, Subnet, Vpc};

use super::CloudClient;

#[async_trait]
impl ClusterCloud for CloudClient {
    async fn account_id(&self) -> Result<String, CloudError> {
        self.account().await
    }

    async fn vpcs(&self, query: &Query) -> Result<Vec<Vpc>, CloudError> {
        self.lookup("DescribeVpcs", query, |aws, now, query| {
            aws.manager().describe_vpcs(now, query)
        })
        .await
    }

    async fn subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        self.lookup("DescribeSubnets", query, |aws, now, query| {
            aws.manager().describe_subnets(now, query)
        })
        .await
    }

    async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        self.lookup("DescribeSecurityGroups", query, |aws, now, query| {
            aws.manager().describe_security_groups(now, query)
        })
        .await
    }

    async fn route_tables(&self, query: &Query) -> Result<Vec<RouteTable>, CloudError> {
        self.lookup("DescribeRouteTables", query, |aws, now, query| {
            aws.manager().describe_route_tables(now, query)
        })
        .await
    }

    async fn load_balancer(&self, _: &str) -> Result<Option<ApiLoadBalancer>, CloudError> {
        Ok(None)
    }

    async fn classic_load_balancer(&self, _: &str) -> Result<bool, CloudError> {
        Ok(false)
    }
}
