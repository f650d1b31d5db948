//! The calls of clusters on the simulated EC2.

use async_trait::async_trait;
use capa_api::common::Tags;

use super::{SimSession, Transport};
use crate::machines::client::Client;
use capa_cloud::limits::CallRequest;
use capa_cloud::session::confirmed_account;
use capa_cloud::targets::TargetKind;
use capa_cloud::{
    ApiLoadBalancer, CloudError, ClusterCloud, MOST_TAGGED, Query, RouteTable, SecurityGroup, Subnet, Vpc,
};

#[async_trait]
impl<T: Transport> ClusterCloud for SimSession<T> {
    async fn account_id(&self) -> Result<String, CloudError> {
        let (account, _) = confirmed_account(self).await?;
        Ok(account)
    }

    async fn vpcs(&self, query: &Query) -> Result<Vec<Vpc>, CloudError> {
        self.describe("DescribeVpcs", query, |client, now, query| {
            client.describe_vpcs(now, query)
        })
        .await
    }

    async fn subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        self.describe("DescribeSubnets", query, |client, now, query| {
            client.describe_subnets(now, query)
        })
        .await
    }

    async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        self.describe("DescribeSecurityGroups", query, |client, now, query| {
            client.describe_security_groups(now, query)
        })
        .await
    }

    async fn route_tables(&self, query: &Query) -> Result<Vec<RouteTable>, CloudError> {
        self.describe("DescribeRouteTables", query, |client, now, query| {
            client.describe_route_tables(now, query)
        })
        .await
    }

    async fn load_balancer(&self, name: &str) -> Result<Option<ApiLoadBalancer>, CloudError> {
        self.describe_load_balancer(name).await
    }

    async fn classic_load_balancers(&self, names: &[String]) -> Result<bool, CloudError> {
        let about = names.join(" ");
        let turn = CallRequest::load_balancer(&self.flow, &about);
        let permit = self.rates.acquire(&turn, self.now())?;
        let names = names.to_vec();
        let effect = move |client: &mut Client<'_>, now| client.classic_load_balancers(now, &names);
        self.call(permit, false, about, effect).await
    }

    async fn target_groups(&self, arns: &[String]) -> Result<Option<Vec<(String, TargetKind)>>, CloudError> {
        let turn = CallRequest::target_groups(&self.flow, arns);
        let permit = self.rates.acquire(&turn, self.now())?;
        let (about, arns) = (arns.join(" "), arns.to_vec());
        let effect = move |client: &mut Client<'_>, now| client.target_groups(now, &arns);
        self.call(permit, false, about, effect).await
    }

    async fn target_groups_in(&self, vpc_id: &str) -> Result<Vec<(String, TargetKind)>, CloudError> {
        let turn = CallRequest::target_groups_in(&self.flow, vpc_id);
        let permit = self.rates.acquire(&turn, self.now())?;
        let vpc_id = vpc_id.to_owned();
        let about = vpc_id.clone();
        let effect = move |client: &mut Client<'_>, now| client.target_groups_in(now, &vpc_id);
        self.call(permit, false, about, effect).await
    }

    async fn target_group_tags(&self, arns: &[String]) -> Result<Vec<(String, Tags)>, CloudError> {
        let mut tags = Vec::new();
        for arns in arns.chunks(MOST_TAGGED) {
            let turn = CallRequest::target_group_tags(&self.flow, arns);
            let permit = self.rates.acquire(&turn, self.now())?;
            let (about, arns) = (arns.join(" "), arns.to_vec());
            let effect = move |client: &mut Client<'_>, now| client.target_group_tags(now, &arns);
            tags.extend(self.call(permit, false, about, effect).await?);
        }
        Ok(tags)
    }
}
