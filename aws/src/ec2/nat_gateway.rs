//! NAT gateways.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{self, NatGatewayAddress, ResourceType};
use capa_cloud::ec2::nat_gateway::Call;
use capa_cloud::ec2::{NatGateway, NatGatewayState};
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, ElasticIp, Query};

use super::managed::{is_owned, made, owned, tag_specification};
use super::{Ec2Calls, PAGE_SIZE, filters, some_text, tags, text, timestamp};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The NAT gateways of a VPC in every state.
    pub(crate) async fn nat_gateways_in(&self, vpc: &str) -> Result<Vec<NatGateway>, CloudError> {
        let query = &Query::filter("vpc-id", [vpc]);
        let mut shown = self
            .runner
            .describe("DescribeNatGateways", query, |permit, token| async move {
                let request = self.client.describe_nat_gateways().set_filter(filters(query));
                let request = request.max_results(PAGE_SIZE).set_next_token(token);
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page { items: answer.nat_gateways().iter().map(nat_gateway).collect(), next: answer.next_token })
            })
            .await?;
        shown.retain(|gateway| gateway.vpc_id == vpc);
        Ok(shown)
    }

    /// The Elastic IPs that a cluster owns, and those with known ids, in the order of their ids. The tags of a new
    /// address may become visible later than the address, so a second describe reads the known ids that the first one
    /// lacks. It uses a filter, because AWS refuses a describe that names the id of a released address.
    pub(super) async fn addresses(&self, tag: &str, known: &[String]) -> Result<Vec<ElasticIp>, CloudError> {
        let owned = self.elastic_ips(&owned(tag)).await?.into_iter();
        let owned = owned.filter(|address| is_owned(&address.tags, tag));
        let mut by_id: BTreeMap<String, ElasticIp> = owned.map(by_allocation_id).collect();
        let known = known.iter().map(String::as_str);
        let missing: Vec<&str> = known.filter(|id| !by_id.contains_key(*id)).collect();
        if !missing.is_empty() {
            let query = Query::filter("allocation-id", missing.iter().copied());
            let named = self.elastic_ips(&query).await?.into_iter();
            let named = named.filter(|address| missing.contains(&address.allocation_id.as_str()));
            by_id.extend(named.map(by_allocation_id));
        }
        Ok(by_id.into_values().collect())
    }

    pub(super) async fn nat_gateway_call(
        &self,
        permit: Permit,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        let action = permit.action;
        match call {
            Call::AllocateAddress { public_ipv4_pool, tags } => {
                let answer = self.allocate_address(permit, public_ipv4_pool.clone(), tags).await?;
                return made(action, answer.allocation_id());
            }
            Call::CreateNatGateway { subnet, address, client_token, tags } => {
                let request = self.client.create_nat_gateway().client_token(client_token);
                let request = request
                    .subnet_id(subnet)
                    .allocation_id(address)
                    .tag_specifications(tag_specification(ResourceType::Natgateway, tags));
                let answer = self.runner.call(permit, request.send()).await?;
                let shown = answer.nat_gateway();
                return made(action, shown.and_then(types::NatGateway::nat_gateway_id));
            }
            Call::DeleteNatGateway { gateway } => {
                let request = self.client.delete_nat_gateway().nat_gateway_id(gateway);
                self.runner.call(permit, request.send()).await?;
            }
            Call::ReleaseAddress { address } => self.release_address(permit, address).await?,
        }
        Ok(ChangeAnswer::Done)
    }
}

fn nat_gateway(gateway: &types::NatGateway) -> NatGateway {
    let addresses = gateway.nat_gateway_addresses().iter();
    NatGateway {
        id: text(gateway.nat_gateway_id()),
        vpc_id: text(gateway.vpc_id()),
        subnet_id: text(gateway.subnet_id()),
        state: state(gateway.state()),
        failure: failure(gateway),
        created_at: gateway.create_time().and_then(timestamp),
        allocation_ids: addresses.map(NatGatewayAddress::allocation_id).filter_map(some_text).collect(),
        public_ips: gateway
            .nat_gateway_addresses()
            .iter()
            .map(NatGatewayAddress::public_ip)
            .filter_map(some_text)
            .collect(),
        tags: tags(gateway.tags()),
    }
}

/// A state that this version does not know counts as pending: such a gateway is neither used nor replaced.
fn state(state: Option<&types::NatGatewayState>) -> NatGatewayState {
    match state {
        Some(types::NatGatewayState::Available) => NatGatewayState::Available,
        Some(types::NatGatewayState::Failed) => NatGatewayState::Failed,
        Some(types::NatGatewayState::Deleting) => NatGatewayState::Deleting,
        Some(types::NatGatewayState::Deleted) => NatGatewayState::Deleted,
        _ => NatGatewayState::Pending,
    }
}

/// Code and message of a failure. AWS may show only one of them.
fn failure(gateway: &types::NatGateway) -> Option<String> {
    let parts = [gateway.failure_code(), gateway.failure_message()];
    let parts: Vec<String> = parts.into_iter().filter_map(some_text).collect();
    Some(parts.join(": ")).filter(|failure| !failure.is_empty())
}

fn by_allocation_id(address: ElasticIp) -> (String, ElasticIp) {
    (address.allocation_id.clone(), address)
}
